//! The rules by which a row of `logs.csv` becomes a drive and a load. All of them hold for all rows, and none looks at
//! media bytes beyond where relocation begins.
//!
//! **Drive.**
//! * The simulated drive has as many units for its capacity as the real one: capacity / `ru_bytes`. A unit has as many
//!   blocks as about [`BLOCKS`] make on the whole drive.
//! * A commercial drive has the units that its own rows show: the middle of `onset_fills_low` and `onset_fills_high`,
//!   where relocation begins, median over its rows that began trimmed and without placement; else over all its rows
//!   that began trimmed; else over the trimmed rows of all drives; else [`ONSET`].
//! * The emulator has `total_units`, if `units_at_least` does not exceed them; else the units that the onset shows. It
//!   keeps [`FORCED`] of them free, which take no part. Nor do open units of those [`HANDLES`] that
//!   the run does not use.
//! * Collection takes the unit with the fewest valid blocks. Survivors lie apart from host writes: of all handles
//!   together, or with `isolation=PI` by handle.
//! * With `background_max_valid_pct`, units with no more valid blocks than that are collected while less than
//!   `background_gc_below_free_pct` (10 % where not stated) of all units are free.
//! * A row that is not `already written` begins on an empty drive; one that is begins after [`AGED`] fills of its load.
//!
//! **Load.** See [`fio`] and [`cachelib`].

mod cachelib;
mod fio;

use thermocline_ftl::Shape;
use thermocline_ftl::placement::Isolation;

use super::drive::{Ahead, Drive};
use super::folder::{Folder, Log};
use super::load::{Load, Order, Span, Stream};
use crate::Error;
use crate::counters::{AGED, FILLS, TENTHS, median};

/// Blocks of a simulated drive, about.
const BLOCKS: f64 = (1 << 20) as f64;
/// Fewest and most blocks of a unit.
const BLOCKS_PER_UNIT: (f64, f64) = (64.0, 2048.0);
/// Fills of the load after which relocation begins on a drive that no row shows: the Samsung PM9D3a 7.68 TB.
const ONSET: f64 = 1.174;
/// Handles of the emulator. Each has an open unit, used or not.
const HANDLES: u8 = 8;
/// Share of the units that the emulator keeps free at any price.
const FORCED: f64 = 0.01;

/// A drive and a load to predict a row with.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub drive: Drive,
    pub load: Load,
    /// Fills before the row begins, and in the row.
    before: f64,
    fills: f64,
}

/// The drive and the load of `log`.
///
/// # Errors
/// [`Error::Settings`] when a cell that a rule needs is no number.
pub(super) fn run(folder: &Folder, log: &Log) -> Result<Run, Error> {
    let capacity = log.needed("capacity_bytes")?;
    let units = capacity / log.needed("ru_bytes")?;
    let (fewest, most) = BLOCKS_PER_UNIT;
    let blocks = (BLOCKS / units).clamp(fewest, most).floor();
    let exported = (units * blocks) as u64;
    let fills = folder.curve(log)?.host_bytes() / capacity;
    let load = load(folder, log, exported)?;
    let handles = load.streams.iter().map(|stream| stream.handle as u8 + 1).max().unwrap_or(1);
    let isolation = match log.parameter("isolation") {
        Some("PI") => Isolation::Persistently,
        _ => Isolation::Initially,
    };
    let reserve = if isolation == Isolation::Persistently { handles.into() } else { 1 };
    let emulated = log.text("kind") == "emulator";
    let all = if emulated { emulator_units(log, units) } else { drive_units(folder, log, units) };
    let idle = f64::from(HANDLES.saturating_sub(handles));
    let kept = if emulated { (all * FORCED).ceil() + idle } else { 0.0 };
    let simulated = all - kept + f64::from(reserve);
    let shape = Shape::new(exported, simulated as u32, blocks as u32);
    let shape = shape.map_err(|error| Error::Settings(format!("`{}`: {error}", log.text("id"))))?;
    let ahead = log.parameter_number("background_max_valid_pct").map(|valid| {
        let below = log.parameter_number("background_gc_below_free_pct").unwrap_or(10.0);
        let free = (below / 100.0 * all - kept + f64::from(reserve)) / simulated;
        Ahead { free, most: (valid / 100.0 * blocks) as u64 }
    });
    let before = if log.text("start_state").starts_with("already written") { AGED } else { 0.0 };
    let drive = Drive { shape, handles, isolation, ahead };
    Ok(Run { drive, load, before, fills })
}

