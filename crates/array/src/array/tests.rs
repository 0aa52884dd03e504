//! Every crash of a small group: what was flushed is read, whichever member is missing, and nothing older than what was
//! read before.

mod drives;
mod heals;
mod world;

use thermocline_types::{DeviceError, Rng};

use super::*;
use crate::bugs::{ArrayBug, set};
use drives::{Bench, Blocks, Death, DriveState};
use world::{Doing, MEMBERS, Written, bench, fates, formatted, open};

/// Rows are begun, filled and left, in units side by side.
const PROGRAM: [Doing; 13] = [
    Doing::Append(&[(0, 1), (1, 3)]),
    Doing::Flush,
    Doing::Append(&[(0, 2)]),
    Doing::Flush,
    Doing::Append(&[(0, 6), (1, 2), (0, 1)]),
    Doing::AppendAndFlush(&[(0, 1), (2, 1)]),
    Doing::Append(&[(1, 2), (0, 5)]),
    Doing::Finish(1),
    Doing::Append(&[(2, 2)]),
    Doing::Flush,
    Doing::Reset(1),
    Doing::Append(&[(1, 1), (0, 2)]),
    Doing::Flush,
];

/// A row whose first life is in the log is begun anew, and filled.
const LIVES: [Doing; 9] = [
    Doing::Append(&[(0, 1), (1, 6)]),
    Doing::Flush,
    Doing::AppendAndFlush(&[(0, 8), (1, 1)]),
    Doing::Flush,
    Doing::Reset(0),
    Doing::Append(&[(0, 6), (2, 1)]),
    Doing::Flush,
    Doing::Append(&[(0, 1), (2, 20)]),
    Doing::Flush,
];

/// Rows are filled while others begin that have their parity on the same member: row 0 of unit 0 and row 2 of unit 2.
const SLOTS: [Doing; 7] = [
    Doing::Append(&[(2, 12), (0, 1)]),
    Doing::Flush,
    Doing::Append(&[(0, 5), (2, 1)]),
    Doing::Flush,
    Doing::Append(&[(2, 5), (0, 19)]),
    Doing::Flush,
    Doing::Finish(0),
];

/// Flushes come while something else is on its way.
const AMONG: [Doing; 6] = [
    Doing::Append(&[(0, 1)]),
    Doing::Flush,
    Doing::Append(&[(0, 1)]),
    Doing::AppendAndFlush(&[(0, 1)]),
    Doing::Append(&[(0, 2)]),
    Doing::AppendAndFlush(&[(0, 2)]),
];

/// What is done after a crash.
const SHORT: [Doing; 4] = [
    Doing::Append(&[(0, 1), (1, 1), (2, 3)]),
    Doing::Flush,
    Doing::Append(&[(0, 3)]),
    Doing::Flush,
];

/// Full rows, which every member has a part of.
const ROWS: [Doing; 2] = [Doing::Append(&[(0, 6), (1, 6), (2, 6)]), Doing::Flush];

/// Commands that find all members but one: each has two places for labels.
const FOUND: u64 = 2 * (MEMBERS as u64 - 1);

/// What a world is looked at with.
struct Look {
    rng: Rng,
    /// States after crashes that were looked at.
    states: u64,
    /// How deep crashes during recovery are followed.
    depth: u32,
}

/// Which members are there.
fn presences() -> impl Iterator<Item = [bool; MEMBERS]> {
    let without = |gone: usize| std::array::from_fn(|member| member != gone);
    (0..=MEMBERS).map(without)
}

