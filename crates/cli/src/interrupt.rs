//! Ctrl-C or SIGTERM: the first signal ends the work early, and partial results are shown. The second signal ends the
//! program at once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Exit code after an interrupt, as in shells: 128 plus the number of the signal.
pub const CODE: u8 = 130;

/// Watches for Ctrl-C. Without a watch, Ctrl-C ends the program.
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    /// Whether partial results can be shown.
    shown: AtomicBool,
    /// Whether the next signal ends the program: it is the second signal, or the work has no partial results.
    at_once: Arc<AtomicBool>,
}

impl Interrupt {
    /// Starts the watch. Until the work has results to show or to clear, the first Ctrl-C also ends the program.
    pub fn watch() -> anyhow::Result<Interrupt> {
        let (asked, at_once) = (Arc::default(), Arc::new(AtomicBool::new(true)));
        let shown = AtomicBool::new(false);
        // Handlers run in the order of registration: the first reads the flag before the second sets the flag.
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, i32::from(CODE), Arc::clone(&at_once))
                .and_then(|_| flag::register(signal, Arc::clone(&at_once)))
                .and_then(|_| flag::register(signal, Arc::clone(&asked)))
                .context("signals cannot be handled")?;
        }
        Ok(Interrupt { asked, shown, at_once })
    }

    /// Partial results can be shown from now on: the next Ctrl-C only asks the work to end.
    pub fn something_to_show(&self) {
        self.something_to_clear();
        self.shown.store(true, Ordering::Relaxed);
    }

    /// The next Ctrl-C only asks the work to end: the caller must undo partial changes, and shows no results.
    pub fn something_to_clear(&self) {
        if !self.is_asked() {
            self.at_once.store(false, Ordering::Relaxed);
        }
    }

    /// Whether a signal asked the work to end.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The flag that a signal sets.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// An error if an end was asked for: the results are partial.
    pub fn check(&self) -> anyhow::Result<()> {
        let shown = self.shown.load(Ordering::Relaxed);
        if self.is_asked() { Err(Interrupted { shown }.into()) } else { Ok(()) }
    }
}

/// Ctrl-C ended the work early.
#[derive(Debug)]
pub struct Interrupted {
    /// Whether partial results were shown.
    shown: bool,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.shown {
            true => "interrupted: the figures are those of what was done by then",
            false => "interrupted",
        })
    }
}

impl std::error::Error for Interrupted {}
