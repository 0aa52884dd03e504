use proptest::prelude::*;
use thermocline_types::Rng;

use super::levelling::LEVELLING_PERIOD;
use super::*;
use crate::placement::{
    Classifier, Handles, Isolation, Nothing, Policy, SeparateRelocation, Survivor, VictimRule,
};

fn uniform_waf(shape: Shape, victim: Victim, fills: u64) -> f64 {
    let mut ftl = Ftl::new(shape, Nothing, victim, 1).unwrap();
    let mut rng = Rng::new(42);
    let exported = shape.exported();
    for lba in 0..exported {
        ftl.write(Lba(lba), 0, &mut NoMedia).unwrap();
    }
    let mut overwrite = |writes: u64| {
        let before = ftl.programmed(Cause::Relocation);
        for _ in 0..writes {
            ftl.write(Lba(rng.below(exported)), 0, &mut NoMedia).unwrap();
        }
        1.0 + (ftl.programmed(Cause::Relocation) - before) as f64 / writes as f64
    };
    overwrite(fills * exported);
    overwrite(fills * exported)
}

/// Uniform random writes, greedy, one frontier: simulated by Desnoyers' ftlsim (SYSTOR 2012), spare = (T − U) / T.
#[test]
fn matches_published_greedy_write_amplification() {
    for (units, spare, blocks, expected) in
        [(3200, 0.219, 128, 2.443), (2000, 0.12, 128, 4.248), (2000, 0.219, 16, 2.208)]
    {
        let exported = (f64::from(units * blocks) * (1.0 - spare)) as u64;
        let waf = uniform_waf(Shape::new(exported, units, blocks).unwrap(), Victim::Greedy, 4);
        let error = waf / expected - 1.0;
        assert!(error.abs() < 0.02, "{units} x {blocks}, spare {spare}: {waf:.3}, not {expected}");
    }
}

#[test]
fn sequential_overwrites_copy_nothing() {
    let shape = Shape::new(1000 * 32, 1070, 32).unwrap();
    let mut ftl = Ftl::new(shape, Nothing, Victim::Greedy, 1).unwrap();
    for write in 0..5 * shape.exported() {
        ftl.write(Lba(write % shape.exported()), 0, &mut NoMedia).unwrap();
    }
    assert_eq!(ftl.programmed(Cause::Relocation), 0);
    ftl.verify();
}

#[test]
fn too_few_units_are_refused_with_the_number_needed() {
    // 10 units of valid data, one frontier, one in reserve, one more: 13 are needed.
    let error = Ftl::new(Shape::new(80, 12, 8).unwrap(), Nothing, Victim::Greedy, 1).unwrap_err();
    assert_eq!(error, ShapeError::TooFewUnits { units: 12, needed: 13 });
    assert!(Ftl::new(Shape::new(80, 13, 8).unwrap(), Nothing, Victim::Greedy, 1).is_ok());
    // Fewer units than are set aside hold nothing, not even a part of a unit.
    for units in 1..3 {
        assert!(
            Ftl::new(Shape::new(7, units, 8).unwrap(), Nothing, Victim::Greedy, 1).is_err(),
            "{units}"
        );
    }
}

#[test]
fn wear_levelling_bounds_the_spread_of_erase_counts() {
    let run = |levelling: Option<u32>| {
        let shape = Shape::new(200 * 16, 240, 16).unwrap();
        let mut ftl = Ftl::new(shape, SeparateRelocation, Victim::Greedy, 1).unwrap();
        if let Some(spread) = levelling {
            ftl = ftl.with_wear_levelling(spread);
        }
        let mut rng = Rng::new(5);
        for lba in 0..shape.exported() {
            ftl.write(Lba(lba), 0, &mut NoMedia).unwrap();
        }
        for _ in 0..200_000 {
            ftl.write(Lba(rng.below(shape.exported() / 20)), 0, &mut NoMedia).unwrap();
        }
        ftl.verify();
        let erases: Vec<u32> = ftl.units().ids().map(|unit| ftl.units.erases(unit)).collect();
        (
            erases.iter().max().unwrap() - erases.iter().min().unwrap(),
            ftl.programmed(Cause::WearLevelling),
        )
    };
    let (without, none) = run(None);
    let (with, copied) = run(Some(20));
    assert_eq!(none, 0);
    assert!(copied > 0);
    // 40 of 240 units circulate; one unit of cold data moved per 16 erases brings all others in once per 80 rounds.
    assert!(without > 300 && with <= 80 + 30, "spread {without} without, {with} with levelling");
}

