//! Controllers: what a host connects to, and their admin commands.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use thermocline_target::{ClientEvent, Exports, User};

use crate::namespaces::{Namespaces, Uuid};
use crate::protocol::command::{Command, Outcome, Reply, admin};
use crate::protocol::data::{self, ControllerData, Usage};
use crate::protocol::placement::{self, ENDURANCE_GROUP};
use crate::protocol::{DISCOVERY, IO_QUEUES, QUEUE};

/// Asynchronous event requests that a controller holds. Chosen, not measured.
const EVENTS: u8 = 4;

/// Granularity of the keep-alive timer in units of 100 ms. Chosen, not measured.
const KEEP_ALIVE: u16 = 10;

/// Bytes of a log that one command gets, at most. Chosen, not measured.
const LOG_BYTES: u32 = 16 << 10;

/// Bytes of the data of Connect (Base 6.3, figure 391).
const CONNECT_BYTES: usize = 1024;

/// The notice of changed namespaces (Base 5.2.1): type 2, information 0, log page 04h.
const CHANGED: u64 = 0x04_00_02;

/// Bit of that notice in the feature of notices (Base 5.27.1.8).
const CHANGED_BIT: u32 = 1 << 8;

/// Receives events of clients, on the thread of the server.
pub(crate) type Watcher = Box<dyn FnMut(ClientEvent) + Send>;

/// A volume that a controller uses.
pub(crate) struct Namespace {
    pub(crate) user: User,
    uuid: Uuid,
    /// Bytes that the host knows of.
    size: u64,
    /// Placement handles that writes can name; 0 without any.
    handles: u16,
}

impl Namespace {
    /// The handle that a write names. One that does not exist is the default, as TP4146 has it.
    pub(crate) fn handle(&self, command: &Command) -> u16 {
        command.placement().filter(|handle| *handle < self.handles).unwrap_or(0)
    }

    /// The structure of I/O Management Receive: the status of its handles, which is operation 1 (TP4146).
    pub(crate) fn handles(&self, command: &Command) -> Result<Vec<u8>, Outcome> {
        let length = 4 * (u64::from(command.dword(11)) + 1);
        let placement = match command.dword(10) & 0xFF {
            1 if length <= LOG_BYTES.into() => self.user.target.placement(),
            _ => None,
        };
        let mut status = placement::handles(&placement.ok_or(Outcome::FIELD)?);
        status.resize((length as usize).min(command.length() as usize), 0);
        Ok(status)
    }
}

/// The queue of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Number of its controller.
    pub(crate) controller: u16,
    /// 0 for the admin queue.
    pub(crate) number: u16,
    /// Entries.
    pub(crate) entries: u16,
    /// Whether the host wants to know the head of the queue.
    pub(crate) flow: bool,
}

/// What becomes of an admin command.
#[derive(Debug)]
pub(crate) enum Answer {
    Reply(Reply),
    Data(Vec<u8>),
    /// There is no reply for now.
    Held,
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Answer {
        Answer::Reply(outcome.into())
    }
}

/// A controller. It exists as long as the connection of its admin queue.
pub(crate) struct Controller {
    discovers: bool,
    /// Identifier and name of the host.
    host: Vec<u8>,
    /// Address of the host.
    peer: String,
    /// Connection of the admin queue.
    pub(crate) admin: usize,
    /// Connections of I/O queues.
    pub(crate) queues: BTreeMap<u16, usize>,
    configuration: u32,
    keep_alive: u32,
    /// Time of the last command.
    heard: Instant,
    /// Identifiers of held requests for events.
    held: Vec<u16>,
    notices: u32,
    changed: BTreeSet<u32>,
    /// The host was told of changes and has not read the list.
    told: bool,
    pub(crate) namespaces: BTreeMap<u32, Namespace>,
}

/// The parameters of a Connect command.
struct Wanted<'a> {
    queue: u16,
    /// Entries less one.
    size: u16,
    flow: bool,
    keep_alive: u32,
    controller: u16,
    subsystem: &'a [u8],
    host: Vec<u8>,
}

