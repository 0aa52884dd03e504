//! Every crash of a small group. Flushed data stays readable with any one member missing, and no read returns an older
//! version than an earlier read.

mod drives;
mod heals;
mod sizes;
mod world;

use thermocline_format::RaidLevel;
use thermocline_types::{DeviceError, Rng};

use super::*;
use crate::bugs::{ArrayBug, set};
use drives::{BLOCK, Bench, Blocks, Death, DriveState, Heap};
use world::Raid;
use world::{
    Doing, LEVELS, Written, bench, fates, formatted, members, open, open_well, open_with, shape,
};

/// Rows begin, fill and stay partial, in neighbouring units.
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

/// A row whose first life is logged begins a second life, and fills.
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

/// Rows fill while rows with parity on the same member begin: row 0 of unit 0 and row 2 of unit 2.
const SLOTS: [Doing; 7] = [
    Doing::Append(&[(2, 12), (0, 1)]),
    Doing::Flush,
    Doing::Append(&[(0, 5), (2, 1)]),
    Doing::Flush,
    Doing::Append(&[(2, 5), (0, 19)]),
    Doing::Flush,
    Doing::Finish(0),
];

/// Flushes come while other commands are under way.
const AMONG: [Doing; 6] = [
    Doing::Append(&[(0, 1)]),
    Doing::Flush,
    Doing::Append(&[(0, 1)]),
    Doing::AppendAndFlush(&[(0, 1)]),
    Doing::Append(&[(0, 2)]),
    Doing::AppendAndFlush(&[(0, 2)]),
];

/// The program after a crash.
const SHORT: [Doing; 4] = [
    Doing::Append(&[(0, 1), (1, 1), (2, 3)]),
    Doing::Flush,
    Doing::Append(&[(0, 3)]),
    Doing::Flush,
];

/// Full rows, with a piece on every member.
const ROWS: [Doing; 2] = [Doing::Append(&[(0, 6), (1, 6), (2, 6)]), Doing::Flush];

/// Commands to read the labels of enough members: each has two places for labels.
fn found(level: RaidLevel) -> u64 {
    let needed = if level.overlaps() { members(level) - 1 } else { members(level) };
    2 * needed as u64
}

/// State of a search through crashes.
struct Look {
    rng: Rng,
    /// Crash states examined.
    states: u64,
    /// How deep crashes during recovery are followed.
    depth: u32,
}

/// All members present, and each one missing in turn.
fn presences(level: RaidLevel) -> impl Iterator<Item = Vec<bool>> {
    let members = members(level);
    (0..=members).map(move |gone| (0..members).map(|member| member != gone).collect())
}

/// Opens the group with the members in `there`. A refused lone member of a mirror is opened anyway if no member died
/// before, as `device keep` does.
fn open_some(
    bench: &Bench,
    there: &[bool],
    died: Option<usize>,
) -> Result<Option<Raid>, StartError> {
    match open_with(bench, there, Access::ReadWrite) {
        Err(StartError::Alone(_)) if died.is_none() => open_with(bench, there, Access::ReadOnly),
        other => other,
    }
}

/// Recovers from the possible contents of the drives, with all members and without each. If a member died before, the
/// group may refuse to start without another one.
fn look_at_crashes(
    level: RaidLevel,
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
        for there in presences(level) {
            let bench = bench(level, images.clone(), look.rng.below(1 << 40));
            recovered(&bench, &there, ledger.clone(), died, look)
                .map_err(|why| format!("{fates:?} {there:?}: {why}"))?;
            look.states += 1;
            if look.depth > 0 && look.rng.below(8) == 0 {
                let bench = self::bench(level, images.clone(), look.rng.below(1 << 40));
                again(&bench, &there, ledger, died, look)
                    .map_err(|why| format!("{fates:?} {there:?}: {why}"))?;
            }
        }
    }
    Ok(())
}

