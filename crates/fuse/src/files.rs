//! The directory and its files, as the kernel asks for them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::FallocateFlags;
use thermocline_target::{BufferPool, ClientEvent, Completion, Exports, Offer, TargetError, User};

use crate::disk::{Clear, Disk};

/// Bytes of the memory of requests kept for later requests. Chosen, not measured.
const POOL_BYTES: usize = 16 << 20;

/// How long the kernel may believe sizes. Chosen, not measured.
const TTL: Duration = Duration::from_secs(1);

/// The longest write, and with it the longest read, that the kernel sends: its own limit of 256 pages
/// (`FUSE_MAX_MAX_PAGES`).
const WRITE_BYTES_MAX: u32 = 1 << 20;

/// Requests that the kernel sends for asynchronous I/O before it waits for answers. Chosen, not measured.
const BACKGROUND_MAX: u16 = 256;

/// lseek(2).
const SEEK_DATA: i32 = 3;
/// lseek(2).
const SEEK_HOLE: i32 = 4;

/// Handlers for kernel requests on the directory and its files.
pub(crate) struct Files {
    exports: Exports,
    opened: Mutex<Opened>,
    watcher: Watcher,
    pool: BufferPool,
    began: SystemTime,
}

/// Receives events of clients, from any thread.
pub(crate) type Watcher = Box<dyn Fn(ClientEvent) + Send + Sync>;

/// The open files.
#[derive(Default)]
struct Opened {
    /// Each with the number of the opening process, by handle.
    users: BTreeMap<u64, (User, u32)>,
    /// Handles given so far.
    made: u64,
}

/// Number of the file of the first export; the directory itself is 1.
const FIRST: u64 = 2;

/// The number of an export's file.
fn inode(offer: &Offer) -> INodeNo {
    INodeNo(FIRST + offer.number())
}

/// Whether a file can be called `name`.
fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

impl Files {
    pub(crate) fn new(exports: Exports, watcher: Watcher) -> Files {
        let (opened, pool) = (Mutex::default(), BufferPool::new(POOL_BYTES));
        Files { exports, opened, watcher, pool, began: SystemTime::now() }
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        // No foreign code runs under the lock.
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The exports that are files.
    fn shown(&self) -> impl Iterator<Item = Arc<Offer>> + use<> {
        self.exports.shown().into_iter().filter(|offer| is_file_name(&offer.name))
    }

    /// Opens a file for a process. `None` if the file does not exist.
    fn open_file(&self, file: INodeNo, process: u32) -> Option<FileHandle> {
        let user = self.exports.enter(|offer| inode(offer) == file)?;
        self.tell(&user, process, false);
        let mut opened = self.opened();
        opened.made += 1;
        let handle = opened.made;
        opened.users.insert(handle, (user, process));
        Some(FileHandle(handle))
    }

    /// Ends one use of an open file.
    fn close_file(&self, handle: FileHandle) {
        let closed = self.opened().users.remove(&handle.0);
        if let Some((user, process)) = closed {
            self.tell(&user, process, true);
        }
    }

    /// Reports the begin or the end of a use.
    fn tell(&self, user: &User, process: u32, is_over: bool) {
        let (client, export) = (format!("process {process}"), user.name.clone());
        (self.watcher)(ClientEvent { client, export, is_over });
    }

    /// The export of a file. If the file is gone, the kernel repeats the lookup by name.
    fn offer(&self, inode: INodeNo) -> Result<Arc<Offer>, Errno> {
        let number = inode.0.checked_sub(FIRST).ok_or(Errno::EISDIR)?;
        self.exports.numbered(number).ok_or(Errno::ESTALE)
    }

    fn file(&self, inode: INodeNo) -> Result<Disk, Errno> {
        Ok(Disk { target: self.offer(inode)?.at_any_byte(), pool: self.pool.clone() })
    }

    fn attributes(&self, inode: INodeNo) -> Result<FileAttr, Errno> {
        let (kind, size, perm) = if inode == INodeNo::ROOT {
            (FileType::Directory, 0, 0o500)
        } else {
            let writable = if self.offer(inode)?.read_only { 0 } else { 0o200 };
            (FileType::RegularFile, self.file(inode)?.size(), 0o400 | writable)
        };
        Ok(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: self.began,
            mtime: self.began,
            ctime: self.began,
            crtime: self.began,
            kind,
            perm,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// The bytes of a file among `length` from `offset` on, perhaps none.
    fn clip(&self, inode: INodeNo, offset: u64, length: u64) -> Result<(Disk, Range<u64>), Errno> {
        let file = self.file(inode)?;
        let size = file.size();
        Ok((file, offset.min(size)..offset.saturating_add(length).min(size)))
    }

    /// What becomes of a change of attributes: times are not kept, and opening a file to truncate it does nothing, as
    /// with a block device; nothing else can be changed.
    fn may_set(&self, inode: INodeNo, size: Option<u64>, rights: bool) -> Result<FileAttr, Errno> {
        let attributes = self.attributes(inode)?;
        let keeps_size = size.is_none_or(|size| size == 0 || size == attributes.size);
        if rights || !keeps_size { Err(Errno::EPERM) } else { Ok(attributes) }
    }
}

/// What a failed request is for a program that reads and writes a file.
fn errno(error: TargetError) -> Errno {
    match error {
        TargetError::OutOfBounds | TargetError::Misaligned => Errno::EINVAL,
        TargetError::Unsupported => Errno::EOPNOTSUPP,
        TargetError::NoSpace => Errno::ENOSPC,
        TargetError::ReadOnly => Errno::EROFS,
        _ => Errno::EIO,
    }
}

/// Answers when the request is complete.
fn answer(reply: ReplyEmpty) -> Completion<()> {
    Completion::new(move |result| match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    })
}

/// What fallocate(2) with `mode` does to bytes, as far as it is done here: nothing is allocated in advance, for where a
/// block is written is decided when it is.
fn clearing(mode: i32) -> Option<Clear> {
    let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
    let keep = FallocateFlags::KEEP_SIZE;
    if mode == FallocateFlags::PUNCH_HOLE | keep {
        Some(Clear::Trim)
    } else if mode & !keep == FallocateFlags::ZERO_RANGE {
        Some(Clear::Zero)
    } else {
        None
    }
}

impl Filesystem for Files {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Old kernels lack a flag and work without.
        for flag in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_PARALLEL_DIROPS] {
            let _old_kernel = config.add_capabilities(flag);
        }
        let _old_kernel = config.set_max_write(WRITE_BYTES_MAX);
        let _old_kernel = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found =
            self.exports.find(|offer| parent == INodeNo::ROOT && name == OsStr::new(&offer.name));
        let inode = found.map(|offer| inode(&offer)).ok_or(Errno::ENOENT);
        match inode.and_then(|inode| self.attributes(inode)) {
            Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.attributes(inode) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let rights = mode.is_some() || uid.is_some() || gid.is_some();
        match self.may_set(inode, size, rights) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        _request: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _device: u32,
        reply: ReplyEntry,
    ) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _request: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn open(&self, request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // No page cache: writes through other front ends are visible, and data is cached only once.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        match self.open_file(inode, request.pid()) {
            Some(handle) => reply.opened(handle, flags),
            None => reply.error(Errno::ESTALE),
        }
    }

