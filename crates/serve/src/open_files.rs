//! How many files a server has open, connections among them, against what the system allows (`getrlimit(2)`).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::http;
use crate::log::Log;

/// Files of the device, sockets and libraries (chosen, not measured), and connections of HTTP.
const OTHERS: u64 = 64 + 2 * http::CONNECTIONS as u64;

/// Files that a server of so many connections at once has open, at most.
#[must_use]
pub fn needed(connections: usize) -> u64 {
    (connections as u64).saturating_add(OTHERS)
}

/// Highest limit that the process may set; `None` without a maximum.
#[must_use]
pub fn allowed() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

/// Raises the limit of open files to the need of `connections`, or to the allowed maximum. A maximum that is too
/// low is logged. Shells and systemd set 1024 to protect programs that use `select(2)`; this program does not call
/// `select`.
pub(crate) fn raise_for(connections: usize, log: &Log) {
    let needed = needed(connections);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(current) = current.filter(|&current| current < needed) else { return };
    let to = maximum.map_or(needed, |maximum| maximum.min(needed));
    // On failure the current limit stays.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(to), maximum });
    let limit = if raised.is_ok() { to } else { current };
    if limit < needed {
        log.warn(format_args!(
            "{limit} files may be open; {connections} connections want {needed}"
        ));
    }
}
