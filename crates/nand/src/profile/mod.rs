//! Device profiles: what a drive is made of, as TOML with a source for every number.

mod builtin;
mod check;
mod cut;
mod derived;
mod error;
mod rated;
mod text;

use std::collections::BTreeMap;

use serde::Deserialize;
use thermocline_types::Bytes;

use crate::aged::Aged;
use crate::integrity::{self, Integrity};
use crate::refresh::Refresh;
use crate::thermal::Thermal;

pub use builtin::{builtin, names};
pub use cut::Cut;
pub use error::ProfileError;
pub use rated::Rated;
pub use text::{WrongKey, optional_size, read, size};

/// The kind of drive, as the host sees the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One stream of writes, mapped by the drive.
    Conventional,
    /// Several streams chosen by a tag on each write.
    MultiStream,
    /// Flexible Data Placement: reclaim unit handles and groups.
    Fdp,
    /// Zoned namespaces: the host writes zones sequentially and resets them.
    Zns,
    /// Media written in place without erase.
    Direct,
    /// One map entry for each unit: every write rewrites whole units.
    BlockMapped,
    /// A hard disk.
    Disk,
}

impl Kind {
    /// The name used in profiles and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Conventional => "conventional",
            Kind::MultiStream => "multi-stream",
            Kind::Fdp => "fdp",
            Kind::Zns => "zns",
            Kind::Direct => "direct",
            Kind::BlockMapped => "block-mapped",
            Kind::Disk => "disk",
        }
    }

    /// Whether the drive itself collects garbage, and so takes a victim policy.
    #[must_use]
    pub fn relocates(self) -> bool {
        matches!(self, Kind::Conventional | Kind::MultiStream | Kind::Fdp)
    }
}

/// A drive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Short name, as used after the colon of a stack.
    pub name: String,
    /// What the profile describes.
    pub title: String,
    /// Kind of drive.
    pub kind: Kind,
    /// Capacity the product exports.
    #[serde(deserialize_with = "size")]
    pub capacity: Bytes,
    /// Overprovisioning: (media − capacity) / capacity.
    #[serde(default)]
    pub op: f64,
    /// Garbage proportion 1 − capacity / media; when given, it replaces `op`.
    #[serde(default)]
    pub garbage: Option<f64>,
    /// Mapping unit (indirection unit): smaller writes cost a read-modify-write. 512 B to 64 KiB.
    #[serde(deserialize_with = "size")]
    pub mapping_unit: Bytes,
    /// Unit of erasure, used as it is at any capacity; without it, the product's own is scaled with the capacity.
    #[serde(default, deserialize_with = "optional_size")]
    pub unit: Option<Bytes>,
    /// Garbage collection in the drive.
    #[serde(default)]
    pub gc: Gc,
    /// Write buffer in the drive.
    #[serde(default)]
    pub buffer: Option<Buffer>,
    /// SLC cache for host writes.
    #[serde(default)]
    pub slc: Option<Slc>,
    /// Endurance.
    #[serde(default)]
    pub wear: Wear,
    /// Dies and their structure.
    #[serde(default)]
    pub geometry: Option<Geometry>,
    /// How long things take; needs `geometry`.
    #[serde(default)]
    pub timing: Option<Timing>,
    /// Ratings of the data sheet.
    #[serde(default)]
    pub rated: Option<Rated>,
    /// Heat and throttling; not modelled if absent.
    #[serde(default)]
    pub thermal: Option<Thermal>,
    /// How a block-mapped drive rewrites its units.
    #[serde(default)]
    pub rewrite: Option<Rewriting>,
    /// Streams of a multi-stream drive.
    #[serde(default)]
    pub streams: Option<Streams>,
    /// Placement of an FDP drive.
    #[serde(default)]
    pub fdp: Option<Fdp>,
    /// Zones of a ZNS drive.
    #[serde(default)]
    pub zns: Option<Zns>,
    /// Arm and platters of a hard disk.
    #[serde(default)]
    pub disk: Option<DiskTiming>,
    /// Data integrity; not modelled if absent.
    #[serde(default)]
    pub integrity: Option<Integrity>,
    /// Refresh by simulated drives; never if absent.
    #[serde(default)]
    pub refresh: Option<Refresh>,
    /// Use of the flash before the run, which makes reads take several attempts; if absent, the first attempt suffices.
    #[serde(default)]
    pub aged: Option<Aged>,
    /// Where each number comes from, by key; the longest matching prefix of a key counts.
    #[serde(default)]
    pub source: BTreeMap<String, String>,
}

