//! Guests, honest or not, on volumes in memory.

mod driver;
mod guest;
mod held;

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use crate::{Bound, GuestDisks, Hooks, Wear, serve, socket};
use rustix::fs::SealFlags;
use thermocline_target::{BlockTarget, ClientEvent, Export, Exports, Memory, conformance};
use thermocline_types::Bytes;

use driver::GuestDriver;
use guest::{DATA, ENTRIES, Guest, GuestMemory, INDIRECT, MEMORY, NEXT, PATIENCE, WRITE};
use held::HeldMemory;

/// A socket whose file goes with it.
fn bind(path: &Path) -> Result<Bound, String> {
    struct File(PathBuf);
    impl Drop for File {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).unwrap();
        }
    }
    let socket = UnixListener::bind(path).map_err(|error| error.to_string())?;
    Ok((socket, Box::new(File(path.to_owned()))))
}

/// A service of volumes.
struct Served {
    exports: Exports,
    folder: tempfile::TempDir,
    service: Option<GuestDisks>,
    clients: Receiver<ClientEvent>,
    troubles: Receiver<String>,
}

impl Served {
    fn new(exports: Vec<Export>, wear: Option<Wear>) -> Served {
        let (exports, folder) = (Exports::new(exports), tempfile::tempdir().unwrap());
        let ((client, clients), (trouble, troubles)) = (channel(), channel());
        let hooks = Hooks {
            bind: Box::new(bind),
            wear: wear.map(|wear| Box::new(move || wear) as _),
            client: Box::new(move |event| client.send(event).unwrap()),
            trouble: Box::new(move |why| trouble.send(why).unwrap()),
        };
        let service = Some(serve(&exports, folder.path(), hooks).unwrap());
        Served { exports, folder, service, clients, troubles }
    }

    fn of(target: Arc<dyn BlockTarget>) -> Served {
        Served::new(vec![Export { name: "a".to_owned(), target, read_only: false }], None)
    }

    fn socket(&self, name: &str) -> PathBuf {
        socket(self.folder.path(), name)
    }

    fn guest(&self) -> Guest {
        Guest::connect(&self.socket("a"), GuestMemory::default())
    }

    /// The next event of a client: the volume, and whether its use ended.
    fn client(&self) -> (String, bool) {
        let event = self.clients.recv_timeout(PATIENCE).unwrap();
        assert_eq!(event.client, format!("process {}", std::process::id()));
        (event.export, event.is_over)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.service.take().into_iter().for_each(GuestDisks::end);
    }
}

fn memory() -> Arc<Memory> {
    Arc::new(Memory::new(Bytes::mib(4), Bytes(512)))
}

