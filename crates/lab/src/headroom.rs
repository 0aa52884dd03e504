//! Whether placement can help a workload: write amplification without separation, with the best known rates, and with
//! perfect knowledge of the future, on a full ideal drive.

mod study;

use std::collections::HashMap;

use serde::Serialize;
use thermocline_ftl::Shape;
use thermocline_types::{Bytes, Op, Request};

use crate::Error;
use crate::input::Prepared;
use study::Study;

/// Garbage proportion of the drive: 15 %, as placement studies use (SepBIT, FAST 2022).
pub const GARBAGE: f64 = 0.15;
/// Blocks of 4 KiB in a unit: 2 MiB, as placement studies use.
const BLOCKS_PER_UNIT: u32 = 512;
/// Smaller workloads get smaller units, so that the drive has about this many: the policies compared keep up to 33
/// units open and in reserve.
const UNITS: u64 = 640;
/// Blocks in a unit at least; with fewer, greedy cleaning is flattered too much.
const FEWEST_BLOCKS: u32 = 16;
/// What placement could reach on a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Headroom {
    /// Host blocks of 4 KiB written.
    pub blocks_written: u64,
    /// Distinct blocks written.
    pub blocks_distinct: u64,
    /// Garbage proportion, 1 − working set / media.
    pub garbage: f64,
    /// Blocks in a unit.
    pub blocks_per_unit: u32,
    /// One line per kind of knowledge, least first.
    pub lines: Vec<Line>,
    /// Which part was simulated, if not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledPart>,
}

/// Write amplification with one kind of knowledge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The knowledge used by placement.
    pub knowledge: &'static str,
    /// WAF with the best victim policy.
    pub waf: f64,
    /// Standard error of the WAF, if the WAF is a mean over samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// The best victim policy.
    pub victim: String,
}

/// Separation gains nothing if the WAF without separation is below this value. Chosen, not measured.
const LOW: f64 = 1.1;

impl Headroom {
    /// Whether separation without prediction saves enough wear: a tenth of the bytes that relocation writes.
    #[must_use]
    pub fn can_gain(&self) -> bool {
        const WORTH: f64 = 0.1;
        let [nothing, rates, present] = [0, 1, 2].map(|index: usize| self.lines[index].waf);
        nothing >= LOW && nothing - rates.min(present) > WORTH * (nothing - 1.0)
    }

    /// Whether placement can help, in words.
    #[must_use]
    pub fn verdict(&self) -> String {
        let waf = |index: usize| self.lines[index].waf;
        let (nothing, present, future) = (waf(0), waf(1).min(waf(2)), waf(3));
        let share = |reached: f64| (100.0 * (nothing - reached) / (nothing - 1.0)).max(0.0);
        if nothing < LOW {
            return format!(
                "nothing needed: a conventional drive writes this {nothing:.2} times as it is"
            );
        }
        format!(
            "of what a conventional drive writes beyond once ({:.2}), separation without prediction can \
             remove {:.0} %, perfect prediction {:.0} %",
            nothing - 1.0,
            share(present),
            share(future),
        )
    }
}

/// Block writes that the simulations replay at most, unless told otherwise: some half a minute.
pub const WRITES: u64 = 16_000_000;
/// The same for a first look: some seconds.
pub const QUICK_WRITES: u64 = 1_000_000;
/// Number of samples of a long workload: enough to estimate the spread between samples.
const SAMPLES: u64 = 4;
/// Least number of blocks in a sample: fewer blocks yield too few units for some policies.
const FEWEST_IN_SAMPLE: u64 = UNITS * FEWEST_BLOCKS as u64;

/// The simulated part of a workload too long to replay whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SampledPart {
    /// Number of samples of disjoint blocks; figures are means over samples.
    pub samples: u32,
    /// Share of the blocks in each.
    pub share_of_blocks: f64,
    /// Share of the block writes in all samples together. If the share is less than the samples' share of the blocks,
    /// the end of the workload was left out.
    pub share_of_writes: f64,
}

