//! `thermocline device attach`, `grow`, `drain` and `detach`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use thermocline_engine::{HostError, Notice};
use thermocline_format::DeviceState;
use thermocline_runtime::storage::Storage;
use thermocline_runtime::{DeviceChange, Driver, Settings};
use thermocline_serve::{ChangeName, DeviceRequest, Serving, refuse_to_destroy, status_socket};
use thermocline_types::DeviceId;

use super::super::open::{Advised as _, broken, to_change};
use super::super::{Broken, print};
use super::{DrainArgs, Looked, MemberArgs, NewArgs, Room, class_name, named};
use crate::interrupt::{self, Interrupt};
use crate::progress::Progress;

/// How often progress is shown.
const TICK: Duration = Duration::from_millis(100);

/// Ticks without progress or device commands after which a drain ends. Chosen.
const IDLE: u32 = 50;

/// Ticks without an emptied unit after which the wait for a server ends: ten minutes, because the server may first
/// write the maps of a large pool. Chosen.
const PATIENCE: u32 = 6000;

/// `thermocline device attach`.
pub fn attach(args: &NewArgs) -> anyhow::Result<ExitCode> {
    let device = Named::load(&args.device)?;
    let more = device.change(ChangeName::Attach, &args.yes_destroy)?;
    print(&format!("{} is a device of the pool{more}\n", device.path.display()))
}

/// `thermocline device grow`.
pub fn grow(args: &MemberArgs) -> anyhow::Result<ExitCode> {
    let device = Named::load(args)?;
    let more = device.change(ChangeName::Grow, &[])?;
    print(&format!("{} is used to its end by the pool{more}\n", device.path.display()))
}

/// `thermocline device drain`.
pub fn drain(args: &DrainArgs) -> anyhow::Result<ExitCode> {
    let device = Named::load(&args.device)?;
    let shown = device.path.display();
    if args.cancel {
        let more = device.change(ChangeName::Keep, &[])?;
        return print(&format!("{shown} is used as before{more}\n"));
    }
    let interrupt = Interrupt::watch()?;
    if args.later {
        let more = device.change(ChangeName::Drain, &[])?;
        return print(&format!("{shown} is drained while the pool is served{more}\n"));
    }
    let (left, more) = empty(&device, &interrupt)?;
    if left > 0 {
        return device.interrupted(left, "go on now");
    }
    print(&format!(
        "{shown} is empty{more}\n`thermocline device detach` takes it out of the pool\n"
    ))
}

/// Drains a device, and waits for the end. Returns the remaining units (above 0 after Ctrl-C) and more text for the
/// report.
///
/// # Errors
/// When the change fails, or units cannot be emptied.
fn empty(device: &Named, interrupt: &Interrupt) -> anyhow::Result<(u32, String)> {
    interrupt.something_to_show();
    let (left, more) = if let Some(server) = device.server() {
        server.change_device(&device.request(ChangeName::Drain, &[]))?;
        (drained_by_server(device, interrupt)?, device.room_told())
    } else {
        let mut pool = to_change(&device.settings, &device.path, DeviceChange::Drain, false)?;
        let left = drain_by_itself(&mut pool.driver, device.number()?, interrupt);
        let left = left.map_err(|broken| device.not_emptied(&broken.to_string()))?;
        let more = format!("; {}", Room::of(&pool));
        pool.close()?;
        (left, more)
    };
    if left > 0 && !interrupt.is_asked() {
        let (shown, file) = (device.path.display(), device.settings.file().display());
        let why = format!(
            "{shown}: {left} units are left, and no more are emptied: what they hold cannot be read, or clients leave no \
             time for it; `thermocline scrub {file}` tells what is damaged"
        );
        return Err(Broken(why).into());
    }
    Ok((left, more))
}

