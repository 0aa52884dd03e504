//! A world: the settings of a seed, run step by step and judged after each step.

mod changes;
mod open;
mod rules;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::{Config, Extent};
use thermocline_format::VolumeId;
use thermocline_sim::model::{Model, Outcome, PendingFlush};
use thermocline_target::Clock;
use thermocline_types::Rng;

use crate::client::{ScriptedClient, Wants};
use crate::judge::{self, UsedRange};
use crate::settings::{Odds, Settings, draw_volume_limits};
use crate::storage::{Hits, Scripted, SharedDrive};
use crate::up::{StorageWoken, Up};
use crate::watched::SeenHandle;
use crate::wire::Wire;
use changes::{Changing, Files};
use rules::Limited;

/// Most steps of a world. A world with more steps makes no progress.
const STEPS: u64 = 400_000;

/// Virtual time after the last request, without limits, within which all requests must be answered.
const PATIENCE: Duration = Duration::from_secs(20);

/// Counts of a world's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Steps of threads and actions of clients.
    pub steps: u64,
    /// Requests of clients.
    pub requests: u64,
    /// Answers without an error.
    pub answers: u64,
    /// Power cuts.
    pub kills: u64,
    /// Orderly stops of the service.
    pub stops: u64,
    /// Completed device changes.
    pub changes: u64,
    /// Refused device changes.
    pub refusals: u64,
    /// Errors of devices.
    pub faults: u64,
    /// The longest wait of the probe.
    pub probe: Duration,
    /// Virtual time.
    pub time: Duration,
    /// Hash of all events and their times.
    pub hash: u64,
}

impl Report {
    /// Adds the counts of another world.
    pub fn add(&mut self, other: &Report) {
        self.steps += other.steps;
        self.requests += other.requests;
        self.answers += other.answers;
        self.kills += other.kills;
        self.stops += other.stops;
        self.changes += other.changes;
        self.refusals += other.refusals;
        self.faults += other.faults;
        self.probe = self.probe.max(other.probe);
        self.time += other.time;
        self.hash = self.hash.rotate_left(1) ^ other.hash;
    }
}

/// A volume of a world.
struct VolumeOf {
    name: String,
    id: VolumeId,
    blocks: u64,
    used: u64,
    seen: SeenHandle,
    limited: Limited,
}

/// A world.
pub struct ShellWorld {
    settings: Settings,
    rng: Rng,
    seed: u64,
    clock: Clock,
    script: Scripted,
    drives: Vec<Option<SharedDrive>>,
    /// The engine's configuration with the current devices.
    config: Config,
    files: Files,
    model: Model,
    volumes: Vec<VolumeOf>,
    up: Option<Up>,
    woken: StorageWoken,
    clients: Vec<ScriptedClient>,
    /// Unanswered changes of departed clients, with the client's connection and volume.
    orphans: Vec<(Wire, usize, Vec<u64>)>,
    changing: Option<Changing>,
    /// Other devices that the pool may have after a failed device change.
    maybe: Option<(Config, Vec<Option<SharedDrive>>)>,
    stopping: Option<Stopping>,
    asks: u64,
    /// Errors of devices since the first opening.
    hits: Hits,
    report: Report,
    /// Steps of the pool, of the server, of clients.
    steps: [u64; 3],
    hasher: DefaultHasher,
}

/// A service that is being stopped.
struct Stopping {
    flush: PendingFlush,
    closed: changes::Told<Result<(), thermocline_engine::HostError>>,
    asked: bool,
}

impl ShellWorld {
    /// Runs the world of `seed`.
    ///
    /// # Errors
    /// The error found, with its virtual time.
    pub fn run(seed: u64) -> Result<Report, String> {
        ShellWorld::run_with(seed, Settings::draw(seed))
    }

    /// As [`ShellWorld::run`], with other settings.
    ///
    /// # Errors
    /// As [`ShellWorld::run`].
    pub fn run_with(seed: u64, settings: Settings) -> Result<Report, String> {
        let mut world = ShellWorld::new(seed, settings)?;
        let result = world.play();
        world.report.time = world.clock.passed();
        world.report.hash = world.hasher.finish();
        match result {
            Ok(()) => Ok(world.report),
            Err(what) => Err(format!("at {:?}: {what}", world.clock.passed())),
        }
    }

    fn play(&mut self) -> Result<(), String> {
        while self.asks < self.settings.requests || self.stopping.is_some() {
            self.turn()?;
        }
        self.settle()?;
        self.judge_limits()?;
        self.stop();
        while self.stopping.is_some() {
            self.turn()?;
        }
        self.open(false)
    }