/// Opens the group, reads all data, writes more, fills missing data, and then loses a member.
fn recovered(
    bench: &Bench,
    there: &[bool],
    mut ledger: Written,
    died: Option<usize>,
    look: &mut Look,
) -> Result<(), String> {
    let mut raid = match open_some(bench, there, died) {
        Ok(raid) => raid.ok_or("the drives are well, and it does not open")?,
        Err(StartError::Alone(_)) => return Ok(()),
        Err(StartError::TooFew { .. }) if may_be_too_few(there, died) => return Ok(()),
        Err(error) => return Err(format!("refused: {error}")),
    };
    ledger.recover(&mut raid).map_err(|why| format!("at first: {why}"))?;
    // The engine flushes too, before it relies on recovered data.
    if !ledger.run(&mut raid, &[Doing::Flush])? || !ledger.run(&mut raid, &SHORT)? {
        return Err("the drives are well, and a command failed".to_owned());
    }
    world::fill_up(&mut raid);
    ledger.compare(&mut raid).map_err(|why| format!("at the end: {why}"))?;
    if there.contains(&false) {
        return Ok(());
    }
    if !raid.is_whole() {
        return Err(format!("not all members were filled: {:?}", raid.array.status()));
    }
    let gone = look.rng.below(there.len() as u64) as usize;
    let error = if look.rng.below(2) == 0 { DeviceError::Gone } else { DeviceError::Io };
    bench.state().death = Some(Death { side: gone, after: 0, error });
    ledger.compare(&mut raid).map_err(|why| format!("without {gone}: {why}"))
}

fn may_be_too_few(there: &[bool], died: Option<usize>) -> bool {
    died.is_some_and(|died| (0..there.len()).any(|member| member != died && !there[member]))
}

