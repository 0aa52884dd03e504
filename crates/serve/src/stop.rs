//! The stop of a server: how long clients have, signals that end the waiting early, and resources of the stop.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thermocline_types::Bytes;

use crate::Error;

/// Signals within this time count as one signal: a terminal and a supervisor in the terminal may both send one. Chosen.
const ONE: Duration = Duration::from_secs(1);

/// Interval between checks for the end of a stop: short against a stop's duration. Chosen, not measured.
const STEP: Duration = Duration::from_millis(5);

/// Address space reserved for the stop, and the least address space to start with. Chosen: a few stacks of threads.
const KEPT: usize = 8 << 20;
const TO_BEGIN: usize = 64 << 20;

/// Stack of a thread that waits for a stop. Chosen.
const STACK: usize = 256 << 10;

/// Memory reserved for the stop. Without memory the program would be aborted.
pub struct Kept(#[expect(dead_code, reason = "it is freed when this is dropped")] Vec<u8>);

impl Kept {
    /// Takes it.
    ///
    /// # Errors
    /// When there is too little left to serve with.
    pub fn take() -> Result<Kept, Error> {
        let room = |bytes| {
            let mut room = Vec::new();
            room.try_reserve_exact(bytes).map(|()| room)
        };
        let kept = room(TO_BEGIN).and_then(|_freed| room(KEPT));
        kept.map(Kept).map_err(|_| {
            let least = Bytes(TO_BEGIN as u64);
            Error::Refused(format!(
                "less than {least} of address space are left to serve with: raise the limit (`ulimit -v`)"
            ))
        })
    }
}

/// A thread for one job of the stop, started early: at the stop the system may have no thread to give.
pub struct Worker {
    work: Sender<Box<dyn FnOnce() + Send>>,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Starts the thread, which waits for its job.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(name: &str) -> io::Result<Worker> {
        let (work, receiver) = channel::<Box<dyn FnOnce() + Send>>();
        let run = move || receiver.recv().into_iter().for_each(|work| work());
        let builder = thread::Builder::new().name(name.to_owned()).stack_size(STACK);
        Ok(Worker { work, thread: builder.spawn(run)? })
    }

    /// Hands the job to the thread. The thread is finished when the job is done.
    pub fn run(self, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        // The thread waits until the sender is dropped.
        let _ = self.work.send(Box::new(work));
        self.thread
    }
}

/// How a waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// It is done.
    Done,
    /// Its time was over.
    TooLong(Duration),
    /// There was another signal.
    Hurried,
}

impl Waited {
    /// Why it was not waited for any longer; nothing of what is done.
    pub fn why(self) -> Option<String> {
        match self {
            Waited::Done => None,
            Waited::TooLong(patience) => Some(format!("in {} s", patience.as_secs())),
            Waited::Hurried => Some("before another signal ended the waiting".to_owned()),
        }
    }
}

/// Asks a server to stop.
#[derive(Clone, Debug)]
pub struct StopHandle(Sender<()>);

impl StopHandle {
    /// Asks for the stop; again, a second later or more, ends the waiting for clients, or for the device.
    pub fn stop(&self) {
        // A server that has ended needs no stop.
        let _ended = self.0.send(());
    }
}

/// The stop of a server, which is asked for by [`StopHandle::stop`] before or after the server begins.
#[derive(Debug)]
pub struct Stop {
    handle: StopHandle,
    asked: Receiver<()>,
    /// When the last request came that counted.
    counted: Instant,
    patience: Duration,
}

impl Default for Stop {
    fn default() -> Stop {
        let (sender, asked) = channel();
        let handle = StopHandle(sender);
        Stop { handle, asked, counted: Instant::now(), patience: Duration::ZERO }
    }
}

impl Stop {
    /// Asks for this stop.
    #[must_use]
    pub fn handle(&self) -> StopHandle {
        self.handle.clone()
    }

    /// Waits until the stop is asked for. From then on everybody has this much time.
    pub(crate) fn begun(&mut self, patience: Duration) {
        // The sender lives as long as this receiver.
        let _first = self.asked.recv();
        (self.counted, self.patience) = (Instant::now(), patience);
    }

    /// Waits until `done`, or until patience or another signal ends that.
    pub(crate) fn wait(&mut self, done: impl Fn() -> bool) -> Waited {
        let until = Instant::now() + self.patience;
        while !done() {
            let hurried = self.hurried();
            if done() {
                break;
            }
            if hurried {
                return Waited::Hurried;
            }
            if Instant::now() >= until {
                return Waited::TooLong(self.patience);
            }
        }
        Waited::Done
    }

    /// Waits for a moment. Returns whether another signal came meanwhile.
    fn hurried(&mut self) -> bool {
        match self.asked.recv_timeout(STEP) {
            Ok(()) if self.counted.elapsed() >= ONE => {
                self.counted = Instant::now();
                true
            }
            // The sender lives as long as this receiver.
            Ok(()) | Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A stop that was asked for so many times.
    fn asked(times: usize, patience: Duration) -> Stop {
        let mut stop = Stop::default();
        (0..times).for_each(|_| stop.handle().stop());
        stop.begun(patience);
        stop
    }

    #[test]
    fn signals_one_behind_the_other_are_one_stop() {
        let mut stop = asked(3, LONG);
        let enough = Instant::now() + 10 * STEP;
        assert_eq!(stop.wait(|| Instant::now() > enough), Waited::Done);
        assert!(stop.asked.try_recv().is_err(), "the others have come");
    }

    #[test]
    fn a_later_signal_ends_one_waiting() {
        let mut stop = asked(3, LONG);
        stop.counted -= ONE;
        let waited = stop.wait(|| false);
        assert_eq!(waited, Waited::Hurried);
        assert_eq!(waited.why().unwrap(), "before another signal ended the waiting");
        let enough = Instant::now() + 10 * STEP;
        assert_eq!(stop.wait(|| Instant::now() > enough), Waited::Done, "it was sent twice");
    }

    #[test]
    fn what_takes_too_long_is_not_waited_for() {
        let mut stop = asked(1, Duration::ZERO);
        let waited = stop.wait(|| false);
        assert_eq!(waited, Waited::TooLong(Duration::ZERO));
        assert_eq!(waited.why().unwrap(), "in 0 s");
        assert_eq!(stop.wait(|| true).why(), None);
    }
}
