//! Pools for C: seven functions, and the text of the last error.
//!
//! cbindgen generates `include/thermocline.h` from this file. A test compares both.
//!
//! Invariants:
//! * Every function returns [`ThermoclineResult`]; a failed call leaves its outputs alone.
//! * A volume belongs to its pool: `thermocline_close` frees both.

use std::cell::RefCell;
use std::error::Error as _;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt as _;
use std::slice;
use std::sync::{Mutex, PoisonError};

use thermocline::{Error, ErrorKind, Pool, Volume};

/// How a call ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThermoclineResult {
    /// Done.
    Ok = 0,
    /// An argument is null, or a name is no UTF-8.
    Argument = 1,
    /// The settings cannot be read, contradict themselves, or contradict the devices.
    Settings = 2,
    /// The devices hold no pool.
    NoPool = 3,
    /// Another process has the pool open.
    InUse = 4,
    /// A device of the pool is missing, or cannot be used as it is.
    Device = 5,
    /// The pool is damaged.
    Damaged = 6,
    /// The pool has no such volume.
    NoVolume = 7,
    /// The range ends beyond the volume.
    OutOfRange = 8,
    /// The pool is full.
    NoSpace = 9,
    /// A device failed a transfer, or a block cannot be read.
    Io = 10,
    /// Another error.
    Other = 11,
}

/// An open pool.
pub struct ThermoclinePool {
    pool: Pool,
    /// Volumes that were given out. Boxes keep their addresses.
    #[expect(clippy::vec_box, reason = "C has the addresses")]
    volumes: Mutex<Vec<Box<ThermoclineVolume>>>,
}

/// A volume of a pool. Every thread may use it.
pub struct ThermoclineVolume(Volume);

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

fn fail(result: ThermoclineResult, text: &str) -> ThermoclineResult {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = text);
    result
}

fn failed(error: &Error) -> ThermoclineResult {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    let result = match error.kind() {
        ErrorKind::Settings => ThermoclineResult::Settings,
        ErrorKind::NoPool => ThermoclineResult::NoPool,
        ErrorKind::InUse => ThermoclineResult::InUse,
        ErrorKind::Device => ThermoclineResult::Device,
        ErrorKind::Damaged => ThermoclineResult::Damaged,
        ErrorKind::NoVolume => ThermoclineResult::NoVolume,
        ErrorKind::OutOfRange => ThermoclineResult::OutOfRange,
        ErrorKind::NoSpace => ThermoclineResult::NoSpace,
        ErrorKind::Io => ThermoclineResult::Io,
        _ => ThermoclineResult::Other,
    };
    fail(result, &text)
}

fn ended(done: Result<(), Error>) -> ThermoclineResult {
    done.map_or_else(|error| failed(&error), |()| ThermoclineResult::Ok)
}

fn null() -> ThermoclineResult {
    fail(ThermoclineResult::Argument, "an argument is null")
}

/// Opens the pool of a settings file. On success `*pool` is the open pool, for `thermocline_close`.
///
/// # Safety
/// `settings` is a C string, and `pool` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thermocline_open(
    settings: *const c_char,
    pool: *mut *mut ThermoclinePool,
) -> ThermoclineResult {
    if settings.is_null() || pool.is_null() {
        return null();
    }
    // SAFETY: the caller passes a C string.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(settings) }.to_bytes());
    match Pool::open(path) {
        Err(error) => failed(&error),
        Ok(open) => {
            let open = Box::new(ThermoclinePool { pool: open, volumes: Mutex::default() });
            // SAFETY: the caller passes a place for the pool.
            unsafe { pool.write(Box::into_raw(open)) };
            ThermoclineResult::Ok
        }
    }
}

/// Finds the volume called `name`. On success `*volume` is the volume, until the pool is closed.
///
/// # Safety
/// `pool` is open, `name` is a C string, and `volume` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thermocline_volume(
    pool: *const ThermoclinePool,
    name: *const c_char,
    volume: *mut *const ThermoclineVolume,
) -> ThermoclineResult {
    if pool.is_null() || name.is_null() || volume.is_null() {
        return null();
    }
    // SAFETY: the caller passes an open pool and a C string.
    let (pool, name) = unsafe { (&*pool, CStr::from_ptr(name)) };
    let Ok(name) = name.to_str() else {
        return fail(ThermoclineResult::Argument, "the name is no UTF-8");
    };
    match pool.pool.volume(name) {
        Err(error) => failed(&error),
        Ok(found) => {
            let found = Box::new(ThermoclineVolume(found));
            let address: *const ThermoclineVolume = &raw const *found;
            pool.volumes.lock().unwrap_or_else(PoisonError::into_inner).push(found);
            // SAFETY: the caller passes a place for the volume.
            unsafe { volume.write(address) };
            ThermoclineResult::Ok
        }
    }
}

/// Fills `buffer` with `length` bytes from byte `offset` on.
///
/// # Safety
/// `volume` is of an open pool, and `length` bytes at `buffer` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thermocline_read(
    volume: *const ThermoclineVolume,
    offset: u64,
    buffer: *mut u8,
    length: usize,
) -> ThermoclineResult {
    if volume.is_null() || buffer.is_null() {
        return null();
    }
    // SAFETY: the caller passes a volume of an open pool.
    let volume = unsafe { &(*volume).0 };
    // SAFETY: the caller passes memory of that length. Bytes have no invalid values.
    let buffer = unsafe { slice::from_raw_parts_mut(buffer, length) };
    ended(volume.read_at(offset, buffer))
}

/// Writes `length` bytes of `data` from byte `offset` on.
///
/// # Safety
/// `volume` is of an open pool, and `length` bytes at `data` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thermocline_write(
    volume: *const ThermoclineVolume,
    offset: u64,
    data: *const u8,
    length: usize,
) -> ThermoclineResult {
    if volume.is_null() || data.is_null() {
        return null();
    }
    // SAFETY: the caller passes a volume of an open pool.
    let volume = unsafe { &(*volume).0 };
    // SAFETY: the caller passes memory of that length.
    let data = unsafe { slice::from_raw_parts(data, length) };
    ended(volume.write_at(offset, data))
}

/// Gives the space of whole blocks of 4096 bytes among `length` bytes from byte `offset` on back.
///
/// # Safety
/// `volume` is of an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thermocline_trim(
    volume: *const ThermoclineVolume,
    offset: u64,
    length: u64,
) -> ThermoclineResult {
    if volume.is_null() {
        return null();
    }
    // SAFETY: the caller passes a volume of an open pool.
    let volume = unsafe { &(*volume).0 };
    ended(volume.trim(offset, length))
}

/// Makes every completed write of the volume durable.
///
/// # Safety
/// `volume` is of an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thermocline_flush(volume: *const ThermoclineVolume) -> ThermoclineResult {
    if volume.is_null() {
        return null();
    }
    // SAFETY: the caller passes a volume of an open pool.
    let volume = unsafe { &(*volume).0 };
    ended(volume.flush())
}

/// Closes the pool in order, and frees it and its volumes, also when this fails.
///
/// # Safety
/// `pool` is open, and no other call uses it or a volume of it, now or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thermocline_close(pool: *mut ThermoclinePool) -> ThermoclineResult {
    if pool.is_null() {
        return null();
    }
    // SAFETY: the address came from a box in `thermocline_open`, and the caller gives it up.
    let pool = unsafe { Box::from_raw(pool) };
    ended(pool.pool.close())
}

/// The text of the last error of this thread, until its next error. Empty if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn thermocline_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}
