//! Reading numbers and fields out of bytes, without copying or allocating.

use super::record::Expected;

/// What is left of a line. Every method takes from the front.
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte of `line`.
    pub fn new(line: &'a [u8]) -> Self {
        Cursor { rest: line }
    }

    /// Whether nothing but blanks is left.
    pub fn is_done(&self) -> bool {
        self.rest.iter().all(u8::is_ascii_whitespace)
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes a decimal number; `None` without a digit or above `u64::MAX`.
    #[inline]
    pub fn uint(&mut self) -> Option<u64> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        if digits == 0 {
            return None;
        }
        // Up to 19 digits always fit.
        let value = if digits <= 19 {
            number.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
        } else {
            number.iter().try_fold(0_u64, |value, digit| {
                value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
            })?
        };
        self.rest = rest;
        Some(value)
    }

    /// Takes a hexadecimal number without prefix.
    pub fn hex(&mut self) -> Option<u64> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if digits == 0 || digits > 16 {
            return None;
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let digit = |byte: &u8| u64::from((*byte as char).to_digit(16).unwrap_or(0));
        Some(number.iter().fold(0, |value, byte| value << 4 | digit(byte)))
    }

    /// Takes a decimal number, or a hexadecimal one after `0x`.
    pub fn uint_or_hex(&mut self) -> Option<u64> {
        if let Some(rest) = self.rest.strip_prefix(b"0x").or(self.rest.strip_prefix(b"0X")) {
            self.rest = rest;
            return self.hex();
        }
        self.uint()
    }

    /// Takes a number such as `12`, `12.345` or `1.2e-05` in units of `unit_ns` nanoseconds; the result is in whole
    /// nanoseconds, cut (rounded with an exponent).
    #[inline]
    pub fn clock(&mut self, unit_ns: u64) -> Option<u64> {
        let start = self.rest;
        let mut total = self.uint()?.checked_mul(unit_ns)?;
        if let Some(fraction) = self.rest.strip_prefix(b".") {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let mut weight = unit_ns;
            let mut remainder = 0_u128;
            // Units are powers of ten, so `weight` stays exact until it has become 0.
            for digit in &fraction[..digits] {
                weight /= 10;
                remainder += u128::from(weight) * u128::from(digit - b'0');
            }
            total = total.checked_add(u64::try_from(remainder).ok()?)?;
            self.rest = &fraction[digits..];
        }
        if matches!(self.rest.first(), Some(b'e' | b'E')) {
            return self.clock_with_exponent(start, unit_ns);
        }
        Some(total)
    }

    fn clock_with_exponent(&mut self, start: &'a [u8], unit_ns: u64) -> Option<u64> {
        let is_part = |byte: &u8| byte.is_ascii_digit() || b".eE+-".contains(byte);
        let end = start.iter().take_while(|byte| is_part(byte)).count();
        let value: f64 = std::str::from_utf8(&start[..end]).ok()?.parse().ok()?;
        let nanos = (value * unit_ns as f64).round();
        self.rest = &start[end..];
        (nanos >= 0.0 && nanos < u64::MAX as f64).then_some(nanos as u64)
    }

    /// Takes exactly `byte`.
    #[inline]
    pub fn byte(&mut self, byte: u8) -> Option<()> {
        match self.rest.split_first() {
            Some((&first, rest)) if first == byte => {
                self.rest = rest;
                Some(())
            }
            _ => None,
        }
    }

    /// Takes the one byte before a comma, and the comma.
    #[inline]
    pub fn letter(&mut self) -> Option<u8> {
        match self.rest {
            [letter, b',', rest @ ..] => {
                self.rest = rest;
                Some(*letter)
            }
            _ => None,
        }
    }

    /// Takes a decimal number and the comma behind it.
    #[inline]
    pub fn uint_comma(&mut self) -> Option<u64> {
        let value = self.uint()?;
        self.byte(b',')?;
        Some(value)
    }

    /// Takes a decimal number and the comma behind it. What is missing is `this`, or the `next` column if the line ends
    /// behind the number.
    #[inline]
    pub fn uint_then(&mut self, this: Expected, next: Expected) -> Result<u64, Expected> {
        let value = self.uint().ok_or(this)?;
        match self.byte(b',') {
            Some(()) => Ok(value),
            None => Err(if self.is_done() { next } else { this }),
        }
    }

    /// Takes a csv field and the comma behind it, if there is one.
    pub fn field(&mut self) -> &'a [u8] {
        let end = memchr::memchr(b',', self.rest).unwrap_or(self.rest.len());
        let (field, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix(b",").unwrap_or(rest);
        field
    }

    /// Takes a decimal number at the end of a csv field: a comma or the end of the line must follow.
    #[inline]
    pub fn uint_last(&mut self) -> Option<u64> {
        let value = self.uint()?;
        matches!(self.rest.first(), None | Some(b',' | b' ' | b'\t')).then_some(value)
    }

    /// Skips blanks and takes everything up to the next blank; empty at the end.
    pub fn token(&mut self) -> &'a [u8] {
        let blanks = self.rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let rest = &self.rest[blanks..];
        let length = rest.iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
        let (token, rest) = rest.split_at(length);
        self.rest = rest;
        token
    }

    /// Takes a blank-separated decimal number. Without a number, the position of the rest is unspecified.
    #[inline]
    pub fn token_uint(&mut self) -> Option<u64> {
        while let [b' ' | b'\t' | b'\n' | b'\x0C' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
        let (mut value, mut rest) = (0_u64, self.rest);
        // Up to 19 digits always fit.
        while let [digit @ b'0'..=b'9', more @ ..] = rest
            && self.rest.len() - rest.len() < 19
        {
            value = value * 10 + u64::from(digit - b'0');
            rest = more;
        }
        match rest {
            [b' ' | b'\t' | b'\n' | b'\x0C' | b'\r', ..] | [] if rest.len() < self.rest.len() => {
                self.rest = rest;
                Some(value)
            }
            _ => whole_uint(self.token()),
        }
    }
}

