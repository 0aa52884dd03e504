//! What a curve shows of the drive that wrote it.

use thermocline_types::Bytes;

use super::Curve;

/// Media bytes above host bytes at which relocation has begun, by the capacity: 1 GB on a drive of 7.68 TB.
const RELOCATED: f64 = 1.3e-4;
/// Fills at which a trimmed drive has relocated nothing yet.
const TRIMMED: f64 = 0.98;
/// Media bytes above host bytes until then, by the capacity, that show a drive that was not trimmed.
const BEFORE: f64 = 0.02;
/// Units that a capacity may have, for a step of the erase counter to be one.
const UNITS: std::ops::RangeInclusive<f64> = 16.0..=1e6;

/// Where relocation begins, in fills: host bytes by capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Onset {
    /// Between two counts.
    Between {
        /// Fills of the count before.
        low: f64,
        /// Fills of the count after.
        high: f64,
    },
    /// Not within so many fills.
    NotWithin(f64),
    /// Before the drive was filled: it held data when the log began.
    AtOnce,
}

/// What a curve shows of a drive of known capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown {
    /// Where relocation begins.
    pub onset: Onset,
    /// Unit of erasure: the greatest common divisor of all steps of the erase counter.
    pub unit: Option<Bytes>,
    /// Host bytes by capacity of the whole curve.
    pub fills: f64,
}

impl Shown {
    /// What `curve` shows of a drive of `capacity`.
    #[must_use]
    pub fn of(curve: &Curve, capacity: Bytes) -> Shown {
        let capacity = capacity.as_f64();
        Shown {
            onset: onset(curve, capacity),
            unit: unit(curve, capacity),
            fills: curve.host_bytes() / capacity,
        }
    }
}

fn onset(curve: &Curve, capacity: f64) -> Onset {
    let excess = curve.points().map(|[host, media]| (host / capacity, (media - host) / capacity));
    // Metadata of the drive and its mean cost for each byte: no relocation.
    let (mut low, mut cost) = (0.0, 0.0);
    for (fills, excess) in excess {
        if fills <= TRIMMED {
            if excess > BEFORE {
                return Onset::AtOnce;
            }
            cost = if fills > 0.0 { (excess / fills).max(0.0) } else { 0.0 };
        } else if excess - cost * fills > RELOCATED {
            return Onset::Between { low, high: fills };
        }
        low = fills;
    }
    Onset::NotWithin(low)
}

fn unit(curve: &Curve, capacity: f64) -> Option<Bytes> {
    let divisor = curve.erases().fold(0, |divisor, step| greatest_common(divisor, step as u64));
    let units = capacity / divisor as f64;
    (divisor > 0 && UNITS.contains(&units)).then_some(Bytes(divisor))
}

fn greatest_common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common(b, a % b) }
}
