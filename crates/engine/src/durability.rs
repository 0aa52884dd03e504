//! What is durable, who waits for what to be, and the flushes that make it so.
//!
//! A host's flush waits for what hosts wrote and for control entries, not for copies and pages of maps that are on
//! their way elsewhere: recovery reads the older place of a block whose copy is missing, and the older page. Units are
//! freed, and records are written, only when every chunk before is durable.
//!
//! Invariants:
//! * At most one flush is on its way.
//! * What is durable only grows, and is never more than what was on media when a flush was sent that is done.

use thermocline_format::Sequence;
use thermocline_types::UnitId;

use crate::bugs::bug;
use crate::device::{DeviceCmd, DeviceError};
use crate::engine::{Engine, Op};
use crate::marks::mark;
use crate::payload::Payload;

/// What happens when something is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// A request of the host goes on.
    Host { request: u32 },
    /// These units may be reset.
    Release { units: Vec<UnitId> },
    /// A scrub looks again at a unit to which chunks were on their way.
    Scrub,
    /// The chunks of dead units are durable.
    Dead,
    /// All that the next checkpoint's superblock refers to is there, if it was all written up to `target`.
    Pages { target: Sequence },
    /// The superblock record that was written counts.
    Superblock,
}

impl Then {
    fn is_host(&self) -> bool {
        matches!(self, Then::Host { .. })
    }
}

#[derive(Debug)]
struct Waiter {
    /// Every chunk up to this one must be durable; for a host, every one that hosts wait for.
    target: Sequence,
    /// And this many flushes must have been sent and be done.
    flushes: u64,
    then: Then,
}

impl Waiter {
    /// Whether `durable` is as much as it waits for, and so many flushes are `done`.
    fn is_satisfied(&self, durable: &OnMedia, done: u64) -> bool {
        durable.reaches(self) && self.flushes <= done
    }
}

/// How far the log is on media, perhaps in a volatile cache there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OnMedia {
    /// Every chunk up to this one.
    pub(crate) all: Sequence,
    /// Every chunk up to this one that hosts wait for.
    pub(crate) for_hosts: Sequence,
    /// Blocks of hosts in these, since the pool was opened.
    pub(crate) host_blocks: u64,
}

impl OnMedia {
    fn reaches(&self, waiter: &Waiter) -> bool {
        waiter.target <= if waiter.then.is_host() { self.for_hosts } else { self.all }
    }
}

/// Flushes and those who wait for them.
#[derive(Debug, Default)]
pub(crate) struct Durability {
    durable: OnMedia,
    /// What the flush on its way makes durable.
    flushing: Option<OnMedia>,
    /// Flushes sent and done.
    sent: u64,
    done: u64,
    waiters: Vec<Waiter>,
}

impl Durability {
    /// Every chunk up to this one is durable.
    pub(crate) fn durable(&self) -> Sequence {
        self.durable.all
    }

    /// Blocks that hosts wrote since the pool was opened and that are durable.
    pub(crate) fn host_blocks(&self) -> u64 {
        self.durable.host_blocks
    }

    /// A recovery ends: all that it found, up to `sequence`, is durable.
    pub(crate) fn recovered(&mut self, sequence: Sequence) {
        self.durable = OnMedia { all: sequence, for_hosts: sequence, host_blocks: 0 };
    }

    /// `then` is due when every chunk up to `target` is durable.
    fn wait(&mut self, target: Sequence, then: Then) {
        self.waiters.push(Waiter { target, flushes: 0, then });
    }

    /// `then` is due when a flush is done that is sent from now on.
    fn wait_for_next(&mut self, then: Then) {
        self.waiters.push(Waiter { target: Sequence(0), flushes: self.sent + 1, then });
    }

    fn satisfies(&self, waiter: &Waiter) -> bool {
        waiter.is_satisfied(&self.durable, self.done)
    }

    /// Whether a flush could help anybody.
    fn may_flush(&self) -> bool {
        self.flushing.is_none() && self.waiters.iter().any(|waiter| !self.satisfies(waiter))
    }

