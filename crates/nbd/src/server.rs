//! All connections on one thread.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slab::Slab;
use thermocline_target::{BufferPool, ClientEvent, Clock, Exports, emptied};

use crate::budget::Budget;
use crate::connection::{Connection, Context, End};
use crate::outbox::{Outbox, Outcome};
use crate::socket::{Readiness, Socket, Stream};
use crate::traffic::Published;
use crate::{Limits, Tls, Traffic, Transport};

/// Bytes of free buffers kept for reuse. Chosen, not measured.
const MEMORY: usize = 32 << 20;

/// Connections accepted in a row before the server turns to the open connections. Chosen, not measured.
const ACCEPTED: usize = 16;

/// Pause after a failed accept, for example for want of descriptors. Chosen, not measured.
const PAUSE: Duration = Duration::from_millis(200);

/// Where clients come from.
#[derive(Debug)]
pub struct Listener {
    socket: Listening,
    tls: Option<Tls>,
}

#[derive(Debug)]
enum Listening {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Clients of this machine, as far as they may open the socket.
    #[must_use]
    pub fn unix(socket: UnixListener) -> Listener {
        Listener { socket: Listening::Unix(socket), tls: None }
    }

    /// Clients of the network; with `tls`, only clients with a trusted certificate.
    #[must_use]
    pub fn tcp(socket: TcpListener, tls: Option<Tls>) -> Listener {
        Listener { socket: Listening::Tcp(socket), tls }
    }

    fn prepare(&self) -> io::Result<()> {
        match &self.socket {
            Listening::Unix(socket) => socket.set_nonblocking(true),
            Listening::Tcp(socket) => socket.set_nonblocking(true),
        }
    }

    fn accept(&self) -> io::Result<Socket> {
        let stream = match &self.socket {
            Listening::Unix(socket) => Stream::Unix(socket.accept()?.0),
            Listening::Tcp(socket) => Stream::Tcp(socket.accept()?.0),
        };
        // A client that is already gone must not stop further accepts.
        stream.prepare().map_err(|_| io::ErrorKind::ConnectionAborted)?;
        Ok(Socket::new(stream))
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Listening::Unix(socket) => socket.as_fd(),
            Listening::Tcp(socket) => socket.as_fd(),
        }
    }
}

/// Stops a server, reads its counters and wakes it, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    outbox: Arc<Outbox>,
    stop: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    traffic: Arc<Published>,
}

impl Stopper {
    /// Stops the server: no new connections, no new requests. A connection ends when its requests are answered.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.outbox.wake();
    }

    /// Whether it was stopped and every connection has ended, or the server is gone.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Ends the waiting of [`Server::turn`].
    pub fn wake(&self) {
        self.outbox.wake();
    }

    /// The counters, which include every answered request of a target.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic.read()
    }
}

/// The events that ended a wait. The vectors keep their memory for the next wait.
#[derive(Default)]
struct Found {
    /// A thread woke the server.
    woken: bool,
    /// A listener has clients.
    incoming: bool,
    /// Ready connections, with their events.
    ready: Vec<(usize, PollFlags)>,
    /// Connections whose sockets were polled.
    asked: Vec<usize>,
    /// The polled descriptors.
    fds: Vec<PollFd<'static>>,
}

/// Receives events of clients, on the thread of the server.
pub(crate) type Watcher = Box<dyn FnMut(ClientEvent) + Send>;

/// Serves exports on sockets.
pub struct Server {
    listeners: Vec<Listener>,
    connections: Slab<Connection>,
    context: Context,
    /// Turns in which waiting connections got memory.
    fed: usize,
    outcomes: Vec<Outcome>,
    found: Found,
    /// Connections with replies to send or requests to begin.
    touched: Vec<usize>,
    stopper: Stopper,
    stopping: bool,
    accept_from: Instant,
}

impl Server {
    /// Makes a server.
    ///
    /// # Errors
    /// When the system gives no sockets.
    pub fn new(listeners: Vec<Listener>, exports: Exports, limits: Limits) -> io::Result<Server> {
        Server::by(Clock::system(), listeners, exports, limits)
    }

