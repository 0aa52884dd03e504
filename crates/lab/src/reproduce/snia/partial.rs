//! Pages that are programmed in parts: small writes that must be durable at once.

use thermocline_nand::{Counters, Drive};
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_types::{Bytes, Op, Request, Rng, StreamId, TenantId, Time};

use super::super::{Figure, FiguresDrawn, Options, part};
use crate::{Error, Stack};

const STACK: &str = "raw:sata-b";
/// Capacity of the drive; `--quick` uses a quarter. Times and ratios do not depend on the capacity.
const CAPACITY: Bytes = Bytes::mib(64);
/// Of a page of 4 KiB.
const SIZES: [u64; 4] = [512, 1024, 2048, 4096];
/// Programs of a page: data sheets of SLC of 2007 allow 4 (remembered, unverified), or 1 and 2 of other makers.
const PROGRAMS: [u32; 4] = [1, 2, 4, 8];
/// How often the media are written, of which the later half counts.
const TURNS: f64 = 4.0;

/// A drive under small writes, each of which is flushed.
#[derive(Clone, Copy)]
struct Case {
    capacity: Bytes,
    /// 512 B, or the page, where a smaller write rewrites all of it.
    mapping_unit: u64,
    programs: u32,
    size: u64,
    seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    waf: f64,
    per_second: f64,
}

fn request(op: Op, offset: u64, length: u64) -> Request {
    Request {
        at: Time::ZERO,
        offset: Bytes(offset),
        length: Bytes(length),
        tenant: TenantId(0),
        stream: StreamId::UNKNOWN,
        op,
        outstanding: None,
    }
}

impl Case {
    fn run(self, progress: &mut dyn FnMut(f64)) -> Result<Outcome, Error> {
        let overrides = [
            format!("device.mapping_unit=\"{}B\"", self.mapping_unit),
            format!("device.geometry.programs_per_page={}", self.programs),
        ];
        let profile = Stack::parse(STACK, &overrides)?.profile;
        let mut drive = Drive::new(&profile, Some(self.capacity), self.seed)?;
        let mut now = Time::ZERO;
        for offset in (0..self.capacity.0).step_by(1 << 16) {
            now = submit(&mut drive, now, &request(Op::Write, offset, 1 << 16))?;
        }
        now = submit(&mut drive, now, &request(Op::Flush, 0, 0))?;
        let mut rng = Rng::new(self.seed);
        let media = drive.cut().media().0;
        let filled = drive.counters().media_total;
        let done = |counters: &Counters| (counters.media_total - filled) as f64 / media as f64;
        let mut middle: Option<(Counters, Time, u64)> = None;
        let mut writes = 0_u64;
        loop {
            let counters = drive.counters();
            if writes.is_multiple_of(1024) {
                progress((done(&counters) / TURNS).min(1.0));
            }
            if let Some((then, at, before)) = middle.filter(|_| done(&counters) >= TURNS) {
                let run = counters.since(&then);
                run.check().map_err(Error::Accounting)?;
                return Ok(Outcome {
                    waf: run.media_total as f64 / run.host_written as f64,
                    per_second: (writes - before) as f64 / now.since(at).as_secs_f64(),
                });
            }
            if middle.is_none() && done(&counters) >= 0.5 * TURNS {
                middle = Some((counters, now, writes));
            }
            let offset = rng.below(self.capacity.0 / self.size) * self.size;
            now = submit(&mut drive, now, &request(Op::Write, offset, self.size))?;
            now = submit(&mut drive, now, &request(Op::Flush, 0, 0))?;
            writes += 1;
        }
    }
}

fn submit(drive: &mut Drive, at: Time, request: &Request) -> Result<Time, Error> {
    drive.submit(at, request, 0).map_err(|error| Error::Settings(error.to_string()))
}

/// Small durable writes by how often a page may be programmed.
pub fn partial(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<FiguresDrawn, Error> {
    let capacity = Bytes(CAPACITY.0 / if options.quick { 4 } else { 1 });
    let steps = SIZES.len() * (PROGRAMS.len() + 1);
    let (mut figures, mut lines) = (Vec::new(), Vec::new());
    let whole = [("mapped in pages".to_owned(), 4096, 1)];
    let parts = PROGRAMS.map(|n| (format!("mapped in 512 B, {n} programs a page"), 512, n));
    for (index, (name, mapping_unit, programs)) in whole.into_iter().chain(parts).enumerate() {
        let mut points = Vec::new();
        for (step, size) in SIZES.into_iter().enumerate() {
            let case = Case { capacity, mapping_unit, programs, size, seed: options.seed };
            let Outcome { waf, per_second } =
                case.run(&mut part(progress, index * SIZES.len() + step, steps))?;
            points.push([size as f64, waf]);
            let what = format!("{name}, {}", Bytes(size));
            figures.push(Figure::ours(format!("{what}: WAF"), waf));
            figures.push(Figure::ours(format!("{what}: durable writes per second"), per_second));
        }
        lines.push(PlotLine::ours(&name, points));
    }
    let plot = Plot {
        title: "Small durable writes: pages programmed in parts".into(),
        caption: "Random writes, one in flight, each flushed, on a drive of SLC without capacitors, in the end.".into(),
        x: PlotAxis::logarithmic("bytes of a write"),
        y: PlotAxis::logarithmic("WAF"),
        lines,
    };
    Ok((figures, vec![plot]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(mapping_unit: u64, programs: u32, size: u64) -> Outcome {
        let capacity = Bytes::mib(8);
        Case { capacity, mapping_unit, programs, size, seed: 1 }.run(&mut |_| {}).unwrap()
    }

    #[test]
    fn a_page_that_may_be_programmed_more_often_takes_more_small_writes() {
        let [once, four, eight] = [1, 4, 8].map(|programs| outcome(512, programs, 512));
        // A flush fills up a page after one, four, eight sectors of eight, before garbage collection.
        assert!(once.waf > 8.0, "{once:?}");
        assert!(four.waf > 2.0 && four.waf < 0.5 * once.waf, "{once:?} {four:?}");
        assert!(eight.waf < four.waf, "{four:?} {eight:?}");
        assert!(four.per_second > once.per_second, "{once:?} {four:?}");
        // Of whole pages, a flush parts only what garbage collection copies.
        let [once, four] = [1, 4].map(|programs| outcome(512, programs, 4096));
        assert!(four.waf <= once.waf && four.waf > 0.95 * once.waf, "{once:?} {four:?}");
        // Parts of pages are rewritten whole where that is what is mapped.
        assert!(outcome(4096, 1, 512).waf > 8.0);
    }
}
