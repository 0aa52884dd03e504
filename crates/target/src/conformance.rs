//! The rules for every target, as a suite for the target's tests.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use thermocline_types::{Bytes, Rng};

use crate::{BlockTarget, Buffer, Completion, Request, TargetError};

/// No request of the suite takes that long on any sound target.
const PATIENCE: Duration = Duration::from_secs(60);
const MIN_BLOCKS: u64 = 64;

type Answer<T> = Receiver<Result<T, TargetError>>;

/// Runs the whole suite over `target`, and overwrites the first 64 logical blocks and the last of it.
///
/// # Panics
/// When the target does not conform, with the reason; when it has fewer than 64 logical blocks; or when a request takes
/// a minute.
pub fn run(target: &dyn BlockTarget) {
    let info = target.info();
    let block = info.logical_block.0;
    assert!(matches!(block, 512 | 4096), "logical blocks of {block} bytes");
    assert!(info.size.0.is_multiple_of(block), "{} of no whole logical blocks", info.size);
    let blocks = info.size.0 / block;
    assert!(blocks >= MIN_BLOCKS, "{blocks} logical blocks are too few for the suite");
    let suite = Suite { target, block, blocks };
    suite.reads_back_what_was_written();
    suite.last_block_can_be_used();
    suite.what_was_trimmed_or_zeroed_is_zero();
    suite.refuses_what_is_out_of_bounds_or_misaligned();
    suite.neighbours_in_flight_keep_their_bytes();
    suite.overlapping_writes_do_not_mix_within_a_block();
    suite.flushes_among_writes_complete();
}

struct Suite<'a> {
    target: &'a dyn BlockTarget,
    block: u64,
    blocks: u64,
}

