//! Deliberate bugs of the engine, and the tests that find each bug. An uncaught bug shows a blind spot of the tests.
//!
//! Invariants:
//! * A failure counts only if the same run succeeds without the bug.
//! * The same bug and budget give the same result, except for the elapsed time.

mod table;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::time::{Duration, Instant};

use thermocline_engine::{Bug, DeviceError};
use thermocline_format::BLOCK_BYTES;
use thermocline_types::UnitId;

use crate::damage::{self, Ending};
use crate::data::{Content, SECTORS_PER_BLOCK, Sector};
use crate::enumerate::{Budget, enumerate_faulty};
use crate::fail::fail_every_action_with;
use crate::faults::{CommandKind, Fault, Rule};
use crate::healed::{put_back_is_filled, scrub_heals};
use crate::lost_header::lost_header;
use crate::older_home::older_home;
use crate::settings::{Scale, Settings};
use crate::situations::Situation;
use crate::torn_twice::torn_twice;
use crate::world::{Step, World};

pub use table::{Row, hunt_all, markdown};

/// Crash states of one seed, at most.
const STATES_PER_SEED: u64 = 2000;

/// Period, in seeds, of crash enumeration, and of crash enumeration with failing writes.
const ENUMERATE_ONE_IN: u64 = 4;

/// Commands of a script that are made to fail.
const COMMANDS: u64 = 8;

/// Mean number of steps between power cuts or kills.
const CRASH_ONE_IN: u64 = 40;

/// Mean number of written chunks per chunk with flipped bits.
const FLIP_ONE_IN: u64 = 6;

/// Period, in seeds, of damage to a pool of large units.
const LARGE_UNITS_ONE_IN: u64 = 2;

/// Structures damaged in one pool, in turn.
const ROUNDS: u64 = 40;

/// As [`ROUNDS`], for a pool with large units, which has many more structures.
const ROUNDS_OF_LARGE_UNITS: u64 = 200;

/// Period, in seeds, of an additional large world: more chunks and more garbage collection coincide.
const LARGE_ONE_IN: u64 = 8;

/// The test that finds a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Crash states, one by one.
    Enumeration,
    /// A world without faults, of which every read is judged.
    Quiet,
    /// A world with power cuts and kills.
    Crashes,
    /// A world with power cuts and kills, in which flushes, records, reads or chunks fail now and then.
    FaultyCrashes,
    /// Crash states of a world in which commands fail now and then.
    FailingEnumeration,
    /// A world in which each command fails once.
    FailingCommands,
    /// A world on a device that flips bits of writes.
    FlippedBits,
    /// Bits are flipped at rest; then all blocks are read, further blocks are written, and all blocks are read again.
    DamageAtRest,
    /// A structure of a pool that was flushed, but not closed, is damaged before it is opened again.
    DamagedStructures,
    /// A header is torn, and made whole again by another tear.
    TornTwice,
    /// A header is lost right after a checkpoint, and the host writes on.
    LostHeader,
    /// The home is an older copy of itself.
    OlderHome,
    /// A member of a group is wrong, then scrubbed, and then another one is wrong.
    ScrubHeals,
    /// Crash states of a world in which a rare situation is common.
    Situation(Situation),
}

impl Method {
    /// The methods in the order in which each seed goes through them: cheap ones first. Without *twice wrong member*,
    /// which is asked for by name.
    pub const ALL: [Method; 30] = [
        Method::Quiet,
        Method::Crashes,
        Method::FaultyCrashes,
        Method::Enumeration,
        Method::FailingEnumeration,
        Method::FailingCommands,
        Method::FlippedBits,
        Method::DamageAtRest,
        Method::DamagedStructures,
        Method::TornTwice,
        Method::LostHeader,
        Method::OlderHome,
        Method::ScrubHeals,
        Method::Situation(Situation::Members),
        Method::Situation(Situation::Reserved),
        Method::Situation(Situation::Snapshots),
        Method::Situation(Situation::FailingSnapshots),
        Method::Situation(Situation::Trims),
        Method::Situation(Situation::Crowded),
        Method::Situation(Situation::LongHoles),
        Method::Situation(Situation::LateFailures),
        Method::Situation(Situation::Rewrites),
        Method::Situation(Situation::FailingCopies),
        Method::Situation(Situation::Sparse),
        Method::Situation(Situation::SlowReads),
        Method::Situation(Situation::Paged),
        Method::Situation(Situation::Staying),
        Method::Situation(Situation::CrashOnCrash),
        Method::Situation(Situation::Changing),
        Method::Situation(Situation::Renaming),
    ];

