//! Media that forget what was not flushed when power goes: files in a file system of their own (FUSE), as LazyFS (Ramos
//! et al., PVLDB 2024). The kernel's cache over it behaves as over any other: it still has what is gone.

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

/// Inode of the first file. The root has 1.
const FIRST: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Power {
    On,
    /// Requests wait: the program that sent them is about to be killed.
    Off,
    /// Requests that waited fail.
    Gone,
}

struct Bench {
    power: Power,
    /// Number of writes and flushes until power goes.
    cut_after: Option<u64>,
    names: Vec<&'static str>,
    media: Vec<Medium>,
    /// A file that is not there.
    hidden: Option<usize>,
    rng: Rng,
}

impl Bench {
    /// A change comes. Returns whether power has gone.
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

    /// Waits until a write or flush may be carried out: power may go just before it.
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

/// The file system, as the kernel asks for it.
struct Files(Arc<Shared>);

/// How long the kernel may believe attributes: they never change.
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
        // As on a disk, what the cache holds outlives whoever had the file open.
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

    /// Only holes: they are zeros that may be forgotten as well.
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

/// The mounted media. They are unmounted when this is dropped; whoever has a file open must have ended before.
pub struct Forgetful {
    folder: tempfile::TempDir,
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
}

impl Forgetful {
    /// Files of so many bytes, all zeros. The seed decides what they forget.
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

    /// The mount ends, and with it the kernel's cache.
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
        // Dropping it would unmount what is below: see `mount` of crate `fuse`.
        std::mem::forget(session);
    }

    /// From now on nothing is read, written or flushed: requests wait. Whoever sent them is to be killed next.
    fn switch_off(&self) {
        self.shared.change(|bench| (bench.power, bench.cut_after) = (Power::Off, None));
    }

    /// Power goes before a write or flush that `changes` others precede, or after `patience`. Returns when it has gone.
    pub fn cut_after(&self, changes: u64, patience: Duration) {
        self.shared.change(|bench| bench.cut_after = Some(changes));
        let on = |bench: &mut Bench| bench.power == Power::On;
        let waiting = self.shared.switched.wait_timeout_while(self.shared.bench(), patience, on);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
        self.switch_off();
    }

    /// The program was killed: requests of it that wait need not wait any more.
    pub fn let_go(&self) {
        self.shared.change(|bench| bench.power = Power::Gone);
    }

    /// All files as they are, with what was not flushed.
    pub fn media(&self) -> Vec<Medium> {
        self.shared.bench().media.clone()
    }

    /// Power comes back over these media, with nothing in any cache. `hidden` is not there.
    pub fn power_up(&mut self, media: &[Medium], hidden: Option<usize>) {
        self.unmount();
        self.shared.change(|bench| {
            bench.media = media.to_vec();
            (bench.power, bench.hidden) = (Power::On, hidden);
        });
        self.mount();
    }

    /// Power goes and comes back: the first file keeps any part of what was not flushed.
    pub fn cut_power(&mut self) {
        self.unmount();
        self.shared.change(|bench| {
            let Bench { media, rng, .. } = bench;
            media.iter_mut().for_each(|medium| medium.lose(Loss::draw(rng), rng));
        });
        self.mount();
    }

    /// The flush of a file after `flushes` more fails, and loses any part of what it was for; those after it succeed.
    pub fn fail_flush_after(&self, file: usize, flushes: u32) {
        self.shared.change(|bench| bench.media[file].fails_after = Some(flushes + 1));
    }

    /// Waits until the flush of a file that is to fail has failed, but no longer than `patience`.
    pub fn wait_for_failure(&self, file: usize, patience: Duration) -> bool {
        let began = std::time::Instant::now();
        while self.is_to_fail(file) && began.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(2));
        }
        !self.is_to_fail(file)
    }

    /// Whether the flush of a file that was to fail is still to come.
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
