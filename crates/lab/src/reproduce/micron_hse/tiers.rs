//! The document's three set-ups under the store of the shipped generator (`lab list hse`), which chooses the drive of
//! each file itself.

use tempfile::NamedTempFile;
use thermocline_types::{Bytes, Op, Request, StreamId};
use thermocline_workload::remap::Remap;
use thermocline_workload::synthetic::{self, Generator, Limit, Spec};
use thermocline_workload::{Source, trace};

use super::{FILLED, Figure, HOT, Options, SET_UPS, SetUp, VOLUMES, volume};
use crate::reproduce::part;
use crate::reproduce::point::{MICRON, Reference};
use crate::{Error, Input, Prefill, Prepared, Settings, Stack, run};

const DEVICE: Reference =
    Reference::new(MICRON, "MongoDB, TPC-C, five hours: WA of the capacity drive", "ratio");
const TOTAL: Reference = Reference::new(
    MICRON,
    "MongoDB, TPC-C, five hours: media bytes for each of the application",
    "ratio",
);
const SHARE: Reference =
    Reference::new(MICRON, "share of all writes that the hot tier takes", "share");
const USED: Reference =
    Reference::new(MICRON, "share of all bytes in use that the hot tier has", "share");
/// The document: the hot tier took 80 % of the writes, and had 150 to 200 of 800 GB.
const THEIR_SHARE: f64 = 0.8;
/// Memtables and files that a volume has room for. Chosen.
const MEMORIES: u64 = 512;
const FILES: u64 = 1024;

/// The front of the volume that is on the hot drive, and the rest.
#[derive(Clone, Copy)]
struct Sides {
    volume: Bytes,
    hot: Bytes,
}

/// What the store writes and keeps.
struct Traffic {
    /// Documents that the application changed, times their size.
    application: u64,
    /// Bytes written to the hot side, then to the other.
    written: [u64; 2],
    /// Bytes in files at the end, likewise.
    used: [u64; 2],
}

impl Traffic {
    fn share(of: [u64; 2]) -> f64 {
        of[0] as f64 / (of[0] + of[1]).max(1) as f64
    }
}

impl Sides {
    fn new(options: &Options) -> Sides {
        let volume = volume(options);
        let hot = Bytes((volume.as_f64() * HOT) as u64 / Bytes::BLOCK.0 * Bytes::BLOCK.0);
        Sides { volume, hot }
    }

    /// The store's requests. It discards deleted files. Memory and files are parts of the volume.
    fn generator(self, seed: u64) -> Result<Generator, Error> {
        let (memory, file) = (self.volume.0 / MEMORIES, self.volume.0 / FILES);
        let text =
            format!("hse:staging={},memtable={memory},mblock={file},fs.discard=on", self.hot.0);
        let spec = text.parse::<Spec>()?;
        let limit = Limit::drive_writes(VOLUMES, self.volume)?;
        let options = synthetic::Options { seed, ..synthetic::Options::new(self.volume, limit) };
        Ok(Generator::new(&spec, &options)?)
    }

    fn traffic(self, seed: u64) -> Result<Traffic, Error> {
        let mut generator = self.generator(seed)?;
        let mut holds = vec![false; self.volume.div_ceil(Bytes::BLOCK) as usize];
        let (mut written, mut batch) = ([0; 2], Vec::new());
        loop {
            generator.fill(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            for request in &batch {
                let of = request.offset.0 / Bytes::BLOCK.0..request.end().div_ceil(Bytes::BLOCK);
                let blocks = &mut holds[of.start as usize..of.end as usize];
                match request.op {
                    Op::Write => {
                        written[usize::from(request.offset >= self.hot)] += request.length.0;
                        blocks.fill(true);
                    }
                    Op::Trim => blocks.fill(false),
                    _ => {}
                }
            }
        }
        let (hot, rest) = holds.split_at((self.hot.0 / Bytes::BLOCK.0) as usize);
        let bytes =
            |side: &[bool]| side.iter().filter(|&&held| held).count() as u64 * Bytes::BLOCK.0;
        let facts = generator.lsm_facts().unwrap_or_default();
        Ok(Traffic { application: facts.ingested, written, used: [bytes(hot), bytes(rest)] })
    }
}

/// The writes of the store to one part of the volume, from the part's start on.
struct Side {
    generator: Generator,
    from: Bytes,
    until: Bytes,
}

impl Source for Side {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), trace::Error> {
        loop {
            self.generator.fill(batch)?;
            if batch.is_empty() {
                return Ok(());
            }
            let within = self.from..self.until;
            batch.retain(|request| request.op == Op::Write && within.contains(&request.offset));
            if !batch.is_empty() {
                for request in &mut *batch {
                    request.offset.0 -= self.from.0;
                    request.stream = StreamId::UNKNOWN;
                }
                return Ok(());
            }
        }
    }