fn until(what: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !what() {
        assert!(Instant::now() < end, "it did not happen");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn conforms() {
    let served = Served::of(memory());
    conformance::run(&GuestDriver::new(served.guest()));
    // Without events by index, and in writes that go through.
    let features = !(1 << 29 | 1 << 9);
    let guest = Guest::try_connect(&served.socket("a"), GuestMemory::default(), features);
    conformance::run(&GuestDriver::new(guest.unwrap()));
}

#[test]
fn the_device_is_as_the_volume() {
    let served = Served::new(
        vec![Export {
            name: "a volume of a long name".to_owned(),
            target: memory(),
            read_only: true,
        }],
        Some(Wear { fast: Some(0.25), capacity: None }),
    );
    let path = served.socket("a volume of a long name");
    let mut guest = Guest::connect(&path, GuestMemory::default());
    let bit = |bit: u32| guest.features & 1 << bit != 0;
    assert_eq!(
        [5, 9, 13, 14, 15].map(bit),
        [true, true, false, false, true],
        "read-only, with wear"
    );
    let config = guest.config(60);
    let number = |at: usize| u32::from_le_bytes(config[at..at + 4].try_into().unwrap());
    assert_eq!((number(0), number(20), config[24]), ((4 << 20) / 512, 512, 3));
    let result = guest.request(8, 0, &[], 20);
    assert_eq!((result, guest.get(DATA + (64 << 10), 20)), (0, b"a volume of a long n".to_vec()));
    let result = guest.request(10, 0, &[], 6);
    assert_eq!((result, guest.get(DATA + (64 << 10), 6)), (0, vec![0, 0, 3, 0, 0, 0]));
    assert_eq!(guest.request(1, 0, &[7; 512], 0), 1, "a write");
    assert_eq!(guest.request(99, 0, &[], 0), 2, "an unknown type");
    assert!(!served.client().1);
    drop(guest);
    assert!(served.client().1);
}

#[test]
fn a_lying_guest_harms_nobody() {
    let other = Export { name: "other".to_owned(), target: memory(), read_only: false };
    let served = Served::of(memory());
    served.exports.add(other);
    until(|| served.socket("other").exists());
    let mut honest = Guest::connect(&served.socket("other"), GuestMemory::default());
    let mut guest = served.guest();
    let far = MEMORY as u64;
    let header = (DATA, 16, NEXT, 1);
    let status = (DATA + 16, 1, WRITE, 0);
    guest.put(DATA, &[0; 16]);
    guest.put(DATA + 512, &[0xFF; 16]);
    // Each chain is answered, though perhaps without a status.
    for chain in [
        &[(DATA, 16, NEXT, 0)][..],
        &[header, (DATA, 16, NEXT, 0)],
        &[header, (far, 512, WRITE | NEXT, 2), status],
        &[header, (u64::MAX - 100, 512, WRITE | NEXT, 2), status],
        &[header, (DATA, u32::MAX, WRITE | NEXT, 2), (DATA, u32::MAX, WRITE, 0)],
        &[header, (DATA + 4096, 0, WRITE | NEXT, 2), status],
        &[header, (DATA + 4096, 100, WRITE | NEXT, 2), status],
        &[(DATA, 15, NEXT, 1), status],
        &[(far - 8, 16, NEXT, 1), status],
        &[status],
        &[(DATA, 16, 0, 0)],
        &[(0, 0, 0, 0)],
        &[(DATA, 16, NEXT, ENTRIES)],
        &[(DATA, 16, NEXT | WRITE, 1), (DATA, 16, 0, 0)],
        &[(DATA + 512, 16, NEXT, 1), status],
        &[(DATA, 15, INDIRECT, 0)],
        &[(DATA, 0, INDIRECT, 0)],
        &[(far, 64, INDIRECT, 0)],
        &[(0, 16, INDIRECT, 0)],
        &[(0, !15, INDIRECT, 0)],
    ] {
        guest.describe(Guest::descriptor(0, 0), chain);
        guest.ask(0, 0);
        assert_eq!(guest.wait(0).0, 0, "{chain:?}");
    }
    // A good request, then rings that no guest has: their queue is not served any more, but the other one is.
    assert_eq!(guest.request(0, 0, &[], 512), 0);
    guest.ask(0, ENTRIES);
    guest.show(0, 40_000);
    guest.describe_request(1, 0, DATA, (0, 0), &[], 512);
    guest.ask(1, 0);
    guest.wait(1);
    assert_eq!(guest.get(DATA + 16, 1), [0]);
    assert_eq!(honest.request(1, 1, &[5; 512], 0), 0);
    drop(guest);
    let mut guest = served.guest();
    assert_eq!(guest.request(0, 0, &[], 512), 0, "the volume has its next guest");
}

#[test]
fn memory_that_may_shrink_is_refused() {
    let served = Served::of(memory());
    let memory = GuestMemory::new(SealFlags::GROW);
    assert!(Guest::try_connect(&served.socket("a"), memory, u64::MAX).is_err());
    assert_eq!(served.guest().request(0, 0, &[], 512), 0);
}

#[test]
fn a_lost_frontend_gets_no_answers_and_the_next_one_all() {
    let held = HeldMemory::new(memory());
    let served = Served::of(Arc::<HeldMemory>::clone(&held));
    let mut guest = served.guest();
    for (head, sector) in [(0, 1), (3, 2)] {
        let at = DATA + u64::from(head) * 4096 * 64;
        guest.describe_request(0, head, at, (1, sector), &[head as u8 + 1; 512], 0);
        guest.ask(0, head);
    }
    until(|| held.waiting() == 2);
    let Guest { memory, frontend, .. } = guest;
    drop(frontend);
    let path = served.socket("a");
    let next = std::thread::spawn(move || Guest::connect(&path, memory));
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(!next.is_finished() && held.waiting() == 2, "the next frontend waits for old writes");
    held.release();
    let mut guest = next.join().unwrap();
    assert_eq!(guest.answer(0), None, "the lost frontend got no answer");
    until(|| held.waiting() == 2);
    held.release();
    assert_eq!([guest.wait(0), guest.wait(0)].map(|(head, _)| head), [0, 3]);
    held.open();
    assert_eq!(guest.request(0, 2, &[], 512), 0);
    assert_eq!(guest.get(DATA + (64 << 10), 512), [4; 512]);
}

#[test]
fn a_stop_answers_requests_under_way_and_leaves_the_others() {
    let held = HeldMemory::new(memory());
    let mut served = Served::of(Arc::<HeldMemory>::clone(&held));
    let mut guest = served.guest();
    guest.describe_request(0, 0, DATA, (1, 0), &[1; 512], 0);
    guest.ask(0, 0);
    until(|| held.waiting() == 1);
    let service = served.service.take().unwrap();
    let ending = std::thread::spawn(move || service.end());
    until(|| !served.socket("a").exists());
    std::thread::sleep(std::time::Duration::from_millis(20));
    guest.describe_request(0, 3, DATA + (1 << 20), (1, 1), &[2; 512], 0);
    guest.ask(0, 3);
    held.release();
    ending.join().unwrap();
    assert_eq!(guest.wait(0).0, 0);
    assert_eq!(guest.answer(0), None);
    held.open();
    // The next server takes the request that is left.
    let served = Served::of(Arc::<HeldMemory>::clone(&held));
    let mut guest = Guest::connect(&served.socket("a"), guest.memory);
    assert_eq!(guest.wait(0).0, 3);
}

#[test]
fn a_stop_does_not_wait_for_half_a_message() {
    let mut served = Served::of(memory());
    let mut stream = std::os::unix::net::UnixStream::connect(served.socket("a")).unwrap();
    std::io::Write::write_all(&mut stream, &[1, 0, 0]).unwrap();
    assert_eq!(served.client(), ("a".to_owned(), false));
    served.service.take().unwrap().end();
    assert_eq!(served.client(), ("a".to_owned(), true));
}

#[test]
fn sockets_come_and_go_with_volumes() {
    let served = Served::of(memory());
    let mut guest = served.guest();
    served.exports.add(Export { name: "b".to_owned(), target: memory(), read_only: false });
    until(|| served.socket("b").exists());
    served.exports.rename("b", "c");
    until(|| served.socket("c").exists() && !served.socket("b").exists());
    assert_eq!(served.exports.hide("a"), 1);
    until(|| !served.socket("a").exists());
    served.exports.remove("a");
    assert_eq!(guest.request(0, 0, &[], 512), 0, "its guest goes on");
    served.exports.add(Export { name: "d/e".to_owned(), target: memory(), read_only: false });
    let trouble = served.troubles.recv_timeout(PATIENCE).unwrap();
    assert_eq!(trouble, "volume \"d/e\" has no socket: no file can have this name");
}
