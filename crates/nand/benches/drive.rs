//! Host writes per second through whole drives: 4 KiB uniform random overwrites of a full one, with and without time.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thermocline_nand::Drive;
use thermocline_nand::profile::{Profile, builtin};
use thermocline_types::{Bytes, Op, Request, Rng, StreamId, TenantId, Time};

const BATCH: usize = 256;
/// Exported so that 8 M blocks of media lie behind it at a spare share of 21.9 %.
const CAPACITY: Bytes = Bytes(((8 << 20) as f64 * 0.781) as u64 * 4096);
/// Requests in flight on the timed drives.
const DEPTH: usize = 32;

fn write(block: u64) -> Request {
    Request {
        at: Time::ZERO,
        offset: Bytes(block * 4096),
        length: Bytes::BLOCK,
        tenant: TenantId(0),
        stream: StreamId::UNKNOWN,
        op: Op::Write,
        outstanding: None,
    }
}

fn drives(c: &mut Criterion) {
    let mut group = c.benchmark_group("4 KiB overwrite, 8 M blocks, 21.9 % spare");
    group.throughput(Throughput::Elements(BATCH as u64));
    for (name, device) in [("ideal, untimed", "ideal"), ("pm9d3, timed", "pm9d3")] {
        let overrides = [("op".to_owned(), "0.2804".to_owned())];
        let text = builtin(device).expect("built in");
        let profile = Profile::with_overrides(device, text, &overrides).expect("a valid profile");
        let mut drive = Drive::new(&profile, Some(CAPACITY), 1).expect("it fits");
        let blocks = drive.cut().shape.exported();
        let mut rng = Rng::new(1);
        let mut in_flight = [Time::ZERO; DEPTH];
        let mut turn = 0;
        let mut serve = |batch: &[Request]| {
            drive.prefetch(batch);
            for request in batch {
                let at = in_flight[turn % DEPTH].max(in_flight[(turn + DEPTH - 1) % DEPTH]);
                in_flight[turn % DEPTH] = drive.submit(at, request, 0).expect("in range");
                turn += 1;
            }
        };
        let fill: Vec<Request> = (0..blocks).map(write).collect();
        fill.chunks(BATCH).for_each(&mut serve);
        let mut random = || std::array::from_fn::<_, BATCH, _>(|_| write(rng.below(blocks)));
        (0..2 * blocks / BATCH as u64).for_each(|_| serve(&random()));
        group.bench_function(name, |b| b.iter(|| serve(&random())));
    }
    group.finish();
}

criterion_group!(benches, drives);
criterion_main!(benches);