    fn fraction_done(&self) -> f64 {
        self.generator.fraction_done()
    }
}

/// Media bytes for each byte written, of `side` on `stack` as full as `filled`. Trims are ignored.
fn amplified(
    mut side: Side,
    stack: &str,
    filled: f64,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<f64, Error> {
    let cannot = |error| Error::Settings(format!("no temporary file: {error}"));
    let file = NamedTempFile::with_suffix(".csv").map_err(cannot)?;
    trace::write_csv(&mut side, &mut file.as_file())?;
    let input = Input::Trace {
        path: file.path().to_owned(),
        options: trace::Options::default(),
        remap: Remap::Dense,
        loops: 1,
        ignore_trims: true,
    };
    let stack = Stack::parse(stack, &[])?.untimed();
    let granule = stack.profile.mapping_unit.max(Bytes::BLOCK);
    let mut prepared = Prepared::new(input, Some(Prefill::FirstTouch), granule, None)?;
    let settings = Settings { utilisation: filled, seed, ..Settings::default() };
    let record = run(&mut prepared, &stack, &settings, progress)?;
    record.waf.ok_or_else(|| Error::Settings("nothing was written".into()))
}

/// The document's figures of its three set-ups, beside those of the store.
pub(super) fn store(
    options: &Options,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<Figure>, Error> {
    let (sides, seed) = (Sides::new(options), options.seed);
    let Traffic { application, written, used } = sides.traffic(seed)?;
    let side = |from, until| -> Result<Side, Error> {
        Ok(Side { generator: sides.generator(seed)?, from, until })
    };
    let mut figures = vec![
        Figure::ours(
            "HSE: GB of the application (documents changed x size)",
            application as f64 / 1e9,
        ),
        Figure::ours(
            "HSE: bytes to files for each of the application",
            (written[0] + written[1]) as f64 / application as f64,
        ),
        Figure::new(
            "HSE, tiered: share of all writes to drives that the hot one takes",
            THEIR_SHARE,
            Traffic::share(written),
            SHARE,
        ),
        Figure::new(
            "HSE, tiered: share of all bytes in use that are on the hot drive",
            HOT,
            Traffic::share(used),
            USED,
        ),
    ];
    let steps = SET_UPS.len() + 1;
    let mut hot_media = 0.0;
    for (step, SetUp { what, own, device, total, .. }) in SET_UPS.iter().enumerate() {
        let tiered = step > 0;
        if step == 1 {
            let all = side(Bytes::ZERO, sides.hot)?;
            let mut progress = part(progress, SET_UPS.len(), steps);
            let wa = amplified(all, "raw:micron9100", HOT, seed, &mut progress)?;
            figures.push(Figure::ours("HSE, tiered: WA of the hot drive", wa));
            hot_media = wa * written[0] as f64;
        }
        let from = if tiered { sides.hot } else { Bytes::ZERO };
        let given = written[1] + if tiered { 0 } else { written[0] };
        let capacity = side(from, sides.volume)?;
        let wa = amplified(capacity, own, FILLED, seed, &mut part(progress, step, steps))?;
        let media = wa * given as f64 + hot_media;
        figures.push(Figure::new(
            format!("HSE, {what}: WA of the capacity drive"),
            *device,
            wa,
            DEVICE.part(what),
        ));
        figures.push(Figure::new(
            format!("HSE, {what}: media bytes of all drives per byte of the application"),
            *total,
            media / application as f64,
            TOTAL.part(what),
        ));
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each write is on one side, and no document is written less than once.
    #[test]
    fn both_sides_have_all_writes_of_the_store() {
        let sides = Sides::new(&Options { seed: 1, traces: None, quick: true, points: false });
        let traffic = sides.traffic(1).unwrap();
        let bytes = |from, until| {
            let mut side = Side { generator: sides.generator(1).unwrap(), from, until };
            let (mut sum, mut batch) = (0, Vec::new());
            loop {
                side.fill(&mut batch).unwrap();
                if batch.is_empty() {
                    return sum;
                }
                assert!(batch.iter().all(|request| request.end().0 <= until.0 - from.0));
                sum += batch.iter().map(|request| request.length.0).sum::<u64>();
            }
        };
        let both = [bytes(Bytes::ZERO, sides.hot), bytes(sides.hot, sides.volume)];
        assert_eq!(both, traffic.written);
        assert!(traffic.application < both[0] + both[1]);
        assert!((0.6..0.95).contains(&Traffic::share(traffic.written)), "{both:?}");
        assert!(traffic.used[0] > 0 && traffic.used[0] <= sides.hot.0);
    }
}