    /// Whether the method runs with `seed`. Expensive methods skip seeds: many seeds find more than many states of one
    /// seed.
    fn is_due(self, seed: u64) -> bool {
        match self {
            Method::Enumeration => seed % ENUMERATE_ONE_IN == 1,
            Method::FailingEnumeration => seed % ENUMERATE_ONE_IN == 3,
            Method::TornTwice => seed % 8 == 1,
            Method::Situation(Situation::Trims) => seed % 3 == 2,
            Method::Situation(Situation::CrashOnCrash) => seed % 4 == 3,
            Method::Situation(Situation::Sparse) => seed % 8 == 2,
            Method::Situation(Situation::SlowReads) => seed % 2 == 1,
            Method::Situation(Situation::Crowded) => seed.is_multiple_of(3),
            Method::Situation(Situation::Renaming) => seed % 4 == 1,
            _ => true,
        }
    }

    /// As reports call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Method::Enumeration => "crash enumeration",
            Method::Quiet => "reads without faults",
            Method::Crashes => "random crashes",
            Method::FaultyCrashes => "random crashes, failing commands",
            Method::FailingEnumeration => "crash enumeration, failing commands",
            Method::FailingCommands => "failing commands",
            Method::FlippedBits => "flipped bits in writes",
            Method::DamageAtRest => "damage at rest",
            Method::DamagedStructures => "damaged structures",
            Method::TornTwice => "a header torn twice",
            Method::LostHeader => "a header lost",
            Method::OlderHome => "an older copy of the home",
            Method::ScrubHeals => "a scrub of a wrong member",
            Method::Situation(situation) => situation.name(),
        }
    }
}

impl FromStr for Method {
    type Err = String;

    /// Parses a name, or an unambiguous prefix of a name.
    fn from_str(word: &str) -> Result<Method, String> {
        let alone = [Method::Situation(Situation::TwiceWrong)];
        let all = || Method::ALL.into_iter().chain(alone);
        let same = all().find(|one| one.name() == word);
        let mut fitting = all().filter(|one| one.name().starts_with(word));
        match (same, fitting.next(), fitting.next()) {
            (Some(one), ..) | (None, Some(one), None) => Ok(one),
            _ => {
                let names: Vec<_> = all().map(Method::name).collect();
                Err(format!("`{word}` is no method: one of {}", names.join("; ")))
            }
        }
    }
}

/// What a method found with a seed.
#[derive(Clone, Debug, Default)]
struct Finding {
    /// The first wrong outcome, if any.
    wrong: Option<String>,
    panicked: bool,
    /// Crash states that were judged.
    states: u64,
}

/// A bug that was found.
#[derive(Clone, Debug)]
pub struct Caught {
    /// By which test.
    pub by: Method,
    /// Whether the engine panicked; otherwise an answer was wrong.
    pub panicked: bool,
    /// With which seed.
    pub seed: u64,
    /// The first wrong outcome.
    pub what: String,
}

/// The result of the hunt for a bug.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The bug, if it was found.
    pub caught: Option<Caught>,
    /// Crash states that were enumerated, without the states of comparison runs.
    pub states: u64,
    /// The time it took.
    pub elapsed: Duration,
    /// Findings that also appear without the bug: seed, method and description.
    pub without: Vec<(u64, Method, String)>,
}

/// How long to look for one bug.
#[derive(Clone, Copy, Debug)]
pub struct HuntBudget {
    /// The first seed.
    pub seed: u64,
    /// Crash states, at most.
    pub states: u64,
    /// Time at most; checked between runs.
    pub time: Duration,
    /// The only method, run with every seed; `None` means all methods.
    pub only: Option<Method>,
}

/// Looks for `bug` with one seed after the other.
#[must_use]
pub fn hunt(bug: Bug, budget: &HuntBudget) -> Hunt {
    let begin = Instant::now();
    let mut hunt = Hunt { caught: None, states: 0, elapsed: Duration::ZERO, without: Vec::new() };
    for seed in budget.seed.. {
        let methods = match budget.only {
            Some(only) => vec![only],
            None => Method::ALL.into_iter().filter(|by| by.is_due(seed)).collect(),
        };
        for by in methods {
            let finding = look(by, seed, Some(bug));
            hunt.states += finding.states;
            if let Some(what) = finding.wrong {
                let panicked = finding.panicked;
                match look(by, seed, None).wrong {
                    None => hunt.caught = Some(Caught { by, panicked, seed, what }),
                    Some(what) => hunt.without.push((seed, by, what)),
                }
            }
            hunt.elapsed = begin.elapsed();
            let spent = hunt.states >= budget.states || hunt.elapsed >= budget.time;
            if hunt.caught.is_some() || spent {
                return hunt;
            }
        }
    }
    unreachable!("seeds do not run out")
}

