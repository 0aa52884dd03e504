//! Dates in words.

use std::time::SystemTime;

/// A day and time of UTC, by the calendar of H. Hinnant's `civil_from_days`: years that begin in March.
#[must_use]
pub fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, minutes) = (seconds / 86400 + 719_468, seconds % 86400 / 60);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let (month, more) = if march < 10 { (march + 3, 0) } else { (march - 9, 1) };
    let year = year + era * 400 + more;
    format!("{year}-{month:02}-{day:02} at {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01 at 00:00 UTC"),
            (951_782_399, "2000-02-28 at 23:59 UTC"),
            (951_782_400, "2000-02-29 at 00:00 UTC"),
            (1_609_459_199, "2020-12-31 at 23:59 UTC"),
            (1_772_323_200, "2026-03-01 at 00:00 UTC"),
            (4_107_542_400, "2100-03-01 at 00:00 UTC"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(date(time), expected);
        }
    }
}
