//! Damage at rest: a pool is filled and left alone, a structure on media is damaged, and the pool is opened, read and
//! scrubbed.
//!
//! Invariants:
//! * One kind of damage at a time, and each injection begins from the sound image.
//! * The damaged structures and their dependents are known. All other blocks must be as before.

mod layout;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use thermocline_engine::{Extent, HostRequest, Notice, Reply};
use thermocline_format::{BLOCK_BYTES, Location};
use thermocline_types::{Lba, Rng};

use crate::data::{Arena, BlockId, Content, Data, SECTOR_BYTES, SECTORS_PER_BLOCK, Sector, Stamp};
use crate::disk::{CrashState, Disk, Fate, Image, Latency};
use crate::machine::{Event, Machine, Trouble};
use crate::model::{FoundVolume, Model, Outcome};
use crate::replay::{self, Place};
use crate::settings::Settings;
use crate::world::World;

pub use layout::{Structure, Target, blocks_on, targets};

/// Completions after which a request is taken to hang.
const PATIENCE: u64 = 1 << 20;

/// Blocks of users that are hit at once, at most.
const MOST_BLOCKS: u64 = 6;

/// Kind of damage to a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    /// One to three bits flip.
    Flip,
    /// The whole structure becomes arbitrary bytes.
    Garbage,
    /// Another write of the pool lands on the structure.
    Misdirected,
    /// The write is lost: the place keeps its old content.
    Lost,
}

impl Damage {
    /// All of them.
    pub const ALL: [Damage; 4] = [Damage::Flip, Damage::Garbage, Damage::Misdirected, Damage::Lost];
}

/// How the pool is left before it is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// Closed in order.
    Closed,
    /// Flushed and left alone: recovery must replay all chunks behind the checkpoint.
    Flushed,
}

/// Results of the injections of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Structures that were damaged.
    pub injected: u64,
    /// Damaged structures that were found, by scrub at the damaged place or by the pool's refusal to open.
    pub found: u64,
    /// Damage without effect: no block is wrong or missing, and scrub need not find the damage.
    pub harmless: u64,
    /// Hidden damage: an older state was read, and no structure on media contradicts it.
    pub older: u64,
}

/// Results of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Tallies by ending, damaged structure and kind of damage.
    pub tallies: BTreeMap<(Ending, Structure, Damage), Tally>,
    /// Wrong outcomes, with the seed and the number of the injection.
    pub wrong: Vec<String>,
}

impl Report {
    /// All structures that were damaged.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.tallies.values().map(|tally| tally.injected).sum()
    }

    /// The tallies of one structure together.
    #[must_use]
    pub fn of(&self, ending: Ending, structure: Structure) -> Tally {
        let mut sum = Tally::default();
        for (&(one, of, _), tally) in &self.tallies {
            if (one, of) == (ending, structure) {
                sum.injected += tally.injected;
                sum.found += tally.found;
                sum.harmless += tally.harmless;
                sum.older += tally.older;
            }
        }
        sum
    }
}

/// Fills the pool of `settings`, ends it as `ending` says, and damages it `rounds` times.
pub fn damage_at_rest(
    seed: u64,
    settings: &Settings,
    ending: Ending,
    rounds: u64,
    report: &mut Report,
) {
    let Some(mut range) = Range::new(seed, settings, ending, report) else { return };
    for round in 0..rounds {
        replay::enter(Place { seed, point: ending as u64, state: round });
        if let Err(what) = range.round(report) {
            report.wrong.push(format!("seed {seed}, {ending:?}, round {round}: {what}"));
        }
    }
}

/// A pool at rest, to be damaged.
struct Range {
    arena: Rc<Arena>,
    settings: Settings,
    ending: Ending,
    model: Model,
    machine: Machine,
    rng: Rng,
    sound: Image,
    /// The media halfway through the requests.
    earlier: Image,
    damaged: Image,
    expected: Vec<FoundVolume>,
    targets: Vec<Target>,
}

