//! The log of the service: one entry for each of the news, with fields.
//!
//! Invariants:
//! * No request of a client makes an entry.
//! * A client cannot fill a disk with entries: [`Quota`] bounds the entries of connections.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thermocline_format::VERSION;
use thermocline_runtime::GroupChange;
use thermocline_target::ClientEvent;
use thermocline_types::Bytes;
use tracing::Level;

use crate::{News, Operator};

/// Entries of connections in a [`WINDOW`]. Chosen, not measured.
const CLIENTS: u64 = 120;
const WINDOW: Duration = Duration::from_secs(60);

/// Where news go: to the words of the operator, and with these to the log. Clones share the log.
#[derive(Clone)]
pub(crate) struct Log(Arc<Inner>);

struct Inner {
    operator: Arc<dyn Operator>,
    /// The settings file of the pool.
    pool: String,
    clients: Mutex<Quota>,
}

/// The fields of an entry.
#[derive(Debug, Default, PartialEq)]
struct Entry {
    event: &'static str,
    id: Option<String>,
    volume: Option<String>,
    device: Option<String>,
    client: Option<String>,
    bytes: Option<u64>,
    chunks: Option<u64>,
    seconds: Option<f64>,
    version: Option<&'static str>,
    format: Option<u64>,
}

/// Bounds the entries of connections in each window of time.
#[derive(Default)]
struct Quota {
    began: Option<Instant>,
    used: u64,
}

impl Quota {
    /// Returns whether the next entry is within the quota, and the number of entries left out before.
    fn take(&mut self, now: Instant) -> (bool, u64) {
        let is_over = |began| now.saturating_duration_since(began) >= WINDOW;
        let left_out = if self.began.is_none_or(is_over) {
            self.began = Some(now);
            std::mem::take(&mut self.used).saturating_sub(CLIENTS)
        } else {
            0
        };
        self.used += 1;
        (self.used <= CLIENTS, left_out)
    }
}

impl Log {
    /// The log of the pool with the settings `file`.
    pub fn new(operator: Arc<dyn Operator>, file: &Path) -> Log {
        let (pool, clients) = (file.display().to_string(), Mutex::default());
        Log(Arc::new(Inner { operator, pool, clients }))
    }

    /// The operator, who has words for users.
    pub fn operator(&self) -> &dyn Operator {
        &*self.0.operator
    }

    /// Writes an entry, and returns its text.
    pub fn say(&self, news: &News) -> String {
        let words = self.0.operator.words(news);
        self.write(level(news), &Entry::of(news), &words);
        words
    }

    /// Writes a sentence.
    pub fn note(&self, text: fmt::Arguments<'_>) {
        self.say(&News::Note(text.to_string()));
    }

    /// Writes a sentence about trouble.
    pub fn warn(&self, text: fmt::Arguments<'_>) {
        self.say(&News::Warning(text.to_string()));
    }

    /// Writes an entry about a client, within the quota.
    pub fn client(&self, event: ClientEvent) {
        let mut quota = self.0.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let (allowed, left_out) = quota.take(Instant::now());
        drop(quota);
        if left_out > 0 {
            self.warn(format_args!("{left_out} entries about clients were left out of the log"));
        }
        if allowed {
            self.say(&News::Client(event));
        }
    }

    fn write(&self, level: Level, entry: &Entry, words: &str) {
        let Entry { event, id, volume, device, client, bytes, chunks, seconds, version, format } =
            entry;
        let pool = &*self.0.pool;
        let (id, volume) = (id.as_deref(), volume.as_deref());
        let (device, client) = (device.as_deref(), client.as_deref());
        // A level must be a constant.
        macro_rules! at {
            ($level:ident) => {
                tracing::$level!(
                    event, pool, id, volume, device, client, bytes, chunks, seconds, version,
                    format, "{words}"
                )
            };
        }
        match level {
            Level::ERROR => at!(error),
            Level::WARN => at!(warn),
            Level::INFO => at!(info),
            _ => at!(debug),
        }
    }
}

/// How severe the news are.
fn level(news: &News) -> Level {
    match news {
        News::Failed { .. }
        | News::LostFile(_)
        | News::PoolLost(_)
        | News::Damaged(..)
        | News::DamageCount(_) => Level::ERROR,
        News::Fullness(report) if report.is_full() => Level::ERROR,
        News::Fullness(report) if report.is_normal() => Level::INFO,
        News::Group(GroupChange::RepairBegan | GroupChange::RepairEnded, ..)
        | News::Overdue(None)
        | News::Note(_)
        | News::Started { .. }
        | News::Recovered { .. }
        | News::DeviceChanged { .. }
        | News::Drained(_)
        | News::Client(_)
        | News::Throttled(..)
        | News::ScrubBegan
        | News::ScrubStopped
        | News::Stopping
        | News::Stopped(_) => Level::INFO,
        News::Scrub(end) if end.found.damaged + end.found.mended == 0 => Level::INFO,
        News::Checkpoint { .. } => Level::DEBUG,
        _ => Level::WARN,
    }
}

