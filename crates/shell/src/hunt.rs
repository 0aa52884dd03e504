//! Deliberate bugs of the shell, and the worlds that find them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thermocline_target::bugs::{self, ShellBug};

use crate::world::ShellWorld;

/// Looks for a bug in up to `worlds` worlds, from `seed` on. Returns the number of worlds run and the error found. An
/// error counts only if the same world without the bug is sound.
#[must_use]
pub fn hunt(bug: ShellBug, seed: u64, worlds: u64) -> Option<(u64, String)> {
    for world in seed..seed + worlds {
        bugs::set(Some(bug));
        let found = catch_unwind(AssertUnwindSafe(|| ShellWorld::run(world)));
        bugs::set(None);
        let wrong = match found {
            Ok(Ok(_)) => continue,
            Ok(Err(what)) => what,
            Err(_) => "a panic".to_owned(),
        };
        if ShellWorld::run(world).is_ok() {
            return Some((world - seed + 1, wrong));
        }
    }
    None
}