/// Simulates `workload` at 4 KiB granularity. Discards are ignored, so the drive is full throughout.
///
/// Of a workload that writes more than `most_writes` blocks, four samples are simulated: all writes to blocks
/// whose hash is in one class, on a drive as much smaller with units as much smaller, down to 16 blocks. The life of a
/// block, counted in units, stays what it is (spatial sampling, as SHARDS does for caches: Waldspurger et al., FAST
/// 2015). The error of a line is that of the mean over the samples; smaller units lower the figure beyond that.
///
/// # Errors
/// When the workload cannot be read, holds too many blocks, or too few to make units of.
pub fn headroom(
    workload: &mut Prepared,
    most_writes: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<Headroom, Error> {
    let plan = Plan::new(workload, most_writes)?;
    let read = collect(workload, &plan, &mut |share| progress(0.1 * share))?;
    let shapes = read.samples.iter().map(|sample| sample.shape(plan.classes));
    let shapes = shapes.collect::<Result<Vec<Shape>, Error>>()?;
    let studies = shapes.iter().zip(&read.samples);
    let studies: Vec<Study> = studies.map(|(&shape, sample)| Study::new(shape, sample)).collect();
    let lines = study::all(&studies, &mut |share| progress(0.1 + 0.9 * share))
        .map_err(|_| too_small(read.samples[0].blocks))?;
    let count = read.samples.len();
    let seen: u64 = read.samples.iter().map(|sample| sample.writes() as u64).sum();
    let sampled = (plan.classes > 1 || seen < read.blocks_written).then(|| SampledPart {
        samples: count as u32,
        share_of_blocks: 1.0 / plan.classes as f64,
        share_of_writes: seen as f64 / read.blocks_written.max(1) as f64,
    });
    Ok(Headroom {
        blocks_written: read.blocks_written,
        blocks_distinct: plan.blocks,
        garbage: GARBAGE,
        blocks_per_unit: shapes[0].blocks_per_unit(),
        lines: lines.iter().map(|samples| mean(samples.iter())).collect(),
        sampled,
    })
}

/// The mean of a line over the samples, with the error of that mean.
fn mean<'a>(lines: impl Iterator<Item = &'a Line> + Clone) -> Line {
    let count = lines.clone().count() as f64;
    let waf = lines.clone().map(|line| line.waf).sum::<f64>() / count;
    let squares: f64 = lines.clone().map(|line| (line.waf - waf).powi(2)).sum();
    let error = (count > 1.0).then(|| (squares / (count - 1.0) / count).sqrt());
    let first = lines.into_iter().next().expect("there is a sample");
    Line { waf, error, ..first.clone() }
}

/// Which blocks are simulated.
struct Plan {
    /// Blocks of the workload.
    blocks: u64,
    /// Number of classes by hash of the block address; a sample holds the blocks of one class.
    classes: u64,
    /// Samples.
    samples: u64,
    /// Block writes of each sample at most.
    most_writes: u64,
}

impl Plan {
    fn new(workload: &Prepared, most_writes: u64) -> Result<Plan, Error> {
        let blocks = workload.footprint().div_ceil(Bytes::BLOCK);
        if blocks >= u64::from(u32::MAX) {
            return Err(Error::Settings(
                "headroom takes up to 2^32 distinct blocks of 4 KiB, this workload writes more: try one `volume`, or a \
                 part of it"
                    .into(),
            ));
        }
        let written = match workload.pass() {
            Some(bytes) => bytes.div_ceil(Bytes::BLOCK),
            None => workload.bytes_to_write().div_ceil(Bytes::BLOCK),
        };
        let whole = Plan { blocks, classes: 1, samples: 1, most_writes };
        if written <= most_writes {
            return Ok(whole);
        }
        let classes = (written * SAMPLES).div_ceil(most_writes);
        let classes = classes.min(blocks / FEWEST_IN_SAMPLE);
        Ok(if classes < SAMPLES {
            whole
        } else {
            Plan { classes, samples: SAMPLES, most_writes: most_writes / SAMPLES, ..whole }
        })
    }

    /// The sample that holds `block`; `None` if no sample does.
    fn sample_of(&self, block: u32) -> Option<usize> {
        let class = if self.classes == 1 { 0 } else { hash(block) % self.classes };
        (class < self.samples).then_some(class as usize)
    }
}

