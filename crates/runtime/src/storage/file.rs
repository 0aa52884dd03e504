//! A file on any file system, or a block device.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, SeekFrom, flock, seek};
use rustix::io::{Errno, pwrite};
use thermocline_engine::{UnitCondition, UnitReport};
use thermocline_format::METADATA;
use thermocline_types::{Bytes, Class, UnitId};

use super::cache::read_from_media;
use super::holder;
use super::io::{Action, Call, Io};
use super::watch::{Fate, Watch};
use super::{
    Access, Command, Completion, Fault, IoEngine, Layout, OpenError, OpenErrorKind, Storage, Token,
    Waker,
};

/// How a file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How transfers are handed to the system.
    pub engine: IoEngine,
    /// Threads of [`IoEngine::Threads`]; as many transfers are under way at most. Chosen, not measured: 16.
    pub threads: usize,
    /// Whether to go past the system's cache (`O_DIRECT`); `None`: for block devices only.
    pub direct: Option<bool>,
    /// Whether a reset gives space back: a discard of a block device, a hole in a file; `None`: for block
    /// devices only. Holes cost the file system transactions, for which flushes wait (ADR 0018).
    pub discard: Option<bool>,
    /// Write streams of the block device that classes of data go to, by io_uring; 0: none. At most as many as the
    /// device has.
    pub streams: u8,
    /// Permitted access.
    pub access: Access,
}

impl Default for Options {
    fn default() -> Self {
        let (engine, access) = (IoEngine::Auto, Access::ReadWrite);
        Options { engine, threads: 16, direct: None, discard: None, streams: 0, access }
    }
}

/// Units side by side in a file or on a block device, from its first byte on.
///
/// A flush fails with [`Errno::STALE`] when the file was removed or cut off: a later opening would not find the data.
///
/// A reset gives space back as [`Options::discard`] says, if device or file system can, and else does nothing. The file
/// or device is locked (`flock`) as long as it is open, so that two pools do not share it by mistake.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    layout: Layout,
    io: Io,
    kind: Kind,
    discards: bool,
    streams: u8,
    /// `None` for block devices, and without writes.
    watch: Option<Watch>,
    /// The last, so that the lock is given up when nothing is under way any more.
    file: Locked,
}

/// A locked file. The kernel may keep it open for a while after everybody here has closed it, for the sake of io_uring;
/// so the lock does not end by closing alone.
#[derive(Debug)]
struct Locked(Arc<fs::File>);

impl Drop for Locked {
    fn drop(&mut self) {
        // After a failure, the lock ends later, when the file is closed.
        let _later = flock(&*self.0, FlockOperation::Unlock);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Regular,
    Block,
}

impl File {
    /// Opens the file or block device at `path`. With `create`, a file that does not exist or is too short is made as
    /// long as needed, without taking space (sparse).
    ///
    /// # Errors
    /// [`OpenError`], also when it is too small for `layout`, or cannot transfer its logical blocks.
    pub fn open(
        path: &Path,
        create: bool,
        layout: Layout,
        options: &Options,
    ) -> Result<File, OpenError> {
        let system = |error| OpenError::system(path, error);
        is_storage(path)?;
        let is_block = fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
        let kind = if is_block { Kind::Block } else { Kind::Regular };
        let mut how = fs::OpenOptions::new();
        let writes = options.access == Access::ReadWrite;
        // The bytes of all volumes are in it: nobody but the user of the server reads them.
        how.read(true).write(writes).create(create && writes && !is_block).mode(0o600);
        let direct = options.direct.unwrap_or(is_block);
        let mut flags = OFlags::empty();
        flags.set(OFlags::DIRECT, direct);
        // Of a block device: not while it is mounted, or anybody else has it for himself (open(2)).
        flags.set(OFlags::EXCL, is_block && writes);
        how.custom_flags(flags.bits() as i32);
        let file = patiently(|| how.open(path)).map_err(|error| in_use(path, error))?;
        let file = Arc::new(file);
        let lock = || Ok(flock(&*file, FlockOperation::NonBlockingLockExclusive)?);
        patiently(lock).map_err(|error| in_use(path, error))?;
        let locked = Locked(Arc::clone(&file));
        let (has, needed) = (seek(&*file, SeekFrom::End(0)), layout.size().0);
        let has = has.map_err(|error| OpenError::system(path, error))?;
        if has < needed {
            if !create || !writes || is_block {
                return Err(OpenError::new(path, OpenErrorKind::TooSmall { has, needed }));
            }
            file.set_len(needed).map_err(system)?;
        }
        check_logical_block(path, &file, kind, &layout)?;
        if !direct {
            read_from_media(&file)
                .map_err(|error| OpenError::caused(path, OpenErrorKind::Cached, error))?;
        }
        let io = Io::new(&file, options.engine, options.threads).map_err(system)?;
        let discards = options.discard.unwrap_or(is_block);
        let watch = (writes && !is_block).then(|| Watch::start(&file, needed));
        let watch = watch.transpose().map_err(system)?;
        let (path, streams) = (path.to_owned(), options.streams);
        Ok(File { path, layout, io, kind, discards, streams, watch, file: locked })
    }