impl Wanted<'_> {
    fn parse<'a>(command: &Command, data: &'a [u8]) -> Result<Wanted<'a>, Outcome> {
        let format = command.dword(10) as u16;
        if format != 0 || data.len() != CONNECT_BYTES {
            return Err(Outcome::FORMAT);
        }
        let host = [&data[..16], name(&data[512..768])].concat();
        Ok(Wanted {
            queue: (command.dword(10) >> 16) as u16,
            size: command.dword(11) as u16,
            flow: command.dword(11) & 1 << 18 == 0,
            keep_alive: command.dword(12),
            controller: u16::from_le_bytes([data[16], data[17]]),
            subsystem: name(&data[256..512]),
            host,
        })
    }
}

/// A name that ends with a zero.
fn name(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// All controllers and their volumes.
pub(crate) struct Controllers {
    pub(crate) all: BTreeMap<u16, Controller>,
    /// The number of the last made one.
    made: u16,
    exports: Exports,
    names: Namespaces,
    watcher: Watcher,
    pub(crate) usage: Usage,
}

/// Where a Connect command came from.
pub(crate) struct Origin {
    pub(crate) connection: usize,
    pub(crate) peer: String,
    pub(crate) now: Instant,
}

/// A parameter that Connect objects to: where it is, and whether in the data (Base 6.3, figure 392).
fn parameter(at: u64, in_data: bool) -> Reply {
    Reply { result: at | u64::from(in_data) << 16, outcome: Outcome::PARAMETERS }
}

impl Controllers {
    pub(crate) fn new(exports: Exports, names: Namespaces, watcher: Watcher) -> Controllers {
        let (all, usage) = (BTreeMap::new(), Usage::default());
        Controllers { all, made: 0, exports, names, watcher, usage }
    }

    /// Connects a queue; for an admin queue, makes a controller.
    pub(crate) fn connect(
        &mut self,
        command: &Command,
        data: &[u8],
        from: Origin,
    ) -> Result<Queue, Reply> {
        let wanted = Wanted::parse(command, data)?;
        let discovers = wanted.subsystem == DISCOVERY.as_bytes();
        if !discovers && wanted.subsystem != self.names.subsystem.name().as_bytes() {
            return Err(parameter(256, true));
        }
        if wanted.size == 0 || wanted.size >= QUEUE {
            return Err(parameter(44, false));
        }
        let controller = if wanted.queue == 0 {
            if wanted.controller != u16::MAX {
                return Err(parameter(16, true));
            }
            self.make(&wanted, discovers, from)?
        } else {
            self.add_queue(&wanted, from.connection)?;
            wanted.controller
        };
        let Wanted { queue: number, size, flow, .. } = wanted;
        Ok(Queue { controller, number, entries: size + 1, flow })
    }

    fn make(&mut self, wanted: &Wanted<'_>, discovers: bool, from: Origin) -> Result<u16, Reply> {
        // Numbers from FFF0h on are reserved (Base 3.1.1).
        let mut numbers =
            (0..0xFFEF_u32).map(|step| ((u32::from(self.made) + step) % 0xFFEF + 1) as u16);
        let number = numbers.find(|number| !self.all.contains_key(number));
        let number = number.ok_or(Reply::from(Outcome::BUSY))?;
        self.made = number;
        let controller = Controller {
            discovers,
            host: wanted.host.clone(),
            peer: from.peer,
            admin: from.connection,
            queues: BTreeMap::new(),
            configuration: 0,
            keep_alive: wanted.keep_alive,
            heard: from.now,
            held: Vec::new(),
            notices: 0,
            changed: BTreeSet::new(),
            told: false,
            namespaces: BTreeMap::new(),
        };
        self.all.insert(number, controller);
        self.look(number);
        // The host looks itself when it begins.
        self.all.entry(number).and_modify(|one| one.changed.clear());
        Ok(number)
    }

    fn add_queue(&mut self, wanted: &Wanted<'_>, connection: usize) -> Result<(), Reply> {
        let controller = self.all.get_mut(&wanted.controller);
        let controller = controller.filter(|one| !one.discovers).ok_or(parameter(16, true))?;
        if controller.host != wanted.host {
            return Err(Outcome::HOST.into());
        }
        if !controller.is_enabled() || controller.queues.contains_key(&wanted.queue) {
            return Err(Outcome::SEQUENCE.into());
        }
        if wanted.queue > IO_QUEUES {
            return Err(parameter(42, false));
        }
        controller.queues.insert(wanted.queue, connection);
        Ok(())
    }

    /// Ends the queue of a connection. Returns the connections to end with it.
    pub(crate) fn leave(&mut self, queue: Queue) -> Vec<usize> {
        if queue.number != 0 {
            if let Some(controller) = self.all.get_mut(&queue.controller) {
                controller.queues.remove(&queue.number);
            }
            return Vec::new();
        }
        let Some(controller) = self.all.remove(&queue.controller) else { return Vec::new() };
        for namespace in controller.namespaces.values() {
            let (client, export) = (controller.peer.clone(), namespace.user.name.clone());
            (self.watcher)(ClientEvent { client, export, is_over: true });
        }
        controller.queues.into_values().collect()
    }

    /// Brings the namespaces of a controller up to date with the list of volumes, and notes the differences.
    pub(crate) fn look(&mut self, number: u16) {
        let Some(controller) = self.all.get_mut(&number).filter(|one| !one.discovers) else {
            return;
        };
        let mut tell = |user: &User, is_over| {
            let (client, export) = (controller.peer.clone(), user.name.clone());
            (self.watcher)(ClientEvent { client, export, is_over });
        };
        let (held, changed) = (&mut controller.namespaces, &mut controller.changed);
        held.retain(|&number, namespace| {
            let size = namespace.user.target.info().size.0;
            if size != namespace.size {
                changed.insert(number);
                namespace.size = size;
            }
            if size == 0 {
                tell(&namespace.user, true);
            }
            size > 0
        });
        for (number, uuid, offer) in self.names.of(&self.exports) {
            let size = offer.target.info().size.0;
            if size == 0 || held.contains_key(&number) {
                continue;
            }
            // It may have gone just now.
            let Some(user) = self.exports.enter(|one| one.number() == offer.number()) else {
                continue;
            };
            tell(&user, false);
            changed.insert(number);
            let handles = user.target.placement().map_or(0, |placement| placement.handles);
            held.insert(number, Namespace { user, uuid, size, handles });
        }
    }

    /// Notices for hosts that wait for them, each with the connection and the command.
    pub(crate) fn notices(&mut self) -> Vec<(usize, u16, Reply)> {
        let numbers: Vec<u16> = self.all.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.look(number));
        let notice = |controller: &mut Controller| {
            let wanted = controller.notices & CHANGED_BIT != 0 && !controller.told;
            let id = controller.held.pop_if(|_| wanted && !controller.changed.is_empty())?;
            controller.told = true;
            Some((controller.admin, id, Reply::with(CHANGED)))
        };
        self.all.values_mut().filter_map(notice).collect()
    }

    /// Admin connections of hosts that have been silent for too long.
    pub(crate) fn silent(&self, now: Instant) -> Vec<usize> {
        let is_silent = |one: &&Controller| {
            // Twice as long: the command may be on its way.
            let patience = Duration::from_millis(2 * u64::from(one.keep_alive));
            one.keep_alive > 0 && now.saturating_duration_since(one.heard) > patience
        };
        self.all.values().filter(is_silent).map(|one| one.admin).collect()
    }

    /// A command of the host came.
    pub(crate) fn heard(&mut self, number: u16, now: Instant) {
        if let Some(controller) = self.all.get_mut(&number) {
            controller.heard = now;
        }
    }

    /// Carries out an admin command. `at`: the address at which the host reached this server.
    pub(crate) fn admin(&mut self, number: u16, command: &Command, at: SocketAddr) -> Answer {
        let Some(controller) = self.all.get_mut(&number) else { return Outcome::SEQUENCE.into() };
        if !controller.is_enabled() {
            return Outcome::SEQUENCE.into();
        }
        match command.opcode() {
            admin::IDENTIFY => self.identify(number, command),
            admin::LOG_PAGE => self.log_page(number, command, at),
            admin::SET_FEATURES => controller.set_feature(command).into(),
            admin::GET_FEATURES => controller.feature(command).into(),
            admin::EVENT if controller.held.len() >= EVENTS.into() => Outcome::EVENTS.into(),
            admin::EVENT => {
                controller.held.push(command.id());
                Answer::Held
            }
            // Bit 0: the command was not aborted.
            admin::ABORT => Answer::Reply(Reply::with(1)),
            admin::KEEP_ALIVE => Answer::Reply(Reply::DONE),
            // Return Parameters of the Identify directive.
            admin::DIRECTIVE if controller.places() && command.dword(11) & 0xFFFF == 1 => {
                Answer::Data(placement::directives())
            }
            _ => Outcome::OPCODE.into(),
        }
    }

    /// Identify (Base 5.17): which structure, in the lowest byte of dword 10.
    fn identify(&mut self, number: u16, command: &Command) -> Answer {
        let subsystem = &self.names.subsystem;
        let controller = &self.all[&number];
        let namespace = controller.namespaces.get(&command.namespace());
        let command_set = command.dword(11) >> 24;
        Answer::Data(match (command.dword(10) & 0xFF, namespace) {
            (0x00, _) if command.namespace() == u32::MAX => return Outcome::NAMESPACE.into(),
            // An inactive namespace is all zeroes.
            (0x00, None) => vec![0; data::IDENTIFY],
            (0x00, Some(Namespace { user, uuid, size, handles })) => {
                data::namespace(size >> data::BLOCK_LOG, user.read_only, *handles > 0, &uuid.0)
            }
            (0x01, _) => data::controller(&ControllerData {
                id: number,
                discovers: controller.discovers,
                subsystem: if controller.discovers { DISCOVERY } else { subsystem.name() },
                serial: subsystem.serial(),
                keep_alive: KEEP_ALIVE,
                events: EVENTS,
                places: controller.places(),
            }),
            (0x02, _) if command.namespace() >= u32::MAX - 1 => return Outcome::NAMESPACE.into(),
            (0x02, _) => data::active(controller.namespaces.keys().copied(), command.namespace()),
            (0x03, None) => return Outcome::NAMESPACE.into(),
            (0x03, Some(namespace)) => data::descriptors(&namespace.uuid.0),
            (0x06, _) if command_set == 0 && !controller.discovers => data::limits(),
            _ => return Outcome::FIELD.into(),
        })
    }

    /// Get Log Page (Base 5.16).
    fn log_page(&mut self, number: u16, command: &Command, at: SocketAddr) -> Answer {
        let subsystem = self.names.subsystem.name();
        let controller = self.all.get_mut(&number).expect("the caller found it");
        let [words, high] = [command.dword(10) >> 16, command.dword(11) & 0xFFFF];
        let (words, offset) = (high << 16 | words, command.quad(12));
        let length = 4 * (u64::from(words) + 1);
        if length > u64::from(LOG_BYTES) || u64::from(command.length()) < length {
            return Outcome::FIELD.into();
        }
        let keeps_event = command.dword(10) & 1 << 15 != 0;
        let page = match command.dword(10) & 0xFF {
            0x70 if controller.discovers => data::discovery(subsystem, at),
            0x01 => vec![0; 64],
            0x02 => data::health(&self.usage),
            0x03 => data::firmware(),
            0x04 if !controller.discovers => {
                controller.told &= keeps_event;
                data::changed(std::mem::take(&mut controller.changed).into_iter())
            }
            0x05 => data::effects(controller.places()),
            number => match controller.placement_page(number, command.dword(11) >> 16) {
                Some(page) => page,
                None => return Outcome::LOG.into(),
            },
        };
        let Some(rest) = usize::try_from(offset).ok().and_then(|offset| page.get(offset..)) else {
            return Outcome::FIELD.into();
        };
        let mut part = rest[..rest.len().min(length as usize)].to_vec();
        part.resize(length as usize, 0);
        Answer::Data(part)
    }
}

