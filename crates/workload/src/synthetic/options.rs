//! How much of a workload, over which span, and from which seed.

use thermocline_types::{Bytes, Time};

use super::Error;

/// When a generator ends. Reads and trims come on top of a limit on writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After this many requests of any kind.
    Requests(u64),
    /// After this many write requests.
    Writes(u64),
    /// After this many bytes written; the last write is shortened if it would exceed them.
    BytesWritten(Bytes),
}

impl Limit {
    /// Bytes written of `times` the `span`, rounded down to whole 4 KiB blocks but at least one.
    ///
    /// # Errors
    /// Unless `times` is finite and above 0.
    pub fn drive_writes(times: f64, span: Bytes) -> Result<Limit, Error> {
        if !(times.is_finite() && times > 0.0) {
            return Err(Error::Options(format!("drive writes are {times}, must be above 0")));
        }
        let blocks = (times * span.as_f64() / Bytes::BLOCK.as_f64()) as u64;
        let bytes = blocks.max(1).checked_mul(Bytes::BLOCK.get());
        let bytes = bytes.ok_or_else(|| {
            Error::Options(format!("{times} drive writes of {span} are more bytes than 2^64"))
        })?;
        Ok(Limit::BytesWritten(Bytes(bytes)))
    }
}

/// Requests that come in bursts, with nothing in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Bytes requested in a burst; the request that reaches `bytes` ends the burst.
    pub bytes: Bytes,
    /// Idle time of the host after a burst.
    pub idle: Time,
}

/// Properties of a synthetic workload beyond the spec.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Bytes addressed, from offset 0; a multiple of 512.
    pub span: Bytes,
    /// Bytes per request, a multiple of 512; requests start on multiples of it, and the last one ends at the span's
    /// end. `None` is 4 KiB, or the pattern's own mix of sizes.
    pub io_size: Option<Bytes>,
    /// Share of requests that read, 0..=1.
    pub read_share: f64,
    /// Share of requests that trim, 0..=1.
    pub trim_share: f64,
    /// The only randomness.
    pub seed: u64,
    /// When to end.
    pub limit: Limit,
    /// Requests per second by the host's clock; `None` issues everything at time zero, to go as fast as the drive can.
    pub rate: Option<f64>,
    /// Bursts by the host's clock, which stands still while one goes on; not beside `rate`.
    pub bursts: Option<Bursts>,
}

impl Options {
    /// Only writes over `span` of the workload's own sizes, as fast as possible, with seed 0.
    #[must_use]
    pub fn new(span: Bytes, limit: Limit) -> Self {
        Options {
            span,
            io_size: None,
            read_share: 0.0,
            trim_share: 0.0,
            seed: 0,
            limit,
            rate: None,
            bursts: None,
        }
    }

    /// Checks what does not depend on the pattern.
    pub(super) fn check(&self) -> Result<(), Error> {
        let sectors = self.span.get() / Bytes::SECTOR.get();
        if sectors == 0 || sectors * Bytes::SECTOR.get() != self.span.get() {
            return refuse(format!("span is {}, must be a multiple of 512 B above 0", self.span));
        }
        if self.span > MAX_SPAN {
            return refuse(format!("span is {}, must be at most {MAX_SPAN}", self.span));
        }
        if let Some(rate) = self.rate
            && !(rate.is_finite() && rate > 0.0)
        {
            return refuse(format!("rate is {rate} requests per second, must be above 0"));
        }
        if let Some(bursts) = self.bursts {
            if bursts.bytes == Bytes::ZERO {
                return refuse("a burst has 0 B, must have some".to_owned());
            }
            if self.rate.is_some() {
                return refuse("bursts come as fast as they can: leave out the rate".to_owned());
            }
        }
        check_shares(self.read_share, self.trim_share)?;
        self.io_size.map_or(Ok(()), |io_size| check_io_size(io_size, self.span))
    }
}

/// The largest span: beyond it byte offsets of a wrapping log might overflow.
const MAX_SPAN: Bytes = Bytes(1 << 60);

/// Shares of reads and trims must leave a share for writes that is not negative.
pub(super) fn check_shares(read_share: f64, trim_share: f64) -> Result<(), Error> {
    for (name, share) in [("read share", read_share), ("trim share", trim_share)] {
        if !(0.0..=1.0).contains(&share) {
            return refuse(format!("{name} is {share}, must be 0 to 1"));
        }
    }
    if read_share + trim_share > 1.0 {
        return refuse(format!(
            "read share {read_share} and trim share {trim_share} add up to more than 1"
        ));
    }
    Ok(())
}

/// Requests are whole sectors and fit the span.
pub(super) fn check_io_size(io_size: Bytes, span: Bytes) -> Result<(), Error> {
    if io_size == Bytes::ZERO || !io_size.get().is_multiple_of(Bytes::SECTOR.get()) {
        return refuse(format!("I/O size is {io_size}, must be a multiple of 512 B above 0"));
    }
    if io_size > span {
        return refuse(format!("I/O size {io_size} is larger than the span {span}"));
    }
    Ok(())
}

fn refuse(what: String) -> Result<(), Error> {
    Err(Error::Options(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drive_writes_are_whole_blocks() {
        let span = Bytes(10 * 4096 + 512);
        assert_eq!(
            Limit::drive_writes(1.0, span).expect("valid"),
            Limit::BytesWritten(Bytes(40_960))
        );
        assert_eq!(
            Limit::drive_writes(1e-9, span).expect("valid"),
            Limit::BytesWritten(Bytes::BLOCK)
        );
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e30] {
            assert!(Limit::drive_writes(bad, span).is_err(), "{bad}");
        }
    }

    #[test]
    fn contradictions_are_named() {
        let good = Options::new(Bytes::mib(1), Limit::Writes(1));
        let bursts = |bytes| Some(Bursts { bytes: Bytes(bytes), idle: Time::seconds(1) });
        assert!(good.check().is_ok());
        let cases = [
            (Options { span: Bytes::ZERO, ..good }, "span is 0 B"),
            (Options { span: Bytes(1000), ..good }, "multiple of 512"),
            (Options { span: Bytes(1 << 62), ..good }, "at most"),
            (Options { io_size: Some(Bytes::ZERO), ..good }, "I/O size is 0 B"),
            (Options { io_size: Some(Bytes(700)), ..good }, "I/O size is 700 B"),
            (Options { io_size: Some(Bytes::mib(2)), ..good }, "larger than the span 1 MiB"),
            (Options { read_share: 1.1, ..good }, "read share is 1.1"),
            (Options { trim_share: f64::NAN, ..good }, "trim share is NaN"),
            (Options { read_share: 0.7, trim_share: 0.4, ..good }, "more than 1"),
            (Options { rate: Some(0.0), ..good }, "rate is 0"),
            (Options { bursts: bursts(0), ..good }, "a burst has 0 B"),
            (Options { bursts: bursts(1), rate: Some(1.0), ..good }, "leave out the rate"),
        ];
        for (options, part) in cases {
            let error = options.check().expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
