//! What a host gets.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use thermocline_nvme::protocol::DISCOVERY;
use thermocline_nvme::protocol::command::{admin, fabrics, io};
use thermocline_target::{
    BlockTarget, Buffer, Completion, Info, Memory, PlacementHandles, Request, TargetError,
    conformance,
};
use thermocline_types::Bytes;

use super::initiator::{Entry, Host, Queue, Unit};
use super::{Running, export};

#[test]
fn a_namespace_conforms() {
    let running = Running::start();
    let mut host = running.host();
    let main = running.namespace(&mut host, "main");
    conformance::run(&host.disk(main, 1, true));
    conformance::run(&host.disk(main, 2, false));
    running.server.stop();
}

/// Reads and writes of a whole megabyte, more at once than a connection gets memory for.
#[test]
fn large_transfers_wait_for_memory_and_not_for_ever() {
    let running = Running::start();
    let mut host = running.host();
    let main = running.namespace(&mut host, "main");
    let disk = host.disk(main, 1, true);
    let (told, answers) = channel();
    for number in 0..60_u8 {
        let (told, length) = (told.clone(), 1 << 20);
        if number % 2 == 0 {
            let done = Completion::new(move |result| told.send(result).unwrap());
            let buffer = Buffer::from_bytes(&vec![7; length]);
            disk.submit(Request::Write { offset: Bytes(0), buffer, fua: false, handle: 0, done });
        } else {
            let done = Completion::new(move |result: Result<Buffer, _>| {
                told.send(result.map(drop)).unwrap();
            });
            let buffer = Buffer::zeroed(length);
            disk.submit(Request::Read { offset: Bytes(0), buffer, done });
        }
    }
    drop(told);
    assert!(answers.iter().all(|result| result == Ok(())));
    running.server.stop();
}

#[test]
fn a_volume_that_is_read_only_takes_no_writes() {
    let running = Running::start();
    let mut host = running.host();
    let fixed = running.namespace(&mut host, "fixed");
    assert_eq!(host.identify(0, fixed).unwrap()[99], 1, "write protected");
    let mut queue = host.queue(1, true).unwrap();
    let write = Entry::new(io::WRITE, fixed).blocks(0, 1).data(512, true);
    assert_eq!(queue.call(&write, &[0; 512]), Err(0x4020));
    let write = Entry::new(io::WRITE, fixed).blocks(0, 32).data(16384, false);
    assert_eq!(queue.call(&write, &[]), Err(0x4020), "and no data is asked for");
    let read = Entry::new(io::READ, fixed).blocks(0, 1).data(512, false);
    assert_eq!(queue.call(&read, &[]).unwrap().1.len(), 512);
    running.server.stop();
}

#[test]
fn what_is_not_offered_is_refused() {
    let running = Running::start();
    let mut host = running.host();
    let main = running.namespace(&mut host, "main");
    let mut queue = host.queue(1, true).unwrap();
    let compare = Entry::new(0x05, main).blocks(0, 1).data(512, true);
    assert_eq!(queue.call(&compare, &[0; 512]), Err(0x4001));
    let read = |blocks, bytes| Entry::new(io::READ, main).blocks(0, blocks).data(bytes, false);
    assert_eq!(queue.call(&read(2, 512), &[]), Err(0x400F), "lengths that differ");
    assert_eq!(queue.call(&read(4096, 2 << 20), &[]), Err(0x4002), "more than a transfer");
    assert_eq!(queue.call(&Entry::new(io::FLUSH, 70_000), &[]), Err(0x400B));
    assert_eq!(queue.call(&Entry::new(io::FLUSH, u32::MAX), &[]), Err(0x400B));
    assert_eq!(host.admin.call(&Entry::new(0x11, 0), &[]), Err(0x4001), "no firmware");
    assert_eq!(host.log(0x70, 1024), Err(0x4109), "no discovery here");
    assert_eq!(host.identify(0x05, main), Err(0x4002));
    let none = host.identify(0, 70_000).unwrap();
    assert!(none.iter().all(|&byte| byte == 0), "an inactive namespace");
    let abort = host.admin.call(&Entry::new(admin::ABORT, 0), &[]);
    assert_eq!(abort.unwrap().0, 1, "nothing was aborted");
    running.server.stop();
}

