//! Byte counts and byte offsets, and how people write them.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

/// A number of bytes, or a byte offset from the start of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// The granule of volumes, traces and most drives: 4 KiB.
    pub const BLOCK: Bytes = Bytes(4096);
    /// The smallest addressable piece of any block device: 512 bytes.
    pub const SECTOR: Bytes = Bytes(512);
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// `n` KiB (1024 bytes).
    #[must_use]
    pub const fn kib(n: u64) -> Bytes {
        Bytes(n << 10)
    }

    /// `n` MiB (1024² bytes).
    #[must_use]
    pub const fn mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }

    /// `n` GiB (1024³ bytes).
    #[must_use]
    pub const fn gib(n: u64) -> Bytes {
        Bytes(n << 30)
    }

    /// The count as a plain number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The count as a floating-point number, for ratios.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// The short form if it is exact, else the whole number.
    #[must_use]
    pub fn exactly(self) -> String {
        let shown = self.to_string();
        if shown.parse() == Ok(self) { shown } else { format!("{} bytes", self.0) }
    }

    /// A text without spaces that is read as the same size: in the largest unit of which it is a whole number.
    #[must_use]
    pub fn compact(self) -> String {
        let units = [(60, "EiB"), (50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let whole = units.iter().find(|(bits, _)| self.0 > 0 && self.0.trailing_zeros() >= *bits);
        whole.map_or(self.0.to_string(), |(bits, unit)| format!("{}{unit}", self.0 >> bits))
    }

    /// How many whole or started granules of size `granule` hold this many bytes.
    #[must_use]
    pub const fn div_ceil(self, granule: Bytes) -> u64 {
        self.0.div_ceil(granule.0)
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}

/// Shows at most three decimals in the largest binary unit that keeps the number above 1: `1.25 GiB`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let digits = if value.fract() == 0.0 {
            0
        } else if value >= 100.0 {
            1
        } else {
            2
        };
        f.pad(&format!("{value:.digits$} {}", UNITS[unit]))
    }
}

/// Why a text is not a byte count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseBytesError {
    text: String,
}

impl fmt::Display for ParseBytesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a size: write a number and a unit, such as 4KiB, 2MiB, 1.92TB",
            self.text
        )
    }
}

impl std::error::Error for ParseBytesError {}

/// Reads `4096`, `4KiB`, `1.5 GiB`, `1.92TB`; binary units end in `iB`, decimal ones in `B`, and a lone `K`, `M`, `G`
/// or `T` is binary, as in fio. The result must be a whole number of bytes after rounding.
impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || ParseBytesError { text: text.to_owned() };
        let trimmed = text.trim();
        let split =
            trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let factor = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1_u64,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "p" | "pib" => 1 << 50,
            "eib" => 1 << 60,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            "pb" => 1_000_000_000_000_000,
            "eb" => 1_000_000_000_000_000_000,
            _ => return Err(refuse()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(Bytes).ok_or_else(refuse);
        }
        let value: f64 = number.parse().map_err(|_| refuse())?;
        let bytes = (value * factor as f64).round();
        if bytes.is_finite() && bytes >= 0.0 && bytes < u64::MAX as f64 {
            Ok(Bytes(bytes as u64))
        } else {
            Err(refuse())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        let cases = [
            ("4096", 4096),
            ("4KiB", 4096),
            ("4k", 4096),
            ("1.5 GiB", 3 << 29),
            ("1.92TB", 1_920_000_000_000),
            ("15.36tb", 15_360_000_000_000),
            ("1EiB", 1 << 60),
            ("2EB", 2_000_000_000_000_000_000),
            ("0", 0),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest_and_quotes_it() {
        for text in ["", "GiB", "4 KiBs", "-1", "1..2GiB", "99999999999PiB", "nan"] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{text}: {error}");
        }
    }

    #[test]
    fn shows_the_largest_fitting_unit() {
        assert_eq!(Bytes(512).to_string(), "512 B");
        assert_eq!(Bytes::gib(2).to_string(), "2 GiB");
        assert_eq!(Bytes(1_342_177_280).to_string(), "1.25 GiB");
    }

    #[test]
    fn shows_exactly_what_would_be_rounded() {
        assert_eq!(Bytes(4095).exactly(), "4095 bytes");
        assert_eq!(Bytes(4096).exactly(), "4 KiB");
        assert_eq!(Bytes(1_342_177_280).exactly(), "1.25 GiB");
        assert_eq!(Bytes(u64::MAX).exactly(), "18446744073709551615 bytes");
    }

    #[test]
    fn compact_sizes_are_read_back_as_they_are() {
        for bytes in [0, 4095, 4096, 3 << 20, (1 << 30) + 4096, 1 << 42, 1 << 60] {
            let text = Bytes(bytes).compact();
            assert_eq!(text.parse::<Bytes>(), Ok(Bytes(bytes)), "{text}");
        }
    }
}