/// Looks at what may be left on the drives, with all members there and without each. If one died before, the group may
/// go on without that one only.
fn look_at_crashes(
    drives: &[DriveState],
    ledger: &Written,
    died: Option<usize>,
    most: usize,
    look: &mut Look,
) -> Result<(), String> {
    let counts: Vec<usize> = drives.iter().map(|drive| drive.cached.len()).collect();
    for fates in fates(&counts, &mut look.rng).into_iter().take(most) {
        let images: Vec<_> =
            drives.iter().zip(&fates).map(|(drive, fates)| drive.after_cut(fates)).collect();
        for there in presences() {
            let bench = bench(images.clone(), look.rng.below(1 << 40));
            recovered(&bench, there, ledger.clone(), died, look)
                .map_err(|why| format!("{fates:?} {there:?}: {why}"))?;
            look.states += 1;
            if look.depth > 0 && look.rng.below(8) == 0 {
                again(&bench_of(&images, look), there, ledger, died, look)
                    .map_err(|why| format!("{fates:?} {there:?}: {why}"))?;
            }
        }
    }
    Ok(())
}

fn bench_of(images: &[Blocks], look: &mut Look) -> Bench {
    bench(images.to_vec(), look.rng.below(1 << 40))
}

/// Opens what is left, reads it, goes on, fills what is lacking, and then does without one member.
fn recovered(
    bench: &Bench,
    there: [bool; MEMBERS],
    mut ledger: Written,
    died: Option<usize>,
    look: &mut Look,
) -> Result<(), String> {
    let mut raid = match open(bench, there) {
        Ok(raid) => raid.ok_or("the drives are well, and it does not open")?,
        Err(StartError::TooFew { .. }) if may_be_too_few(there, died) => return Ok(()),
        Err(error) => return Err(format!("refused: {error}")),
    };
    ledger.recover(&mut raid).map_err(|why| format!("at first: {why}"))?;
    // As whoever opens a pool does before it believes what it reads.
    if !ledger.run(&mut raid, &[Doing::Flush])? || !ledger.run(&mut raid, &SHORT)? {
        return Err("the drives are well, and a command failed".to_owned());
    }
    world::fill_up(&mut raid);
    ledger.compare(&mut raid).map_err(|why| format!("at the end: {why}"))?;
    if there != [true; MEMBERS] {
        return Ok(());
    }
    if !raid.is_whole() {
        return Err(format!("not all members were filled: {:?}", raid.array.status()));
    }
    let gone = look.rng.below(MEMBERS as u64) as usize;
    let error = if look.rng.below(2) == 0 { DeviceError::Gone } else { DeviceError::Io };
    bench.state().death = Some(Death { side: gone, after: 0, error });
    ledger.compare(&mut raid).map_err(|why| format!("without {gone}: {why}"))
}

fn may_be_too_few(there: [bool; MEMBERS], died: Option<usize>) -> bool {
    died.is_some_and(|died| (0..MEMBERS).any(|member| member != died && !there[member]))
}

/// The recovery of these images is cut short, at some of its commands.
fn again(
    bench: &Bench,
    there: [bool; MEMBERS],
    ledger: &Written,
    died: Option<usize>,
    look: &mut Look,
) -> Result<(), String> {
    let left = look.rng.below(120);
    bench.state().left = left;
    let mut ledger = ledger.clone();
    if let Ok(Some(mut raid)) = open(bench, there) {
        // What is found and not flushed may be gone the next time.
        let mut found = ledger.clone();
        if found.recover(&mut raid).is_ok() && found.run(&mut raid, &[Doing::Flush])? {
            ledger = found;
            if ledger.run(&mut raid, &SHORT)? {
                world::fill_up(&mut raid);
            }
        }
    }
    bench.state().left = u64::MAX;
    let drives = bench.state().drives.clone();
    let missing = there.iter().position(|there| !there);
    if missing.is_some() && died.is_some() && missing != died {
        return Ok(());
    }
    look.depth -= 1;
    let result = look_at_crashes(&drives, &ledger, died.or(missing), 3, look);
    look.depth += 1;
    result.map_err(|why| format!("again after {left}: {why}"))
}