    /// Whether a flush is to be sent now that this is on media: somebody waits for what it makes durable.
    fn begin_flush(&mut self, on_media: OnMedia) -> bool {
        let helps = |waiter: &Waiter| !self.satisfies(waiter) && on_media.reaches(waiter);
        if self.flushing.is_some() || !self.waiters.iter().any(helps) {
            return false;
        }
        self.flushing = Some(on_media);
        self.sent += 1;
        true
    }

    /// The flush is done; what it covered is durable if it did not fail.
    fn end_flush(&mut self, sound: bool) {
        self.done = self.sent;
        if let Some(flushed) = self.flushing.take().filter(|_| sound) {
            self.durable = flushed;
        }
    }

    /// Who waits no more, in the order in which they came. Hosts go on waiting unless they are `let_on`.
    fn due(&mut self, let_on: bool, at_once: bool) -> Vec<Then> {
        let (durable, done) = (self.durable, self.done);
        let due = |waiter: &mut Waiter| {
            let host = waiter.then.is_host();
            host && at_once || waiter.is_satisfied(&durable, done) && (let_on || !host)
        };
        self.waiters.extract_if(.., due).map(|waiter| waiter.then).collect()
    }

    /// Nobody waits any more; returns who did.
    pub(crate) fn abandon(&mut self) -> Vec<Then> {
        self.waiters.drain(..).map(|waiter| waiter.then).collect()
    }
}

impl<P: Payload> Engine<P> {
    /// Blocks that hosts wrote and that a power cut may take: they wait in memory, are on their way to media, or are
    /// there without a flush since. One that is overwritten in memory counts once, one that was trimmed there until its
    /// place is sealed.
    #[must_use]
    pub fn at_risk_blocks(&self) -> u64 {
        let waiting = u64::from(self.stage.waiting());
        waiting + self.stats.host_blocks_written - self.durability.host_blocks()
    }

    /// Answers a flush of the host when all that was complete before it is durable.
    pub(crate) fn flush(&mut self, request: u32) {
        if !self.config.write_cache {
            self.await_flush(self.newest_done, Then::Host { request });
        } else if bug!(self.config, FlushLeavesStage) || !self.stage.flush(request) {
            self.await_flush(self.log.sealed(), Then::Host { request });
        }
    }

    /// Goes on with flushes for which everything has been sealed.
    pub(crate) fn flush_sealed(&mut self) {
        while let Some(request) = self.stage.next_flush() {
            self.await_flush(self.log.sealed(), Then::Host { request });
        }
    }

    /// Does `then` when every chunk up to `target` is durable.
    pub(crate) fn await_flush(&mut self, target: Sequence, then: Then) {
        self.durability.wait(target, then);
        self.resolve();
    }

    /// Does `then` when a flush is done that is sent from now on.
    pub(crate) fn await_next_flush(&mut self, then: Then) {
        self.durability.wait_for_next(then);
    }

    /// Flushes if somebody waits for what a flush would make durable. Returns whether it did.
    pub(crate) fn flush_step(&mut self) -> bool {
        if !self.durability.may_flush() {
            return false;
        }
        let mut on_media = self.log.on_media(&self.config);
        if bug!(self.config, FlushTooEarly) {
            (on_media.all, on_media.for_hosts) = (self.log.sealed(), self.log.sealed());
        }
        if bug!(self.config, DurableOffByOne) {
            on_media.all.0 += 1;
            on_media.for_hosts.0 += 1;
        }
        if !self.durability.begin_flush(on_media) {
            return false;
        }
        mark!(FlushPassesCopies if on_media.for_hosts > on_media.all);
        self.stats.flushes += 1;
        let op = self.ops.insert(Op::Flush);
        self.device(op, DeviceCmd::Flush);
        true
    }

    pub(crate) fn flushed(&mut self, result: Result<(), DeviceError>) {
        self.durability.end_flush(result.is_ok());
        match result {
            Ok(()) => self.resolve(),
            Err(_) => {
                mark!(FlushFailed);
                self.fail();
            }
        }
    }