impl Range {
    /// `None` if the seed's pool has no structure worth damaging.
    fn new(seed: u64, settings: &Settings, ending: Ending, report: &mut Report) -> Option<Range> {
        let mut half = settings.clone();
        half.requests /= 2;
        let mut world = World::new(seed, half, Vec::new());
        world.run_requests(0);
        let mut earlier = Image::new(settings.media);
        keep_all(&world, &mut earlier);
        world.settings.requests = settings.requests;
        world.run_requests(0);
        rest(&mut world, ending)?;
        report.wrong.append(&mut world.wrong);
        let mut sound = Image::new(settings.media);
        keep_all(&world, &mut sound);
        // Devices may have changed meanwhile.
        let World { arena, model, settings, .. } = world;
        let disk = Disk::new(&arena, sound.clone(), Latency::NONE, seed);
        let machine = Machine::open(settings.config.clone(), &arena, disk, seed);
        let mut range = Range {
            targets: targets(&arena, &sound),
            damaged: sound.clone(),
            settings,
            rng: Rng::new(seed ^ 0xDA_3A6E),
            expected: Vec::new(),
            arena,
            ending,
            model,
            machine,
            sound,
            earlier,
        };
        range.look(report);
        let worth = range.targets.iter().any(|target| target.structure == Structure::Block);
        worth.then_some(range)
    }

    /// Reads and scrubs the pool while it is sound.
    fn look(&mut self, report: &mut Report) {
        self.machine.restart(self.settings.config.clone(), &self.sound, 0);
        let opened = self.machine.wait_until_open().and_then(|_| self.machine.survey());
        let scrubbed = scrub(&mut self.machine);
        match (opened, scrubbed) {
            (Ok((found, _)), Ok(hits)) => {
                report.wrong.extend(self.model.judge_found(&found).iter().map(ToString::to_string));
                if !hits.is_empty() {
                    report.wrong.push(format!("scrub finds {hits:?} though nothing is damaged"));
                }
                self.expected = found;
            }
            other => report.wrong.push(format!("a sound pool: {other:?}")),
        }
    }

    /// Injects one damage, or several of the same kind. A wrong outcome is an error.
    fn round(&mut self, report: &mut Report) -> Result<(), String> {
        let mark = self.arena.mark();
        let damage = Damage::ALL[self.rng.below(4) as usize];
        let hit = self.inject(damage);
        let result = if hit.is_empty() { Ok(()) } else { self.probe(damage, &hit, report) };
        // The machine must not hold blocks of the damaged image when the arena forgets them.
        self.machine.restart(self.settings.config.clone(), &self.sound, 0);
        self.damaged.clone_from(&self.sound);
        self.arena.truncate(mark);
        result.map_err(|what| {
            let hit: Vec<_> = hit.iter().map(|hit| (hit.structure, hit.at, hit.vouched)).collect();
            format!("{damage:?} of {hit:?}: {what}")
        })
    }

    /// Damages one structure, or some blocks of users.
    fn inject(&mut self, damage: Damage) -> Vec<Target> {
        let structures: BTreeSet<Structure> = self.targets.iter().map(|t| t.structure).collect();
        let structures: Vec<Structure> = structures.into_iter().collect();
        // Favour blocks: most structures are blocks.
        let pick = self.rng.below(structures.len() as u64 + 2) as usize;
        let structure = *structures.get(pick).unwrap_or(&Structure::Block);
        let candidates: Vec<usize> = (0..self.targets.len())
            .filter(|&index| self.targets[index].structure == structure)
            .collect();
        // Every other time, all copies of the newest record.
        let copies = structure == Structure::Newest && self.rng.below(2) == 0;
        let wanted: Vec<usize> = if copies {
            candidates
        } else {
            let most = if structure == Structure::Block { MOST_BLOCKS } else { 1 };
            let mut one = || candidates[self.rng.below(candidates.len() as u64) as usize];
            let first = one();
            let further: Vec<usize> = (1..most).map(|_| one()).collect();
            let more = self.rng.below(most) as usize;
            std::iter::once(first).chain(further.into_iter().take(more)).collect()
        };
        let mut hit: BTreeMap<usize, Target> = BTreeMap::new();
        for index in wanted {
            let mut target = self.targets[index].clone();
            if hit.contains_key(&index) {
                continue;
            }
            if copies {
                target.structure = Structure::AllNewest;
            }
            if let Some(sectors) = self.instead(&target, damage) {
                let per_block = self.sound.media().sectors_per_logical();
                self.damaged.put(target.at.unit, target.at.block * per_block, &sectors);
                hit.insert(index, target);
            }
        }
        hit.into_values().collect()
    }

