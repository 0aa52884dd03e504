//! Wear, host bytes and media bytes of a drive, from its own counters.
//!
//! A [`HealthReading`] has the counters of one drive at one time, each with its log page or attribute.
//! [`HealthReading::recorded`] reads the output of nvme-cli and smartctl, text or JSON, or a page as bytes.
//! [`Wear`] has write amplification and life, of one reading or of the time between two.
//!
//! Sources: NVM Express Base Specification 2.0 (health, endurance groups), TP4146 (flexible data placement), OCP
//! Datacenter NVMe SSD Specification 2.0 (page C0h). Names of SATA attributes are those of smartctl's drive
//! database.

mod attribute;
mod counter;
mod page;
mod reading;
mod text;
mod wear;

pub use counter::{Counter, DriveFigure, LogPage};
pub use reading::{HealthReading, RecordError};
pub use wear::{Waf, Wear, Years};