    /// Runs the world until all requests are answered.
    fn settle(&mut self) -> Result<(), String> {
        self.files.heal();
        if let Some(up) = &self.up {
            up.pool.lift_limits();
        }
        self.volumes.iter_mut().for_each(|volume| volume.limited = Limited::default());
        let until = self.clock.passed() + PATIENCE;
        let waits = |world: &ShellWorld| {
            let clients = world.clients.iter();
            world.changing.is_some() || clients.filter(|client| !client.is_idle()).count() > 0
        };
        while waits(self) {
            self.turn()?;
            if self.clock.passed() > until {
                let pending = self.clients.iter().map(|client| client.pending.len());
                let pending: Vec<usize> = pending.collect();
                return Err(format!("after {PATIENCE:?} clients wait for {pending:?} answers"));
            }
        }
        Ok(())
    }

    /// Runs one step of a thread or a client, or advances the clock.
    fn turn(&mut self) -> Result<(), String> {
        self.report.steps += 1;
        if self.report.steps > STEPS {
            let pending = self.clients.iter().map(|client| client.pending.len());
            let pending: Vec<usize> = pending.collect();
            let (stopping, changing) = (self.stopping.is_some(), self.changing.is_some());
            return Err(format!(
                "the world gets nowhere: {} of {} asked, {pending:?} wait, stopping {stopping}, changing {changing}, \
                 steps {:?}",
                self.asks, self.settings.requests, self.steps
            ));
        }
        if self.up.is_none() {
            self.open(true)?;
        }
        self.look_after_changes()?;
        self.look_after_stop()?;
        let Some(up) = &mut self.up else { return Ok(()) };
        let now = self.clock.passed();
        let (pool, server) = (up.pool_is_awake(), up.server_is_awake());
        let due = self.clients.iter().enumerate().filter(|(_, client)| client.acts <= now);
        let due: Vec<usize> = due.map(|(index, _)| index).collect();
        let all = usize::from(pool) + usize::from(server) + due.len();
        if all == 0 {
            let client = self.clients.iter().map(|client| client.acts);
            let client = client.filter(|&acts| acts < Duration::MAX).min();
            let next = client.into_iter().chain(up.next()).min();
            let next = next.ok_or("nothing will ever happen again")?;
            self.clock.advance(next.saturating_sub(now).max(Duration::from_nanos(1)));
            return Ok(());
        }
        let pick = self.rng.below(all as u64) as usize;
        (pick, now).hash(&mut self.hasher);
        match (pool, server, pick) {
            (true, _, 0) => {
                self.steps[0] += 1;
                up.step_pool();
                self.judge_pool()
            }
            (true, true, 1) | (false, true, 0) => {
                self.steps[1] += 1;
                up.step_server();
                Ok(())
            }
            _ => self.act(due[pick - usize::from(pool) - usize::from(server)]),
        }
    }

    /// Runs one action of a client.
    fn act(&mut self, index: usize) -> Result<(), String> {
        let now = self.clock.passed();
        self.steps[2] += 1;
        let hits = self.all_hits();
        let ends = self.asks >= self.settings.requests;
        let client = &mut self.clients[index];
        let piece = 1 + self.rng.below(client.piece() as u64) as usize;
        client.acts = now + Duration::from_nanos(1 + self.rng.below(client.pause(!ends)));
        for answered in client.take(piece)? {
            self.report.answers += u64::from(answered.error == 0);
            (answered.error, now).hash(&mut self.hasher);
            judge::answer(&mut self.model, answered, hits)
                .map_err(|what| format!("client {index}: {what}"))?;
        }
        if client.wire.is_closed() {
            return self.was_closed(index);
        }
        let mut asks = if ends || self.stopping.is_some() {
            0
        } else {
            1 + self.rng.below(client.manner.burst)
        };
        while asks > 0 && client.may_ask() {
            asks -= 1;
            let volume = &self.volumes[client.manner.volume];
            let all = Extent { volume: volume.id, lba: 0, blocks: volume.blocks };
            let range = UsedRange { all, used: volume.used };
            judge::ask(&mut self.model, &mut self.rng, client, range);
            let counts = !self.settings.probe || client.manner.wants == Wants::Probe;
            self.asks += u64::from(counts);
            self.report.requests += 1;
        }
        client.send(piece, now);
        self.happen(index)
    }

    /// Handles a connection that the server has closed.
    fn was_closed(&mut self, index: usize) -> Result<(), String> {
        if self.stopping.is_none() && !self.clients[index].leaves {
            return Err(format!("the server has closed the connection of client {index}"));
        }
        self.lose_client(index);
        Ok(())
    }

    /// Removes a client. A new client takes its place later.
    fn lose_client(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let changes = judge::forget(&mut self.model, client);
        client.wire.hang_up();
        if !changes.is_empty() {
            self.orphans.push((client.wire.clone(), client.manner.volume, changes));
        }
        let later = Duration::from_micros(self.rng.below(3000));
        self.admit(index, self.clock.passed() + later);
    }

    /// Connects a new client to the server.
    fn admit(&mut self, index: usize, acts: Duration) {
        let manner = match self.clients.get(index) {
            Some(client) => client.manner,
            None => self.settings.clients[index],
        };
        let wire = Wire::new(self.rng.next_u64(), manner.room, manner.short_one_in);
        // A stopping server admits no client.
        let acts = if self.stopping.is_some() { Duration::MAX } else { acts };
        let client = ScriptedClient::new(manner, &self.volumes[manner.volume].name, wire, acts);
        if let (Some(up), None) = (&self.up, &self.stopping) {
            up.server().welcome(client.wire.end());
        }
        match self.clients.get_mut(index) {
            Some(old) => *old = client,
            None => self.clients.push(client),
        }
    }