/// Cuts the recovery of these images short, after some commands.
fn again(
    bench: &Bench,
    there: &[bool],
    ledger: &Written,
    died: Option<usize>,
    look: &mut Look,
) -> Result<(), String> {
    let left = look.rng.below(120);
    bench.state().left = left;
    let mut ledger = ledger.clone();
    if let Ok(Some(mut raid)) = open_some(bench, there, died) {
        // Recovered but unflushed data may be gone the next time.
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
    let result = look_at_crashes(bench.level(), &drives, &ledger, died.or(missing), 3, look);
    look.depth += 1;
    result.map_err(|why| format!("again after {left}: {why}"))
}

/// Cuts the power after each command of a program, for each seed. A member dies as `deaths` lists.
fn enumerate(
    level: RaidLevel,
    seeds: std::ops::Range<u64>,
    program: &[Doing],
    step: u64,
    deaths: impl Fn(RaidLevel, u64) -> Vec<Option<Death>>,
) -> Result<u64, String> {
    let mut look = Look { rng: Rng::new(3), states: 0, depth: 1 };
    let images = formatted(level);
    for seed in seeds {
        for death in deaths(level, seed) {
            for left in (found(level) + seed % step..).step_by(step as usize) {
                let bench = bench(level, images.clone(), seed);
                let mut ledger = Written::new(seed);
                bench.state().keeps = seed % 2 == 1;
                (bench.state().left, bench.state().death) = (left, death);
                let case = || format!("seed {seed}, {death:?}, cut after {left}");
                if let Some(mut raid) = open(&bench).expect("it was formatted") {
                    ledger.run(&mut raid, program).map_err(|why| format!("{}: {why}", case()))?;
                }
                let over = bench.state().left > 0;
                let drives = bench.state().drives.clone();
                let died = death.map(|death| death.side);
                look_at_crashes(level, &drives, &ledger, died, usize::MAX, &mut look)
                    .map_err(|why| format!("{}: {why}", case()))?;
                if over {
                    break;
                }
            }
        }
    }
    Ok(look.states)
}

fn no_deaths(_: RaidLevel, _: u64) -> Vec<Option<Death>> {
    vec![None]
}

fn deaths(level: RaidLevel, seed: u64) -> Vec<Option<Death>> {
    let errors = [DeviceError::Gone, DeviceError::Io];
    let all = (0..members(level)).flat_map(|side| {
        errors.into_iter().flat_map(move |error| {
            (8 + seed..50).step_by(13).map(move |after| Some(Death { side, after, error }))
        })
    });
    all.collect()
}

/// Cuts the power after each command that opens a group and fills a stale member.
fn enumerate_filling(
    level: RaidLevel,
    seeds: std::ops::Range<u64>,
    step: u64,
) -> Result<u64, String> {
    let mut look = Look { rng: Rng::new(5), states: 0, depth: 0 };
    for seed in seeds {
        let stale = (seed % members(level) as u64) as usize;
        let (images, written) = with_a_stale_member(level, seed, stale);
        for left in (seed % step..).step_by(step as usize) {
            let bench = bench(level, images.clone(), seed);
            bench.state().left = left;
            let mut written = written.clone();
            if let Ok(Some(mut raid)) = open(&bench)
                && written.run(&mut raid, &[Doing::Flush])?
            {
                written.heal_all(&mut raid);
                world::fill_up(&mut raid);
            }
            let over = bench.state().left > 0;
            let drives = bench.state().drives.clone();
            bench.state().left = u64::MAX;
            look_at_crashes(level, &drives, &written, Some(stale), usize::MAX, &mut look)
                .map_err(|why| format!("seed {seed}, cut after {left}: {why}"))?;
            if over {
                break;
            }
        }
    }
    Ok(look.states)
}

/// A group with one member absent during a whole program.
fn with_a_stale_member(level: RaidLevel, seed: u64, stale: usize) -> (Vec<Blocks>, Written) {
    let bench = bench(level, formatted(level), seed);
    let mut written = Written::new(seed);
    let there: Vec<bool> = (0..members(level)).map(|member| member != stale).collect();
    let raid = open_some(&bench, &there, None).expect("one may be missing");
    let done = written.run(&mut raid.expect("the drives are well"), &PROGRAM);
    assert_eq!(done, Ok(true));
    let state = bench.state();
    assert!(state.drives.iter().all(|drive| drive.cached.is_empty()), "it was closed");
    (state.drives.iter().map(|drive| drive.durable.clone()).collect(), written)
}

/// The source of a filled member dies after some commands. Any members present afterwards hold all data, or are
/// refused.
fn source_dies(
    level: RaidLevel,
    seeds: std::ops::Range<u64>,
    errors: &[DeviceError],
) -> Result<u64, String> {
    let mut look = Look { rng: Rng::new(7), states: 0, depth: 0 };
    for seed in seeds {
        let stale = (seed % members(level) as u64) as usize;
        let side = (stale + 1) % members(level);
        let (images, written) = with_a_stale_member(level, seed, stale);
        for after in 4.. {
            let bench = bench(level, images.clone(), seed);
            let mut written = written.clone();
            let error = errors[after as usize % errors.len()];
            bench.state().death = Some(Death { side, after, error });
            let Ok(Some(mut raid)) = open(&bench) else { continue };
            written.heal_all(&mut raid);
            written.run(&mut raid, &[Doing::Flush])?;
            world::fill_up(&mut raid);
            written.run(&mut raid, &SHORT)?;
            let over = bench.state().drives[side].commands() < after;
            drop(raid);
            let drives = bench.state().drives.clone();
            let counts: Vec<usize> = drives.iter().map(|drive| drive.cached.len()).collect();
            for fates in fates(&counts, &mut look.rng) {
                let left = drives.iter().zip(&fates).map(|(drive, fates)| drive.after_cut(fates));
                let images: Vec<Blocks> = left.collect();
                for there in presences(level) {
                    let bench = self::bench(level, images.clone(), look.rng.below(1 << 40));
                    let opened = open_with(&bench, &there, Access::ReadWrite);
                    let Ok(Some(mut raid)) = opened else { continue };
                    let found = written.clone().judge(&mut raid, false);
                    found.map_err(|why| format!("seed {seed}, {after}, {there:?}: {why}"))?;
                    look.states += 1;
                }
            }
            if over {
                break;
            }
        }
    }
    Ok(look.states)
}

#[test]
fn no_crash_of_a_group_loses_anything() {
    for level in LEVELS {
        let states = enumerate(level, 0..2, &PROGRAM, 5, no_deaths).unwrap();
        let states = states + enumerate(level, 0..2, &LIVES, 5, no_deaths).unwrap();
        let states = states + enumerate(level, 0..2, &SLOTS, 5, no_deaths).unwrap();
        let states = states + enumerate(level, 0..4, &AMONG, 3, no_deaths).unwrap();
        println!("{level:?}: {states} states");
        assert!(states > 2_000, "{states}");
    }
}

#[test]
fn no_death_of_a_member_loses_anything() {
    for (level, step) in [(RaidLevel::Parity, 23), (RaidLevel::Mirrored, 7)] {
        let states = enumerate(level, 0..1, &PROGRAM, step, deaths).unwrap();
        println!("{level:?}: {states} states");
        assert!(states > 2_000, "{states}");
    }
}

#[test]
fn no_crash_while_a_member_is_filled_loses_anything() {
    for level in LEVELS {
        let states = enumerate_filling(level, 0..3, 3).unwrap();
        println!("{level:?}: {states} states");
        assert!(states > 500, "{states}");
    }
}

#[test]
fn no_death_of_the_member_that_fills_another_one_loses_anything() {
    let (gone, io) = (DeviceError::Gone, DeviceError::Io);
    for (level, seeds, errors) in [
        (RaidLevel::Mirrored, 0..4, &[gone, io][..]),
        // With parity, the filled member lacks the places that the source could not read.
        (RaidLevel::Parity, 0..1, &[gone]),
    ] {
        let states = source_dies(level, seeds, errors).unwrap();
        println!("{level:?}: {states} states");
        assert!(states > 500, "{states}");
    }
}

fn is_caught(level: RaidLevel, bug: ArrayBug) {
    let crashes = |seeds, program: &[Doing]| enumerate(level, seeds, program, 1, no_deaths);
    set(Some(bug));
    let caught = match bug {
        ArrayBug::LabelBeforeFlush => enumerate_filling(level, 0..3, 1),
        ArrayBug::LogAheadOfData => crashes(0..40, &AMONG),
        ArrayBug::SlotUsedAgain => crashes(0..4, &SLOTS),
        ArrayBug::LogOutlivesReset => enumerate(level, 0..2, &LIVES, 5, no_deaths),
        ArrayBug::AnswerBeforeLabel | ArrayBug::AloneIsNewest => {
            enumerate(level, 0..1, &PROGRAM, 5, deaths)
        }
        ArrayBug::FilledIsAlone => source_dies(level, 0..4, &[DeviceError::Gone]),
        _ => crashes(0..2, &LIVES).and_then(|_| crashes(0..4, &PROGRAM)),
    };
    set(None);
    println!("{level:?}, {bug:?}: {:.300}", format!("{caught:?}"));
    assert!(caught.is_err(), "{bug:?} is not noticed in {level:?}");
}

#[test]
fn deliberate_bugs_are_caught() {
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
        is_caught(RaidLevel::Parity, bug);
    }
}

