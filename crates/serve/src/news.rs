//! News of a server.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use thermocline_engine::Notice;
use thermocline_runtime::opening::{LittleMemory, OpeningNote};
use thermocline_runtime::{
    DamageFound, Event, GroupChange, GroupStatus, Remedy, ScrubEnd, ScrubRecord, Stall, Trouble,
};
use thermocline_target::ClientEvent;
use thermocline_types::{Bytes, UnitId};

use crate::devices::Devices;
use crate::health::{Concern, Health};
use crate::log::Log;
use crate::scrubs::{DamagedBytes, DamagedPlace};
use crate::stored::Record;
use crate::wear::WearReport;
use crate::{Error, FullnessReport, ended};

/// Number of damaged blocks reported singly; after that, only each tenfold count is reported. Chosen.
const NAMED: u64 = 5;

/// A fact of interest to the operator of a server.
#[derive(Debug)]
#[non_exhaustive]
pub enum News {
    /// The settings differ from the pool.
    Opening(OpeningNote),
    /// The fast devices are too small for the maps of all volumes.
    ShortOfFast(String),
    /// The memory in the settings is too little for this pool.
    LittleMemory(LittleMemory),
    /// A device failed to carry out a command.
    Trouble(Trouble),
    /// A block of the device at this path is damaged.
    Damaged(String, DamageFound),
    /// Number of reads that met damaged blocks.
    DamageCount(u64),
    /// A unit is out of service.
    Retired(UnitId),
    /// The pool takes no writes until it is opened again.
    Failed {
        /// The command that the device refused; without it no unit was free.
        trouble: Option<Trouble>,
        /// Reads that have met damaged blocks.
        damaged: u64,
    },
    /// The pool has crossed a mark of fullness.
    Fullness(FullnessReport),
    /// A file of the pool was removed or cut off: the pool takes no writes.
    LostFile(String),
    /// The pool could not be opened after a change of devices: the service ends.
    PoolLost(String),
    /// A device completes commands too late; `None` when all devices are in time again.
    Overdue(Option<String>),
    /// A scrub on the schedule or on request began.
    ScrubBegan,
    /// A scrub ended.
    Scrub(ScrubEnd),
    /// A scrub was stopped on request.
    ScrubStopped,
    /// Devices wear faster than they may, or slower again.
    Wear(WearReport),
    /// The risk of a group of devices changed. The remedy, if any, ends the risk.
    Group(GroupChange, String, Option<Remedy>),
    /// The service has begun.
    Started {
        /// Identifier of the pool.
        id: String,
        /// The number of volumes.
        volumes: usize,
    },
    /// The pool is open.
    Recovered {
        /// Replayed chunks.
        chunks: u64,
        /// Replayed entries, one for each block.
        entries: u64,
        /// Time of the opening.
        took: Duration,
    },
    /// A device was attached, grown, detached or replaced, or its drain began or was ended.
    DeviceChanged {
        /// The change: attach, drain_began, keep, detach, grow or replace.
        change: &'static str,
        /// Path of the device.
        device: String,
        /// Time of the change.
        took: Duration,
    },
    /// The drained device at this path is empty.
    Drained(String),
    /// A client began or ended to use a volume.
    Client(ClientEvent),
    /// The limits of this volume hold requests back; `false`: no longer.
    Throttled(String, bool),
    /// The pool took no requests for a while, and takes them again.
    Stalled(Stall),
    /// A checkpoint is durable.
    Checkpoint {
        /// Its written pages.
        pages: u64,
    },
    /// The stop began.
    Stopping,
    /// The pool is closed, this long after the begin of the stop.
    Stopped(Duration),
    /// Further facts, each in one sentence.
    Note(String),
    /// Further trouble, each in one sentence.
    Warning(String),
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            News::Opening(note) => note.fmt(f),
            News::ShortOfFast(text)
            | News::LostFile(text)
            | News::PoolLost(text)
            | News::Group(_, text, _)
            | News::Note(text)
            | News::Warning(text) => text.fmt(f),
            News::LittleMemory(little) => little.fmt(f),
            News::Trouble(trouble) => trouble.fmt(f),
            News::Damaged(device, DamageFound { at, holds }) => {
                write!(f, "{device}: the block at {at}")?;
                if let Some((volume, bytes)) = holds {
                    let length = Bytes(bytes.end - bytes.start);
                    write!(f, ", {length} of volume `{volume}` at byte {}", bytes.start)?;
                }
                f.write_str(", cannot be read, or is not what was written; reading it is an error")
            }
            News::DamageCount(count) => write!(f, "{count} reads have met damaged blocks"),
            News::Retired(unit) => write!(f, "unit {} is out of service", unit.0),
            News::Failed { trouble: Some(trouble), .. } => write!(
                f,
                "the device failed: {trouble}; no write is taken until the pool is opened again"
            ),
            News::Failed { trouble: None, .. } => f.write_str(
                "no unit is free, and none can be emptied; no write is taken until the pool is opened again",
            ),
            News::Fullness(report) => report.fmt(f),
            News::Overdue(Some(what)) => write!(f, "{what}: see to the device and its cables"),
            News::Overdue(None) => f.write_str("devices end their commands in time again"),
            News::Scrub(end) => write!(f, "a scrub has {}", ended(end)),
            News::ScrubBegan => f.write_str("a scrub has begun"),
            News::ScrubStopped => f.write_str("a scrub was stopped"),
            News::Wear(report) => report.fmt(f),
            of_service => of_service.fmt_of_service(f),
        }
    }
}