impl Suite<'_> {
    fn reads_back_what_was_written(&self) {
        let mut rng = Rng::new(1);
        let mut model = vec![0; (MIN_BLOCKS * self.block) as usize];
        self.write(0, &model);
        for _ in 0..200 {
            let first = rng.below(MIN_BLOCKS);
            let count = 1 + rng.below((MIN_BLOCKS - first).min(20));
            let range = self.bytes(first)..self.bytes(first + count);
            for byte in &mut model[range.clone()] {
                *byte = rng.next_u64() as u8;
            }
            self.write(first, &model[range.clone()]);
            assert!(self.read(first, count) == model[range], "{count} blocks at {first} differ");
        }
        assert!(self.read(0, MIN_BLOCKS) == model, "read as a whole, the blocks differ");
    }

    fn last_block_can_be_used(&self) {
        let pattern = vec![0xA5; self.block as usize];
        self.write(self.blocks - 1, &pattern);
        assert!(self.read(self.blocks - 1, 1) == pattern, "the last block differs");
    }

    fn what_was_trimmed_or_zeroed_is_zero(&self) {
        let features = self.target.info().features;
        let pattern = vec![0x5A; self.bytes(16)];
        let (offset, length) = (Bytes(3 * self.block), Bytes(7 * self.block));
        let mut expected = pattern.clone();
        expected[self.bytes(3)..self.bytes(10)].fill(0);
        let trim = |done| Request::Trim { offset, length, done };
        let zero =
            |no_hole, fua| move |done| Request::WriteZeroes { offset, length, no_hole, fua, done };
        let clear = |name: &str, supported: bool, request: &dyn Fn(Completion<()>) -> Request| {
            self.write(0, &pattern);
            let result = wait(&self.change(request));
            let answer = if supported { Ok(()) } else { Err(TargetError::Unsupported) };
            assert_eq!(result, answer, "{name}");
            if supported {
                assert!(self.read(0, 16) == expected, "{name}: not zero, or others are");
            }
        };
        clear("trim", features.trim, &trim);
        clear("zero", features.zeroes, &zero(false, false));
        clear("zero without hole", features.zeroes, &zero(true, false));
        clear("zero with FUA", features.zeroes && features.fua, &zero(false, true));
    }

    fn refuses_what_is_out_of_bounds_or_misaligned(&self) {
        let size = self.blocks * self.block;
        let beyond = [(size, 1), (size - self.block, 2), (u64::MAX - self.block + 1, 1)];
        for (offset, count) in beyond {
            let buffer = Buffer::zeroed(self.bytes(count));
            let result = wait(&self.submit_read(offset, buffer)).map(drop);
            assert_eq!(result, Err(TargetError::OutOfBounds), "read of {count} at {offset}");
            let result = wait(&self.submit_write(offset, &vec![0; self.bytes(count)], false));
            assert_eq!(result, Err(TargetError::OutOfBounds), "write of {count} at {offset}");
        }
        for (offset, len) in [(1, self.block), (0, self.block - 1), (0, 0)] {
            let result = wait(&self.submit_read(offset, Buffer::zeroed(len as usize))).map(drop);
            assert_eq!(result, Err(TargetError::Misaligned), "read of {len} bytes at {offset}");
            let result = wait(&self.submit_write(offset, &vec![0; len as usize], false));
            assert_eq!(result, Err(TargetError::Misaligned), "write of {len} bytes at {offset}");
        }
    }

    /// Writes of single blocks side by side, all in flight together.
    fn neighbours_in_flight_keep_their_bytes(&self) {
        for round in 0..8_u8 {
            let pattern = |block: u64| vec![round.wrapping_mul(67) ^ block as u8; self.bytes(1)];
            let answers: Vec<_> = (0..MIN_BLOCKS)
                .map(|block| self.submit_write(block * self.block, &pattern(block), false))
                .collect();
            answers.into_iter().for_each(|answer| assert_eq!(wait(&answer), Ok(())));
            for block in 0..MIN_BLOCKS {
                assert!(self.read(block, 1) == pattern(block), "block {block} lost its bytes");
            }
        }
    }

    fn overlapping_writes_do_not_mix_within_a_block(&self) {
        let mut rng = Rng::new(2);
        for _ in 0..16 {
            let answers: Vec<_> = (1..=32_u8)
                .map(|byte| {
                    let first = rng.below(12);
                    self.submit_write(first * self.block, &vec![byte; self.bytes(8)], false)
                })
                .collect();
            answers.into_iter().for_each(|answer| assert_eq!(wait(&answer), Ok(())));
            for block in self.read(0, 20).chunks(self.block as usize) {
                assert!(block.iter().all(|&byte| byte == block[0]), "a block has parts of two");
            }
        }
    }

    /// A flush can be told from its neighbours only by a power cut. Here a flush must complete with any requests in
    /// flight, and must lose no data.
    fn flushes_among_writes_complete(&self) {
        let features = self.target.info().features;
        let mut writes = Vec::new();
        let mut flushes = Vec::new();
        for block in 0..MIN_BLOCKS {
            let pattern = vec![block as u8; self.bytes(1)];
            let fua = features.fua && block % 5 == 0;
            writes.push(self.submit_write(block * self.block, &pattern, fua));
            flushes.push(self.change(&|done| Request::Flush { done }));
        }
        writes.into_iter().for_each(|answer| assert_eq!(wait(&answer), Ok(())));
        flushes.into_iter().for_each(|answer| assert_eq!(wait(&answer), Ok(())));
        assert_eq!(wait(&self.change(&|done| Request::Flush { done })), Ok(()));
        for block in 0..MIN_BLOCKS {
            assert!(self.read(block, 1) == vec![block as u8; self.bytes(1)], "block {block}");
        }
    }

    fn bytes(&self, blocks: u64) -> usize {
        (blocks * self.block) as usize
    }

    fn read(&self, first: u64, count: u64) -> Vec<u8> {
        let buffer = Buffer::zeroed(self.bytes(count));
        let result = wait(&self.submit_read(first * self.block, buffer));
        result.expect("a read within the device succeeds").to_vec()
    }

    fn write(&self, first: u64, bytes: &[u8]) {
        let result = wait(&self.submit_write(first * self.block, bytes, false));
        assert_eq!(result, Ok(()), "write of {} bytes at block {first}", bytes.len());
    }

    fn submit_read(&self, offset: u64, buffer: Buffer) -> Answer<Buffer> {
        let (done, answer) = completion();
        self.target.submit(Request::Read { offset: Bytes(offset), buffer, done });
        answer
    }

    fn submit_write(&self, offset: u64, bytes: &[u8], fua: bool) -> Answer<()> {
        let buffer = Buffer::from_bytes(bytes);
        self.change(&|done| {
            let buffer = Buffer::from_bytes(&buffer);
            Request::Write { offset: Bytes(offset), buffer, fua, handle: 0, done }
        })
    }

    fn change(&self, request: &dyn Fn(Completion<()>) -> Request) -> Answer<()> {
        let (done, answer) = completion();
        self.target.submit(request(done));
        answer
    }
}

fn completion<T: Send + 'static>() -> (Completion<T>, Answer<T>) {
    let (sender, receiver) = channel();
    // Whoever asked may have given up.
    (Completion::new(move |result| drop(sender.send(result))), receiver)
}

/// The answer, which must be the only one.
fn wait<T>(answer: &Answer<T>) -> Result<T, TargetError> {
    let result = answer.recv_timeout(PATIENCE).expect("every request is completed");
    assert!(answer.try_recv().is_err(), "a request was completed twice");
    result
}