#[test]
fn deliberate_bugs_of_mirrors_are_caught() {
    for bug in [
        ArrayBug::FlushOfOne,
        ArrayBug::CopyNotWritten,
        ArrayBug::AnswerBeforeLabel,
        ArrayBug::AloneIsNewest,
        ArrayBug::FilledIsAlone,
        ArrayBug::StaleIsCurrent,
        ArrayBug::LabelBeforeFlush,
        ArrayBug::ParityNotHealed,
        ArrayBug::CopyOverWrites,
        ArrayBug::ReadWhatIsLacking,
    ] {
        is_caught(RaidLevel::Mirrored, bug);
    }
}

/// A failed write is an error, and later writes succeed.
#[test]
fn a_failed_write_to_a_group_without_parity_is_no_more_than_that() {
    let level = RaidLevel::Striped;
    let bench = bench(level, formatted(level), 3);
    let mut raid = open_well(&bench);
    let mut written = Written::new(3);
    assert_eq!(written.run(&mut raid, &PROGRAM[..2]), Ok(true));
    bench.state().death = Some(Death { side: 1, after: 0, error: DeviceError::Io });
    assert_eq!(written.run(&mut raid, &ROWS), Ok(false));
    bench.state().death = None;
    written.recover(&mut raid).unwrap();
    assert_eq!(written.run(&mut raid, &SHORT), Ok(true));
}