    /// How transfers are handed to the system: `io_uring` or `threads`.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        self.io.name()
    }

    /// The first bytes in `range` that were written and not reset since, whole blocks of the file system; `None` if
    /// there are none. Where a file does not tell, it is all of them.
    pub(super) fn next_data(&self, range: Range<u64>) -> Result<Option<Range<u64>>, Errno> {
        let start = match seek(&*self.file.0, SeekFrom::Data(range.start)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => range.start,
            Err(error) => return Err(error),
        };
        if start >= range.end {
            return Ok(None);
        }
        let end = match seek(&*self.file.0, SeekFrom::Hole(start)) {
            Ok(end) => end.min(range.end),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => range.end,
            Err(error) => return Err(error),
        };
        Ok(Some(start..end))
    }

    /// What became of the file, if it was removed or cut off.
    fn fate(&self) -> Option<Fate> {
        self.watch.as_ref()?.fate()
    }

    /// Makes `unit` empty, whatever the options say.
    pub(super) fn empty(&mut self, token: Token, unit: UnitId) {
        self.io.submit(token, Action::Call(self.resetting(unit)));
    }

    /// Makes the bytes from `at` on read as zeros.
    pub(super) fn zero(&mut self, token: Token, at: Bytes, length: Bytes) {
        self.io.submit(token, Action::Call(self.zeroing(at, length)));
    }

    /// The call that empties `unit`.
    fn resetting(&self, unit: UnitId) -> Call {
        let (file, kind) = (Arc::clone(&self.file.0), self.kind);
        let (start, len) = (self.layout.start(unit).0, self.layout.unit_bytes().0);
        Box::new(move || {
            let result = match kind {
                Kind::Regular => punch_hole(&file, start, len),
                Kind::Block => discard(&file, start, len),
            };
            match result {
                // Then the space is not given back; nothing else depends on it.
                Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => Ok(()),
                other => other,
            }
        })
    }

    /// The call that makes bytes read as zeros: a hole if the file system supports holes.
    fn zeroing(&self, at: Bytes, length: Bytes) -> Call {
        let (file, kind) = (Arc::clone(&self.file.0), self.kind);
        let (start, len) = (at.0, length.0);
        Box::new(move || {
            let result = match kind {
                Kind::Regular => punch_hole(&file, start, len),
                Kind::Block => zero_out(&file, start, len),
            };
            match result {
                Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => {
                    write_zeros(&file, start, len)
                }
                other => other,
            }
        })
    }

    #[cfg(target_os = "linux")]
    pub(super) fn call(&mut self, token: Token, call: Call) {
        self.io.submit(token, Action::Call(call));
    }
}

/// The write stream of `class`, 1 to `streams`; 0 if there are none. Of two streams or more, metadata has the last to
/// itself. More classes than streams share streams.
fn stream_of(class: Class, streams: u8) -> u8 {
    match streams {
        0 | 1 => streams,
        _ if class == METADATA => streams,
        _ => 1 + class.0 % (streams - 1),
    }
}

/// How long to wait for what a process had that was killed: the kernel gives that up only when all its transfers are
/// done. Chosen, not measured.
const PATIENCE: Duration = Duration::from_secs(2);

/// Accepts a regular file, a block device or a missing file at `path`: only files and block devices have random access.
/// Call this check before opening: opening a pipe blocks until its other end opens.
///
/// # Errors
/// If `path` is a different kind of file.
pub(crate) fn is_storage(path: &Path) -> Result<(), OpenError> {
    match fs::metadata(path).map(|found| found.file_type()) {
        Ok(found) if !found.is_file() && !found.is_block_device() => {
            Err(OpenError::new(path, OpenErrorKind::NoStorage))
        }
        _ => Ok(()),
    }
}

