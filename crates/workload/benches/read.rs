//! How fast traces are read, in bytes of text per second on one core.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::fmt::Write as _;
use std::io::Cursor;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thermocline_types::Rng;
use thermocline_workload::Source;
use thermocline_workload::profile::Profile;
use thermocline_workload::remap::AddressMap;
use thermocline_workload::trace::{Options, Trace};

/// Shared bytes as a reader without copying them.
#[derive(Clone)]
struct Text(Arc<Vec<u8>>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

const TEXT_BYTES: usize = 64 << 20;

/// A csv as applications leave behind: mostly writes of 4 to 128 KiB, some flushes and trims, over 64 GiB.
fn own_csv() -> Text {
    let mut rng = Rng::new(1);
    let mut text = String::with_capacity(TEXT_BYTES + 64);
    text.push_str("timestamp_us,op,offset_bytes,length_bytes\n");
    let mut micros = 0;
    while text.len() < TEXT_BYTES {
        micros += rng.below(2_000);
        let offset = rng.below(1 << 24) * 4096;
        let length = (1 + rng.below(32)) * 4096;
        let line = match rng.below(20) {
            0 => writeln!(text, "{micros},F,0,0"),
            1 => writeln!(text, "{micros},D,{offset},{length}"),
            _ => writeln!(text, "{micros},W,{offset},{length}"),
        };
        line.expect("a string takes any text");
    }
    Text(Arc::new(text.into_bytes()))
}

/// A cloud trace with a thousand volumes.
fn alibaba() -> Text {
    let mut rng = Rng::new(2);
    let mut text = String::with_capacity(TEXT_BYTES + 64);
    let mut micros = 1_577_808_002_000_129_u64;
    while text.len() < TEXT_BYTES {
        micros += rng.below(50);
        let (device, offset) = (rng.below(1_000), rng.below(1 << 26) * 4096);
        let length = (1 + rng.below(32)) * 4096;
        let op = if rng.below(4) == 0 { 'R' } else { 'W' };
        writeln!(text, "{device},{op},{offset},{length},{micros}")
            .expect("a string takes any text");
    }
    Text(Arc::new(text.into_bytes()))
}

/// blkparse output, one line in three an issue event.
fn blkparse() -> Text {
    let mut rng = Rng::new(3);
    let mut text = String::with_capacity(TEXT_BYTES + 64);
    for sequence in 1.. {
        if text.len() >= TEXT_BYTES {
            break;
        }
        let (sector, action) = (rng.below(1 << 30) * 8, ["Q", "D", "C"][sequence % 3]);
        let (seconds, nanos) = (sequence / 1000, sequence % 1000 * 1_000_000);
        writeln!(
            text,
            "  8,0    1 {sequence:8} {seconds:5}.{nanos:09}  697  {action}  WS {sector} + 8 [postgres]"
        )
        .expect("a string takes any text");
    }
    Text(Arc::new(text.into_bytes()))
}

fn open(text: &Text) -> Trace {
    Trace::from_reader("bench", Cursor::new(text.clone()), &Options::default())
        .expect("the text is a trace")
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read");
    group.sample_size(10);
    for (name, text) in [("own-csv", own_csv()), ("alibaba", alibaba()), ("blkparse", blkparse())] {
        group.throughput(Throughput::Bytes(text.0.len() as u64));
        group.bench_function(name, |bencher| {
            let mut batch = Vec::new();
            bencher.iter(|| {
                let (mut trace, mut count) = (open(&text), 0);
                loop {
                    trace.fill(&mut batch).expect("every line is good");
                    count += batch.len();
                    if batch.is_empty() {
                        return count;
                    }
                }
            });
        });
    }
    // The worst case: first touches of 64 GiB in random order.
    let text = own_csv();
    group.throughput(Throughput::Bytes(text.0.len() as u64));
    group.bench_function("own-csv, scan for the dense map", |bencher| {
        bencher.iter(|| {
            let granule = thermocline_types::Bytes::BLOCK;
            let mut map = AddressMap::dense(granule).expect("4 KiB is allowed");
            map.scan(&mut open(&text)).expect("every line is good")
        });
    });
    group.bench_function("own-csv, profile", |bencher| {
        bencher.iter(|| Profile::of(&mut open(&text)).expect("every line is good"));
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
