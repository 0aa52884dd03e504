//! The thread of one frontend.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thermocline_target::Bell;
use vhost::vhost_user::BackendReqHandler;

use crate::device::Device;

/// Serves the frontend at `stream` until it goes, breaks the protocol, or `stopping` is set and `bell` rings.
pub(crate) fn serve(stream: UnixStream, device: Device, bell: &Bell, stopping: &AtomicBool) {
    let Ok(socket) = stream.try_clone() else { return };
    // The lock is for the library: only this thread takes it.
    let device = Arc::new(Mutex::new(device));
    let mut messages = BackendReqHandler::from_stream(stream, Arc::clone(&device));
    let mut has_more = false;
    let is_lost = loop {
        let Some(found) = wait(&device, &socket, bell, has_more) else { break true };
        let is_over = found && messages.handle_request().is_err();
        // A stop shuts the socket down for reading, which no frontend did.
        if stopping.load(Ordering::Acquire) {
            break false;
        }
        if is_over {
            break true;
        }
        has_more = lock(&device).turn();
    };
    lock(&device).end(is_lost);
}

/// Waits for something to do. Returns whether there is a message; `None` if the frontend is gone.
fn wait(device: &Mutex<Device>, socket: &UnixStream, bell: &Bell, has_more: bool) -> Option<bool> {
    let mut device = lock(device);
    let mut events = vec![PollFd::new(socket, PollFlags::IN), PollFd::new(bell, PollFlags::IN)];
    let (rings, kicks): (Vec<usize>, Vec<_>) = device.kicks().unzip();
    events.extend(kicks.into_iter().map(|kick| PollFd::new(kick, PollFlags::IN)));
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // A signal only makes the thread look once more.
    let _signal = poll(&mut events, has_more.then_some(&now));
    let [found, _, kicks @ ..] = &events[..] else { unreachable!("the first two are there") };
    let is_set = |event: &&PollFd<'_>| !event.revents().is_empty();
    let heard: Vec<usize> =
        rings.iter().zip(kicks).filter(|(_, kick)| is_set(kick)).map(|(ring, _)| *ring).collect();
    let found = found.revents();
    heard.into_iter().for_each(|ring| device.heard(ring));
    // Messages before the end need no answer any more.
    (!found.intersects(PollFlags::HUP | PollFlags::ERR)).then_some(found.contains(PollFlags::IN))
}

fn lock(device: &Mutex<Device>) -> MutexGuard<'_, Device> {
    device.lock().unwrap_or_else(PoisonError::into_inner)
}