    /// As [`Server::new`], with `clock` instead of the system clock.
    ///
    /// # Errors
    /// As there.
    pub fn by(
        clock: Clock,
        listeners: Vec<Listener>,
        exports: Exports,
        limits: Limits,
    ) -> io::Result<Server> {
        listeners.iter().try_for_each(Listener::prepare)?;
        let outbox = Outbox::new()?;
        let stopper = Stopper {
            outbox: Arc::clone(&outbox),
            stop: Arc::default(),
            over: Arc::default(),
            traffic: Arc::default(),
        };
        let (now, traffic, memory) = (clock.now(), Traffic::default(), BufferPool::new(MEMORY));
        let budget = Budget::new(&limits);
        Ok(Server {
            listeners,
            connections: Slab::new(),
            context: Context {
                exports,
                limits,
                outbox,
                requests: Slab::new(),
                memory,
                budget,
                traffic,
                submitted: 0,
                clock,
                now,
                watcher: Box::new(drop),
            },
            fed: 0,
            outcomes: Vec::new(),
            found: Found::default(),
            touched: Vec::new(),
            stopper,
            stopping: false,
            accept_from: now,
        })
    }

    /// Sends events of clients to `watcher`.
    #[must_use]
    pub fn watched_by(mut self, watcher: impl FnMut(ClientEvent) + Send + 'static) -> Server {
        self.context.watcher = Box::new(watcher);
        self
    }

