//! The document's TPCx-HS on D-Series servers: Hadoop's sort on volumes in the place of disks, as its block load.
//!
//! All that is known of theirs is 3 TB, eight drives in a server, and that it took half of the time. TPCx-HS generates
//! records, sorts them and validates the result, generated and sorted data kept three times (TPC, specification of
//! TPCx-HS). Everything else here is chosen: see [`PHASES`] and the constants. Processors and network are left out: a
//! sort takes as long as its drives do.

use std::ops::Range;

use thermocline_types::{Bytes, Op, Request, Rng, StreamId, TenantId, Time};

use super::bed::{Bed, Side};

use super::{Figure, part};
use crate::Error;
use crate::jobs::{JobLimits, JobQueue};
use crate::target::Target;

/// Drives of a server, each with a volume of its own: the document's.
const DRIVES: u64 = 8;
/// Streams of a drive that a phase has at once, each a task with a file of its own.
const STREAMS: u64 = 4;
/// Requests in flight for each stream: the awaited request and one read-ahead or write-behind.
const DEPTH: u32 = 2;
/// Bytes of a request, where data is read or written in order: Linux makes them of 1,280 KiB at most by default.
const REQUEST: u64 = 1 << 20;
/// Factor by which [`REQUEST`] may grow: read-ahead, and a scheduler that serves one stream for a while, merge adjacent
/// requests.
const LARGER: u64 = 4;
/// Bytes of a request where a reducer fetches its share of what a mapper wrote.
const FETCH: u64 = 64 << 10;

/// Layout of a volume, in eighths. Generated and sorted data have three eighths each, because data is kept in three
/// copies. The shuffle has one eighth, and one eighth is free.
const GENERATED: Range<u64> = 0..3;
const ONE_COPY: Range<u64> = 0..1;
const SHUFFLE: Range<u64> = 3..4;
const SORTED: Range<u64> = 4..7;
const ONE_SORTED: Range<u64> = 4..5;

/// Part of the work of a phase: some of its streams go through an area.
struct Part {
    area: Range<u64>,
    op: Op,
    /// Whether places are drawn, as where a reducer fetches from all mappers.
    random: bool,
    streams: u64,
}

const fn in_order(area: Range<u64>, op: Op, streams: u64) -> Part {
    Part { area, op, random: false, streams }
}

const FETCHES: Part = Part { area: SHUFFLE, op: Op::Read, random: true, streams: STREAMS / 2 };

/// The phases of a sort, each begun when the one before has ended on all volumes.
const PHASES: [(&str, &[Part]); 4] = [
    ("generate", &[in_order(GENERATED, Op::Write, STREAMS)]),
    (
        "map",
        &[in_order(ONE_COPY, Op::Read, STREAMS / 2), in_order(SHUFFLE, Op::Write, STREAMS / 2)],
    ),
    ("reduce", &[FETCHES, in_order(SORTED, Op::Write, STREAMS / 2)]),
    ("validate", &[in_order(ONE_SORTED, Op::Read, STREAMS)]),
];

/// What the terms of a sort may be besides.
#[derive(Clone, Copy, PartialEq)]
enum Terms {
    /// As above.
    Stated,
    /// One task at a time: a phase has one stream of each kind.
    OneTask,
    /// Requests in order are [`LARGER`] times as large.
    Larger,
    /// A reducer fetches as much at a time as is read in order.
    LargeFetches,
    /// What a sort has written is discarded before the next one.
    Discards,
}

/// One stream of requests.
struct Stream {
    area: Range<u64>,
    op: Op,
    request: u64,
    /// Bytes requested so far.
    asked: u64,
    random: Option<Rng>,
}

