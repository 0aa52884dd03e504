//! Commands that a device does not end in time.
//!
//! Invariants:
//! * A device that was given up gets no more commands. Its late reads change no buffer of a caller: reads go to private
//!   memory. All memory in flight is kept until the device is done.
//! * The drop of a device that was given up does not wait.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use thermocline_engine::{DeviceError, UnitReport};
use thermocline_nand::Counters;
use thermocline_target::BufferPool;
use thermocline_types::Bytes;

use super::{Command, Completion, Fault, Layout, Storage, Token, Waker};
use crate::Buffer;

/// What reads of a device that may be given up keep of their memory for later. Chosen, not measured.
const POOL_BYTES: usize = 8 << 20;

/// What follows when a command is not ended in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// It is reported, and waited for.
    Reported,
    /// The device is given up: every later command fails, so that the rest of the group serves.
    GivenUp,
}

/// A device, and how long it may take.
pub(crate) struct Deadline {
    /// `None` only during the drop.
    inner: Option<Box<dyn Storage>>,
    path: PathBuf,
    limit: Duration,
    late: Late,
    /// Commands in flight by number, which is the token; `None` for ended commands.
    flying: VecDeque<Option<Flight>>,
    /// The number of the first.
    first: u64,
    is_given_up: bool,
    /// Ended without the device.
    ended: Vec<Completion>,
    reaped: Vec<Completion>,
    memory: BufferPool,
}

struct Flight {
    token: Token,
    began: Instant,
    /// Memory that the device reads to, and where the bytes are to be.
    read: Option<(Buffer, Buffer)>,
}

impl Deadline {
    /// `inner` at `path` has `limit` for each command.
    pub(crate) fn new(inner: Box<dyn Storage>, path: &Path, limit: Duration, late: Late) -> Self {
        Deadline {
            inner: Some(inner),
            path: path.to_owned(),
            limit,
            late,
            flying: VecDeque::new(),
            first: 0,
            is_given_up: false,
            ended: Vec::new(),
            reaped: Vec::new(),
            memory: BufferPool::new(POOL_BYTES),
        }
    }

    fn inner(&self) -> &dyn Storage {
        self.inner.as_deref().expect("it is there until this is dropped")
    }

    fn inner_mut(&mut self) -> &mut Box<dyn Storage> {
        self.inner.as_mut().expect("it is there until this is dropped")
    }

    /// How long the oldest command has been under way.
    fn oldest(&self) -> Option<Duration> {
        let oldest = self.flying.front()?.as_ref().expect("the first is under way");
        Some(oldest.began.elapsed())
    }

    fn is_late(&self) -> bool {
        self.oldest().is_some_and(|oldest| oldest >= self.limit)
    }

    /// The device has ended a command.
    fn end(&mut self, completion: Completion, done: &mut Vec<Completion>) {
        // The caller already has the answer of a command that was given up.
        let Some(index) = completion.token.0.checked_sub(self.first) else { return };
        let flight = self.flying[index as usize].take().expect("a command ends once");
        while let Some(None) = self.flying.front() {
            self.flying.pop_front();
            self.first += 1;
        }
        if let Some((own, into)) = flight.read.filter(|_| completion.result.is_ok()) {
            into.write().copy_from_slice(&own.read());
        }
        done.push(Completion { token: flight.token, ..completion });
    }

    fn give_up(&mut self) {
        self.is_given_up = true;
        self.first += self.flying.len() as u64;
        let late = self.flying.drain(..).flatten();
        self.ended.extend(late.map(|flight| Completion::new(flight.token, Err(LATE))));
    }
}

const LATE: Fault = Fault { error: DeviceError::Gone, errno: Some(Errno::TIMEDOUT) };

impl Storage for Deadline {
    fn layout(&self) -> &Layout {
        self.inner().layout()
    }

