//! Every crash of a small pair: what was flushed is read, from whichever side, and nothing older than what was read.

use thermocline_format::{LogicalBlock, PoolId};
use thermocline_types::{Class, DeviceId, Rng};

use super::*;
use crate::storage::bench::{BLOCK, Bench, Blocks, Change, Death, DriveState};
use thermocline_array::bugs::set;

const UNIT_BLOCKS: u32 = 16;
/// Units of the pair; one more has the labels.
const UNITS: u32 = 3;

fn bench(images: [Blocks; 2], seed: u64) -> Bench {
    Bench::new(images, Layout::contiguous(LogicalBlock::B4096, UNIT_BLOCKS, UNITS + 1), seed)
}

/// Blocks that programs write: two in a unit, so that copying meets writing.
const BLOCKS: [u64; 4] = [1, 2, UNIT_BLOCKS as u64 + 3, 2 * UNIT_BLOCKS as u64];

/// What is known of a block: the newest version that was sent, that was written, and that must be there.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    sent: u8,
    written: u8,
    durable: u8,
}

type Ledger = [Known; BLOCKS.len()];

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Writes these of the blocks, all at once.
    Write(&'static [usize]),
    Flush,
}

const PROGRAM: [Op; 7] = [
    Op::Write(&[0, 2]),
    Op::Flush,
    Op::Write(&[0, 1, 3]),
    Op::Write(&[2]),
    Op::Flush,
    Op::Write(&[0, 3]),
    Op::Write(&[1]),
];

/// Leaves some blocks as they are.
const SHORT: [Op; 3] = [Op::Write(&[0, 1]), Op::Flush, Op::Write(&[0])];

fn version(of: u8) -> Buffer {
    Buffer::new(thermocline_target::Buffer::from_bytes(&[of; BLOCK]))
}

fn fresh_label(current: [bool; 2]) -> MirrorLabel {
    let (pool, lacking) = (PoolId([5; 16]), vec![false; UNITS as usize]);
    MirrorLabel { pool, device: 0, side: 0, event: 1, current, open: false, lacking }
}

/// A pair whose sides have labels and nothing else.
fn formatted() -> [Blocks; 2] {
    let bench = bench(Default::default(), 1);
    [0, 1].map(|side| {
        let label = MirrorLabel { side, ..fresh_label([true; 2]) };
        write_label(&mut *bench.drive(side.into()), &label).expect("it is well");
        bench.state().drives[usize::from(side)].durable.clone()
    })
}

/// How the sides that are there are to be used.
fn start(bench: &Bench, there: [bool; 2], forgive: bool) -> Result<FoundPair, PairError> {
    let label = |side: usize| {
        let label = there[side].then(|| read_label(&mut *bench.drive(side), UNITS, None));
        label.and_then(|label| label.expect("it can be read"))
    };
    let labels = [label(0), label(1)];
    let start =
        decide(labels.each_ref().map(|found| found.as_ref().map(|(label, _)| label)), forgive)?;
    let places = labels.each_ref().map(|found| found.as_ref().map_or(0, |(_, place)| *place));
    let (label, _) = labels[start.source].clone().expect("it is the source's");
    let storages = [0, 1].map(|side| there[side].then(|| bench.drive(side)));
    let paths = ["a", "b"].map(PathBuf::from);
    let (name, rate, access, why) = ("m".to_owned(), None, Access::ReadWrite, None);
    let write_mostly = [false; 2];
    Ok(FoundPair { name, paths, storages, why, start, label, places, write_mostly, rate, access })
}

/// Opens the pair; in units of `doubtful` alone something was under way.
fn open(
    bench: &Bench,
    there: [bool; 2],
    doubtful: &[UnitId],
    forgive: bool,
) -> Result<Option<Mirror>, PairError> {
    let Ok((mirror, pair)) = Mirror::open(start(bench, there, forgive)?) else { return Ok(None) };
    pair.only(doubtful.to_vec());
    Ok(Some(mirror))
}

/// Waits for so many commands; their results in the order of their tokens.
fn wait_for(mirror: &mut Mirror, commands: usize) -> Vec<Result<(), Fault>> {
    let mut done = Vec::new();
    while done.len() < commands {
        mirror.reap(None, &mut done);
    }
    done.sort_by_key(|completion| completion.token.0);
    done.into_iter().map(|completion| completion.result).collect()
}

