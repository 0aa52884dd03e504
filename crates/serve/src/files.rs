//! The volumes as files, where that was asked for.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use thermocline_fuse::{Directory, Mounted, Unmounted, Volume, mount};
use thermocline_nbd::Export;

use crate::stop::Worker;
use crate::{Error, Operator};

/// An optional mount.
pub struct Files {
    mounted: Option<(Mounted, Worker)>,
}

impl Files {
    /// Mounts the targets of `exports` on the folder `path`, if given. Both front ends share the targets. So
    /// partial-block writes through both front ends cannot overwrite each other.
    ///
    /// # Errors
    /// If the mount fails.
    pub fn mount(
        path: Option<&Path>,
        exports: &[Export],
        read_only: bool,
        operator: &Arc<dyn Operator>,
    ) -> Result<Files, Error> {
        let Some(path) = path else { return Ok(Files { mounted: None }) };
        let volume = |export: &Export| {
            let Export { name, target, .. } = export.clone();
            Volume { name, target }
        };
        let (files, others): (Vec<&Export>, Vec<_>) =
            exports.iter().partition(|export| Directory::may_have(&export.name).is_ok());
        for Export { name, .. } in others {
            operator.note(format_args!(
                "volume {name:?} is no file in {}: no file can have this name",
                path.display()
            ));
        }
        let worker = Worker::start("thermocline-unmount");
        let worker = worker.map_err(Error::io("no thread to unmount"))?;
        let mounted = mount(path, files.into_iter().map(volume).collect(), read_only)?;
        Ok(Files { mounted: Some((mounted, worker)) })
    }

    /// Where the files are.
    pub fn path(&self) -> Option<&Path> {
        self.mounted.as_ref().map(|(mounted, _)| mounted.path())
    }

    /// The files.
    pub fn directory(&self) -> Option<Directory> {
        self.mounted.as_ref().map(|(mounted, _)| mounted.directory().clone())
    }

    /// Unmounts on a separate thread, because a device may hang. The thread ends after unmounting. `None` if nothing is
    /// mounted.
    pub fn unmount(self, operator: &Arc<dyn Operator>) -> Option<JoinHandle<()>> {
        let (mounted, worker) = self.mounted?;
        let operator = Arc::clone(operator);
        let unmount = move || {
            let path = mounted.path().display().to_string();
            match mounted.unmount() {
                Ok(Unmounted::Clean) => {}
                Ok(Unmounted::InUse) => {
                    operator
                        .note(format_args!("{path} is in use; whoever uses it gets errors now"));
                }
                Err(error) => operator.note(format_args!("cannot unmount {path}: {error}")),
            }
        };
        Some(worker.run(unmount))
    }
}
