//! The sleeper of the outbox, in all orders of threads that the memory model of the language allows. The source is that
//! of the product; its atomics are others.

use loom::sync::{Arc, Mutex, Notify};
use loom::thread;

mod sync {
    pub use loom::sync::atomic::{AtomicBool, Ordering};
}

#[path = "../src/outbox/sleeper.rs"]
mod sleeper;

use sleeper::Sleeper;

/// An outbox with a bell in the place of the socket. Loom finds a server that sleeps for ever.
struct Outbox {
    outcomes: Mutex<u32>,
    server: Sleeper,
    bell: Notify,
}

impl Outbox {
    fn new() -> Arc<Outbox> {
        let (outcomes, server, bell) = (Mutex::new(0), Sleeper::new(), Notify::new());
        Arc::new(Outbox { outcomes, server, bell })
    }

    fn outcomes(&self) -> loom::sync::MutexGuard<'_, u32> {
        self.outcomes.lock().expect("no panic")
    }

    fn push(&self) {
        *self.outcomes() += 1;
        self.server.notify(|| self.bell.notify());
    }

    /// Sleeps, if there is nothing; then takes what there is.
    fn turn(&self) -> u32 {
        if !self.server.prepare(|| *self.outcomes() > 0) {
            self.bell.wait();
        }
        self.server.end();
        std::mem::take(&mut *self.outcomes())
    }
}

#[test]
fn an_outcome_ends_the_sleep_or_keeps_it_from_beginning() {
    loom::model(|| {
        let outbox = Outbox::new();
        let other = Arc::clone(&outbox);
        let target = thread::spawn(move || other.push());
        while outbox.turn() == 0 {}
        target.join().expect("no panic");
    });
}

#[test]
fn of_two_outcomes_none_is_left_behind() {
    loom::model(|| {
        let outbox = Outbox::new();
        let push = || {
            let other = Arc::clone(&outbox);
            thread::spawn(move || other.push())
        };
        let targets = [push(), push()];
        let mut taken = 0;
        while taken < 2 {
            taken += outbox.turn();
        }
        targets.into_iter().for_each(|target| target.join().expect("no panic"));
    });
}

#[test]
fn who_wakes_is_heard_without_an_outcome() {
    loom::model(|| {
        let outbox = Outbox::new();
        let other = Arc::clone(&outbox);
        let waker = thread::spawn(move || other.server.wake(|| other.bell.notify()));
        assert_eq!(outbox.turn(), 0);
        waker.join().expect("no panic");
    });
}
