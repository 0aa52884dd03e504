//! All connections on one thread.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slab::Slab;
use thermocline_target::{Bell, ClientEvent, Ended, Exports, Mailbox};

use crate::connection::{Connection, Context, End};
use crate::controller::Controllers;
use crate::namespaces::{Namespaces, Subsystem};

/// Connections at once. At the limit a new connection replaces the oldest one without a queue, or is closed.
const CONNECTIONS: usize = 256;

/// Connections accepted in a row before the server turns to the open connections. Chosen, not measured.
const ACCEPTED: usize = 16;

/// Time between two looks at the list of volumes and at silent clients, while there are clients. Chosen, not measured.
const LOOK: Duration = Duration::from_secs(1);

/// A server on a thread of its own. A dropped server goes on.
#[derive(Debug)]
pub struct NvmeServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    mailbox: Arc<Mailbox>,
    thread: JoinHandle<()>,
}

impl NvmeServer {
    /// Serves `exports` as namespaces of `subsystem` to whoever connects to `listener`. `watcher` receives, for each
    /// volume, when a host begins and ends to use it.
    ///
    /// # Errors
    /// When the system gives no descriptor or no thread.
    pub fn start(
        listener: TcpListener,
        exports: Exports,
        subsystem: Subsystem,
        watcher: impl FnMut(ClientEvent) + Send + 'static,
    ) -> io::Result<NvmeServer> {
        listener.set_nonblocking(true)?;
        let (address, mailbox, stop) =
            (listener.local_addr()?, Mailbox::new(Bell::new()?), Arc::default());
        let names = Namespaces::new(subsystem);
        let controllers = Controllers::new(exports, names, Box::new(watcher));
        let service = Service {
            listener: Some(listener),
            connections: Slab::new(),
            context: Context::new(controllers, Arc::clone(&mailbox)),
            mailbox: Arc::clone(&mailbox),
            stop: Arc::clone(&stop),
            ended: Vec::new(),
            looked: Instant::now(),
            short: false,
        };
        let builder = thread::Builder::new().name("thermocline-nvme".to_owned());
        let thread = builder.spawn(move || service.run())?;
        Ok(NvmeServer { address, stop, mailbox, thread })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers the commands that targets carry out, and ends all connections.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.mailbox.bell().ring();
        // After a panic the message is printed already.
        drop(self.thread.join());
    }
}

struct Service {
    /// `None` after a stop was asked for.
    listener: Option<TcpListener>,
    connections: Slab<Connection>,
    context: Context,
    mailbox: Arc<Mailbox>,
    stop: Arc<AtomicBool>,
    ended: Vec<Ended>,
    /// Time of the last look at volumes and silent clients.
    looked: Instant,
    /// The system gave no descriptor for a client, who waits in the system's queue.
    short: bool,
}

impl Service {
    fn run(mut self) {
        while self.listener.is_some() || !self.connections.is_empty() {
            let ready = self.wait();
            self.context.now = Instant::now();
            if self.stop.load(Ordering::Acquire) && self.listener.take().is_some() {
                for index in self.indices(|_| true) {
                    self.connections[index].stop();
                    self.go_on(index);
                }
            }
            self.answer();
            self.accept();
            for (index, flags) in ready {
                self.work_on(index, flags);
            }
            self.feed();
            self.look();
        }
    }

