//! A target that keeps requests until they are released.

use std::sync::{Arc, Mutex};

use thermocline_target::{BlockTarget, Info, Memory, Request};

pub struct HeldMemory {
    target: Arc<Memory>,
    /// `None`: nothing is kept.
    waiting: Mutex<Option<Vec<Request>>>,
}

impl HeldMemory {
    pub fn new(target: Arc<Memory>) -> Arc<HeldMemory> {
        Arc::new(HeldMemory { target, waiting: Mutex::new(Some(Vec::new())) })
    }

    pub fn waiting(&self) -> usize {
        self.waiting.lock().unwrap().as_ref().map_or(0, Vec::len)
    }

    /// Carries out the requests that wait.
    pub fn release(&self) {
        let waiting = self.waiting.lock().unwrap().as_mut().map(std::mem::take);
        waiting.into_iter().flatten().for_each(|request| self.target.submit(request));
    }

    /// Keeps nothing any more.
    pub fn open(&self) {
        self.release();
        *self.waiting.lock().unwrap() = None;
    }
}

impl BlockTarget for HeldMemory {
    fn info(&self) -> Info {
        self.target.info()
    }

    fn submit(&self, request: Request) {
        let mut waiting = self.waiting.lock().unwrap();
        match waiting.as_mut() {
            Some(waiting) => waiting.push(request),
            None => {
                drop(waiting);
                self.target.submit(request);
            }
        }
    }
}
