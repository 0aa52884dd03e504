//! Requests, latencies, and bytes through all layers for each tenant of a run.
//!
//! The owner of a byte is the tenant that last wrote the block. Ownership travels down with the data. Requests name the
//! tenant; a log keeps the owner of each block of the volume, and a drive the owner of each exported block. Relocated
//! bytes count for the owner of the copied block. Headers, maps and padding have no owner.

use hdrhistogram::Histogram;
use thermocline_nand::ByCause;
use thermocline_types::{Bytes, Cause, Op, Request, TenantId, Time};

use crate::byte_counts::ByteCounts;
use crate::meter::{KINDS, LONGEST_NS, kind};

/// Tenants that are followed at most: each has distributions of latencies of its own, up to half a MiB.
pub const MOST: usize = 1024;

/// The number of a tenant as owner of data.
#[must_use]
pub fn owner(tenant: TenantId) -> u16 {
    tenant.0.min(u32::from(u16::MAX)) as u16
}

/// How many of `tenants` are followed: all, or none where there are fewer than two or too many.
#[must_use]
pub fn followed(tenants: usize) -> u16 {
    if (2..=MOST).contains(&tenants) { tenants as u16 } else { 0 }
}

/// Measurements of one tenant.
#[derive(Clone, Debug, Default)]
pub struct TenantAsked {
    /// Requests issued.
    pub requests: u64,
    /// Bytes of its writes.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes trimmed or zeroed.
    pub trimmed: u64,
    /// The sum of all latencies, nanoseconds.
    pub latencies_ns: u128,
    /// Latencies of the kinds of request that occurred.
    pub latencies: [Option<Histogram<u32>>; KINDS.len()],
}

impl TenantAsked {
    /// The bytes of a request, or of a piece of it, that is issued.
    #[inline]
    pub fn piece(&mut self, piece: &Request) {
        match piece.op {
            Op::Read => self.read += piece.length.0,
            Op::Write => self.written += piece.length.0,
            Op::Trim | Op::WriteZeroes => self.trimmed += piece.length.0,
            Op::Flush => {}
        }
    }

    /// A request took so long.
    #[inline(never)]
    pub fn took(&mut self, op: Op, latency: Time) {
        self.latencies_ns += u128::from(latency.as_nanos());
        let histogram = self.latencies[kind(op)].get_or_insert_with(growing);
        let ns = latency.as_nanos().min(LONGEST_NS);
        histogram.record(ns).expect("a growing distribution takes any latency");
    }
}

/// A distribution that takes only the memory that its longest latency needs, with three significant digits.
fn growing() -> Histogram<u32> {
    let mut histogram = Histogram::new(3).expect("so many digits are valid");
    histogram.auto(true);
    histogram
}

/// Requests of all tenants; empty if tenants are not followed.
#[derive(Clone, Debug, Default)]
pub struct TenantMeter {
    each: Vec<TenantAsked>,
}

impl TenantMeter {
    /// Of so many tenants.
    #[must_use]
    pub fn new(tenants: u16) -> TenantMeter {
        TenantMeter { each: vec![TenantAsked::default(); usize::from(tenants)] }
    }

    /// What each asked for.
    #[must_use]
    pub fn each(&self) -> &[TenantAsked] {
        &self.each
    }

    /// The same, at the end.
    #[must_use]
    pub fn into_each(self) -> Vec<TenantAsked> {
        self.each
    }

    /// A request is issued, given as its pieces.
    #[inline]
    pub fn issue(&mut self, pieces: &[Request]) {
        let Some(tenant) = self.each.get_mut(pieces[0].tenant.0 as usize) else { return };
        tenant.requests += 1;
        pieces.iter().for_each(|piece| tenant.piece(piece));
    }

    /// A request took so long.
    #[inline]
    pub fn done(&mut self, tenant: TenantId, op: Op, latency: Time) {
        if let Some(tenant) = self.each.get_mut(tenant.0 as usize) {
            tenant.took(op, latency);
        }
    }

    /// Checks that the sums over tenants equal the host's counters.
    ///
    /// # Errors
    /// A sentence with the numbers that differ.
    pub fn check(&self, host: &ByteCounts) -> Result<(), String> {
        let sum = |of: fn(&TenantAsked) -> u64| self.each.iter().map(of).sum::<u64>();
        let (written, read) = (sum(|t| t.written), sum(|t| t.read));
        equal("host bytes written", written, host.host_written)?;
        equal("host bytes read", read, host.host_read)?;
        equal("host bytes trimmed", sum(|t| t.trimmed), host.host_trimmed)
    }
}

/// Why a log writes a block, in the order of [`LogOwned`].
pub const LOG_CAUSES: [&str; 3] = ["host", "destage", "relocation"];

/// Bytes of one owner's blocks written by a log: to the capacity drive and to the fast drive, by [`LOG_CAUSES`].
pub type LogOwned = [[u64; LOG_CAUSES.len()]; 2];