impl Stream {
    /// The next request; `None` at the end of the area.
    fn next(&mut self, number: usize) -> Option<Request> {
        let length = self.area.end - self.area.start;
        if self.asked >= length {
            return None;
        }
        let place = match &mut self.random {
            Some(rng) => rng.below(length / self.request) * self.request,
            None => self.asked,
        };
        let asked = self.request.min(length - self.asked);
        self.asked += asked;
        Some(Request {
            at: Time::ZERO,
            offset: Bytes(self.area.start + place),
            length: Bytes(asked),
            tenant: TenantId(number as u32),
            stream: StreamId::UNKNOWN,
            op: self.op,
            outstanding: None,
        })
    }
}

/// Seconds that each phase takes, and the WAF of a whole sort.
struct Sort {
    seconds: [f64; PHASES.len()],
    waf: f64,
}

impl Sort {
    fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }
}

/// The streams of `parts` on so many volumes of `volume` bytes.
fn streams(parts: &[Part], volume: u64, volumes: u64, terms: Terms, seed: u64) -> Vec<Stream> {
    let in_order = if terms == Terms::Larger { LARGER * REQUEST } else { REQUEST };
    let fetch = if terms == Terms::LargeFetches { REQUEST } else { FETCH };
    let eighth = volume / 8 / (STREAMS * REQUEST) * (STREAMS * REQUEST);
    let mut all = Vec::new();
    for base in (0..volumes).map(|index| index * volume) {
        for part in parts {
            let count = if terms == Terms::OneTask { 1 } else { part.streams };
            let area = base + part.area.start * eighth..base + part.area.end * eighth;
            let each = (area.end - area.start) / count;
            for stream in 0..count {
                let own = area.start + stream * each..area.start + (stream + 1) * each;
                let number = seed.wrapping_mul(1000) + all.len() as u64;
                all.push(Stream {
                    area: own,
                    op: part.op,
                    request: if part.random { fetch } else { in_order },
                    asked: 0,
                    random: part.random.then(|| Rng::new(number)),
                });
            }
        }
    }
    all
}

/// Has `queue` serve all of `streams`; returns the seconds that took.
fn serve(queue: &mut JobQueue, mut streams: Vec<Stream>) -> Result<f64, Error> {
    let start = queue.target.now();
    let depths = std::iter::repeat_n(DEPTH, streams.len());
    let next = |_: &dyn Target, number: usize, _| Ok(streams[number].next(number));
    queue.serve_jobs(&JobLimits::depths(depths), next, |_| ())?;
    Ok(queue.target.now().since(start).as_secs_f64())
}

/// The second of two sorts on `side`, which finds what the first has left.
fn sort(bed: &Bed, side: Side, terms: Terms) -> Result<Sort, Error> {
    let volume = bed.volume.0 / DRIVES;
    // Disks are alike, and each has its own volume.
    let volumes = if side == Side::Disk { 1 } else { DRIVES };
    let all = Bytes(volume * volumes);
    let mut queue = bed.queue(side, all)?;
    queue.fill(all, Bytes::kib(128), |_| TenantId(0))?;
    let mut sorted = Sort { seconds: [0.0; PHASES.len()], waf: 0.0 };
    for _ in 0..2 {
        if terms == Terms::Discards {
            let trims = [in_order(0..7, Op::Trim, 1)];
            serve(&mut queue, streams(&trims, volume, volumes, terms, bed.seed))?;
        }
        let start = queue.target.byte_counts();
        for (at, (_, parts)) in PHASES.iter().enumerate() {
            sorted.seconds[at] =
                serve(&mut queue, streams(parts, volume, volumes, terms, bed.seed))?;
        }
        let counts = queue.target.byte_counts().since(&start);
        sorted.waf = counts.drive.media_total as f64 / counts.host_written.max(1) as f64;
    }
    Ok(sorted)
}

/// Tasks are not known.
const ONE_TASK: &str = "one task of a drive at a time, not two or four,";
/// Nor is how much of one stream a disk serves at once.
const LARGE: &str = "requests in order of 4 MiB, not 1,";
/// Nor how many reducers share what a mapper wrote.
const LARGE_FETCH: &str = "reducers that fetch 1 MiB at a time, not 64 KiB,";

