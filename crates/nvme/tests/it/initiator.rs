//! A small host.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use thermocline_nvme::protocol::command::{admin, fabrics, io};
use thermocline_target::{BlockTarget, Buffer, Completion, Features, Info, Request, TargetError};
use thermocline_types::Bytes;

const PATIENCE: Duration = Duration::from_secs(20);
const DATA_IN_CAPSULE: usize = 8192;

/// A command under construction.
#[derive(Clone)]
pub struct Entry(pub [u8; 64]);

impl Entry {
    pub fn new(opcode: u8, namespace: u32) -> Entry {
        let mut bytes = [0; 64];
        bytes[0] = opcode;
        bytes[1] = 0x40;
        Entry(bytes).dword(1, namespace)
    }

    pub fn fabrics(kind: u8) -> Entry {
        Entry::new(fabrics::OPCODE, kind.into())
    }

    pub fn dword(mut self, number: usize, value: u32) -> Entry {
        self.0[4 * number..4 * number + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    pub fn blocks(self, first: u64, count: u64) -> Entry {
        self.dword(10, first as u32)
            .dword(11, (first >> 32) as u32)
            .dword(12, (count as u32).wrapping_sub(1) & 0xFFFF)
    }

    /// `length` bytes of data, in the capsule or not.
    pub fn data(mut self, length: usize, in_capsule: bool) -> Entry {
        self.0[39] = if in_capsule { 0x01 } else { 0x5A };
        self.dword(8, length as u32)
    }

    pub fn id(mut self, id: u16) -> Entry {
        self.0[2..4].copy_from_slice(&id.to_le_bytes());
        self
    }

    /// The capsule of this command and its data.
    pub fn capsule(&self, data: &[u8]) -> Vec<u8> {
        let offset = if data.is_empty() { 0 } else { 72 };
        let mut unit = vec![4, 0, 72, offset];
        unit.extend_from_slice(&(72 + data.len() as u32).to_le_bytes());
        unit.extend_from_slice(&self.0);
        unit.extend_from_slice(data);
        unit
    }
}

/// The first unit of a host.
pub fn initialize() -> Vec<u8> {
    let mut unit = vec![0, 0, 128, 0, 128];
    unit.resize(128, 0);
    unit
}

/// Connect for a queue, and its data.
pub fn connect(subsystem: &str, queue: u16, controller: u16, flow: bool) -> (Entry, Vec<u8>) {
    let entry = Entry::fabrics(fabrics::CONNECT).data(1024, true);
    let entry = entry.dword(10, u32::from(queue) << 16);
    let entry = entry.dword(11, 127 | if flow { 0 } else { 1 << 18 });
    let mut data = vec![0; 1024];
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
    data[512..520].copy_from_slice(b"nqn.test");
    (entry, data)
}

pub struct Unit {
    pub kind: u8,
    flags: u8,
    pub header: Vec<u8>,
    pub data: Vec<u8>,
}

impl Unit {
    /// Reads one; `None` at the end of the connection.
    pub fn read(stream: &mut TcpStream) -> Option<Unit> {
        let mut header = vec![0; 8];
        stream.read_exact(&mut header).ok()?;
        let (length, offset) = (usize::from(header[2]), usize::from(header[3]));
        let whole = u32::from_le_bytes(header[4..8].try_into().expect("as long")) as usize;
        header.resize(length.max(offset), 0);
        stream.read_exact(&mut header[8..]).ok()?;
        let mut data = vec![0; whole - header.len()];
        stream.read_exact(&mut data).ok()?;
        Some(Unit { kind: header[0], flags: header[1], header, data })
    }

    /// The status of a response.
    pub fn status(&self) -> u16 {
        assert_eq!(self.kind, 5, "a response");
        self.word(22) >> 1
    }

    pub fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.header[at], self.header[at + 1]])
    }

    fn dword(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.header[at..at + 4].try_into().expect("as long"))
    }
}

/// A connected queue, one command at a time.
pub struct Queue {
    pub stream: TcpStream,
    /// The controller.
    pub controller: u16,
}

impl Queue {
    pub fn open(
        at: SocketAddr,
        subsystem: &str,
        queue: u16,
        controller: u16,
        flow: bool,
    ) -> Result<Queue, u16> {
        let mut stream = TcpStream::connect(at).expect("a live connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a live connection");
        stream.write_all(&initialize()).expect("a live connection");
        assert_eq!(Unit::read(&mut stream).expect("a live connection").kind, 1);
        let (entry, data) = connect(subsystem, queue, controller, flow);
        stream.write_all(&entry.capsule(&data)).expect("a live connection");
        let response = Unit::read(&mut stream).expect("a live connection");
        match response.status() {
            0 => Ok(Queue { stream, controller: response.word(8) }),
            status => Err(status),
        }
    }

    /// The result and the data, or the status.
    pub fn call(&mut self, entry: &Entry, data: &[u8]) -> Result<(u64, Vec<u8>), u16> {
        self.stream.write_all(&entry.capsule(data)).expect("a live connection");
        let mut received = Vec::new();
        loop {
            let unit = Unit::read(&mut self.stream).expect("an answer");
            if unit.kind == 7 {
                received = unit.data;
                continue;
            }
            return match unit.status() {
                0 => Ok((u64::from(unit.dword(12)) << 32 | u64::from(unit.dword(8)), received)),
                status => Err(status),
            };
        }
    }
}

