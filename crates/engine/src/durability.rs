//! What is durable, who waits for what to be, and the flushes that make it so.

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

#[derive(Debug)]
struct Waiter {
    /// Every chunk up to this one must be durable.
    target: Sequence,
    /// And this many flushes must have been submitted and completed.
    flushes: u64,
    then: Then,
}

/// Flushes and those who wait for them.
#[derive(Debug, Default)]
pub(crate) struct Durability {
    /// Every chunk up to this one was flushed.
    pub(crate) durable: Sequence,
    submitted: u64,
    done: u64,
    waiters: Vec<Waiter>,
    /// Blocks of the host in chunks that are on media, perhaps in a volatile cache there.
    pub(crate) host_on_media: u64,
    /// Those of them that the flush under way covers.
    host_flushing: u64,
    /// Those of them that are durable.
    host_durable: u64,
}

impl Durability {
    fn satisfies(&self, waiter: &Waiter) -> bool {
        waiter.target <= self.durable && waiter.flushes <= self.done
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
        waiting + self.stats.host_blocks_written - self.durability.host_durable
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
        self.durability.waiters.push(Waiter { target, flushes: 0, then });
        self.resolve();
    }

    /// Does `then` when a flush is done that is submitted from now on.
    pub(crate) fn await_next_flush(&mut self, then: Then) {
        let flushes = self.durability.submitted + 1;
        self.durability.waiters.push(Waiter { target: Sequence(0), flushes, then });
    }

    /// Flushes if somebody waits for what a flush would make durable. Returns whether it did.
    pub(crate) fn flush_step(&mut self) -> bool {
        let state = &self.durability;
        let mut completed = self.log.completed();
        if bug!(self.config, FlushTooEarly) {
            completed = self.log.sealed();
        }
        let helps = |waiter: &Waiter| waiter.target <= completed && !state.satisfies(waiter);
        if state.submitted > state.done || !state.waiters.iter().any(helps) {
            return false;
        }
        self.durability.submitted += 1;
        self.durability.host_flushing = self.durability.host_on_media;
        self.stats.flushes += 1;
        let op = self.ops.insert(Op::Flush { watermark: completed });
        self.device(op, DeviceCmd::Flush);
        true
    }

    pub(crate) fn flushed(&mut self, watermark: Sequence, result: Result<(), DeviceError>) {
        self.durability.done = self.durability.submitted;
        match result {
            Ok(()) => {
                let ahead = u64::from(bug!(self.config, DurableOffByOne));
                let watermark = Sequence(watermark.0 + ahead);
                self.durability.durable = self.durability.durable.max(watermark);
                self.durability.host_durable = self.durability.host_flushing;
                self.resolve();
            }
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
        let mut over = Vec::new();
        let mut index = 0;
        while index < self.durability.waiters.len() {
            let waiter = &self.durability.waiters[index];
            let host = matches!(waiter.then, Then::Host { .. });
            let lies = host && bug!(self.config, FlushNotSent);
            mark!(FlushAwaitsRecovery if self.durability.satisfies(waiter) && host && !settled);
            if lies || self.durability.satisfies(waiter) && (settled || !host) {
                over.push(self.durability.waiters.remove(index).then);
            } else {
                index += 1;
            }
        }
        for then in over {
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
