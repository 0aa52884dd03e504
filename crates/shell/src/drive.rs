//! A drive in memory that forgets what was not flushed.
//!
//! Invariants:
//! * A flush makes durable what was complete when it was submitted, and that alone.
//! * What a failed flush was to make durable never becomes so.

use thermocline_types::Rng;

/// The smallest piece that a power cut leaves whole.
const SECTOR: usize = 512;

/// A change that is not durable.
#[derive(Clone, Debug)]
struct Change {
    at: u64,
    bytes: Vec<u8>,
    /// When it was complete.
    done: u64,
    /// A flush that was to make it durable has failed.
    given_up: bool,
}

/// A drive: durable bytes, and bytes that are there until the power goes.
#[derive(Debug)]
pub struct ScriptedDrive {
    durable: Vec<u8>,
    current: Vec<u8>,
    log: Vec<Change>,
    /// Counts completions and flushes.
    clock: u64,
}

impl ScriptedDrive {
    /// An empty drive of so many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> ScriptedDrive {
        let empty = vec![0; bytes as usize];
        ScriptedDrive { durable: empty.clone(), current: empty, log: Vec::new(), clock: 0 }
    }

    /// Changes bytes.
    pub fn write(&mut self, at: u64, bytes: Vec<u8>) {
        self.clock += 1;
        put(&mut self.current, at, &bytes);
        self.log.push(Change { at, bytes, done: self.clock, given_up: false });
    }

    /// Copies what is there now.
    pub fn read(&self, at: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.current[at as usize..][..into.len()]);
    }

    /// A flush is submitted. Returns the number for [`ScriptedDrive::end_flush`].
    pub fn begin_flush(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A flush has ended.
    pub fn end_flush(&mut self, begun: u64, succeeded: bool) {
        let durable = &mut self.durable;
        self.log.retain_mut(|change| {
            if change.done >= begun || change.given_up {
                return true;
            }
            if succeeded {
                put(durable, change.at, &change.bytes);
            }
            change.given_up = !succeeded;
            !succeeded
        });
    }

    /// The power goes. Each change that is not durable is kept, is lost, or is torn.
    pub fn lose_power(&mut self, rng: &mut Rng) {
        for change in std::mem::take(&mut self.log) {
            let whole = change.bytes.len();
            let kept = match rng.below(4) {
                0 | 1 => whole,
                2 => 0,
                _ => rng.below((whole / SECTOR) as u64 + 1) as usize * SECTOR,
            };
            put(&mut self.durable, change.at, &change.bytes[..kept]);
        }
        self.current.clone_from(&self.durable);
    }
}

fn put(to: &mut [u8], at: u64, bytes: &[u8]) {
    to[at as usize..][..bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(drive: &ScriptedDrive) -> Vec<u8> {
        let mut bytes = vec![0; 3];
        (0..3).for_each(|sector| drive.read(sector * 512, &mut bytes[sector as usize..][..1]));
        bytes
    }

    #[test]
    fn what_was_complete_before_a_flush_is_kept_and_the_rest_in_any_mixture() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..64 {
            let mut drive = ScriptedDrive::new(4096);
            drive.write(0, vec![1; 512]);
            let flush = drive.begin_flush();
            drive.write(512, vec![2; 512]);
            drive.end_flush(flush, true);
            drive.write(1024, vec![3; 512]);
            drive.lose_power(&mut Rng::new(seed));
            seen.insert(held(&drive));
        }
        assert_eq!(seen.len(), 4);
        assert!(seen.iter().all(|bytes| bytes[0] == 1));
    }

    #[test]
    fn what_a_failed_flush_gave_up_no_later_flush_makes_durable() {
        let lost = (0..64).filter(|&seed| {
            let mut drive = ScriptedDrive::new(4096);
            drive.write(0, vec![1; 512]);
            let flush = drive.begin_flush();
            drive.end_flush(flush, false);
            let flush = drive.begin_flush();
            drive.end_flush(flush, true);
            drive.lose_power(&mut Rng::new(seed));
            held(&drive)[0] == 0
        });
        assert!((10..60).contains(&lost.count()));
    }
}
