//! Totals of a pool over all its services: a small record that is to outlive restarts.
//!
//! Engines and simulated drives count from zero at each opening. This part adds what they counted to the record of
//! earlier services, and reports the sum for whoever stores it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thermocline_engine::{Engine, VolumeTraffic, WrittenOn};
use thermocline_format::MediaClass;
use thermocline_nand::Counters;

use super::scrubbing::unix_seconds;
use super::{Counts, Event, Service};
use crate::Buffer;

/// How often totals are stored while something is written: a kill loses at most this much. Chosen.
const EVERY: Duration = Duration::from_secs(60);

/// Bytes by name, such as a cause of writes.
pub type Named = BTreeMap<String, u64>;

/// Bytes over all services of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Begin of the first counted service, in seconds since 1970; 0: nothing was counted.
    pub began_unix_seconds: u64,
    /// Time of all services.
    pub served_seconds: u64,
    /// Bytes of hosts: `written`, `read`, `trimmed`, and `absorbed` in memory.
    pub host: Named,
    /// Bytes that the engine wrote, by cause.
    pub device: Named,
    /// Bytes written to each class of media, `fast` or `capacity`, by cause.
    pub classes: BTreeMap<String, Named>,
    /// Bytes of each volume, by its number: `host`, `absorbed`, and device writes by cause.
    pub volumes: BTreeMap<String, Named>,
    /// Bytes programmed by simulated drives, by cause.
    pub media: Named,
    /// Bytes `written` to simulated drives, and `erased` by them.
    pub drives: Named,
    /// Media of the present simulated drives.
    pub media_bytes: u64,
}

impl Totals {
    /// What `engine`, openings before it and simulated drives counted since the service began.
    fn of(engine: &Engine<Buffer>, earlier: &Counts, drive: Option<Counters>) -> Totals {
        let stats = earlier.stats(engine);
        let bytes = |blocks: u64| blocks * 4096;
        let class = |media: MediaClass| {
            let WrittenOn { host_blocks, destaged_blocks, relocated_blocks, metadata_bytes } =
                earlier.written_on(engine, media);
            named([
                ("host", bytes(host_blocks)),
                ("destage", bytes(destaged_blocks)),
                ("relocation", bytes(relocated_blocks)),
                ("metadata", metadata_bytes),
            ])
        };
        let classes = [("capacity", MediaClass::Capacity), ("fast", MediaClass::Fast)];
        let causes = drive.iter().flat_map(|drive| drive.by_cause());
        let drives = drive.map(|drive| [("written", drive.host_written), ("erased", drive.erased)]);
        Totals {
            host: named([
                ("written", bytes(stats.host_blocks_staged)),
                ("read", bytes(stats.host_blocks_read)),
                ("trimmed", bytes(stats.trimmed_blocks)),
                ("absorbed", bytes(stats.absorbed_blocks)),
            ]),
            device: named([
                ("host", bytes(stats.host_blocks_written)),
                ("destage", bytes(stats.destaged_blocks)),
                ("relocation", bytes(stats.relocated_blocks)),
                ("map", bytes(stats.map_pages_written)),
                ("headers", stats.header_bytes),
                ("superblocks", stats.superblock_bytes),
            ]),
            classes: classes.map(|(name, media)| (name.to_owned(), class(media))).into(),
            volumes: earlier
                .traffic(engine)
                .map(|(id, one)| (id.to_string(), volume(&one)))
                .collect(),
            media: causes.map(|(cause, bytes)| (cause.name().to_owned(), bytes)).collect(),
            drives: drives.map(named).unwrap_or_default(),
            ..Totals::default()
        }
    }

    /// The sum of this and what was counted later.
    fn plus(&self, later: &Totals) -> Totals {
        let mut all = self.clone();
        add(&mut all.host, &later.host);
        add(&mut all.device, &later.device);
        add(&mut all.media, &later.media);
        add(&mut all.drives, &later.drives);
        for (class, more) in &later.classes {
            add(all.classes.entry(class.clone()).or_default(), more);
        }
        for (id, more) in &later.volumes {
            add(all.volumes.entry(id.clone()).or_default(), more);
        }
        all
    }
}

fn named<const N: usize>(bytes: [(&str, u64); N]) -> Named {
    bytes.map(|(name, bytes)| (name.to_owned(), bytes)).into()
}

fn volume(traffic: &VolumeTraffic) -> Named {
    let bytes = |blocks: u64| blocks * 4096;
    named([
        ("host", bytes(traffic.host_blocks_staged)),
        ("absorbed", bytes(traffic.absorbed_blocks)),
        ("written", bytes(traffic.host_blocks_written)),
        ("destage", bytes(traffic.destaged_blocks)),
        ("relocation", bytes(traffic.relocated_blocks)),
    ])
}