    /// Goes on with all whose wait is over. What the host waits for must also be recoverable: not before the recovery
    /// itself is, in a checkpoint.
    pub(crate) fn resolve(&mut self) {
        let settled = self.superblocks.settled || bug!(self.config, FlushBeforeRecoveryIsSafe);
        let state = &self.durability;
        let held = |waiter: &Waiter| state.satisfies(waiter) && waiter.then.is_host();
        mark!(FlushAwaitsRecovery if !settled && state.waiters.iter().any(held));
        for then in self.durability.due(settled, bug!(self.config, FlushNotSent)) {
            match then {
                Then::Host { request } => self.request_progress(request, 1, None),
                Then::Release { units } => self.reset_released(&units),
                Then::Scrub => self.scrub_goes_on(),
                Then::Dead => self.space.flushing_dead = false,
                Then::Pages { target } => self.pages_durable(target),
                Then::Superblock => self.superblock_durable(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_media(all: u64, for_hosts: u64) -> OnMedia {
        OnMedia { all: Sequence(all), for_hosts: Sequence(for_hosts), host_blocks: for_hosts * 10 }
    }

    fn host(request: u32) -> Then {
        Then::Host { request }
    }

    #[test]
    fn a_flush_is_sent_only_when_it_helps_somebody_and_one_at_a_time() {
        let mut durability = Durability::default();
        durability.recovered(Sequence(5));
        assert!(!durability.may_flush());
        durability.wait(Sequence(7), host(1));
        assert!(durability.may_flush());
        assert!(!durability.begin_flush(on_media(6, 6)), "chunk 7 is not on media");
        assert!(durability.begin_flush(on_media(7, 7)));
        durability.wait(Sequence(8), host(2));
        assert!(
            !durability.may_flush() && !durability.begin_flush(on_media(8, 8)),
            "one at a time"
        );
        durability.end_flush(true);
        assert_eq!(durability.due(true, false), [host(1)]);
        assert_eq!((durability.durable(), durability.host_blocks()), (Sequence(7), 70));
        assert!(durability.begin_flush(on_media(8, 8)));
    }

    #[test]
    fn hosts_do_not_wait_for_copies_and_units_do() {
        let mut durability = Durability::default();
        durability.wait(Sequence(9), Then::Dead);
        durability.wait(Sequence(9), host(1));
        assert!(durability.begin_flush(on_media(4, 9)), "for the host");
        durability.end_flush(true);
        assert_eq!(durability.due(true, false), [host(1)]);
        assert_eq!(durability.durable(), Sequence(4));
        assert!(!durability.begin_flush(on_media(8, 9)), "it would help nobody");
        assert!(durability.begin_flush(on_media(9, 9)));
        durability.end_flush(true);
        assert_eq!(durability.due(true, false), [Then::Dead]);
    }

    #[test]
    fn a_flush_that_fails_makes_nothing_durable() {
        let mut durability = Durability::default();
        durability.wait(Sequence(1), host(1));
        assert!(durability.begin_flush(on_media(1, 1)));
        durability.end_flush(false);
        assert_eq!((durability.durable(), durability.host_blocks()), (Sequence(0), 0));
        assert!(durability.due(true, false).is_empty());
        assert_eq!(durability.abandon(), [host(1)]);
    }

    #[test]
    fn who_waits_for_the_next_flush_is_not_content_with_one_that_was_sent_before() {
        let mut durability = Durability::default();
        durability.wait(Sequence(1), Then::Dead);
        assert!(durability.begin_flush(on_media(1, 1)));
        durability.wait_for_next(Then::Scrub);
        durability.end_flush(true);
        assert_eq!(durability.due(true, false), [Then::Dead]);
        assert!(durability.begin_flush(on_media(1, 1)));
        durability.end_flush(true);
        assert_eq!(durability.due(true, false), [Then::Scrub]);
    }

    #[test]
    fn hosts_are_held_until_the_recovery_is_safe() {
        let mut durability = Durability::default();
        durability.recovered(Sequence(3));
        durability.wait(Sequence(3), host(1));
        durability.wait(Sequence(3), Then::Superblock);
        assert_eq!(durability.due(false, false), [Then::Superblock]);
        assert_eq!(durability.due(true, false), [host(1)]);
    }
}