    /// The damaged sectors of `target`; `None` if the damage would change nothing.
    fn instead(&mut self, target: &Target, damage: Damage) -> Option<Vec<Sector>> {
        let old = sectors_at(&self.sound, target.at, target.sectors())?.to_vec();
        let new = match damage {
            Damage::Flip => self.flipped(&old, target.bytes),
            Damage::Garbage => {
                let pick = self.rng.next_u64();
                let sector = |n: usize| {
                    let block = BlockId::garbage(pick.wrapping_add((n / SECTORS_PER_BLOCK) as u64));
                    block.sector(n % SECTORS_PER_BLOCK)
                };
                (0..old.len()).map(sector).collect()
            }
            Damage::Misdirected => {
                let from = self.rng.below(self.targets.len() as u64) as usize;
                sectors_at(&self.sound, self.targets[from].at, target.sectors())?.to_vec()
            }
            Damage::Lost => {
                let earlier = sectors_at(&self.earlier, target.at, target.sectors())?.to_vec();
                if earlier == old { self.before(&old) } else { earlier }
            }
        };
        (self.bytes(&new)[..target.bytes] != self.bytes(&old)[..target.bytes]).then_some(new)
    }

    fn flipped(&mut self, old: &[Sector], bytes: usize) -> Vec<Sector> {
        let mut new = self.bytes(old);
        for _ in 0..=self.rng.below(3) {
            let bit = self.rng.below(bytes as u64 * 8) as usize;
            new[bit / 8] ^= 1 << (bit % 8);
        }
        let mut sectors = Vec::new();
        self.arena.sectors(&new, &mut sectors);
        sectors
    }

    /// What a place held before, if the earlier image does not tell: an older version of the same block of a user, the
    /// hardest to tell from the right one; or zeros.
    fn before(&self, old: &[Sector]) -> Vec<Sector> {
        let content = <&[Sector; SECTORS_PER_BLOCK]>::try_from(old)
            .map_or(Content::Other, |block| self.arena.content(self.arena.gather(block)));
        match content {
            Content::User(stamp) => {
                let version = stamp.version.saturating_sub(1);
                let block = self.arena.user(Stamp { version, ..stamp });
                (0..SECTORS_PER_BLOCK).map(|part| block.sector(part)).collect()
            }
            _ => vec![Sector::ZEROS; old.len()],
        }
    }

    fn bytes(&self, sectors: &[Sector]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(sectors.len() * SECTOR_BYTES);
        self.arena.copy_out(sectors, &mut bytes);
        bytes
    }

    /// Opens, reads and scrubs the damaged pool.
    fn probe(&mut self, damage: Damage, hit: &[Target], report: &mut Report) -> Result<(), String> {
        let structure = hit[0].structure;
        let tally = report.tallies.entry((self.ending, structure, damage)).or_default();
        tally.injected += hit.len() as u64;
        self.machine.restart(self.settings.config.clone(), &self.damaged, 1);
        match self.machine.wait_until_open() {
            Ok(_) => {}
            Err(Trouble::Refused(error)) => {
                verdict::refused(hit, self.ending, error)?;
                tally.found += hit.len() as u64;
                return Ok(());
            }
            Err(trouble) => return Err(format!("opening: {trouble:?}")),
        }
        let survey = self.machine.survey().map_err(|trouble| format!("reading: {trouble:?}"));
        let (found, _) = survey?;
        let seen = verdict::read(hit, &self.expected, &found, &self.model)?;
        let hits = scrub(&mut self.machine)?;
        // Collection finds what a header does not tell of by the maps, and may have copied all of it by now.
        let units = self.machine.engine.units();
        let collected = |target: &&Target| {
            target.structure == Structure::Header && units.valid_count(target.at.unit) == 0
        };
        let healed = hit.iter().filter(collected).count() as u64;
        let reported = verdict::scrubbed(hit, &hits)?.max(healed);
        tally.found += reported;
        let quiet = hit.len() as u64 - reported;
        match seen {
            verdict::Seen::Same => tally.harmless += quiet,
            verdict::Seen::Older => tally.older += quiet,
            verdict::Seen::Missing => {}
        }
        verdict::must_be_found(hit, self.ending, seen, reported)
    }
}