/// Does what a program says for as long as it goes well.
fn run(mirror: &mut Mirror, program: &[Op], ledger: &mut Ledger) -> bool {
    for op in program {
        let results = match op {
            Op::Write(blocks) => {
                for &block in *blocks {
                    ledger[block].sent += 1;
                    let (at, class) = (Bytes(BLOCKS[block] * BLOCK as u64), Class(0));
                    let parts = vec![version(ledger[block].sent)];
                    mirror.submit(Token(block as u64), Command::Write { at, parts, class });
                }
                wait_for(mirror, blocks.len())
            }
            Op::Flush => {
                mirror.submit(Token(0), Command::Flush(DeviceId(0)));
                wait_for(mirror, 1)
            }
        };
        if results.iter().any(Result::is_err) {
            return false;
        }
        match op {
            Op::Write(blocks) => {
                blocks.iter().for_each(|&block| ledger[block].written = ledger[block].sent);
            }
            Op::Flush => ledger.iter_mut().for_each(|known| known.durable = known.written),
        }
    }
    true
}

/// The versions of all blocks; `None` if they cannot be read.
fn versions(mirror: &mut Mirror) -> Option<[u8; BLOCKS.len()]> {
    let into = BLOCKS.map(|_| version(0xFF));
    for (index, (block, into)) in BLOCKS.iter().zip(&into).enumerate() {
        let (at, into) = (Bytes(block * BLOCK as u64), into.clone());
        mirror.submit(Token(index as u64), Command::read(at, into));
    }
    let results = wait_for(mirror, BLOCKS.len());
    results.iter().all(Result::is_ok).then(|| into.map(|into| into.read()[77]))
}

/// Compares; what is found is what there is from now on, once it was flushed.
fn compare(found: [u8; BLOCKS.len()], ledger: &mut Ledger) -> Result<(), String> {
    for (block, (version, known)) in found.into_iter().zip(ledger.iter_mut()).enumerate() {
        let Known { sent, durable, .. } = *known;
        if !(durable..=sent).contains(&version) {
            return Err(format!("block {block}: {durable} <= {version} <= {sent}"));
        }
        *known = Known { sent: version, written: version, durable: version };
    }
    Ok(())
}

fn is_whole(mirror: &Mirror) -> bool {
    mirror.current().count() == 2
}

/// Works until both sides are current and their labels say so, or one is gone.
fn fill_up(mirror: &mut Mirror) {
    let going =
        |mirror: &Mirror| mirror.filling().is_some() || mirror.stale || mirror.relabel.is_some();
    while mirror.answers.broken().is_none() && going(mirror) {
        mirror.reap(None, &mut Vec::new());
    }
}

fn doubtful(drives: &[DriveState]) -> Vec<UnitId> {
    let changes = drives.iter().flat_map(|drive| &drive.cached);
    changes
        .map(|change: &Change| change.unit(UNIT_BLOCKS))
        .filter(|&unit| unit < UNITS)
        .map(UnitId)
        .collect()
}

/// Fates of what was not flushed: all of them where they are few, else some.
fn fates(changes: usize, rng: &mut Rng) -> Vec<Vec<u8>> {
    /// Chosen: a test takes seconds.
    const MOST: u64 = 9;
    let all = 3_u64.checked_pow(changes as u32).unwrap_or(u64::MAX);
    let digits = |mut number: u64| {
        let digit = |_| {
            let digit = (number % 3) as u8;
            number /= 3;
            digit
        };
        (0..changes).map(digit).collect()
    };
    if all <= MOST {
        return (0..all).map(digits).collect();
    }
    let extremes = [vec![0; changes], vec![1; changes]];
    let some = (0..MOST).map(|_| (0..changes).map(|_| rng.below(3) as u8).collect());
    extremes.into_iter().chain(some).collect()
}

/// What a world is looked at with.
struct Look {
    rng: Rng,
    /// States after crashes that were looked at.
    states: u64,
    /// How deep crashes during recovery are followed.
    depth: u32,
}

/// Looks at all that may be left on the drives, with both sides there and with each alone. One that is alone is used
/// all the same unless a side died before: then the other one may have gone on without it.
fn look_at_crashes(
    drives: &[DriveState],
    ledger: Ledger,
    died: bool,
    look: &mut Look,
) -> Result<(), String> {
    let counts = [drives[0].cached.len(), drives[1].cached.len()];
    let doubtful = doubtful(drives);
    for fates in fates(counts[0] + counts[1], &mut look.rng) {
        let (first, second) = fates.split_at(counts[0]);
        let images = [drives[0].after_cut(first), drives[1].after_cut(second)];
        for there in [[true, true], [true, false], [false, true]] {
            let seed = look.rng.below(1 << 40);
            let case = format!("{fates:?} {there:?}");
            recovered(&images, there, &doubtful, ledger, died, seed, look)
                .map_err(|why| format!("{case}: {why}"))?;
            look.states += 1;
        }
    }
    Ok(())
}

