//! Devices of volumes: made, recovered, resized, removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use thermocline_target::{
    BlockTarget, ClientEvent, Completion, Exports, Info, Offer, Request, User,
};
use zerocopy::IntoBytes as _;

use crate::abi::{self, Parameters, Registration, SECTOR};
use crate::queues::{Opened, Queues};
use crate::record::Record;
use crate::uring::{COMPLETIONS, CONTROL, Control};
use crate::volume::LONGEST;

/// Devices at once: the kernel keeps requests and descriptors for each. Chosen, not measured.
const DEVICES_MAX: usize = 256;
/// Requests of a device that the kernel sends before it waits for answers. Chosen, not measured.
const DEPTH: u16 = 64;
/// Bytes of the longest discard or zeroing. Chosen, not measured.
const CLEAR_MAX: u64 = 1 << 30;
/// Bytes in a block of a pool as a power of two: smaller writes cost a read.
const BLOCK_SHIFT: u8 = 12;
/// Between two looks at which volumes there are, and which are in use. Chosen, not measured.
const LOOK: Duration = Duration::from_secs(1);
/// How long the end of a killed server may take, which the kernel carries out. Chosen, not measured.
const KILLED: Duration = Duration::from_secs(30);
/// Between two tries meanwhile.
const PAUSE: Duration = Duration::from_millis(10);

const _: () = assert!(DEVICES_MAX * (DEPTH as usize) < COMPLETIONS as usize);

/// What the driver must be able to do.
const NEEDED: u64 = abi::F_USER_RECOVERY
    | abi::F_USER_RECOVERY_REISSUE
    | abi::F_CMD_IOCTL_ENCODE
    | abi::F_USER_COPY;

/// Why volumes are no devices.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UblkError {
    /// The kernel has no driver, or its module is not loaded.
    #[error("there is no {CONTROL}: the kernel module ublk_drv is not loaded")]
    NoDriver,
    /// The driver cannot be used.
    #[error("{CONTROL} cannot be used: {0}")]
    Control(io::Error),
    /// The driver lacks features (bits of `UBLK_F_*`), which came with Linux 6.5.
    #[error("the driver ublk of this kernel lacks features (bits {0:#x})")]
    Old(u64),
    /// The system has no thread or no ring.
    #[error("no thread for ublk devices: {0}")]
    Thread(io::Error),
    /// The file of numbers cannot be used.
    #[error("numbers of ublk devices cannot be kept in {}: {error}", path.display())]
    Record {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A volume has no device.
    #[error("volume `{volume}` is no ublk device: {error}")]
    Device {
        /// Its name.
        volume: String,
        /// Why.
        error: io::Error,
    },
}

/// What happened to devices.
#[derive(Debug)]
#[non_exhaustive]
pub enum UblkNews {
    /// A device is in use, or not any more: it is mounted, swapped to, or part of another device.
    Client(ClientEvent),
    /// A volume that came later has no device.
    Failed(UblkError),
    /// There are more volumes than devices: this one has none.
    TooMany {
        /// Its name.
        volume: String,
    },
    /// The device of a server that was killed is removed, and its users get errors: writes that were answered are lost.
    /// The volume gets another device.
    Lost {
        /// Name of the volume.
        volume: String,
        /// The device.
        device: String,
    },
    /// The device of a server that ended is served again.
    Recovered {
        /// Name of the volume.
        volume: String,
        /// The device.
        device: String,
    },
    /// The device is in use at the end of the service: device and users wait for the next server.
    Left {
        /// Name of the volume.
        volume: String,
        /// The device.
        device: String,
    },
}

/// How devices are made.
pub struct Options {
    /// File of the numbers of devices.
    pub record: PathBuf,
    /// Text that differs from pool to pool. Devices of other pools are left alone.
    pub pool: String,
    /// Whether answered changes outlive this process if it is killed. Else devices outlive only a service that ends in
    /// order: a file system must not go on over a device that lost writes without a word.
    pub outlives_kill: bool,
    /// Receiver of notices, on a thread of the service.
    pub watcher: Box<dyn Fn(UblkNews) + Send>,
}

