//! Simulated drives beside the ratings of their data sheets.
//!
//! A drive is cut to a small capacity and filled in order. Rated figures are measured as sheets define them: sequential
//! requests of 128 KiB, random ones of 4 KiB or of the rated size, sustained random writes on a full drive. A drive
//! with an SLC cache is measured within its cache, since its sheet rates the cache.

use serde::Serialize;
use thermocline_nand::Kind;
use thermocline_nand::profile::Rated;
use thermocline_types::{Bytes, Time};
use thermocline_workload::synthetic::Pattern;

use crate::pts::PtsAccess;
use crate::pts::bed::{Bed, Sample, Spell};
use crate::stack::Stack;
use crate::{Error, Settings};

/// Mapping units that are simulated. Chosen: enough that garbage collection behaves as on a large drive.
const UNITS: u64 = 1 << 18;
/// Share of a drive with an SLC cache that is used: its cache holds more. Chosen.
const CACHED: f64 = 0.03;
/// Requests of a sequential pattern, and of a random one, that are in flight. Chosen: what makers use for drives of
/// PCIe 4 and 5.
const DEEP_SEQUENTIAL: u32 = 64;
const DEEP_RANDOM: u32 = 512;
/// Size of rated sequential requests.
const SEQUENTIAL: Bytes = Bytes::kib(128);
/// Size of rated random requests.
const RANDOM: Bytes = Bytes::kib(4);
/// Requests that are measured alone, and those deep that leave the drive as it is. Chosen.
const ALONE: u64 = 2_000;
const READS: u64 = 60_000;
/// Times that random writes overwrite the drive before they are measured, and meanwhile. Chosen: the write
/// amplification is steady then.
const BEFORE: u64 = 2;

/// The quantity of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum SheetUnit {
    /// 10^6 bytes a second.
    #[serde(rename = "mb_per_s")]
    MbPerS,
    /// Thousand requests a second.
    #[serde(rename = "kiops")]
    Kiops,
    /// Microseconds, mean.
    #[serde(rename = "us")]
    Us,
}

impl SheetUnit {
    /// As in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SheetUnit::MbPerS => "MB/s",
            SheetUnit::Kiops => "k/s",
            SheetUnit::Us => "us",
        }
    }

    fn of(self, sample: &Sample) -> f64 {
        match self {
            SheetUnit::MbPerS => sample.bytes as f64 / sample.seconds / 1e6,
            SheetUnit::Kiops => sample.requests as f64 / sample.seconds / 1e3,
            SheetUnit::Us => sample.mean_us,
        }
    }
}

/// A figure of a drive.
#[derive(Clone, Debug, Serialize)]
pub struct SheetRow {
    /// `sequential read` and so on.
    pub pattern: String,
    /// Bytes of a request.
    pub size_bytes: u64,
    /// Requests in flight.
    pub depth: u32,
    /// The quantity of both values.
    pub unit: SheetUnit,
    /// Value of the data sheet, if rated.
    pub rated: Option<f64>,
    /// Simulated value.
    pub simulated: f64,
}

impl SheetRow {
    /// Simulated over rated, minus one.
    #[must_use]
    pub fn difference(&self) -> Option<f64> {
        self.rated.map(|rated| self.simulated / rated - 1.0)
    }
}

/// Which figures are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SheetRows {
    /// Those that the data sheet rates.
    Rated,
    /// Sequential and random reads and writes, of 4 KiB and the drive's own unit, alone and deep.
    All,
}

/// A figure to measure.
struct Cell {
    access: PtsAccess,
    unit: SheetUnit,
    rated: Option<f64>,
}

impl Cell {
    fn new(pattern: Pattern, writes: bool, size: Bytes, depth: u32) -> Cell {
        let unit = match (depth, pattern) {
            (1, _) => SheetUnit::Us,
            (_, Pattern::Sequential) => SheetUnit::MbPerS,
            _ => SheetUnit::Kiops,
        };
        let read_share = if writes { 0.0 } else { 1.0 };
        let access = PtsAccess { pattern, io_size: size, read_share, depth };
        Cell { access, unit, rated: None }
    }

    fn is_random_write(&self) -> bool {
        self.access.pattern == Pattern::Uniform && self.access.read_share == 0.0
    }

    fn is(&self, other: &Cell) -> bool {
        let [a, b] = [self.access, other.access];
        (a.pattern, a.read_share == 0.0, a.io_size, a.depth)
            == (b.pattern, b.read_share == 0.0, b.io_size, b.depth)
    }

    /// Requests to measure on `volume` bytes. Sustained random writes overwrite all of it.
    fn requests(&self, volume: Bytes, cached: bool) -> u64 {
        let once = volume.0 / self.access.io_size.0;
        match (self.access.depth, self.is_random_write()) {
            (1, _) => ALONE.min(once / 4),
            (_, true) if !cached => once,
            (_, true) => once / 2,
            _ => READS.min(once / 2),
        }
    }

