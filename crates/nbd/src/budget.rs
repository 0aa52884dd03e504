//! Memory for the payloads and replies of all connections.
//!
//! Half of the memory is divided evenly: each connection has a guaranteed part. The common half is lent first come,
//! first served. Only connections whose clients take their replies may borrow.
//!
//! Invariants:
//! * All connections together hold at most [`Limits::memory`], or the memory of one request if larger.
//! * While the common half is not lent, any request fits into the common half.

use crate::Limits;
use crate::connection::share;
use crate::protocol::request::Command;

#[derive(Debug)]
pub(crate) struct Budget {
    /// Bytes that each connection can have.
    own: u64,
    /// Bytes of the common half, at least the longest request.
    common: u64,
    /// Bytes of the common half that are lent.
    lent: u64,
    /// Bytes that connections have in all.
    held: u64,
    /// Whether memory was returned since the last [`Budget::take_returned`].
    returned: bool,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Budget {
        let half = limits.memory / 2;
        let longest = share(Command::Read, limits.payload.into());
        let own = half / limits.connections.max(1) as u64;
        Budget { own, common: half.max(longest), lent: 0, held: 0, returned: false }
    }

    /// Takes `bytes` for a connection that has `has`; beyond its own part only if it `may_borrow`. Returns whether it
    /// could.
    pub(crate) fn take(&mut self, has: u64, bytes: u64, may_borrow: bool) -> bool {
        let more = self.borrowed(has + bytes) - self.borrowed(has);
        if more > 0 && (!may_borrow || self.lent + more > self.common) {
            return false;
        }
        self.lent += more;
        self.held += bytes;
        true
    }

    /// Takes back `bytes` of a connection that had `had`.
    pub(crate) fn give_back(&mut self, had: u64, bytes: u64) {
        self.lent -= self.borrowed(had) - self.borrowed(had - bytes);
        self.held -= bytes;
        self.returned |= bytes > 0;
    }

    /// Bytes of the common half that a connection holding `has` bytes has borrowed.
    pub(crate) fn borrowed(&self, has: u64) -> u64 {
        has.saturating_sub(self.own)
    }

    /// Bytes that connections have in all.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Whether memory was returned since the last [`Budget::take_returned`].
    pub(crate) fn has_returned(&self) -> bool {
        self.returned
    }

    /// Whether memory was returned since the last call.
    pub(crate) fn take_returned(&mut self) -> bool {
        std::mem::take(&mut self.returned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_part_and_all_have_no_more_than_there_is() {
        let limits =
            Limits { connections: 4, memory: 8 << 20, payload: 1 << 20, ..Limits::default() };
        let mut budget = Budget::new(&limits);
        assert!(budget.take(0, 5 << 20, true), "one MiB of its own, four of the common ones");
        assert!(!budget.take(0, 2 << 20, true), "nothing is left to borrow");
        for _ in 0..3 {
            assert!(budget.take(0, 1 << 20, false), "everybody else has a part");
        }
        assert_eq!(budget.held(), limits.memory);
        budget.give_back(5 << 20, 1 << 20);
        assert!(budget.take_returned() && !budget.take_returned());
        assert!(!budget.take(1 << 20, 4096, false), "for those who take replies only");
        assert!(budget.take(1 << 20, 1 << 20, true));
        assert_eq!(budget.held(), limits.memory);
    }

    #[test]
    fn the_longest_request_fits_when_nobody_has_anything() {
        let limits = Limits { connections: 10_000, memory: 1 << 20, ..Limits::default() };
        let mut budget = Budget::new(&limits);
        let longest = share(Command::Read, limits.payload.into());
        assert!(budget.take(0, longest, true));
        budget.give_back(longest, longest);
        assert_eq!(budget.held(), 0);
        assert!(budget.take(0, longest, true));
    }
}