    fn release(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.close_file(handle);
        reply.ok();
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
        match self.clip(inode, offset, u64::from(size)) {
            Err(error) => reply.error(error),
            Ok((_, range)) if range.is_empty() => reply.data(&[]),
            Ok((file, range)) => file.read(&range, move |bytes| match bytes {
                Ok(bytes) => reply.data(bytes),
                Err(error) => reply.error(errno(error)),
            }),
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
        match self.clip(inode, offset, data.len() as u64) {
            Err(error) => reply.error(error),
            Ok(_) if data.is_empty() => reply.written(0),
            Ok((_, range)) if range.is_empty() => reply.error(Errno::ENOSPC),
            Ok((file, range)) => {
                let written = (range.end - range.start) as u32;
                let done = Completion::new(move |result| match result {
                    Ok(()) => reply.written(written),
                    Err(error) => reply.error(errno(error)),
                });
                file.write(range.start, &data[..written as usize], done);
            }
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
        match self.file(inode) {
            Ok(file) => file.flush(answer(reply)),
            Err(error) => reply.error(error),
        }
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok(); // Its files are the volumes of the pool, which are durable.
    }

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
        let Some(why) = clearing(mode) else { return reply.error(Errno::EOPNOTSUPP) };
        match self.clip(inode, offset, length) {
            Err(error) => reply.error(error),
            Ok((_, range)) if why == Clear::Zero && range.end - range.start < length => {
                reply.error(Errno::ENOSPC);
            }
            Ok((_, range)) if range.is_empty() => reply.ok(),
            Ok((file, range)) => file.clear(&range, why, answer(reply)),
        }
    }

    fn lseek(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let data = match whence {
            SEEK_DATA => true,
            SEEK_HOLE => false,
            _ => return reply.error(Errno::EINVAL),
        };
        let file = match self.file(inode) {
            Ok(file) => file,
            Err(error) => return reply.error(error),
        };
        let size = file.size();
        let Some(from) = u64::try_from(offset).ok().filter(|&from| from < size) else {
            return reply.error(Errno::ENXIO);
        };
        file.seek(from, data, move |found| match found {
            Ok(Some(at)) => reply.offset(at.cast_signed()),
            Ok(None) if data => reply.error(Errno::ENXIO),
            Ok(None) => reply.offset(size.cast_signed()),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn readdir(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if inode != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        // An entry's offset is that of the next one: files may come and go before the kernel asks for the rest.
        let dots = [(1, "."), (2, "..")]
            .map(|(next, name)| (INodeNo::ROOT, FileType::Directory, next, name.to_owned()));
        let files = self.shown().map(|offer| {
            let inode = self::inode(&offer);
            (inode, FileType::RegularFile, inode.0 + 1, offer.name.clone())
        });
        let rest = dots.into_iter().chain(files).filter(|&(_, _, next, _)| next > offset);
        for (inode, kind, next, name) in rest {
            if reply.add(inode, next, kind, name) {
                break; // The kernel asks for the rest.
            }
        }
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        let sizes: Vec<u64> = self.shown().map(|offer| offer.target.info().size.0).collect();
        let (bytes, files) = (sizes.iter().sum::<u64>(), sizes.len() as u64);
        reply.statfs(bytes / 4096, 0, 0, files, 0, 4096, 255, 4096);
    }
}

#[cfg(test)]
mod tests {
    use thermocline_target::{Export, Memory};
    use thermocline_types::Bytes;

    use super::*;

    fn files(read_only: bool) -> Files {
        let target = Arc::new(Memory::new(Bytes(8192), Bytes(512)));
        let export = Export { name: "a".to_owned(), target, read_only };
        Files::new(Exports::new(vec![export]), Box::new(|_| ()))
    }

    #[test]
    fn sizes_and_rights_cannot_be_changed() {
        let (files, inode) = (files(false), INodeNo(2));
        let size = |size| files.may_set(inode, size, false).map(|attributes| attributes.size);
        for same in [None, Some(0), Some(8192)] {
            assert_eq!(size(same).ok(), Some(8192));
        }
        assert_eq!(size(Some(4096)).map_err(i32::from).unwrap_err(), i32::from(Errno::EPERM));
        assert!(files.may_set(inode, None, true).is_err());
    }

    #[test]
    fn ranges_end_where_the_file_does() {
        let files = files(false);
        let clip =
            |offset, length| files.clip(INodeNo(2), offset, length).ok().map(|(_, range)| range);
        assert_eq!(clip(8000, 4096), Some(8000..8192));
        assert!(clip(9000, 10).unwrap().is_empty());
        assert_eq!(clip(1, u64::MAX), Some(1..8192));
        assert!(files.clip(INodeNo(3), 0, 1).is_err());
        assert!(files.clip(INodeNo::ROOT, 0, 1).is_err());
    }

    #[test]
    fn only_a_writable_export_is_a_writable_file() {
        let rights = |read_only| files(read_only).attributes(INodeNo(2)).ok().unwrap().perm;
        assert_eq!((rights(false), rights(true)), (0o600, 0o400));
    }

    #[test]
    fn open_files_outlive_a_change_of_the_list() {
        let (files, a) = (files(false), INodeNo(2));
        let open = |files: &Files| files.open_file(a, 7);
        let [first, second] = [open(&files), open(&files)].map(Option::unwrap);
        assert!(first != second && files.open_file(INodeNo(3), 7).is_none());
        files.close_file(first);
        assert_eq!(files.exports.hide("a"), 1);
        assert!(open(&files).is_none() && files.file(a).is_ok(), "open files go on");
        files.exports.show("a");
        let third = open(&files).expect("it is shown");
        files.exports.remove("a");
        assert!(open(&files).is_none() && files.file(a).is_err());
        for handle in [second, third] {
            files.close_file(handle);
        }
        assert!(files.opened().users.is_empty());
    }

    #[test]
    fn each_open_and_its_end_are_told_with_the_process() {
        let (told, news) = std::sync::mpsc::channel();
        let mut files = files(false);
        files.watcher = Box::new(move |event| told.send(event).unwrap());
        let [first, second] = [7, 8].map(|process| files.open_file(INodeNo(2), process).unwrap());
        for handle in [first, second, first] {
            files.close_file(handle);
        }
        let told: Vec<_> = news.try_iter().map(|event| (event.client, event.is_over)).collect();
        let of = |process: u32, is_over| (format!("process {process}"), is_over);
        assert_eq!(told, [of(7, false), of(8, false), of(7, true), of(8, true)]);
    }

    #[test]
    fn an_export_without_a_file_name_is_no_file() {
        let files = files(false);
        for name in ["", ".", "..", "a/b", "a\0", "b"] {
            let target = Arc::new(Memory::new(Bytes(8192), Bytes(512)));
            files.exports.add(Export { name: name.to_owned(), target, read_only: false });
        }
        let names: Vec<String> = files.shown().map(|offer| offer.name.clone()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn modes_of_fallocate() {
        assert_eq!(clearing(0x01 | 0x02), Some(Clear::Trim), "KEEP_SIZE and PUNCH_HOLE");
        assert_eq!(clearing(0x10), Some(Clear::Zero), "ZERO_RANGE");
        assert_eq!(clearing(0x10 | 0x01), Some(Clear::Zero));
        for mode in [0, 0x01, 0x02, 0x08, 0x20, 0x40] {
            assert_eq!(clearing(mode), None, "{mode:#x}");
        }
    }
}