impl Controller {
    /// CC.EN (Base 3.1.3.5).
    pub(crate) fn is_enabled(&self) -> bool {
        self.configuration & 1 != 0
    }

    /// Whether writes to a namespace can name placement handles.
    fn places(&self) -> bool {
        self.namespaces.values().any(|one| one.handles > 0)
    }

    /// A log page of data placement, of the endurance group. All namespaces are on one drive.
    fn placement_page(&self, number: u32, group: u32) -> Option<Vec<u8>> {
        let namespace = self.namespaces.values().find(|one| one.handles > 0);
        let placement = namespace.filter(|_| group == ENDURANCE_GROUP.into())?;
        placement::log_page(number, &placement.user.target.placement()?)
    }

    /// Property Get (Base 6.5).
    pub(crate) fn property(&self, command: &Command) -> Reply {
        let long = command.dword(10) & 0b111;
        // Shutdown is complete at once.
        let shut_down = if self.configuration >> 14 & 0b11 != 0 { 0b10 << 2 } else { 0 };
        match (command.dword(11), long) {
            (0x00, 1) => Reply::with(data::capabilities()),
            (0x08, 0) => Reply::with(data::VERSION.into()),
            (0x14, 0) => Reply::with(self.configuration.into()),
            (0x1C, 0) => Reply::with(u64::from(self.configuration & 1) | shut_down),
            _ => Outcome::FIELD.into(),
        }
    }