/// Writes all over but to what is at rest, the first `resting` blocks of 3200; returns blocks programmed for each of
/// the host's, those of them for levelling, and the fewest and the most erases.
fn levelled(resting: u64, spread: Option<u32>) -> (f64, f64, [u32; 2]) {
    let shape = Shape::new(200 * 16, 240, 16).unwrap();
    let mut ftl = Ftl::new(shape, SeparateRelocation, Victim::Greedy, 1).unwrap();
    if let Some(spread) = spread {
        ftl = ftl.with_wear_levelling(spread);
    }
    let mut rng = Rng::new(5);
    (0..shape.exported()).for_each(|lba| ftl.write(Lba(lba), 0, &mut NoMedia).unwrap());
    for _ in 0..400_000 {
        let lba = resting + rng.below(shape.exported() - resting);
        ftl.write(Lba(lba), 0, &mut NoMedia).unwrap();
    }
    ftl.verify();
    let programmed: u64 = Cause::ALL.iter().map(|&cause| ftl.programmed(cause)).sum();
    let levelling = ftl.programmed(Cause::WearLevelling) as f64;
    let writes = ftl.host_writes() as f64;
    let erases = || ftl.units.ids().map(|unit| ftl.units.erases(unit));
    let ends = [erases().min().unwrap(), erases().max().unwrap()];
    (programmed as f64 / writes, levelling / writes, ends)
}

#[test]
fn data_at_rest_stays_together_when_it_is_moved_and_nothing_else_is_moved() {
    let (alone, none, [least, _]) = levelled(1600, None);
    assert_eq!((none > 0.0, least), (false, 0), "what rests is never erased");
    let (with, moved, [least, most]) = levelled(1600, Some(20));
    // Half of the units are brought in once in 20 erases each.
    assert!(moved > 0.0 && moved < 1.5 * 0.5 / 20.0 * with, "{moved} for levelling");
    assert!(with - moved < 1.05 * alone, "{with} with {moved} for levelling, {alone} without");
    assert!(most - least < 60, "{least} to {most}");

    let (uniform, none, ends) = levelled(0, Some(20));
    assert!(none < 0.01 * uniform, "{none} of {uniform} though nothing rests, {ends:?}");
}

/// Where garbage collection takes several victims to gain a unit, most erases leave the reserve short.
#[test]
fn wear_levelling_keeps_its_pace_when_garbage_is_scarce() {
    let shape = Shape::new(200 * 16, 216, 16).unwrap();
    let ftl = Ftl::new(shape, SeparateRelocation, Victim::Greedy, 1).unwrap();
    let mut ftl = ftl.with_wear_levelling(0);
    let mut rng = Rng::new(5);
    for lba in 0..shape.exported() {
        ftl.write(Lba(lba), 0, &mut NoMedia).unwrap();
    }
    for _ in 0..100_000 {
        let half = shape.exported() / 2;
        let hot = rng.below(10) > 0;
        ftl.write(Lba(rng.below(half) + if hot { half } else { 0 }), 0, &mut NoMedia).unwrap();
    }
    ftl.verify();
    let moved = ftl.programmed(Cause::WearLevelling) as f64 / 16.0;
    let looked = ftl.erased() as f64 / LEVELLING_PERIOD as f64;
    assert!(moved > 0.5 * looked, "{moved} units moved of {looked} looked for");
}

/// Notes the utilisation given with each survivor.
struct Noting(Vec<f32>);

impl VictimRule for Noting {}

