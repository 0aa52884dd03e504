//! Crash states one by one: a small world runs, and at every flush each state that a power cut could leave is
//! recovered, read and judged.
//!
//! Invariants:
//! * Judging states does not affect the world.
//! * Seed, point and index name a state. A state can be replayed alone.

use thermocline_engine::{Marks, take_marks};
use thermocline_types::Rng;

use crate::disk::{Cache, Disk, Image, Latency};
use crate::faults::Rule;
use crate::machine::{Machine, Opened, Trouble};
use crate::model::{FoundVolume, Model};
use crate::replay::{self, Place};
use crate::settings::{Drawn, Scale, Settings};
use crate::states::{crash_states, some_states};
use crate::world::{Step, World};

/// Mean number of states per state whose recovery is cut short by a second power cut.
const SECOND_CRASH_ONE_IN: u64 = 8;

/// Completions of a recovery before the second power cut, at most.
const CUT_SHORT_TURNS: u64 = 48;

/// Mean number of states per state with a spoiled wrong member, in worlds with a wrong member.
const SPOILED_ONE_IN: u64 = 2;

/// Requests after a judged state, when the world goes on.
const GO_ON_REQUESTS: u64 = 60;

/// Mean number of steps between power cuts or kills, when a state goes on.
const GO_ON_CRASH_ONE_IN: u64 = 40;

/// Mean number of steps per extra point: a point where states are judged although no flush is about to complete.
const POINT_ONE_IN: u64 = 97;

/// A crash state that was judged wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The place of the state, for a replay.
    pub place: Place,
    /// What was wrong.
    pub what: String,
}

/// The result of an enumeration.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Crash states that were recovered and judged, including states of second crashes.
    pub states: u64,
    /// Points whose crash states were judged.
    pub points: u64,
    /// What was wrong.
    pub failures: Vec<Failure>,
    /// The draws of the seeds.
    pub drawn: Drawn,
    /// How often each mark of the engine was reached.
    pub marks: Marks,
}

impl Report {
    /// Adds another report.
    pub fn merge(&mut self, other: Report) {
        self.states += other.states;
        self.points += other.points;
        self.failures.extend(other.failures);
        self.drawn.merge(&other.drawn);
        self.marks.merge(&other.marks);
    }
}

/// How much of a seed to look at.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// States, at most.
    pub states: u64,
    /// Failures, after which to stop.
    pub failures: usize,
    /// Random states of each point, beside the state that keeps all changes and the state that loses all. `None` means
    /// all states of [`crash_states`]. Few states of many points find bugs that show in any state, but only briefly.
    pub per_point: Option<u64>,
    /// Only this state.
    pub only: Option<Place>,
}

/// Runs the small world of `seed` and looks at its crash states.
#[must_use]
pub fn enumerate(seed: u64, budget: &Budget) -> Report {
    enumerate_with(seed, Settings::draw(seed, Scale::Small), budget)
}

/// As [`enumerate`], with the given settings.
#[must_use]
pub fn enumerate_with(seed: u64, settings: Settings, budget: &Budget) -> Report {
    enumerate_faulty(seed, settings, Vec::new(), budget)
}

/// As [`enumerate_with`], while commands fail by `rules`; recovery always runs on a sound device.
#[must_use]
pub fn enumerate_faulty(
    seed: u64,
    settings: Settings,
    rules: Vec<Rule>,
    budget: &Budget,
) -> Report {
    replay::enter(Place { seed, point: 0, state: 0 });
    // Discard marks that earlier runs left on this thread.
    let _ = take_marks();
    let mut report = Report::default();
    report.drawn.add(&settings);
    let mut world = World::new(seed, settings, rules);
    let mut prober = Prober::new(&world);
    let mut rng = Rng::new(seed ^ 0x901_4715);
    let mut last = None;
    loop {
        world.settle();
        let flush = world.machine.disk.next_flush();
        let at_flush = flush.is_some() && flush != last;
        last = flush.or(last);
        if at_flush || rng.below(POINT_ONE_IN) == 0 {
            report.points += 1;
            prober.point(&world, seed, budget, &mut report);
        }
        let step = world.step();
        if step == Step::Down {
            world.reopen();
        }
        let place = Place { seed, point: report.points, state: 0 };
        report.failures.extend(world.wrong.drain(..).map(|what| Failure { place, what }));
        let enough = report.states >= budget.states || report.failures.len() >= budget.failures;
        let past = budget.only.is_some_and(|only| report.points > only.point);
        if step == Step::Over {
            world.live_on();
            report.failures.extend(world.wrong.drain(..).map(|what| Failure { place, what }));
        }
        if step == Step::Over || enough || past {
            report.marks = take_marks();
            return report;
        }
    }
}

/// Recovers states beside the world.
struct Prober {
    machine: Machine,
    image: Image,
    again: Image,
}

impl Prober {
    fn new(world: &World) -> Prober {
        let image = Image::new(world.settings.media);
        let disk = Disk::new(&world.arena, image.clone(), Latency::NONE, 0);
        let disk = disk.with_groups(&world.settings.groups).with_wrong(world.settings.wrong, 0);
        let machine = Machine::open(world.settings.config.clone(), &world.arena, disk, 0);
        Prober { machine, again: image.clone(), image }
    }