/// Opens what is left, reads it, fills the other side, and then does without the first one.
fn recovered(
    images: &[Blocks; 2],
    there: [bool; 2],
    doubtful: &[UnitId],
    mut ledger: Ledger,
    died: bool,
    seed: u64,
    look: &mut Look,
) -> Result<(), String> {
    let bench = bench(images.clone(), seed);
    let both = there == [true; 2];
    let mirror = match open(&bench, there, doubtful, !died) {
        Ok(mirror) => mirror,
        Err(PairError::Alone | PairError::Lacks) if !both => return Ok(()),
        Err(error) => return Err(format!("refused: {error}")),
    };
    let mut mirror = mirror.expect("the drives are well");
    let before = ledger;
    let found = versions(&mut mirror).ok_or("unreadable")?;
    compare(found, &mut ledger)?;
    // As whoever opens a pool does before it believes what it reads.
    let flushed = run(&mut mirror, &[Op::Flush], &mut ledger);
    if !flushed || !run(&mut mirror, &SHORT, &mut ledger) {
        return Err("the drives are well, and a command failed".to_owned());
    }
    fill_up(&mut mirror);
    if both && !is_whole(&mirror) {
        let (label, fill) = (&mirror.label, &mirror.fill);
        return Err(format!(
            "the other side was not filled: {:?} {label:?} {fill:?}",
            mirror.sides
        ));
    }
    if both {
        let gone = look.rng.below(2) as usize;
        one_dies(&mut mirror, &bench, gone, ledger)?;
        if look.depth > 0 && look.rng.below(8) == 0 {
            again(images, doubtful, before, died, look)?;
        }
    }
    Ok(())
}

/// One side does nothing any more: the other has everything.
fn one_dies(
    mirror: &mut Mirror,
    bench: &Bench,
    side: usize,
    mut ledger: Ledger,
) -> Result<(), String> {
    let error = DeviceError::Gone;
    bench.state().death = Some(Death { side, after: 0, error });
    let found = versions(mirror).ok_or("unreadable without the other side")?;
    // Nothing was lost in between, so it has to be the newest.
    ledger.iter_mut().for_each(|known| known.durable = known.written);
    compare(found, &mut ledger).map_err(|why| format!("without side {side}: {why}"))
}

/// The recovery of these images is cut short, at some of its commands.
fn again(
    images: &[Blocks; 2],
    doubtful: &[UnitId],
    ledger: Ledger,
    died: bool,
    look: &mut Look,
) -> Result<(), String> {
    let left = look.rng.below(40);
    let bench = bench(images.clone(), look.rng.below(1 << 40));
    bench.state().left = left + 4;
    let mut ledger = ledger;
    // What was written and not flushed may be gone.
    ledger.iter_mut().for_each(|known| known.written = known.durable);
    let mut units = doubtful.to_vec();
    if let Ok(Some(mut mirror)) = open(&bench, [true; 2], doubtful, false) {
        // Without any answer of the drives there is nothing to wait for.
        let well = run(&mut mirror, &SHORT, &mut ledger);
        if well {
            fill_up(&mut mirror);
        }
    }
    let drives = bench.state().drives.clone();
    // What was under way the first time may still be listed: the engine has taken no checkpoint since.
    units.extend(self::doubtful(&drives));
    look.depth -= 1;
    let result = look_at_crashes_of(&drives, &units, ledger, died, look);
    look.depth += 1;
    result.map_err(|why| format!("again after {left}: {why}"))
}

fn look_at_crashes_of(
    drives: &[DriveState],
    doubtful: &[UnitId],
    ledger: Ledger,
    died: bool,
    look: &mut Look,
) -> Result<(), String> {
    let counts = [drives[0].cached.len(), drives[1].cached.len()];
    let all = fates(counts[0] + counts[1], &mut look.rng);
    for fates in all.iter().take(4) {
        let (first, second) = fates.split_at(counts[0]);
        let images = [drives[0].after_cut(first), drives[1].after_cut(second)];
        for there in [[true, true], [true, false], [false, true]] {
            let seed = look.rng.below(1 << 40);
            recovered(&images, there, doubtful, ledger, died, seed, look)
                .map_err(|why| format!("{fates:?} {there:?}: {why}"))?;
            look.states += 1;
        }
    }
    Ok(())
}