/// The group reports the two needed members, refuses to go on, and loses no data.
#[test]
fn another_member_that_dies_while_one_is_filled_is_named_and_nothing_is_lost() {
    for error in [DeviceError::Gone, DeviceError::Io] {
        let level = RaidLevel::Parity;
        let (images, mut written) = with_a_stale_member(level, 2, 2);
        let bench = bench(level, images, 9);
        let mut raid = open_well(&bench);
        assert_eq!(raid.array.status().members[2], MemberState::Filling);
        written.recover(&mut raid).unwrap();
        bench.state().death = Some(Death { side: 0, after: 0, error });
        assert_eq!(written.run(&mut raid, &ROWS), Ok(false));
        let mut expected = vec![MemberState::Current; members(level)];
        expected[2] = MemberState::Filling;
        assert_eq!(raid.array.status().members, expected);
        let said: Vec<ArrayNotice> = std::iter::from_fn(|| raid.array.poll_notice()).collect();
        let says = |notice: &ArrayNotice| {
            matches!(notice, ArrayNotice::CannotDoWithout { member: 0, other: Some(2), .. })
        };
        assert!(said.iter().any(says), "{said:?}");
        drop(raid);
        // Without the member the group is refused; with the member all flushed data is read.
        bench.state().death = None;
        let there: Vec<bool> = (0..members(level)).map(|member| member != 0).collect();
        let refused = open_with(&bench, &there, Access::ReadWrite);
        assert!(matches!(refused, Err(StartError::TooFew { .. })), "{:?}", refused.err());
        let mut raid = open_well(&bench);
        written.recover(&mut raid).unwrap();
        assert_eq!(written.run(&mut raid, &[Doing::Flush]), Ok(true));
        world::fill_up(&mut raid);
        assert!(raid.is_whole());
        bench.state().death = Some(Death { side: 0, after: 0, error: DeviceError::Gone });
        written.compare(&mut raid).unwrap();
    }
}

#[test]
fn rows_of_a_unit_are_void_from_the_byte_on_whose_write_failed() {
    let level = RaidLevel::Parity;
    let bench = bench(level, formatted(level), 3);
    let mut raid = open_well(&bench);
    let row = shape(level).row_bytes();
    let block = BLOCK as u64;
    assert_eq!(row, 6 * block);
    let program = [Doing::Append(&[(0, 8), (1, 1)]), Doing::Flush, Doing::Append(&[(0, 1)])];
    assert_eq!(Written::new(3).run(&mut raid, &program), Ok(true));
    let array = &mut raid.array;
    let filled = |array: &Array<Heap>| array.fronts.get(&0).map(|front| front.image.filled());
    let is_logged = |array: &Array<Heap>, unit, row| {
        array.journals.iter().any(|one| one.entry(unit, row).is_some())
    };
    assert_eq!(filled(array), Some(3 * block));
    array.full = vec![(0, 0), (0, 1), (1, 3)];
    let mut round = Round::of(Vec::new());
    round.freed.clone_from(&array.full);
    array.round = Some(round);
    array.take_back(0, row + 2 * block, None);
    let round = array.round.take().expect("it goes on");
    assert_eq!(round.freed, [(0, 0), (1, 3)], "a void row stays in the log");
    assert_eq!((filled(array), array.failed_from[&0]), (Some(2 * block), row + 2 * block));
    assert!(is_logged(array, 0, 1) && array.fronts[&0].logged <= 2 * block);
    assert_eq!(array.full, [(0, 0), (1, 3)]);
    // A write behind the first one that failed changes nothing.
    array.take_back(0, row + 2 * block, None);
    array.take_back(0, row + 3 * block, None);
    assert_eq!((filled(array), array.failed_from[&0]), (Some(2 * block), row + 2 * block));
    array.take_back(0, row, None);
    assert!(filled(array).is_none() && !is_logged(array, 0, 1) && is_logged(array, 1, 0));
    assert_eq!(array.full, [(0, 0), (1, 3)]);
    // Without the partial row its earlier bytes are read.
    assert!(array.loads.is_empty());
    array.take_back(0, block, None);
    array.take_back(0, block, None);
    assert_eq!(
        (array.loads.iter().copied().collect::<Vec<_>>(), array.full.len()),
        (vec![(0, block)], 1)
    );
    array.full.clear();
}

#[test]
fn a_group_without_a_log_has_nothing_to_take_back() {
    let bench = bench(RaidLevel::Mirrored, formatted(RaidLevel::Mirrored), 3);
    let mut raid = open_well(&bench);
    raid.array.take_back(0, 0, None);
    assert!(raid.array.failed_from.is_empty());
}
