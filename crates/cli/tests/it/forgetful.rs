//! Media that lose unflushed data at a power cut: files in a FUSE file system, like LazyFS (Ramos et al., PVLDB 2024).
//! The kernel's cache behaves as over any file system: it still has data that the medium has lost.

mod medium;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};
use thermocline_types::Rng;

use crate::scratch;
pub use medium::{Loss, Medium};

/// Inode of the first file. Inode 1 is the root.
const FIRST: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Power {
    On,
    /// Requests wait: their program is about to be killed.
    Off,
    /// Waiting requests fail.
    Gone,
}

struct Bench {
    power: Power,
    /// Number of writes and flushes before the power cut.
    cut_after: Option<u64>,
    names: Vec<&'static str>,
    media: Vec<Medium>,
    /// A missing file.
    hidden: Option<usize>,
    rng: Rng,
}

impl Bench {
    /// Counts a change. Returns whether the power is cut.
    fn goes(&mut self) -> bool {
        if self.cut_after == Some(0) {
            (self.power, self.cut_after) = (Power::Off, None);
        }
        self.cut_after = self.cut_after.map(|left| left - 1);
        self.power == Power::Off
    }
}

struct Shared {
    bench: Mutex<Bench>,
    switched: Condvar,
}

impl Shared {
    fn bench(&self) -> MutexGuard<'_, Bench> {
        self.bench.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while power is off.
    fn powered(&self) -> Result<MutexGuard<'_, Bench>, Errno> {
        let waiting = self.switched.wait_while(self.bench(), |bench| bench.power == Power::Off);
        let bench = waiting.unwrap_or_else(PoisonError::into_inner);
        if bench.power == Power::Gone { Err(Errno::EIO) } else { Ok(bench) }
    }

    /// Waits until a write or flush may be carried out: the power cut may come just before.
    fn changed(&self) -> Result<MutexGuard<'_, Bench>, Errno> {
        let mut bench = self.powered()?;
        if bench.goes() {
            drop(bench);
            self.switched.notify_all();
            bench = self.powered()?;
        }
        Ok(bench)
    }

    fn change(&self, with: impl FnOnce(&mut Bench)) {
        with(&mut self.bench());
        self.switched.notify_all();
    }

    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let began = SystemTime::UNIX_EPOCH;
        let folder = inode == INodeNo::ROOT;
        FileAttr {
            ino: inode,
            size: if folder { 0 } else { self.bench().media[index(inode)].bytes },
            blocks: 0,
            atime: began,
            mtime: began,
            ctime: began,
            crtime: began,
            kind: if folder { FileType::Directory } else { FileType::RegularFile },
            perm: if folder { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: medium::PAGE as u32,
            flags: 0,
        }
    }
}

fn index(inode: INodeNo) -> usize {
    (inode.0 - FIRST) as usize
}

/// The file system's answers to the kernel.
struct Files(Arc<Shared>);

/// Time that the kernel may cache attributes, which never change.
const TTL: Duration = Duration::from_secs(3600);

