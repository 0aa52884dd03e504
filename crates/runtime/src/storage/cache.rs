//! The system's cache before a file, which may show what is not on media.
//!
//! When writing to media fails, Linux reports the error once and marks the pages clean. Later reads return the pages,
//! and the next `fdatasync` succeeds (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC
//! 2020). A restarted process that trusts the pages would build on data that the next power cut loses. So a file is
//! read from media: dirty pages are made durable, and all cached pages are dropped before the first read.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How often the cache is asked to let go of pages that somebody uses for a moment. Chosen, not measured.
#[cfg(target_os = "linux")]
const TRIES: u32 = 4;

/// Sees to it that what is read from `file` from now on is on media. If the cache does not let go of all pages, since
/// another program has them mapped or reads along, `file` goes past the cache from now on (`O_DIRECT`).
///
/// # Errors
/// When what was written earlier cannot be made durable, or the file system can neither drop its pages nor do without.
pub(super) fn read_from_media(file: &File) -> io::Result<()> {
    // The first fdatasync may report an unreported error of an earlier process. The data concerned is lost already, and
    // its pages are dropped below. So only an error of the second call counts.
    if rustix::fs::fdatasync(file).is_err() {
        rustix::fs::fdatasync(file)?;
    }
    drop_pages(file)
}

/// As [`read_from_media`], for callers that inspect a file before opening. Errors are ignored: opening fails with the
/// same error. A locked file is left alone.
pub(crate) fn forget(path: &Path) {
    if super::is_storage(path).is_err() {
        return;
    }
    let Ok(file) = File::open(path) else { return };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        let _told_when_it_is_opened = read_from_media(&file);
    }
}

#[cfg(target_os = "linux")]
fn drop_pages(file: &File) -> io::Result<()> {
    if super::inline::is_in_memory(file) {
        return Ok(()); // Its pages are its media.
    }
    for _ in 0..TRIES {
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
        match cached_pages(file) {
            // Kernels before 6.5 do not tell; nearly always nothing is left.
            Ok(0) | Err(_) => return Ok(()),
            Ok(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    }
    let flags = rustix::fs::fcntl_getfl(file)?;
    rustix::fs::fcntl_setfl(file, flags | rustix::fs::OFlags::DIRECT)
        .map_err(|Errno { .. }| io::Error::other(STUCK))
}

/// Advice about pages that stay in the cache.
#[cfg(target_os = "linux")]
const STUCK: &str = "the system keeps pages of the file in its cache, which may differ from what is on media, and the \
                     file system has no O_DIRECT: end the programs that have the file mapped or read it, or mount the \
                     file system anew";

#[cfg(not(target_os = "linux"))]
fn drop_pages(_: &File) -> io::Result<()> {
    Ok(())
}

/// Pages of the file that the cache holds.
#[cfg(target_os = "linux")]
pub(super) fn cached_pages(file: &File) -> Result<u64, Errno> {
    use std::os::fd::AsRawFd as _;

    /// `cachestat`, since Linux 6.5: the number is the same on every architecture but Alpha.
    const CACHESTAT: libc::c_long = 451;
    // `struct cachestat_range` from 0 to the end, and `struct cachestat`: cached, dirty, in write-back, evicted,
    // recently evicted.
    let (range, mut found) = ([0_u64; 2], [0_u64; 5]);
    // SAFETY: the kernel reads the two numbers of the range and writes five numbers, and both live during the call.
    let result = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), found.as_mut_ptr(), 0_u32)
    };
    if result == 0 {
        return Ok(found[0]);
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::NOSYS))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;

    use rustix::fs::OFlags;
    use tempfile::TempDir;

    use super::*;

    const BYTES: usize = 1 << 20;

    /// A file with pages in the cache; `None` where files are in memory, or the kernel does not tell.
    fn cached(folder: &TempDir) -> Option<File> {
        let path = folder.path().join("pool");
        fs::write(&path, vec![1; BYTES]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        if super::super::inline::is_in_memory(&file) || cached_pages(&file).unwrap_or(0) == 0 {
            println!("SKIPPED: this folder is in memory, or the kernel tells nothing of its cache");
            return None;
        }
        Some(file)
    }

    fn goes_past_the_cache(file: &File) -> bool {
        rustix::fs::fcntl_getfl(file).unwrap().contains(OFlags::DIRECT)
    }

    #[test]
    fn pages_are_dropped_before_anything_is_read() {
        let folder = TempDir::new().unwrap();
        let Some(file) = cached(&folder) else { return };
        read_from_media(&file).unwrap();
        assert_eq!(cached_pages(&file), Ok(0));
        assert!(!goes_past_the_cache(&file));
        assert_eq!(fs::read(folder.path().join("pool")).unwrap(), [1; BYTES]);
    }

    #[test]
    fn a_file_whose_pages_stay_is_read_past_the_cache() {
        use std::os::fd::AsRawFd as _;

        let folder = TempDir::new().unwrap();
        let Some(file) = cached(&folder) else { return };
        // SAFETY: a new mapping of the file, which is unmapped below and not used in between but for one read.
        let mapped = unsafe {
            let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
            let at = libc::mmap(std::ptr::null_mut(), BYTES, read, shared, file.as_raw_fd(), 0);
            assert_ne!(at, libc::MAP_FAILED);
            assert_eq!(at.cast::<u8>().read_volatile(), 1);
            at
        };
        let result = read_from_media(&file);
        let left = cached_pages(&file).unwrap();
        // SAFETY: as mapped above.
        unsafe { libc::munmap(mapped, BYTES) };
        match result {
            Ok(()) => assert!(left > 0 && goes_past_the_cache(&file), "{left} pages are left"),
            Err(error) => assert!(error.to_string().contains("no O_DIRECT"), "{error}"),
        }
    }
}