    fn submit(&mut self, token: Token, mut command: Command) {
        if self.is_given_up {
            return self.ended.push(Completion::new(token, Err(LATE)));
        }
        let mut read = None;
        if let (Late::GivenUp, Command::Read { into, .. }) = (self.late, &mut command) {
            let own = Buffer::new(self.memory.take(into.len()));
            read = Some((own.clone(), std::mem::replace(into, own)));
        }
        let number = Token(self.first + self.flying.len() as u64);
        self.flying.push_back(Some(Flight { token, began: Instant::now(), read }));
        self.inner_mut().submit(number, command);
    }

    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        let wait = [wait, self.timeout()].into_iter().flatten().min();
        let mut reaped = std::mem::take(&mut self.reaped);
        self.inner_mut().reap(wait, &mut reaped);
        for completion in reaped.drain(..) {
            self.end(completion, done);
        }
        self.reaped = reaped;
        if self.late == Late::GivenUp && self.is_late() {
            self.give_up();
        }
        done.append(&mut self.ended);
    }

    fn waker(&self) -> Waker {
        self.inner().waker()
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.inner().descriptors(into);
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.ended.is_empty() {
            return Some(Duration::ZERO);
        }
        let oldest = self.oldest().filter(|_| self.late == Late::GivenUp);
        let left = oldest.map(|oldest| self.limit.saturating_sub(oldest));
        left.into_iter().chain(self.inner().timeout()).min()
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        if self.is_given_up { Err(LATE) } else { self.inner_mut().report() }
    }

    fn lost(&mut self) -> Option<String> {
        self.inner_mut().lost()
    }

    fn overdue(&self) -> Option<String> {
        if !self.is_late() {
            return None;
        }
        let (path, limit) = (self.path.display(), self.limit.as_secs_f64());
        let count = self.flying.iter().flatten().count();
        Some(format!("{path} has not ended a command in {limit} s, and {count} are under way"))
    }

    fn drive_counters(&self) -> Option<Counters> {
        self.inner().drive_counters()
    }

    fn drive_media(&self) -> Bytes {
        self.inner().drive_media()
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let inner = self.inner.take();
        if self.is_given_up {
            // Commands in flight own their memory. The thread drops the device after the last command ends.
            let wait = move || drop(inner);
            let _thread =
                std::thread::Builder::new().name("thermocline-late".to_owned()).spawn(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use thermocline_format::LogicalBlock;
    use thermocline_types::Bytes;

    use super::*;

    /// Commands of a device that does not end commands on its own.
    #[derive(Clone, Default)]
    struct Stuck(Arc<Mutex<Vec<(Token, Command)>>>);

    const LAYOUT: Layout = Layout {
        logical_block: LogicalBlock::B4096,
        blocks_per_unit: 16,
        units: 4,
        unit_distance: Bytes(16 * 4096),
    };

    impl Stuck {
        fn asked(&self) -> std::sync::MutexGuard<'_, Vec<(Token, Command)>> {
            self.0.lock().expect("no test panicked")
        }
    }

    /// Ends everything at the second look.
    struct Device(Stuck, bool);

    impl Storage for Device {
        fn layout(&self) -> &Layout {
            &LAYOUT
        }

        fn submit(&mut self, token: Token, command: Command) {
            self.0.asked().push((token, command));
        }

        fn reap(&mut self, _: Option<Duration>, done: &mut Vec<Completion>) {
            if !self.1 {
                return;
            }
            for (token, command) in self.0.asked().drain(..) {
                if let Command::Read { into, .. } = command {
                    into.write().fill(7);
                }
                done.push(Completion::new(token, Ok(())));
            }
        }

        fn waker(&self) -> Waker {
            Arc::new(|| {})
        }

        fn descriptors<'a>(&'a self, _: &mut Vec<BorrowedFd<'a>>) {}

        fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
            Ok(Vec::new())
        }
    }

    fn read(into: &Buffer) -> Command {
        Command::read(Bytes(0), into.clone())
    }

    fn room() -> Buffer {
        Buffer::new(thermocline_target::Buffer::zeroed(4096))
    }

    fn device(ends: bool, limit: Duration, late: Late) -> (Stuck, Deadline) {
        let stuck = Stuck::default();
        let device = Box::new(Device(stuck.clone(), ends));
        (stuck, Deadline::new(device, Path::new("d.img"), limit, late))
    }

    #[test]
    fn a_command_that_ends_in_time_ends_as_it_does() {
        for late in [Late::Reported, Late::GivenUp] {
            let (_stuck, mut device) = device(true, Duration::from_secs(1000), late);
            let (into, mut done) = (room(), Vec::new());
            device.submit(Token(9), Command::Flush(thermocline_types::DeviceId(0)));
            device.submit(Token(5), read(&into));
            device.reap(None, &mut done);
            let ended = [9, 5].map(|token| Completion::new(Token(token), Ok(())));
            assert_eq!(done, ended);
            assert!(into.read()[..] == [7; 4096] && device.overdue().is_none());
        }
    }

    #[test]
    fn a_command_that_takes_too_long_is_reported_and_waited_for() {
        let (stuck, mut device) = device(false, Duration::ZERO, Late::Reported);
        let mut done = Vec::new();
        device.submit(Token(1), read(&room()));
        device.reap(None, &mut done);
        assert!(done.is_empty() && stuck.asked().len() == 1);
        let said = device.overdue().expect("it is late");
        assert_eq!(said, "d.img has not ended a command in 0 s, and 1 are under way");
    }

    #[test]
    fn a_device_that_is_given_up_gets_and_changes_nothing_any_more() {
        let (stuck, mut device) = device(false, Duration::ZERO, Late::GivenUp);
        let (into, mut done) = (room(), Vec::new());
        device.submit(Token(1), read(&into));
        device.submit(Token(2), Command::Flush(thermocline_types::DeviceId(0)));
        device.reap(None, &mut done);
        let ended = [1, 2].map(|token| Completion::new(Token(token), Err(LATE)));
        assert_eq!(done, ended);
        done.clear();
        device.submit(Token(3), read(&into));
        device.reap(None, &mut done);
        assert_eq!(done, [Completion::new(Token(3), Err(LATE))]);
        assert_eq!(stuck.asked().len(), 2, "it was not asked");
        // The memory can be used for a read from elsewhere, whatever the device does now.
        into.write().fill(1);
        for (_, command) in stuck.asked().drain(..) {
            if let Command::Read { into, .. } = command {
                into.write().fill(9);
            }
        }
        assert!(into.read()[..] == [1; 4096] && device.overdue().is_none());
        done.clear();
        device.inner_mut().submit(Token(0), Command::Flush(thermocline_types::DeviceId(0)));
        device.end(Completion::new(Token(0), Ok(())), &mut done);
        assert!(done.is_empty(), "what ends later is not heard");
    }
}