/// Garbage collection in the drive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gc {
    /// Victim selection policy, by name.
    pub victim: String,
    /// Whether relocated blocks have an open unit of their own or share the host's.
    pub separate: bool,
    /// Milliseconds without a request, by the workload's own clock, after which the drive collects ahead of need;
    /// without it, only when units are short.
    #[serde(default)]
    pub idle_ms: Option<f64>,
    /// Rate of copies then, in 10^6 bytes per second.
    #[serde(default)]
    pub idle_mb_per_s: Option<f64>,
    /// Share of all units that are free when it stops, if garbage lasts. Default: all.
    #[serde(default = "all")]
    pub idle_free: f64,
}

impl Default for Gc {
    fn default() -> Self {
        Gc {
            victim: "greedy".into(),
            separate: true,
            idle_ms: None,
            idle_mb_per_s: None,
            idle_free: all(),
        }
    }
}

/// All of something, as a share.
fn all() -> f64 {
    1.0
}

/// Write buffer in the drive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// How much host data waits in it, at most.
    #[serde(deserialize_with = "size")]
    pub size: Bytes,
    /// Whether writes to a mapping unit that is waiting are merged into it, so that sequential small writes need no
    /// read-modify-write and overwrites are absorbed.
    pub merge: bool,
    /// Whether capacitors save the buffer at power loss; without them a flush programs it, padding the last page.
    pub power_loss_protection: bool,
    /// Whether it holds whole mapping units: a write of a part of one is acknowledged when the rest has been read.
    #[serde(default)]
    pub whole_units: bool,
}

/// An SLC cache: host writes go first to cells that hold a single bit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slc {
    /// The static part: capacity, in dedicated units beside the media counted by `op`. May be 0.
    #[serde(deserialize_with = "size")]
    pub capacity: Bytes,
    /// The dynamic part: share of the space that the host has not filled, up to `dynamic_until`, which is used in SLC
    /// mode, where it holds the `bits`-th part.
    #[serde(default)]
    pub dynamic: f64,
    /// Share of the capacity that, once the host has filled it, leaves no dynamic part.
    #[serde(default = "whole")]
    pub dynamic_until: f64,
    /// Bits that the cells hold outside the cache.
    pub bits: u32,
    /// What becomes of writes when the cache is full.
    #[serde(default)]
    pub full: SlcFull,
    /// Milliseconds without a request after which the drive folds; without it, only when the cache is full.
    #[serde(default)]
    pub fold_idle_ms: Option<f64>,
    /// Rate of folding then, in 10^6 bytes per second.
    #[serde(default)]
    pub fold_mb_per_s: Option<f64>,
    /// Array read of a page in SLC mode; default: as for other cells.
    #[serde(default)]
    pub read_us: Option<f64>,
    /// Program of a page in SLC mode; default: as for other cells.
    #[serde(default)]
    pub program_us: Option<f64>,
    /// Program/erase cycles of the static part; unlimited if absent.
    #[serde(default)]
    pub pe_cycles: Option<f64>,
}

impl Slc {
    /// Pages in SLC mode of a unit that has `pages` otherwise.
    #[must_use]
    pub fn pages(&self, pages: u32) -> u32 {
        slc_pages(pages, self.bits)
    }
}

fn slc_pages(pages: u32, bits: u32) -> u32 {
    (pages / bits).max(1)
}

/// What becomes of writes when the SLC cache is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlcFull {
    /// They wait until the oldest data of the cache is folded.
    #[default]
    Fold,
    /// They go past it.
    Direct,
}

