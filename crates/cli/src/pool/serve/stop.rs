//! The stop of a server: how long clients have, signals that end the waiting early, and resources of the stop.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, fs, io};

use thermocline_types::Bytes;

/// Signals within this time are one: a terminal and whoever runs the server in it each send theirs. Chosen.
const ONE: Duration = Duration::from_secs(1);

/// Between two looks at whether it is done: short against what a stop takes. Chosen, not measured.
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
    pub fn take() -> anyhow::Result<Kept> {
        let room = |bytes| {
            let mut room = Vec::new();
            room.try_reserve_exact(bytes).map(|()| room)
        };
        let kept = room(TO_BEGIN).and_then(|_freed| room(KEPT));
        kept.map(Kept).map_err(|_| {
            anyhow::anyhow!(
                "less than {} of address space are left to serve with: raise the limit (`ulimit -v`)",
                Bytes(TO_BEGIN as u64)
            )
        })
    }
}

/// The variable by which mimalloc reserves memory at the start of a program (`mi_option_reserve_os_memory`), and how
/// much.
/// Without a reserve, threads that begin may find no byte. Chosen, not measured.
const RESERVED: (&str, &str) = ("MIMALLOC_RESERVE_OS_MEMORY", "64MiB");

/// Begins the program anew with memory reserved, where the address space is limited (`ulimit -v`; proc(5)) and none is.
///
/// # Errors
/// When the program cannot be begun.
pub fn reserve_if_limited() -> io::Result<()> {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space"));
    let limited = limit.is_some_and(|limit| !limit.trim_start().starts_with("unlimited"));
    let (key, value) = RESERVED;
    if !limited || env::var_os(key).is_some() {
        return Ok(());
    }
    Err(Command::new(env::current_exe()?).args(env::args_os().skip(1)).env(key, value).exec())
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

/// A stop that a signal began.
pub struct Stop {
    signals: Receiver<i32>,
    /// When the last signal came that counted.
    counted: Instant,
    patience: Duration,
}

impl Stop {
    /// Waits for a signal. From then on everybody has this much time.
    pub fn asked(signals: Receiver<i32>, patience: Duration) -> Stop {
        // Whoever sends signals lives as long as the program.
        let _first = signals.recv();
        Stop { signals, counted: Instant::now(), patience }
    }

    /// Waits until `done`, or until patience or another signal ends that.
    pub fn wait(&mut self, done: impl Fn() -> bool) -> Waited {
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
        match self.signals.recv_timeout(STEP) {
            Ok(_) if self.counted.elapsed() >= ONE => {
                self.counted = Instant::now();
                true
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(STEP);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn signals_one_behind_the_other_are_one_stop() {
        let (sender, signals) = channel();
        (0..3).for_each(|signal| sender.send(signal).unwrap());
        let mut stop = Stop::asked(signals, LONG);
        let enough = Instant::now() + 10 * STEP;
        assert_eq!(stop.wait(|| Instant::now() > enough), Waited::Done);
        assert!(stop.signals.try_recv().is_err(), "the others have come");
    }

    #[test]
    fn a_later_signal_ends_one_waiting() {
        let (sender, signals) = channel();
        sender.send(0).unwrap();
        let mut stop = Stop::asked(signals, LONG);
        stop.counted -= ONE;
        (0..2).for_each(|signal| sender.send(signal).unwrap());
        let waited = stop.wait(|| false);
        assert_eq!(waited, Waited::Hurried);
        assert_eq!(waited.why().unwrap(), "before another signal ended the waiting");
        let enough = Instant::now() + 10 * STEP;
        assert_eq!(stop.wait(|| Instant::now() > enough), Waited::Done, "it was sent twice");
    }

    #[test]
    fn what_takes_too_long_is_not_waited_for() {
        let (sender, signals) = channel();
        sender.send(0).unwrap();
        let mut stop = Stop::asked(signals, Duration::ZERO);
        let waited = stop.wait(|| false);
        assert_eq!(waited, Waited::TooLong(Duration::ZERO));
        assert_eq!(waited.why().unwrap(), "in 0 s");
        assert_eq!((stop.wait(|| true).why(), drop(sender)), (None, ()));
    }
}