    fn point(&mut self, world: &World, seed: u64, budget: &Budget, report: &mut Report) {
        let point = report.points;
        let mut rng = Rng::new(seed ^ point << 32);
        let cache = world.machine.disk.cache();
        let states = match budget.per_point {
            None => crash_states(cache, &mut rng),
            Some(count) => some_states(cache, &mut rng, count),
        };
        for (state, index) in states.iter().zip(0..) {
            let place = Place { seed, point, state: index };
            if budget.only.is_some_and(|only| only != place) {
                continue;
            }
            if report.states >= budget.states || report.failures.len() >= budget.failures {
                return;
            }
            replay::enter(place);
            cache.crash(state, &mut self.image);
            let mut spoils = Rng::new(seed ^ point << 24 ^ index << 8 ^ 0x5B01);
            if spoils.below(SPOILED_ONE_IN) == 0 {
                world.spoil(&mut self.image, &mut spoils);
            }
            if let Err(what) = self.judge(world, place, report) {
                let what = format!("{what}\n    of {}", describe(cache, state));
                report.failures.push(Failure { place, what });
            }
        }
    }

    /// Recovers the pool in `self.image`, now and then with more power cuts during recovery.
    fn judge(&mut self, world: &World, place: Place, report: &mut Report) -> Result<(), String> {
        let mark = world.arena.mark();
        let mut rng = Rng::new(place.seed ^ place.point << 40 ^ place.state << 8);
        let twice = rng.below(SECOND_CRASH_ONE_IN) == 0;
        if twice {
            for _ in 0..=rng.below(2) {
                report.states += 1;
                self.cut_short(world, &mut rng)?;
            }
        }
        report.states += 1;
        let found = self.recover(world, rng.next_u64())?;
        judge(world, &found)?;
        if twice {
            // A second recovery must find the same content.
            report.states += 1;
            let state = self.machine.disk.cache().random_state(&mut rng);
            self.machine.disk.cache().crash(&state, &mut self.image);
            let again = self.recover(world, rng.next_u64())?;
            same(&found, &again)?;
        } else if rng.below(world.settings.go_on_one_in) == 0 {
            report.states += go_on(world, &self.image, rng.next_u64())?;
        }
        world.arena.truncate(mark);
        Ok(())
    }

    /// Recovers for a while, then cuts the power.
    fn cut_short(&mut self, world: &World, rng: &mut Rng) -> Result<(), String> {
        self.machine.restart(world.settings.config.clone(), &self.image, rng.next_u64());
        match self.machine.run_until_open(rng.below(CUT_SHORT_TURNS)) {
            Ok(_) | Err(Trouble::Stopped) => {}
            Err(trouble) => return Err(format!("the pool does not open: {trouble:?}")),
        }
        let state = self.machine.disk.cache().random_state(rng);
        self.machine.disk.cache().crash(&state, &mut self.again);
        std::mem::swap(&mut self.image, &mut self.again);
        Ok(())
    }

    fn recover(&mut self, world: &World, seed: u64) -> Result<Vec<FoundVolume>, String> {
        self.machine.restart(world.settings.config.clone(), &self.image, seed);
        self.machine.pages_lost_before = world.machine.pages_lost();
        let opened: Result<Opened, Trouble> = self.machine.wait_until_open();
        opened.map_err(|trouble| format!("the pool does not open: {trouble:?}"))?;
        let surveyed = self.machine.survey().map_err(|trouble| format!("{trouble:?}"));
        surveyed.map(|(found, _)| found)
    }
}

/// Goes on from `image` for a while. Returns how many more states were recovered and judged.
fn go_on(world: &World, image: &Image, seed: u64) -> Result<u64, String> {
    let mut later = world.after(image, GO_ON_REQUESTS, seed);
    later.run(GO_ON_CRASH_ONE_IN);
    if later.wrong.is_empty() {
        return Ok(later.openings());
    }
    Err(format!("later: {}", later.wrong.join("\n    ")))
}

fn judge(world: &World, found: &[FoundVolume]) -> Result<(), String> {
    let unreadable = found.iter().map(|volume| unreadable(world, volume)).sum::<usize>();
    let verdicts = world.model.judge_found(found);
    if unreadable == 0 && verdicts.is_empty() {
        return Ok(());
    }
    let mut lines: Vec<String> = verdicts.iter().take(8).map(ToString::to_string).collect();
    if verdicts.len() > lines.len() {
        lines.push(format!("and {} more", verdicts.len() - lines.len()));
    }
    if unreadable > 0 {
        lines.push(format!("{unreadable} blocks cannot be read"));
    }
    Err(lines.join("\n    "))
}

/// Blocks that cannot be read, and should be.
fn unreadable(world: &World, found: &FoundVolume) -> usize {
    let id = found.volume;
    let failed = (0..).zip(&found.blocks).filter(|(_, block)| block.is_none());
    failed.filter(|(lba, _)| !world.may_be_lost(id, *lba, Model::flushed)).count()
}

fn same(before: &[FoundVolume], after: &[FoundVolume]) -> Result<(), String> {
    let shown = |found: &[FoundVolume]| {
        found.iter().map(|volume| (volume.volume, volume.blocks.clone())).collect::<Vec<_>>()
    };
    if shown(before) == shown(after) {
        return Ok(());
    }
    Err("a second recovery found something else than the first, though nothing was written".into())
}

fn describe(cache: &Cache, state: &crate::disk::CrashState) -> String {
    let lines = cache.pending().iter().zip(&state.0).map(|(change, fate)| {
        let (from, to) = change.range(cache.media());
        let what = match change.effect {
            crate::disk::Effect::Write { .. } => "write",
            crate::disk::Effect::Reset => "reset",
            crate::disk::Effect::Finish => "finish",
        };
        format!("{what} of unit {} sectors {from} to {to}: {fate:?}", change.unit.0)
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { "nothing unflushed".into() } else { lines.join("\n       ") }
}