/// Endurance.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wear {
    /// Program/erase cycles a block takes on average; without it, wear has no limit.
    pub pe_cycles: Option<f64>,
    /// Standard deviation of that between blocks, as a share of it.
    pub pe_spread: f64,
    /// Spare units that replace worn-out ones, as a share of all units and beside the overprovisioning.
    pub spare: f64,
    /// Share of units that are bad from the factory; they use up spares.
    pub factory_bad: f64,
    /// Chance that a unit, a spare among them, fails early.
    pub infant_share: f64,
    /// Erases within which it does.
    pub infant_cycles: f64,
    /// Chance that a program of a page fails, with which its unit goes out of service.
    pub program_failures: f64,
    /// Static wear levelling moves the data of units whose erase count lags behind the largest by more than
    /// `levelling_spread`; if absent, no levelling.
    pub levelling_spread: Option<u32>,
    /// Rated endurance in drive writes per day.
    pub rated_dwpd: Option<f64>,
    /// Warranty in years.
    pub warranty_years: Option<f64>,
}

impl Default for Wear {
    fn default() -> Self {
        Wear {
            pe_cycles: None,
            pe_spread: 0.1,
            spare: 0.0,
            factory_bad: 0.0,
            infant_share: 0.0,
            infant_cycles: 100.0,
            program_failures: 0.0,
            levelling_spread: None,
            rated_dwpd: None,
            warranty_years: None,
        }
    }
}

/// Dies and their structure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Buses between controller and dies.
    pub channels: u32,
    /// Dies on all channels together.
    pub dies: u32,
    /// Planes of a die that are programmed and erased together.
    pub planes: u32,
    /// Page of one plane.
    #[serde(deserialize_with = "size")]
    pub page: Bytes,
    /// Erase block of one plane.
    #[serde(deserialize_with = "size")]
    pub block: Bytes,
    /// Dies that a unit is striped over; all of them if absent.
    #[serde(default)]
    pub unit_dies: Option<u32>,
    /// Unit of erasure of the product (reclaim unit); one erase block of every plane of those dies if absent.
    #[serde(default, deserialize_with = "optional_size")]
    pub unit: Option<Bytes>,
    /// Whether a drive that is cut to a small capacity keeps units of the product's size.
    #[serde(default)]
    pub superblock: SuperblockSize,
    /// Whether a die has a second page register, so that it reads or programs one page while another is on the bus;
    /// otherwise a die waits for its transfers.
    #[serde(default = "yes")]
    pub cache_register: bool,
    /// How often a page may be programmed, a part of it each time, before it is erased (NOP of data sheets). A flush
    /// then programs the data at hand and leaves the rest of the page to later data.
    #[serde(default = "once")]
    pub programs_per_page: u32,
}

fn once() -> u32 {
    1
}

fn whole() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

impl Geometry {
    /// What one program operation writes: a page of every plane of a die.
    #[must_use]
    pub fn program_unit(&self) -> Bytes {
        Bytes(self.page.0.saturating_mul(u64::from(self.planes)))
    }

    /// Dies that a unit is striped over.
    #[must_use]
    pub fn dies_per_unit(&self) -> u32 {
        self.unit_dies.unwrap_or(self.dies)
    }

    /// The product's unit of erasure.
    #[must_use]
    pub fn product_unit(&self) -> Bytes {
        let blocks = u64::from(self.planes) * u64::from(self.dies_per_unit());
        self.unit.unwrap_or(Bytes(self.block.0.saturating_mul(blocks)))
    }
}

/// Which units of erasure a drive has that is cut to a small capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SuperblockSize {
    /// Smaller ones, about as many as the product has.
    #[default]
    Scaled,
    /// The product's: an erase block of every plane of every die of a unit, fewer of them.
    Product,
}

/// How long things take. Times are in microseconds, rates in 10^6 bytes per second.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Array read of a page (tR).
    pub read_us: f64,
    /// Program of a page on all planes of a die (tPROG).
    pub program_us: f64,
    /// Erase of a block on all planes of a die (tERASE).
    pub erase_us: f64,
    /// What all dies together can program, limited by power or controller; if absent, only the dies are the limit.
    #[serde(default)]
    pub program_mb_per_s: Option<f64>,
    /// The same while garbage collection moves data; if absent, from `rated`.
    #[serde(default)]
    pub collecting_mb_per_s: Option<f64>,
    /// Channel bus.
    pub bus_mb_per_s: f64,
    /// Command and address cycles per operation on the channel.
    #[serde(default)]
    pub command_us: f64,
    /// How long a running program or erase takes to give way to a read; if absent, reads wait for the end.
    #[serde(default)]
    pub suspend_us: Option<f64>,
    /// Host link, host reads.
    pub link_read_mb_per_s: f64,
    /// Host link, host writes.
    pub link_write_mb_per_s: f64,
    /// Whether a bus carries pages in the order in which they were asked for, so that a die without a second register
    /// keeps what the host reads until its turn; otherwise ready pages go first.
    #[serde(default)]
    pub bus_in_order: bool,
    /// Whether both directions share the link, as on SATA.
    #[serde(default)]
    pub link_half_duplex: bool,
    /// Controller latency of a read.
    pub firmware_read_us: f64,
    /// Controller latency of a write.
    pub firmware_write_us: f64,
    /// Commands the controller can start per second, in thousands.
    pub controller_kiops: f64,
    /// The same of host writes, if other than of reads.
    #[serde(default)]
    pub controller_write_kiops: Option<f64>,
    /// Read-modify-writes that are in work at once; without it, any number.
    #[serde(default)]
    pub modify_at_once: Option<u32>,
}