/// A decimal number that fills all of `bytes`.
pub(super) fn whole_uint(bytes: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(bytes);
    let value = cursor.uint()?;
    cursor.rest().is_empty().then_some(value)
}

/// A clock reading that fills all of `bytes`; see [`Cursor::clock`].
pub(super) fn whole_clock(bytes: &[u8], unit_ns: u64) -> Option<u64> {
    let mut cursor = Cursor::new(bytes);
    let value = cursor.clock(unit_ns)?;
    cursor.rest().is_empty().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_between_blanks_are_those_of_whole_tokens() {
        for text in [
            "",
            "  ",
            "0",
            " 12 ",
            "\t7\n",
            "12x",
            "x",
            "-1",
            "+ 8",
            "00000000000000000000000012 ",
            "9999999999999999999",
            "10000000000000000000",
            "18446744073709551615 1",
            "18446744073709551616",
            "5\u{b}6",
        ] {
            let mut cursor = Cursor::new(text.as_bytes());
            let mut same = Cursor::new(text.as_bytes());
            let expected = whole_uint(same.token());
            assert_eq!(cursor.token_uint(), expected, "{text:?}");
            if expected.is_some() {
                assert_eq!(cursor.rest(), same.rest(), "{text:?}");
            }
        }
    }

    #[test]
    fn numbers_stop_at_the_edge_of_64_bits() {
        assert_eq!(whole_uint(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(whole_uint(b"18446744073709551616"), None);
        assert_eq!(whole_uint(b"99999999999999999999999"), None);
        assert_eq!(whole_uint(b"00000000000000000000000012"), Some(12));
        for text in [&b""[..], b"-1", b"1x", b" 1"] {
            assert_eq!(whole_uint(text), None);
        }
    }

    #[test]
    fn clocks_keep_every_digit_a_nanosecond_has_room_for() {
        assert_eq!(whole_clock(b"1.5", 1_000_000_000), Some(1_500_000_000));
        assert_eq!(
            whole_clock(b"1455592300.008240123999", 1_000_000_000),
            Some(1_455_592_300_008_240_123)
        );
        assert_eq!(whole_clock(b"0.25", 1_000_000), Some(250_000));
        assert_eq!(whole_clock(b"7", 1_000), Some(7_000));
        assert_eq!(whole_clock(b"1.2e-05", 1_000_000_000), Some(12_000));
        for text in [&b"1e400"[..], b"1e", b".5", b"-1", b"1..2"] {
            assert_eq!(whole_clock(text, 1_000), None, "{text:?}");
        }
    }

    #[test]
    fn hexadecimal_needs_its_prefix_only_where_both_are_allowed() {
        assert_eq!(Cursor::new(b"2a,").hex(), Some(0x2a));
        assert_eq!(Cursor::new(b"0x10 ").uint_or_hex(), Some(16));
        assert_eq!(Cursor::new(b"10 ").uint_or_hex(), Some(10));
        assert_eq!(Cursor::new(b"11112222333344445").hex(), None);
    }
}
