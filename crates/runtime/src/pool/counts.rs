//! Counters of a pool over all its openings: each engine and each simulated drive begins to count at zero.

use std::collections::BTreeMap;

use thermocline_engine::{Engine, Stats, VolumeInfo, VolumeTraffic, WrittenOn};
use thermocline_format::MediaClass;
use thermocline_nand::Counters;

use crate::Buffer;

/// Counts of the earlier openings of a pool.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    stats: Stats,
    media: [WrittenOn; MediaClass::ALL.len()],
    volumes: BTreeMap<u32, VolumeTraffic>,
    drive: Option<Counters>,
}

impl Counts {
    /// An engine, and the simulated drives under it, count no more.
    pub(super) fn add(&mut self, engine: &Engine<Buffer>, drive: Option<Counters>) {
        self.stats += *engine.stats();
        for media in MediaClass::ALL {
            self.media[media as usize] += engine.written_on(media);
        }
        for info in engine.volumes() {
            *self.volumes.entry(info.id.0).or_default() += info.traffic;
        }
        self.drive = self.drive(drive);
    }

    /// Everything that was counted, if `engine` has counted since.
    #[must_use]
    pub fn stats(&self, engine: &Engine<Buffer>) -> Stats {
        let mut all = self.stats;
        all += *engine.stats();
        all
    }

    /// What was written to a class of devices, as [`Engine::written_on`].
    #[must_use]
    pub fn written_on(&self, engine: &Engine<Buffer>, media: MediaClass) -> WrittenOn {
        let mut all = self.media[media as usize];
        all += engine.written_on(media);
        all
    }

    /// The volumes, as [`Engine::volumes`], with the traffic of all openings.
    #[must_use]
    pub fn volumes(&self, engine: &Engine<Buffer>) -> Vec<VolumeInfo> {
        let mut all = engine.volumes();
        for info in &mut all {
            info.traffic += self.volumes.get(&info.id.0).copied().unwrap_or_default();
        }
        all
    }

    /// Traffic of each volume over all openings, deleted volumes included, by number.
    pub(super) fn traffic(
        &self,
        engine: &Engine<Buffer>,
    ) -> impl Iterator<Item = (u32, VolumeTraffic)> {
        let mut all = self.volumes.clone();
        for info in engine.volumes() {
            *all.entry(info.id.0).or_default() += info.traffic;
        }
        all.into_iter()
    }

    /// Counters of simulated drives over all openings; `now` is the current opening's. Only host, programmed and erased
    /// bytes are summed; all further fields are of `now`.
    pub(super) fn drive(&self, now: Option<Counters>) -> Option<Counters> {
        let (now, Some(earlier)) = (now?, &self.drive) else { return now };
        let mut all = now;
        all.host_written += earlier.host_written;
        all.media_total += earlier.media_total;
        all.erased += earlier.erased;
        all.media.iter_mut().zip(earlier.media).for_each(|(all, earlier)| *all += earlier);
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_through_drives_add_up_over_openings() {
        let mut media = Counters::default().media;
        media[0] = 300;
        let counted = Counters {
            host_written: 100,
            media,
            media_total: 400,
            erased: 7,
            ..Counters::default()
        };
        let earlier = Counts { drive: Some(counted), ..Counts::default() };
        let all = earlier.drive(Some(counted)).expect("both are simulated");
        assert_eq!(
            (all.host_written, all.media[0], all.media_total, all.erased),
            (200, 600, 800, 14)
        );
        assert_eq!(earlier.drive(None), None, "no drive is simulated any more");
        assert_eq!(Counts::default().drive(Some(counted)), Some(counted));
    }
}