/// Times of a sort on the tier against disks and the drive alone, of each phase and of the whole.
pub fn figures(bed: &Bed, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let terms = [Terms::Stated, Terms::OneTask, Terms::Larger, Terms::LargeFetches];
    let (mut ratios, mut stated) = ([0.0; 4], None);
    for (at, terms) in terms.into_iter().enumerate() {
        let [disk, tier] = [sort(bed, Side::Disk, terms)?, sort(bed, Side::Tier, terms)?];
        ratios[at] = disk.total() / tier.total();
        stated.get_or_insert((disk, tier));
        part(progress, at, 8)(1.0);
    }
    let [ours, one, large, fetch] = ratios;
    let what = "TPCx-HS, tier: at most so many times as fast as disks (theirs is twice as fast), without processors and network";
    let mut figures = vec![Figure::ours(what, ours)];
    let knobs = [(ONE_TASK, one), (LARGE, large), (LARGE_FETCH, fetch)];
    let with = |(knob, ours): (&str, f64)| Figure::ours(format!("{what}; with {knob} it is"), ours);
    figures.extend(knobs.map(with));
    let (disk, tier) = stated.expect("at least one was run");
    figures.extend(beside(bed, &disk, &tier)?);
    Ok(figures)
}

/// What the document has no figure for: each phase, the drive alone, and with discards.
fn beside(bed: &Bed, disk: &Sort, tier: &Sort) -> Result<Vec<Figure>, Error> {
    let drive = sort(bed, Side::Drive, Terms::Stated)?;
    let mut figures = Vec::new();
    for (side, sorted) in [(Side::Drive, &drive), (Side::Tier, tier)] {
        for (at, (phase, _)) in PHASES.iter().enumerate() {
            let what = format!("TPCx-HS, {}: {phase}, times as fast as disks", side.name());
            figures.push(Figure::ours(what, disk.seconds[at] / sorted.seconds[at]));
        }
        let discards = sort(bed, side, Terms::Discards)?;
        for (with, sorted) in [("", sorted), (", discards", &discards)] {
            let named = |what: &str| format!("TPCx-HS, {}{with}: {what}", side.name());
            let ratio = disk.total() / sorted.total();
            figures.push(Figure::ours(named("sort, times as fast as disks"), ratio));
            figures.push(Figure::ours(named("WAF"), sorted.waf));
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_asks_for_all_of_its_areas_once_on_every_volume() {
        let volume = 64 << 20;
        for (name, parts) in &PHASES {
            let mut all = streams(parts, volume, 3, Terms::Stated, 1);
            assert_eq!(all.len() as u64, 3 * STREAMS, "{name}");
            let areas: u64 = parts.iter().map(|part| part.area.end - part.area.start).sum();
            let mut bytes = 0;
            for (number, stream) in all.iter_mut().enumerate() {
                while let Some(request) = stream.next(number) {
                    let inside = stream.area.start <= request.offset.0
                        && request.offset.0 + request.length.0 <= stream.area.end;
                    assert!(inside, "{name}: {request:?}");
                    bytes += request.length.0;
                }
            }
            assert_eq!(bytes, 3 * areas * volume / 8, "{name}");
        }
    }

    #[test]
    fn streams_side_by_side_cost_a_disk_more_than_flash() {
        let bed = Bed::of(Bytes::mib(512), 1);
        let one = |side| sort(&bed, side, Terms::OneTask).unwrap().total();
        let all = |side| sort(&bed, side, Terms::Stated).unwrap();
        let (disk, tier) = (all(Side::Disk), all(Side::Tier));
        assert!(disk.total() > tier.total(), "{} {}", disk.total(), tier.total());
        assert!(disk.total() / one(Side::Disk) > tier.total() / one(Side::Tier));
        // A sort writes seven eighths of the volume; the fast drive, 6 % of the volume, may keep as much of that.
        assert!((0.93..1.6).contains(&tier.waf), "{}", tier.waf);
    }
}
