//! One measurement of the yardstick, also of a policy that a program brings along.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline_ftl::Shape;
use thermocline_ftl::placement::{Below, Classifier, Survivor, Topology, VictimRule, Write};
use thermocline_types::Class;
use thermocline_workload::trace;

use super::cell::{Drive, measure, run};
use super::{Candidate, LAWS, Tape, room};
use crate::Error;

/// A placement policy in plain numbers. Classes are 0 and up; a class that does not exist ends the measurement.
pub trait OwnPolicy {
    /// The number of classes, 1 to 254.
    fn classes(&self) -> u8;

    /// Classes that survivors go to: some of the classes.
    fn survivors(&self) -> Range<u8>;

    /// The drive exports `blocks` and has `units` of `blocks_per_unit`. Called once before all else.
    fn begin(&mut self, blocks: u64, units: u32, blocks_per_unit: u32);

    /// The class of a block that the host writes; `now` counts host blocks written. `None` ends the measurement.
    fn place(&mut self, lba: u64, now: u64) -> Option<u8>;

    /// The class that a valid block of a victim is copied to. `utilisation` is the share of valid blocks in the victim.
    /// `None` ends the measurement.
    fn place_survivor(&mut self, lba: u64, from: u8, utilisation: f32, now: u64) -> Option<u8>;
}

/// A workload on a full drive, as [`super::bench`] measures it.
#[derive(Clone, Debug, PartialEq)]
pub struct Yardstick {
    /// A generated workload of [`LAWS`] by name, or a trace.
    pub workload: String,
    /// Blocks of a generated workload.
    pub blocks: u32,
    /// Writes per block of a generated workload; the second half of the writes is measured.
    pub turnovers: f64,
    /// Garbage proportion, in (0, 1): `1 − exported / physical`.
    pub garbage: f64,
    /// Blocks in a unit.
    pub blocks_per_unit: NonZeroU32,
    /// The victim rule by name.
    pub victim: String,
    /// Seed of all randomness.
    pub seed: u64,
}

impl Yardstick {
    /// `workload` with the usual numbers of `lab bench-placement`, on a drive of 2^16 blocks.
    #[must_use]
    pub fn new(workload: &str) -> Yardstick {
        Yardstick {
            workload: workload.to_owned(),
            blocks: 1 << 16,
            turnovers: 10.0,
            garbage: 0.15,
            blocks_per_unit: NonZeroU32::new(512).expect("it is not 0"),
            victim: "greedy".to_owned(),
            seed: 1,
        }
    }

    /// WAF with the policy or oracle called `name`.
    ///
    /// # Errors
    /// [`Error`], for an unknown name, a workload that does not fit, or a stop.
    pub fn named(&self, name: &str, stop: &AtomicBool) -> Result<f64, Error> {
        let unknown = |error: super::UnknownCandidate| Error::key("policy", format!("{error}"));
        let candidate: Candidate = name.parse().map_err(unknown)?;
        let (tape, drive) = self.begun()?;
        Ok(measure(&tape, &candidate, drive, &|_| goes_on(stop))?.waf)
    }

    /// WAF with `policy`.
    ///
    /// # Errors
    /// [`Error`], for a workload that does not fit, classes that do not exist, or a stop.
    pub fn own(&self, policy: &mut dyn OwnPolicy, stop: &AtomicBool) -> Result<f64, Error> {
        let (classes, survivors) = (policy.classes(), policy.survivors());
        if classes == 255 || survivors.is_empty() || survivors.end > classes {
            let reason = format!(
                "has {classes} classes and survivors in {survivors:?}, must have 1 to 254 and survivors in some"
            );
            return Err(Error::key("policy", reason));
        }
        let (tape, drive) = self.begun()?;
        let wrong = RefCell::new(None);
        let topology = Topology::new(classes, survivors);
        let own = Own { policy, topology, wrong: &wrong };
        let step =
            |_| if wrong.borrow().is_some() { ControlFlow::Break(()) } else { goes_on(stop) };
        let measured = run(&tape, own, drive, &step);
        match wrong.into_inner() {
            Some(wrong) => Err(wrong),
            None => Ok(measured?.waf),
        }
    }

