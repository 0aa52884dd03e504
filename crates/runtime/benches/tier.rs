//! A pool with a fast device before one for capacity, both in memory, engine and load on one thread: set-ups B and C in
//! which SPDK's FTL was measured, beside what it did there.
//!
//! The write cache of the engine is off. Random writes of 4 KiB, and for set-up B reads, mixes and longer requests. As
//! with `bdevperf -F`, the hot blocks of Zipf writes lie side by side. Warmed until every block was written twice over,
//! then measured for some seconds. Bytes are counted where they reach the storages: *base* is the device for capacity,
//! *fast* the other; for each byte that the user writes, so where none is they are 0.
//!
//! *Bare memory* is the device for capacity without an engine, which tells how fast this machine is beside theirs.
//!
//! Arguments choose rows by a part of their name: `cargo bench -p thermocline-runtime --bench tier -- zipf`.

mod load;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thermocline_engine::{Config, UnitReport};
use thermocline_format::{Geometry, LogicalBlock, MediaClass, PoolDevice, PoolId};
use thermocline_ftl::placement::Policy;
use thermocline_runtime::storage::{
    Command, Completion, Fault, Joined, Layout, Memory, Storage, Token, Waker,
};
use thermocline_runtime::{Buffer, Driver};
use thermocline_target::BufferPool;
use thermocline_types::{Bytes, Class, Rng, UnitId};
use thermocline_workload::synthetic::zipf::Zipf;

use load::{BLOCK, Load, cpu_time, create};

/// How long a row is measured. Theirs were measured for 12 s.
const MEASURED: Duration = Duration::from_secs(8);

/// Units of 4 MiB: an eighth of SPDK's bands in set-up C.
const UNIT: u64 = 4 << 20;

fn main() {
    let part = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    println!(
        "{:38} {:>11} {:>22} {:>24} {:>13} {:>12}",
        "4 KiB random writes, or as said",
        "thousand/s",
        "base bytes a user byte",
        "destage, relocation",
        "fast",
        "CPU"
    );
    let is_asked_for = |name: &str| part.as_ref().is_none_or(|part| name.contains(part));
    for row in BARE.iter().filter(|row| is_asked_for(row.name)) {
        measure_bare(row);
    }
    for row in ROWS.iter().filter(|row| is_asked_for(row.name)) {
        measure(row);
    }
}

/// One load, and what SPDK's FTL did under it.
struct Row {
    name: &'static str,
    /// MiB of the fast device and of user data. The device for capacity has 6 GiB.
    fast: u64,
    user: u64,
    logical: LogicalBlock,
    depth: usize,
    /// Blocks of a request, and how many of 100 requests read.
    blocks: u64,
    reads: u64,
    /// Whether requests follow each other in the volume.
    sequential: bool,
    /// Whether every block was written twice over at random before, or once in sequence.
    worn: bool,
    /// Exponent of a Zipf distribution; 0 is uniform.
    theta: f64,
    placement: &'static str,
    /// Its thousand requests per second, base and cache bytes for a byte of the user. Measured on its sources at v24.09
    /// on one core, devices in memory.
    theirs: [f64; 3],
}

const C: Row = Row {
    name: "",
    fast: 512,
    user: 4864,
    logical: LogicalBlock::B4096,
    depth: 128,
    blocks: 1,
    reads: 0,
    sequential: false,
    worn: true,
    theta: 0.0,
    placement: "auto",
    theirs: [0.0; 3],
};

/// Sequential requests of 128 KiB.
const LONG: Row = Row { depth: 32, blocks: 32, sequential: true, ..B };

const B: Row = Row { fast: 1280, user: 4813, ..C };

