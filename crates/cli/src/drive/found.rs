//! What a log shows of its drive, and what the user states instead.

use std::path::Path;

use anyhow::{Context as _, bail};
use thermocline_lab::Stack;
use thermocline_lab::counters::{Curve, Onset, RealDrive, Shown, Sourced};
use thermocline_nand::Profile;
use thermocline_types::Bytes;

/// Units in the capacity of a drive whose log has no erase counter.
const UNITS: u64 = 1024;
/// How far apart two counts may be, in fills, for the spare to be known well.
const FINE: f64 = 0.02;

/// A log, and what the user states about its drive.
pub struct Stated<'a> {
    pub log: &'a Path,
    pub capacity: Option<Bytes>,
    pub op: Option<f64>,
    pub unit: Option<Bytes>,
    pub handles: Option<u8>,
    pub buffer: Option<Bytes>,
}

/// A drive that a log shows, with notes for the user.
pub struct FoundDrive {
    pub drive: RealDrive,
    pub notes: Vec<String>,
}

impl Stated<'_> {
    /// The drive of `curve`. Survivors are assumed to lie apart.
    ///
    /// # Errors
    /// When capacity or spare is neither in the log nor stated.
    pub fn find(&self, curve: &Curve) -> anyhow::Result<FoundDrive> {
        let log = self.log.display();
        let capacity = self.capacity.with_context(|| {
            format!(
                "{log} does not show how large the drive is: give --capacity, such as --capacity 7.68TB \
                 (`nvme id-ns /dev/nvme0n1`: nsze times the block size)"
            )
        })?;
        let shown = Shown::of(curve, capacity);
        let mut notes = Vec::new();
        let unit = match (self.unit, shown.unit) {
            (Some(unit), _) => Sourced::new(unit, "stated"),
            (None, Some(unit)) => {
                let source = "greatest common divisor of all steps of the erase counter";
                Sourced::new(unit, format!("{log}: {source}"))
            }
            (None, None) => {
                notes.push(format!(
                    "{log} has no erase counter whose steps show a unit: 1/{UNITS} of the capacity is assumed; --unit \
                     states it"
                ));
                let unit = Bytes((capacity.0 / UNITS).next_multiple_of(Bytes::mib(1).0));
                Sourced::new(unit, format!("assumed: 1/{UNITS} of the capacity"))
            }
        };
        let op = match self.op {
            Some(op) => Sourced::new(op, "stated"),
            None => self.spare(&shown, capacity, unit.value, &mut notes)?,
        };
        let drive = RealDrive {
            name: name(self.log),
            capacity: Sourced::new(capacity, "stated"),
            op,
            unit,
            apart: Sourced::new(
                true,
                "assumed: the Samsung PM9D3a and a FADU drive keep them apart",
            ),
            handles: self.handles.map(|handles| Sourced::new(handles, "stated")),
            buffer: self.buffer.map(|buffer| Sourced::new(buffer, "stated")),
        };
        Ok(FoundDrive { drive, notes })
    }

    /// The overprovisioning that the onset of relocation shows.
    fn spare(
        &self,
        shown: &Shown,
        capacity: Bytes,
        unit: Bytes,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Sourced<f64>> {
        let log = self.log.display();
        let (low, high) = match shown.onset {
            Onset::Between { low, high } => (low, high),
            Onset::NotWithin(fills) => bail!(
                "{log} ends after {fills:.2} fills of {capacity}, before the drive relocates anything, so its spare does \
                 not show. Write on at random (most drives relocate from 1.07 to 1.3 fills on), or state --op, such as \
                 --op 0.07"
            ),
            Onset::AtOnce => bail!(
                "{log}: the drive relocates within its first fill, so it held data when the log began, and its spare does \
                 not show. Begin a log on an empty drive (`blkdiscard /dev/nvme0n1`), or state --op, such as --op 0.07"
            ),
        };
        if high - low > FINE {
            notes.push(format!(
                "relocation begins between {low:.3} and {high:.3} fills: the spare is only known to {:.1} points. Read the \
                 counters more often",
                (high - low) * 50.0
            ));
        }
        let middle = f64::midpoint(low, high);
        let source = format!(
            "{log}: relocation begins between {low:.4} and {high:.4} fills; middle, and two units"
        );
        Ok(Sourced::new(RealDrive::op_of_onset(middle, capacity, unit), source))
    }
}

/// The stack of `drive` alone.
///
/// # Errors
/// When what was stated makes no drive.
pub fn stack(drive: &RealDrive) -> anyhow::Result<Stack> {
    let name = format!("{}.toml", drive.name);
    Ok(Stack::raw(Profile::from_toml(&name, &drive.profile())?))
}

/// The name of a profile of the drive that wrote `log`.
fn name(log: &Path) -> String {
    let stem = log.file_stem().map_or("drive".into(), |stem| stem.to_string_lossy());
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    stem.chars().map(letter).collect()
}

/// Reads the log at `path`.
///
/// # Errors
/// As [`thermocline_lab::counters::read`], with a remedy.
pub fn read(path: &Path) -> anyhow::Result<Curve> {
    let curve = thermocline_lab::counters::read(path);
    curve.context("the log of counters (`thermocline drive calibrate --help` shows how to get one)")
}