/// One run of a method. A panic is a finding, where panics do not end the program.
fn look(by: Method, seed: u64, bug: Option<Bug>) -> Finding {
    let run = || match by {
        Method::Enumeration => enumeration(seed, bug, Vec::new()),
        Method::FailingEnumeration => enumeration(seed, bug, failing(seed / ENUMERATE_ONE_IN)),
        Method::Quiet => world(seed, bug, 0),
        Method::Crashes => world(seed, bug, CRASH_ONE_IN),
        Method::FaultyCrashes => faulty_crashes(seed, bug),
        Method::FailingCommands => {
            let report = fail_every_action_with(seed, &small(seed, bug), COMMANDS);
            first(report.wrong.into_iter().map(|(_, what)| what))
        }
        Method::FlippedBits => flipped_bits(seed, bug),
        Method::DamageAtRest => damage_at_rest(seed, bug),
        Method::DamagedStructures => damaged_structures(seed, bug),
        Method::TornTwice => first(torn_twice(seed, bug).err()),
        Method::LostHeader => first(lost_header(seed, crowded_or_small(seed, bug)).err()),
        Method::OlderHome => first(older_home(seed, small(seed, bug)).err()),
        Method::ScrubHeals => {
            let mut settings = Situation::Members.settings(seed);
            settings.config.bug = bug;
            let healed = scrub_heals(seed, settings.clone());
            first(healed.and_then(|()| put_back_is_filled(seed, settings)).err())
        }
        Method::Situation(rare) => situation(rare, seed, bug),
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let wrong = Some(format!("a panic: {}", text.unwrap_or("without words")));
        Finding { wrong, panicked: true, states: 0 }
    })
}

fn first(wrong: impl IntoIterator<Item = String>) -> Finding {
    Finding { wrong: wrong.into_iter().next(), ..Finding::default() }
}

fn small(seed: u64, bug: Option<Bug>) -> Settings {
    let mut settings = Settings::draw(seed, Scale::Small);
    settings.config.bug = bug;
    settings
}

/// Every second seed a crowded pool: units are emptied and written again all the time.
fn crowded_or_small(seed: u64, bug: Option<Bug>) -> Settings {
    if seed.is_multiple_of(2) {
        return small(seed, bug);
    }
    let mut settings = Situation::Crowded.settings(seed);
    settings.config.bug = bug;
    settings
}

/// Failing commands, faults, and the mean number of commands per fault. Chunks are first: most failures concern chunks.
const FAILING: [(CommandKind, Fault, u64); 9] = [
    (CommandKind::WriteChunk, Fault::Fail(DeviceError::Io), 20),
    (CommandKind::WriteChunk, Fault::FailTorn(DeviceError::Io), 5),
    (CommandKind::Flush, Fault::FailForgotten(DeviceError::Io), 20),
    (CommandKind::WriteSuperblock, Fault::Fail(DeviceError::Io), 10),
    (CommandKind::Read, Fault::Fail(DeviceError::Io), 20),
    (CommandKind::WriteChunk, Fault::FailTorn(DeviceError::Io), 20),
    (CommandKind::WriteChunk, Fault::Fail(DeviceError::Io), 5),
    (CommandKind::Flush, Fault::Fail(DeviceError::Io), 20),
    (CommandKind::WriteSuperblock, Fault::FailTorn(DeviceError::Io), 10),
];

fn failing(pick: u64) -> Vec<Rule> {
    let (kind, fault, one_in) = FAILING[pick as usize % FAILING.len()];
    vec![Rule { one_in, ..always(kind, fault) }]
}

const fn always(kind: CommandKind, fault: Fault) -> Rule {
    Rule::from_then_on(0, kind, fault)
}

fn enumeration(seed: u64, bug: Option<Bug>, rules: Vec<Rule>) -> Finding {
    let budget = Budget { states: STATES_PER_SEED, failures: 1, per_point: None, only: None };
    let report = enumerate_faulty(seed, small(seed, bug), rules, &budget);
    let states = report.states;
    let wrong = report.failures.into_iter().map(|failure| failure.what);
    Finding { states, ..first(wrong) }
}

fn situation(rare: Situation, seed: u64, bug: Option<Bug>) -> Finding {
    let mut settings = rare.settings(seed);
    settings.config.bug = bug;
    let report = rare.look(seed, settings, STATES_PER_SEED);
    let states = report.states;
    let wrong = report.failures.into_iter().map(|failure| failure.what);
    Finding { states, ..first(wrong) }
}

