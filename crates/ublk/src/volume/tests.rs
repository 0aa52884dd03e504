use std::collections::BTreeMap;
use std::sync::Mutex;

use thermocline_target::{Bell, Info, Memory, conformance};

use super::*;

/// Bytes of requests by tag, as the kernel has them.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<u16, Vec<u8>>>>);

impl Payloads for Kept {
    fn take(&self, tag: u16, buffer: &mut [u8]) -> io::Result<()> {
        let kept = self.0.lock().expect("no test panicked");
        let bytes = kept.get(&tag).filter(|bytes| bytes.len() == buffer.len());
        buffer.copy_from_slice(bytes.ok_or(Errno::INVAL)?);
        Ok(())
    }

    fn give(&self, tag: u16, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().expect("no test panicked").insert(tag, bytes.to_vec());
        Ok(())
    }
}

fn volume(target: Arc<dyn BlockTarget>, read_only: bool) -> (Volume<Kept>, Arc<Mailbox>) {
    let answers = Mailbox::new(Bell::new().expect("a descriptor"));
    let export = Export { name: "a".to_owned(), target, read_only };
    let pool = BufferPool::new(1 << 20);
    let volume = Volume::new(&export, Kept::default(), Arc::clone(&answers), pool, 5 << 16, 8);
    (volume, answers)
}

fn request(operation: u8, start: u64, sectors: u32) -> IoDescriptor {
    IoDescriptor { operation: operation.into(), sectors, start, address: 0 }
}

/// The kernel's side of a device with one request at a time; out of bounds it refuses, as the block layer does.
struct BlockLayer(Mutex<(Volume<Kept>, Arc<Mailbox>)>, Info);

impl BlockLayer {
    /// Carries a request out. Returns its result, and its bytes if it read.
    fn carry_out(&self, request: IoDescriptor, bytes: Option<&[u8]>) -> (i32, Vec<u8>) {
        let mut device = self.0.lock().expect("no test panicked");
        let (volume, answers) = &mut *device;
        let (tag, mut results, mut ready) = (3, Vec::new(), Vec::new());
        let kept = Arc::clone(&volume.transport.0);
        bytes.and_then(|bytes| kept.lock().expect("no panic").insert(tag, bytes.to_vec()));
        volume.arrived(tag, request, 1 << 30, &mut results);
        answers.take(&mut ready);
        for (number, answer) in ready {
            assert_eq!(number, (5 << 16) + u64::from(tag));
            volume.answered(tag, answer, 1 << 30, &mut results);
        }
        assert!(volume.is_idle() && results.len() == 1, "one result: {results:?}");
        (results[0].1, kept.lock().expect("no panic").remove(&tag).unwrap_or_default())
    }
}

impl BlockTarget for BlockLayer {
    fn info(&self) -> Info {
        self.1
    }

    fn submit(&self, asked: Request) {
        if let Err(error) = asked.check(&self.1) {
            return asked.fail(error);
        }
        let (offset, length) = asked.range().unwrap_or_default();
        let of = |operation, flags| {
            let operation = u32::from(operation) | flags;
            let sectors = (length.0 / SECTOR) as u32;
            IoDescriptor { operation, sectors, start: offset.0 / SECTOR, address: 0 }
        };
        let flag = |is, flag| if is { flag } else { 0 };
        match asked {
            Request::Read { mut buffer, done, .. } => {
                let (result, bytes) = self.carry_out(of(OP_READ, 0), None);
                assert_eq!(result as usize, buffer.len());
                buffer.copy_from_slice(&bytes);
                done.complete(Ok(buffer));
            }
            Request::Write { buffer, fua, done, .. } => {
                let (result, _) = self.carry_out(of(OP_WRITE, flag(fua, IO_FUA)), Some(&buffer));
                assert_eq!(result as usize, buffer.len());
                done.complete(Ok(()));
            }
            Request::Flush { done } => {
                // As Linux sends it.
                let flush = IoDescriptor { start: u64::MAX, ..of(OP_FLUSH, 0) };
                assert_eq!(self.carry_out(flush, None).0, 0);
                done.complete(Ok(()));
            }
            Request::Trim { done, .. } => {
                assert_eq!(self.carry_out(of(OP_DISCARD, 0), None).0, 0);
                done.complete(Ok(()));
            }
            Request::WriteZeroes { no_hole, fua, done, .. } => {
                let flags = flag(no_hole, IO_NOUNMAP) | flag(fua, IO_FUA);
                assert_eq!(self.carry_out(of(OP_WRITE_ZEROES, flags), None).0, 0);
                done.complete(Ok(()));
            }
        }
    }
}