fn add(to: &mut Named, more: &Named) {
    more.iter().for_each(|(name, bytes)| *to.entry(name.clone()).or_default() += bytes);
}

/// Adds the present service to earlier ones.
#[derive(Debug)]
pub(super) struct Totalling {
    earlier: Totals,
    began: Instant,
    /// When the totals were reported last, and the bytes of hosts and the engine by then.
    stored: (Instant, u64),
}

impl Totalling {
    /// The totals of `earlier` services; the present one begins `now`.
    pub(super) fn new(mut earlier: Totals, now: Instant) -> Totalling {
        if earlier.began_unix_seconds == 0 {
            earlier.began_unix_seconds = unix_seconds();
        }
        Totalling { earlier, began: now, stored: (now, 0) }
    }

    /// Time until the totals are to be stored, if there is news: `bytes` since the service began.
    fn wait(&self, now: Instant, bytes: u64) -> Option<Duration> {
        let (when, before) = self.stored;
        (bytes != before).then(|| EVERY.saturating_sub(now.saturating_duration_since(when)))
    }
}

impl Service {
    /// The totals now.
    pub(super) fn totals(&self) -> Totals {
        let drive = self.earlier.drive(self.driver.device().storage().drive_counters());
        let now = Totals::of(self.driver.engine(), &self.earlier, drive);
        let mut all = self.totalling.earlier.plus(&now);
        let served = self.driver.clock().now().saturating_duration_since(self.totalling.began);
        all.served_seconds += served.as_secs();
        all.media_bytes = self.driver.device().storage().drive_media().0;
        all
    }

    /// Time until totals are stored; `None` if nothing was written after the last time.
    pub(super) fn totals_wait(&self, now: Instant) -> Option<Duration> {
        let stats = self.earlier.stats(self.driver.engine());
        let bytes = stats.host_blocks_staged * 4096 + stats.device_bytes_written();
        self.totalling.wait(now, bytes)
    }

    /// Reports the totals if it is time to store them.
    pub(super) fn keep_totals(&mut self) {
        let now = self.driver.clock().now();
        if self.totals_wait(now).is_some_and(|wait| wait.is_zero()) {
            self.store_totals();
        }
    }

    /// Reports the totals at the end, unless hosts asked for nothing: a service that failed to begin leaves no file.
    pub(super) fn store_last_totals(&mut self) {
        let stats = self.earlier.stats(self.driver.engine());
        if stats.host_blocks_staged + stats.host_blocks_read + stats.trimmed_blocks > 0 {
            self.store_totals();
        }
    }

    /// Reports the totals, to be stored.
    pub(super) fn store_totals(&mut self) {
        let stats = self.earlier.stats(self.driver.engine());
        let bytes = stats.host_blocks_staged * 4096 + stats.device_bytes_written();
        self.totalling.stored = (self.driver.clock().now(), bytes);
        let totals = Box::new(self.totals());
        (self.listener)(Event::Totals(totals));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_services_add_up_by_name() {
        let one = |host, cause: &str, bytes| Totals {
            host: named([("written", host)]),
            device: named([(cause, bytes)]),
            classes: [("fast".to_owned(), named([(cause, bytes)]))].into(),
            volumes: [(bytes.to_string(), named([("host", host)]))].into(),
            ..Totals::default()
        };
        let all = one(10, "host", 1).plus(&one(20, "map", 2)).plus(&one(30, "map", 2));
        assert_eq!(all.host, named([("written", 60)]));
        assert_eq!(all.device, named([("host", 1), ("map", 4)]));
        assert_eq!(all.classes["fast"], all.device);
        let of = |id: &str, host| (id.to_owned(), named([("host", host)]));
        let volumes = [of("1", 10), of("2", 50)];
        assert_eq!(all.volumes, BTreeMap::from(volumes));
    }

    #[test]
    fn totals_are_stored_a_minute_after_the_last_time_if_something_was_written() {
        let began = Instant::now();
        let mut totals = Totalling::new(Totals::default(), began);
        assert!(totals.earlier.began_unix_seconds > 0);
        assert_eq!(totals.wait(began + 2 * EVERY, 0), None);
        assert_eq!(totals.wait(began + EVERY / 2, 4096), Some(EVERY / 2));
        assert_eq!(totals.wait(began + 2 * EVERY, 4096), Some(Duration::ZERO));
        totals.stored = (began + 2 * EVERY, 4096);
        assert_eq!(totals.wait(began + 9 * EVERY, 4096), None);
        let began = totals.earlier.began_unix_seconds;
        let again = Totalling::new(totals.earlier, Instant::now());
        assert_eq!(again.earlier.began_unix_seconds, began);
    }
}