/// A host with an enabled controller.
pub struct Host {
    at: SocketAddr,
    subsystem: String,
    pub admin: Queue,
}

impl Host {
    pub fn connect(at: SocketAddr, subsystem: &str) -> Host {
        let mut admin = Queue::open(at, subsystem, 0, u16::MAX, true).expect("a controller");
        let enable = Entry::fabrics(fabrics::SET).dword(11, 0x14).dword(12, 0x0046_0001);
        admin.call(&enable, &[]).expect("a live connection");
        let status = Entry::fabrics(fabrics::GET).dword(11, 0x1C);
        assert_eq!(admin.call(&status, &[]).expect("a live connection").0, 1, "it is ready");
        Host { at, subsystem: subsystem.to_owned(), admin }
    }

    pub fn identify(&mut self, structure: u32, namespace: u32) -> Result<Vec<u8>, u16> {
        let entry = Entry::new(admin::IDENTIFY, namespace).data(4096, false).dword(10, structure);
        Ok(self.admin.call(&entry, &[])?.1)
    }

    pub fn log(&mut self, page: u32, length: u32) -> Result<Vec<u8>, u16> {
        let words = length / 4 - 1;
        let entry = Entry::new(admin::LOG_PAGE, u32::MAX).data(length as usize, false);
        Ok(self.admin.call(&entry.dword(10, page | words << 16), &[])?.1)
    }

    pub fn namespaces(&mut self) -> Vec<u32> {
        let list = self.identify(2, 0).expect("a list");
        let numbers =
            list.chunks(4).map(|number| u32::from_le_bytes(number.try_into().expect("as long")));
        numbers.take_while(|&number| number != 0).collect()
    }

    pub fn uuid(&mut self, namespace: u32) -> String {
        let list = self.identify(3, namespace).expect("descriptors");
        assert_eq!((&list[..2], &list[20..22]), (&[2, 16][..], &[3, 16][..]));
        let hex: String = list[24..40].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    pub fn queue(&self, number: u16, flow: bool) -> Result<Queue, u16> {
        Queue::open(self.at, &self.subsystem, number, self.admin.controller, flow)
    }

    /// A namespace as a target, by I/O queue `number`.
    pub fn disk(&mut self, namespace: u32, number: u16, flow: bool) -> Disk {
        let identified = self.identify(0, namespace).expect("a namespace");
        let blocks = u64::from_le_bytes(identified[..8].try_into().expect("as long"));
        assert_eq!(identified[130], 9, "blocks of 512 bytes");
        Disk::new(self.queue(number, flow).expect("a queue"), namespace, Bytes(blocks * 512))
    }
}

enum Pending {
    Read(Buffer, Completion<Buffer>),
    Other(Buffer, Completion<()>),
}

#[derive(Default)]
struct Table {
    pending: Mutex<BTreeMap<u16, Pending>>,
    /// No more answers come. Changed under the lock of `pending`.
    over: AtomicBool,
    room: Condvar,
}

/// A namespace, with many commands at once.
pub struct Disk {
    writer: Arc<Mutex<TcpStream>>,
    table: Arc<Table>,
    namespace: u32,
    info: Info,
}

impl Disk {
    fn new(queue: Queue, namespace: u32, size: Bytes) -> Disk {
        let features = Features { flush: true, fua: true, trim: true, zeroes: true };
        let info = Info { size, logical_block: Bytes(512), features };
        let writer = Arc::new(Mutex::new(queue.stream.try_clone().expect("a live connection")));
        let table = Arc::<Table>::default();
        let (to, shared) = (Arc::clone(&writer), Arc::clone(&table));
        let mut stream = queue.stream;
        stream.set_read_timeout(None).expect("a live connection");
        std::thread::spawn(move || {
            while let Some(unit) = Unit::read(&mut stream) {
                shared.take(&unit, &to);
            }
            let mut pending = shared.pending.lock().expect("no test panicked");
            shared.over.store(true, Ordering::Relaxed);
            pending.clear();
        });
        Disk { writer, table, namespace, info }
    }

