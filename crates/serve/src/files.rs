//! The volumes as files.

use std::path::Path;
use std::sync::Arc;

use thermocline_format::VolumeName;
use thermocline_fuse::{Mounted, Unmounted, mount};
use thermocline_target::Exports;

use crate::Error;
use crate::front_ends::{Address, FrontEnd};
use crate::log::Log;
use crate::sockets::escaped;

/// A folder with a file for each volume.
pub struct Files(Mounted);

impl Files {
    /// Mounts `exports` on the folder `path`. Volumes with one of the names `volumes` that no file can have are noted.
    ///
    /// # Errors
    /// If the mount fails.
    pub fn mount(
        path: &Path,
        exports: &Exports,
        volumes: &[VolumeName],
        read_only: bool,
        log: &Log,
    ) -> Result<Files, Error> {
        for name in volumes.iter().filter(|name| !name.is_file_name()) {
            log.warn(format_args!(
                "volume {:?} is no file in {}: no file can have this name",
                name.as_str(),
                path.display()
            ));
        }
        let clients = log.clone();
        Ok(Files(mount(path, exports, read_only, move |event| clients.client(event))?))
    }
}

impl FrontEnd for Files {
    fn address(&self) -> Address {
        let folder = escaped(&self.0.path().to_string_lossy());
        Arc::new(move |volume| {
            let name = volume.is_file_name().then(|| escaped(volume.as_str()))?;
            Some(format!("file://{folder}/{name}"))
        })
    }

    fn not_ended(&self) -> &'static str {
        "the files were not unmounted"
    }

    fn end(self: Box<Self>, log: &Log) {
        let path = self.0.path().display().to_string();
        match self.0.unmount() {
            Ok(Unmounted::Clean) => {}
            Ok(Unmounted::InUse) => {
                log.warn(format_args!("{path} is in use; whoever uses it gets errors now"));
            }
            Err(error) => log.warn(format_args!("cannot unmount {path}: {error}")),
        }
    }
}
