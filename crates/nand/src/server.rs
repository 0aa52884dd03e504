//! Serial resources: buses, links, controllers.

/// A serial resource that never idles while work is waiting. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    free_at: u64,
    busy: u64,
}

impl Server {
    /// Serves `work` ns that is ready at `ready`, asked for at `now`; returns when it is done.
    pub(crate) fn serve(&mut self, now: u64, ready: u64, work: u64) -> u64 {
        self.busy += work;
        self.free_at = self.free_at.max(now) + work;
        self.free_at.max(ready + work)
    }

    /// The end of the queued work.
    pub(crate) fn free_at(&self) -> u64 {
        self.free_at
    }

    /// Total time at work.
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }
}