/// `thermocline device replace --instead-of`: attaches the new device, drains the old device and detaches it. After an
/// interruption, finished steps are not repeated.
pub fn exchange(args: &NewArgs, old: &Path) -> anyhow::Result<ExitCode> {
    let new = Named::load(&args.device)?;
    let old = Named { path: named(&new.settings, old)?, settings: new.settings.clone() };
    ensure!(old.path != new.path, "{} cannot take its own place", new.path.display());
    let interrupt = Interrupt::watch()?;
    let [new_state, old_state] = [new.state()?, old.state()?];
    match (new_state, old_state) {
        (None, Some(_)) => {
            old.is_alike(&new)?;
            new.change(ChangeName::Attach, &args.yes_destroy)?;
        }
        // An earlier attempt was interrupted.
        (Some(DeviceState::Active), Some(DeviceState::Draining)) => {}
        (Some(DeviceState::Active), None) => return old.has_left(&new),
        (None, None) => bail!("{} is no device of the pool", old.path.display()),
        (Some(_), _) => return Err(old.keeps_its_place(&new)),
    }
    let both = || {
        let (new, old, file) =
            (new.path.display(), old.path.display(), new.settings.file().display());
        format!(
            "{new} is a device of the pool now, and {old} still is: attach more, and go on with `thermocline device drain \
             {file} {old}` and `thermocline device detach {file} {old}`; or give {new} up with \
             `thermocline device drain {file} {new}`, then `thermocline device detach {file} {new}`; {old} is not empty"
        )
    };
    let (left, _) = empty(&old, &interrupt).with_context(both)?;
    if left > 0 {
        return old.interrupted(left, "have it detached when it is empty");
    }
    old.detach()
}

/// `thermocline device detach`.
pub fn detach(args: &MemberArgs) -> anyhow::Result<ExitCode> {
    Named::load(args)?.detach()
}

/// A device in the settings.
pub(super) struct Named {
    pub(super) settings: Settings,
    pub(super) path: PathBuf,
}

impl Named {
    pub(super) fn load(args: &MemberArgs) -> anyhow::Result<Named> {
        let settings = Settings::load(&args.settings)?;
        let path = named(&settings, &args.path)?;
        Ok(Named { settings, path })
    }

    /// The device's state in the pool; `None` if the pool does not have the device.
    fn state(&self) -> anyhow::Result<Option<DeviceState>> {
        let (geometry, numbers) = self.settings.device_numbers()?;
        let mut all = self.settings.devices.iter().zip(numbers);
        let number = all.find_map(|(device, number)| number.filter(|_| device.path == self.path));
        let state = number.map(|number| geometry.device(number).state);
        Ok(state.filter(|state| *state != DeviceState::Detached))
    }

    /// Refuses a replacement of another device class.
    fn is_alike(&self, new: &Named) -> anyhow::Result<()> {
        let class = |one: &Named| {
            let device = one.settings.devices.iter().find(|device| device.path == one.path);
            device.map_or("", |device| class_name(device.class))
        };
        let (new, (is, was)) = (new.path.display(), (class(new), class(self)));
        ensure!(
            is == was,
            "{new} is for {is}, and {} is {was}: to change what the pool is made of, attach one and drain the other",
            self.path.display()
        );
        Ok(())
    }

    /// The error if the new device is already in the pool and replaces no device.
    fn keeps_its_place(&self, new: &Named) -> anyhow::Error {
        let (file, new, old) =
            (self.settings.file().display(), new.path.display(), self.path.display());
        anyhow!(
            "{new} is a device of the pool already, and so takes the place of none; to go on with a replacement that was \
             interrupted, or to do without {old}: `thermocline device drain {file} {old}`, then `thermocline device detach \
             {file} {old}`"
        )
    }

    /// Reports that an earlier replacement has finished.
    fn has_left(&self, new: &Named) -> anyhow::Result<ExitCode> {
        print(&format!(
            "{} is a device of the pool, and {} is none any more\ntake it out of {}\n",
            new.path.display(),
            self.path.display(),
            self.settings.file().display()
        ))
    }

    /// The device's number in the pool.
    fn number(&self) -> anyhow::Result<DeviceId> {
        let number = self.settings.device_number(&self.path)?;
        number.with_context(|| format!("{} is no device of the pool", self.path.display()))
    }

    fn detach(&self) -> anyhow::Result<ExitCode> {
        let more = self.change(ChangeName::Detach, &[])?;
        // The device may be broken. The pool has detached it in any case.
        let forgotten = self.settings.forget_device(&self.path);
        let wiped = forgotten.err().map_or(String::new(), |error| {
            format!("; what it holds stays there, and must not be taken for a pool ({error})")
        });
        print(&format!(
            "{} has left the pool{more}{wiped}\ntake it out of {}\n",
            self.path.display(),
            self.settings.file().display()
        ))
    }

