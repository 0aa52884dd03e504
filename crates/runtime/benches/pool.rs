//! A whole pool under random writes of 4 KiB, engine and load on one thread; and how long it takes to open one.
//!
//! `writes`: 128 writes in flight, uniform, on memory and on a file in `THERMOCLINE_BENCH_DIR` (a file system in
//! memory, best), both 6 GiB with 4.7 GiB written over and over, as the SPDK FTL was measured. Prints requests per
//! second, CPU time per write of all threads and the kernel, and ALWA (device bytes per host byte).
//!
//! `recovery GIB`: a file of that much live data, cut off as by a crash with a full tail; prints the time until
//! requests are taken, the first read is answered and the map is loaded.
//!
//! Arguments choose: `cargo bench -p thermocline-runtime --bench pool -- writes`, `-- recovery 10`. None: `writes`.
//! After `writes`, a part of their names chooses rows: `-- writes "memory, no cache, 7"`.

mod load;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thermocline_engine::{Config, Extent, HostRequest};
use thermocline_format::{Geometry, LogicalBlock, PoolId};
use thermocline_runtime::storage::{File, IoEngine, Layout, Memory, Options, Storage};
use thermocline_runtime::{Buffer, Driver};
use thermocline_types::{Rng, UnitId};

use load::{BLOCK, Load, cpu_time, create};

const DEPTH: usize = 128;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    match arguments.next().as_deref() {
        Some("recovery") => {
            let gib = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1);
            recovery(gib);
        }
        _ => writes(&arguments.next().unwrap_or_default()),
    }
}

fn folder() -> PathBuf {
    std::env::var_os("THERMOCLINE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from)
}

/// A pool of `units` units of `unit` bytes.
fn config(block: LogicalBlock, unit: u64, units: u32) -> Config {
    let per_unit = (unit / block.bytes() as u64) as u32;
    let geometry = Geometry::new(block, per_unit, units, [UnitId(0), UnitId(1)]);
    let mut config = Config::new(geometry.expect("a sound pool"));
    config.write_depth = 1;
    config
}

fn layout(config: &Config) -> Layout {
    let geometry = &config.geometry;
    Layout::contiguous(geometry.logical_block(), geometry.blocks_per_unit(), geometry.units())
}

/// Measures the rows whose names have `part` in them.
fn writes(part: &str) {
    for (block, units) in
        [(LogicalBlock::B4096, 464), (LogicalBlock::B4096, 384), (LogicalBlock::B512, 464)]
    {
        let mut config = config(block, 16 << 20, units);
        let size = f64::from(units) / 64.0;
        let named = |kind: &str| {
            let name = format!("{kind}, {size} GiB, blocks of {}", block.bytes());
            name.contains(part).then_some(name)
        };
        for (kind, cache) in [("memory", true), ("memory, no cache", false)] {
            config.write_cache = cache;
            if let Some(name) = named(kind) {
                measure(&name, &config, Memory::new(layout(&config)).with_all_units());
            }
        }
        config.write_cache = true;
        if let Some(name) = named("file") {
            let path = folder().join(format!("thermocline-pool-{}", std::process::id()));
            let options = Options { engine: IoEngine::Auto, ..Options::default() };
            let file =
                File::open(&path, true, layout(&config), &options).expect("a file can be made");
            // It lives as long as it is open, however this ends.
            remove(&path);
            measure(&format!("{name}, {}", file.engine()), &config, file);
        }
    }
}

fn measure<S: Storage>(name: &str, config: &Config, storage: S) {
    let blocks = (47 << 30) / 10 / BLOCK as u64;
    let mut driver = Driver::format(config.clone(), PoolId([1; 16]), storage).expect("room");
    let volume = create(&mut driver, blocks);
    let mut load = Load::new(volume, DEPTH);
    load.run(&mut driver, blocks / 16, 16, |index| index * 16);
    let mut rng = Rng::new(1);
    // Until garbage collection is at work everywhere.
    load.run(&mut driver, blocks, 1, |_| rng.below(blocks));
    let before = *driver.engine().stats();
    let (began, cpu) = (Instant::now(), cpu_time());
    let mut count = 0;
    while began.elapsed() < Duration::from_secs(5) {
        load.run(&mut driver, 100_000, 1, |_| rng.below(blocks));
        count += 100_000;
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), (cpu_time() - cpu).as_secs_f64());
    let after = driver.engine().stats();
    let per_write = |bytes: u64| bytes as f64 / f64::from(count) / BLOCK as f64;
    let device = per_write(after.device_bytes_written() - before.device_bytes_written());
    println!(
        "{name:46} {:>5.0} k writes/s {:>5.0} ns CPU each, ALWA {device:.2} \
         (relocated {:.2}, map {:.2}, headers {:.2}), {:.0} blocks per chunk",
        f64::from(count) / took / 1e3,
        cpu * 1e9 / f64::from(count),
        per_write((after.relocated_blocks - before.relocated_blocks) * BLOCK as u64),
        per_write((after.map_pages_written - before.map_pages_written) * BLOCK as u64),
        per_write(after.header_bytes - before.header_bytes),
        device * f64::from(count) / (after.chunks - before.chunks) as f64,
    );
}

