//! Mirrored pairs of a pool that is served: how they stand, and sides that are given to them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use thermocline_engine::{Engine, Payload};
use thermocline_runtime::{Contents, Pair, PairStatus, Pool, Settings, SideStatus};

use super::super::device::draining;
use super::super::say;

/// The pairs of a pool; clones are of the same.
#[derive(Clone)]
pub struct Devices {
    settings: PathBuf,
    pairs: Arc<[(usize, Pair)]>,
}

/// A pair, as it is told.
#[derive(Serialize, Deserialize)]
pub struct MirrorStatus {
    pub name: String,
    /// Both sides hold everything.
    pub whole: bool,
    pub sides: Vec<SideTold>,
    /// What the side that is being filled lacks.
    pub lacking_bytes: u64,
    /// Copied to fill it, since the pool was opened.
    pub filled_bytes: u64,
    /// Places of one side that could not be read and were written again from the other.
    pub repaired: u64,
    /// What is at risk, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
}

/// A device that is drained, as it is told.
#[derive(Serialize, Deserialize)]
pub struct DrainStatus {
    /// Its number in the pool.
    pub device: u8,
    /// Units that hold something still; 0: it can be detached.
    pub units_left: u32,
}

impl fmt::Display for DrainStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DrainStatus { device, units_left } = self;
        match units_left {
            0 => write!(f, "device {device}: drained, it can be detached"),
            left => write!(f, "device {device}: is drained, {left} units are left"),
        }
    }
}

impl DrainStatus {
    /// All of a pool.
    pub fn all<P: Payload>(engine: &Engine<P>) -> Vec<DrainStatus> {
        let all = draining(engine.geometry());
        all.map(|device| DrainStatus { device: device.0, units_left: engine.units_in_use(device) })
            .collect()
    }
}

/// A side of a pair, as it is told.
#[derive(Serialize, Deserialize)]
pub struct SideTold {
    pub path: String,
    /// current, filling or out.
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Body of `POST /devices`: a side that is to be filled.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewSide {
    /// Where it is, as the settings name it.
    pub path: PathBuf,
    /// The path or the identity of the pool once more, if something is there that will be gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yes_destroy: Option<String>,
}

impl MirrorStatus {
    /// As a pair stands.
    pub fn new(pair: &PairStatus) -> MirrorStatus {
        let told = |side: &SideStatus| SideTold {
            path: side.path.display().to_string(),
            state: side.standing.name().to_owned(),
            why: side.why.clone(),
        };
        MirrorStatus {
            name: pair.name.clone(),
            whole: pair.is_whole(),
            sides: pair.sides.iter().map(told).collect(),
            lacking_bytes: pair.lacking.0,
            filled_bytes: pair.filled.0,
            repaired: pair.repaired,
            risk: pair.risk(),
        }
    }
}

impl Devices {
    /// Those of the pool of the settings at `settings`. What happens to them is said on standard error from now on.
    pub fn new(settings: &Path, pairs: Vec<(usize, Pair)>) -> Devices {
        for (_, pair) in &pairs {
            pair.listen(Box::new(|text| say(format_args!("{text}"))));
            if let Some(risk) = pair.status().risk() {
                say(format_args!("{risk}"));
            }
        }
        Devices { settings: settings.to_owned(), pairs: pairs.into() }
    }

    /// How all stand.
    pub fn status(&self) -> Vec<MirrorStatus> {
        self.pairs.iter().map(|(_, pair)| MirrorStatus::new(&pair.status())).collect()
    }

    /// Gives a pair a side, which the settings name by now.
    ///
    /// # Errors
    /// When it is none, or something is there, or no pair has room.
    pub fn join(&self, new: &NewSide, pool: &Pool) -> anyhow::Result<()> {
        let settings = Settings::load(&self.settings)?;
        let (id, geometry) = pool
            .look(|view| (view.engine.pool_id(), *view.engine.geometry()))
            .context("the pool is closed")?;
        refuse_to_destroy(&settings, new)?;
        Ok(settings.join_side(&new.path, id, &geometry, &self.pairs)?)
    }
}

/// Refuses if anything is on a device that was not named.
///
/// # Errors
/// With what is there, and what to say.
pub fn refuse_to_destroy(settings: &Settings, new: &NewSide) -> anyhow::Result<()> {
    let path = &new.path;
    let side = settings.each_device().find(|one| one.device().path == *path);
    let Some(side) = side else { return Ok(()) };
    let what = match side.contents()? {
        Contents::Nothing => return Ok(()),
        Contents::Pool(pool) => format!("the pool {pool}, or a copy of it"),
        Contents::Known(what) => what.to_owned(),
        Contents::Unknown => "data".to_owned(),
    };
    let shown = path.display().to_string();
    let named = new.yes_destroy.as_deref();
    let same = |name: &str| name == shown || settings.named(Path::new(name)) == Some(path.clone());
    ensure!(
        named.is_some_and(same),
        "{shown} holds {what}, which will be gone: to destroy it, say --yes-destroy {shown}"
    );
    Ok(())
}
