//! Work without the interpreter's lock, which signals end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use thermocline::lab::Error;

use crate::errors::raised;

/// Time between two looks for signals. Chosen: shorter than a person notices.
const TICK: Duration = Duration::from_millis(50);

/// The result of `work`, which runs on a thread of its own. A signal sets `stop` and is raised at once; the thread ends
/// when it sees `stop`.
///
/// # Errors
/// Those of `work`, and what a handler of a signal raises.
pub fn watched<T: Send + 'static>(
    py: Python<'_>,
    stop: Arc<AtomicBool>,
    work: impl FnOnce(&Arc<AtomicBool>) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let (send, receive) = mpsc::channel();
    let seen = Arc::clone(&stop);
    // The receiver is gone if a signal was raised.
    thread::spawn(move || drop(send.send(work(&seen))));
    py.detach(move || {
        loop {
            match receive.recv_timeout(TICK) {
                Ok(result) => return result.map_err(|error| raised(&error)),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(raised) = Python::attach(|py| py.check_signals()) {
                        stop.store(true, Ordering::Relaxed);
                        return Err(raised);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let text = "a thread of the lab panicked: its message is on standard error";
                    return Err(PyRuntimeError::new_err(text));
                }
            }
        }
    })
}