#[test]
fn queues_belong_to_a_controller_of_the_same_host() {
    let running = Running::start();
    let (at, name) = (running.server.address(), running.subsystem.name());
    let refused = |result: Result<Queue, u16>| result.map(|_| ()).unwrap_err();
    assert_eq!(refused(Queue::open(at, "nqn.other", 0, u16::MAX, true)), 0x4182);
    assert_eq!(refused(Queue::open(at, name, 1, 77, true)), 0x4182, "no such controller");
    let admin = Queue::open(at, name, 0, u16::MAX, true).unwrap();
    assert_eq!(refused(Queue::open(at, name, 1, admin.controller, true)), 0x400C, "not enabled");
    let mut host = running.host();
    let queues = Entry::new(admin::SET_FEATURES, 0).dword(10, 7).dword(11, 0x00FF_00FF);
    assert_eq!(host.admin.call(&queues, &[]).unwrap().0, 0x000F_000F);
    let mut first = host.queue(1, true).unwrap();
    assert_eq!(refused(host.queue(1, true)), 0x400C, "it is connected");
    assert_eq!(refused(host.queue(17, true)), 0x4182);
    let disconnect = Entry::fabrics(fabrics::DISCONNECT);
    first.call(&disconnect, &[]).unwrap();
    assert!(Unit::read(&mut first.stream).is_none());
    let mut again = host.queue(1, true).unwrap();
    drop(host);
    assert!(Unit::read(&mut again.stream).is_none(), "queues end with the controller");
    running.server.stop();
}

#[test]
fn a_subsystem_is_discovered() {
    let running = Running::start();
    let mut host = Host::connect(running.server.address(), DISCOVERY);
    assert_eq!(host.identify(1, 0).unwrap()[111], 2, "a discovery controller");
    let log = host.log(0x70, 2048).unwrap();
    assert_eq!((log[8], log[1024]), (1, 3));
    let port = running.server.address().port().to_string();
    assert!(log[1056..].starts_with(port.as_bytes()) && log[1536..].starts_with(b"127.0.0.1 "));
    assert!(log[1280..].starts_with(running.subsystem.name().as_bytes()));
    let offset = Entry::new(admin::LOG_PAGE, 0).data(4, false).dword(10, 0x70).dword(12, 1024);
    assert_eq!(host.admin.call(&offset, &[]).unwrap().1, log[1024..1028]);
    assert!(running.events.try_recv().is_err(), "nobody uses a volume");
    running.server.stop();
}

/// A volume that can be deleted.
struct Mortal(Memory, Arc<std::sync::atomic::AtomicBool>);

impl BlockTarget for Mortal {
    fn info(&self) -> Info {
        let gone = self.1.load(std::sync::atomic::Ordering::Relaxed);
        Info { size: if gone { Bytes(0) } else { self.0.info().size }, ..self.0.info() }
    }

    fn submit(&self, request: Request) {
        match request.check(&self.info()) {
            Err(error) => request.fail(error),
            Ok(()) => self.0.submit(request),
        }
    }
}

#[test]
fn hosts_hear_of_volumes_that_come_and_go() {
    let running = Running::start();
    let mut host = running.host();
    let before = host.namespaces();
    let notices = Entry::new(admin::SET_FEATURES, 0).dword(10, 0x0B).dword(11, 1 << 8);
    host.admin.call(&notices, &[]).unwrap();
    let gone = Arc::default();
    let target: Arc<dyn BlockTarget> =
        Arc::new(Mortal(Memory::new(Bytes(8192), Bytes(512)), Arc::clone(&gone)));
    running.exports.add(export("new", &target, false));
    let event = Entry::new(admin::EVENT, 0);
    assert_eq!(host.admin.call(&event, &[]).unwrap().0, 0x04_00_02);
    let new = running.namespace(&mut host, "new");
    let changed = host.log(4, 4096).unwrap();
    assert_eq!(changed[..8], [&new.to_le_bytes()[..], &[0; 4]].concat());
    assert_eq!(running.exports.hide("new"), 1, "the host uses it");
    gone.store(true, std::sync::atomic::Ordering::Relaxed);
    running.exports.remove("new");
    assert_eq!(host.admin.call(&event, &[]).unwrap().0, 0x04_00_02);
    assert_eq!(host.namespaces(), before);
    drop(host);
    running.server.stop();
    let events: Vec<_> = running.events.iter().map(|one| (one.export, one.is_over)).collect();
    for name in ["main", "fixed", "new"] {
        let of = |is_over| events.iter().filter(|&one| *one == (name.to_owned(), is_over)).count();
        assert_eq!((of(false), of(true)), (1, 1), "{name}");
    }
}