/// The operator of a server, who has words for users. Log entries go to `tracing`.
pub trait Operator: Send + Sync {
    /// The news in words. Those of a failure are part of the status.
    fn words(&self, news: &News) -> String {
        news.to_string()
    }

    /// The reason in words why a change is not made, for the client that asked.
    fn reason(&self, error: Error) -> String {
        error.chained()
    }
}

/// Nobody.
pub(crate) struct Unattended;

impl Operator for Unattended {}

impl News {
    /// The risk of a group, if there is one.
    #[must_use]
    pub fn risk(group: &GroupStatus) -> Option<News> {
        Some(News::Group(GroupChange::Risk, group.risk()?, group.remedy()))
    }

    /// The text of news that the service itself makes.
    fn fmt_of_service(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            News::Started { volumes, .. } => write!(f, "the service begins with {volumes} volumes"),
            News::Recovered { chunks: 0, .. } => {
                f.write_str("the pool is open; nothing was replayed")
            }
            News::Recovered { chunks, .. } => {
                write!(f, "the pool is open; recovery replayed {chunks} chunks")
            }
            News::DeviceChanged { change, device, .. } => match *change {
                "drain_began" => write!(f, "{device}: the drain has begun"),
                "keep" => write!(f, "{device}: the drain was ended, the device stays"),
                "replace" => write!(f, "{device} is a member of its group, and will be filled"),
                change => write!(f, "{device}: {change} is done"),
            },
            News::Drained(device) => write!(f, "{device}: drained, it can be detached"),
            News::Client(ClientEvent { client, export, is_over: false }) => {
                write!(f, "{client} uses volume `{export}`")
            }
            News::Client(ClientEvent { client, export, is_over: true }) => {
                write!(f, "{client} has left volume `{export}`")
            }
            News::Throttled(volume, true) => {
                write!(f, "volume `{volume}`: requests wait for its limits")
            }
            News::Throttled(volume, false) => {
                write!(f, "volume `{volume}`: no request has waited for its limits for a minute")
            }
            News::Stalled(Stall { took, checkpoint }) => {
                let beside = if *checkpoint { ", while a checkpoint was written" } else { "" };
                write!(f, "the pool took no request for {:.1} s{beside}", took.as_secs_f64())
            }
            News::Checkpoint { pages } => write!(f, "a checkpoint of {pages} pages is durable"),
            News::Stopping => f.write_str("the stop has begun"),
            News::Stopped(_) => f.write_str("the pool is closed"),
            _ => Ok(()),
        }
    }
}

