//! The device as a block target, through a driver in the guest.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use thermocline_target::{BlockTarget, Features, Info, Request, TargetError};
use thermocline_types::Bytes;

use super::guest::{DATA, ENTRIES, Guest, QUEUES};

/// Memory of a request: header, status, body.
const SLOT: u64 = 1 << 20;
/// Requests at once in a queue.
const SLOTS: u16 = ENTRIES / 3;

pub struct GuestDriver {
    info: Info,
    shared: Arc<(Mutex<State>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    guest: Guest,
    /// By queue and first descriptor.
    under_way: BTreeMap<(usize, u16), Request>,
    asked: usize,
    is_over: bool,
}

impl GuestDriver {
    pub fn new(mut guest: Guest) -> GuestDriver {
        let config = guest.config(60);
        let sectors = u64::from_le_bytes(config[..8].try_into().unwrap());
        let block = u32::from_le_bytes(config[20..24].try_into().unwrap());
        let has = |bit: u32| guest.features & 1 << bit != 0;
        let features = Features { flush: has(9), fua: false, trim: has(13), zeroes: has(14) };
        let (size, logical_block) = (Bytes(sectors * 512), Bytes(u64::from(block)));
        let info = Info { size, logical_block, features };
        let state = State { guest, under_way: BTreeMap::new(), asked: 0, is_over: false };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let own = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while !own.0.lock().unwrap().is_over {
                for of in 0..QUEUES {
                    hear(&own, of);
                }
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        GuestDriver { info, shared, thread: Some(thread) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap()
    }
}

/// Completes the requests of a queue that were answered, after an event of the device.
fn hear(shared: &(Mutex<State>, Condvar), of: usize) {
    let mut state = shared.0.lock().unwrap();
    if state.guest.calls[of].read().is_err() {
        return;
    }
    let mut completed = Vec::new();
    while let Some((head, written)) = state.guest.answer(of) {
        let request = state.under_way.remove(&(of, head)).expect("answered once");
        let at = slot(of, head);
        let status = state.guest.get(at + 16, 1)[0];
        completed.push(match (status, request) {
            (0, Request::Read { mut buffer, done, .. }) => {
                assert_eq!(written as usize, buffer.len() + 1);
                buffer.copy_from_slice(&state.guest.get(at + (64 << 10), written as usize - 1));
                Box::new(move || done.complete(Ok(buffer))) as Box<dyn FnOnce()>
            }
            (
                0,
                Request::Write { done, .. }
                | Request::Flush { done }
                | Request::Trim { done, .. }
                | Request::WriteZeroes { done, .. },
            ) => Box::new(move || done.complete(Ok(()))),
            (2, request) => Box::new(move || request.fail(TargetError::Unsupported)),
            (_, request) => Box::new(move || request.fail(TargetError::Io)),
        });
    }
    drop(state);
    shared.1.notify_all();
    completed.into_iter().for_each(|complete| complete());
}

fn slot(of: usize, head: u16) -> u64 {
    DATA + (of as u64 * u64::from(SLOTS) + u64::from(head) / 3) * SLOT
}

impl BlockTarget for GuestDriver {
    fn info(&self) -> Info {
        self.info
    }

    fn submit(&self, request: Request) {
        // The device answers all errors alike; what it must refuse is for other tests.
        if let Err(error) = request.check(&self.info) {
            return request.fail(error);
        }
        let mut state = self.state();
        state.asked += 1;
        let of = state.asked % QUEUES;
        let head = loop {
            let free = (0..SLOTS).map(|slot| 3 * slot);
            let free = free.into_iter().find(|&head| !state.under_way.contains_key(&(of, head)));
            match free {
                Some(head) => break head,
                None => state = self.shared.1.wait(state).unwrap(),
            }
        };
        let sector = request.range().map_or(0, |(offset, _)| offset.0 / 512);
        let range = |length: Bytes, flags: u32| {
            let count = (length.0 / 512) as u32;
            [&sector.to_le_bytes()[..], &count.to_le_bytes(), &flags.to_le_bytes()].concat()
        };
        let (kind, body, output) = match &request {
            Request::Read { buffer, .. } => (0, Vec::new(), buffer.len() as u32),
            Request::Write { buffer, .. } => (1, buffer.to_vec(), 0),
            Request::Flush { .. } => (4, Vec::new(), 0),
            Request::Trim { length, .. } => (11, range(*length, 0), 0),
            Request::WriteZeroes { length, no_hole, .. } => {
                (13, range(*length, u32::from(!no_hole)), 0)
            }
        };
        state.guest.describe_request(of, head, slot(of, head), (kind, sector), &body, output);
        state.under_way.insert((of, head), request);
        state.guest.ask(of, head);
    }
}

impl Drop for GuestDriver {
    fn drop(&mut self) {
        self.state().is_over = true;
        self.thread.take().map(JoinHandle::join).transpose().unwrap();
    }
}