    /// Ends the changes of departed clients when their connection is closed and the volume has no request in flight.
    fn bury(&mut self) {
        let ShellWorld { orphans, volumes, model, .. } = self;
        orphans.retain(|(wire, volume, changes)| {
            let over = crate::watched::look(&volumes[*volume].seen).under_way == 0;
            if wire.is_closed() && over {
                changes.iter().for_each(|&change| model.end_change(change, Outcome::Failed));
            }
            !(wire.is_closed() && over)
        });
    }

    /// Draws and runs the events beside a client's action.
    fn happen(&mut self, index: usize) -> Result<(), String> {
        self.bury();
        if self.asks >= self.settings.requests || self.stopping.is_some() {
            return Ok(());
        }
        let rates: Odds = self.settings.rates;
        let mut comes = |one_in: u64| one_in > 0 && self.rng.below(one_in) == 0;
        let [kill, stop, change, refusal, leave, limit] =
            [rates.kill, rates.stop, rates.change, rates.refusal, rates.leave, rates.limit]
                .map(&mut comes);
        if self.must_restart() || kill && self.changing.is_none() {
            self.kill();
            return Ok(());
        }
        if stop && self.changing.is_none() {
            self.stop();
        }
        if refusal && (self.changing.is_none() || self.rng.below(8) == 0) {
            self.files.spoil(&mut self.rng);
        }
        if change && self.stopping.is_none() {
            self.change_devices();
        }
        if leave {
            self.leave(index);
        }
        if limit {
            self.change_limits();
        }
        Ok(())
    }

    /// Whether to restart a pool that refuses writes after a failure.
    fn must_restart(&mut self) -> bool {
        let failed = self.script.script().hits.changes > 0;
        failed && self.changing.is_none() && self.rng.below(30) == 0
    }

    fn leave(&mut self, index: usize) {
        if self.rng.below(2) == 0 {
            return self.lose_client(index);
        }
        let client = &mut self.clients[index];
        if client.is_serving() && !client.leaves {
            client.say_goodbye();
        }
    }

    fn change_limits(&mut self) {
        let index = self.rng.below(self.volumes.len() as u64 - 1) as usize;
        let limits = draw_volume_limits(&mut self.rng);
        self.set_limits(index, limits);
    }

    /// Cuts the power.
    fn kill(&mut self) {
        self.report.kills += 1;
        self.up = None;
        self.note_hits();
        for drive in self.drives.iter().flatten() {
            let mut drive = drive.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            drive.lose_power(&mut self.rng);
        }
        self.files.heal();
    }

    /// Begins an orderly stop of the service.
    fn stop(&mut self) {
        let Some(up) = &self.up else { return };
        self.report.stops += 1;
        up.pool.lift_limits();
        up.stopper.stop();
        self.volumes.iter_mut().for_each(|volume| volume.limited = Limited::default());
        let flush = self.model.begin_flush(None);
        self.stopping = Some(Stopping { flush, closed: changes::Told::default(), asked: false });
    }

    /// Closes the pool when the server has stopped. Ends the service when the pool is closed.
    fn look_after_stop(&mut self) -> Result<(), String> {
        let (Some(stopping), Some(up)) = (&mut self.stopping, &self.up) else { return Ok(()) };
        if !stopping.asked && up.stopper.is_over() && self.changing.is_none() {
            stopping.asked = true;
            stopping.flush = self.model.begin_flush(None);
            let told = Arc::clone(&stopping.closed);
            up.pool.begin_close(move |result| changes::tell(&told, result));
        }
        let Some(result) = changes::heard(&stopping.closed) else { return Ok(()) };
        let excused = self.script.script().hits.changes > 0;
        let Some(Stopping { flush, .. }) = self.stopping.take() else { return Ok(()) };
        match result {
            Ok(()) => self.model.end_flush(flush),
            Err(_) if excused => {}
            Err(error) => return Err(format!("the pool was not closed: {error}")),
        }
        self.up = None;
        self.note_hits();
        Ok(())
    }

    /// Errors of devices so far.
    fn all_hits(&self) -> Hits {
        let now = self.script.script().hits;
        Hits { changes: self.hits.changes + now.changes, reads: self.hits.reads + now.reads }
    }

    fn note_hits(&mut self) {
        let hits = std::mem::take(&mut self.script.script().hits);
        self.hits.changes += hits.changes;
        self.hits.reads += hits.reads;
        self.report.faults += hits.changes + hits.reads;
    }

    fn seen(&self) -> BTreeMap<String, SeenHandle> {
        let seen = |volume: &VolumeOf| (volume.name.clone(), Arc::clone(&volume.seen));
        self.volumes.iter().map(seen).collect()
    }
}
