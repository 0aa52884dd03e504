//! Collection ahead of need: a drive uses the time in which the host asks for nothing to have erased units ready.
//!
//! Model:
//! * Once the host was idle for `idle_ms`, the emptiest closed units are collected, one after the other, until a share
//!   of all units is free or none of them holds garbage. Copies count as *relocation*, as in other collection.
//! * Copies come at a rate. What is left of it, less than the next unit takes, is kept for the next idle time.
//! * Idle is what the requests' own clock says ([`Request::at`]), so that what is written does not depend on simulated
//!   time (ADR 0031). A workload without a clock is never idle.
//!
//! [`Request::at`]: thermocline_types::Request::at

use thermocline_ftl::Ftl;
use thermocline_ftl::placement::Handles;
use thermocline_types::{Bytes, Time};

use crate::media::NandArray;
use crate::profile::{Cut, Gc};

/// What a drive does while the host is idle.
#[derive(Clone, Debug)]
pub(crate) struct IdleCollection {
    after: Time,
    blocks_per_second: f64,
    /// Share of all units that is to be free.
    free: f64,
    /// Blocks of a unit, beyond which nothing is kept for the next time.
    unit: u64,
    /// Blocks that may be copied.
    credit: u64,
    /// When the last request came, by the requests' own clock.
    latest: Time,
}

impl IdleCollection {
    /// As a profile has it; nothing where a drive collects only when units are short.
    pub(crate) fn new(gc: &Gc, cut: &Cut) -> Option<IdleCollection> {
        let (after_ms, rate) = gc.idle_ms.zip(gc.idle_mb_per_s)?;
        Some(IdleCollection {
            after: Time::micros_f64(after_ms * 1e3),
            blocks_per_second: rate * 1e6 / cut.mapping_unit.max(Bytes::SECTOR).as_f64(),
            free: gc.idle_free,
            unit: u64::from(cut.shape.blocks_per_unit()),
            credit: 0,
            latest: Time::ZERO,
        })
    }

    /// A request comes at `at` of its own clock: collects as much as fits in the time since the previous request.
    pub(crate) fn until(&mut self, at: Time, ftl: &mut Ftl<Handles>, media: &mut NandArray) {
        let idle = at.since(self.latest).since(self.after);
        self.latest = self.latest.max(at);
        if idle == Time::ZERO {
            return;
        }
        self.credit += (idle.as_secs_f64() * self.blocks_per_second) as u64;
        self.credit -= ftl.collect_ahead(self.credit, self.free, media);
        self.credit = self.credit.min(self.unit);
    }
}

#[cfg(test)]
mod tests {
    use thermocline_types::{Cause, Op, Request, Rng, StreamId, TenantId};

    use super::*;
    use crate::Mapped;
    use crate::profile::{Profile, builtin};

    const CAPACITY: Bytes = Bytes::mib(16);
    const HALF: u64 = CAPACITY.0 / 4096 / 2;

    /// A drive of 256 units and 16 in reserve, the lower half of which was written twice over in random places.
    fn drive(given: &[(&str, &str)]) -> Mapped {
        let sized = [("capacity", "16MiB"), ("op", "0.0625"), ("unit", "64KiB")];
        let given = sized.iter().chain(given);
        let given: Vec<_> = given.map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let profile = Profile::with_overrides("ideal", builtin("ideal").unwrap(), &given).unwrap();
        let mut drive =
            Mapped::new(&profile, Cut::new(&profile, Some(CAPACITY)).unwrap(), 1).unwrap();
        write(&mut drive, 2 * HALF, Time::ZERO);
        drive
    }

    /// Writes so many blocks in random places of the lower half, all at `at` by their clock.
    fn write(drive: &mut Mapped, blocks: u64, at: Time) {
        let mut random = Rng::new(at.0);
        for _ in 0..blocks {
            let offset = Bytes(random.below(HALF) * 4096);
            let (tenant, stream) = (TenantId(0), StreamId::UNKNOWN);
            let request = Request {
                at,
                op: Op::Write,
                offset,
                length: Bytes(4096),
                tenant,
                stream,
                outstanding: None,
            };
            drive.submit(Time::ZERO, &request, 0).unwrap();
        }
    }

    fn copied(drive: &Mapped) -> u64 {
        drive.counters().media[Cause::Relocation.index()] / 4096
    }

    #[test]
    fn an_idle_drive_has_as_much_ready_as_asked_for() {
        let share = |free: &str| {
            let mut drive =
                drive(&[("gc.idle_ms", "10"), ("gc.idle_mb_per_s", "100"), ("gc.idle_free", free)]);
            write(&mut drive, 1, Time::seconds(10));
            drive.verify();
            drive.counters().check().unwrap();
            drive.free_units() as f64 / 272.0
        };
        let (some, most) = (share("0.25"), share("1"));
        assert!((0.24..0.27).contains(&some), "{some}");
        // 1 - e^-2 of the lower half was written, and lies in 111 of 272 units; one or two more are open.
        assert!((0.58..0.595).contains(&most), "{most}");
    }

    #[test]
    fn it_copies_at_its_rate_and_not_at_once_and_writes_more_for_it() {
        let eager = [("gc.idle_ms", "1000"), ("gc.idle_mb_per_s", "1")];
        let mut drive = drive(&eager);
        let before = copied(&drive);
        write(&mut drive, 1, Time::seconds(1));
        assert_eq!(copied(&drive), before, "it was not idle for long enough");
        write(&mut drive, 1, Time::seconds(3));
        let second = copied(&drive) - before;
        assert!((244 - 16..=244).contains(&second), "a second of 1 MB/s is 244 blocks: {second}");
        write(&mut drive, 1, Time::seconds(5));
        let both = copied(&drive) - before;
        assert!((488 - 16..=488).contains(&both), "what was left counts: {both}");
    }

    #[test]
    fn without_a_clock_and_without_the_key_nothing_is_collected_ahead() {
        let mut lazy = drive(&[]);
        let mut eager = drive(&[("gc.idle_ms", "0"), ("gc.idle_mb_per_s", "100")]);
        assert_eq!(copied(&lazy), copied(&eager), "all came at one instant");
        let before = copied(&lazy);
        write(&mut lazy, 1, Time::seconds(100));
        write(&mut eager, 1, Time::seconds(100));
        assert!(copied(&lazy) - before < 16 && copied(&eager) - before > 500);
    }
}