/// A number that says nothing of where the block is (SplitMix64, Steele et al., OOPSLA 2014).
fn hash(block: u32) -> u64 {
    let mut x = u64::from(block).wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Blocks in write order, the prefill first, numbered from 0.
#[derive(Default)]
struct Sequence {
    written: Vec<u32>,
    prefill: usize,
    /// Blocks that there are.
    blocks: u64,
    /// Where they are numbered anew, by their number in the workload.
    numbers: HashMap<u32, u32>,
}

impl Sequence {
    fn take(&mut self, block: u32, renumber: bool) {
        let number = if renumber {
            let next = self.numbers.len() as u32;
            *self.numbers.entry(block).or_insert(next)
        } else {
            block
        };
        self.written.push(number);
    }

    /// The simulated drive for a division into `classes` classes.
    fn shape(&self, classes: u64) -> Result<Shape, Error> {
        let physical = (self.blocks as f64 / (1.0 - GARBAGE)) as u64;
        let most = (u64::from(BLOCKS_PER_UNIT) / classes).max(u64::from(FEWEST_BLOCKS)) as u32;
        let per_unit = ((physical / UNITS) as u32).clamp(FEWEST_BLOCKS, most);
        let units = (physical / u64::from(per_unit)) as u32;
        Shape::new(self.blocks, units, per_unit).map_err(|_| too_small(self.blocks))
    }

    /// Block writes after the prefill.
    fn writes(&self) -> usize {
        self.written.len() - self.prefill
    }
}

/// What was read.
struct Read {
    samples: Vec<Sequence>,
    /// By the whole workload.
    blocks_written: u64,
}

fn collect(
    workload: &mut Prepared,
    plan: &Plan,
    progress: &mut dyn FnMut(f64),
) -> Result<Read, Error> {
    let renumber = plan.classes > 1;
    let mut samples: Vec<Sequence> = (0..plan.samples).map(|_| Sequence::default()).collect();
    workload.prefill(|request| {
        for block in blocks_of(&request) {
            if let Some(sample) = plan.sample_of(block) {
                samples[sample].take(block, renumber);
            }
        }
        Ok(())
    })?;
    samples.iter_mut().for_each(|sample| sample.prefill = sample.written.len());
    let mut blocks_written = 0;
    workload.replay(|batch| {
        progress(batch.done);
        for request in batch.pieces().iter().filter(|request| request.op == Op::Write) {
            for block in blocks_of(request) {
                blocks_written += 1;
                let Some(sample) = plan.sample_of(block) else { continue };
                if (samples[sample].writes() as u64) < plan.most_writes {
                    samples[sample].take(block, renumber);
                }
            }
        }
        Ok(())
    })?;
    for sample in &mut samples {
        sample.blocks = if renumber { sample.numbers.len() as u64 } else { plan.blocks };
        sample.numbers = HashMap::new();
    }
    Ok(Read { samples, blocks_written })
}

fn too_small(blocks: u64) -> Error {
    Error::Settings(format!(
        "the workload writes {} distinct bytes, too few to simulate what placement could reach",
        Bytes(blocks * Bytes::BLOCK.0)
    ))
}

/// The 4 KiB blocks a request touches.
fn blocks_of(request: &Request) -> impl Iterator<Item = u32> + use<> {
    (request.offset.0 / Bytes::BLOCK.0..request.end().div_ceil(Bytes::BLOCK)).map(|lba| lba as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;
    use thermocline_workload::synthetic::{self, Limit};

    fn workload(spec: &str, span: Bytes, times: f64) -> Prepared {
        let limit = Limit::drive_writes(times, span).unwrap();
        let options = synthetic::Options::new(span, limit);
        let input = Input::Synthetic { spec: spec.parse().unwrap(), options };
        Prepared::new(input, None, Bytes::BLOCK, None).unwrap()
    }

    /// Whole and sampled, on a skew that most policies differ on. Units of a sample are smaller, which lowers what
    /// greedy cleaning copies, so the bound is not the error that is told.
    #[test]
    fn a_sample_gives_what_the_whole_gives_within_a_tenth() {
        let mut zipf = workload("zipf:0.9", Bytes::mib(512), 4.0);
        let whole = headroom(&mut zipf, WRITES, &mut |_| {}).unwrap();
        assert!(whole.sampled.is_none() && whole.lines.iter().all(|line| line.error.is_none()));
        let part = headroom(&mut zipf, 262_144, &mut |_| {}).unwrap();
        let sampled = part.sampled.clone().unwrap();
        assert_eq!((sampled.samples, part.blocks_written), (4, whole.blocks_written));
        assert!((0.3..=0.55).contains(&sampled.share_of_writes), "{sampled:?}");
        for (whole, part) in whole.lines.iter().zip(&part.lines) {
            let (ratio, error) = (part.waf / whole.waf, part.error.unwrap());
            assert!((0.85..1.1).contains(&ratio), "{}: {part:?} of {whole:?}", whole.knowledge);
            assert!(error > 0.0 && error < 0.1 * part.waf, "{part:?}");
        }
    }

    #[test]
    fn however_much_is_written_no_more_is_simulated_than_was_asked_for() {
        let mut few_blocks = workload("uniform", Bytes::mib(16), 40.0);
        let mut last = 0.0;
        let part = headroom(&mut few_blocks, 20_000, &mut |share| last = share).unwrap();
        let sampled = part.sampled.unwrap();
        assert_eq!(sampled.samples, 1, "blocks are too few to divide");
        assert!((sampled.share_of_writes - 20_000.0 / part.blocks_written as f64).abs() < 1e-9);
        assert!((last - 1.0).abs() < 1e-9, "{last}");
    }
}