    /// Property Set (Base 6.6). Returns the connections to end.
    pub(crate) fn set_property(&mut self, command: &Command) -> (Reply, Vec<usize>) {
        if (command.dword(11), command.dword(10) & 0b111) != (0x14, 0) {
            return (Outcome::FIELD.into(), Vec::new());
        }
        let was_enabled = self.is_enabled();
        self.configuration = command.dword(12);
        if self.is_enabled() || !was_enabled {
            return (Reply::DONE, Vec::new());
        }
        self.held.clear();
        (self.notices, self.told) = (0, false);
        (Reply::DONE, std::mem::take(&mut self.queues).into_values().collect())
    }

    /// Set Features (Base 5.27).
    fn set_feature(&mut self, command: &Command) -> Reply {
        let value = command.dword(11);
        match command.dword(10) & 0xFF {
            // Volatile write cache: it cannot be turned off.
            0x06 if !self.discovers && value & 1 == 1 => Reply::DONE,
            0x06 if !self.discovers => Outcome::UNCHANGEABLE.into(),
            0x07 if !self.discovers => Reply::with(Self::queues(value)),
            0x0B => {
                self.notices = value;
                Reply::DONE
            }
            0x0F => {
                self.keep_alive = value;
                Reply::DONE
            }
            _ => Outcome::FIELD.into(),
        }
    }

    /// Get Features (Base 5.15).
    fn feature(&self, command: &Command) -> Reply {
        match command.dword(10) & 0xFF {
            0x06 if !self.discovers => Reply::with(1),
            0x07 if !self.discovers => Reply::with(Self::queues(u32::MAX)),
            0x0B => Reply::with(self.notices.into()),
            0x0F => Reply::with(self.keep_alive.into()),
            // Flexible data placement: on, the first configuration (TP4146).
            0x1D if self.places() && command.dword(11) & 0xFFFF == ENDURANCE_GROUP.into() => {
                Reply::with(1)
            }
            _ => Outcome::FIELD.into(),
        }
    }

    /// The granted numbers of submission and completion queues, each less one.
    fn queues(wanted: u32) -> u64 {
        let most = |wanted: u32| u64::from((wanted & 0xFFFF).min(u32::from(IO_QUEUES) - 1));
        most(wanted) | most(wanted >> 16) << 16
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer::Reply(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_queues_than_there_are() {
        assert_eq!(Controller::queues(0x0003_0003), 0x0003_0003);
        assert_eq!(Controller::queues(0x00FF_00FF), 0x000F_000F);
    }
}