impl Classifier for Noting {
    fn topology(&self) -> Topology {
        Topology::new(1, 0..1)
    }
    fn place(&mut self, _write: Write) -> Class {
        Class(0)
    }
    fn place_survivor(&mut self, survivor: Survivor, _now: u64) -> Class {
        self.0.push(survivor.utilisation);
        Class(0)
    }
}

#[test]
fn survivors_come_with_the_valid_share_of_their_victim() {
    // Three units of data of four blocks each and the three that one frontier needs besides.
    let mut ftl =
        Ftl::new(Shape::new(12, 6, 4).unwrap(), Noting(vec![]), Victim::Greedy, 1).unwrap();
    // A write finds one unit free, which is held back, once the fifth is open: this is the 18th write. By then blocks
    // 0 and 1 of the first unit are overwritten, more than of any other.
    for lba in (0..12).chain([0, 1, 4, 8, 0]) {
        ftl.write(Lba(lba), 0, &mut NoMedia).unwrap();
    }
    assert!(ftl.placement().0.is_empty());
    ftl.write(Lba(1), 0, &mut NoMedia).unwrap();
    assert_eq!(ftl.placement().0, [0.5, 0.5]);
    // The 19th write opens a unit again. The 20th finds the unit that held 0, 1, 4 and 8 with only 8 left.
    for lba in [4, 8] {
        ftl.write(Lba(lba), 0, &mut NoMedia).unwrap();
    }
    assert_eq!(ftl.placement().0, [0.5, 0.5, 0.25]);
}

struct Fragile(u32);

impl Media for Fragile {
    fn read(&mut self, _pba: Pba) {}
    fn program(&mut self, _pba: Pba, _lba: Option<Lba>, _cause: Cause) {}
    fn erase(&mut self, _unit: UnitId, erases: u32) -> Erased {
        if erases >= self.0 { Erased::WornOut } else { Erased::Usable }
    }
}

#[test]
fn a_worn_out_device_refuses_writes_and_keeps_its_data() {
    let shape = Shape::new(20 * 8, 26, 8).unwrap();
    let mut ftl = Ftl::new(shape, Nothing, Victim::Greedy, 1).unwrap();
    let mut rng = Rng::new(5);
    let mut media = Fragile(10);
    for lba in 0..shape.exported() {
        ftl.write(Lba(lba), 0, &mut media).unwrap();
    }
    let mut writes = 0_u64;
    while ftl.write(Lba(rng.below(shape.exported())), 0, &mut media).is_ok() {
        writes += 1;
        assert!(writes < 26 * 8 * 10, "more writes than the media can take");
    }
    assert_eq!(ftl.map().mapped(), shape.exported());
    ftl.verify();
}

#[test]
fn wear_takes_the_overprovisioning_before_it_ends_the_device() {
    for placement in
        [Handles::new(1, 3, Isolation::Initially), Handles::new(1, 3, Isolation::Persistently)]
    {
        let shape = Shape::new(100 * 16, 130, 16).unwrap();
        let mut ftl = Ftl::new(shape, placement, Victim::Greedy, 1).unwrap();
        let mut rng = Rng::new(5);
        // Units wear out one after the other, a tenth of them at first.
        struct Uneven(u32);
        impl Media for Uneven {
            fn read(&mut self, _pba: Pba) {}
            fn program(&mut self, _pba: Pba, _lba: Option<Lba>, _cause: Cause) {}
            fn erase(&mut self, unit: UnitId, erases: u32) -> Erased {
                let worn_out = erases >= 10 + 10 * (unit.0 % 10);
                self.0 += u32::from(worn_out);
                if worn_out { Erased::WornOut } else { Erased::Usable }
            }
        }
        let mut media = Uneven(0);
        while ftl.write(Lba(rng.below(1600)), rng.below(3) as u16, &mut media).is_ok() {}
        ftl.verify();
        let left = 130 - media.0;
        assert!((101..=101 + 8).contains(&left), "{left} units left for 100 units of data");
    }
}

