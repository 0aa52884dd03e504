//! Clients that break the protocol.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use proptest::prelude::*;
use thermocline_nvme::protocol::command::{admin, fabrics, io};
use thermocline_target::{BlockTarget, Memory};
use thermocline_types::Bytes;

use super::initiator::{Entry, Queue, Unit, connect, initialize};
use super::{Running, export};

/// One server for all cases: what one leaves behind, the next one meets.
static SERVER: LazyLock<Mutex<Running>> = LazyLock::new(|| {
    let running = Running::start();
    let target: Arc<dyn BlockTarget> = Arc::new(Memory::new(Bytes::mib(1), Bytes(512)));
    running.exports.add(export("liars", &target, false));
    Mutex::new(running)
});

/// What a lively host sends.
fn conversation(subsystem: &str, volume: u32) -> Vec<Vec<u8>> {
    let (entry, data) = connect(subsystem, 0, u16::MAX, true);
    let enable = Entry::fabrics(fabrics::SET).dword(11, 0x14).dword(12, 1);
    vec![
        initialize(),
        entry.capsule(&data),
        enable.capsule(&[]),
        Entry::new(admin::IDENTIFY, volume).data(4096, false).capsule(&[]),
        Entry::new(admin::LOG_PAGE, 0).data(4, false).dword(10, 2).capsule(&[]),
        Entry::new(admin::EVENT, 0).capsule(&[]),
    ]
}

/// What a host sends on an I/O queue.
fn io_conversation(subsystem: &str, volume: u32, controller: u16) -> Vec<Vec<u8>> {
    let (entry, data) = connect(subsystem, 1, controller, true);
    let write = Entry::new(io::WRITE, volume).blocks(8, 32).data(16384, false);
    let mut units = vec![6, 4, 24, 24];
    units.extend_from_slice(&(24_u32 + 16384).to_le_bytes());
    units.extend_from_slice(&[0; 8]);
    units.extend_from_slice(&16384_u32.to_le_bytes());
    units.resize(24 + 16384, 7);
    vec![
        initialize(),
        entry.capsule(&data),
        Entry::new(io::READ, volume).blocks(8, 8).data(4096, false).capsule(&[]),
        Entry::new(io::WRITE, volume).blocks(8, 1).data(512, true).capsule(&[3; 512]),
        write.capsule(&[]),
        units,
        Entry::new(io::DATASET, volume).data(16, true).dword(11, 4).capsule(&[0; 16]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever a client sends, a host beside it reads what it wrote.
    #[test]
    fn a_liar_harms_only_itself(
        on_io_queue in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        order in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
        let mut honest = server.host();
        let liars = server.namespace(&mut honest, "liars");
        let main = server.namespace(&mut honest, "main");
        let mut disk = honest.queue(1, true).unwrap();
        let block = Entry::new(io::WRITE, main).blocks(0, 1).data(512, true);
        disk.call(&block, &[0xA5; 512]).unwrap();
        let liar = server.host();
        let subsystem = server.subsystem.name();
        let mut units = match on_io_queue {
            true => io_conversation(subsystem, liars, liar.admin.controller),
            false => conversation(subsystem, liars),
        };
        let swapped = 2 + order.index(units.len() - 2);
        units.swap(2, swapped);
        let mut bytes = units.concat();
        for (at, value) in changes {
            // Headers more often than data.
            let at = at.index(bytes.len());
            let at = if at % 2 == 0 { at } else { at % 400 };
            bytes[at] = value;
        }
        bytes.truncate(1 + cut.index(2 * bytes.len()));
        let mut stream = TcpStream::connect(server.server.address()).unwrap();
        // The server may have closed the connection already.
        let _closed = stream.write_all(&bytes);
        stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        while Unit::read(&mut stream).is_some() {}
        drop(stream);
        let read = Entry::new(io::READ, main).blocks(0, 1).data(512, false);
        let (_, data) = disk.call(&read, &[]).unwrap();
        prop_assert_eq!(data, [0xA5; 512]);
    }
}

/// The fatal error with which the server ends a connection.
fn fault(queue: &mut Queue, bytes: &[u8]) -> u16 {
    queue.stream.write_all(bytes).expect("a live connection");
    let unit = Unit::read(&mut queue.stream).expect("a last word");
    assert_eq!(unit.kind, 3);
    unit.word(8)
}

#[test]
fn faults_are_named_before_the_connection_ends() {
    let running = Running::start();
    let mut host = running.host();
    let main = running.namespace(&mut host, "main");
    let queue = || host.queue(1, true).or_else(|_| host.queue(2, true)).unwrap();
    assert_eq!(fault(&mut queue(), &[9; 8]), 1, "a unit of the controller");
    let (again, data) = connect("nqn", 1, 1, true);
    assert_eq!(fault(&mut queue(), &again.capsule(&data)), 2, "a second Connect");
    let mut unasked = vec![6, 4, 24, 24, 32, 0, 0, 0];
    unasked.resize(32, 0);
    unasked[16] = 8;
    assert_eq!(fault(&mut queue(), &unasked), 1, "data without a request for it");
    let mut queue = queue();
    let write = Entry::new(io::WRITE, main).blocks(0, 32).data(16384, false);
    queue.stream.write_all(&write.capsule(&[])).unwrap();
    let ready = Unit::read(&mut queue.stream).unwrap();
    assert_eq!(ready.kind, 9);
    unasked[10..12].copy_from_slice(&ready.word(10).to_le_bytes());
    unasked[12] = 4;
    assert_eq!(fault(&mut queue, &unasked), 4, "data out of order");
    running.server.stop();
}

#[test]
fn more_commands_than_the_queue_has_entries_are_a_fault() {
    let running = Running::start();
    let mut host = running.host();
    let main = running.namespace(&mut host, "main");
    let mut queue = host.queue(1, true).unwrap();
    // Writes whose data never comes.
    let write = Entry::new(io::WRITE, main).blocks(0, 32).data(16384, false).capsule(&[]);
    queue.stream.write_all(&write.repeat(129)).unwrap();
    let mut units = std::iter::from_fn(|| Unit::read(&mut queue.stream));
    let last = units.by_ref().find(|unit| unit.kind != 9).expect("a last word");
    assert_eq!((last.kind, last.word(8)), (3, 5));
    assert!(units.next().is_none());
    running.server.stop();
}
