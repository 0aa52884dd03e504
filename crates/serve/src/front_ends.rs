//! Front ends beside NBD.

use std::sync::Arc;
use std::thread::JoinHandle;

use thermocline_format::VolumeName;
use thermocline_runtime::Settings;
use thermocline_target::Exports;

use crate::Error;
use crate::backend::Backend;
use crate::files::Files;
use crate::guests::Guests;
use crate::log::Log;
use crate::nvme::Nvme;
use crate::sockets::Reach;
use crate::stop::Worker;
use crate::ublk::Disks;

/// Where clients find the volume of a name, if they do.
pub type Address = Arc<dyn Fn(&VolumeName) -> Option<String> + Send + Sync>;

/// A front end that is served.
pub trait FrontEnd: Send {
    /// Where clients find volumes.
    fn address(&self) -> Address;

    /// What an operator reads if [`FrontEnd::end`] takes too long.
    fn not_ended(&self) -> &'static str;

    /// Answers requests under way and ends the service. It may block.
    fn end(self: Box<Self>, log: &Log);
}

/// All front ends beside NBD, each with a thread for its end.
pub struct FrontEnds(Vec<(Box<dyn FrontEnd>, Worker)>);

impl FrontEnds {
    /// Starts the front ends of pool `id` that `settings` name, and adds them to `reach`. Volumes that one cannot show
    /// are noted.
    ///
    /// # Errors
    /// When one cannot start.
    pub fn open(
        settings: &Settings,
        id: &str,
        exports: &Exports,
        backend: &Backend,
        read_only: bool,
        reach: &mut Reach,
        log: &Log,
    ) -> Result<FrontEnds, Error> {
        let mut front_ends: Vec<Box<dyn FrontEnd>> = Vec::new();
        if let Some(path) = &settings.serve.fuse {
            let volumes = backend.volume_names();
            front_ends.push(Box::new(Files::mount(path, exports, &volumes, read_only, log)?));
        }
        if let Some(folder) = &settings.serve.vhost_user {
            front_ends.push(Box::new(Guests::serve(folder, exports, backend.tell_wear(), log)?));
        }
        if settings.serve.ublk {
            front_ends.push(Box::new(Disks::serve(settings, id, exports, log)?));
        }
        if let Some(address) = &settings.serve.nvme_tcp {
            front_ends.push(Box::new(Nvme::serve(address, settings, id, exports, log)?));
        }
        let worker = || Worker::start("thermocline-end").map_err(Error::io("no thread for an end"));
        let with_worker = |way: Box<dyn FrontEnd>| {
            reach.add(way.address());
            Ok((way, worker()?))
        };
        Ok(FrontEnds(front_ends.into_iter().map(with_worker).collect::<Result<_, Error>>()?))
    }

    /// Ends each on its own thread, because a device may hang.
    pub fn end(self, log: &Log) -> Vec<Leaving> {
        let end = |(way, worker): (Box<dyn FrontEnd>, Worker)| {
            let (log, not_ended) = (log.clone(), way.not_ended());
            Leaving { not_ended, thread: worker.run(move || way.end(&log)) }
        };
        self.0.into_iter().map(end).collect()
    }
}

/// A front end that ends.
pub struct Leaving {
    /// What an operator reads if it takes too long.
    pub not_ended: &'static str,
    thread: JoinHandle<()>,
}

impl Leaving {
    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }
}