    /// Waits for sockets and results. Returns ready connections.
    fn wait(&self) -> Vec<(usize, PollFlags)> {
        let mut fds = vec![PollFd::new(self.mailbox.bell(), PollFlags::IN)];
        let mut asked = Vec::with_capacity(self.connections.len());
        for (index, connection) in &self.connections {
            let Some(socket) = connection.socket() else { continue };
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, connection.wants_input());
            flags.set(PollFlags::OUT, connection.wants_output());
            fds.push(PollFd::from_borrowed_fd(socket.as_fd(), flags));
            asked.push(index);
        }
        if let Some(listener) = self.listener.as_ref().filter(|_| !self.short) {
            fds.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
        }
        let look = Timespec { tv_sec: LOOK.as_secs().cast_signed(), tv_nsec: 0 };
        // On an error, a signal or a shortage of memory, no descriptor is ready.
        let _count = poll(&mut fds, (self.short || !self.connections.is_empty()).then_some(&look));
        let ready = asked.into_iter().zip(&fds[1..]).map(|(index, fd)| (index, fd.revents()));
        ready.filter(|(_, flags)| !flags.is_empty()).collect()
    }

    /// Replies to all requests that targets have completed.
    fn answer(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        self.mailbox.bell().silence();
        self.mailbox.take(&mut ended);
        let mut touched = Vec::new();
        for (number, result) in ended.drain(..) {
            let index = self.context.connection(number);
            let connection = self.connections.get_mut(index);
            let connection = connection.expect("it is kept while the target has its requests");
            connection.complete(number, result, &mut self.context);
            if touched.last() != Some(&index) {
                touched.push(index);
            }
        }
        self.ended = ended;
        touched.into_iter().for_each(|index| self.go_on(index));
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED {
            let Some(accepted) = self.listener.as_ref().map(TcpListener::accept) else { break };
            let gone = [io::ErrorKind::WouldBlock, io::ErrorKind::ConnectionAborted];
            self.short = accepted.as_ref().is_err_and(|error| !gone.contains(&error.kind()));
            let Ok((socket, _)) = accepted else { break };
            if self.connections.len() >= CONNECTIONS && !self.make_room() {
                continue;
            }
            let entry = self.connections.vacant_entry();
            if let Ok(connection) = Connection::new(entry.key(), socket, self.context.now) {
                entry.insert(connection);
            }
        }
    }

    /// Ends the oldest connection without a queue. Returns whether there was one.
    fn make_room(&mut self) -> bool {
        let waiting = self.connections.iter();
        let waiting = waiting.filter_map(|(index, one)| Some((one.shaking_hands_since()?, index)));
        let Some((_, oldest)) = waiting.min() else { return false };
        self.end(oldest);
        true
    }

    fn work_on(&mut self, index: usize, flags: PollFlags) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let broken = flags.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        if connection.socket().is_none() {
        } else if broken && !connection.wants_input() {
            self.end(index);
        } else if flags.contains(PollFlags::IN) || broken {
            let received = connection.receive(&mut self.context);
            self.went_on(index, received);
        } else {
            self.go_on(index);
        }
    }

    fn go_on(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let result = connection.go_on(&mut self.context);
        self.went_on(index, result);
    }

    /// Ends a connection that is over, and connections whose controller is.
    fn went_on(&mut self, index: usize, result: Result<(), End>) {
        if let Err(end) = result {
            if let (End::Fault(fault), Some(one)) = (end, self.connections.get_mut(index)) {
                one.say_fault(fault, &mut self.context);
            }
            self.end(index);
        }
        while let Some(index) = self.context.doomed.pop() {
            self.end(index);
        }
    }

    fn end(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let queue = connection.close();
        if connection.is_over() {
            self.connections.remove(index).leave(&mut self.context);
        }
        let others = queue.map(|queue| self.context.controllers.leave(queue));
        others.into_iter().flatten().for_each(|other| self.end(other));
    }

    /// Begins commands that wait for memory, after memory was returned.
    fn feed(&mut self) {
        if std::mem::take(&mut self.context.returned) {
            for index in self.indices(Connection::is_starved) {
                self.go_on(index);
            }
        }
    }

    /// Tells hosts of changed volumes, and ends what is silent or stuck.
    fn look(&mut self) {
        let now = self.context.now;
        if now.saturating_duration_since(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        for (index, id, reply) in self.context.controllers.notices() {
            if let Some(connection) = self.connections.get_mut(index) {
                connection.reply(id, reply, 0);
            }
            self.go_on(index);
        }
        let mut late = self.indices(|one| one.is_late(now));
        late.extend(self.context.controllers.silent(now));
        late.into_iter().for_each(|index| self.end(index));
    }

    fn indices(&self, wanted: impl Fn(&Connection) -> bool) -> Vec<usize> {
        let wanted = self.connections.iter().filter(|(_, one)| wanted(one));
        wanted.map(|(index, _)| index).collect()
    }
}