#[test]
fn a_stop_ends_connections() {
    let running = Running::start();
    let mut host = running.host();
    let main = running.namespace(&mut host, "main");
    let disk = host.disk(main, 1, true);
    let write = |told: std::sync::mpsc::Sender<_>| {
        let done = Completion::new(move |result| told.send(result).unwrap());
        let buffer = Buffer::from_bytes(&[1; 512]);
        disk.submit(Request::Write { offset: Bytes(0), buffer, fua: false, handle: 0, done });
    };
    let (told, answers) = channel();
    write(told.clone());
    assert_eq!(answers.recv(), Ok(Ok(())));
    running.server.stop();
    write(told);
    assert_eq!(answers.recv(), Ok(Err(TargetError::Gone)), "nobody is there any more");
}

/// A drive with handles, and the handle of each write.
struct Placed(Memory, Mutex<Vec<u16>>);

impl BlockTarget for Placed {
    fn info(&self) -> Info {
        self.0.info()
    }

    fn submit(&self, request: Request) {
        if let Request::Write { handle, .. } = request {
            self.1.lock().expect("no panic").push(handle);
        }
        self.0.submit(request);
    }

    fn placement(&self) -> Option<PlacementHandles> {
        let written = Bytes(512 * self.1.lock().expect("no panic").len() as u64);
        let (host_written, media_written) = (written, Bytes(2 * written.0));
        let (unit, erased) = (Bytes(1 << 20), Bytes(0));
        let handles = PlacementHandles {
            handles: 4,
            unit,
            stay_apart: true,
            host_written,
            media_written,
            erased,
        };
        Some(handles)
    }
}

#[test]
fn writes_name_placement_handles_and_hosts_see_what_the_drive_counts() {
    let target = Arc::new(Placed(Memory::new(Bytes(3 << 19), Bytes(512)), Mutex::default()));
    let running = Running::serve(&(Arc::clone(&target) as Arc<dyn BlockTarget>));
    let mut host = running.host();
    let main = running.namespace(&mut host, "main");
    assert_eq!(host.identify(1, 0).unwrap()[98], 1 << 3, "flexible data placement");
    assert_eq!(host.identify(0, main).unwrap()[102], 1, "the endurance group");
    let feature = Entry::new(admin::GET_FEATURES, 0).dword(10, 0x1D).dword(11, 1);
    assert_eq!(host.admin.call(&feature, &[]).unwrap().0, 1, "it is on");
    let page = |host: &mut Host, number: u32, bytes: u32| {
        let log = Entry::new(admin::LOG_PAGE, 0).data(bytes as usize, false);
        let log = log.dword(10, number | (bytes / 4 - 1) << 16).dword(11, 1 << 16);
        host.admin.call(&log, &[]).map(|(_, data)| data)
    };
    assert_eq!(page(&mut host, 0x20, 96).unwrap()[24], 4, "handles");
    assert_eq!(host.log(0x20, 96), Err(0x4109), "of another endurance group");
    let mut queue = host.queue(1, true).unwrap();
    let receive = Entry::new(io::MANAGEMENT, main).data(144, false).dword(10, 1).dword(11, 35);
    let status = queue.call(&receive, &[]).unwrap().1;
    assert_eq!((status[14], status[16 + 3 * 32]), (4, 3), "identifiers");
    let unknown = Entry::new(io::MANAGEMENT, main).data(144, false).dword(10, 2).dword(11, 35);
    assert_eq!(queue.call(&unknown, &[]), Err(0x4002));
    for (kind, value) in [(0, 3), (2, 3), (2, 9), (2, 0)] {
        let write = Entry::new(io::WRITE, main).blocks(0, 1).data(512, true);
        let write = write.dword(12, kind << 20).dword(13, value << 16);
        queue.call(&write, &[0; 512]).unwrap();
    }
    assert_eq!(*target.1.lock().unwrap(), [0, 3, 0, 0], "one that does not exist is the default");
    let statistics = page(&mut host, 0x22, 64).unwrap();
    assert_eq!((statistics[1], statistics[17]), (8, 16), "2048 and 4096 bytes");
    running.server.stop();
}

#[test]
fn a_drive_without_handles_has_no_pages_of_placement() {
    let running = Running::start();
    let mut host = running.host();
    assert_eq!(host.identify(1, 0).unwrap()[98], 0);
    let log = Entry::new(admin::LOG_PAGE, 0).data(64, false);
    let log = log.dword(10, 0x22 | 15 << 16).dword(11, 1 << 16);
    assert_eq!(host.admin.call(&log, &[]), Err(0x4109));
    running.server.stop();
}
