//! Flushes as barriers: requests that follow a flush are issued only after the flush is complete.
//!
//! A trace records issue times but no dependencies. A flush covers only completed writes, so the flushing client first
//! waits for its writes. The client then waits for the flush, which has no other use. The model takes each tenant as
//! one client. For each tenant
//!
//! * a flush is issued when all earlier requests are complete,
//! * later requests are issued in order when the flush is complete.
//!
//! Tenants do not wait for each other. A file system keeps less order: one waiting thread does not stop the rest. A
//! trace without thread numbers allows no weaker order, unless it tells how many requests were outstanding
//! ([`Request::outstanding`]): then each is issued, in order, as soon as no more are.

use std::collections::VecDeque;

use thermocline_types::{Op, Request, TenantId};

/// What flushes hold back.
#[derive(Debug, Default)]
pub struct Barriers {
    /// Whether the workload has flushes; without flushes no request is tracked.
    flushes: bool,
    issuers: Vec<Issuer>,
    held: usize,
    released: VecDeque<Vec<Request>>,
}

/// One tenant.
#[derive(Clone, Debug, Default)]
struct Issuer {
    in_work: u32,
    /// Flushes in work.
    flushes: u32,
    held: VecDeque<Vec<Request>>,
}

impl Barriers {
    /// For a workload with or without flushes.
    #[must_use]
    pub fn new(flushes: bool) -> Barriers {
        Barriers { flushes, ..Barriers::default() }
    }

    /// Whether the end of requests has to be told by [`Barriers::done`].
    #[must_use]
    pub fn are_kept(&self) -> bool {
        self.flushes
    }

    /// Requests that are held back.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether the next request of the workload, given as its pieces, may be issued now. If not, it comes out of
    /// [`Barriers::released`] when it may.
    pub fn admit(&mut self, pieces: &[Request]) -> bool {
        if !self.flushes {
            return true;
        }
        let issuer = self.issuer(pieces[0].tenant);
        if issuer.held.is_empty() && issuer.takes(&pieces[0]) {
            issuer.begin(pieces[0].op);
            return true;
        }
        issuer.held.push_back(pieces.to_vec());
        self.held += 1;
        false
    }

    /// A request that was issued is done.
    pub fn done(&mut self, tenant: TenantId, op: Op) {
        if !self.flushes {
            return;
        }
        let issuer = self.issuer(tenant);
        issuer.in_work -= 1;
        issuer.flushes -= u32::from(op == Op::Flush);
        let mut released = Vec::new();
        while let Some(first) = issuer.held.front().map(|pieces| pieces[0])
            && issuer.takes(&first)
        {
            issuer.begin(first.op);
            released.extend(issuer.held.pop_front());
        }
        self.held -= released.len();
        self.released.extend(released);
    }

    /// The next of the requests that were held back and are to be issued now.
    pub fn released(&mut self) -> Option<Vec<Request>> {
        self.released.pop_front()
    }

    fn issuer(&mut self, tenant: TenantId) -> &mut Issuer {
        let index = tenant.0 as usize;
        if index >= self.issuers.len() {
            self.issuers.resize(index + 1, Issuer::default());
        }
        &mut self.issuers[index]
    }
}

impl Issuer {
    fn takes(&self, request: &Request) -> bool {
        let most = request.outstanding.unwrap_or(0).into();
        self.flushes <= most && (request.op != Op::Flush || self.in_work <= most)
    }

    fn begin(&mut self, op: Op) {
        self.in_work += 1;
        self.flushes += u32::from(op == Op::Flush);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_types::{Bytes, StreamId, Time};

    fn request(op: Op, tenant: u32, offset: u64) -> [Request; 1] {
        let (at, length, tenant) = (Time::ZERO, Bytes::BLOCK, TenantId(tenant));
        let stream = StreamId::UNKNOWN;
        [Request { at, offset: Bytes(offset), length, tenant, stream, op, outstanding: None }]
    }

    fn released(barriers: &mut Barriers) -> Vec<(Op, u64)> {
        std::iter::from_fn(|| barriers.released())
            .map(|pieces| (pieces[0].op, pieces[0].offset.0))
            .collect()
    }

    #[test]
    fn a_flush_waits_for_what_precedes_it_and_holds_what_follows_in_order() {
        let mut barriers = Barriers::new(true);
        assert!(
            barriers.admit(&request(Op::Write, 0, 1)) && barriers.admit(&request(Op::Read, 0, 2))
        );
        for (op, offset) in [(Op::Flush, 3), (Op::Write, 4), (Op::Write, 5), (Op::Flush, 6)] {
            assert!(!barriers.admit(&request(op, 0, offset)));
        }
        assert_eq!(barriers.held(), 4);
        barriers.done(TenantId(0), Op::Read);
        assert_eq!(released(&mut barriers), []);
        barriers.done(TenantId(0), Op::Write);
        assert_eq!(released(&mut barriers), [(Op::Flush, 3)]);
        barriers.done(TenantId(0), Op::Flush);
        assert_eq!(released(&mut barriers), [(Op::Write, 4), (Op::Write, 5)]);
        assert_eq!(barriers.held(), 1);
        assert!(!barriers.admit(&request(Op::Read, 0, 7)), "behind what is held");
        barriers.done(TenantId(0), Op::Write);
        barriers.done(TenantId(0), Op::Write);
        assert_eq!(released(&mut barriers), [(Op::Flush, 6)]);
    }

    #[test]
    fn requests_that_tell_it_wait_until_as_few_are_outstanding_as_were() {
        let mut barriers = Barriers::new(true);
        let of =
            |op, outstanding| [Request { outstanding: Some(outstanding), ..request(op, 0, 0)[0] }];
        assert!(barriers.admit(&of(Op::Write, 0)) && barriers.admit(&of(Op::Flush, 1)));
        assert!(barriers.admit(&of(Op::Write, 1)), "beside a flush");
        assert!(barriers.admit(&of(Op::Flush, 3)) && barriers.admit(&of(Op::Write, 2)));
        assert!(!barriers.admit(&of(Op::Write, 1)) && !barriers.admit(&of(Op::Flush, 3)));
        barriers.done(TenantId(0), Op::Write);
        assert_eq!(released(&mut barriers), []);
        barriers.done(TenantId(0), Op::Flush);
        assert_eq!(released(&mut barriers), [(Op::Write, 0)]);
        barriers.done(TenantId(0), Op::Write);
        assert_eq!(released(&mut barriers), [(Op::Flush, 0)]);
    }

    #[test]
    fn tenants_do_not_wait_for_each_other() {
        let mut barriers = Barriers::new(true);
        assert!(barriers.admit(&request(Op::Flush, 0, 0)));
        assert!(!barriers.admit(&request(Op::Write, 0, 1)));
        assert!(barriers.admit(&request(Op::Write, 7, 2)));
        barriers.done(TenantId(7), Op::Write);
        assert_eq!(released(&mut barriers), []);
        barriers.done(TenantId(0), Op::Flush);
        assert_eq!(released(&mut barriers), [(Op::Write, 1)]);
    }
}