/// Cuts the power after each command of a program, in worlds of these seeds, with a member that dies where `deaths`
/// says.
fn enumerate(
    seeds: std::ops::Range<u64>,
    program: &[Doing],
    step: u64,
    deaths: impl Fn(u64) -> Vec<Option<Death>>,
) -> Result<u64, String> {
    let mut look = Look { rng: Rng::new(3), states: 0, depth: 1 };
    let images = formatted();
    for seed in seeds {
        for death in deaths(seed) {
            for left in (FOUND + seed % step..).step_by(step as usize) {
                let bench = bench(images.clone(), seed);
                let mut ledger = Written::new(seed);
                bench.state().keeps = seed % 2 == 1;
                (bench.state().left, bench.state().death) = (left, death);
                let case = || format!("seed {seed}, {death:?}, cut after {left}");
                if let Some(mut raid) = open(&bench, [true; MEMBERS]).expect("it was formatted") {
                    ledger.run(&mut raid, program).map_err(|why| format!("{}: {why}", case()))?;
                }
                let over = bench.state().left > 0;
                let drives = bench.state().drives.clone();
                let died = death.map(|death| death.side);
                look_at_crashes(&drives, &ledger, died, usize::MAX, &mut look)
                    .map_err(|why| format!("{}: {why}", case()))?;
                if over {
                    break;
                }
            }
        }
    }
    Ok(look.states)
}

fn deaths(seed: u64) -> Vec<Option<Death>> {
    let errors = [DeviceError::Gone, DeviceError::Io];
    let all = (0..MEMBERS).flat_map(|side| {
        errors.into_iter().flat_map(move |error| {
            (8 + seed..50).step_by(13).map(move |after| Some(Death { side, after, error }))
        })
    });
    all.collect()
}

/// Cuts the power after each command that opens a group and fills a member which missed something.
fn enumerate_filling(seeds: std::ops::Range<u64>, step: u64) -> Result<u64, String> {
    let mut look = Look { rng: Rng::new(5), states: 0, depth: 0 };
    for seed in seeds {
        let stale = (seed % MEMBERS as u64) as usize;
        let (images, written) = with_a_stale_member(seed, stale);
        for left in (seed % step..).step_by(step as usize) {
            let bench = bench(images.clone(), seed);
            bench.state().left = left;
            let mut written = written.clone();
            if let Ok(Some(mut raid)) = open(&bench, [true; MEMBERS])
                && written.run(&mut raid, &[Doing::Flush])?
            {
                written.heal_all(&mut raid);
                world::fill_up(&mut raid);
            }
            let over = bench.state().left > 0;
            let drives = bench.state().drives.clone();
            bench.state().left = u64::MAX;
            look_at_crashes(&drives, &written, Some(stale), usize::MAX, &mut look)
                .map_err(|why| format!("seed {seed}, cut after {left}: {why}"))?;
            if over {
                break;
            }
        }
    }
    Ok(look.states)
}

/// A group of which a member was away for the whole of a program.
fn with_a_stale_member(seed: u64, stale: usize) -> (Vec<Blocks>, Written) {
    let bench = bench(formatted(), seed);
    let mut written = Written::new(seed);
    let there = std::array::from_fn(|member| member != stale);
    let raid = open(&bench, there).expect("one may be missing");
    let done = written.run(&mut raid.expect("the drives are well"), &PROGRAM);
    assert_eq!(done, Ok(true));
    let state = bench.state();
    assert!(state.drives.iter().all(|drive| drive.cached.is_empty()), "it was closed");
    (state.drives.iter().map(|drive| drive.durable.clone()).collect(), written)
}

#[test]
fn no_crash_of_a_group_loses_anything() {
    let states = enumerate(0..2, &PROGRAM, 5, |_| vec![None]).unwrap();
    let states = states + enumerate(0..2, &LIVES, 5, |_| vec![None]).unwrap();
    let states = states + enumerate(0..2, &SLOTS, 5, |_| vec![None]).unwrap();
    let states = states + enumerate(0..4, &AMONG, 3, |_| vec![None]).unwrap();
    println!("{states} states");
    assert!(states > 5_000, "{states}");
}

#[test]
fn no_death_of_a_member_loses_anything() {
    let states = enumerate(0..1, &PROGRAM, 23, deaths).unwrap();
    println!("{states} states");
    assert!(states > 5_000, "{states}");
}

