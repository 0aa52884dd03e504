//! What carries out the requests of clients: a pool, or a simulated drive without a pool.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thermocline_format::VolumeName;
use thermocline_nbd::Server;
use thermocline_runtime::storage::Waker;
use thermocline_runtime::{BareDrive, Poller, Pool, ServedLayer, Settings, Volume};
use thermocline_target::{BlockTarget, Export, Granular};
use thermocline_types::Bytes;

use crate::Error;
use crate::guests::TellWear;
use crate::log::Log;
use crate::wear;

/// What carries out requests.
#[derive(Clone)]
pub enum Backend {
    Pool(Arc<Pool>),
    Drive(Arc<BareDrive>),
}

/// A backend that may have been closed.
#[derive(Clone)]
pub enum WeakBackend {
    Pool(Weak<Pool>),
    Drive(Weak<BareDrive>),
}

impl Backend {
    /// Opens the drive of `settings`, which have a layer without a pool.
    ///
    /// # Errors
    /// When it does not open.
    pub fn drive(settings: &Settings, read_only: bool, log: &Log) -> Result<Backend, Error> {
        let drive = BareDrive::open(settings, read_only).map_err(Error::refused)?;
        let name = settings.pool.layer().name();
        log.note(format_args!(
            "the drive is served without a pool (layer = \"{name}\"): its volumes have fixed places"
        ));
        Ok(Backend::Drive(Arc::new(drive)))
    }

    /// Whether `settings` name a layer without a pool.
    pub fn is_drive(settings: &Settings) -> bool {
        settings.pool.layer() != ServedLayer::Log
    }

    /// Names of the volumes.
    pub fn volume_names(&self) -> Vec<VolumeName> {
        match self {
            Backend::Pool(pool) => pool.volume_names(),
            Backend::Drive(drive) => drive.volumes().iter().map(|one| one.name()).collect(),
        }
    }

    /// An export for each volume.
    pub fn exports(&self, read_only: bool) -> Vec<Export> {
        match self {
            Backend::Pool(pool) => {
                let names = pool.volume_names();
                let volumes = names.iter().filter_map(|name| pool.volume(name.as_str()));
                let read_only = |one: &Volume| read_only || one.is_snapshot();
                volumes
                    .map(|one| (read_only(&one), one))
                    .map(|(read_only, one)| export(one.name().as_str(), one, read_only))
                    .collect()
            }
            Backend::Drive(drive) => {
                let volumes = drive.volumes().iter().cloned();
                volumes.map(|one| export(one.name().as_str(), one, read_only)).collect()
            }
        }
    }

    /// Runs the server of clients: on the thread of a pool, or on a thread of its own.
    ///
    /// # Errors
    /// When the pool failed, or the system has no thread to give.
    pub fn run(&self, server: Server, patience: Duration) -> Result<Option<JoinHandle<()>>, Error> {
        match self {
            Backend::Pool(pool) => {
                let registered = pool.register(Box::new(PolledServer(server)));
                registered.map_err(|_| {
                    Error::Broken("the pool failed before its server began".to_owned())
                })?;
                Ok(None)
            }
            Backend::Drive(_) => {
                let builder = thread::Builder::new().name("thermocline-nbd".to_owned());
                let thread = builder.spawn(move || _ = server.run(patience));
                Ok(Some(thread.map_err(Error::io("no thread for clients"))?))
            }
        }
    }

    /// How the devices wear, if an endurance is stated of any.
    pub fn tell_wear(&self) -> Option<TellWear> {
        let Backend::Pool(pool) = self else { return None };
        let used = |pool: &Pool| pool.look(wear::used).unwrap_or_default();
        let is_stated = used(pool) != Default::default();
        let pool = Arc::downgrade(pool);
        is_stated.then(|| -> TellWear {
            Box::new(move || pool.upgrade().map(|pool| used(&pool)).unwrap_or_default())
        })
    }

    /// Requests wait for no limit any more.
    pub fn lift_limits(&self) {
        if let Backend::Pool(pool) = self {
            pool.lift_limits();
        }
    }

    /// The backend, which may close.
    pub fn downgrade(&self) -> WeakBackend {
        match self {
            Backend::Pool(pool) => WeakBackend::Pool(Arc::downgrade(pool)),
            Backend::Drive(drive) => WeakBackend::Drive(Arc::downgrade(drive)),
        }
    }

    /// Waits until all clones are dropped, then closes the backend.
    ///
    /// # Errors
    /// When the pool failed.
    pub fn close(self) -> Result<(), thermocline_engine::HostError> {
        match self {
            Backend::Pool(pool) => alone(pool).close(),
            Backend::Drive(drive) => {
                drop(alone(drive));
                Ok(())
            }
        }
    }
}

/// Waits for the last reference: the status keeps one for a moment.
fn alone<T>(mut shared: Arc<T>) -> T {
    loop {
        match Arc::try_unwrap(shared) {
            Ok(one) => return one,
            Err(others) => shared = others,
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The export of a volume.
pub fn export(name: &str, target: impl BlockTarget + 'static, read_only: bool) -> Export {
    let target = Granular::new(target, Bytes::SECTOR);
    Export { name: name.to_owned(), target: Arc::new(target), read_only }
}

/// A server that is polled on the pool's thread.
struct PolledServer(Server);

impl Poller for PolledServer {
    fn turn(&mut self, wait: Option<Duration>, devices: &[BorrowedFd<'_>]) {
        self.0.turn(wait, devices);
    }

    fn waker(&self) -> Waker {
        let stopper = self.0.stopper();
        Arc::new(move || stopper.wake())
    }
}