/// Whether this process can make devices.
///
/// # Errors
/// [`UblkError::NoDriver`], [`UblkError::Control`] or [`UblkError::Old`].
pub fn probe() -> Result<(), UblkError> {
    features().map(drop)
}

/// The control device, and what the driver can do.
fn features() -> Result<(Control, u64), UblkError> {
    let mut control = Control::open().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => UblkError::NoDriver,
        _ => UblkError::Control(error),
    })?;
    let mut features = 0_u64;
    match control.command(abi::GET_FEATURES, u32::MAX, 0, features.as_mut_bytes()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(UblkError::Control(error));
        }
        // The command is younger than the driver.
        Err(_) => return Err(UblkError::Old(NEEDED)),
    }
    match NEEDED & !features {
        0 => Ok((control, features)),
        missing => Err(UblkError::Old(missing)),
    }
}

/// Volumes that are served as devices, until [`Ublk::end`].
pub struct Ublk {
    numbers: Numbers,
    end: Sender<()>,
    thread: JoinHandle<()>,
}

/// Numbers of devices by names of volumes.
type Numbers = Arc<Mutex<BTreeMap<String, u32>>>;

fn lock(numbers: &Numbers) -> MutexGuard<'_, BTreeMap<String, u32>> {
    // No panic under the lock can leave a half-made change.
    numbers.lock().unwrap_or_else(PoisonError::into_inner)
}

fn path(number: u32) -> String {
    format!("/dev/ublkb{number}")
}

impl Ublk {
    /// Makes a device for each export, and from then on for each export that is added. Devices of an earlier server
    /// with the same record are served again.
    ///
    /// # Errors
    /// [`UblkError`]. Devices made so far are removed then.
    pub fn serve(exports: &Exports, options: Options) -> Result<Ublk, UblkError> {
        let (control, features) = features()?;
        let Options { record: file, pool, outlives_kill, watcher } = options;
        let record = Record::load(file.clone());
        let record = record.map_err(|error| UblkError::Record { path: file.clone(), error })?;
        let owner = identity(&pool, &file);
        let queues = Queues::start().map_err(UblkError::Thread)?;
        let numbers = Numbers::default();
        let mut devices = Devices {
            exports: exports.clone(),
            control,
            can_resize: features & abi::F_UPDATE_SIZE != 0,
            queues,
            record,
            owner,
            outlives_kill,
            watcher,
            numbers: Arc::clone(&numbers),
            served: Vec::new(),
            refused: BTreeSet::new(),
        };
        devices.remove_strays();
        for offer in exports.shown() {
            if let Err(error) = devices.add(&offer) {
                devices.end();
                return Err(error);
            }
        }
        let (end, ended) = channel();
        let run = move || devices.run(&ended);
        let builder = thread::Builder::new().name("thermocline-ublk-devices".to_owned());
        let thread = builder.spawn(run).map_err(UblkError::Thread)?;
        Ok(Ublk { numbers, end, thread })
    }

    /// The device of each volume by name, as `/dev/ublkbN`, now and later.
    pub fn devices(&self) -> impl Fn(&str) -> Option<String> + Send + Sync + use<> {
        let numbers = Arc::clone(&self.numbers);
        move |volume| lock(&numbers).get(volume).copied().map(path)
    }

    /// Answers what the targets have, and removes the devices that are not in use. The others wait for the next server.
    pub fn end(self) {
        // A panicked thread has printed its message.
        let _ended = self.end.send(());
        let _ended = self.thread.join();
    }
}

/// The mark of devices of a pool: a hash of the pool's text and of the record's place.
fn identity(pool: &str, record: &Path) -> u64 {
    let place = std::path::absolute(record).unwrap_or_else(|_| record.to_owned());
    let parts = [pool.as_bytes(), &[0], place.as_os_str().as_encoded_bytes()];
    hash(parts.into_iter().flatten().copied())
}

/// FNV-1a. Servers of every version must agree.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// A device that is served.
struct Device {
    number: u32,
    /// The number of the export.
    export: u64,
    name: String,
    /// Size that the kernel knows.
    sectors: u64,
    /// Disconnects when this process has nothing of the device any more.
    gone: Receiver<()>,
    user: Option<User>,
}