#[test]
fn no_crash_while_a_member_is_filled_loses_anything() {
    let states = enumerate_filling(0..3, 3).unwrap();
    println!("{states} states");
    assert!(states > 1_000, "{states}");
}

#[test]
fn deliberate_bugs_are_caught() {
    let crashes = |seeds, program: &[Doing]| enumerate(seeds, program, 1, |_| vec![None]);
    for bug in [
        ArrayBug::ParityNotFlushed,
        ArrayBug::PartialInPlace,
        ArrayBug::AnswerBeforeLabel,
        ArrayBug::StaleIsCurrent,
        ArrayBug::LabelBeforeFlush,
        ArrayBug::ParityWithoutPadding,
        ArrayBug::WrongRotation,
        ArrayBug::WrittenOnUnlogged,
        ArrayBug::ParityNotHealed,
        ArrayBug::LogOutlivesReset,
        ArrayBug::LogUnchecked,
        ArrayBug::OldLogKept,
        ArrayBug::SlotUsedAgain,
        ArrayBug::CopyOverWrites,
        ArrayBug::ReadWhatIsLacking,
        ArrayBug::LogAheadOfData,
    ] {
        set(Some(bug));
        let caught = match bug {
            ArrayBug::LabelBeforeFlush => enumerate_filling(0..3, 1),
            ArrayBug::LogAheadOfData => crashes(0..40, &AMONG),
            ArrayBug::SlotUsedAgain => crashes(0..4, &SLOTS),
            ArrayBug::LogOutlivesReset => enumerate(0..2, &LIVES, 5, |_| vec![None]),
            ArrayBug::AnswerBeforeLabel => enumerate(0..1, &PROGRAM, 5, deaths),
            _ => enumerate(0..2, &PROGRAM, 5, |_| vec![None])
                .and_then(|_| enumerate(0..2, &LIVES, 5, |_| vec![None])),
        };
        set(None);
        println!("{bug:?}: {:.300}", format!("{caught:?}"));
        assert!(caught.is_err(), "{bug:?} is not noticed");
    }
}

/// The group says which two members are needed, refuses to go on, and loses nothing by it.
#[test]
fn another_member_that_dies_while_one_is_filled_is_named_and_nothing_is_lost() {
    for error in [DeviceError::Gone, DeviceError::Io] {
        let (images, mut written) = with_a_stale_member(2, 2);
        let bench = bench(images, 9);
        let mut raid = open(&bench, [true; MEMBERS]).unwrap().expect("it opens");
        assert_eq!(raid.array.status().members[2], MemberState::Filling);
        written.recover(&mut raid).unwrap();
        bench.state().death = Some(Death { side: 0, after: 0, error });
        assert_eq!(written.run(&mut raid, &ROWS), Ok(false));
        let mut expected = [MemberState::Current; MEMBERS];
        expected[2] = MemberState::Filling;
        assert_eq!(raid.array.status().members, expected);
        let said: Vec<ArrayNotice> = std::iter::from_fn(|| raid.array.poll_notice()).collect();
        let says = |notice: &ArrayNotice| {
            matches!(notice, ArrayNotice::CannotDoWithout { member: 0, other: Some(2), .. })
        };
        assert!(said.iter().any(says), "{said:?}");
        drop(raid);
        // Without it nothing is served; with it, all that was flushed.
        bench.state().death = None;
        let refused = open(&bench, std::array::from_fn(|member| member != 0));
        assert!(matches!(refused, Err(StartError::TooFew { .. })), "{:?}", refused.err());
        let mut raid = open(&bench, [true; MEMBERS]).unwrap().expect("it opens");
        written.recover(&mut raid).unwrap();
        assert_eq!(written.run(&mut raid, &[Doing::Flush]), Ok(true));
        world::fill_up(&mut raid);
        assert!(raid.is_whole());
        bench.state().death = Some(Death { side: 0, after: 0, error: DeviceError::Gone });
        written.compare(&mut raid).unwrap();
    }
}
