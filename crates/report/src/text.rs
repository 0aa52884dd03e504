//! Text for people: escaping, and numbers with three significant digits.
//!
//! Amounts of data are in binary units (GiB), rates in decimal ones (MB/s), as data sheets have them.

/// Stands for a figure that the record does not hold.
pub(crate) const UNKNOWN: &str = "unknown";
/// Stands for a figure that needs time, of a run without it.
pub(crate) const NOT_MODELLED: &str = "not modelled";

/// Text as HTML: safe between tags and inside a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// A number with three significant digits; above 1000 as a whole number.
pub(crate) fn significant(x: f64) -> String {
    if !x.is_finite() {
        return UNKNOWN.to_owned();
    }
    let size = x.abs();
    let decimals = match size {
        _ if size < 1e-9 => return "0".to_owned(),
        _ if size < 0.000_999_5 => return format!("{x:.2e}"),
        _ if size < 0.009_995 => 5,
        _ if size < 0.099_95 => 4,
        _ if size < 0.999_5 => 3,
        _ if size < 9.995 => 2,
        _ if size < 99.95 => 1,
        _ => 0,
    };
    group(&format!("{x:.decimals$}"))
}

/// A number at an axis: no digits that are always 0.
pub(crate) fn tick(x: f64) -> String {
    let size = x.abs();
    if size >= 1e6 || (size > 0.0 && size < 1e-4) {
        return format!("{x:.0e}");
    }
    let rounded: f64 = format!("{x:.3e}").parse().unwrap_or(x);
    group(&rounded.to_string())
}

/// A ratio such as WAF, or [`UNKNOWN`].
pub(crate) fn ratio(x: Option<f64>) -> String {
    x.map_or_else(|| UNKNOWN.to_owned(), significant)
}

/// A count with its digits in groups of three.
pub(crate) fn count(n: u64) -> String {
    group(&n.to_string())
}

/// Narrow no-break spaces between groups of three digits before the decimal point, from five digits on.
fn group(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    if whole.len() < 5 {
        return number.to_owned();
    }
    let mut out = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && c.is_ascii_digit() && (whole.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out + rest
}

/// Bytes as GiB, number only.
pub(crate) fn gib(bytes: u64) -> String {
    significant(bytes as f64 / f64::from(1 << 30))
}

/// An amount of data in the binary unit that suits it.
pub(crate) fn data(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let step = (bytes.ilog2() / 10) as usize;
    let scaled = bytes as f64 / 1024f64.powi(step as i32);
    format!("{} {}", significant(scaled), UNITS[step - 1])
}

/// An amount of data in decimal terabytes or petabytes, as endurance is rated.
pub(crate) fn endurance(bytes: f64) -> String {
    if bytes >= 1e16 {
        return format!("{} PB", significant(bytes / 1e15));
    }
    format!("{} TB", significant(bytes / 1e12))
}

/// A latency in a readable unit.
pub(crate) fn latency(ns: f64) -> String {
    match ns {
        _ if ns < 999.5 => format!("{} ns", significant(ns)),
        _ if ns < 999.5e3 => format!("{} us", significant(ns / 1e3)),
        _ if ns < 999.5e6 => format!("{} ms", significant(ns / 1e6)),
        _ => format!("{} s", significant(ns / 1e9)),
    }
}

/// A rate in MB/s (10^6 bytes), number only.
pub(crate) fn megabytes_per_second(bytes_per_second: f64) -> String {
    significant(bytes_per_second / 1e6)
}

/// Years with two significant digits, as a lifetime is never known better.
pub(crate) fn years(x: f64) -> String {
    match x {
        _ if !x.is_finite() => UNKNOWN.to_owned(),
        _ if x >= 999.5 => "over 1000".to_owned(),
        _ if x >= 99.5 => format!("{:.0}", (x / 10.0).round() * 10.0),
        _ if x >= 9.95 => format!("{x:.0}"),
        _ if x >= 0.095 => format!("{x:.1}"),
        _ => format!("{x:.3}"),
    }
}

/// A duration in seconds, minutes, hours or days.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        _ if seconds < 120.0 => format!("{} s", significant(seconds)),
        _ if seconds < 7200.0 => format!("{} min", significant(seconds / 60.0)),
        _ if seconds < 172_800.0 => format!("{} h", significant(seconds / 3600.0)),
        _ => format!("{} days", significant(seconds / 86_400.0)),
    }
}

/// A share as percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0))
}

/// How full something is.
pub(crate) fn fullness(share: f64) -> String {
    if share < 1e-4 { "less than 0.01 %".to_owned() } else { percent(share) }
}

/// A key such as `read_modify_write` in words.
pub(crate) fn words(key: &str) -> String {
    escape(&key.replace('_', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        let cases = [(0.0, "0"), (1.0, "1.00"), (4.123, "4.12"), (9.996, "10.0"), (41.26, "41.3")];
        for (x, text) in cases {
            assert_eq!(significant(x), text);
        }
        assert_eq!(significant(0.4567), "0.457");
        assert_eq!(significant(0.01234), "0.0123");
        assert_eq!(significant(1234.5), "1234");
        assert_eq!(significant(1_234_567.0), "1\u{202f}234\u{202f}567");
        assert_eq!(significant(-12345.0), "-12\u{202f}345");
        assert_eq!(significant(f64::NAN), UNKNOWN);
        assert_eq!(significant(f64::INFINITY), UNKNOWN);
    }

    #[test]
    fn amounts_choose_their_unit() {
        assert_eq!(data(512), "512 B");
        assert_eq!(data(4096), "4.00 KiB");
        assert_eq!(data(u64::MAX), "16.0 EiB");
        assert_eq!(gib(3 << 29), "1.50");
        assert_eq!(latency(850.0), "850 ns");
        assert_eq!(latency(85_300.0), "85.3 us");
        assert_eq!(latency(999_600.0), "1.00 ms");
        assert_eq!(latency(2e9), "2.00 s");
        assert_eq!(duration(7200.0), "2.00 h");
    }

    #[test]
    fn years_have_two_digits() {
        let cases =
            [(0.02, "0.020"), (3.21, "3.2"), (41.4, "41"), (417.0, "420"), (1e6, "over 1000")];
        for (x, text) in cases {
            assert_eq!(years(x), text);
        }
    }

    #[test]
    fn escapes_everything_html_reads() {
        assert_eq!(
            escape("</script><b a='\"'>&"),
            "&lt;/script&gt;&lt;b a=&#39;&quot;&#39;&gt;&amp;"
        );
    }
}