#[test]
fn a_host_that_names_one_group_only_still_gets_the_space_of_all() {
    let run = |groups: u8| {
        let shape = Shape::new(400 * 32, 480, 32).unwrap();
        let placement = Handles::new(groups, 1, Isolation::Initially);
        let mut ftl = Ftl::new(shape, placement, Victim::Greedy, 1).unwrap();
        let mut rng = Rng::new(5);
        for lba in 0..shape.exported() {
            ftl.write(Lba(lba), 0, &mut NoMedia).unwrap();
        }
        for _ in 0..4 * shape.exported() {
            ftl.write(Lba(rng.below(shape.exported())), 0, &mut NoMedia).unwrap();
        }
        ftl.verify();
        assert_eq!(ftl.redirected() > 0, groups > 1);
        1.0 + ftl.programmed(Cause::Relocation) as f64 / ftl.host_writes() as f64
    };
    let (one, three) = (run(1), run(3));
    assert!(three < 1.15 * one, "{three} in three groups, {one} in one");
}

/// Media of which one program of so many fails, with so many spare units.
struct Failing {
    shape: Shape,
    every: u64,
    spares: u32,
    programs: u64,
    failing: Vec<UnitId>,
    gone: u32,
}

impl Failing {
    fn new(shape: Shape, every: u64, spares: u32) -> Failing {
        Failing { shape, every, spares, programs: 0, failing: Vec::new(), gone: 0 }
    }
}

impl Media for Failing {
    fn read(&mut self, _pba: Pba) {}
    fn program(&mut self, pba: Pba, _lba: Option<Lba>, _cause: Cause) {
        self.programs += 1;
        let unit = self.shape.unit(pba);
        let fails = self.every > 0 && self.programs.is_multiple_of(self.every);
        if fails && !self.failing.contains(&unit) {
            self.failing.push(unit);
        }
    }
    fn erase(&mut self, unit: UnitId, _erases: u32) -> Erased {
        let before = self.failing.len();
        self.failing.retain(|&failing| failing != unit);
        if self.failing.len() == before {
            return Erased::Usable;
        }
        if let Some(left) = self.spares.checked_sub(1) {
            self.spares = left;
            return Erased::Usable;
        }
        self.gone += 1;
        Erased::WornOut
    }
    fn failing(&self) -> Option<UnitId> {
        self.failing.first().copied()
    }
}

#[test]
fn a_unit_in_which_a_program_fails_is_emptied_and_leaves_service() {
    let shape = Shape::new(100 * 16, 140, 16).unwrap();
    let mut ftl = Ftl::new(shape, SeparateRelocation, Victim::Greedy, 1).unwrap();
    let mut media = Failing::new(shape, 1_000, 5);
    let mut rng = Rng::new(5);
    (0..1600).for_each(|lba| ftl.write(Lba(lba), 0, &mut media).unwrap());
    let mut writes = 0_u64;
    while ftl.write(Lba(rng.below(1600)), 0, &mut media).is_ok() {
        writes += 1;
        let retired = |ftl: &mut Ftl<_>| {
            let units = ftl.units();
            units.ids().filter(|&unit| units.state(unit) == UnitState::Retired).count() as u32
        };
        if writes.is_multiple_of(5_000) {
            ftl.verify();
            assert!((0..1600).all(|lba| ftl.lookup(Lba(lba)).is_some()));
            assert_eq!(retired(&mut ftl), media.gone);
        }
    }
    // Five spares and some thirty units beyond what the data needs, one in a thousand programs.
    let failed = u64::from(media.gone) + 5;
    assert_eq!(media.spares, 0);
    assert!((30..=45).contains(&failed), "{failed} failed");
    assert!(media.programs / 1_000 - failed <= 1, "{} programs", media.programs);
    let moved = ftl.programmed(Cause::ProgramFailure);
    assert!(moved > failed && moved < 16 * failed, "{moved} blocks of {failed} units");
}

