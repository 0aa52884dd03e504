use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use proptest::prelude::*;
use thermocline_target::{Export, Exports, Granular, Info, Memory};
use thermocline_types::Rng;

use super::*;

const SIZE: u64 = 8 * 512;

/// Keeps requests until it is told to carry one out, of its own choice.
struct Delayed {
    memory: Memory,
    waiting: Mutex<Vec<Request>>,
}

impl Delayed {
    fn step(&self, rng: &mut Rng) -> bool {
        let mut waiting = self.waiting.lock().unwrap();
        if waiting.is_empty() {
            return false;
        }
        let chosen = rng.below(waiting.len() as u64) as usize;
        let request = waiting.swap_remove(chosen);
        drop(waiting);
        self.memory.submit(request);
        true
    }
}

impl BlockTarget for Delayed {
    fn info(&self) -> Info {
        self.memory.info()
    }

    fn submit(&self, request: Request) {
        self.waiting.lock().unwrap().push(request);
    }

    /// Every other block is a hole, and only one extent is told at a time.
    fn extents(&self, _: Property, offset: Bytes, _length: Bytes, done: Completion<Vec<Extent>>) {
        let has = (offset.0 / 512).is_multiple_of(2);
        done.complete(Ok(vec![Extent { length: Bytes(512), has }]));
    }
}

fn disk(target: Arc<dyn BlockTarget>) -> Disk {
    let export = Export { name: "a".to_owned(), target, read_only: false };
    let offer = Exports::new(vec![export]).numbered(0).unwrap();
    Disk { target: offer.at_any_byte(), pool: BufferPool::new(1 << 20) }
}

fn delayed() -> (Arc<Delayed>, Disk) {
    let memory = Memory::new(Bytes(SIZE), Bytes(512));
    let target = Arc::new(Delayed { memory, waiting: Mutex::default() });
    (Arc::clone(&target), disk(target))
}

type Result_ = Result<(), TargetError>;

fn done() -> (Completion<()>, Receiver<Result_>) {
    let (sender, receiver) = channel();
    (Completion::new(move |result| sender.send(result).unwrap()), receiver)
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Write(u8),
    Clear(Clear),
}

fn change() -> impl Strategy<Value = (u64, u64, Change, u8)> {
    let change = prop_oneof![
        4 => (1..=255_u8).prop_map(Change::Write),
        1 => Just(Change::Clear(Clear::Trim)),
        1 => Just(Change::Clear(Clear::Zero)),
    ];
    (0..SIZE, 1..1500_u64, change, 0..5_u8)
        .prop_map(|(from, len, change, steps)| (from, (from + len).min(SIZE), change, steps))
}

proptest! {
    /// Any number of changes in flight that overlap in blocks, but not in bytes: an array of bytes says what is there
    /// in the end.
    #[test]
    fn changes_at_any_byte_keep_the_bytes_of_each_other(
        changes in prop::collection::vec(change(), 1..30),
        seed: u64,
    ) {
        let (target, disk) = delayed();
        let mut rng = Rng::new(seed);
        let mut model = vec![0_u8; SIZE as usize];
        let mut flying: Vec<(u64, u64, Receiver<Result_>)> = Vec::new();
        for (from, to, change, steps) in changes {
            loop {
                flying.retain(|(_, _, done)| done.try_recv() != Ok(Ok(())));
                if !flying.iter().any(|&(start, end, _)| start < to && from < end) {
                    break;
                }
                prop_assert!(target.step(&mut rng), "a change waits for nothing");
            }
            let (completion, receiver) = done();
            let bytes = &mut model[from as usize..to as usize];
            match change {
                Change::Write(byte) => {
                    bytes.fill(byte);
                    disk.write(from, bytes, completion);
                }
                Change::Clear(why) => {
                    bytes.fill(0);
                    disk.clear(&(from..to), why, completion);
                }
            }
            flying.push((from, to, receiver));
            for _ in 0..steps {
                target.step(&mut rng);
            }
        }
        while target.step(&mut rng) {}
        for (_, _, done) in flying {
            prop_assert_eq!(done.try_recv(), Ok(Ok(())));
        }
        let (sender, receiver) = channel();
        let (from, to) = (rng.below(SIZE), SIZE);
        disk.read(&(from..to), move |bytes| sender.send(bytes.unwrap().to_vec()).unwrap());
        target.step(&mut rng);
        prop_assert_eq!(&receiver.try_recv().unwrap()[..], &model[from as usize..]);
    }
}

#[test]
fn an_error_ends_a_change_and_lets_the_next_one_pass() {
    let (target, disk) = delayed();
    let (first, first_done) = done();
    let (second, second_done) = done();
    disk.write(1, &[1], first);
    disk.write(0, &[2; 512], second);
    let read = target.waiting.lock().unwrap().pop().unwrap();
    assert!(target.waiting.lock().unwrap().is_empty(), "the second one waits");
    read.fail(TargetError::Io);
    assert_eq!(first_done.try_recv(), Ok(Err(TargetError::Io)));
    while target.step(&mut Rng::new(0)) {}
    assert_eq!(second_done.try_recv(), Ok(Ok(())));
}

#[test]
fn data_and_holes_are_found() {
    let (_target, disk) = delayed();
    let find = |from, data| {
        let (sender, receiver) = channel();
        disk.clone().seek(from, data, move |found| sender.send(found.unwrap()).unwrap());
        receiver.try_recv().unwrap()
    };
    assert_eq!(find(0, true), Some(0));
    assert_eq!(find(7, true), Some(7));
    assert_eq!(find(7, false), Some(512));
    assert_eq!(find(600, true), Some(1024));
    assert_eq!(find(SIZE - 1, true), None, "the last block is a hole");
    assert_eq!(find(SIZE, false), None);
}

/// A write of a byte through a file, while a sector around it is written through another front end.
#[test]
fn a_byte_and_a_sector_that_are_written_side_by_side_are_both_there() {
    for seed in 0..64 {
        let mut rng = Rng::new(seed);
        let memory = Memory::new(Bytes(2 * 4096), Bytes(4096));
        let target = Arc::new(Delayed { memory, waiting: Mutex::default() });
        let sectors = Arc::new(Granular::new(Arc::clone(&target), Bytes::SECTOR));
        let disk = disk(Arc::<Granular<_>>::clone(&sectors));
        let (byte, byte_done) = done();
        let (sector, sector_done) = done();
        disk.write(1, &[1], byte);
        (0..rng.below(3)).for_each(|_| _ = target.step(&mut rng));
        let buffer = Buffer::from_bytes(&[2; 512]);
        sectors.submit(Request::Write {
            offset: Bytes(0),
            buffer,
            fua: false,
            handle: 0,
            done: sector,
        });
        while target.step(&mut rng) {}
        assert_eq!((byte_done.try_recv(), sector_done.try_recv()), (Ok(Ok(())), Ok(Ok(()))));
        let (sender, receiver) = channel();
        disk.read(&(0..3), move |bytes| sender.send(bytes.unwrap().to_vec()).unwrap());
        while target.step(&mut rng) {}
        let bytes = receiver.try_recv().expect("it is read");
        assert!(bytes[0] == 2 && bytes[2] == 2, "seed {seed}: the sector is lost: {bytes:?}");
    }
}