    /// The server's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.context.clock
    }

    /// A handle that stops the server.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until it is stopped and every connection has ended, or `patience` is over after it was stopped. Returns
    /// whether all connections ended.
    pub fn run(mut self, patience: Duration) -> bool {
        let mut stopped: Option<Instant> = None;
        loop {
            if self.stopping {
                let now = self.context.clock.now();
                let since = now.saturating_duration_since(*stopped.get_or_insert(now));
                if self.is_idle() || since >= patience {
                    return self.is_idle();
                }
                self.turn(Some(patience.saturating_sub(since)), &[]);
            } else {
                self.turn(None, &[]);
            }
        }
    }

    /// Whether no connection is left.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.connections.is_empty()
    }

    /// Sends replies and receives requests. If idle, waits at most `wait` for a socket, a descriptor of `others`, a
    /// target or a [`Stopper`].
    pub fn turn(&mut self, wait: Option<Duration>, others: &[BorrowedFd<'_>]) {
        let wait = self.begin_turn(wait);
        self.end_turn(wait, others);
    }

    /// The part of [`Server::turn`] before the wait. Returns the time to wait. The server counts as waiting until
    /// [`Server::end_turn`].
    pub fn begin_turn(&mut self, wait: Option<Duration>) -> Option<Duration> {
        let busy = self.prepare();
        let is_over = self.stopping && self.is_idle() && !self.stopper.is_over();
        let wait = if busy || is_over { Some(Duration::ZERO) } else { self.patience(wait) };
        let ready_already = wait != Some(Duration::ZERO) && self.context.outbox.prepare_wait();
        if ready_already { Some(Duration::ZERO) } else { wait }
    }

    /// The wait of [`Server::turn`] and the part behind it.
    pub fn end_turn(&mut self, wait: Option<Duration>, others: &[BorrowedFd<'_>]) {
        let found = std::mem::take(&mut self.found);
        let found = self.poll(found, wait, others);
        self.work_on(&found);
        self.found = found;
        self.close_the_late();
        if self.stopping {
            self.publish();
            self.stopper.over.store(self.is_idle(), Ordering::Release);
        }
    }

    /// Does all work that needs no news from sockets. Returns whether more work is left; then the server must not wait.
    fn prepare(&mut self) -> bool {
        self.context.now = self.context.clock.now();
        let before = self.context.submitted;
        let stopped = self.take_stop();
        self.answer();
        self.feed();
        let limits = &self.context.limits;
        let more = self.connections.iter().any(|(_, connection)| connection.has_more(limits));
        let fed = self.context.budget.has_returned() && self.starved().next().is_some();
        // Do not wait: targets on the server's thread must carry out the submitted requests.
        stopped || more || fed || self.context.submitted > before
    }

    /// Begins a requested stop. Returns whether the stop began now.
    fn take_stop(&mut self) -> bool {
        if self.stopping || !self.stopper.stop.load(Ordering::Acquire) {
            return false;
        }
        self.stopping = true;
        self.listeners.clear();
        for index in self.indices() {
            self.connections[index].stop();
            self.go_on(index);
        }
        true
    }

    /// Sends replies for all pending outcomes.
    fn answer(&mut self) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.context.outbox.take(&mut outcomes);
        let mut touched = std::mem::take(&mut self.touched);
        for outcome in outcomes.drain(..) {
            let Outcome { number, result } = outcome;
            let (index, request) = self.context.requests.remove(number as usize);
            let connection = self.connections.get_mut(index);
            let connection = connection.expect("it is kept while the target has its requests");
            connection.complete(&request, result, &mut self.context);
            if touched.last() != Some(&index) {
                touched.push(index);
            }
        }
        self.outcomes = outcomes;
        // Count before sending: a client with a reply must find its request counted.
        self.publish();
        for index in touched.drain(..) {
            self.go_on(index);
        }
        self.touched = touched;
    }

    fn publish(&self) {
        let open = self.connections.len() as u64;
        let held_bytes = self.context.budget.held();
        self.stopper.traffic.publish(Traffic { open, held_bytes, ..self.context.traffic });
    }

    /// Resumes connections that wait for memory, after memory was returned. Each turn begins with the next connection.
    fn feed(&mut self) {
        if !self.context.budget.take_returned() {
            return;
        }
        let mut starved: Vec<usize> = self.starved().collect();
        let first = self.fed.checked_rem(starved.len()).unwrap_or(0);
        self.fed = self.fed.wrapping_add(1);
        starved.rotate_left(first);
        for index in starved {
            self.go_on(index);
        }
    }

    /// Connections that wait for memory.
    fn starved(&self) -> impl Iterator<Item = usize> {
        self.connections.iter().filter(|(_, one)| one.is_starved()).map(|(index, _)| index)
    }

    /// [`Connection::go_on`] of a connection.
    fn go_on(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let result = connection.go_on(&mut self.context);
        self.went_on(index, result);
    }

    fn receive(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let received = connection.receive(&mut self.context);
        let received = received.and_then(|()| connection.go_on(&mut self.context));
        self.went_on(index, received);
    }

    /// Removes a connection that is over.
    fn went_on(&mut self, index: usize, result: Result<(), End>) {
        let connection = &mut self.connections[index];
        if let Err(end) = result {
            if matches!(end, End::Fault) {
                self.context.traffic.thrown_out += 1;
            }
            connection.close();
        }
        if connection.is_over() {
            self.connections.remove(index).leave(&mut self.context);
        }
    }

    /// Time to wait: at most until the next deadline of a connection.
    fn patience(&self, wait: Option<Duration>) -> Option<Duration> {
        let (context, short) = (&self.context, self.is_short_of_memory());
        let late = self.connections.iter();
        let late = late.filter_map(|(_, one)| one.deadline(context, short)).min();
        let paused = (self.accept_from > self.context.now).then_some(self.accept_from);
        let until = late.into_iter().chain(paused).min();
        let until = until.map(|until| until.saturating_duration_since(self.context.now));
        match (wait, until) {
            (Some(wait), Some(until)) => Some(wait.min(until)),
            (wait, until) => wait.or(until),
        }
    }

    /// Whether an event is pending that ends the wait.
    #[must_use]
    pub fn is_woken(&self) -> bool {
        let found = self.poll(Found::default(), Some(Duration::ZERO), &[]);
        found.woken || found.incoming || !found.ready.is_empty()
    }

    /// Waits for sockets, for `others` and to be woken.
    fn poll(&self, mut found: Found, wait: Option<Duration>, others: &[BorrowedFd<'_>]) -> Found {
        let outbox = self.context.outbox.descriptor();
        let mut fds: Vec<PollFd<'_>> = emptied(std::mem::take(&mut found.fds));
        fds.push(PollFd::from_borrowed_fd(outbox, PollFlags::IN));
        fds.extend(others.iter().map(|&fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        if self.accept_from <= self.context.now {
            let listeners = self.listeners.iter();
            fds.extend(listeners.map(|one| PollFd::from_borrowed_fd(one.fd(), PollFlags::IN)));
        }
        let first = fds.len();
        (found.woken, found.incoming) = (false, false);
        self.watch(&mut fds, &mut found);
        let wait = if found.ready.is_empty() { wait } else { Some(Duration::ZERO) };
        let timeout = wait.map(|wait| Timespec {
            tv_sec: wait.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: wait.subsec_nanos().into(),
        });
        // On an error, a signal or a shortage of memory, no descriptor is ready.
        if poll(&mut fds, timeout.as_ref()).unwrap_or(0) > 0 {
            let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
            found.woken = is_ready(&fds[0]);
            found.incoming = fds[1 + others.len()..first].iter().any(is_ready);
            let of_connections = found.asked.iter().zip(&fds[first..]);
            let are_ready = of_connections.filter(|(_, fd)| is_ready(fd));
            found.ready.extend(are_ready.map(|(&index, fd)| (index, fd.revents())));
        }
        found.fds = emptied(fds);
        found
    }

    /// Adds the sockets of connections to `fds`. Connections that cannot be polled are found here if they are ready.
    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>, found: &mut Found) {
        found.ready.clear();
        found.asked.clear();
        for (index, connection) in &self.connections {
            let Some(socket) = connection.socket() else { continue };
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, connection.wants_input(&self.context.limits));
            flags.set(PollFlags::OUT, connection.wants_output());
            match socket.ready() {
                Ok(fd) => {
                    fds.push(PollFd::from_borrowed_fd(fd, flags));
                    found.asked.push(index);
                }
                Err(Readiness { readable, writable, hung_up }) => {
                    flags.set(PollFlags::IN, flags.contains(PollFlags::IN) && readable);
                    flags.set(PollFlags::OUT, flags.contains(PollFlags::OUT) && writable);
                    flags.set(PollFlags::HUP, hung_up);
                    found.ready.extend((!flags.is_empty()).then_some((index, flags)));
                }
            }
        }
    }

    fn work_on(&mut self, found: &Found) {
        self.context.outbox.end_wait(found.woken);
        self.context.now = self.context.clock.now();
        if found.incoming {
            self.accept();
        }
        let broken = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        for &(index, flags) in &found.ready {
            let Some(connection) = self.connections.get(index) else { continue };
            if flags.intersects(broken) && !connection.wants_input(&self.context.limits) {
                // The connection does not read and would not notice the hang-up; the client takes no more replies.
                self.went_on(index, Err(End::Fault));
                continue;
            }
            if flags.contains(PollFlags::OUT) {
                self.go_on(index);
            }
            if flags.intersects(PollFlags::IN | broken) {
                self.receive(index);
            }
        }
        let ready = &found.ready;
        let is_hidden = |index| ready.iter().all(|&(other, _)| other != index);
        let limits = &self.context.limits;
        let more = self.connections.iter().filter(|(_, one)| one.has_more(limits));
        let hidden = more.map(|(index, _)| index).filter(|&index| is_hidden(index));
        for index in hidden.collect::<Vec<_>>() {
            self.receive(index);
        }
    }

    fn accept(&mut self) {
        for number in 0..self.listeners.len() {
            for _ in 0..ACCEPTED {
                match self.listeners[number].accept() {
                    Ok(socket) => self.admit(socket, self.listeners[number].tls.clone()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(_) => {
                        self.accept_from = self.context.now + PAUSE;
                        break;
                    }
                }
            }
        }
    }

    /// Lets a client in that comes from no listener.
    pub fn welcome(&mut self, client: Box<dyn Transport>) {
        self.admit(Socket::new(Stream::Other(client)), None);
    }

    fn admit(&mut self, socket: Socket, tls: Option<Tls>) {
        if self.connections.len() >= self.context.limits.connections {
            self.context.traffic.crowded_out += 1;
            let shaking_hands = self.connections.iter();
            let shaking_hands =
                shaking_hands.filter_map(|(index, one)| Some((one.shaking_hands_since()?, index)));
            let Some((_, oldest)) = shaking_hands.min() else { return };
            self.connections[oldest].close();
            self.connections.remove(oldest);
        }
        self.context.traffic.accepted += 1;
        let entry = self.connections.vacant_entry();
        let index = entry.key();
        entry.insert(Connection::new(index, socket, tls, &self.context));
        self.go_on(index);
    }

    /// Closes connections past their deadline.
    fn close_the_late(&mut self) {
        let (context, short) = (&self.context, self.is_short_of_memory());
        let is_late = |one: &Connection| {
            one.deadline(context, short).is_some_and(|deadline| deadline <= context.now)
        };
        let late = self.connections.iter().filter(|(_, one)| is_late(one));
        let late: Vec<usize> = late.map(|(index, _)| index).collect();
        for index in late {
            self.went_on(index, Err(End::Fault));
        }
    }

    /// Whether a client that would take replies waits for memory.
    fn is_short_of_memory(&self) -> bool {
        self.connections.iter().any(|(_, one)| one.waits_for_memory(self.context.now))
    }

    fn indices(&self) -> Vec<usize> {
        self.connections.iter().map(|(index, _)| index).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopper.over.store(true, Ordering::Release);
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({:?}, {} connections)", self.context.exports, self.connections.len())
    }
}

#[cfg(test)]
mod tests;
