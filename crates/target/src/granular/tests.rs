use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use thermocline_types::Rng;

use super::*;
use crate::{Memory, TargetError, conformance};

fn sectors<T: BlockTarget + 'static>(inner: T) -> Granular<T> {
    Granular::new(inner, Bytes::SECTOR)
}

const BLOCKS: u64 = 8;
const SECTORS: u64 = BLOCKS * 8;

/// Keeps requests until it is told to carry one out, of its own choice.
struct Delayed {
    memory: Memory,
    waiting: Mutex<Vec<Request>>,
}

impl Delayed {
    fn new() -> Arc<Delayed> {
        let memory = Memory::new(Bytes(BLOCKS * 4096), Bytes(4096));
        Arc::new(Delayed { memory, waiting: Mutex::default() })
    }

    /// Carries out one of the waiting requests; `false` if there is none.
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
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Write(u8),
    Zero,
    Trim,
}

#[derive(Clone, Copy, Debug)]
struct Op {
    first: u64,
    sectors: u64,
    change: Change,
    /// Requests that the target carries out before the next one is submitted.
    steps: u8,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let change = prop_oneof![
        4 => (1..=255_u8).prop_map(Change::Write),
        1 => Just(Change::Zero),
        1 => Just(Change::Trim)
    ];
    let one = (0..SECTORS, 1..=20_u64, change, 0..6_u8);
    let one = one.prop_map(|(first, sectors, change, steps)| Op {
        first,
        sectors: sectors.min(SECTORS - first),
        change,
        steps,
    });
    prop::collection::vec(one, 1..40)
}

fn submit<T: BlockTarget>(target: &T, op: Op) -> Receiver<Result<(), TargetError>> {
    let (sender, receiver) = channel();
    // A test may end before its request.
    let done = Completion::new(move |result| _ = sender.send(result));
    let (offset, length) = (Bytes(op.first * 512), Bytes(op.sectors * 512));
    target.submit(match op.change {
        Change::Write(byte) => {
            let buffer = Buffer::from_bytes(&vec![byte; length.0 as usize]);
            Request::Write { offset, buffer, fua: false, handle: 0, done }
        }
        Change::Zero => Request::WriteZeroes { offset, length, no_hole: false, fua: false, done },
        Change::Trim => Request::Trim { offset, length, done },
    });
    receiver
}

fn read(target: &Granular<Arc<Delayed>>, first: u64, sectors: u64, rng: &mut Rng) -> Vec<u8> {
    let (sender, receiver) = channel();
    let done = Completion::new(move |result: Result<Buffer, _>| sender.send(result).unwrap());
    let buffer = Buffer::zeroed(sectors as usize * 512);
    target.submit(Request::Read { offset: Bytes(first * 512), buffer, done });
    while target.shared.inner.step(rng) {}
    receiver.try_recv().unwrap().unwrap().to_vec()
}

fn byte(change: Change) -> u8 {
    match change {
        Change::Write(byte) => byte,
        Change::Zero | Change::Trim => 0,
    }
}

proptest! {
    /// Any number of changes in flight, none overlapping another in sectors, though in blocks: a byte array says what
    /// must be there in the end, and at any moment in the sectors whose change is complete.
    #[test]
    fn changes_in_one_block_keep_each_others_bytes(ops in ops(), seed: u64) {
        let delayed = Delayed::new();
        let target = sectors(Arc::clone(&delayed));
        let mut rng = Rng::new(seed);
        let mut model = [0_u8; SECTORS as usize];
        let mut flying: Vec<(Op, Receiver<_>)> = Vec::new();
        for op in ops {
            let overlaps = |other: &Op| {
                other.first < op.first + op.sectors && op.first < other.first + other.sectors
            };
            loop {
                flying.retain(|(_, done)| done.try_recv() != Ok(Ok(())));
                if !flying.iter().any(|(other, _)| overlaps(other)) {
                    break;
                }
                prop_assert!(delayed.step(&mut rng), "a change waits for nothing");
            }
            flying.push((op, submit(&target, op)));
            for _ in 0..op.steps {
                delayed.step(&mut rng);
            }
            let (from, to) = (op.first as usize, (op.first + op.sectors) as usize);
            model[from..to].fill(byte(op.change));
        }
        while delayed.step(&mut rng) {}
        for (_, done) in flying {
            prop_assert_eq!(done.try_recv(), Ok(Ok(())));
        }
        for sector in 0..SECTORS {
            let expected = vec![model[sector as usize]; 512];
            prop_assert_eq!(read(&target, sector, 1, &mut rng), expected, "sector {}", sector);
        }
        prop_assert_eq!(target.shared.changes.in_flight(), 0);
    }

    /// One after another, with overlaps, read back at any alignment.
    #[test]
    fn equals_an_array_of_bytes(ops in ops(), from in 0..SECTORS, len in 1..SECTORS, seed: u64) {
        let target = sectors(Delayed::new());
        let mut rng = Rng::new(seed);
        let mut model = vec![0_u8; SECTORS as usize * 512];
        for op in ops {
            let done = submit(&target, op);
            while target.shared.inner.step(&mut rng) {}
            prop_assert_eq!(done.try_recv(), Ok(Ok(())));
            let bytes = op.first as usize * 512..(op.first + op.sectors) as usize * 512;
            model[bytes].fill(byte(op.change));
            let len = len.min(SECTORS - from);
            let expected = &model[from as usize * 512..(from + len) as usize * 512];
            prop_assert_eq!(&read(&target, from, len, &mut rng)[..], expected);
        }
    }
}

#[test]
fn conforms_over_blocks() {
    conformance::run(&sectors(Memory::new(Bytes::mib(1), Bytes(4096))));
}

#[test]
fn whole_blocks_are_passed_on_as_they_are() {
    let target = sectors(Delayed::new());
    let op = Op { first: 8, sectors: 16, change: Change::Write(1), steps: 0 };
    submit(&target, op);
    let waiting = target.shared.inner.waiting.lock().unwrap();
    assert!(matches!(&waiting[..], [Request::Write { offset: Bytes(4096), .. }]), "{waiting:?}");
}

#[test]
fn an_error_of_the_first_read_ends_the_write_and_frees_the_block() {
    let delayed = Delayed::new();
    let target = sectors(Arc::clone(&delayed));
    let op = Op { first: 1, sectors: 1, change: Change::Write(1), steps: 0 };
    let first = submit(&target, op);
    let second = submit(&target, op);
    let read = delayed.waiting.lock().unwrap().pop().unwrap();
    read.fail(TargetError::Io);
    assert_eq!(first.try_recv(), Ok(Err(TargetError::Io)));
    while delayed.step(&mut Rng::new(0)) {}
    assert_eq!(second.try_recv(), Ok(Ok(())));
}

#[test]
fn extents_are_cut_to_the_sectors_asked_for() {
    let extent = |length, has| Extent { length: Bytes(length), has };
    let blocks = [extent(4096, true), extent(8192, false), extent(4096, true)];
    let all = [extent(3584, true), extent(8192, false), extent(512, true)];
    assert_eq!(cut(&blocks, 512, 12_288), all);
    assert_eq!(cut(&blocks, 512, 512), [extent(512, true)]);
    assert_eq!(cut(&blocks[..1], 3584, 9000), [extent(512, true)], "not all of it was told");
}