#[test]
fn what_is_refreshed_stays_together_if_most_of_a_unit_is_valid() {
    let shape = Shape::new(100 * 16, 140, 16).unwrap();
    let mut ftl = Ftl::new(shape, SeparateRelocation, Victim::Greedy, 1).unwrap();
    (0..1600).for_each(|lba| ftl.write(Lba(lba), 0, &mut NoMedia).unwrap());
    let unit_of = |ftl: &Ftl<_>, lba| shape.unit(ftl.lookup(Lba(lba)).unwrap());
    // Of the first unit everything is valid, of the second 7 blocks of 16.
    (16..25).for_each(|lba| ftl.write(Lba(lba), 0, &mut NoMedia).unwrap());
    for lba in [0, 25] {
        let unit = unit_of(&ftl, lba);
        assert_eq!(ftl.refresh(unit, &mut NoMedia), Ok(true));
    }
    assert_eq!(ftl.programmed(Cause::Refresh), 16 + 7);
    let (whole, part) = (unit_of(&ftl, 0), unit_of(&ftl, 25));
    assert!((0..16).all(|lba| unit_of(&ftl, lba) == whole) && whole != part);
    let states = [whole, part].map(|unit| ftl.units().state(unit));
    assert_eq!(states, [UnitState::Closed, UnitState::Open], "the part lies among survivors");
    ftl.verify();
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, u16),
    Trim(u64),
    Sweep(u64, u64),
    Hammer(u64, u16),
    Pad(u8),
    Finish(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (any::<u64>(), 0..20_u16).prop_map(|(lba, handle)| Step::Write(lba, handle)),
        1 => any::<u64>().prop_map(Step::Trim),
        1 => (any::<u64>(), 1..64_u64).prop_map(|(from, stride)| Step::Sweep(from, stride)),
        1 => (any::<u64>(), 0..20_u16).prop_map(|(lba, handle)| Step::Hammer(lba, handle)),
        1 => any::<u8>().prop_map(Step::Pad),
        1 => any::<u8>().prop_map(Step::Finish),
    ];
    prop::collection::vec(step, 1..120)
}

/// Runs `steps` on a device cut as tightly as [`Ftl::new`] allows, checking it against a set of written blocks.
/// Of so many programs, if any, one fails.
fn survives<P: Placement>(
    placement: P,
    victim: Victim,
    (blocks, data, every): (u32, u32, u64),
    steps: &[Step],
) {
    let set_aside = (0..placement.topology().pools())
        .map(|pool| 1 + placement.topology().relocation_classes(pool).len() as u32)
        .sum::<u32>()
        + u32::from(placement.topology().classes());
    let exported = u64::from(data) * u64::from(blocks);
    let shape = Shape::new(exported, data + set_aside, blocks).unwrap();
    let Ok(ftl) = Ftl::new(shape, placement, victim, 9) else {
        return; // The pools share the units so unevenly that the tightest cut does not fit.
    };
    let mut ftl = ftl.with_wear_levelling(3);
    let mut media = Failing::new(shape, every, u32::MAX);
    let mut written = vec![false; exported as usize];
    for step in std::iter::once(&Step::Sweep(0, 1)).chain(steps) {
        for (lba, handle) in step.writes(exported, u64::from(blocks)) {
            ftl.write(Lba(lba), handle, &mut media).expect("nothing wears out");
            written[lba as usize] = true;
        }
        match *step {
            Step::Trim(lba) => {
                let held = std::mem::take(&mut written[(lba % exported) as usize]);
                assert_eq!(ftl.trim(Lba(lba % exported)), held);
            }
            Step::Pad(class) => {
                let class = Class(class % ftl.placement().topology().classes());
                let before = ftl.programmed(Cause::Padding);
                let padded = ftl.pad(class, &mut media);
                assert_eq!(ftl.programmed(Cause::Padding) - before, u64::from(padded));
            }
            Step::Finish(class) => {
                ftl.finish(Class(class % ftl.placement().topology().classes()));
            }
            _ => {}
        }
    }
    ftl.verify();
    for (lba, &held) in written.iter().enumerate() {
        assert_eq!(ftl.lookup(Lba(lba as u64)).is_some(), held, "block {lba}");
    }
}