/// Whether another process has the file.
fn is_taken(error: &io::Error) -> bool {
    [Errno::WOULDBLOCK, Errno::BUSY]
        .map(|errno| Some(errno.raw_os_error()))
        .contains(&error.raw_os_error())
}

/// Retries `get` for a while if another process has the file.
fn patiently<T>(get: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let began = Instant::now();
    loop {
        match get() {
            Err(error) if is_taken(&error) && began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

fn in_use(path: &Path, error: io::Error) -> OpenError {
    if is_taken(&error) {
        return OpenError::new(path, OpenErrorKind::InUse(holder::of(path)));
    }
    OpenError::system(path, error)
}

#[cfg(target_os = "linux")]
fn check_logical_block(
    path: &Path,
    file: &fs::File,
    kind: Kind,
    layout: &Layout,
) -> Result<(), OpenError> {
    if kind == Kind::Regular {
        return Ok(());
    }
    let has = rustix::fs::ioctl_blksszget(file).map_err(|error| OpenError::system(path, error))?;
    let wanted = layout.logical_block.bytes() as u32;
    if wanted.is_multiple_of(has) {
        Ok(())
    } else {
        Err(OpenError::new(path, OpenErrorKind::LogicalBlock { has, wanted }))
    }
}

#[cfg(not(target_os = "linux"))]
fn check_logical_block(_: &Path, _: &fs::File, _: Kind, _: &Layout) -> Result<(), OpenError> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn punch_hole(file: &fs::File, start: u64, len: u64) -> Result<(), Errno> {
    use rustix::fs::{FallocateFlags, fallocate};
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, len)
}

#[cfg(not(target_os = "linux"))]
fn punch_hole(_: &fs::File, _: u64, _: u64) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Zeros are written in pieces of so many bytes. Chosen, not measured.
const ZEROS: usize = 1 << 20;

pub(super) fn write_zeros(file: &fs::File, start: u64, len: u64) -> Result<(), Errno> {
    let zeros = thermocline_target::Buffer::zeroed(ZEROS);
    let (mut at, end) = (start, start + len);
    while at < end {
        let piece = ((end - at) as usize).min(ZEROS);
        match pwrite(file, &zeros[..piece], at) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => at += written as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
use super::ioctl::{discard, zero_out};

#[cfg(not(target_os = "linux"))]
use punch_hole as discard;
#[cfg(not(target_os = "linux"))]
use punch_hole as zero_out;

impl Storage for File {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn submit(&mut self, token: Token, command: Command) {
        let action = match command {
            Command::Write { at, parts, class } => {
                Action::Write { at, parts, stream: stream_of(class, self.streams) }
            }
            Command::Read { at, into, .. } => Action::Read { at, into },
            Command::Flush(_) if self.fate().is_some() => {
                Action::Call(Box::new(|| Err(Errno::STALE)))
            }
            Command::Flush(_) => Action::Sync,
            Command::Zero(unit) => {
                let zeroing = self.zeroing(self.layout.start(unit), self.layout.unit_bytes());
                Action::Call(zeroing)
            }
            Command::Reset(unit) if self.discards => Action::Call(self.resetting(unit)),
            Command::Reset(_)
            | Command::Finish(_)
            | Command::Heal(_)
            | Command::Distrust { .. } => Action::Call(Box::new(|| Ok(()))),
        };
        self.io.submit(token, action);
    }

    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        self.io.reap(wait, done);
    }

    fn waker(&self) -> Waker {
        self.io.waker()
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.push(self.io.descriptor());
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        let good = UnitReport { condition: UnitCondition::Good, written: None };
        Ok(vec![good; self.layout.units as usize])
    }

    fn lost(&mut self) -> Option<String> {
        let (path, needed) = (self.path.display(), self.layout.size().0);
        Some(match self.fate()? {
            Fate::Removed => format!("{path} was removed while it was in use"),
            Fate::CutOff { has } => {
                format!("{path} was cut off at {has} of {needed} bytes while it was in use")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_has_the_last_stream_and_classes_share_the_others() {
        let streams_of = |streams| {
            let classes = [Class(0), Class(1), Class(2), METADATA];
            classes.map(|class| stream_of(class, streams))
        };
        assert_eq!(streams_of(0), [0, 0, 0, 0]);
        assert_eq!(streams_of(1), [1, 1, 1, 1]);
        assert_eq!(streams_of(3), [1, 2, 1, 3]);
        assert_eq!(streams_of(8), [1, 2, 3, 8]);
        assert_eq!(streams_of(u8::MAX), [1, 2, 3, 255]);
    }
}
