//! A medium that forgets what was not flushed when power goes: one file in a file system of its own (FUSE), as LazyFS
//! (Ramos et al., PVLDB 2024). The kernel's cache over it behaves as over any other: it goes on showing what is gone.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};
use thermocline_types::Rng;

use crate::scratch;

/// What is flushed or lost as a whole.
const PAGE: usize = 4096;

const NAME: &str = "pool.img";
const FILE: INodeNo = INodeNo(2);

/// Pages by their number; those that are missing are zeros.
type Pages = BTreeMap<u64, Box<[u8; PAGE]>>;

struct Medium {
    bytes: u64,
    stable: Pages,
    /// Written since the last flush.
    volatile: Pages,
    rng: Rng,
    /// Flushes until one fails.
    fails_after: Option<u32>,
}

impl Medium {
    fn page(&self, number: u64) -> Option<&[u8; PAGE]> {
        self.volatile.get(&number).or_else(|| self.stable.get(&number)).map(|page| &**page)
    }

    fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        let end = (offset + length).min(self.bytes);
        let mut found = Vec::with_capacity(length as usize);
        let mut at = offset;
        while at < end {
            let from = (at % PAGE as u64) as usize;
            let to = PAGE.min(from + (end - at) as usize);
            match self.page(at / PAGE as u64) {
                Some(page) => found.extend_from_slice(&page[from..to]),
                None => found.resize(found.len() + to - from, 0),
            }
            at += (to - from) as u64;
        }
        found
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        let mut left = data;
        let mut at = offset;
        while !left.is_empty() {
            let (number, from) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let piece = left.len().min(PAGE - from);
            let mut page = self.page(number).map_or_else(|| Box::new([0; PAGE]), |p| Box::new(*p));
            page[from..from + piece].copy_from_slice(&left[..piece]);
            self.volatile.insert(number, page);
            at += piece as u64;
            left = &left[piece..];
        }
    }

    /// Of what is volatile each page is kept or lost.
    fn forget(&mut self) {
        for (number, page) in std::mem::take(&mut self.volatile) {
            if self.rng.below(2) == 0 {
                self.stable.insert(number, page);
            }
        }
    }

    fn flush(&mut self) -> Result<(), Errno> {
        self.fails_after = self.fails_after.map(|left| left.saturating_sub(1));
        if self.fails_after == Some(0) {
            self.fails_after = None;
            self.forget();
            return Err(Errno::EIO);
        }
        self.stable.append(&mut self.volatile);
        Ok(())
    }
}

/// The file system, as the kernel asks for it.
struct Files(Arc<Mutex<Medium>>);

impl Files {
    fn medium(&self) -> MutexGuard<'_, Medium> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let began = SystemTime::UNIX_EPOCH;
        let folder = inode == INodeNo::ROOT;
        FileAttr {
            ino: inode,
            size: if folder { 0 } else { self.medium().bytes },
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
            blksize: PAGE as u32,
            flags: 0,
        }
    }
}

/// How long the kernel may believe attributes: they never change.
const TTL: Duration = Duration::from_secs(3600);

impl Filesystem for Files {
    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == NAME {
            reply.entry(&TTL, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        reply.attr(&TTL, &self.attributes(inode));
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // As on a disk, what the cache holds outlives whoever had the file open.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(&self.medium().read(offset, u64::from(size)));
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.medium().write(offset, data);
        reply.written(data.len() as u32);
    }

    fn fsync(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        match self.medium().flush() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }
}

/// The mounted medium. It is unmounted when this is dropped; whoever has the file open must have ended before.
pub struct Forgetful {
    folder: tempfile::TempDir,
    medium: Arc<Mutex<Medium>>,
    session: Option<BackgroundSession>,
}

impl Forgetful {
    /// A medium of `bytes`, all zeros.
    pub fn new(bytes: u64) -> Forgetful {
        let medium = Medium {
            bytes,
            stable: Pages::new(),
            volatile: Pages::new(),
            rng: Rng::new(11),
            fails_after: None,
        };
        let (folder, medium) = (scratch(), Arc::new(Mutex::new(medium)));
        let mut forgetful = Forgetful { folder, medium, session: None };
        forgetful.mount();
        forgetful
    }

    /// The file.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join(NAME)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn mount(&mut self) {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("forgetful".to_owned())];
        config.n_threads = Some(2);
        let session = Session::new(Files(Arc::clone(&self.medium)), self.path(), &config);
        self.session = Some(session.and_then(Session::spawn).expect("it can be mounted"));
    }

    /// The mount ends, and with it the kernel's cache.
    fn unmount(&mut self) {
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

    /// Power goes and comes back: each page that was not flushed is lost or not, and nothing is in any cache.
    pub fn cut_power(&mut self) {
        self.unmount();
        self.medium.lock().unwrap_or_else(PoisonError::into_inner).forget();
        self.mount();
    }

    /// The flush after `flushes` more fails, and loses what it was for; those after it succeed.
    pub fn fail_flush_after(&self, flushes: u32) {
        let mut medium = self.medium.lock().unwrap_or_else(PoisonError::into_inner);
        medium.fails_after = Some(flushes + 1);
    }

    /// The next flush fails; returns when it has.
    pub fn fail_flush(&self) {
        self.fail_flush_after(0);
        for _ in 0..6000 {
            if !self.is_to_fail() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no flush in a minute");
    }

    /// Whether the flush that was to fail is still to come.
    pub fn is_to_fail(&self) -> bool {
        self.medium.lock().unwrap_or_else(PoisonError::into_inner).fails_after.is_some()
    }
}

impl Drop for Forgetful {
    fn drop(&mut self) {
        self.unmount();
    }
}