#[test]
fn conforms() {
    for block in [512, 4096] {
        let memory = Arc::new(Memory::new(Bytes::mib(1), Bytes(block)));
        let info = memory.info();
        conformance::run(&BlockLayer(Mutex::new(volume(memory, false)), info));
    }
}

/// Keeps requests.
#[derive(Default)]
struct Slow(Mutex<Vec<Request>>);

impl BlockTarget for Slow {
    fn info(&self) -> Info {
        Memory::new(Bytes(4096), Bytes(512)).info()
    }

    fn submit(&self, request: Request) {
        self.0.lock().expect("no test panicked").push(request);
    }
}

impl Slow {
    fn starts(&self) -> Vec<u64> {
        let kept = self.0.lock().expect("no test panicked");
        kept.iter()
            .map(|one| one.range().map_or(u64::MAX, |(offset, _)| offset.0 / SECTOR))
            .collect()
    }
}

#[test]
fn requests_wait_for_memory_in_their_order() {
    let slow = Arc::new(Slow::default());
    let (mut volume, _answers) = volume(Arc::<Slow>::clone(&slow), false);
    let (share, mut results) = (8 * SECTOR, Vec::new());
    for (tag, sectors) in [(0, 6), (1, 4), (2, 1)] {
        volume.arrived(tag, request(OP_READ, tag.into(), sectors), share, &mut results);
    }
    assert_eq!(slow.starts(), [0], "the second has no room, and the third comes after it");
    volume.arrived(3, request(OP_FLUSH, 0, 0), share, &mut results);
    volume.arrived(4, request(OP_DISCARD, 4, 100_000), share, &mut results);
    assert_eq!(slow.starts(), [0, u64::MAX, 4], "these take no memory");
    volume.answered(0, Ok(Some(Buffer::zeroed(6 * 512))), share, &mut results);
    assert_eq!(slow.starts(), [0, u64::MAX, 4, 1, 2]);
    assert_eq!(results, [(0, 6 * 512)]);
    assert!(!volume.is_idle());
}

#[test]
fn a_request_larger_than_the_share_goes_alone() {
    let slow = Arc::new(Slow::default());
    let (mut volume, _answers) = volume(Arc::<Slow>::clone(&slow), false);
    let mut results = Vec::new();
    volume.arrived(0, request(OP_READ, 0, 9), 8 * SECTOR, &mut results);
    volume.arrived(1, request(OP_READ, 1, 9), 8 * SECTOR, &mut results);
    assert_eq!(slow.starts(), [0]);
    volume.answered(0, Err(TargetError::Io), 8 * SECTOR, &mut results);
    assert_eq!(slow.starts(), [0, 1]);
    assert_eq!(results, [(0, -Errno::IO.raw_os_error())]);
}

#[test]
fn what_cannot_be_done_is_answered_at_once() {
    let memory = || Arc::new(Memory::new(Bytes::mib(4), Bytes(512)));
    let (mut volume, _) = volume(memory(), false);
    let mut errno = |request| {
        let mut results = Vec::new();
        volume.arrived(0, request, 1 << 30, &mut results);
        assert!(volume.is_idle());
        results[0].1
    };
    assert_eq!(errno(request(7, 0, 1)), -Errno::OPNOTSUPP.raw_os_error());
    assert_eq!(errno(request(OP_READ, u64::MAX, 1)), -Errno::INVAL.raw_os_error());
    assert_eq!(
        errno(request(OP_READ, 0, 2049)),
        -Errno::INVAL.raw_os_error(),
        "longer than agreed"
    );
    assert_eq!(errno(request(OP_READ, 0, u32::MAX)), -Errno::INVAL.raw_os_error());
    assert_eq!(
        errno(request(OP_WRITE, 0, 1)),
        -Errno::IO.raw_os_error(),
        "the kernel has no bytes"
    );
    let (mut volume, _) = self::volume(memory(), true);
    for operation in [OP_WRITE, OP_DISCARD, OP_WRITE_ZEROES] {
        let mut results = Vec::new();
        volume.arrived(0, request(operation, 0, 1), 1 << 30, &mut results);
        assert_eq!(results, [(0, -Errno::ROFS.raw_os_error())]);
    }
}
