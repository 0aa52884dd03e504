//! Whether placement can help a workload: write amplification without separation, with the best known rates, and with
//! perfect knowledge of the future, on a full ideal drive.

use serde::Serialize;
use thermocline_ftl::placement::{Clairvoyant, Nothing, Placement, SeparateRelocation, TrueRates};
use thermocline_ftl::victim::{CostBenefit, Victim};
use thermocline_ftl::{Ftl, NoMedia, Shape, ShapeError};
use thermocline_types::{Bytes, Cause, Lba, Op, Request};

use crate::Error;
use crate::input::Prepared;

/// Garbage proportion of the drive: 15 %, as placement studies use (SepBIT, FAST 2022).
pub const GARBAGE: f64 = 0.15;
/// Blocks of 4 KiB in a unit: 2 MiB, as placement studies use.
const BLOCKS_PER_UNIT: u32 = 512;
/// Smaller workloads get smaller units, so that the drive has about this many: the policies compared keep up to 33
/// units open and in reserve.
const UNITS: u64 = 640;
/// Blocks in a unit at least; with fewer, greedy cleaning is flattered too much.
const FEWEST_BLOCKS: u32 = 16;
/// Classes of the policy that knows rates, an octave apart.
const RATE_CLASSES: u8 = 12;
/// Classes of the policy that knows the future and the ratio between them; of those tried by us on Zipf 1.0, the best.
const FUTURE_CLASSES: u8 = 16;
const FUTURE_RATIO: f64 = 1.7;

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
}

/// Write amplification with one kind of knowledge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// What placement knows.
    pub knowledge: &'static str,
    /// WAF with the best victim policy.
    pub waf: f64,
    /// Which victim policy that was.
    pub victim: String,
}

/// Below this WAF without any separation, there is nothing to gain. Chosen, not measured.
const LOW: f64 = 1.1;

impl Headroom {
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

/// Simulates `workload` at 4 KiB granularity. Discards are ignored, so the drive is full throughout.
///
/// # Errors
/// When the workload cannot be read, holds too many blocks, or too few to make units of.
pub fn headroom(workload: &mut Prepared, progress: &mut dyn FnMut(f64)) -> Result<Headroom, Error> {
    let (sequence, prefill, blocks) = sequence(workload)?;
    let physical = (blocks as f64 / (1.0 - GARBAGE)) as u64;
    let small = |_: ShapeError| {
        Error::Settings(format!(
            "the workload writes {} distinct bytes, too few to simulate what placement could reach",
            Bytes(blocks * Bytes::BLOCK.0)
        ))
    };
    let per_unit = ((physical / UNITS) as u32).clamp(FEWEST_BLOCKS, BLOCKS_PER_UNIT);
    let units = (physical / u64::from(per_unit)) as u32;
    let shape = Shape::new(blocks, units, per_unit).map_err(small)?;
    let study = Study { shape, sequence: &sequence, prefill };
    let mut counts = vec![0_u32; blocks as usize];
    sequence[prefill..].iter().for_each(|&lba| counts[lba as usize] += 1);
    let rates = TrueRates::new(&counts, RATE_CLASSES);
    let future = Clairvoyant::new(&sequence, blocks, per_unit, FUTURE_CLASSES, FUTURE_RATIO);
    let mut lines = Vec::new();
    let mut add = |knowledge, best: Result<(f64, Victim), ShapeError>| {
        let (waf, victim) = best.map_err(small)?;
        lines.push(Line { knowledge, waf, victim: victim.to_string() });
        progress(lines.len() as f64 / 4.0);
        Ok::<(), Error>(())
    };
    add("nothing: one open unit", study.best(&Nothing))?;
    add("which blocks were relocated", study.best(&SeparateRelocation))?;
    add("every block's true write rate", study.best(&rates))?;
    add("every block's next write", study.best(&future))?;
    Ok(Headroom {
        blocks_written: (sequence.len() - prefill) as u64,
        blocks_distinct: blocks,
        garbage: GARBAGE,
        blocks_per_unit: per_unit,
        lines,
    })
}

/// The sequence of blocks written, those of the prefill first, their number, and how many blocks there are.
fn sequence(workload: &mut Prepared) -> Result<(Vec<u32>, usize, u64), Error> {
    let blocks = workload.footprint().div_ceil(Bytes::BLOCK);
    let too_many = || {
        Error::Settings(
            "headroom keeps 4 bytes per block written in memory and takes up to 2^32 of them; this \
             workload writes more: try one --volume, or a part of it"
                .into(),
        )
    };
    let total = blocks + workload.working_set().bytes_written.div_ceil(Bytes::BLOCK);
    if total >= u64::from(u32::MAX) {
        return Err(too_many());
    }
    let mut sequence: Vec<u32> = Vec::with_capacity(total as usize);
    workload.prefill(|request| {
        sequence.extend(blocks_of(&request));
        Ok(())
    })?;
    let prefill = sequence.len();
    workload.replay(|batch| {
        let writes = batch.pieces().iter().filter(|request| request.op == Op::Write);
        sequence.extend(writes.flat_map(blocks_of));
        if sequence.len() < u32::MAX as usize { Ok(()) } else { Err(too_many()) }
    })?;
    Ok((sequence, prefill, blocks))
}

/// The 4 KiB blocks a request touches.
fn blocks_of(request: &Request) -> impl Iterator<Item = u32> + use<> {
    (request.offset.0 / Bytes::BLOCK.0..request.end().div_ceil(Bytes::BLOCK)).map(|lba| lba as u32)
}

struct Study<'a> {
    shape: Shape,
    sequence: &'a [u32],
    prefill: usize,
}

impl Study<'_> {
    /// The lowest write amplification over victim policies, and which gave it.
    fn best<P: Placement + Clone>(&self, placement: &P) -> Result<(f64, Victim), ShapeError> {
        let mut best = (f64::INFINITY, Victim::Greedy);
        for victim in [
            Victim::Greedy,
            Victim::CostBenefit(CostBenefit::FourthRootAge),
            Victim::CostBenefit(CostBenefit::SquareRootAge),
            Victim::CostBenefit(CostBenefit::Kawaguchi),
        ] {
            let waf = self.waf(placement.clone(), victim)?;
            if waf < best.0 {
                best = (waf, victim);
            }
        }
        Ok(best)
    }

    fn waf<P: Placement>(&self, placement: P, victim: Victim) -> Result<f64, ShapeError> {
        let mut ftl = Ftl::new(self.shape, placement, victim, 1)?;
        let mut write = |lbas: &[u32]| {
            for &lba in lbas {
                ftl.write(Lba(u64::from(lba)), 0, &mut NoMedia).expect("nothing wears out");
            }
            ftl.programmed(Cause::Relocation)
        };
        let (prefill, measured) = self.sequence.split_at(self.prefill);
        let before = write(prefill);
        let copied = write(measured) - before;
        Ok(1.0 + copied as f64 / measured.len().max(1) as f64)
    }
}
