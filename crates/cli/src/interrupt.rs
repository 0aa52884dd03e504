//! Ctrl-C: the first ends the work early, so that what there is can be shown; the second ends the program at once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// Exit code of a program that was interrupted, as shells have it: 128 and the number of the signal.
pub const CODE: u8 = 130;

/// Watches for Ctrl-C, which until then ends the program.
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    /// Whether the next one ends the program: it is the second, or there is nothing to show.
    at_once: Arc<AtomicBool>,
}

impl Interrupt {
    /// Watches from now on. As long as there is nothing to show, the first Ctrl-C ends the program as well.
    pub fn watch() -> anyhow::Result<Interrupt> {
        let (asked, at_once) = (Arc::default(), Arc::new(AtomicBool::new(true)));
        // In the order of their registration: the first looks at the flag before the second sets it.
        flag::register_conditional_shutdown(SIGINT, i32::from(CODE), Arc::clone(&at_once))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&at_once)))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&asked)))
            .context("signals cannot be handled")?;
        Ok(Interrupt { asked, at_once })
    }

    /// From now on there is something to show: the next Ctrl-C only asks for an end.
    pub fn something_to_show(&self) {
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
        if self.is_asked() { Err(Interrupted.into()) } else { Ok(()) }
    }
}

/// The work was ended early by Ctrl-C; what there was has been shown.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted: the figures are those of what was done by then")
    }
}

impl std::error::Error for Interrupted {}