/// Units of a commercial drive: what it takes until relocation begins, and the unit that is open then.
fn drive_units(folder: &Folder, log: &Log, units: f64) -> f64 {
    let onset = |log: &Log| {
        let (low, high) = (log.number("onset_fills_low")?, log.number("onset_fills_high")?);
        (log.text("start_state") == "trimmed").then(|| f64::midpoint(low, high))
    };
    let of = |chosen: &dyn Fn(&Log) -> bool| {
        let logs = folder.logs().iter().filter(|other| other.text("kind") == "drive");
        let onsets: Vec<f64> = logs.filter(|other| chosen(other)).filter_map(onset).collect();
        (!onsets.is_empty()).then(|| median(onsets))
    };
    let same = |other: &Log| other.text("drive") == log.text("drive");
    let plain = of(&|other| same(other) && other.text("fdp") == "off");
    let fills = plain.or_else(|| of(&same)).or_else(|| of(&|_| true)).unwrap_or(ONSET);
    (fills * units).round() + 1.0
}

/// Units of the emulated drive.
fn emulator_units(log: &Log, units: f64) -> f64 {
    let least = log.number("units_at_least").unwrap_or(0.0);
    let stated = log.parameter_number("total_units").filter(|stated| *stated >= least);
    stated.unwrap_or_else(|| {
        let idle = f64::from(HANDLES - 1);
        let onset = match (log.number("onset_fills_low"), log.number("onset_fills_high")) {
            (Some(low), Some(high)) => f64::midpoint(low, high),
            _ => 1.0 + log.number("op_if_stated").unwrap_or(10.0) / 100.0,
        };
        ((onset * units + 1.0 + idle) / (1.0 - FORCED)).max(least).round()
    })
}

/// The load of `log`. A load that the folder does not describe is uniform random writes over the whole drive.
fn load(folder: &Folder, log: &Log, exported: u64) -> Result<Load, Error> {
    match log.text("workload") {
        "fio 1 stream" => Ok(fio::one_stream(log, exported)),
        "fio 3 streams" => fio::three_streams(folder, log, exported),
        workload if workload.starts_with("CacheLib") => cachelib::cache(folder, log, exported),
        _ => {
            let span = Span { first: 0, blocks: exported };
            Ok(one(Stream { span, order: Order::Uniform, handle: 0, burst: 1 }, "uniform random"))
        }
    }
}

/// A load of one stream.
fn one(stream: Stream, about: &str) -> Load {
    Load {
        streams: vec![stream],
        shares: vec![(f64::INFINITY, vec![1.0])],
        about: about.to_owned(),
    }
}

impl Run {
    /// Blocks on the media by blocks that the host sees, less 1.
    pub fn spare(&self) -> f64 {
        self.drive.shape.physical() as f64 / self.drive.shape.exported() as f64 - 1.0
    }

    /// Host blocks that are simulated.
    pub fn blocks_written(&self) -> u64 {
        self.blocks(self.before + self.fills.min(FILLS))
    }

    fn blocks(&self, fills: f64) -> u64 {
        (fills * self.drive.shape.exported() as f64).round() as u64
    }

    /// Predicts the write amplification of each tenth of the run.
    ///
    /// # Errors
    /// [`Error::Settings`] when the drive has too few units.
    pub fn play(&self, seed: u64) -> Result<Vec<f64>, Error> {
        let simulated = self.fills.min(FILLS);
        let tenths = (1..=TENTHS).map(|tenth| self.fills * tenth as f64 / TENTHS as f64);
        let ends: Vec<f64> = tenths.collect();
        let mut marks: Vec<u64> = ends.iter().map(|end| self.blocks(end.min(simulated))).collect();
        marks.extend([self.blocks(simulated * 0.75), self.blocks(simulated)]);
        marks.sort_unstable();
        let before = self.blocks(self.before);
        let programmed = self.drive.play(&self.load, before, &marks, seed)?;
        let at = |fills: f64| {
            let mark = self.blocks(fills);
            marks.iter().position(|other| *other == mark).map_or(0, |index| programmed[index])
                as f64
        };
        let quarter = self.blocks(simulated) - self.blocks(simulated * 0.75);
        let last = (at(simulated) - at(simulated * 0.75)) / quarter as f64;
        let total = |fills: f64| {
            let beyond = self.blocks(fills).saturating_sub(self.blocks(simulated));
            at(fills.min(simulated)) + beyond as f64 * last
        };
        let points = ends.iter().map(|end| (self.blocks(*end) as f64, total(*end)));
        let points: Vec<(f64, f64)> = std::iter::once((0.0, 0.0)).chain(points).collect();
        let between = |pair: &[(f64, f64)]| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0);
        Ok(points.windows(2).map(between).collect())
    }
}