/// What the thread of devices has.
struct Devices {
    exports: Exports,
    control: Control,
    can_resize: bool,
    queues: Queues,
    record: Record,
    owner: u64,
    outlives_kill: bool,
    watcher: Box<dyn Fn(UblkNews) + Send>,
    numbers: Numbers,
    served: Vec<Device>,
    /// Numbers of exports that have no device.
    refused: BTreeSet<u64>,
}

impl Devices {
    fn run(mut self, ended: &Receiver<()>) {
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            self.look();
        }
        self.end();
    }

    /// Follows changes of the exports, and of the use of devices.
    fn look(&mut self) {
        for offer in self.exports.shown() {
            let is_known = self.served.iter().any(|one| one.export == offer.number());
            if is_known || self.refused.contains(&offer.number()) {
                continue;
            }
            if let Err(error) = self.add(&offer) {
                self.refused.insert(offer.number());
                (self.watcher)(UblkNews::Failed(error));
            }
        }
        let used = InUse::now();
        for at in (0..self.served.len()).rev() {
            match self.exports.numbered(self.served[at].export) {
                Some(offer) => self.update(at, &offer, &used),
                None => {
                    let device = self.served.remove(at);
                    // The record is read again with the next server.
                    let _stays = self.record.remove(&device.name);
                    self.remove(device);
                }
            }
        }
    }

    /// Name, size and use of a device.
    fn update(&mut self, at: usize, offer: &Offer, used: &InUse) {
        let device = &mut self.served[at];
        if device.name != offer.name {
            lock(&self.numbers).remove(&device.name);
            // As above.
            let _stays = self.record.remove(&device.name);
            device.name.clone_from(&offer.name);
            let _stays = self.record.set(&device.name, device.number);
            lock(&self.numbers).insert(device.name.clone(), device.number);
        }
        let sectors = offer.target.info().size.0 / SECTOR;
        if sectors != device.sectors && sectors > 0 && self.can_resize {
            // Once: the driver refuses for good.
            device.sectors = sectors;
            let _old_size = self.control.command(abi::UPDATE_SIZE, device.number, sectors, &mut []);
        }
        if used.has(device.number) == device.user.is_some() {
            return;
        }
        let export = device.export;
        let (is_over, name) = (device.user.is_some(), device.name.clone());
        device.user = match is_over {
            true => None,
            false => self.exports.enter(|offer| offer.number() == export),
        };
        if is_over || device.user.is_some() {
            let client = path(device.number);
            (self.watcher)(UblkNews::Client(ClientEvent { client, export: name, is_over }));
        }
    }

    /// Makes or recovers the device of an export.
    fn add(&mut self, offer: &Offer) -> Result<(), UblkError> {
        let volume = offer.name.clone();
        if self.served.len() >= DEVICES_MAX {
            self.refused.insert(offer.number());
            (self.watcher)(UblkNews::TooMany { volume });
            return Ok(());
        }
        let refused = |error| UblkError::Device { volume: volume.clone(), error };
        let (number, gone) = self.device(offer).map_err(refused)?;
        lock(&self.numbers).insert(volume.clone(), number);
        let sectors = offer.target.info().size.0 / SECTOR;
        let export = offer.number();
        self.served.push(Device { number, export, name: volume, sectors, gone, user: None });
        Ok(())
    }

    fn device(&mut self, offer: &Offer) -> io::Result<(u32, Receiver<()>)> {
        let is_durable = self.record.take_durable(&offer.name)? || self.outlives_kill;
        let Some(number) = self.record.number(&offer.name) else { return self.make(offer, None) };
        let Some(info) = self.info(number) else { return self.make(offer, Some(number)) };
        if info.server != self.owner {
            return self.make(offer, None);
        }
        let is_dead = info.state == abi::STATE_DEAD;
        if is_dead || !is_durable {
            self.stop_stray(number);
        }
        let (volume, device) = (offer.name.clone(), path(number));
        if is_dead {
            self.make(offer, Some(number))
        } else if !is_durable {
            (self.watcher)(UblkNews::Lost { volume, device });
            self.make(offer, Some(number))
        } else {
            let gone = self.recover(offer, &info)?;
            (self.watcher)(UblkNews::Recovered { volume, device });
            Ok((number, gone))
        }
    }

    /// The device with a number, if there is one.
    fn info(&mut self, number: u32) -> Option<Registration> {
        let mut info = Registration::default();
        let found = self.control.command(abi::GET_DEV_INFO, number, 0, info.as_mut_bytes());
        found.ok().map(|()| info)
    }

    /// Makes a device, with a wanted number if nobody has it.
    fn make(&mut self, offer: &Offer, wanted: Option<u32>) -> io::Result<(u32, Receiver<()>)> {
        let number = wanted.unwrap_or(u32::MAX);
        let mut info = Registration {
            queues: 1,
            depth: DEPTH,
            longest: LONGEST,
            device: number,
            flags: NEEDED,
            server: self.owner,
            ..Registration::default()
        };
        match self.control.command(abi::ADD_DEV, number, 0, info.as_mut_bytes()) {
            Err(error) if wanted.is_some() && is(&error, Errno::EXIST) => {
                return self.make(offer, None);
            }
            done => done?,
        }
        let number = info.device;
        let started = self.start(offer, &info);
        if started.is_err() {
            // The first error tells more.
            self.delete(number);
        }
        started.map(|gone| (number, gone))
    }

    fn start(&mut self, offer: &Offer, info: &Registration) -> io::Result<Receiver<()>> {
        let number = info.device;
        self.record.set(&offer.name, number)?;
        let mut parameters = parameters(&offer.target.info(), offer.read_only);
        self.control.command(abi::SET_PARAMS, number, 0, parameters.as_mut_bytes())?;
        let opened = Opened::new(number, info.depth)?;
        let gone = self.queues.attach((**offer).clone(), opened)?;
        let started = self.control.command(abi::START_DEV, number, process(), &mut []);
        if started.is_err() {
            self.stop(number, &gone);
        }
        started.map(|()| gone)
    }

    /// Serves a device of a server that ended.
    fn recover(&mut self, offer: &Offer, info: &Registration) -> io::Result<Receiver<()>> {
        let number = info.device;
        let until = Instant::now() + KILLED;
        loop {
            match self.control.command(abi::START_USER_RECOVERY, number, 0, &mut []) {
                Err(error) if is(&error, Errno::BUSY) && Instant::now() < until => {
                    thread::sleep(PAUSE);
                }
                done => break done?,
            }
        }
        let opened = Opened::new(number, info.depth)?;
        let gone = self.queues.attach((**offer).clone(), opened)?;
        self.control.command(abi::END_USER_RECOVERY, number, process(), &mut [])?;
        if self.can_resize {
            let sectors = offer.target.info().size.0 / SECTOR;
            self.control.command(abi::UPDATE_SIZE, number, sectors, &mut [])?;
        }
        Ok(gone)
    }

    /// Removes devices of volumes that are gone since the last server.
    fn remove_strays(&mut self) {
        let is_stray = |name: &str| self.exports.find(|offer| offer.name == name).is_none();
        let strays = self.record.iter().filter(|(name, _)| is_stray(name));
        let strays: Vec<(String, u32)> =
            strays.map(|(name, number)| (name.to_owned(), number)).collect();
        for (name, number) in strays {
            if self.info(number).is_some_and(|info| info.server == self.owner) {
                self.stop_stray(number);
            }
            // The record is read again with the next server.
            let _stays = self.record.remove(&name);
        }
    }

    /// Removes a device that this process does not have.
    fn stop_stray(&mut self, number: u32) {
        // A remaining device keeps the number from other devices.
        let _stays = self.control.command(abi::STOP_DEV, number, 0, &mut []);
        self.delete(number);
    }

    /// Deletes a stopped device. The number is free when the last program closes the device.
    fn delete(&mut self, number: u32) {
        // The command is younger than the driver; the other waits.
        if self.control.command(abi::DEL_DEV_ASYNC, number, 0, &mut []).is_err() {
            let _stays = self.control.command(abi::DEL_DEV, number, 0, &mut []);
        }
    }

    /// Stops a device, and waits until the thread of queues has closed the device.
    fn stop(&mut self, number: u32, gone: &Receiver<()>) {
        // A failed stop leaves the device open.
        if self.control.command(abi::STOP_DEV, number, 0, &mut []).is_ok() {
            let _disconnected = gone.recv();
        }
    }

    fn remove(&mut self, device: Device) {
        lock(&self.numbers).remove(&device.name);
        self.stop(device.number, &device.gone);
        self.delete(device.number);
        if device.user.is_some() {
            let (client, export) = (path(device.number), device.name);
            (self.watcher)(UblkNews::Client(ClientEvent { client, export, is_over: true }));
        }
    }

    fn end(mut self) {
        let used = InUse::now();
        let (left, idle): (Vec<_>, Vec<_>) = std::mem::take(&mut self.served)
            .into_iter()
            .partition(|device| used.has(device.number));
        idle.into_iter().for_each(|device| self.remove(device));
        // From here on nothing more is answered.
        self.queues.end();
        for device in left {
            let target =
                self.exports.numbered(device.export).map(|offer| Arc::clone(&offer.target));
            if target.is_some_and(|target| flush(&*target)) {
                // Without the note the next server removes the device.
                let _removed = self.record.set_durable(&device.name);
            }
            let (volume, device) = (device.name, path(device.number));
            (self.watcher)(UblkNews::Left { volume, device });
        }
    }
}