/// Bytes through a stack by owner; unowned bytes come last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedCounts {
    /// Programmed by the drive, or by that for capacity.
    pub drive: Vec<ByCause>,
    /// Programmed by the fast drive of a tiered stack.
    pub fast: Vec<ByCause>,
    /// Written by the log; empty without a log.
    pub log: Vec<LogOwned>,
}

impl OwnedCounts {
    /// The same counted from `start`.
    #[must_use]
    pub fn since(mut self, start: &OwnedCounts) -> OwnedCounts {
        let drives = [(&mut self.drive, &start.drive), (&mut self.fast, &start.fast)];
        for (now, then) in drives {
            let bytes = now.iter_mut().flatten().zip(then.iter().flatten());
            bytes.for_each(|(now, then)| *now -= then);
        }
        let log = self.log.iter_mut().flatten().flatten();
        log.zip(start.log.iter().flatten().flatten()).for_each(|(now, then)| *now -= then);
        self
    }

    /// Bytes on the media of the drive, or of that for capacity, of `owner`.
    #[must_use]
    pub fn media(&self, owner: usize) -> u64 {
        self.drive[owner].iter().sum()
    }

    /// Checks that owned and unowned bytes sum to `all`. The log's bytes are checked only if the log is `settled`: no
    /// write is in flight.
    ///
    /// # Errors
    /// A sentence with the numbers that differ.
    pub fn check(&self, all: &ByteCounts, settled: bool) -> Result<(), String> {
        let drives = [(&self.drive, Some(all.drive)), (&self.fast, all.fast)];
        for (owned, counters) in drives {
            for cause in Cause::ALL {
                let sum = owned.iter().map(|bytes| bytes[cause.index()]).sum::<u64>();
                let total = counters.map_or(0, |counters| counters.media[cause.index()]);
                equal(&format!("media bytes for {cause}"), sum, total)?;
            }
        }
        let Some(log) = all.log.filter(|_| settled && !self.log.is_empty()) else { return Ok(()) };
        let of = |tier: usize, cause: usize| self.log.iter().map(|t| t[tier][cause]).sum::<u64>();
        equal("blocks of hosts in the log", of(0, 0) + of(1, 0), log.blocks)?;
        equal("destaged blocks in the log", of(0, 1) + of(1, 1), log.destaged)?;
        equal("relocated blocks in the log", of(0, 2) + of(1, 2), log.relocated)?;
        let fast = all.fast.is_some();
        equal("hosts' blocks past the fast drive", if fast { of(0, 0) } else { 0 }, log.bypassed)?;
        equal("blocks relocated on the fast drive", of(1, 2), log.carried)
    }
}

fn equal(what: &str, owned: u64, all: u64) -> Result<(), String> {
    if owned == all {
        return Ok(());
    }
    Err(format!("{what}: those of tenants and of nobody sum to {owned}, all are {all}"))
}

/// Runs of a write: neighbours of one owner are joined.
pub fn push_run(runs: &mut Vec<(u16, Bytes)>, owner: u16, length: Bytes) {
    match runs.last_mut() {
        Some((last, bytes)) if *last == owner => *bytes += length,
        _ => runs.push((owner, length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::byte_counts::LogBytes;

    #[test]
    fn sums_that_differ_are_told() {
        let mut all = ByteCounts::default();
        all.drive.media[Cause::Host.index()] = 8192;
        let mut owned =
            OwnedCounts { drive: vec![[0; Cause::ALL.len()]; 2], ..OwnedCounts::default() };
        assert!(owned.check(&all, true).unwrap_err().contains("sum to 0, all are 8192"));
        owned.drive[0][0] = 4096;
        owned.drive[1][0] = 4096;
        assert_eq!(owned.check(&all, true), Ok(()));
        all.log = Some(LogBytes { relocated: 4096, ..LogBytes::default() });
        owned.log = vec![[[0, 0, 0]; 2]; 2];
        assert!(owned.check(&all, true).unwrap_err().contains("relocated blocks"));
        assert_eq!(owned.check(&all, false), Ok(()), "something may be on its way");
        owned.log[1][0][2] = 4096;
        assert_eq!(owned.check(&all, true), Ok(()));
    }

    #[test]
    fn requests_that_no_tenant_issued_are_told() {
        let mut meter = TenantMeter::new(2);
        let request = |tenant: u32| Request {
            at: Time::ZERO,
            offset: Bytes::ZERO,
            length: Bytes::BLOCK,
            tenant: TenantId(tenant),
            stream: thermocline_types::StreamId::UNKNOWN,
            op: Op::Write,
            outstanding: None,
        };
        meter.issue(&[request(1)]);
        let host = ByteCounts { host_written: 4096, ..ByteCounts::default() };
        assert_eq!(meter.check(&host), Ok(()));
        meter.issue(&[request(2)]);
        let host = ByteCounts { host_written: 8192, ..ByteCounts::default() };
        assert!(meter.check(&host).unwrap_err().contains("host bytes written"));
    }
}
