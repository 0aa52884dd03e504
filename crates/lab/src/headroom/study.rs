//! The simulations behind the headroom: for each sample and each kind of knowledge, the best of several victim
//! policies. Simulations and reserve are those of the placement yardstick, so an oracle has the same figure in both.
//!
//! Simulations are independent, and one runs on each processor. A simulation ends early when its copies reach the total
//! of the best policy so far; no result changes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use thermocline_ftl::placement::{Clairvoyant, Nothing, Placement, SeparateRelocation, TrueRates};
use thermocline_ftl::victim::{CostBenefit, Victim};
use thermocline_ftl::{Ftl, NoMedia, Shape, ShapeError};
use thermocline_types::{Cause, Lba};

use super::{Line, Sequence};
use crate::bench_placement::{known_future, known_rates, usual_reserve};

/// Kinds of knowledge available to placement, least first.
const KNOWLEDGE: [&str; 4] = [
    "nothing: one open unit",
    "which blocks were relocated",
    "every block's true write rate",
    "every block's next write",
];

/// Victim policies that are tried.
const VICTIMS: [Victim; 4] = [
    Victim::Greedy,
    Victim::CostBenefit(CostBenefit::FourthRootAge),
    Victim::CostBenefit(CostBenefit::SquareRootAge),
    Victim::CostBenefit(CostBenefit::Kawaguchi),
];

/// Seed of the simulations, equal to the default seed of `lab explain`.
const SEED: u64 = 1;

/// Block writes between two looks at the progress.
const STEP: usize = 1 << 16;

/// The simulations of one sample.
pub(super) struct Study<'a> {
    shape: Shape,
    sequence: &'a [u32],
    prefill: usize,
    blocks: u64,
}

/// How many block writes are done of all, of all simulations together.
struct Done {
    writes: AtomicU64,
    of: u64,
}

impl Done {
    fn add(&self, writes: u64) {
        self.writes.fetch_add(writes, Ordering::Relaxed);
    }

    fn share(&self) -> f64 {
        self.writes.load(Ordering::Relaxed) as f64 / self.of.max(1) as f64
    }
}

/// One simulation per victim policy, run in sequence.
struct Task<'a> {
    study: &'a Study<'a>,
    /// Which of [`KNOWLEDGE`].
    knowledge: usize,
    victims: &'a [Victim],
}

/// The lines of all samples for each kind of knowledge. All victim policies are tried on the first sample, and the
/// best on the others.
pub(super) fn all(
    studies: &[Study],
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<Vec<Line>>, ShapeError> {
    let (first, others) = studies.split_first().expect("there is a sample");
    let on_others: u64 = others.iter().map(Study::work).sum();
    let all = KNOWLEDGE.len() as u64;
    let of = all * (VICTIMS.len() as u64 * first.work() + on_others);
    let done = Done { writes: AtomicU64::new(0), of };
    let begun =
        (0..KNOWLEDGE.len()).map(|knowledge| Task { study: first, knowledge, victims: &VICTIMS });
    let begun = side_by_side(&begun.collect::<Vec<Task>>(), &done, progress)?;
    let rest = others.iter().flat_map(|study| {
        let best = begun.iter().enumerate();
        best.map(move |(knowledge, (_, victim))| (study, knowledge, std::slice::from_ref(victim)))
    });
    let rest: Vec<Task> =
        rest.map(|(study, knowledge, victims)| Task { study, knowledge, victims }).collect();
    let rest = side_by_side(&rest, &done, progress)?;
    let found = begun.iter().chain(&rest).map(|(line, _)| line);
    Ok((0..KNOWLEDGE.len())
        .map(|knowledge| found.clone().skip(knowledge).step_by(KNOWLEDGE.len()).cloned().collect())
        .collect())
}

/// Runs the tasks in parallel; returns the line and the best victim policy of each task.
fn side_by_side(
    tasks: &[Task],
    done: &Done,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<(Line, Victim)>, ShapeError> {
    let next = AtomicUsize::new(0);
    let lines = Mutex::new(vec![None; tasks.len()]);
    let work = |tell: &mut dyn FnMut()| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(at) else { return };
            let line = task.study.line(task, done, tell);
            lines.lock().expect("no panic is survived")[at] = Some(line);
        }
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 1..processors.min(tasks.len()) {
            scope.spawn(|| work(&mut || {}));
        }
        work(&mut || progress(done.share()));
    });
    progress(done.share());
    let lines = lines.into_inner().expect("no panic is survived").into_iter();
    lines.map(|line| line.expect("each was done")).collect()
}

impl<'a> Study<'a> {
    pub(super) fn new(shape: Shape, sample: &'a Sequence) -> Self {
        let Sequence { written, prefill, blocks, .. } = sample;
        Study { shape, sequence: written, prefill: *prefill, blocks: *blocks }
    }

    /// Block writes of a simulation.
    fn work(&self) -> u64 {
        self.sequence.len() as u64
    }

