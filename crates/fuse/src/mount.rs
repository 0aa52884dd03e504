//! Mounting, and the end of it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption, Session};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use thermocline_target::{ClientEvent, Exports};

use crate::files::Files;

/// Threads that take requests from the kernel. The threads never wait for media, so two suffice for the processor work.
/// Chosen, not measured.
const THREADS: usize = 2;

/// How often unmounting is tried while the mount is in use, for some use files only for a moment. Chosen, not measured.
const BUSY_TRIES: u32 = 10;
/// Between two looks at whether something has ended. Chosen, not measured.
const PAUSE: Duration = Duration::from_millis(20);

/// Why volumes are not mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// Nothing should be mounted there.
    #[error("cannot mount on {}: it {why}; take an empty folder", path.display())]
    Folder {
        /// Where.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The system does not mount there.
    #[error("cannot mount on {}: {error}{}", path.display(), hint(error))]
    Mount {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (mounting needs root, or the program fusermount3)",
        io::ErrorKind::NotFound => {
            " (it needs an existing folder, /dev/fuse, and, but for root, fusermount3)"
        }
        _ => "",
    }
}

/// How a mount ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmounted {
    /// Nobody used it.
    Clean,
    /// Programs have files open there, or loop devices use them: the mount has no name any more, but goes on for them
    /// as long as this process does.
    InUse,
}

/// Volumes that are mounted, and served by threads of their own until [`Mounted::unmount`]. A mount that is dropped is
/// unmounted unless it is in use.
#[derive(Debug)]
pub struct Mounted {
    session: BackgroundSession,
    path: PathBuf,
}

/// Mounts `exports` on the folder `path`. Each export is a file of its name that only this user and root can open. An
/// export without a file name has no file. `watcher` receives each open of a file and its end. The left-over mount of a
/// killed server is removed first.
///
/// # Errors
/// [`MountError`].
pub fn mount(
    path: &Path,
    exports: &Exports,
    read_only: bool,
    watcher: impl Fn(ClientEvent) + Send + Sync + 'static,
) -> Result<Mounted, MountError> {
    let cannot = |error| MountError::Mount { path: path.to_owned(), error };
    remove_left_over(path).map_err(cannot)?;
    if let Some(why) = objection(path).map_err(cannot)? {
        return Err(MountError::Folder { path: path.to_owned(), why });
    }
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("thermocline".to_owned()),
        MountOption::Subtype("thermocline".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoExec,
        if read_only { MountOption::RO } else { MountOption::RW },
    ];
    config.n_threads = Some(THREADS);
    let path = path.canonicalize().map_err(cannot)?;
    let session = Session::new(Files::new(exports.clone(), Box::new(watcher)), &path, &config);
    let session = session.and_then(Session::spawn).map_err(cannot)?;
    Ok(Mounted { session, path })
}

impl Mounted {
    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts, and waits for the end of the threads unless the mount is in use.
    ///
    /// # Errors
    /// When the system does not unmount.
    pub fn unmount(self) -> io::Result<Unmounted> {
        let Mounted { session, path } = self;
        for _ in 0..BUSY_TRIES {
            // Another user may have unmounted the session and mounted another file system at the path.
            if session.guard.is_finished() {
                return Ok(end(session));
            }
            match rustix::mount::unmount(&path, UnmountFlags::empty()) {
                Ok(()) => return Ok(end(session)),
                Err(Errno::BUSY) => thread::sleep(PAUSE),
                // Only fusermount3 may unmount; `umount_and_join` calls fusermount3.
                Err(_) => return session.umount_and_join().map(|()| Unmounted::Clean),
            }
        }
        detach(&path)?;
        // The session continues for open files.
        std::mem::forget(session);
        Ok(Unmounted::InUse)
    }
}

/// Waits for the threads of an unmounted session. Dropping the session would unmount the path again, and remove the
/// mount below: in `fuser` 0.18 an ended connection counts as mounted.
fn end(session: BackgroundSession) -> Unmounted {
    while !session.guard.is_finished() {
        thread::sleep(PAUSE);
    }
    std::mem::forget(session);
    Unmounted::Clean
}

/// Why nothing should be mounted on `path`.
fn objection(path: &Path) -> io::Result<Option<&'static str>> {
    if !std::fs::metadata(path)?.is_dir() {
        return Ok(Some("is no folder"));
    }
    let empty = std::fs::read_dir(path)?.next().is_none();
    Ok((!empty).then_some("is not empty, and what is in it could not be reached"))
}

/// Removes a mount whose server is dead. The kernel says so by ENOTCONN.
fn remove_left_over(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => detach(path),
        _ => Ok(()),
    }
}

/// Takes a mount out of the tree of files, though it is in use.
fn detach(path: &Path) -> io::Result<()> {
    match rustix::mount::unmount(path, UnmountFlags::DETACH) {
        Err(Errno::PERM) => {
            let status = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(path).status()?;
            if status.success() { Ok(()) } else { Err(Errno::PERM.into()) }
        }
        result => Ok(result?),
    }
}
