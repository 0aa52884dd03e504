//! Requests of the host in work.

use slab::Slab;
use thermocline_format::VolumeId;

use crate::request::{HostError, Reply, RequestId};

/// A request of the host in work.
#[derive(Debug)]
struct Request {
    id: RequestId,
    /// Parts that are not done yet.
    parts: u32,
    error: Option<HostError>,
    reply: Reply,
    /// Whether it changes anything.
    writes: bool,
    /// Whether the request completes only when its writes are durable.
    durable: bool,
    /// The volume that the request resizes.
    resizes: Option<VolumeId>,
}

/// State of a request when a part of it is done.
#[derive(Debug, PartialEq)]
pub(crate) enum Progress {
    /// It waits for others.
    Waits,
    /// All parts are done. The result must be made durable, which is one further part.
    MakeDurable,
    /// It is over.
    Over {
        /// The host's name for it.
        id: RequestId,
        /// The answer to the host.
        result: Result<Reply, HostError>,
        /// The volume that the request resized.
        resized: Option<VolumeId>,
    },
}

/// The requests of the host in work, by the numbers that these have meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    all: Slab<Request>,
}

impl Requests {
    /// Takes a request with one part: a request must not be over while its parts are being found.
    pub(crate) fn accept(&mut self, id: RequestId, writes: bool, durable: bool) -> u32 {
        let reply = Reply::Done;
        let request = Request { id, parts: 1, error: None, reply, writes, durable, resizes: None };
        self.all.insert(request) as u32
    }

    /// How many are in work.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether `request` is the only one in work.
    pub(crate) fn is_only(&self, request: u32) -> bool {
        self.all.len() == 1 && self.all.contains(request as usize)
    }

    /// Whether `request` completes only when it is durable.
    pub(crate) fn is_durable(&self, request: u32) -> bool {
        self.all[request as usize].durable
    }

    /// `request` waits for `parts` more.
    pub(crate) fn need(&mut self, request: u32, parts: u32) {
        self.all[request as usize].parts += parts;
    }

    /// Sets the reply to `request`.
    pub(crate) fn set_reply(&mut self, request: u32, reply: Reply) {
        self.all[request as usize].reply = reply;
    }

    /// `request` resizes `volume`; added blocks are usable when the request is over.
    pub(crate) fn set_resizes(&mut self, request: u32, volume: VolumeId) {
        self.all[request as usize].resizes = Some(volume);
    }

    /// `parts` awaited parts of `request` are done, or failed. If the pool `has_failed`, no request that writes
    /// succeeds.
    pub(crate) fn progress(
        &mut self,
        request: u32,
        parts: u32,
        error: Option<HostError>,
        has_failed: bool,
    ) -> Progress {
        let entry = &mut self.all[request as usize];
        entry.parts -= parts;
        entry.error = entry.error.or(error);
        if has_failed && entry.writes {
            entry.error = entry.error.or(Some(HostError::Failed));
        }
        if entry.parts > 0 {
            return Progress::Waits;
        }
        if entry.durable && entry.error.is_none() {
            entry.parts = 1;
            entry.durable = false;
            return Progress::MakeDurable;
        }
        let Request { id, error, reply, resizes, .. } = self.all.remove(request as usize);
        Progress::Over { id, result: error.map_or(Ok(reply), Err), resized: resizes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(id: u64, result: Result<Reply, HostError>) -> Progress {
        Progress::Over { id: RequestId(id), result, resized: None }
    }

    #[test]
    fn a_request_is_over_with_its_last_part_and_keeps_its_first_error() {
        let mut requests = Requests::default();
        let (read, other) = (
            requests.accept(RequestId(7), false, false),
            requests.accept(RequestId(8), true, false),
        );
        requests.need(read, 2);
        let error = Some(HostError::OutOfRange);
        assert_eq!(requests.progress(read, 1, error, false), Progress::Waits);
        assert_eq!(requests.progress(read, 1, Some(HostError::NoSpace), false), Progress::Waits);
        assert_eq!(requests.progress(read, 1, None, false), over(7, Err(HostError::OutOfRange)));
        assert!(requests.is_only(other) && !requests.is_only(read));
    }

    #[test]
    fn what_is_to_be_durable_needs_a_part_more_unless_it_failed() {
        let mut requests = Requests::default();
        let durable = requests.accept(RequestId(1), true, true);
        assert_eq!(requests.progress(durable, 1, None, false), Progress::MakeDurable);
        assert_eq!(requests.progress(durable, 1, None, false), over(1, Ok(Reply::Done)));
        let failed = requests.accept(RequestId(2), true, true);
        let result = requests.progress(failed, 1, Some(HostError::NoSpace), false);
        assert_eq!(result, over(2, Err(HostError::NoSpace)));
        assert!(requests.is_empty());
    }

    #[test]
    fn nothing_that_writes_succeeds_when_the_pool_has_failed() {
        let mut requests = Requests::default();
        let (read, write) = (
            requests.accept(RequestId(1), false, false),
            requests.accept(RequestId(2), true, true),
        );
        assert_eq!(requests.progress(read, 1, None, true), over(1, Ok(Reply::Done)));
        assert_eq!(requests.progress(write, 1, None, true), over(2, Err(HostError::Failed)));
    }
}
