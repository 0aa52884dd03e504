//! A source for unit tests.

use thermocline_types::{Bytes, Op, Request, StreamId, TenantId, Time};

use crate::{BATCH, Source, trace};

/// Yields a list of requests.
pub struct Listed(std::vec::IntoIter<Request>);

impl Listed {
    pub fn new(requests: impl Into<Vec<Request>>) -> Self {
        Listed(requests.into().into_iter())
    }
}

impl Source for Listed {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), trace::Error> {
        batch.clear();
        batch.extend(self.0.by_ref().take(BATCH));
        Ok(())
    }

    fn fraction_done(&self) -> f64 {
        0.0
    }
}

/// A request at a whole second.
pub fn request(seconds: u64, tenant: u32, op: Op, offset: u64, length: u64) -> Request {
    let (offset, length, tenant) = (Bytes(offset), Bytes(length), TenantId(tenant));
    Request {
        at: Time::seconds(seconds),
        offset,
        length,
        tenant,
        stream: StreamId::UNKNOWN,
        op,
        outstanding: None,
    }
}
