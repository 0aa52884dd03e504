//! The sleeper of the outbox, in all orders of two threads that the memory model of the language allows. The source is
//! that of the product; its atomics are others.
//!
//! With a third thread loom reports orders that the language excludes: loom does not order a read-modify-write before
//! later stores of other threads.

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

mod sync {
    pub use loom::sync::atomic::{AtomicBool, Ordering, fence};
}

#[path = "../src/outbox/sleeper.rs"]
mod sleeper;

use sleeper::Sleeper;

/// An outbox with a bell in the place of the socket. Loom finds a server that sleeps for ever.
struct Outbox {
    outcomes: Mutex<u32>,
    server: Sleeper,
    /// Whether it has rung and was not heard.
    bell: Mutex<bool>,
    rung: Condvar,
}

impl Outbox {
    fn new() -> Arc<Outbox> {
        let (outcomes, server) = (Mutex::new(0), Sleeper::new());
        let (bell, rung) = (Mutex::new(false), Condvar::new());
        Arc::new(Outbox { outcomes, server, bell, rung })
    }

    fn outcomes(&self) -> loom::sync::MutexGuard<'_, u32> {
        self.outcomes.lock().expect("no panic")
    }

    fn push(&self) {
        *self.outcomes() += 1;
        self.server.notify(|| self.ring());
    }

    fn ring(&self) {
        *self.bell.lock().expect("no panic") = true;
        self.rung.notify_one();
    }

    /// Waits for the bell.
    fn sleep(&self) {
        let mut bell = self.bell.lock().expect("no panic");
        while !*bell {
            bell = self.rung.wait(bell).expect("no panic");
        }
        *bell = false;
    }

    /// Sleeps, if there is nothing; then takes what there is.
    fn turn(&self) -> u32 {
        if !self.server.prepare(|| *self.outcomes() > 0) {
            self.sleep();
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
fn who_wakes_is_heard_without_an_outcome() {
    loom::model(|| {
        let outbox = Outbox::new();
        let other = Arc::clone(&outbox);
        let waker = thread::spawn(move || other.server.wake(|| other.ring()));
        assert_eq!(outbox.turn(), 0);
        waker.join().expect("no panic");
    });
}
