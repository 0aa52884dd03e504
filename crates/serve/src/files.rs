//! The volumes as files, where that was asked for.

use std::path::Path;
use std::thread::JoinHandle;

use thermocline_format::VolumeName;
use thermocline_fuse::{Mounted, Unmounted, mount};
use thermocline_target::Exports;

use crate::Error;
use crate::log::Log;
use crate::stop::Worker;

/// An optional mount.
pub struct Files {
    mounted: Option<(Mounted, Worker)>,
}

impl Files {
    /// Mounts `exports` on the folder `path`, if given. Volumes with one of the names `volumes` that no file can have
    /// are noted.
    ///
    /// # Errors
    /// If the mount fails.
    pub fn mount(
        path: Option<&Path>,
        exports: &Exports,
        volumes: &[VolumeName],
        read_only: bool,
        log: &Log,
    ) -> Result<Files, Error> {
        let Some(path) = path else { return Ok(Files { mounted: None }) };
        for name in volumes.iter().filter(|name| !name.is_file_name()) {
            log.warn(format_args!(
                "volume {:?} is no file in {}: no file can have this name",
                name.as_str(),
                path.display()
            ));
        }
        let worker = Worker::start("thermocline-unmount");
        let worker = worker.map_err(Error::io("no thread to unmount"))?;
        let clients = log.clone();
        let mounted = mount(path, exports, read_only, move |event| clients.client(event))?;
        Ok(Files { mounted: Some((mounted, worker)) })
    }

    /// Where the files are.
    pub fn path(&self) -> Option<&Path> {
        self.mounted.as_ref().map(|(mounted, _)| mounted.path())
    }

    /// Unmounts on a separate thread, because a device may hang. The thread ends after unmounting. `None` if nothing is
    /// mounted.
    pub fn unmount(self, log: &Log) -> Option<JoinHandle<()>> {
        let (mounted, worker) = self.mounted?;
        let log = log.clone();
        let unmount = move || {
            let path = mounted.path().display().to_string();
            match mounted.unmount() {
                Ok(Unmounted::Clean) => {}
                Ok(Unmounted::InUse) => {
                    log.warn(format_args!("{path} is in use; whoever uses it gets errors now"));
                }
                Err(error) => log.warn(format_args!("cannot unmount {path}: {error}")),
            }
        };
        Some(worker.run(unmount))
    }
}