impl Step {
    /// The blocks and handles this step writes on a device of `exported` blocks in units of `blocks`.
    fn writes(&self, exported: u64, blocks: u64) -> Vec<(u64, u16)> {
        let at = |lba: u64| lba % exported;
        match *self {
            Step::Write(lba, handle) => vec![(at(lba), handle)],
            Step::Trim(_) | Step::Pad(_) | Step::Finish(_) => vec![],
            Step::Sweep(from, stride) => (0..exported)
                .map(|turn| (at(at(from) + turn * stride), (turn % 5) as u16))
                .collect(),
            Step::Hammer(lba, handle) => vec![(at(lba), handle); 3 * blocks as usize],
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 64 } else { 256 }))]
    #[test]
    fn never_runs_out_of_units_below_exported_capacity(
        steps in steps(),
        victim in prop::sample::select(Victim::list().into_iter().map(|(v, _)| v).collect::<Vec<_>>()),
        blocks in 1_u32..70,
        data in 2_u32..24,
        // Emptying a unit of 70 blocks takes fewer programs than the next failure.
        every in prop_oneof![2 => Just(0_u64), 1 => 97_u64..500],
        (groups, handles) in (1_u8..4, 1_u8..6),
        isolation in prop::sample::select(
            vec![Isolation::Initially, Isolation::Persistently, Isolation::Shared]
        ),
    ) {
        for (policy, _) in Policy::list() {
            survives(policy, victim, (blocks, data, every), &steps);
        }
        survives(Handles::new(groups, handles, isolation), victim, (blocks, data, every), &steps);
    }
}

/// Media whose units wear out after a number of erases that differs from unit to unit.
struct Mortal(u32);

impl Media for Mortal {
    fn read(&mut self, _pba: Pba) {}
    fn program(&mut self, _pba: Pba, _lba: Option<Lba>, _cause: Cause) {}
    fn erase(&mut self, unit: UnitId, erases: u32) -> Erased {
        if erases > (unit.0 * 7919) % self.0 { Erased::WornOut } else { Erased::Usable }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 64 } else { 256 }))]
    #[test]
    fn wearing_out_loses_nothing(
        steps in steps(),
        victim in prop::sample::select(Victim::list().into_iter().map(|(v, _)| v).collect::<Vec<_>>()),
        blocks in 1_u32..70,
        (data, spare) in (2_u32..24, 0_u32..20),
        (groups, handles) in (1_u8..4, 1_u8..6),
        isolation in prop::sample::select(
            vec![Isolation::Initially, Isolation::Persistently, Isolation::Shared]
        ),
        endurance in 1_u32..40,
    ) {
        let placement = Handles::new(groups, handles, isolation);
        let exported = u64::from(data) * u64::from(blocks);
        let units = data + spare + 4 * u32::from(placement.topology().classes());
        let shape = Shape::new(exported, units, blocks).unwrap();
        let mut ftl = Ftl::new(shape, placement, victim, 9).unwrap().with_wear_levelling(3);
        let mut media = Mortal(endurance);
        let mut written = vec![false; exported as usize];
        for step in std::iter::once(&Step::Sweep(0, 1)).chain(&steps) {
            for (lba, handle) in step.writes(exported, u64::from(blocks)) {
                let held = ftl.write(Lba(lba), handle, &mut media).is_ok();
                written[lba as usize] |= held;
            }
            match *step {
                Step::Trim(lba) => {
                    ftl.trim(Lba(lba % exported));
                    written[(lba % exported) as usize] = false;
                }
                Step::Pad(class) => {
                    ftl.pad(Class(class % ftl.placement().topology().classes()), &mut media);
                }
                Step::Finish(class) => {
                    ftl.finish(Class(class % ftl.placement().topology().classes()));
                }
                _ => {}
            }
        }
        ftl.verify();
        for (lba, &held) in written.iter().enumerate() {
            prop_assert_eq!(ftl.lookup(Lba(lba as u64)).is_some(), held, "block {}", lba);
        }
    }
}