impl Filesystem for Files {
    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let bench = self.0.bench();
        let file = bench.names.iter().position(|one| name == *one);
        let file = file.filter(|file| bench.hidden != Some(*file));
        drop(bench);
        match file.map(|file| INodeNo(file as u64 + FIRST)) {
            Some(inode) => reply.entry(&TTL, &self.0.attributes(inode), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        reply.attr(&TTL, &self.0.attributes(inode));
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // As on a disk, cached data outlives the process that had the file open.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.0.powered() {
            Ok(bench) => reply.data(&bench.media[index(inode)].read(offset, u64::from(size))),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.changed() {
            Ok(mut bench) => {
                bench.media[index(inode)].write(offset, data);
                reply.written(data.len() as u32);
            }
            Err(error) => reply.error(error),
        }
    }

    /// Only holes: zeros that a power cut may lose like other writes.
    fn fallocate(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const HOLE: i32 = 3;
        match self.0.changed() {
            Ok(_) if mode != HOLE => reply.error(Errno::EOPNOTSUPP),
            Ok(mut bench) => {
                bench.media[index(inode)].write(offset, &vec![0; length as usize]);
                reply.ok();
            }
            Err(error) => reply.error(error),
        }
    }

    fn fsync(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let flushed = self.0.changed().and_then(|mut bench| {
            let Bench { media, rng, .. } = &mut *bench;
            if media[index(inode)].flush(rng) { Ok(()) } else { Err(Errno::EIO) }
        });
        match flushed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }
}

/// The mounted media. Dropping unmounts them; processes with open files must end before.
pub struct Forgetful {
    folder: tempfile::TempDir,
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
}

impl Forgetful {
    /// Zeroed files of these sizes. The seed decides which data a power cut loses.
    pub fn new(files: &[(&'static str, u64)], seed: u64) -> Forgetful {
        let bench = Bench {
            power: Power::On,
            cut_after: None,
            names: files.iter().map(|(name, _)| *name).collect(),
            media: files.iter().map(|(_, bytes)| Medium::new(*bytes)).collect(),
            hidden: None,
            rng: Rng::new(seed),
        };
        let shared = Shared { bench: Mutex::new(bench), switched: Condvar::new() };
        let mut forgetful =
            Forgetful { folder: scratch(), shared: Arc::new(shared), session: None };
        forgetful.mount();
        forgetful
    }

    /// The folder of the files.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The first file.
    pub fn file(&self) -> PathBuf {
        self.path().join(self.shared.bench().names[0])
    }

    pub fn mount(&mut self) {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("forgetful".to_owned())];
        config.n_threads = Some(2);
        let session = Session::new(Files(Arc::clone(&self.shared)), self.path(), &config);
        self.session = Some(session.and_then(Session::spawn).expect("it can be mounted"));
    }

    /// Unmounts the media, which drops the kernel's cache.
    pub fn unmount(&mut self) {
        let Some(session) = self.session.take() else { return };
        let script = "umount \"$0\" || { sleep 1; umount \"$0\"; } || umount -l \"$0\" || fusermount3 -uz \"$0\"";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(self.path()).stderr(Stdio::null());
        let _told_by_what_follows = command.status();
        for _ in 0..500 {
            if session.guard.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // Dropping the session would unmount the mount below: see `mount` of crate `fuse`.
        std::mem::forget(session);
    }

    /// Holds all reads, writes and flushes from now on. The caller then kills their program.
    fn switch_off(&self) {
        self.shared.change(|bench| (bench.power, bench.cut_after) = (Power::Off, None));
    }

    /// Cuts the power after `changes` writes and flushes, or after `patience`. Returns after the cut.
    pub fn cut_after(&self, changes: u64, patience: Duration) {
        self.shared.change(|bench| bench.cut_after = Some(changes));
        let on = |bench: &mut Bench| bench.power == Power::On;
        let waiting = self.shared.switched.wait_timeout_while(self.shared.bench(), patience, on);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
        self.switch_off();
    }

    /// Fails waiting requests after the program was killed.
    pub fn let_go(&self) {
        self.shared.change(|bench| bench.power = Power::Gone);
    }

    /// All files with their unflushed writes.
    pub fn media(&self) -> Vec<Medium> {
        self.shared.bench().media.clone()
    }

    /// Restores the power with these media and empty caches. The file `hidden` is missing.
    pub fn power_up(&mut self, media: &[Medium], hidden: Option<usize>) {
        self.unmount();
        self.shared.change(|bench| {
            bench.media = media.to_vec();
            (bench.power, bench.hidden) = (Power::On, hidden);
        });
        self.mount();
    }

    /// Cuts and restores the power: the first file keeps an arbitrary part of its unflushed writes.
    pub fn cut_power(&mut self) {
        self.unmount();
        self.shared.change(|bench| {
            let Bench { media, rng, .. } = bench;
            media.iter_mut().for_each(|medium| medium.lose(Loss::draw(rng), rng));
        });
        self.mount();
    }

    /// Makes one flush of a file fail after `flushes` more flushes. The failed flush loses an arbitrary part of the
    /// writes that it covers; later flushes succeed.
    pub fn fail_flush_after(&self, file: usize, flushes: u32) {
        self.shared.change(|bench| bench.media[file].fails_after = Some(flushes + 1));
    }

    /// Waits for the planned failure of a file's flush, at most `patience`.
    pub fn wait_for_failure(&self, file: usize, patience: Duration) -> bool {
        let began = std::time::Instant::now();
        while self.is_to_fail(file) && began.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(2));
        }
        !self.is_to_fail(file)
    }

    /// Whether the planned failure of a file's flush has yet to come.
    pub fn is_to_fail(&self, file: usize) -> bool {
        self.shared.bench().media[file].fails_after.is_some()
    }
}

impl Drop for Forgetful {
    fn drop(&mut self) {
        self.let_go();
        self.unmount();
    }
}
