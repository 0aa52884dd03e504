//! Counters and their origins.

use std::fmt;

use serde::Serialize;

/// The quantity of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveFigure {
    /// Bytes that hosts wrote.
    HostWritten,
    /// Bytes that hosts read.
    HostRead,
    /// Bytes written to the media.
    MediaWritten,
    /// Bytes of the media that were erased.
    MediaErased,
    /// Used share of the endurance, in percent; it can pass 100.
    Used,
    /// Spare blocks that are left, in percent.
    Spare,
    /// Spare in percent below which the drive warns.
    SpareThreshold,
    /// Bits of the critical warning; 0 is none.
    CriticalWarning,
    /// Degrees Celsius.
    Temperature,
    /// Hours with power.
    PowerOnHours,
    /// Losses of power without a shutdown.
    UnsafeShutdowns,
    /// Reads of data that the drive could not correct.
    MediaErrors,
    /// Erases of the least erased block.
    MinErases,
    /// Mean erases of a block.
    MeanErases,
    /// Erases of the most erased block.
    MaxErases,
    /// Bytes that hosts may write in the life of the drive, by its own estimate.
    Endurance,
    /// Bytes that the drive exports.
    Capacity,
}

impl DriveFigure {
    /// Whether the counter is in bytes.
    #[must_use]
    pub fn is_bytes(self) -> bool {
        use DriveFigure::{Capacity, Endurance, HostRead, HostWritten, MediaErased, MediaWritten};
        matches!(self, HostWritten | HostRead | MediaWritten | MediaErased | Endurance | Capacity)
    }

    /// Whether the counter is in percent.
    #[must_use]
    pub fn is_percent(self) -> bool {
        matches!(self, DriveFigure::Used | DriveFigure::Spare | DriveFigure::SpareThreshold)
    }
}

impl fmt::Display for DriveFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DriveFigure::HostWritten => "host bytes written",
            DriveFigure::HostRead => "host bytes read",
            DriveFigure::MediaWritten => "media bytes written",
            DriveFigure::MediaErased => "media bytes erased",
            DriveFigure::Used => "used endurance",
            DriveFigure::Spare => "spare left",
            DriveFigure::SpareThreshold => "spare, threshold",
            DriveFigure::CriticalWarning => "critical warning",
            DriveFigure::Temperature => "temperature in C",
            DriveFigure::PowerOnHours => "power-on hours",
            DriveFigure::UnsafeShutdowns => "unsafe shutdowns",
            DriveFigure::MediaErrors => "media errors",
            DriveFigure::MinErases => "erases, least",
            DriveFigure::MeanErases => "erases, mean",
            DriveFigure::MaxErases => "erases, most",
            DriveFigure::Endurance => "endurance, estimated",
            DriveFigure::Capacity => "capacity",
        })
    }
}

/// The origin of a counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogPage {
    /// SMART / health information, log page 02h.
    Health,
    /// Endurance group information, log page 09h.
    EnduranceGroup,
    /// FDP statistics, log page 22h.
    FdpStatistics,
    /// SMART / health information extended of OCP, log page C0h.
    Ocp,
    /// Additional SMART attributes of Intel and Solidigm, log page CAh.
    IntelAdditional,
    /// An attribute of a SATA drive.
    Attribute {
        /// Its number.
        number: u8,
        /// Its name in smartctl's drive database.
        name: String,
    },
    /// The identity of the drive.
    Identity,
}

impl fmt::Display for LogPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogPage::Health => f.write_str("health, page 02h"),
            LogPage::EnduranceGroup => f.write_str("endurance group, page 09h"),
            LogPage::FdpStatistics => f.write_str("FDP statistics, page 22h"),
            LogPage::Ocp => f.write_str("OCP health, page C0h"),
            LogPage::IntelAdditional => f.write_str("Intel, page CAh"),
            LogPage::Attribute { number, name } => write!(f, "attribute {number} {name}"),
            LogPage::Identity => f.write_str("identity"),
        }
    }
}

/// A counter of a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counter {
    /// Its quantity.
    pub figure: DriveFigure,
    /// The count, in the unit of the figure.
    pub value: u64,
    /// Steps in which the drive counts.
    pub step: u64,
    /// Its origin.
    pub page: LogPage,
}
