//! The sockets of all volumes.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use thermocline_target::{Bell, ClientEvent, Exports, Offer};

use crate::config::Wear;
use crate::connection;
use crate::device::{Device, TellWear};

/// How long a frontend that does not read its answers holds up a stop. Chosen, not measured.
const STUCK: Duration = Duration::from_secs(2);
/// Between two looks at whether a thread has ended. Chosen, not measured.
const PAUSE: Duration = Duration::from_millis(5);

/// A listening socket, and a guard that removes the file when dropped.
pub type Bound = (UnixListener, Box<dyn Any + Send>);

/// Makes a socket at a path.
pub type Bind = Box<dyn Fn(&Path) -> Result<Bound, String> + Send>;

/// Calls of the service to its owner.
pub struct Hooks {
    /// Makes a socket at a path.
    pub bind: Bind,
    /// How the devices below the volumes wear. Without it no guest is told.
    pub wear: Option<Box<dyn Fn() -> Wear + Send + Sync>>,
    /// Receives each begin and end of a connection, from any thread.
    pub client: Box<dyn Fn(ClientEvent) + Send + Sync>,
    /// Receives the reason why a volume has no socket, or a connection no thread.
    pub trouble: Box<dyn Fn(String) + Send + Sync>,
}

/// The sockets, served by threads of their own until [`GuestDisks::end`], or until dropped.
pub struct GuestDisks {
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

struct Shared {
    /// Rings when the list of exports changed, a connection ended, or the service is to end.
    news: Bell,
    is_stopping: AtomicBool,
}

/// Serves each of `exports` at `FOLDER/NAME.sock`, also exports that are added or renamed later.
///
/// # Errors
/// When the system has no thread or event to give.
pub fn serve(exports: &Exports, folder: &Path, hooks: Hooks) -> io::Result<GuestDisks> {
    let shared = Arc::new(Shared { news: Bell::new()?, is_stopping: AtomicBool::new(false) });
    let changed = Arc::downgrade(&shared);
    exports.watch(move || changed.upgrade().iter().for_each(|shared| shared.news.ring()));
    let Hooks { bind, wear, client, trouble } = hooks;
    let mut listener = Listener {
        exports: exports.clone(),
        folder: folder.to_owned(),
        bind,
        wear: wear.map(Arc::from),
        client: Arc::from(client),
        trouble,
        shared: Arc::clone(&shared),
        sockets: BTreeMap::new(),
        connections: BTreeMap::new(),
    };
    listener.look_at_exports();
    let thread = thread::Builder::new().name("thermocline-vhost".to_owned());
    let thread = thread.spawn(move || listener.run())?;
    Ok(GuestDisks { thread: Some(thread), shared })
}

/// The socket of an export, by the name of the export.
#[must_use]
pub fn socket(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.sock"))
}

impl GuestDisks {
    /// Ends the service: requests under way are answered, then each frontend loses its connection and can connect
    /// again.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for GuestDisks {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.shared.news.ring();
        // A panicked thread has printed a message.
        let _panicked = self.thread.take().map(JoinHandle::join);
    }
}

/// The thread that accepts connections.
struct Listener {
    exports: Exports,
    folder: PathBuf,
    bind: Bind,
    wear: Option<TellWear>,
    client: Arc<dyn Fn(ClientEvent) + Send + Sync>,
    trouble: Box<dyn Fn(String) + Send + Sync>,
    shared: Arc<Shared>,
    /// By number of the export, its name and its socket, if it could be made.
    sockets: BTreeMap<u64, (String, Option<Bound>)>,
    /// By number of the export.
    connections: BTreeMap<u64, Connection>,
}

struct Connection {
    thread: JoinHandle<()>,
    stream: UnixStream,
    bell: Bell,
    is_stopping: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Connection {
    /// Asks for the end.
    fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        // Ends a wait for the rest of a message. A closed connection has no such wait.
        let _gone = self.stream.shutdown(Shutdown::Read);
        self.bell.ring();
    }

    /// Waits for the end.
    fn join(self) {
        let until = Instant::now() + STUCK;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(PAUSE);
        }
        let _gone = self.stream.shutdown(Shutdown::Both);
        // A panicked thread has printed a message.
        let _panicked = self.thread.join();
    }
}