/// The sectors from `at` on, if so many are in the unit.
fn sectors_at(image: &Image, at: Location, sectors: u32) -> Option<&[Sector]> {
    let from = (at.block * image.media().sectors_per_logical()) as usize;
    image.unit(at.unit).get(from..from + sectors as usize)
}

/// The image with all pending changes applied.
fn keep_all(world: &World, out: &mut Image) {
    let cache = world.machine.disk.cache();
    cache.crash(&CrashState(vec![Fate::Kept; cache.pending().len()]), out);
}

/// Brings a world to rest. `None` if it has no volume to write to.
fn rest(world: &mut World, ending: Ending) -> Option<()> {
    let flush = world.model.begin_flush(None);
    let request = match ending {
        Ending::Closed => HostRequest::Close,
        Ending::Flushed => HostRequest::Flush,
    };
    let machine = &mut world.machine;
    ask(machine, request).ok()?;
    world.model.end_flush(flush);
    if ending == Ending::Closed {
        return Some(());
    }
    // One more chunk: its header vouches that all earlier chunks are flushed.
    let (volume, _) = world.model.volumes().find(|(_, blocks)| *blocks > 0)?;
    let extent = Extent { volume, lba: 0, blocks: 1 };
    let version = world.model.begin_change(extent, false);
    let block = world.arena.user(Stamp { volume, lba: Lba(0), version });
    let data = Data::new(&world.arena, std::iter::once(block));
    let written = ask(machine, HostRequest::Write { extent, data, fua: true, handle: 0 });
    let outcome = if written.is_ok() { Outcome::Durable } else { Outcome::Failed };
    world.model.end_change(version, outcome);
    Some(())
}

/// Scrubs, and returns the damaged places. Damage found twice, through the map and in its unit, counts twice.
fn scrub(machine: &mut Machine) -> Result<BTreeSet<Location>, String> {
    let (reply, hits) = ask(machine, HostRequest::Scrub)?;
    match reply {
        Reply::Scrubbed { damaged, .. } if damaged == 0 && hits.is_empty() => Ok(hits),
        Reply::Scrubbed { damaged, .. } if damaged > 0 && damaged >= hits.len() as u64 => Ok(hits),
        other => Err(format!("scrub answers {other:?}, and notices name {hits:?}")),
    }
}

/// Submits a request while no other request is pending, and waits until the machine is idle. Returns the answer, and
/// the damage noticed meanwhile.
fn ask(
    machine: &mut Machine,
    request: HostRequest<Data>,
) -> Result<(Reply, BTreeSet<Location>), String> {
    let (id, kind) = (machine.request_id(), format!("{request:?}"));
    let submitted = machine.engine.submit(machine.now, id, request);
    submitted.map_err(|rejected| format!("{kind} is rejected: {rejected}"))?;
    let (mut events, mut answer, mut hits) = (Vec::new(), None, BTreeSet::new());
    for _ in 0..PATIENCE {
        machine.pump(&mut events);
        for event in events.drain(..) {
            match event {
                Event::Complete(done, result) if done == id => answer = Some(result),
                Event::Notice(Notice::Damaged { at, .. }) => _ = hits.insert(at),
                _ => {}
            }
        }
        if !machine.turn() {
            let answer = answer.ok_or_else(|| format!("{kind} never completes"))?;
            return answer.map(|reply| (reply, hits)).map_err(|error| format!("{kind}: {error}"));
        }
    }
    Err(format!("{kind}: the engine never comes to rest"))
}

const _: () = assert!(SECTORS_PER_BLOCK * SECTOR_BYTES == BLOCK_BYTES);