    /// Reports the progress of an interrupted drain, and the effect of repeating the command.
    fn interrupted(&self, left: u32, again: &str) -> anyhow::Result<ExitCode> {
        let (shown, file) = (self.path.display(), self.settings.file().display());
        print(&format!(
            "interrupted: {left} units of {shown} are left. It is drained on whenever the pool is served; say this again to \
             {again}, or `thermocline device drain {file} {shown} --cancel` to use it as before\n"
        ))?;
        Ok(ExitCode::from(interrupt::CODE))
    }

    /// The error if the device cannot be emptied, with a remedy.
    fn not_emptied(&self, why: &str) -> Broken {
        let (shown, file) = (self.path.display(), self.settings.file().display());
        Broken(format!(
            "{shown} cannot be emptied: {why}; `thermocline device drain {file} {shown} --cancel`, with the pool stopped, uses \
             it as before"
        ))
    }

    fn socket(&self) -> PathBuf {
        status_socket(self.settings.file())
    }

    /// The server of the pool, if one runs.
    fn server(&self) -> Option<Serving> {
        Serving::of(self.settings.file())
    }

    fn request(&self, change: ChangeName, yes_destroy: &[String]) -> DeviceRequest {
        let (path, yes_destroy) = (self.path.clone(), yes_destroy.to_vec());
        DeviceRequest { change: Some(change), path, yes_destroy }
    }

    /// Applies a change, by the server if one runs. Returns more text for the report.
    fn change(&self, change: ChangeName, yes_destroy: &[String]) -> anyhow::Result<String> {
        let request = self.request(change, yes_destroy);
        if let Some(server) = self.server() {
            server.change_device(&request)?;
            return Ok(self.room_told());
        }
        if change == ChangeName::Attach {
            refuse_to_destroy(&self.settings, &request)?;
        }
        let pool = to_change(&self.settings, &self.path, change.into(), false)?;
        let more = format!("; {}", Room::of(&pool));
        pool.close()?;
        Ok(more)
    }

    /// The pool's capacity, reported by the server; empty if the server does not answer.
    fn room_told(&self) -> String {
        let room = Looked::at_server(&self.socket()).ok().and_then(|told| told.room);
        room.map_or(String::new(), |room| format!("; {room}"))
    }
}

/// Runs the engine until the drained device is empty. Returns the number of remaining units.
fn drain_by_itself<S: Storage>(
    driver: &mut Driver<S>,
    device: DeviceId,
    interrupt: &Interrupt,
) -> Result<u32, Broken> {
    let all = driver.engine().units_in_use(device);
    let bar = Progress::default().bar("drain");
    let (mut left, mut idle, mut ended) = (all, 0, Vec::new());
    while left > 0 && idle < IDLE && !interrupt.is_asked() {
        driver.poll(Some(TICK), &mut ended);
        if driver.notices().contains(&Notice::Failed) {
            return Err(broken(driver, HostError::Failed));
        }
        driver.clear_notices();
        let now = driver.engine().units_in_use(device);
        idle = if now == left && driver.device().is_idle() { idle + 1 } else { 0 };
        left = now;
        bar.set(f64::from(all - left.min(all)) / f64::from(all.max(1)));
    }
    Ok(left)
}

/// Waits until a server has emptied a device. Returns the number of remaining units.
fn drained_by_server(device: &Named, interrupt: &Interrupt) -> anyhow::Result<u32> {
    let (socket, number, shown) = (device.socket(), device.number()?, device.path.display());
    let left = || -> anyhow::Result<u32> {
        let told = Looked::at_server(&socket).with_context(|| {
            format!("{shown} is drained on whenever the pool is served, but the server does not say how far it is")
        })?;
        if let Some(failure) = told.failure {
            return Err(device.not_emptied(&failure).into());
        }
        let left = told.left.get(&number.0).copied();
        left.with_context(|| format!("{shown} is not drained any more: somebody has changed that"))
    };
    let all = left()?;
    let bar = Progress::default().bar("drain");
    let (mut now, mut idle) = (all, 0);
    while now > 0 && idle < PATIENCE && !interrupt.is_asked() {
        std::thread::sleep(TICK);
        let before = now;
        now = left()?;
        idle = if now == before { idle + 1 } else { 0 };
        bar.set(f64::from(all - now.min(all)) / f64::from(all.max(1)));
    }
    Ok(now)
}