/// How a block-mapped drive rewrites its units.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewriting {
    /// Where to.
    pub order: RewriteOrder,
}

/// Where a rewritten unit goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteOrder {
    /// Read, erase, modify, write into the same unit.
    InPlace,
    /// Read, modify, write into an erased one; the old one is erased when there is time.
    Elsewhere,
}

/// Streams of a multi-stream drive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Streams {
    /// How many streams can be open.
    pub count: u8,
}

/// Placement of an FDP drive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fdp {
    /// Reclaim groups.
    pub groups: u8,
    /// Reclaim unit handles per group.
    pub handles: u8,
    /// Whether relocated data stays with its handle.
    pub persistently_isolated: bool,
}

/// Zones of a ZNS drive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zns {
    /// Distance between the first blocks of neighbouring zones.
    #[serde(deserialize_with = "size")]
    pub zone_size: Bytes,
    /// Writable part of a zone.
    #[serde(deserialize_with = "size")]
    pub zone_capacity: Bytes,
    /// Zones that can be open at once; 0 is no limit.
    pub max_open: u32,
    /// Zones that can be open or closed at once; 0 is no limit.
    pub max_active: u32,
}

/// Arm and platters of a hard disk.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskTiming {
    /// Average seek in milliseconds, between two places drawn at random.
    pub seek_ms: f64,
    /// Seek to the next track in milliseconds.
    pub track_seek_ms: f64,
    /// Turns per minute.
    pub rpm: f64,
    /// What passes under the head, in 10^6 bytes per second.
    pub transfer_mb_per_s: f64,
}

impl Profile {
    /// Reads a profile from TOML text; `file` names it in errors.
    ///
    /// # Errors
    /// [`ProfileError`] with file, key and reason for text that is not TOML, unknown or missing keys, wrong types and
    /// values that make no drive.
    pub fn from_toml(file: &str, text: &str) -> Result<Profile, ProfileError> {
        Profile::with_overrides(file, text, &[])
    }

    /// The same after replacing values: each override is a dotted key, as in `timing.read_us`, and a TOML value. Text
    /// that is no TOML value stands for itself.
    ///
    /// # Errors
    /// As [`Profile::from_toml`].
    pub fn with_overrides(
        file: &str,
        text: &str,
        overrides: &[(String, String)],
    ) -> Result<Profile, ProfileError> {
        let complete = (rated::complete, integrity::complete);
        let profile: Profile = text::read_completed(text, overrides, complete)
            .map_err(|wrong| ProfileError::new(file, &wrong.key, &wrong.reason))?;
        profile.check(file)?;
        Ok(profile)
    }

    /// Media over capacity, minus one, from whichever of `op` and `garbage` is given.
    #[must_use]
    pub fn overprovisioning(&self) -> f64 {
        self.garbage.map_or(self.op, |garbage| garbage / (1.0 - garbage))
    }

    /// What one program operation writes; one mapping unit where no geometry is given.
    #[must_use]
    pub fn program_unit(&self) -> Bytes {
        self.geometry.as_ref().map_or(self.mapping_unit, Geometry::program_unit)
    }

    /// Unit of erasure of the product, where it is known.
    #[must_use]
    pub fn product_unit(&self) -> Option<Bytes> {
        let zone = self.zns.as_ref().map(|zns| zns.zone_capacity);
        zone.or(self.geometry.as_ref().map(Geometry::product_unit))
    }
}

#[cfg(test)]
mod tests;