    fn begun(&self) -> Result<(Tape, Drive), Error> {
        let settings = |error: &dyn std::fmt::Display| Error::Settings(error.to_string());
        let victim = self.victim.parse();
        let victim = victim.map_err(|error| Error::key("victim", format!("{error}")))?;
        let law = LAWS.iter().find(|(name, _)| *name == self.workload);
        let tape = match law {
            Some((name, law)) => {
                let writes = (f64::from(self.blocks) * self.turnovers) as u64;
                law.tape(name, self.blocks, writes, self.seed)
            }
            None => Tape::of_trace(Path::new(&self.workload), &trace::Options::default(), false)?,
        };
        room(self.garbage)?;
        let per_unit = self.blocks_per_unit.get();
        let units = (f64::from(tape.blocks) / (1.0 - self.garbage) / f64::from(per_unit)) as u32;
        let shape =
            Shape::new(u64::from(tape.blocks), units, per_unit).map_err(|e| settings(&e))?;
        Ok((tape, Drive { shape, victim, reserve: None, seed: self.seed }))
    }
}

fn goes_on(stop: &AtomicBool) -> ControlFlow<()> {
    if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// A policy of a program's own between the types of the translation layer and plain numbers.
struct Own<'a> {
    policy: &'a mut dyn OwnPolicy,
    topology: Topology,
    /// Why the policy cannot go on. All later blocks have the first class.
    wrong: &'a RefCell<Option<Error>>,
}

impl Own<'_> {
    fn checked(&self, class: Option<u8>, allowed: Range<u8>) -> Class {
        match class {
            Some(class) if allowed.contains(&class) => return Class(class),
            Some(class) => {
                let reason = format!("gave class {class}, must give one of {allowed:?}");
                self.wrong.borrow_mut().get_or_insert_with(|| Error::key("policy", reason));
            }
            None => _ = self.wrong.borrow_mut().get_or_insert(Error::Interrupted),
        }
        Class(allowed.start)
    }
}

impl VictimRule for Own<'_> {}

impl Classifier for Own<'_> {
    fn topology(&self) -> Topology {
        self.topology
    }

    fn begin(&mut self, blocks: u64, units: u32, blocks_per_unit: u32, _below: Below) {
        self.policy.begin(blocks, units, blocks_per_unit);
    }

    fn place(&mut self, write: Write) -> Class {
        if self.wrong.borrow().is_some() {
            return Class(0);
        }
        let class = self.policy.place(write.lba.0, write.now);
        self.checked(class, 0..self.topology.classes())
    }

    fn place_survivor(&mut self, survivor: Survivor, now: u64) -> Class {
        let allowed = self.topology.relocation_classes(0);
        if self.wrong.borrow().is_some() {
            return Class(allowed.start);
        }
        let Survivor { lba, from, utilisation } = survivor;
        let class = self.policy.place_survivor(lba.0, from.0, utilisation, now);
        self.checked(class, allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `sepgc`, with a class for survivors that may be wrong.
    struct Sepgc(u8);

    impl OwnPolicy for Sepgc {
        fn classes(&self) -> u8 {
            2
        }

        fn survivors(&self) -> Range<u8> {
            1..2
        }

        fn begin(&mut self, _blocks: u64, _units: u32, _blocks_per_unit: u32) {}

        fn place(&mut self, _lba: u64, _now: u64) -> Option<u8> {
            Some(0)
        }

        fn place_survivor(&mut self, _: u64, _: u8, _: f32, _: u64) -> Option<u8> {
            Some(self.0)
        }
    }

    #[test]
    fn a_copy_of_a_policy_has_its_waf_and_a_wrong_class_is_named() {
        let stop = AtomicBool::new(false);
        let yardstick = Yardstick { turnovers: 3.0, blocks: 1 << 14, ..Yardstick::new("zipf-1.0") };
        let waf = yardstick.own(&mut Sepgc(1), &stop).unwrap();
        let named = yardstick.named("sepgc", &stop).unwrap();
        assert!(waf > 1.0 && (waf - named).abs() < 1e-15, "{waf} {named}");
        let error = yardstick.own(&mut Sepgc(7), &stop).unwrap_err().to_string();
        assert!(error.contains("class 7") && error.contains("1..2"), "{error}");
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(yardstick.own(&mut Sepgc(1), &stop), Err(Error::Interrupted)));
    }
}