impl Entry {
    fn of(news: &News) -> Entry {
        let named = |event| Entry { event, ..Entry::default() };
        match news {
            News::Opening(_) | News::ShortOfFast(_) | News::LittleMemory(_) => named("settings"),
            News::Trouble(_) => named("device_error"),
            News::Damaged(device, found) => {
                let holds = found.holds.as_ref();
                Entry {
                    device: Some(device.clone()),
                    volume: holds.map(|(volume, _)| volume.to_string()),
                    bytes: holds.map(|(_, bytes)| bytes.end - bytes.start),
                    ..named("damaged")
                }
            }
            News::DamageCount(_) => named("damaged"),
            News::Retired(_) => named("unit_retired"),
            News::Failed { .. } | News::PoolLost(_) => named("failed"),
            News::Fullness(report) => {
                let event = match (report.is_full(), report.is_normal()) {
                    (true, _) => "full",
                    (_, true) => "not_full",
                    _ => "nearly_full",
                };
                Entry { bytes: Some(report.free_bytes), ..named(event) }
            }
            News::LostFile(_) => named("file_lost"),
            News::Overdue(Some(device)) => {
                Entry { device: Some(device.clone()), ..named("device_slow") }
            }
            News::Overdue(None) => named("device_recovered"),
            News::ScrubBegan => named("scrub_began"),
            News::ScrubStopped => named("scrub_stopped"),
            News::Scrub(end) => {
                let seconds = end.ended_unix_seconds.saturating_sub(end.began_unix_seconds);
                let (bytes, seconds) = (Some(end.found.blocks * 4096), Some(seconds as f64));
                Entry { bytes, seconds, ..named("scrub_ended") }
            }
            News::Wear(_) => named("wear"),
            News::Group(change, ..) => named(match change {
                GroupChange::MemberLost => "member_lost",
                GroupChange::RepairBegan => "repair_began",
                GroupChange::RepairEnded => "repair_ended",
                GroupChange::Healed => "healed",
                GroupChange::Risk => "group_risk",
            }),
            News::Note(_) => named("note"),
            News::Warning(_) => named("warning"),
            of_service => Entry::of_service(of_service),
        }
    }

    /// The fields of news that the service itself makes.
    fn of_service(news: &News) -> Entry {
        let named = |event| Entry { event, ..Entry::default() };
        match news {
            News::Started { id, .. } => Entry {
                id: Some(id.clone()),
                version: Some(env!("CARGO_PKG_VERSION")),
                format: Some(VERSION.into()),
                ..named("start")
            },
            News::Recovered { chunks, entries, took } => Entry {
                chunks: Some(*chunks),
                bytes: Some(entries * Bytes::BLOCK.0),
                seconds: Some(took.as_secs_f64()),
                ..named("recovery")
            },
            News::DeviceChanged { change, device, took } => Entry {
                device: Some(device.clone()),
                seconds: Some(took.as_secs_f64()),
                ..named(change)
            },
            News::Drained(device) => Entry { device: Some(device.clone()), ..named("drain_ended") },
            News::Client(ClientEvent { client, export, is_over }) => Entry {
                client: Some(client.clone()),
                volume: Some(export.clone()),
                ..named(if *is_over { "disconnect" } else { "connect" })
            },
            News::Throttled(volume, now) => Entry {
                volume: Some(volume.clone()),
                ..named(if *now { "throttle_began" } else { "throttle_ended" })
            },
            News::Stalled(stall) => Entry {
                seconds: Some(stall.took.as_secs_f64()),
                ..named(if stall.checkpoint { "checkpoint_stall" } else { "stall" })
            },
            News::Checkpoint { pages } => {
                Entry { bytes: Some(pages * Bytes::BLOCK.0), ..named("checkpoint") }
            }
            News::Stopping => named("stop_began"),
            News::Stopped(took) => Entry { seconds: Some(took.as_secs_f64()), ..named("stop") },
            _ => named("note"),
        }
    }
}

#[cfg(test)]
mod tests {
    use thermocline_runtime::Stall;

    use super::*;

    #[test]
    fn a_flood_of_connections_stays_within_the_quota() {
        let (mut quota, now) = (Quota::default(), Instant::now());
        let allowed = (0..1000).filter(|_| quota.take(now).0).count();
        assert_eq!(allowed as u64, CLIENTS);
        assert_eq!(quota.take(now + WINDOW), (true, 1000 - CLIENTS));
        assert_eq!(quota.take(now + WINDOW), (true, 0));
    }

    #[test]
    fn entries_have_the_fields_of_their_news() {
        let event = |is_over| {
            let (client, export) = ("127.0.0.1:9".to_owned(), "main".to_owned());
            Entry::of(&News::Client(ClientEvent { client, export, is_over }))
        };
        let fields = Entry {
            volume: Some("main".to_owned()),
            client: Some("127.0.0.1:9".to_owned()),
            ..Entry::default()
        };
        assert_eq!(event(true), Entry { event: "disconnect", ..fields });
        assert_eq!(event(false).event, "connect");
        let began = News::Throttled("main".to_owned(), true);
        assert_eq!((level(&began), Entry::of(&began).event), (Level::INFO, "throttle_began"));
        let stall = News::Stalled(Stall { took: WINDOW, checkpoint: true });
        let fields = Entry { event: "checkpoint_stall", seconds: Some(60.0), ..Entry::default() };
        assert_eq!((level(&stall), Entry::of(&stall)), (Level::WARN, fields));
        let lost = News::Group(GroupChange::MemberLost, "a member is lost".to_owned(), None);
        assert_eq!((level(&lost), Entry::of(&lost).event), (Level::WARN, "member_lost"));
        assert_eq!(level(&News::LostFile("pool.img is gone".to_owned())), Level::ERROR);
    }
}