    fn line(
        &self,
        task: &Task,
        done: &Done,
        tell: &mut dyn FnMut(),
    ) -> Result<(Line, Victim), ShapeError> {
        let victims = task.victims;
        let (copied, victim) = match task.knowledge {
            0 => self.best(&Nothing, victims, done, tell),
            1 => self.best(&SeparateRelocation, victims, done, tell),
            2 => self.best(&self.rates(), victims, done, tell),
            _ => self.best(&self.future(), victims, done, tell),
        }?;
        let written = self.sequence.len() - self.prefill;
        let waf = 1.0 + copied as f64 / written.max(1) as f64;
        let knowledge = KNOWLEDGE[task.knowledge];
        Ok((Line { knowledge, waf, error: None, victim: victim.to_string() }, victim))
    }

    fn rates(&self) -> TrueRates {
        let mut counts = vec![0_u32; self.blocks as usize];
        self.sequence[self.prefill..].iter().for_each(|&lba| counts[lba as usize] += 1);
        known_rates(&counts)
    }

    fn future(&self) -> Clairvoyant {
        known_future(self.sequence, self.shape)
    }

    /// The fewest blocks copied over victim policies, and which did.
    fn best<P: Placement + Clone>(
        &self,
        placement: &P,
        victims: &[Victim],
        done: &Done,
        tell: &mut dyn FnMut(),
    ) -> Result<(u64, Victim), ShapeError> {
        let mut best = (u64::MAX, victims[0]);
        for &victim in victims {
            if let Some(copied) = self.copied(placement.clone(), victim, best.0, done, tell)? {
                best = (copied, victim);
            }
        }
        Ok(best)
    }

    /// Blocks copied after the prefill, if they are fewer than `most`.
    fn copied<P: Placement>(
        &self,
        placement: P,
        victim: Victim,
        most: u64,
        done: &Done,
        tell: &mut dyn FnMut(),
    ) -> Result<Option<u64>, ShapeError> {
        let reserve = usual_reserve(placement.topology());
        let mut ftl = Ftl::with_reserve(self.shape, placement, victim, SEED, reserve)?;
        let (prefill, measured) = self.sequence.split_at(self.prefill);
        let (mut before, mut left) = (0, self.work());
        let parts = prefill.chunks(STEP).map(|part| (part, false));
        for (part, counts) in parts.chain(measured.chunks(STEP).map(|part| (part, true))) {
            for &lba in part {
                ftl.write(Lba(u64::from(lba)), 0, &mut NoMedia).expect("nothing wears out");
            }
            done.add(part.len() as u64);
            left -= part.len() as u64;
            tell();
            let copied = ftl.programmed(Cause::Relocation);
            if !counts {
                before = copied;
            } else if copied - before >= most {
                done.add(left);
                return Ok(None);
            }
        }
        Ok(Some(ftl.programmed(Cause::Relocation) - before))
    }
}

#[cfg(test)]
mod tests {
    use thermocline_types::Rng;

    use super::*;

    /// Three writes of four go to an eighth of the blocks.
    fn sample() -> Sequence {
        let mut rng = Rng::new(5);
        let blocks = 4096;
        let hot = |rng: &mut Rng| if rng.below(4) < 3 { blocks / 8 } else { blocks };
        let mut written: Vec<u32> = (0..blocks as u32).collect();
        for _ in 0..100_000 {
            let below = hot(&mut rng);
            written.push(rng.below(below) as u32);
        }
        Sequence { written, prefill: blocks as usize, blocks, numbers: Default::default() }
    }

    #[test]
    fn what_is_ended_early_would_not_have_been_the_best() {
        let sample = sample();
        let study = Study::new(Shape::new(4096, 301, 16).unwrap(), &sample);
        let whole = || Done { writes: AtomicU64::new(0), of: VICTIMS.len() as u64 * study.work() };
        let done = whole();
        let best = study.best(&SeparateRelocation, &VICTIMS, &done, &mut || {}).unwrap();
        let mut each = VICTIMS.map(|victim| {
            let copied =
                study.copied(SeparateRelocation, victim, u64::MAX, &whole(), &mut || {}).unwrap();
            (copied.unwrap(), victim)
        });
        each.sort_by_key(|&(copied, _)| copied);
        assert!(each[0].0 > 0 && each[0].0 < each[1].0, "the policies differ: {each:?}");
        assert_eq!(best, each[0]);
        assert!((done.share() - 1.0).abs() < 1e-9, "what was left out counts as done");
    }

    #[test]
    fn the_policy_that_is_best_on_the_first_sample_is_used_on_the_others() {
        let samples = [sample(), sample()];
        let shape = Shape::new(4096, 301, 16).unwrap();
        let studies: Vec<Study> = samples.iter().map(|sample| Study::new(shape, sample)).collect();
        let mut last = 0.0;
        let lines = all(&studies, &mut |share| last = share).unwrap();
        assert_eq!(lines.len(), KNOWLEDGE.len());
        for (line, knowledge) in lines.iter().zip(KNOWLEDGE) {
            assert_eq!((line.len(), line[0].knowledge), (2, knowledge));
            assert_eq!(line[0], line[1], "equal samples have equal figures");
        }
        assert!((last - 1.0).abs() < 1e-9, "{last}");
    }
}
