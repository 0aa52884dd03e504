//! The volumes as disks of virtual machines.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_format::VolumeName;
use thermocline_target::Exports;
use thermocline_vhost::{GuestDisks, Hooks, Wear, serve, socket};

use crate::Error;
use crate::front_ends::{Address, FrontEnd};
use crate::log::Log;
use crate::sockets::listen;

/// How the devices of a pool wear.
pub type TellWear = Box<dyn Fn() -> Wear + Send + Sync>;

/// A folder with a vhost-user socket for each volume.
pub struct Guests {
    disks: GuestDisks,
    folder: PathBuf,
}

impl Guests {
    /// Serves `exports` in `folder`, which is made if it is missing.
    ///
    /// # Errors
    /// If the folder cannot be made, or the system has no thread to give.
    pub fn serve(
        folder: &Path,
        exports: &Exports,
        wear: Option<TellWear>,
        log: &Log,
    ) -> Result<Guests, Error> {
        make(folder).map_err(Error::io("no folder for sockets of guests"))?;
        let (clients, troubles) = (log.clone(), log.clone());
        let hooks = Hooks {
            bind: Box::new(|path| match listen(path) {
                Ok((socket, file)) => Ok((socket, Box::new(file))),
                Err(error) => Err(error.to_string()),
            }),
            wear,
            client: Box::new(move |event| clients.client(event)),
            trouble: Box::new(move |why| troubles.warn(format_args!("{why}"))),
        };
        let disks = serve(exports, folder, hooks).map_err(Error::io("no thread for guests"))?;
        Ok(Guests { disks, folder: std::path::absolute(folder)? })
    }
}

/// Makes a missing folder, for this user only.
fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o700))),
    }
}

impl FrontEnd for Guests {
    fn address(&self) -> Address {
        let folder = self.folder.clone();
        Arc::new(move |volume: &VolumeName| {
            let path = volume.is_file_name().then(|| socket(&folder, volume.as_str()))?;
            Some(format!("vhost-user:{}", path.display()))
        })
    }

    fn not_ended(&self) -> &'static str {
        "not every virtual machine got an answer"
    }

    fn end(self: Box<Self>, _log: &Log) {
        self.disks.end();
    }
}
