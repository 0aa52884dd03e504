//! Host writes per second through map, units and garbage collection: uniform random overwrites of a full device.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thermocline_ftl::placement::Nothing;
use thermocline_ftl::victim::Victim;
use thermocline_ftl::{Ftl, NoMedia, Shape};
use thermocline_types::{Lba, Rng};

const BATCH: usize = 256;

fn overwrite(c: &mut Criterion) {
    let mut group = c.benchmark_group("uniform overwrite, 21.9 % spare");
    for (blocks, per_unit) in [(1_u64 << 20, 256_u32), (1 << 23, 256)] {
        let exported = (blocks as f64 * 0.781) as u64;
        let shape = Shape::new(exported, (blocks / u64::from(per_unit)) as u32, per_unit);
        let shape = shape.expect("a valid shape");
        let mut ftl = Ftl::new(shape, Nothing, Victim::Greedy, 1).expect("spare units");
        let mut rng = Rng::new(1);
        for lba in 0..exported {
            ftl.write(Lba(lba), 0, &mut NoMedia).expect("nothing wears out");
        }
        for _ in 0..2 * exported {
            ftl.write(Lba(rng.below(exported)), 0, &mut NoMedia).expect("nothing wears out");
        }
        group.throughput(Throughput::Elements(BATCH as u64));
        let name = format!(
            "{} M blocks, {:.2} B each",
            blocks >> 20,
            ftl.memory_bytes() as f64 / blocks as f64
        );
        let mut batch = [Lba(0); BATCH];
        group.bench_function(name, |b| {
            b.iter(|| {
                for lba in &mut batch {
                    *lba = Lba(rng.below(exported));
                    ftl.prefetch(*lba);
                }
                for &lba in &batch {
                    ftl.write(lba, 0, &mut NoMedia).expect("nothing wears out");
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, overwrite);
criterion_main!(benches);