/// Makes durable what was answered. Returns whether it is.
fn flush(target: &dyn BlockTarget) -> bool {
    let (sender, flushed) = channel();
    // The receiver waits for the answer.
    let done = Completion::new(move |result| _ = sender.send(result));
    target.submit(Request::Flush { done });
    matches!(flushed.recv(), Ok(Ok(())))
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

fn process() -> u64 {
    std::process::id().into()
}

/// What the kernel is told of a device.
fn parameters(info: &Info, read_only: bool) -> Parameters {
    let features = info.features;
    let flag = |is: bool, flag| if is { flag } else { 0 };
    let clears = |can: bool| if can && !read_only { (CLEAR_MAX / SECTOR) as u32 } else { 0 };
    let logical_shift = info.logical_block.0.trailing_zeros() as u8;
    Parameters {
        length: size_of::<Parameters>() as u32,
        types: abi::PARAM_TYPES,
        attributes: flag(read_only, abi::ATTR_READ_ONLY)
            | flag(features.flush, abi::ATTR_VOLATILE_CACHE)
            | flag(features.fua, abi::ATTR_FUA),
        logical_shift,
        physical_shift: logical_shift.max(BLOCK_SHIFT),
        optimal_shift: BLOCK_SHIFT,
        least_shift: BLOCK_SHIFT,
        longest: LONGEST / SECTOR as u32,
        chunk: 0,
        sectors: info.size.0 / SECTOR,
        virtual_boundary: 0,
        discard_alignment: 0,
        discard_granularity: 1 << BLOCK_SHIFT,
        discard_sectors: clears(features.trim),
        zeroes_sectors: clears(features.zeroes),
        discard_segments: 1,
        reserved: 0,
        unread: 0,
    }
}

/// What is mounted or swapped to, at one moment.
struct InUse(String);

impl InUse {
    fn now() -> InUse {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        InUse(text("/proc/self/mountinfo") + &text("/proc/swaps"))
    }

    /// Whether a device, or a partition of it, is mounted, swapped to, or part of another device.
    fn has(&self, number: u32) -> bool {
        let holders = fs::read_dir(format!("/sys/block/ublkb{number}/holders"));
        self.names(number) || holders.is_ok_and(|mut holders| holders.next().is_some())
    }

    fn names(&self, number: u32) -> bool {
        let device = path(number);
        let is_part = |rest: &str| {
            let partition = rest.strip_prefix('p').unwrap_or("x");
            rest.is_empty() || partition.bytes().all(|byte| byte.is_ascii_digit())
        };
        self.0.split_whitespace().any(|word| word.strip_prefix(&device).is_some_and(is_part))
    }
}

#[cfg(test)]
mod tests;