const ROWS: [Row; 17] = [
    Row { name: "C, uniform", theirs: [404.0, 2.55, 1.21], ..C },
    Row { name: "C, zipf 0.8", theta: 0.8, theirs: [468.0, 2.00, 1.15], ..C },
    Row { name: "C, zipf 1.2", theta: 1.2, theirs: [1110.0, 0.461, 1.08], ..C },
    Row { name: "C, uniform, sepgc", placement: "sepgc", theirs: [404.0, 2.55, 1.21], ..C },
    Row {
        name: "C, zipf 0.8, sepgc",
        theta: 0.8,
        placement: "sepgc",
        theirs: [468.0, 2.00, 1.15],
        ..C
    },
    Row {
        name: "C, zipf 1.2, sepgc",
        theta: 1.2,
        placement: "sepgc",
        theirs: [1110.0, 0.461, 1.08],
        ..C
    },
    Row {
        name: "C, uniform, 512 B blocks",
        logical: LogicalBlock::B512,
        theirs: [395.0, 2.47, 1.14],
        ..C
    },
    Row {
        name: "C, uniform, 512 B blocks, depth 1",
        logical: LogicalBlock::B512,
        depth: 1,
        theirs: [407.0, 2.73, 1.16],
        ..C
    },
    Row { name: "B, uniform", theirs: [634.0, 1.50, 1.15], ..B },
    Row { name: "B, uniform, depth 1", depth: 1, theirs: [365.0, 1.94, 2.12], ..B },
    Row { name: "B, 64 KiB, depth 32", depth: 32, blocks: 16, theirs: [68.9, 1.50, 1.03], ..B },
    Row { name: "B, 128 KiB in sequence", worn: false, theirs: [54.6, 1.019, 1.012], ..LONG },
    Row { name: "B, the same after random writes", theirs: [32.7, 1.83, 1.02], ..LONG },
    Row { name: "B, 70 % reads", reads: 70, theirs: [802.0, 2.09, 1.96], ..B },
    Row { name: "B, reads", reads: 100, theirs: [926.0, 0.0, 0.0], ..B },
    Row { name: "B, reads, depth 1", depth: 1, reads: 100, theirs: [917.0, 0.0, 0.0], ..B },
    Row { name: "B, reads of 128 KiB in sequence", reads: 100, theirs: [195.0, 0.0, 0.0], ..LONG },
];

/// Loads of memory without an engine.
const BARE: [Row; 4] = [
    Row { name: "bare memory", theirs: [2230.0, 1.0, 0.0], ..B },
    Row { name: "bare memory, reads", reads: 100, theirs: [1490.0, 0.0, 0.0], ..B },
    Row { name: "bare memory, 128 KiB in sequence", theirs: [271.0, 1.0, 0.0], ..LONG },
    Row { name: "bare memory, reads of 128 KiB", reads: 100, theirs: [0.0; 3], ..LONG },
];

fn measure_bare(row: &Row) {
    let per_unit = (UNIT / row.logical.bytes() as u64) as u32;
    let units = ((6 << 30) / UNIT) as u32;
    let mut memory = Memory::new(Layout::contiguous(row.logical, per_unit, units)).with_all_units();
    let size = row.blocks as usize * BLOCK;
    let (mut rng, mut next, places) = (Rng::new(1), 0, (row.user << 20) / size as u64);
    let buffers = BufferPool::new(256 << 20);
    let mut step = |memory: &mut Memory, done: &mut Vec<Completion>| {
        for _ in 0..row.depth {
            next = if row.sequential { (next + 1) % places } else { rng.below(places) };
            let (at, buffer) = (Bytes(next * size as u64), Buffer::new(buffers.take(size)));
            let command = match row.reads {
                0 => Command::Write { at, parts: vec![buffer], class: Class(0) },
                _ => Command::read(at, buffer),
            };
            memory.submit(Token(next), command);
        }
        memory.reap(None, done);
        done.clear();
    };
    let (began, cpu, mut count, mut done) = (Instant::now(), cpu_time(), 0_u64, Vec::new());
    while began.elapsed() < MEASURED {
        step(&mut memory, &mut done);
        count += row.depth as u64;
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), (cpu_time() - cpu).as_secs_f64());
    let (rate, each) = (count as f64 / took / 1e3, cpu * 1e9 / count as f64);
    println!("{:38} {rate:>5.0} ({:>4.0}) {each:>79.0} ns", row.name, row.theirs[0]);
}

