//! Wear, host bytes and media bytes of a drive, from its own counters.
//!
//! A [`HealthReading`] has the counters of one drive at one time, each with its log page or attribute.
//! [`HealthReading::recorded`] reads the output of nvme-cli and smartctl, text or JSON, or a page as bytes.
//! [`record`] makes such a record of a drive of this machine.
//! [`Wear`] has write amplification and life, of one reading or of the time between two.
//!
//! Sources: NVM Express Base Specification 2.0 (health, endurance groups), TP4146 (flexible data placement), OCP
//! Datacenter NVMe SSD Specification 2.0 (page C0h). Names of SATA attributes are those of smartctl's drive
//! database.

mod admin;
mod attribute;
mod counter;
mod fdp;
mod live;
mod metrics;
mod page;
mod pages;
mod reading;
mod sampler;
mod text;
mod wear;

pub use admin::AdminCommand;
pub use counter::{Counter, DriveFigure, LogPage};
pub use fdp::{FdpHandle, FdpState};
pub use live::{ListedDrive, LiveError, is_device, list, pages, record};
pub use metrics::metrics;
pub use pages::{DrivePages, DriveTraits, PagesError, Submit, Untold, UntoldReason};
pub use reading::{HealthReading, RecordError};
pub use sampler::DriveSampler;
pub use wear::{Waf, Wear, Years};
