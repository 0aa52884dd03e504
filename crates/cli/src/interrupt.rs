//! Ctrl-C or SIGTERM: the first ends the work early, so that what there is can be shown; the second ends the program at
//! once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Exit code of a program that was interrupted, as shells have it: 128 and the number of the signal.
pub const CODE: u8 = 130;

/// Watches for Ctrl-C, which until then ends the program.
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    /// Whether there was something to show.
    shown: AtomicBool,
    /// Whether the next one ends the program: it is the second, or there is nothing to show.
    at_once: Arc<AtomicBool>,
}

impl Interrupt {
    /// Watches from now on. As long as there is nothing to show, the first Ctrl-C ends the program as well.
    pub fn watch() -> anyhow::Result<Interrupt> {
        let (asked, at_once) = (Arc::default(), Arc::new(AtomicBool::new(true)));
        let shown = AtomicBool::new(false);
        // In the order of their registration: the first looks at the flag before the second sets it.
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, i32::from(CODE), Arc::clone(&at_once))
                .and_then(|_| flag::register(signal, Arc::clone(&at_once)))
                .and_then(|_| flag::register(signal, Arc::clone(&asked)))
                .context("signals cannot be handled")?;
        }
        Ok(Interrupt { asked, shown, at_once })
    }

    /// From now on there is something to show: the next Ctrl-C only asks for an end.
    pub fn something_to_show(&self) {
        self.something_to_clear();
        self.shown.store(true, Ordering::Relaxed);
    }

    /// The same, but nothing will be shown: what was begun has to be taken away.
    pub fn something_to_clear(&self) {
        if !self.is_asked() {
            self.at_once.store(false, Ordering::Relaxed);
        }
    }

    /// Whether an end was asked for.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// What is set when an end is asked for.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// An error if an end was asked for: what was shown is not all.
    pub fn check(&self) -> anyhow::Result<()> {
        let shown = self.shown.load(Ordering::Relaxed);
        if self.is_asked() { Err(Interrupted { shown }.into()) } else { Ok(()) }
    }
}

/// The work was ended early by Ctrl-C.
#[derive(Debug)]
pub struct Interrupted {
    /// Whether what there was has been shown.
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
