//! Making, opening and reading a whole pool.

use std::collections::BTreeMap;
use std::hash::DefaultHasher;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thermocline_engine::{Extent, HostRequest, MAX_IO_BLOCKS, Reply};
use thermocline_format::{BLOCK_BYTES, PoolId, VolumeName};
use thermocline_runtime::{AnyStorage, Buffer, Driver, PoolUpkeep};
use thermocline_sim::data::Content;
use thermocline_sim::model::{FoundVolume, Model};
use thermocline_target::Clock;
use thermocline_types::Rng;

use super::changes::{Files, Opener};
use super::rules::Limited;
use super::{Report, ShellWorld, VolumeOf};
use crate::drive::ScriptedDrive;
use crate::settings::Settings;
use crate::storage::{Hits, Scripted};
use crate::up::{Parts, Up};

impl ShellWorld {
    pub(super) fn new(seed: u64, settings: Settings) -> Result<ShellWorld, String> {
        let mut rng = Rng::new(seed ^ 0x005E_ED0F_5E11);
        let clock = Clock::by_hand();
        let script = Scripted::new(rng.next_u64(), settings.habits.sound());
        let config = settings.config.clone();
        let geometry = config.geometry;
        let drives = geometry.device_units().map(|(_, units)| {
            let bytes = geometry.unit_bytes() * units.len() as u64;
            Some(Arc::new(Mutex::new(ScriptedDrive::new(bytes))))
        });
        let mut world = ShellWorld {
            drives: drives.collect(),
            config,
            rng,
            seed,
            clock,
            script,
            files: Files::default(),
            model: Model::default(),
            volumes: Vec::new(),
            up: None,
            woken: Arc::default(),
            clients: Vec::new(),
            orphans: Vec::new(),
            changing: None,
            maybe: None,
            stopping: None,
            asks: 0,
            hits: Hits::default(),
            report: Report::default(),
            steps: [0; 3],
            hasher: DefaultHasher::new(),
            settings,
        };
        world.format()?;
        Ok(world)
    }

    /// Makes the pool and its volumes.
    fn format(&mut self) -> Result<(), String> {
        let opener: Opener = self.opener();
        let (clock, storage) = (self.clock.clone(), opener.storage());
        let id = PoolId([7; 16]);
        let driver = Driver::format_by(clock, self.seed, opener.config, id, storage);
        let mut driver = driver.map_err(|error| error.to_string())?;
        for (number, plan) in self.settings.volumes.iter().enumerate() {
            let (text, blocks) = (format!("v{number}"), plan.blocks);
            let name = VolumeName::new(&text).expect("a name");
            let version = self.model.begin_create(name.clone(), blocks);
            let created = driver.carry_out(HostRequest::CreateVolume { name, blocks });
            let Ok(Reply::Created(id)) = created else {
                return Err(format!("a volume of {blocks} blocks: {created:?}"));
            };
            self.model.end_create(version, Some(id));
            self.volumes.push(VolumeOf {
                name: text,
                id,
                blocks,
                used: plan.used,
                seen: Arc::default(),
                limited: Limited::default(),
            });
        }
        driver.carry_out(HostRequest::Close).map(drop).map_err(|error| error.to_string())
    }

    /// Opens the pool, judges all blocks, and serves the pool if `goes_on`.
    pub(super) fn open(&mut self, goes_on: bool) -> Result<(), String> {
        self.script.script().habits = self.settings.habits.sound();
        self.clients.clear();
        self.orphans.clear();
        let opener = self.opener();
        let mut opened = opener.open();
        if opened.is_err()
            && let Some((config, drives)) = self.maybe.take()
        {
            (self.config, self.drives) = (config, drives);
            opened = self.opener().open();
        }
        let mut driver = opened.map_err(|error| format!("the pool does not open: {error}"))?;
        let found = self.found(&mut driver)?;
        if let Some(wrong) = self.model.judge_found(&found).first() {
            return Err(format!("after an opening: {wrong}"));
        }
        self.model.rebase(&found);
        if !goes_on {
            return driver.carry_out(HostRequest::Close).map(drop).map_err(|e| e.to_string());
        }
        self.script.script().habits = self.settings.habits;
        let upkeep = PoolUpkeep { flush_after: self.settings.flush_after, ..PoolUpkeep::default() };
        let seen = self.seen();
        seen.values().for_each(|seen| *crate::watched::look(seen) = Default::default());
        self.up = Some(Up::start(Parts {
            driver,
            upkeep,
            script: &self.script,
            woken: Arc::clone(&self.woken),
            limits: self.settings.limits,
            housed: self.settings.housed,
            seen: &seen,
        }));
        for index in 0..self.volumes.len() {
            let limits = self.settings.volumes[index].limits;
            self.set_limits(index, limits);
        }
        for index in 0..self.settings.clients.len() {
            let later = Duration::from_micros(self.rng.below(3000));
            self.admit(index, self.clock.passed() + later);
        }
        Ok(())
    }

    /// All volumes as they are.
    fn found(&self, driver: &mut Driver<AnyStorage>) -> Result<Vec<FoundVolume>, String> {
        let used: BTreeMap<u32, u64> =
            self.volumes.iter().map(|volume| (volume.id.0, volume.used)).collect();
        let mut found = Vec::new();
        for info in driver.engine().volumes() {
            let mut blocks = vec![Some(Content::Zeros); info.blocks as usize];
            let used = used.get(&info.id.0).copied().unwrap_or(info.blocks);
            let mut lba = 0;
            while lba < used {
                let count = MAX_IO_BLOCKS.min(used - lba);
                let bytes = thermocline_target::Buffer::zeroed(count as usize * BLOCK_BYTES);
                let into = Buffer::new(bytes);
                let extent = Extent { volume: info.id, lba, blocks: count };
                let read = driver.carry_out(HostRequest::Read { extent, into: into.clone() });
                if let Err(error) = read
                    && self.hits.changes == 0
                {
                    return Err(format!("{extent:?} cannot be read after an opening: {error}"));
                }
                let bytes = into.read();
                for (block, bytes) in
                    blocks[lba as usize..].iter_mut().zip(bytes.chunks_exact(BLOCK_BYTES))
                {
                    let shown = Content::of(bytes.try_into().expect("a block"));
                    *block = read.is_ok().then_some(shown);
                }
                lba += count;
            }
            let (volume, name, media) = (info.id, info.name, info.media);
            let snapshot_of = info.snapshot_of;
            found.push(FoundVolume { volume, name, media, snapshot_of, blocks });
        }
        Ok(found)
    }
}
