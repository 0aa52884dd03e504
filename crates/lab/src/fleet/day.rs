//! Dates of rows, by the calendar of H. Hinnant's `days_from_civil`: years that begin in March.

/// Seconds of a day.
pub(crate) const DAY: f64 = 86_400.0;
/// Seconds of a year, as of 365.25 days.
pub(crate) const YEAR: f64 = 365.25 * DAY;

/// Seconds since 1970 of `2026-01-31`, `2026-01-31T12:30:00Z` (UTC) or a number of seconds.
pub(crate) fn parse(text: &str) -> Result<f64, String> {
    let wrong = || {
        format!(
            "time `{text}` is neither a date such as 2026-01-31T12:30:00Z nor seconds since 1970"
        )
    };
    if let Ok(seconds) = text.parse::<f64>() {
        return (0.0..1e11).contains(&seconds).then_some(seconds).ok_or_else(wrong);
    }
    let (date, time) = text.split_at_checked(10).ok_or_else(wrong)?;
    let mut parts = date.split('-').map(str::parse::<i64>);
    let mut part = |range: std::ops::RangeInclusive<i64>| {
        parts.next()?.ok().filter(|part| range.contains(part))
    };
    let (year, month, day) = (part(1970..=9999), part(1..=12), part(1..=31));
    let (year, month, day) =
        year.zip(month).zip(day).map(|((y, m), d)| (y, m, d)).ok_or_else(wrong)?;
    Ok(days(year, month, day) as f64 * DAY + seconds(time).ok_or_else(wrong)?)
}

/// Seconds of the day of `T12:30:00Z`; its parts may end anywhere.
fn seconds(text: &str) -> Option<f64> {
    let text = text.trim_start_matches(['T', 't', ' ']).trim_end_matches(['Z', 'z']);
    let text = text.strip_suffix("+00:00").unwrap_or(text);
    let mut all = 0.0;
    let parts = text.split(':').filter(|part| !part.is_empty());
    for (part, (unit, end)) in
        parts.zip([(3600.0, 24.0), (60.0, 60.0), (1.0, 61.0), (f64::NAN, 0.0)])
    {
        all += part.parse::<f64>().ok().filter(|part| (0.0..end).contains(part))? * unit;
    }
    Some(all)
}

fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of so many seconds since 1970, as `2026-01-31`.
#[must_use]
pub fn date(seconds: f64) -> String {
    let days = (seconds / DAY).floor() as i64 + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * march + 2) / 5 + 1, (march + 2) % 12 + 1);
    format!("{:04}-{month:02}-{day:02}", year + era * 400 + i64::from(month <= 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_written() {
        for (text, seconds) in [
            ("1970-01-01", 0.0),
            ("2024-02-29T12:30:00Z", 1_709_209_800.0),
            ("1767225600", 1_767_225_600.0),
        ] {
            assert_eq!(parse(text).ok(), Some(seconds), "{text}");
        }
        assert_eq!(parse("2026-11-30 00:00:01+00:00").ok(), Some(1_795_996_801.0));
        assert_eq!(date(1_709_209_800.0), "2024-02-29");
        for day in (0..20_000).step_by(17) {
            let seconds = f64::from(day) * DAY;
            assert_eq!(parse(&date(seconds)).ok(), Some(seconds));
        }
        for wrong in ["", "yesterday", "2026-13-01", "2026-01-01T25:00", "-5", "2026-01-01T1:1:1:1"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
