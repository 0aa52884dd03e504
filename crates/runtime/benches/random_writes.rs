//! Random writes of 4 KiB, 128 in flight, straight to a storage: memory, and a file through io_uring and threads.
//!
//! The file is made where `THERMOCLINE_BENCH_DIR` says, else in the directory for temporary files. Prints writes per
//! second and CPU time per write, that of the kernel and of all threads included.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use thermocline_format::LogicalBlock;
use thermocline_runtime::Buffer;
use thermocline_runtime::storage::{
    Command, File, IoEngine, Layout, Memory, Options, Storage, Token,
};
use thermocline_target::BufferPool;
use thermocline_types::{Bytes, Class, Rng};

const DEPTH: u64 = 128;
const BLOCK: u64 = 4096;

fn main() {
    let layout = Layout::contiguous(LogicalBlock::B4096, 4096, 64);
    measure("memory", &mut Memory::new(layout));
    let directory = std::env::var_os("THERMOCLINE_BENCH_DIR").map(PathBuf::from);
    let directory = directory.unwrap_or_else(std::env::temp_dir);
    for (direct, engine, threads) in [
        (false, IoEngine::Uring, 0),
        (false, IoEngine::Threads, 1),
        (false, IoEngine::Threads, 4),
        (false, IoEngine::Threads, 16),
        (true, IoEngine::Uring, 0),
        (true, IoEngine::Threads, 16),
    ] {
        let path = directory.join(format!("thermocline-bench-{}", std::process::id()));
        let options = Options { engine, threads, direct: Some(direct), ..Options::default() };
        let name = format!("file, {engine:?}, {threads} threads, direct {direct}");
        match File::open(&path, true, layout, &options) {
            Ok(mut file) => measure(&name, &mut file),
            Err(error) => println!("{name:44} SKIPPED: {error}"),
        }
        std::fs::remove_file(&path).expect("the file was made");
    }
}

fn measure(name: &str, storage: &mut dyn Storage) {
    // Once in order, so that all space is there.
    let blocks = storage.layout().size().0 / BLOCK;
    writes(storage, blocks, |index| index);
    let mut rng = Rng::new(1);
    let (began, cpu) = (Instant::now(), cpu_time());
    let mut count = 0;
    while began.elapsed() < Duration::from_secs(2) {
        writes(storage, 100_000, |_| rng.below(blocks));
        count += 100_000;
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), (cpu_time() - cpu).as_secs_f64());
    let (rate, each) = (f64::from(count) / took, cpu * 1e9 / f64::from(count));
    println!("{name:44} {:>8.0} k writes/s {each:>8.0} ns CPU per write", rate / 1e3);
}

/// Writes `count` blocks, the places of which `place` tells.
fn writes(storage: &mut dyn Storage, count: u64, mut place: impl FnMut(u64) -> u64) {
    let pool = BufferPool::new(1 << 20);
    let (mut begun, mut complete) = (0, 0);
    let mut done = Vec::new();
    while complete < count {
        while begun < count && begun - complete < DEPTH {
            let parts = vec![Buffer::new(pool.take(BLOCK as usize))];
            storage.submit(
                Token(begun),
                Command::Write { at: Bytes(place(begun) * BLOCK), parts, class: Class(0) },
            );
            begun += 1;
        }
        storage.reap(None, &mut done);
        for completion in done.drain(..) {
            completion.result.expect("the device takes writes");
            complete += 1;
        }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
