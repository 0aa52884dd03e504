//! News of a server for its operator.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use thermocline_engine::Notice;
use thermocline_runtime::opening::{LittleMemory, OpeningNote};
use thermocline_runtime::{
    DamageFound, Event, GroupStatus, Remedy, ScrubEnd, ScrubRecord, Trouble,
};
use thermocline_types::{Bytes, UnitId};

use crate::devices::Devices;
use crate::state::Health;
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
    /// A device completes commands too late; `None` when all devices are in time again.
    Overdue(Option<String>),
    /// A scrub on the schedule found damage.
    Scrub(ScrubEnd),
    /// Devices wear faster than they may, or slower again.
    Wear(WearReport),
    /// The risk of a group of devices changed. The remedy, if any, ends the risk.
    Group(String, Option<Remedy>),
    /// Further facts, each in one sentence.
    Note(String),
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            News::Opening(note) => note.fmt(f),
            News::ShortOfFast(text)
            | News::LostFile(text)
            | News::Group(text, _)
            | News::Note(text) => text.fmt(f),
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
            News::Wear(report) => report.fmt(f),
        }
    }
}

/// The operator of a server: is told the news, and has words for users.
pub trait Operator: Send + Sync {
    /// The news in words. Those of a failure are part of the status.
    fn words(&self, news: &News) -> String {
        news.to_string()
    }

    /// The reason in words why a change is not made, for the client that asked.
    fn reason(&self, error: Error) -> String {
        error.chained()
    }

    /// Receives news as text. Must not block for long: the thread of the pool is a caller, too.
    fn tell(&self, words: &str);
}

/// Nobody.
pub(crate) struct Unattended;

impl Operator for Unattended {
    fn tell(&self, _words: &str) {}
}

impl News {
    /// The risk of a group, if there is one.
    #[must_use]
    pub fn risk(group: &GroupStatus) -> Option<News> {
        Some(News::Group(group.risk()?, group.remedy()))
    }
}

impl dyn Operator + '_ {
    /// Reports the news, and returns the text.
    pub(crate) fn say(&self, news: &News) -> String {
        let words = self.words(news);
        self.tell(&words);
        words
    }

    /// Reports a sentence.
    pub(crate) fn note(&self, text: fmt::Arguments<'_>) {
        self.say(&News::Note(text.to_string()));
    }
}

/// Reports a pool's events as news, and keeps events that are part of the status.
pub(crate) fn listener(
    operator: Arc<dyn Operator>,
    health: Arc<Health>,
    devices: Devices,
    records: Option<Sender<ScrubRecord>>,
) -> thermocline_runtime::Listener {
    let (mut damaged, mut last) = (0_u64, None);
    Box::new(move |event| {
        let news = match event {
            Event::Trouble(trouble) => {
                last = Some(trouble);
                News::Trouble(trouble)
            }
            Event::Damaged(found) => {
                damaged += 1;
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
            Event::Notice(_) => return,
            Event::Fullness(fullness) => News::Fullness(FullnessReport::new(&fullness)),
            Event::Lost(what) => News::LostFile(what),
            Event::Overdue(now) => {
                health.set_late(now.clone());
                News::Overdue(now)
            }
            Event::Scrub(record) => {
                // The thread that stores records lives as long as the pool.
                records.iter().for_each(|records| _ = records.send(record));
                let ScrubRecord { last: Some(last), current: None } = record else { return };
                if last.found.damaged + last.found.mended == 0 {
                    return;
                }
                News::Scrub(last)
            }
            Event::Wear(status) => News::Wear(WearReport::new(&status)),
        };
        let words = operator.say(&news);
        if matches!(news, News::Failed { .. } | News::LostFile(_)) {
            health.fail(words);
        }
    })
}
