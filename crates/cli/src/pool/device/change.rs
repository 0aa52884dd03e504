//! `thermocline device attach`, `drain` and `detach`.

use std::process::ExitCode;
use std::time::Duration;

use thermocline_engine::{HostError, Notice};
use thermocline_format::{DeviceState, Geometry};
use thermocline_runtime::storage::Storage;
use thermocline_runtime::{DeviceChange, Driver, Settings};
use thermocline_types::{Bytes, DeviceId};

use super::super::open::{Opened, broken, to_change};
use super::super::{Broken, print};
use super::{AttachArgs, DetachArgs, DrainArgs, NewSide, named, refuse_to_destroy};
use crate::interrupt::Interrupt;
use crate::progress::Progress;

/// How often progress is shown.
const TICK: Duration = Duration::from_millis(100);

/// After so many ticks without one unit less, while nothing is under way, no more will be emptied. Chosen.
const PATIENCE: u32 = 50;

/// `thermocline device attach`.
pub fn attach(args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    let path = named(&settings, &args.path)?;
    let new = NewSide { path: path.clone(), yes_destroy: args.yes_destroy.clone() };
    refuse_to_destroy(&settings, &new)?;
    let pool = to_change(&settings, &path, DeviceChange::Attach)?;
    let holds = holds(&pool);
    pool.close()?;
    print(&format!("{} is a device of the pool, which holds {holds} of data now\n", path.display()))
}

/// `thermocline device drain`.
pub fn drain(args: &DrainArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    let path = named(&settings, &args.path)?;
    let change = if args.cancel { DeviceChange::Keep } else { DeviceChange::Drain };
    let interrupt = Interrupt::watch()?;
    let mut pool = to_change(&settings, &path, change)?;
    if args.cancel || args.later {
        let holds = holds(&pool);
        pool.close()?;
        let what = if args.cancel { "is used as before" } else { "is drained when it is served" };
        return print(&format!("{} {what}; the pool holds {holds} of data\n", path.display()));
    }
    interrupt.something_to_show();
    let left = drain_all(&mut pool.driver, &interrupt)?;
    pool.close()?;
    let shown = path.display();
    if interrupt.is_asked() && left > 0 {
        return print(&format!("{shown}: {left} units are left; what was done stays done\n"));
    }
    if left > 0 {
        let why = format!(
            "{shown}: {left} units cannot be emptied, for what they hold cannot be read; `thermocline check {}` tells \
             which blocks those are",
            args.settings.display()
        );
        return Err(Broken(why).into());
    }
    print(&format!("{shown} is empty; `thermocline device detach` takes it out of the pool\n"))
}

/// `thermocline device detach`.
pub fn detach(args: &DetachArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    let path = named(&settings, &args.path)?;
    let pool = to_change(&settings, &path, DeviceChange::Detach)?;
    let holds = holds(&pool);
    pool.close()?;
    // It may be what is broken: the pool is without it all the same.
    let forgotten = settings.forget_device(&path);
    let wiped = forgotten.err().map_or(String::new(), |error| {
        format!("; what it holds stays there, and must not be taken for a pool ({error})")
    });
    print(&format!(
        "{} has left the pool, which holds {holds} of data{wiped}\ntake it out of {}, or nothing opens the pool\n",
        path.display(),
        args.settings.display()
    ))
}

/// How much the pool holds.
fn holds<S>(pool: &Opened<S>) -> Bytes
where
    S: Storage,
{
    let total = pool.driver.engine().volumes().iter().map(|volume| volume.blocks).sum();
    Bytes(pool.config.capacity_blocks(total) * 4096)
}

/// Lets the engine work until nothing is left on devices that are drained. Returns the units that are left.
fn drain_all<S: Storage>(driver: &mut Driver<S>, interrupt: &Interrupt) -> anyhow::Result<u32> {
    let all = units_left(driver);
    let bar = Progress::default().bar("drain");
    let (mut left, mut idle, mut ended) = (all, 0, Vec::new());
    while left > 0 && idle < PATIENCE && !interrupt.is_asked() {
        driver.poll(Some(TICK), &mut ended);
        if driver.notices().contains(&Notice::Failed) {
            return Err(broken(driver, HostError::Failed).into());
        }
        driver.clear_notices();
        let now = units_left(driver);
        idle = if now == left && driver.is_settled() { idle + 1 } else { 0 };
        left = now;
        bar.set(f64::from(all - left.min(all)) / f64::from(all.max(1)));
    }
    Ok(left)
}

/// Units of devices that are drained which hold something.
fn units_left<S: Storage>(driver: &Driver<S>) -> u32 {
    let engine = driver.engine();
    draining(engine.geometry()).map(|device| engine.units_in_use(device)).sum()
}

/// The devices that are drained.
pub fn draining(geometry: &Geometry) -> impl Iterator<Item = DeviceId> {
    let drains = |device: &DeviceId| geometry.device(*device).state == DeviceState::Draining;
    geometry.present().map(|(device, _)| device).filter(drains)
}
