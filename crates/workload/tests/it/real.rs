//! The traces that ship with the project.

use std::path::PathBuf;

use thermocline_types::Op;
use thermocline_workload::trace::{BUILT_IN, Format, Options, open};

use crate::drain;

fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

#[test]
fn the_totals_are_those_of_the_capture() {
    // Requests and bytes of writes, trims and flushes, as the captured files add up.
    let cases = [
        ("postgres-tpcc.csv.gz", [(106_460, 5_843_267_584), (133, 3_224_231_936), (18_374, 0)]),
        ("rocksdb-overwrite.csv.gz", [(14_449, 6_149_033_984), (734, 35_942_469_632), (1_533, 0)]),
        ("cassandra-ycsb-a.csv.gz", [(4_487, 1_096_499_200), (273, 4_803_362_816), (2_208, 0)]),
        ("memcached-extstore.csv.gz", [(2_331, 1_479_372_800), (11, 825_888_768), (49, 0)]),
        ("restic-backup.csv.gz", [(7_967, 3_770_933_248), (516, 7_566_938_112), (1_721, 0)]),
        ("rocksdb-tiers.csv.gz", [(14_917, 7_874_744_320), (626, 15_868_993_536), (2_111, 0)]),
    ];
    for (name, totals) in cases {
        let mut trace = open(testdata(name), &Options::default()).unwrap();
        assert_eq!(trace.format(), Format::ThermoclineCsv);
        let requests = drain(&mut trace).unwrap();
        for (op, total) in [Op::Write, Op::Trim, Op::Flush].into_iter().zip(totals) {
            let chosen = requests.iter().filter(|r| r.op == op);
            let sum = chosen.fold((0, 0), |(n, bytes), r| (n + 1, bytes + r.length.get()));
            assert_eq!(sum, total, "{name} {op:?}");
        }
        // In two, threads came to the recorder once in another order than to the clock.
        assert!(trace.skipped() == 0 && trace.reordered() <= 1, "{name}");
        let volumes: &[&str] = match name {
            "memcached-extstore.csv.gz" | "restic-backup.csv.gz" => &["main"],
            "rocksdb-tiers.csv.gz" => &["main", "fast"],
            _ => &[name],
        };
        assert_eq!(trace.volumes(), volumes);
    }
}

#[test]
fn they_come_with_the_program_by_name() {
    for trace in BUILT_IN {
        let read = |path: PathBuf| drain(&mut open(path, &Options::default()).unwrap()).unwrap();
        let file = read(testdata(&format!("{}.csv.gz", trace.name)));
        assert!(read(trace.name.into()) == file, "{}", trace.name);
        let here = open(format!("./{}", trace.name), &Options::default()).map(drop).unwrap_err();
        assert!(here.to_string().contains("cannot open"), "a path is a file: {here}");
    }
}
