//! A target with the requests in work on it.
//!
//! Invariant: what ends at one instant comes out in the order in which it began.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thermocline_types::{Request, Time};

use crate::target::{Failure, Finished, Target};

/// What ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// A request whose end [`Queue::submit`] did not know.
    Request,
    /// A request whose end [`Queue::submit`] foretold.
    Foretold,
    /// The thought of a client after a request.
    Thought,
}

/// What will end: when, in which order at one instant, and what.
type Due = (Time, u64, Ending, Finished);

/// A target, the requests in work on it, and clients that think.
pub(crate) struct Queue<T: Target + ?Sized> {
    /// What serves the requests.
    pub target: Box<T>,
    due: BinaryHeap<Reverse<Due>>,
    /// Things put into `due` so far.
    begun: u64,
    /// What of `due` ended at the last step.
    ended: Option<(Ending, Finished)>,
}

impl<T: Target + ?Sized> Queue<T> {
    /// A target without requests.
    #[must_use]
    pub fn new(target: Box<T>) -> Queue<T> {
        Queue { target, due: BinaryHeap::new(), begun: 0, ended: None }
    }

    /// Requests in work, and clients that think.
    #[inline]
    pub fn waited_for(&self) -> usize {
        self.due.len() + self.target.in_work()
    }

    /// Submits a request that arrives now, as its pieces, with a placement handle; returns its end if that is known.
    /// Unless `awaited`, a request with a known end is in work no more.
    ///
    /// # Errors
    /// [`Failure`].
    #[inline]
    pub fn submit(
        &mut self,
        pieces: &[Request],
        handle: u16,
        awaited: bool,
    ) -> Result<Option<Finished>, Failure> {
        let Some(at) = self.target.submit(pieces, handle)? else { return Ok(None) };
        let Request { op, tenant, .. } = pieces[0];
        let finished = Finished { at, arrival: self.target.now(), tenant, op };
        if awaited {
            self.begin(at, Ending::Foretold, finished);
        }
        Ok(Some(finished))
    }

    /// The client of `after` thinks until `until`.
    pub fn think(&mut self, until: Time, after: Finished) {
        self.begin(until, Ending::Thought, after);
    }

    #[inline]
    fn begin(&mut self, until: Time, ending: Ending, of: Finished) {
        self.due.push(Reverse((until, self.begun, ending, of)));
        self.begun += 1;
    }

    /// Goes on to what happens next: of the target, or an end that is known.
    ///
    /// # Errors
    /// [`Failure`].
    #[inline]
    pub fn step(&mut self) -> Result<(), Failure> {
        match self.due.peek() {
            None => self.target.step(),
            Some(&Reverse((at, ..))) => self.step_until(at).map(|_| ()),
        }
    }

    /// Goes on as [`Queue::step`] if something happens until `until`; else `until` is the present. Returns whether
    /// something did.
    ///
    /// # Errors
    /// [`Failure`].
    #[inline]
    pub fn step_until(&mut self, until: Time) -> Result<bool, Failure> {
        let Some(&Reverse((at, _, ending, finished))) = self.due.peek() else {
            return self.target.step_until(until);
        };
        if at > until {
            return self.target.step_until(until);
        }
        if !self.target.step_until(at)? {
            self.due.pop();
            self.ended = Some((ending, finished));
        }
        Ok(true)
    }

    /// The next of what ended at the last step. What is left is lost at the next one.
    #[inline]
    pub fn next_ended(&mut self) -> Option<(Ending, Finished)> {
        let finished = |target: &mut T| Some((Ending::Request, target.next_finished()?));
        self.ended.take().or_else(|| finished(&mut self.target))
    }
}

#[cfg(test)]
mod tests {
    use thermocline_nand::Drive;
    use thermocline_types::{Bytes, Op, TenantId};

    use super::*;
    use crate::Stack;
    use crate::tag::Tags;
    use crate::target::DriveTarget;

    /// By number, the first of several tenants would always be served first.
    #[test]
    fn what_ends_at_one_instant_comes_out_in_the_order_in_which_it_began() {
        let profile = Stack::parse("raw:ideal", &[]).unwrap().profile;
        let drive = Drive::new(&profile, Some(Bytes::mib(64)), 1).unwrap();
        let mut queue = Queue::new(Box::new(DriveTarget::new(drive, Tags::First)));
        let (end, order) = (Time::micros(7), [3, 1, 2, 0]);
        for tenant in order.map(TenantId) {
            let after = Finished { at: Time::ZERO, arrival: Time::ZERO, tenant, op: Op::Write };
            queue.think(end, after);
        }
        let came = order.map(|_| {
            assert!(queue.step_until(end).unwrap());
            queue.next_ended().unwrap().1.tenant.0
        });
        assert_eq!(came, order);
        assert!(!queue.step_until(end).unwrap());
        assert_eq!((queue.waited_for(), queue.target.now()), (0, end));
    }
}
