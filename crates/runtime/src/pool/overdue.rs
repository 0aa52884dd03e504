//! When a pool flushes though nobody asked for it.

use std::time::{Duration, Instant};

/// Watches for how long something has been at risk.
#[derive(Debug)]
pub(super) struct Overdue {
    /// Longest time unflushed; `None`: for ever.
    after: Option<Duration>,
    since: Option<Instant>,
}

impl Overdue {
    pub(super) fn new(after: Option<Duration>) -> Overdue {
        Overdue { after, since: None }
    }

    /// Whether it is time for a flush; then the next one is as far away again.
    pub(super) fn is_due(&mut self, now: Instant, at_risk: bool) -> bool {
        if !at_risk {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let due = self.after.is_some_and(|after| now.saturating_duration_since(since) >= after);
        if due {
            self.since = Some(now);
        }
        due
    }

    /// Time until the next check.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        let (after, since) = self.after.zip(self.since)?;
        Some(after.saturating_sub(now.saturating_duration_since(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_due_when_something_was_at_risk_for_long_enough() {
        let second = Duration::from_secs(1);
        let began = Instant::now();
        let mut overdue = Overdue::new(Some(5 * second));
        assert_eq!((overdue.is_due(began, false), overdue.wait(began)), (false, None));
        assert!(!overdue.is_due(began, true));
        let later = began + 3 * second;
        assert_eq!((overdue.is_due(later, true), overdue.wait(later)), (false, Some(2 * second)));
        assert!(!overdue.is_due(began + 4 * second, false), "somebody flushed");
        let again = began + 10 * second;
        assert!(!overdue.is_due(again, true) && !overdue.is_due(again + 4 * second, true));
        assert!(overdue.is_due(again + 5 * second, true));
        assert!(!overdue.is_due(again + 6 * second, true), "one flush, then time again");
        let mut never = Overdue::new(None);
        assert!(!never.is_due(began, true) && never.wait(began).is_none());
    }
}
