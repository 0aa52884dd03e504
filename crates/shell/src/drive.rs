//! A drive in memory that loses unflushed data at a power cut.
//!
//! Invariants:
//! * A flush makes exactly the writes durable that were complete at its submission.
//! * Writes covered by a failed flush never become durable by a later flush.

use thermocline_types::Rng;

/// The unit of atomic writes at a power cut.
const SECTOR: usize = 512;

/// A write that is not durable.
#[derive(Clone, Debug)]
struct Change {
    at: u64,
    bytes: Vec<u8>,
    /// Clock at completion.
    done: u64,
    /// Whether a covering flush has failed.
    given_up: bool,
}

/// A drive: durable bytes, and current bytes, which last until the power goes.
#[derive(Debug)]
pub struct ScriptedDrive {
    durable: Vec<u8>,
    current: Vec<u8>,
    log: Vec<Change>,
    /// Counts completions and flushes.
    clock: u64,
}

impl ScriptedDrive {
    /// An empty drive of `bytes` bytes.
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

    /// Copies current bytes.
    pub fn read(&self, at: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.current[at as usize..][..into.len()]);
    }

    /// Begins a flush. Returns the number for [`ScriptedDrive::end_flush`].
    pub fn begin_flush(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Ends a flush.
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

    /// Cuts the power. Each write that is not durable is kept, is lost, or is torn.
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