/// Cuts the power after each command of a program, in worlds of these seeds, with a side that dies where `deaths` says.
fn enumerate(
    seeds: std::ops::Range<u64>,
    deaths: impl Fn(u64) -> Vec<Option<Death>>,
) -> Result<u64, String> {
    let mut look = Look { rng: Rng::new(3), states: 0, depth: 1 };
    for seed in seeds {
        for death in deaths(seed) {
            for left in 4.. {
                let bench = bench(formatted(), seed);
                bench.state().left = left;
                bench.state().death = death;
                let mut ledger = Ledger::default();
                let opened = open(&bench, [true; 2], &[], false).expect("it was formatted");
                let ended = opened.is_some_and(|mut mirror| {
                    run(&mut mirror, &PROGRAM, &mut ledger) && {
                        bench.state().left = 0;
                        true
                    }
                });
                let drives = bench.state().drives.clone();
                look_at_crashes(&drives, ledger, death.is_some(), &mut look)
                    .map_err(|why| format!("seed {seed}, {death:?}, cut after {left}: {why}"))?;
                if ended {
                    break;
                }
            }
        }
    }
    Ok(look.states)
}

fn deaths(_: u64) -> Vec<Option<Death>> {
    let errors = [DeviceError::Gone, DeviceError::Io];
    let all = (0..2).flat_map(|side| {
        errors.into_iter().flat_map(move |error| {
            (4..26).step_by(5).map(move |after| Some(Death { side, after, error }))
        })
    });
    all.collect()
}

#[test]
fn no_crash_of_a_pair_loses_anything() {
    let states = enumerate(0..8, |_| vec![None]).unwrap();
    println!("{states} states");
    assert!(states > 5_000, "{states}");
}

#[test]
fn no_death_of_a_side_loses_anything() {
    let states = enumerate(0..1, deaths).unwrap();
    println!("{states} states");
    assert!(states > 10_000, "{states}");
}

#[test]
fn deliberate_bugs_are_caught() {
    for bug in [
        Bug::FlushOfOne,
        Bug::AnswerBeforeLabel,
        Bug::StaleIsCurrent,
        Bug::NoDoubt,
        Bug::CopyOverWrites,
        Bug::ReadWhatIsLacking,
    ] {
        set(Some(bug));
        let caught = enumerate(0..4, |_| vec![None]).and_then(|_| enumerate(0..1, deaths));
        set(None);
        println!("{bug:?}: {caught:?}");
        assert!(caught.is_err(), "{bug:?} is not noticed");
    }
}

#[test]
fn a_bad_place_is_read_from_the_other_side_and_written_again() {
    for (side, block) in BLOCKS.into_iter().take(2).enumerate() {
        let bench = bench(formatted(), 7);
        let mut mirror = open(&bench, [true; 2], &[], false).unwrap().expect("it opens");
        let mut ledger = Ledger::default();
        assert!(run(&mut mirror, &PROGRAM, &mut ledger));
        let written = ledger.map(|known| known.written);
        // Reads take turns: that of this block is the side's.
        bench.state().bad.insert((side, block));
        let repaired = |mirror: &Mirror| mirror.pair.status().repaired;
        for _ in 0..100 {
            assert_eq!(versions(&mut mirror), Some(written), "side {side}");
            if repaired(&mirror) > 0 {
                break;
            }
        }
        assert!(bench.state().bad.is_empty() && is_whole(&mirror) && repaired(&mirror) == 1);
        // What neither can read is an error, and costs no side.
        bench.state().bad.extend([(0, BLOCKS[2]), (1, BLOCKS[2])]);
        assert_eq!(versions(&mut mirror), None);
        assert!(is_whole(&mirror) && bench.state().bad.len() == 2);
    }
}

#[test]
fn a_side_that_is_to_be_written_mostly_is_read_only_where_the_other_cannot_be() {
    for slow in [0, 1] {
        let bench = bench(formatted(), 7);
        let mut found = start(&bench, [true; 2], false).expect("it opens");
        found.write_mostly[slow] = true;
        let (mut mirror, _) = Mirror::open(found).expect("it opens");
        let mut ledger = Ledger::default();
        assert!(run(&mut mirror, &PROGRAM, &mut ledger));
        let written = ledger.map(|known| known.written);
        bench.state().bad.extend(BLOCKS.map(|block| (slow, block)));
        for _ in 0..100 {
            assert_eq!(versions(&mut mirror), Some(written), "side {slow} is written mostly");
        }
        assert_eq!((bench.state().bad.len(), mirror.pair.status().repaired), (BLOCKS.len(), 0));
        bench.state().bad = [(1 - slow, BLOCKS[1])].into();
        assert_eq!(versions(&mut mirror), Some(written), "the other fails");
    }
}