impl Listener {
    fn run(mut self) {
        while !self.shared.is_stopping.load(Ordering::Acquire) {
            let arrived = self.wait();
            self.shared.news.silence();
            self.connections.retain(|_, connection| !connection.is_over.load(Ordering::Acquire));
            self.look_at_exports();
            arrived.into_iter().for_each(|number| self.accept(number));
        }
        self.sockets.clear();
        self.connections.values().for_each(Connection::stop);
        self.connections.into_values().for_each(Connection::join);
    }

    /// Waits for news or connections. Returns the exports with a connection.
    fn wait(&self) -> Vec<u64> {
        let idle = |number: &u64| !self.connections.contains_key(number);
        let sockets = self.sockets.iter().filter(|(number, _)| idle(number));
        let sockets =
            sockets.filter_map(|(number, (_, bound))| Some((*number, &bound.as_ref()?.0)));
        let (numbers, sockets): (Vec<u64>, Vec<&UnixListener>) = sockets.unzip();
        let mut events: Vec<PollFd<'_>> =
            sockets.into_iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        events.push(PollFd::new(&self.shared.news, PollFlags::IN));
        // A signal only makes the thread look once more.
        let _signal = poll(&mut events, None);
        let arrived =
            numbers.into_iter().zip(&events).filter(|(_, event)| !event.revents().is_empty());
        arrived.map(|(number, _)| number).collect()
    }

    /// Makes the sockets of new exports, and removes those of exports that are gone or have another name.
    fn look_at_exports(&mut self) {
        let shown = self.exports.shown();
        let named = |number: u64, name: &str| {
            shown.iter().any(|offer| offer.number() == number && offer.name == name)
        };
        self.sockets.retain(|number, (name, _)| named(*number, name));
        for offer in &shown {
            let number = offer.number();
            if !self.sockets.contains_key(&number) {
                self.sockets.insert(number, (offer.name.clone(), self.bind(offer)));
            }
        }
    }

    fn bind(&self, offer: &Offer) -> Option<Bound> {
        let bound = if offer.name.contains(['/', '\0']) {
            Err("no file can have this name".to_owned())
        } else {
            (self.bind)(&socket(&self.folder, &offer.name))
        };
        let bound = bound.and_then(|bound| match bound.0.set_nonblocking(true) {
            Ok(()) => Ok(bound),
            Err(error) => Err(error.to_string()),
        });
        bound
            .map_err(|why| (self.trouble)(format!("volume {:?} has no socket: {why}", offer.name)))
            .ok()
    }

    /// Accepts a connection to an export and starts its thread.
    fn accept(&mut self, number: u64) {
        let socket = self.sockets.get(&number).and_then(|(_, bound)| bound.as_ref());
        // The frontend, or the export, may have gone meanwhile.
        let Some((stream, _)) = socket.and_then(|(socket, _)| socket.accept().ok()) else { return };
        match self.connect(number, stream) {
            Ok(Some(connection)) => _ = self.connections.insert(number, connection),
            Ok(None) => {}
            Err(error) => (self.trouble)(format!("a connection is refused: {error}")),
        }
    }

    fn connect(&self, number: u64, stream: UnixStream) -> io::Result<Option<Connection>> {
        let Some(volume) = self.exports.enter(|offer| offer.number() == number) else {
            return Ok(None);
        };
        stream.set_nonblocking(false)?;
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        let client = format!("process {}", peer.pid.as_raw_nonzero());
        let event = ClientEvent { client, export: volume.name.clone(), is_over: false };
        let bell = Bell::new()?;
        let device = Device::new(volume, self.wear.clone(), stream.try_clone()?, bell.clone());
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (tell, shared) = (Arc::clone(&self.client), Arc::clone(&self.shared));
        let (own, ending, kept) = (bell.clone(), Arc::clone(&is_stopping), stream.try_clone()?);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::Builder::new().name("thermocline-guest".to_owned());
        let thread = thread.spawn(move || {
            tell(event.clone());
            connection::serve(stream, device, &own, &ending);
            tell(ClientEvent { is_over: true, ..event });
            over.store(true, Ordering::Release);
            shared.news.ring();
        })?;
        Ok(Some(Connection { thread, stream: kept, bell, is_stopping, is_over }))
    }
}
