//! Counters of a drive at one time.

use serde::Serialize;
use serde_json::Value;

use crate::attribute;
use crate::counter::{Counter, DriveFigure, LogPage};
use crate::fdp::FdpState;
use crate::page::{self, DATA_UNIT, GROUP_UNIT, KELVIN};
use crate::pages::{DrivePages, Untold};
use crate::text::{self, Part, Printed, number};

/// Bytes of a unit of page CAh. Only the ratio of its counters is certain.
const INTEL_UNIT: u64 = 32 << 20;

/// The counters of a drive, and its names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HealthReading {
    /// Model, where it is told.
    pub model: Option<String>,
    /// Serial number, where it is told.
    pub serial: Option<String>,
    /// Version of the firmware, where it is told.
    pub firmware: Option<String>,
    /// All counters. Several pages may have the same figure.
    pub counters: Vec<Counter>,
    /// Flexible data placement, where pages of it were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fdp: Option<FdpState>,
    /// Pages that the drive refused, or that are unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untold: Vec<Untold>,
}

/// Why a record is no reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No counter is known in it.
    #[error(
        "has no counter that is known: it is to be a log page, or what `nvme smart-log`, `nvme ocp smart-add-log`, `nvme fdp stats`, `nvme endurance-log` or `smartctl -x` prints, as text or JSON"
    )]
    NoCounter,
    /// It is neither text nor a page.
    #[error(
        "is neither text nor a log page that is known: 02h or C0h of OCP (512 bytes), or 22h (64 bytes)"
    )]
    UnknownPage,
}

impl HealthReading {
    /// The reading that a program recorded: a log page as bytes, or the text or JSON that nvme-cli or smartctl print.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn recorded(bytes: &[u8]) -> Result<HealthReading, RecordError> {
        if let Some(counters) = page::decode(bytes) {
            return Ok(HealthReading { counters, ..HealthReading::default() });
        }
        let text = std::str::from_utf8(bytes).map_err(|_| RecordError::UnknownPage)?;
        if let Some(pages) = DrivePages::recorded(text) {
            return Ok(pages.reading());
        }
        let json: Option<Value> = serde_json::from_str(text).ok();
        let printed = json.as_ref().map_or_else(|| text::of_lines(text), text::of_json);
        let mut reading = HealthReading::default();
        printed.iter().for_each(|one| reading.take(one));
        let sector = sector(&printed);
        reading.counters.extend(match &json {
            Some(json) => attribute::of_json(json, sector),
            None => attribute::of_lines(text, sector),
        });
        if reading.counters.iter().all(|one| one.page == LogPage::Identity) {
            return Err(RecordError::NoCounter);
        }
        Ok(reading)
    }

    /// The first counter of a figure, in the order of [`HealthReading::counters`].
    #[must_use]
    pub fn counter(&self, figure: DriveFigure) -> Option<&Counter> {
        self.counters.iter().find(|one| one.figure == figure)
    }

    /// Adds another record of the same drive.
    pub fn join(&mut self, other: HealthReading) {
        self.model = self.model.take().or(other.model);
        self.serial = self.serial.take().or(other.serial);
        self.firmware = self.firmware.take().or(other.firmware);
        self.counters.extend(other.counters);
        self.fdp = self.fdp.take().or(other.fdp);
        self.untold.extend(other.untold);
    }

    /// Takes a name and its value, if the name is known.
    fn take(&mut self, printed: &Printed) {
        let Printed { name, value, part } = printed;
        let text = || Some(value.trim().to_owned());
        match name.as_str() {
            "model_number" | "device_model" | "model_name" | "mn" => self.model = text(),
            "serial_number" | "sn" => self.serial = text(),
            "firmware_version" | "fr" => self.firmware = text(),
            _ => {}
        }
        let Some((figure, step, page)) = known(name, *part) else { return };
        let Some(value) = number(value) else { return };
        // nvme-cli's JSON has kelvins.
        let is_kelvin = figure == DriveFigure::Temperature && value > 200;
        let value = if is_kelvin { value.saturating_sub(KELVIN) } else { value };
        self.counters.push(Counter { figure, value: value.saturating_mul(step), step, page });
    }
}

/// DriveFigure, step and page of a name.
fn known(name: &str, part: Part) -> Option<(DriveFigure, u64, LogPage)> {
    let page = match part {
        Part::Health => LogPage::Health,
        Part::EnduranceGroup => LogPage::EnduranceGroup,
        Part::Fdp => LogPage::FdpStatistics,
        Part::Ocp => LogPage::Ocp,
        Part::Intel => LogPage::IntelAdditional,
    };
    let unit = if part == Part::EnduranceGroup { GROUP_UNIT } else { DATA_UNIT };
    let (figure, step) = match (name, part) {
        ("user_capacity" | "total_nvm_capacity" | "nvme_total_capacity" | "tnvmcap", _) => {
            return Some((DriveFigure::Capacity, 1, LogPage::Identity));
        }
        ("hbmw", _) => (DriveFigure::HostWritten, 1),
        ("mbmw", _) => (DriveFigure::MediaWritten, 1),
        ("mbe", _) => (DriveFigure::MediaErased, 1),
        ("physical_media_units_written", _) => (DriveFigure::MediaWritten, 1),
        ("max_user_data_erase_counts" | "user_data_erase_counts_max", _) => {
            (DriveFigure::MaxErases, 1)
        }
        ("min_user_data_erase_counts" | "user_data_erase_counts_min", _) => {
            (DriveFigure::MinErases, 1)
        }
        ("nand_bytes_written", Part::Intel) => (DriveFigure::MediaWritten, INTEL_UNIT),
        ("host_bytes_written", Part::Intel) => (DriveFigure::HostWritten, INTEL_UNIT),
        ("data_units_written", _) => (DriveFigure::HostWritten, unit),
        ("data_units_read", _) => (DriveFigure::HostRead, unit),
        ("media_units_written", _) => (DriveFigure::MediaWritten, GROUP_UNIT),
        ("endurance_estimate", Part::EnduranceGroup) => (DriveFigure::Endurance, GROUP_UNIT),
        ("percentage_used" | "percent_used", _) => (DriveFigure::Used, 1),
        ("available_spare" | "avail_spare", _) => (DriveFigure::Spare, 1),
        ("available_spare_threshold" | "spare_thresh", _) => (DriveFigure::SpareThreshold, 1),
        ("temperature" | "temperature_celsius", Part::Health) => (DriveFigure::Temperature, 1),
        ("critical_warning", _) => (DriveFigure::CriticalWarning, 1),
        ("power_on_hours" | "power_on_time", _) => (DriveFigure::PowerOnHours, 1),
        ("unsafe_shutdowns", _) => (DriveFigure::UnsafeShutdowns, 1),
        ("media_errors" | "media_and_data_integrity_errors", _) => (DriveFigure::MediaErrors, 1),
        _ => return None,
    };
    Some((figure, step, page))
}

/// Bytes of a logical block, where it is told, else 512.
fn sector(printed: &[Printed]) -> u64 {
    let told = |one: &&Printed| matches!(one.name.as_str(), "sector_size" | "logical_block_size");
    let told = printed.iter().find(told).and_then(|one| number(&one.value));
    told.filter(|bytes| bytes.is_power_of_two()).unwrap_or(512)
}