fn recovery(gib: u64) {
    let unit = (gib << 30 >> 9).next_power_of_two().clamp(1 << 20, 256 << 20);
    let units = ((gib << 30) * 5 / 4 / unit) as u32 + 16;
    let config = config(LogicalBlock::B4096, unit, units);
    let blocks = (gib << 30) / BLOCK as u64;
    let path = folder().join(format!("thermocline-recovery-{}", std::process::id()));
    let open = || {
        File::open(&path, true, layout(&config), &Options::default()).expect("a file can be made")
    };
    let mut driver = Driver::format(config.clone(), PoolId([1; 16]), open()).expect("room");
    let volume = create(&mut driver, blocks);
    let mut load = Load::new(volume, 64);
    load.run(&mut driver, blocks / 64, 64, |index| index * 64);
    // A tail as long as it gets: from one checkpoint until just before the next.
    let mut rng = Rng::new(1);
    let mut until_checkpoint = |driver: &mut Driver<File>, load: &mut Load| {
        let (before, mut writes) = (driver.engine().stats().checkpoints, 0);
        while driver.engine().stats().checkpoints == before {
            load.run(driver, 1000, 1, |_| rng.below(blocks));
            writes += 1000;
        }
        writes
    };
    until_checkpoint(&mut driver, &mut load);
    let interval = until_checkpoint(&mut driver, &mut load);
    let mut rng = Rng::new(2);
    load.run(&mut driver, interval * 9 / 10, 1, |_| rng.below(blocks));
    // Dropped as it is: what was written is in the file, no checkpoint is made.
    drop(driver);
    let storage = open();
    let began = Instant::now();
    let mut driver = Driver::open(config.clone(), storage).expect("it recovers");
    let opened = began.elapsed();
    let into = Buffer::new(thermocline_target::Buffer::zeroed(BLOCK));
    let extent = Extent { volume, lba: blocks / 2, blocks: 1 };
    driver.carry_out(HostRequest::Read { extent, into }).expect("it reads");
    let read = began.elapsed();
    let notices = format!("{:?}", driver.notices().first());
    assert!(driver.load_map(), "the map is whole");
    println!(
        "{gib} GiB live, checkpoint every {} MiB: requests taken after {:.0} ms, first read {:.0} ms, \
         map loaded {:.0} ms; {notices}",
        config.checkpoint_bytes >> 20,
        opened.as_secs_f64() * 1e3,
        read.as_secs_f64() * 1e3,
        began.elapsed().as_secs_f64() * 1e3,
    );
    remove(&path);
}

fn remove(path: &Path) {
    std::fs::remove_file(path).expect("the file was made");
}