/// A damaged place, for `/scrub`.
fn place(found: &DamageFound, devices: &Devices) -> DamagedPlace {
    let DamageFound { at, holds } = found;
    let holds = holds.as_ref().map(|(volume, bytes)| DamagedBytes {
        volume: volume.to_string(),
        offset: bytes.start,
        bytes: bytes.end - bytes.start,
    });
    DamagedPlace { unit: at.unit.0, block: at.block, device: devices.device_of(at.unit), holds }
}

/// The news of a change of the record of scrubs.
fn of_scrubs(before: ScrubRecord, now: ScrubRecord, health: &Health) -> Option<News> {
    match (before.current, now.current, now.last) {
        (None, Some(_), _) => {
            health.scrub_begins();
            Some(News::ScrubBegan)
        }
        (_, None, Some(last)) if before.last != Some(last) => {
            health.scrub_ends();
            Some(News::Scrub(last))
        }
        (Some(_), None, _) => Some(News::ScrubStopped),
        _ => None,
    }
}

/// Reports a pool's events as news, and keeps events that are part of the status.
pub(crate) fn listener(
    log: Log,
    health: Arc<Health>,
    devices: Devices,
    records: Option<Sender<Record>>,
) -> thermocline_runtime::Listener {
    let (mut damaged, mut last, mut scrubs) = (0_u64, None, ScrubRecord::default());
    Box::new(move |event| {
        let news = match event {
            Event::Trouble(trouble) => {
                last = Some(trouble);
                News::Trouble(trouble)
            }
            Event::Damaged(found) => {
                damaged += 1;
                let words = log.operator().words(&News::DamageCount(damaged));
                health.set(Concern::Damage, Some(words));
                health.damaged(place(&found, &devices));
                match damaged {
                    1..=NAMED => News::Damaged(devices.device_of(found.at.unit), found),
                    count if count.is_multiple_of(10_u64.pow(count.ilog10())) => {
                        News::DamageCount(count)
                    }
                    _ => return,
                }
            }
            Event::Notice(Notice::Retired(unit)) => News::Retired(unit),
            Event::Notice(Notice::Failed) => News::Failed { trouble: last, damaged },
            Event::Notice(Notice::Checkpoint { pages }) => News::Checkpoint { pages },
            Event::Notice(_) => return,
            Event::Throttled(volume, now) => News::Throttled(volume.to_string(), now),
            Event::Stalled(stall) => News::Stalled(stall),
            Event::Drained(device) => News::Drained(devices.path_of(device)),
            Event::Fullness(fullness) => News::Fullness(FullnessReport::new(&fullness)),
            Event::Lost(what) => News::LostFile(what),
            Event::Overdue(now) => {
                health.set(Concern::Late, now.clone());
                News::Overdue(now)
            }
            Event::Scrub(record) => {
                // The thread that stores records lives as long as the pool.
                records.iter().for_each(|records| _ = records.send(Record::Scrubs(record)));
                match of_scrubs(std::mem::replace(&mut scrubs, record), record, &health) {
                    Some(news) => news,
                    None => return,
                }
            }
            Event::Totals(totals) => {
                if let Some(records) = &records {
                    // As above.
                    let _stored = records.send(Record::Totals(totals));
                }
                return;
            }
            Event::Wear(status) => News::Wear(WearReport::new(&status)),
        };
        let words = log.say(&news);
        match news {
            News::Failed { .. } | News::LostFile(_) => health.fail(words),
            News::Fullness(report) => {
                health.set(Concern::Full, report.is_critical().then_some(words));
            }
            _ => {}
        }
    })
}
