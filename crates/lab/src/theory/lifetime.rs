//! From program/erase cycles to terabytes, drive writes per day and years.
//!
//! Ratings (TBW) are under the workload of JEDEC JESD218/219; a drive under another workload lives by its own WAF.

use thermocline_types::Bytes;

/// Days in a year of warranty, by which drive makers convert TBW and DWPD.
pub const DAYS_PER_YEAR: f64 = 365.0;

/// What a drive's NAND can take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Endurance {
    /// Program/erase cycles every block is rated for.
    pub pe_cycles: f64,
    /// Raw NAND capacity.
    pub physical: Bytes,
    /// Share of those cycles that wear levelling makes usable before the first block is worn out, above 0 and at most
    /// 1.
    pub wear_levelling_efficiency: f64,
}

impl Endurance {
    /// Bytes the media can take: `pe_cycles × physical × wear_levelling_efficiency`.
    #[must_use]
    pub fn media_bytes(self) -> f64 {
        self.pe_cycles * self.physical.as_f64() * self.wear_levelling_efficiency
    }

    /// Host bytes the drive can take (TBW, in bytes) at a device WAF of `dlwa`: `media_bytes / dlwa` (JESD218 without
    /// its retention and error-rate conditions).
    #[must_use]
    pub fn host_bytes(self, dlwa: f64) -> f64 {
        self.media_bytes() / dlwa
    }

    /// Years until the media are worn out: `media_bytes / (host bytes per day × waf × 365)`, where `waf` is the total
    /// write amplification, media ÷ host. Infinite if nothing is written.
    #[must_use]
    pub fn years(self, host_bytes_per_day: f64, waf: f64) -> f64 {
        self.media_bytes() / (host_bytes_per_day * waf * DAYS_PER_YEAR)
    }
}

/// A drive's exported capacity and the warranty its rating is spread over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warranty {
    /// Exported capacity.
    pub capacity: Bytes,
    /// Years of warranty, usually 5 for data-centre and 3 or 5 for client drives.
    pub years: f64,
}

impl Warranty {
    /// Drive writes per day that use up `host_bytes` (TBW) in the warranty: `TBW / (capacity × 365 × years)`.
    #[must_use]
    pub fn dwpd(self, host_bytes: f64) -> f64 {
        host_bytes / (self.capacity.as_f64() * DAYS_PER_YEAR * self.years)
    }

    /// Host bytes (TBW) of a rating in drive writes per day: `DWPD × 365 × years × capacity`.
    #[must_use]
    pub fn host_bytes(self, dwpd: f64) -> f64 {
        dwpd * DAYS_PER_YEAR * self.years * self.capacity.as_f64()
    }
}

/// Share of the media's life used up per year, 0..: the reciprocal of [`Endurance::years`].
#[must_use]
pub fn wear_per_year(endurance: Endurance, host_bytes_per_day: f64, waf: f64) -> f64 {
    1.0 / endurance.years(host_bytes_per_day, waf)
}

/// Host bytes per day that spend what is left of a rating exactly by the end of service: the set point of a write
/// governor.
#[must_use]
pub fn daily_budget(remaining_host_bytes: f64, remaining_service_days: f64) -> f64 {
    remaining_host_bytes / remaining_service_days
}

#[cfg(test)]
mod tests {
    use super::*;

    const TB: f64 = 1e12;

    /// Datasheet pairs: Samsung PM9D3a 7.68 TB, 1 DWPD = 14,016 TBW; Solidigm P5316 30.72 TB, 22,930 TBW = 0.409 DWPD.
    #[test]
    fn converts_ratings_as_datasheets_do() {
        let pm9d3a = Warranty { capacity: Bytes(7_680_000_000_000), years: 5.0 };
        assert!((pm9d3a.host_bytes(1.0) / TB - 14_016.0).abs() < 0.5);
        let p5316 = Warranty { capacity: Bytes(30_720_000_000_000), years: 5.0 };
        assert!((p5316.dwpd(22_930.0 * TB) - 0.409).abs() < 0.5e-3);
    }

    #[test]
    fn years_rating_and_budget_agree() {
        let endurance = Endurance {
            pe_cycles: 3_000.0,
            physical: Bytes(1 << 40),
            wear_levelling_efficiency: 0.9,
        };
        let waf = 2.5;
        let per_day = endurance.host_bytes(waf) / (5.0 * DAYS_PER_YEAR);
        assert!((endurance.years(per_day, waf) - 5.0).abs() < 1e-9);
        assert!((wear_per_year(endurance, per_day, waf) - 0.2).abs() < 1e-12);
        assert!(
            (daily_budget(endurance.host_bytes(waf), 5.0 * DAYS_PER_YEAR) - per_day).abs() < 1.0
        );
        assert!((endurance.media_bytes() - 3_000.0 * 0.9 * (1_u64 << 40) as f64).abs() < 1.0);
        assert!(endurance.years(0.0, waf).is_infinite());
    }
}