fn measure(row: &Row) {
    let (base, fast) = (Counter::default(), Counter::default());
    let mut driver = pool(row, &base, &fast);
    let blocks = (row.user << 20) / BLOCK as u64;
    let volume = create(&mut driver, blocks);
    let mut load = Load::new(volume, row.depth);
    load.run(&mut driver, blocks / 16, 16, |index| index * 16);
    let (mut rng, zipf) = (Rng::new(1), Zipf::new(blocks, row.theta));
    if row.worn {
        load.run(&mut driver, 2 * blocks, 1, |_| zipf.sample(&mut rng));
    }
    let places = blocks / row.blocks;
    let mut next = 0;
    let mut place = |_| {
        let one = if row.sequential { next } else { zipf.sample(&mut rng) / row.blocks };
        next = (next + 1) % places;
        one.min(places - 1) * row.blocks
    };
    let (base_before, fast_before) = (base.load(Ordering::Relaxed), fast.load(Ordering::Relaxed));
    let before = *driver.engine().stats();
    let step = 102_400 / row.blocks;
    let (began, cpu, mut count) = (Instant::now(), cpu_time(), 0_u64);
    while began.elapsed() < MEASURED {
        load.run_mix(&mut driver, step, row.blocks, |index| index % 100 < row.reads, &mut place);
        count += step;
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), (cpu_time() - cpu).as_secs_f64());
    let after = driver.engine().stats();
    let written = count * (100 - row.reads) / 100 * row.blocks;
    let per_write =
        |bytes: u64| if written > 0 { bytes as f64 / (written * BLOCK as u64) as f64 } else { 0.0 };
    let copied = |after: u64, before: u64| per_write((after - before) * BLOCK as u64);
    let [rate, base_theirs, fast_theirs] = row.theirs;
    println!(
        "{:38} {:>5.0} ({rate:>4.0}) {:>14.3} ({base_theirs:>5.3}) {:>13.3}, {:>8.3} {:>6.3} ({fast_theirs:.2}) {:>9.0} ns",
        row.name,
        count as f64 / took / 1e3,
        per_write(base.load(Ordering::Relaxed) - base_before),
        copied(after.destaged_blocks, before.destaged_blocks),
        copied(after.relocated_blocks, before.relocated_blocks),
        per_write(fast.load(Ordering::Relaxed) - fast_before),
        cpu * 1e9 / count as f64,
    );
}

/// A pool over two devices in memory, whose writes are counted.
fn pool(row: &Row, base: &Counter, fast: &Counter) -> Driver<Joined> {
    let per_unit = (UNIT / row.logical.bytes() as u64) as u32;
    let device = |media, mib: u64, first: u32| {
        let units = ((mib << 20) / UNIT) as u32;
        PoolDevice::new(media, units, [UnitId(first), UnitId(first + 1)])
    };
    let capacity = device(MediaClass::Capacity, 6 << 10, 0);
    let quick = device(MediaClass::Fast, row.fast, capacity.units);
    let geometry = Geometry::of_devices(row.logical, per_unit, &[capacity, quick]);
    let mut config = Config::new(geometry.expect("a sound pool"));
    config.write_cache = false;
    config.placement = row.placement.parse::<Policy>().expect("it is listed");
    let storage = |units: u32, counter: &Counter| -> (Option<Box<dyn Storage>>, u32) {
        let memory = Memory::new(Layout::contiguous(row.logical, per_unit, units)).with_all_units();
        (Some(Box::new(Counted { memory, bytes: Arc::clone(counter) })), units)
    };
    let parts = vec![storage(capacity.units, base), storage(quick.units, fast)];
    Driver::format(config, PoolId([1; 16]), Joined::new(parts)).expect("room")
}

/// Bytes written to a storage.
type Counter = Arc<AtomicU64>;

/// Memory that counts what is written to it.
struct Counted {
    memory: Memory,
    bytes: Counter,
}

impl Storage for Counted {
    fn layout(&self) -> &Layout {
        self.memory.layout()
    }

    fn submit(&mut self, token: Token, command: Command) {
        if let Command::Write { parts, .. } = &command {
            let bytes: usize = parts.iter().map(thermocline_runtime::Buffer::len).sum();
            self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        self.memory.submit(token, command);
    }

    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        self.memory.reap(wait, done);
    }

    fn waker(&self) -> Waker {
        self.memory.waker()
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.memory.descriptors(into);
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        self.memory.report()
    }
}