fn world(seed: u64, bug: Option<Bug>, crash_one_in: u64) -> Finding {
    let mut world = World::new(seed, small(seed, bug), Vec::new());
    world.run(crash_one_in);
    if world.wrong.is_empty() && seed.is_multiple_of(LARGE_ONE_IN) {
        let mut settings = Settings::draw(seed, Scale::Large);
        settings.config.bug = bug;
        world = World::new(seed, settings, Vec::new());
        world.run(crash_one_in);
    }
    first(world.wrong)
}

fn faulty_crashes(seed: u64, bug: Option<Bug>) -> Finding {
    let mut world = World::new(seed, small(seed, bug), failing(seed));
    world.run(CRASH_ONE_IN);
    first(world.wrong)
}

fn flipped_bits(seed: u64, bug: Option<Bug>) -> Finding {
    let flips = Rule { one_in: FLIP_ONE_IN, ..always(CommandKind::WriteChunk, Fault::Flip(3)) };
    let mut world = World::new(seed, small(seed, bug), vec![flips]);
    world.run(0);
    first(world.wrong)
}

/// Runs half of a world, flips a bit in every second block of user data on media, reads all blocks, and goes on. Only
/// damaged blocks may be unreadable.
fn damage_at_rest(seed: u64, bug: Option<Bug>) -> Finding {
    let mut world = World::new(seed, small(seed, bug), Vec::new());
    let half = world.settings.requests / 2;
    while world.wrong.is_empty() && world.issued() < half && world.step() == Step::Went {}
    damage_users_data(&mut world);
    world.answer_all();
    world.read_all();
    world.run(0);
    first(world.wrong)
}

fn damaged_structures(seed: u64, bug: Option<Bug>) -> Finding {
    let (mut settings, mut rounds) = (small(seed, bug), ROUNDS);
    if seed.is_multiple_of(LARGE_UNITS_ONE_IN) {
        // Units that are read piece by piece.
        settings = Situation::LongHoles.settings(seed);
        settings.config.bug = bug;
        rounds = ROUNDS_OF_LARGE_UNITS;
    }
    let mut report = damage::Report::default();
    damage::damage_at_rest(seed, &settings, Ending::Flushed, rounds, &mut report);
    first(report.wrong)
}

fn damage_users_data(world: &mut World) {
    let (arena, disk) = (&world.arena, &mut world.machine.disk);
    let (image, shown) = (disk.cache().stable().clone(), disk.cache().current().clone());
    let mut found = 0_u32;
    for unit in 0..image.media().geometry.units() {
        let sectors = image.unit(UnitId(unit));
        for start in 0..sectors.len().saturating_sub(SECTORS_PER_BLOCK) {
            let block = sectors[start].block();
            let whole =
                (0..SECTORS_PER_BLOCK).all(|part| sectors[start + part] == block.sector(part));
            // What is about to be written over comes to no harm.
            let whole = whole
                && shown.unit(UnitId(unit))[start..]
                    .starts_with(&sectors[start..][..SECTORS_PER_BLOCK]);
            if !whole || !matches!(arena.content(block), Content::User(_)) {
                continue;
            }
            found += 1;
            if found.is_multiple_of(2) {
                continue;
            }
            let mut bytes = arena.read(block);
            bytes[found as usize % BLOCK_BYTES] ^= 1;
            let damaged = arena.bytes(&bytes[..]);
            let damaged: Vec<Sector> =
                (0..SECTORS_PER_BLOCK).map(|part| damaged.sector(part)).collect();
            disk.damage(UnitId(unit), start as u32, &damaged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SEEDS=A..B` has it done with other seeds, `METHOD=NAME` by one method, and each that finds anything said.
    #[test]
    fn without_a_bug_no_method_finds_anything() {
        let asked = std::env::var("SEEDS").ok();
        let (from, to) =
            asked.as_deref().and_then(|all| all.split_once("..")).unwrap_or(("0", "4"));
        let number = |word: &str| word.parse::<u64>().expect("SEEDS is two numbers, as 0..4");
        let only = std::env::var("METHOD").ok();
        let is_asked = |by: &Method, seed| match &only {
            Some(name) => by.name() == name,
            None => asked.is_none() || by.is_due(seed),
        };
        let mut found = Vec::new();
        for seed in number(from)..number(to) {
            for by in Method::ALL.into_iter().filter(|by| is_asked(by, seed)) {
                found.extend(look(by, seed, None).wrong.map(|what| (seed, by, what)));
            }
        }
        assert!(found.is_empty(), "{found:#?}");
    }
}