    fn row(&self, sample: &Sample) -> SheetRow {
        let access = &self.access;
        let name = if access.pattern == Pattern::Uniform { "random" } else { "sequential" };
        let direction = if access.read_share == 0.0 { "write" } else { "read" };
        SheetRow {
            pattern: format!("{name} {direction}"),
            size_bytes: access.io_size.0,
            depth: access.depth,
            unit: self.unit,
            rated: self.rated,
            simulated: self.unit.of(sample),
        }
    }
}

/// The figures that a sheet can rate.
fn rated(rated: &Rated) -> Vec<Cell> {
    let cell = |pattern, writes, size, depth, value: Option<f64>| {
        value.map(|value| Cell { rated: Some(value), ..Cell::new(pattern, writes, size, depth) })
    };
    let (sequential, random) = (Pattern::Sequential, Pattern::Uniform);
    let cells = [
        cell(sequential, false, SEQUENTIAL, DEEP_SEQUENTIAL, rated.read_mb_per_s),
        cell(random, false, RANDOM, DEEP_RANDOM, rated.read_kiops),
        cell(random, false, RANDOM, 1, rated.read_us),
        cell(sequential, true, SEQUENTIAL, DEEP_SEQUENTIAL, rated.write_mb_per_s),
        cell(random, true, RANDOM, 1, rated.write_us),
        cell(random, true, rated.write_size, DEEP_RANDOM, rated.write_kiops),
    ];
    cells.into_iter().flatten().collect()
}

/// All figures of `stack` that are asked for. Random writes come last, since they leave the drive with garbage.
fn cells(stack: &Stack, rows: SheetRows) -> Vec<Cell> {
    let profile = &stack.profile;
    let mut cells = profile.rated.as_ref().map_or_else(Vec::new, rated);
    if rows == SheetRows::All {
        let mut sizes = vec![RANDOM, profile.mapping_unit.max(RANDOM)];
        sizes.dedup();
        let zoned = profile.kind == Kind::Zns;
        for (pattern, deep) in
            [(Pattern::Sequential, DEEP_SEQUENTIAL), (Pattern::Uniform, DEEP_RANDOM)]
        {
            for writes in [false, true].into_iter().filter(|writes| !writes || !zoned) {
                for (&size, depth) in sizes.iter().flat_map(|size| [(size, 1), (size, deep)]) {
                    let cell = Cell::new(pattern, writes, size, depth);
                    if !cells.iter().any(|known| known.is(&cell)) {
                        cells.push(cell);
                    }
                }
            }
        }
    }
    cells.sort_by_key(|cell| {
        let access = &cell.access;
        (cell.is_random_write(), access.read_share == 0.0, access.depth > 1)
    });
    cells
}

/// Measures the figures of a stack without a layer, `raw:DEVICE`.
///
/// # Errors
/// [`Error`] when the drive cannot be made, has no time, or wears out.
pub fn measure(stack: &Stack, rows: SheetRows) -> Result<Vec<SheetRow>, Error> {
    let cells = cells(stack, rows);
    let profile = &stack.profile;
    let cached = profile.slc.is_some();
    let mut volume = Bytes(profile.mapping_unit.max(Bytes::BLOCK).0 * UNITS);
    let mut settings = Settings::default();
    if cached {
        settings.utilisation = CACHED;
        volume = Bytes::mib(256);
    }
    if profile.kind == Kind::Zns {
        let zone = profile.zns.as_ref().map_or(Bytes::ZERO, |zns| zns.zone_capacity);
        volume = Bytes(zone.0 * 4);
    }
    let accesses: Vec<PtsAccess> = cells.iter().map(|cell| cell.access).collect();
    let bed = || {
        let mut bed = Bed::purged(stack, &settings, volume, &accesses)?;
        bed.fill(SEQUENTIAL)?;
        Ok::<Bed, Error>(bed)
    };
    let mut filled = bed()?;
    let mut measured = Vec::new();
    for (index, cell) in cells.iter().enumerate() {
        let requests = cell.requests(volume, cached);
        let sustained = cell.is_random_write() && cell.access.depth > 1 && !cached;
        let spell = |requests| Spell { requests, time: Time::ZERO };
        if cached && cell.access.read_share == 0.0 {
            filled = Bed::purged(stack, &settings, volume, &accesses)?;
        }
        if sustained {
            filled.run(index, spell(BEFORE * requests))?;
        }
        measured.push(cell.row(&filled.run(index, spell(requests))?));
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use thermocline_nand::profile::names;

    /// Goal of every rated figure.
    const WITHIN: f64 = 0.1;

    #[test]
    fn every_profile_meets_its_own_data_sheet() {
        let names: Vec<&str> = names().collect();
        let measured = crate::each(&names, None, &AtomicBool::default(), |_, name| {
            measure(&Stack::parse(&format!("raw:{name}"), &[]).unwrap(), SheetRows::Rated).unwrap()
        });
        let mut wrong = Vec::new();
        for (name, rows) in names.iter().zip(measured) {
            for row in rows.expect("not stopped") {
                let off = row.difference().expect("only rated figures");
                if off.abs() > WITHIN {
                    wrong.push(format!("{name}: {row:?}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