    fn send(&self, entry: &Entry, pending: Pending) {
        let data = match &pending {
            Pending::Other(buffer, _) if buffer.len() <= DATA_IN_CAPSULE => buffer.to_vec(),
            _ => Vec::new(),
        };
        let mut all = self.table.pending.lock().expect("no test panicked");
        while all.len() >= 127 {
            all = self.table.room.wait(all).expect("no test panicked");
        }
        if self.table.over.load(Ordering::Relaxed) {
            return;
        }
        let id = (0..).find(|id| !all.contains_key(id)).expect("a free identifier");
        all.insert(id, pending);
        drop(all);
        let capsule = entry.clone().id(id).capsule(&data);
        // If the server is gone, the reader ends what is pending.
        let _gone = self.writer.lock().expect("no test panicked").write_all(&capsule);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _gone =
            self.writer.lock().expect("no test panicked").shutdown(std::net::Shutdown::Both);
    }
}

impl Table {
    fn take(&self, unit: &Unit, to: &Mutex<TcpStream>) {
        match unit.kind {
            5 => self.end(unit.word(20), unit.status()),
            7 => {
                let id = unit.word(8);
                let mut all = self.pending.lock().expect("no test panicked");
                let Some(Pending::Read(buffer, _)) = all.get_mut(&id) else { panic!("no read") };
                let at = unit.dword(12) as usize;
                buffer[at..at + unit.data.len()].copy_from_slice(&unit.data);
                drop(all);
                if unit.flags & 0b1000 != 0 {
                    self.end(id, 0);
                }
            }
            9 => {
                let all = self.pending.lock().expect("no test panicked");
                let Some(Pending::Other(buffer, _)) = all.get(&unit.word(8)) else {
                    panic!("no write")
                };
                assert_eq!((unit.dword(12), unit.dword(16) as usize), (0, buffer.len()));
                // Several units, none of whole blocks.
                let count = buffer.len().div_ceil(5000);
                for (number, part) in buffer.chunks(5000).enumerate() {
                    let last = if number + 1 == count { 0b100 } else { 0 };
                    let mut data = vec![6, last, 24, 24];
                    data.extend_from_slice(&(24 + part.len() as u32).to_le_bytes());
                    data.extend_from_slice(&unit.header[8..12]);
                    data.extend_from_slice(&(5000 * number as u32).to_le_bytes());
                    data.extend_from_slice(&(part.len() as u32).to_le_bytes());
                    data.resize(24, 0);
                    data.extend_from_slice(part);
                    to.lock()
                        .expect("no test panicked")
                        .write_all(&data)
                        .expect("a live connection");
                }
            }
            kind => panic!("unit {kind}"),
        }
    }

    fn end(&self, id: u16, status: u16) {
        let pending =
            self.pending.lock().expect("no test panicked").remove(&id).expect("a command");
        self.room.notify_one();
        let error = match status & 0x3FFF {
            0 => None,
            0x80 => Some(TargetError::OutOfBounds),
            0x20 => Some(TargetError::ReadOnly),
            0x0B | 0x82 => Some(TargetError::Gone),
            _ => Some(TargetError::Io),
        };
        match pending {
            Pending::Read(buffer, done) => done.complete(error.map_or(Ok(buffer), Err)),
            Pending::Other(_, done) => done.complete(error.map_or(Ok(()), Err)),
        }
    }
}

impl BlockTarget for Disk {
    fn info(&self) -> Info {
        self.info
    }

    /// What ends beyond the end goes to the server. What is no whole block cannot be said.
    fn submit(&self, request: Request) {
        if request.check(&self.info) == Err(TargetError::Misaligned) {
            return request.fail(TargetError::Misaligned);
        }
        let (first, count) =
            request.range().map_or((0, 1), |(offset, length)| (offset.0 / 512, length.0 / 512));
        let entry = |opcode| Entry::new(opcode, self.namespace).blocks(first, count);
        let flags = |entry: Entry, flags: u32| entry.dword(12, (count as u32 - 1) | flags);
        let durable = |fua| if fua { 1 << 30 } else { 0 };
        match request {
            Request::Read { buffer, done, .. } => {
                let entry = entry(io::READ).data(buffer.len(), false);
                // Every third one asks for durable data.
                let entry = flags(entry, durable(first % 3 == 0));
                self.send(&entry, Pending::Read(buffer, done));
            }
            Request::Write { buffer, fua, done, .. } => {
                let in_capsule = buffer.len() <= DATA_IN_CAPSULE;
                let entry = flags(entry(io::WRITE).data(buffer.len(), in_capsule), durable(fua));
                self.send(&entry, Pending::Other(buffer, done));
            }
            Request::Flush { done } => {
                let entry = Entry::new(io::FLUSH, self.namespace);
                self.send(&entry, Pending::Other(Buffer::zeroed(0), done));
            }
            Request::Trim { done, .. } => {
                // Two ranges and an empty one.
                let mut ranges = Vec::new();
                let half = count / 2;
                for (first, count) in [(first, half), (first + half, count - half), (first, 0)] {
                    ranges.extend_from_slice(&[0; 4]);
                    ranges.extend_from_slice(&(count as u32).to_le_bytes());
                    ranges.extend_from_slice(&first.to_le_bytes());
                }
                // As Linux: memory for 256 ranges, of which the command names three.
                ranges.resize(256 * 16, 0xFF);
                let entry = Entry::new(io::DATASET, self.namespace).data(ranges.len(), true);
                let entry = entry.dword(10, 2).dword(11, 1 << 2);
                self.send(&entry, Pending::Other(Buffer::from_bytes(&ranges), done));
            }
            Request::WriteZeroes { no_hole, fua, done, .. } => {
                let deallocate = if no_hole { 0 } else { 1 << 25 };
                let entry = flags(entry(io::WRITE_ZEROES), durable(fua) | deallocate);
                self.send(&entry, Pending::Other(Buffer::zeroed(0), done));
            }
        }
    }
}
