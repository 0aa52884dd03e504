//! Writes that wait for the next checkpoint, as pages of a database do, while reads and logs go on.

use std::collections::{BTreeMap, VecDeque};

use thermocline_types::{Op, Request, TenantId, Time};

use super::Tenant;
use crate::{BATCH, trace};

/// When a tenant's writes are issued: the writes of a period are issued in the next period, evenly within the first
/// part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoints {
    /// Length of a period.
    pub every: Time,
    /// The first part of a period, in which the writes of the previous period are issued; above 0, at most `every`.
    pub within: Time,
}

impl Checkpoints {
    /// From seconds.
    pub(super) fn read(every_s: f64, within_s: f64) -> Result<Checkpoints, String> {
        let is_time = |seconds: f64| seconds.is_finite() && (1e-6..1e9).contains(&seconds);
        if !is_time(every_s) || !is_time(within_s) || within_s > every_s {
            return Err(format!(
                "checkpoints come every {every_s} s and are written within {within_s} s: both must be above 0, and \
                 the second not longer than the first"
            ));
        }
        let time = |seconds: f64| Time::nanos((seconds * 1e9) as u64);
        Ok(Checkpoints { every: time(every_s), within: time(within_s) })
    }
}

/// One tenant's writes that wait.
#[derive(Debug)]
struct Lane {
    tenant: TenantId,
    checkpoints: Checkpoints,
    /// Time at which the waiting writes are issued.
    next: Time,
    waiting: Vec<Request>,
}

/// The requests of all tenants, in order of issue.
///
/// Invariant: requests are yielded by rising time, those of one instant in the order in which they were generated.
#[derive(Debug)]
pub(super) struct Gathered {
    lanes: Vec<Lane>,
    /// Requests with a time of issue; earlier requests may still arrive.
    issued: BTreeMap<(Time, u64), Request>,
    ready: VecDeque<Request>,
    generated: u64,
    ended: bool,
}

impl Gathered {
    /// Of `tenants`, if the writes of any wait.
    pub(super) fn new(tenants: &[Tenant]) -> Option<Gathered> {
        let lane = |(index, tenant): (usize, &Tenant)| {
            let checkpoints = tenant.checkpoints?;
            let tenant = TenantId(index as u32);
            Some(Lane { tenant, checkpoints, next: checkpoints.every, waiting: Vec::new() })
        };
        let lanes: Vec<Lane> = tenants.iter().enumerate().filter_map(lane).collect();
        (!lanes.is_empty()).then(|| Gathered {
            lanes,
            issued: BTreeMap::new(),
            ready: VecDeque::new(),
            generated: 0,
            ended: false,
        })
    }

    /// Fills `batch` with the next requests of those that `generate` makes, batch by batch until one is empty.
    pub(super) fn fill(
        &mut self,
        batch: &mut Vec<Request>,
        mut generate: impl FnMut(&mut Vec<Request>) -> Result<(), trace::Error>,
    ) -> Result<(), trace::Error> {
        while self.ready.is_empty() && !self.ended {
            generate(batch)?;
            self.ended = batch.is_empty();
            batch.drain(..).for_each(|request| self.take(request));
            if self.ended {
                self.release(Time(u64::MAX));
                self.ready.extend(std::mem::take(&mut self.issued).into_values());
            }
        }
        batch.clear();
        let count = self.ready.len().min(BATCH);
        batch.extend(self.ready.drain(..count));
        Ok(())
    }

    fn take(&mut self, request: Request) {
        self.release(request.at);
        let waits = |lane: &&mut Lane| request.op == Op::Write && lane.tenant == request.tenant;
        match self.lanes.iter_mut().find(waits) {
            Some(lane) => lane.waiting.push(request),
            None => self.issue(request),
        }
        while let Some(first) = self.issued.first_entry()
            && first.key().0 <= request.at
        {
            self.ready.push_back(first.remove());
        }
    }

    fn issue(&mut self, request: Request) {
        self.issued.insert((request.at, self.generated), request);
        self.generated += 1;
    }

    /// Assigns times to the writes waiting for a checkpoint that begins by `now`.
    fn release(&mut self, now: Time) {
        for lane in 0..self.lanes.len() {
            let lane = &mut self.lanes[lane];
            let Checkpoints { every, within } = lane.checkpoints;
            if lane.next > now {
                continue;
            }
            let (start, waiting) = (lane.next, std::mem::take(&mut lane.waiting));
            let periods = (now.0 - start.0) / every.0 + 1;
            lane.next = Time(start.0.saturating_add(every.0.saturating_mul(periods)));
            let step = within.0 / (waiting.len() as u64).max(1);
            for (index, request) in waiting.into_iter().enumerate() {
                self.issue(Request { at: start + Time(step * index as u64), ..request });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;
    use crate::synthetic::{Generator, Limit, Options, Spec};
    use thermocline_types::Bytes;

    const DATABASE: &str = r#"
        [[tenant]]
        name = "log"
        workload = "seq"
        [[tenant]]
        name = "pages"
        workload = "uniform"
        read_share = 0.5
        every_s = 1
        within_s = 0.25
    "#;

    fn all(rate: Option<f64>) -> Result<Vec<Request>, crate::synthetic::Error> {
        let spec = Spec::from_toml(DATABASE).expect("valid");
        let limit = Limit::Requests(10_000);
        let options = Options { rate, seed: 1, ..Options::new(Bytes::mib(64), limit) };
        let mut generator = Generator::new(&spec, &options)?;
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        loop {
            generator.fill(&mut batch).expect("generators do not fail");
            if batch.is_empty() {
                return Ok(all);
            }
            assert!(batch.len() <= BATCH);
            all.append(&mut batch);
        }
    }

    #[test]
    fn pages_are_written_at_checkpoints_and_nothing_else_waits() {
        let requests = all(Some(1000.0)).expect("valid");
        assert_eq!(requests.len(), 10_000);
        assert!(requests.is_sorted_by_key(|request| request.at));
        let page = |request: &&Request| request.tenant == TenantId(1) && request.op == Op::Write;
        let (mut pages, mut early) = (0, 0);
        for request in requests.iter().filter(page) {
            let within = request.at.0 % 1_000_000_000;
            assert!(within < 250_000_000 && request.at >= Time::seconds(1), "{request:?}");
            pages += 1;
            early += u32::from(request.at < Time::seconds(2));
        }
        // A quarter of the requests, a tenth of which come in the first second.
        assert!((2300..2700).contains(&pages) && (200..300).contains(&early), "{pages} {early}");
        let others = requests.iter().filter(|request| !page(request));
        let first = others.filter(|request| request.at < Time::seconds(1)).count();
        assert!((700..800).contains(&first), "{first}");
    }

    #[test]
    fn checkpoints_need_a_clock() {
        let error = all(None).expect_err("no rate").to_string();
        assert!(error.contains("checkpoints come by a clock"), "{error}");
        for (every, within) in [(0.0, 0.0), (1.0, 2.0), (f64::NAN, 1.0), (1.0, 0.0)] {
            assert!(Checkpoints::read(every, within).is_err(), "{every} {within}");
        }
    }
}
