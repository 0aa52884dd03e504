//! What recorders of Linux print in unusual situations: small samples, each with the requests that are right.

use std::collections::BTreeMap;
use std::path::PathBuf;

use thermocline_types::{Op, Request};
use thermocline_workload::trace::{ErrorKind, Format, Options, Trace, open};

use crate::drain;

fn sample(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name)
}

/// The requests of a sample, and the trace, which is read to its end.
fn read(name: &str, options: &Options) -> (Vec<Request>, Trace) {
    let mut trace = open(sample(name), options).unwrap_or_else(|error| panic!("{error}"));
    let requests = drain(&mut trace).unwrap_or_else(|error| panic!("{error}"));
    (requests, trace)
}

/// Requests and their bytes by operation.
fn totals(requests: &[Request]) -> Vec<(Op, u64, u64)> {
    let mut totals: BTreeMap<u8, (Op, u64, u64)> = BTreeMap::new();
    for request in requests {
        let total = totals.entry(request.op as u8).or_insert((request.op, 0, 0));
        total.1 += 1;
        total.2 += request.length.get();
    }
    totals.into_values().collect()
}

fn text(name: &str) -> Vec<u8> {
    std::fs::read(sample(name)).unwrap()
}

const FLUSH: Op = Op::Flush;
const READ: Op = Op::Read;
const TRIM: Op = Op::Trim;
const WRITE: Op = Op::Write;

/// A sample, its format, its volumes, and what adds up.
type Case = (&'static str, Format, &'static [&'static str], &'static [(Op, u64, u64)]);

const CASES: [Case; 24] = [
    ("biosnoop-columns.txt", Format::Biosnoop, &["vdb"], &[(READ, 1, 4096), (WRITE, 2, 278_528)]),
    ("biosnoop-health.txt", Format::Biosnoop, &["nvme0n1"], &[(WRITE, 2, 8192), (FLUSH, 2, 0)]),
    ("biosnoop-lost.txt", Format::Biosnoop, &["vda"], &[(WRITE, 2, 8192)]),
    (
        "biosnoop-negative.txt",
        Format::Biosnoop,
        &["nvme0n1"],
        &[(WRITE, 1, 4096), (TRIM, 2, 4_294_966_784 + 2_147_483_648)],
    ),
    ("biosnoop-untorn.txt", Format::Biosnoop, &["nvme0n1"], &[(WRITE, 2, 32768), (FLUSH, 1, 0)]),
    (
        "biosnoop-without-disk.txt",
        Format::Biosnoop,
        &["biosnoop-without-disk.txt", "vdb"],
        &[(READ, 1, 8192), (WRITE, 2, 8192)],
    ),
    ("blkparse-appends.txt", Format::Blkparse, &["259,1"], &[(WRITE, 5, 36864)]),
    ("blkparse-bio-based.txt", Format::Blkparse, &["8,0"], &[(WRITE, 5, 20480)]),
    ("blkparse-discards.txt", Format::Blkparse, &["259,0"], &[(WRITE, 2, 16384), (TRIM, 2, 8192)]),
    ("blkparse-joined.txt", Format::Blkparse, &["8,0", "8,16"], &[(WRITE, 5, 20480)]),
    ("blkparse-requeued.txt", Format::Blkparse, &["8,0"], &[(WRITE, 3, 12288), (FLUSH, 1, 0)]),
    ("blkparse-stacked.txt", Format::Blkparse, &["8,0"], &[(WRITE, 6, 24576)]),
    ("blkparse-untorn.txt", Format::Blkparse, &["259,0"], &[(WRITE, 2, 32768), (FLUSH, 1, 0)]),
    (
        "cloudphysics-seconds.csv",
        Format::CloudPhysicsCsv,
        &["cloudphysics-seconds.csv"],
        &[(READ, 1, 4096), (WRITE, 3, 8704)],
    ),
    (
        "fio-log.txt",
        Format::FioLog,
        &["fio-log.txt"],
        &[(READ, 1, 4096), (WRITE, 2, 12288), (TRIM, 1, 1 << 20)],
    ),
    ("fiu.txt", Format::Fiu, &["6,0", "8,17"], &[(READ, 1, 8192), (WRITE, 2, 8192)]),
    ("ftrace-appends.txt", Format::Ftrace, &["259,1"], &[(WRITE, 5, 36864)]),
    ("ftrace-discards.txt", Format::Ftrace, &["259,0"], &[(WRITE, 2, 16384), (TRIM, 2, 8192)]),
    ("ftrace-requeued.txt", Format::Ftrace, &["8,0"], &[(WRITE, 3, 12288), (FLUSH, 1, 0)]),
    ("ftrace-stacked.txt", Format::Ftrace, &["8,0"], &[(WRITE, 6, 24576)]),
    ("ftrace-untorn.txt", Format::Ftrace, &["259,0"], &[(WRITE, 2, 32768), (FLUSH, 1, 0)]),
    (
        "iosnoop.txt",
        Format::Biosnoop,
        &["202,1", "202,16"],
        &[(READ, 1, 4096), (WRITE, 2, 12288), (FLUSH, 1, 0)],
    ),
    (
        "perf-trace.txt",
        Format::Ftrace,
        &["254,0", "8,16"],
        &[(READ, 1, 8192), (WRITE, 2, 28672), (FLUSH, 1, 0)],
    ),
    ("perf-trace-old.txt", Format::Ftrace, &["8,0"], &[(WRITE, 1, 4096), (TRIM, 1, 8192)]),
];

#[test]
fn each_sample_is_recognised_and_adds_up() {
    for (name, format, volumes, expected) in CASES {
        let (requests, trace) = read(name, &Options::default());
        assert_eq!(trace.format(), format, "{name}");
        assert_eq!(trace.volumes(), volumes, "{name}");
        let mut expected = expected.to_vec();
        expected.sort_by_key(|(op, ..)| *op as u8);
        assert_eq!(totals(&requests), expected, "{name}");
    }
}

/// First sectors of what is asked of an operation.
fn sectors(requests: &[Request], op: Op) -> Vec<u64> {
    let asked = requests.iter().filter(|request| request.op == op);
    asked.map(|request| request.offset.get() / 512).collect()
}

#[test]
fn appends_are_where_their_completions_say() {
    for name in ["ftrace-appends.txt", "blkparse-appends.txt"] {
        let (requests, trace) = read(name, &Options::default());
        let places = sectors(&requests, WRITE);
        assert_eq!(places, [524_288, 524_304, 524_320, 524_336, 8], "{name}");
        assert_eq!(trace.notes(), [""; 0], "{name}");
    }
    let mut trace = open(sample("ftrace-appends-issued.txt"), &Options::default()).unwrap();
    let error = drain(&mut trace).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unusable);
    let wanted = "4 zone appends to 259,1 were left out: only completions say where they wrote";
    assert!(error.to_string().contains(wanted), "{error}");
}

#[test]
fn discards_that_the_kernel_joined_are_those_that_were_queued() {
    for name in ["ftrace-discards.txt", "blkparse-discards.txt"] {
        let (requests, _) = read(name, &Options::default());
        assert_eq!(sectors(&requests, TRIM), [1000, 5000], "{name}");
        assert!(requests.iter().all(|request| request.op != TRIM || request.length.get() == 4096));
    }
}

#[test]
fn what_stands_above_other_devices_is_left_out_told_and_read_by_name() {
    for (name, count, why) in [
        ("blkparse-stacked.txt", 6, "they went to 8,0"),
        ("ftrace-stacked.txt", 6, "they went to 8,0"),
        ("blkparse-bio-based.txt", 5, "it has no issue events and other devices have"),
    ] {
        let (requests, trace) = read(name, &Options::default());
        let lowest = if count == 5 { 2148 } else { requests[0].offset.get() / 512 };
        assert!(lowest > 2048, "of the disk");
        let told = format!("{count} requests of 253,0 were left out: {why}");
        assert!(trace.notes()[0].starts_with(&told), "{name}: {:?}", trace.notes());
        let (requests, trace) =
            read(name, &Options { volume: Some("253,0".into()), ..Options::default() });
        assert_eq!((requests.len(), trace.volumes()), (count, &["253,0".to_owned()][..]), "{name}");
        assert!(requests.iter().all(|request| request.offset.get() / 512 < 1100), "{name}");
        assert_eq!(trace.notes(), [""; 0], "{name}");
    }
}

#[test]
fn losses_are_told_whoever_tells_of_them() {
    for (name, lost) in [("blkparse-joined.txt", 1234), ("biosnoop-lost.txt", 64 + 12 + 7)] {
        let (_, trace) = read(name, &Options::default());
        assert_eq!(trace.lost(), lost, "{name}");
        let told = format!("{lost} events or more were lost when the trace was recorded");
        assert!(trace.notes()[0].starts_with(&told), "{:?}", trace.notes());
    }
}

#[test]
fn lengths_that_are_all_zero_are_no_flushes() {
    let mut trace = open(sample("biosnoop-without-lengths.txt"), &Options::default()).unwrap();
    let error = drain(&mut trace).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unusable);
    assert!(error.to_string().contains("all 2 reads and writes are of no bytes"), "{error}");
    assert!(error.to_string().contains("perf record -e block:block_rq_issue"), "{error}");
}

#[test]
fn a_clock_of_which_the_unit_is_not_known_is_told() {
    let (requests, trace) = read("cloudphysics-seconds.csv", &Options::default());
    let seconds: Vec<f64> = requests.iter().map(|request| request.at.as_secs_f64()).collect();
    assert_eq!(seconds, [0.0, 0.5, 60.0, 3600.0]);
    let told = "it was read as seconds, so that it lasts 3600 s";
    assert!(trace.notes()[0].contains(told), "{:?}", trace.notes());
    let own = |text: &[u8]| {
        let reader = std::io::Cursor::new(text.to_vec());
        let mut trace = Trace::from_reader("sample", reader, &Options::default()).unwrap();
        drain(&mut trace).unwrap();
        trace.notes()
    };
    let lines = "0,W,0,4096\n2500000,W,0,4096\n";
    assert!(
        own(lines.as_bytes())[0].contains("it was read as microseconds, so that it lasts 2.5 s")
    );
    let header = "timestamp_us,op,offset_bytes,length_bytes\n";
    assert_eq!(own(format!("{header}{lines}").as_bytes()), [""; 0]);
}

#[test]
fn stamps_that_are_no_times_of_the_calendar_are_doubted() {
    let notes = |text: &[u8]| {
        let options = Options { format: Some(Format::Alibaba), ..Options::default() };
        let reader = std::io::Cursor::new(text.to_vec());
        let mut trace = Trace::from_reader("sample", reader, &options).unwrap();
        drain(&mut trace).unwrap();
        trace.notes()
    };
    assert_eq!(notes(b"1,W,0,4096,1577808000000000\n1,W,0,4096,1577808009000000\n"), [""; 0]);
    let seconds = notes(b"1,W,0,4096,1577808000\n1,W,0,4096,1577808009\n");
    assert!(seconds[0].contains("it was read as microseconds"), "{seconds:?}");
}

#[test]
fn a_last_line_without_end_that_can_be_read_is_told() {
    let reader = std::io::Cursor::new(b"5,W,0,4096,0\n7,W,4096,40".to_vec());
    let mut trace = Trace::from_reader("sample", reader, &Options::default()).unwrap();
    assert_eq!(drain(&mut trace).unwrap().len(), 2);
    let told = |note: &String| note.contains("the last line has no end");
    assert!(trace.notes().iter().any(told), "{:?}", trace.notes());
}

/// A reader that brings a few bytes at a time, as a pipe may.
struct Drops(std::io::Cursor<Vec<u8>>, usize);

impl std::io::Read for Drops {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}

/// As `dd` with large blocks: each request is queued in pages, so that the first issue comes late.
fn late_issues() -> Vec<u8> {
    use std::io::Write as _;
    let mut text = Vec::new();
    let mut seq = 0;
    for request in 0..20_u64 {
        let first = 2048 + request * 4096;
        let mut line = |action: &str, sector: u64, count: u64| {
            seq += 1;
            let time = seq as f64 * 1e-6;
            writeln!(
                text,
                "  8,0    1 {seq:8} {time:14.9}  4321  {action}   W {sector} + {count} [dd]"
            )
        };
        for page in 0..512 {
            line("Q", first + page * 8, 8).unwrap();
            line(if page == 0 { "G" } else { "M" }, first + page * 8, 8).unwrap();
        }
        line("D", first, 4096).unwrap();
        line("C", first, 4096).unwrap();
    }
    text
}

#[test]
fn what_is_read_does_not_depend_on_how_much_a_read_brings() {
    let mut texts = vec![late_issues()];
    texts.extend(["blkparse-joined.txt", "ftrace-stacked.txt", "fio-log.txt"].map(text));
    for bytes in texts {
        let mut answers = Vec::new();
        for at_once in [bytes.len(), 65_536, 4096, 7] {
            let reader = Drops(std::io::Cursor::new(bytes.clone()), at_once);
            let mut trace = Trace::from_reader("sample", reader, &Options::default()).unwrap();
            let requests = drain(&mut trace).unwrap();
            answers.push((trace.format(), requests, trace.notes()));
        }
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
    }
    let reader = std::io::Cursor::new(late_issues());
    let mut trace = Trace::from_reader("sample", reader, &Options::default()).unwrap();
    assert_eq!(totals(&drain(&mut trace).unwrap()), [(WRITE, 20, 20 * 4096 * 512)]);
}

/// Events of devices that are never decided are not held back for ever.
#[test]
fn a_long_trace_of_one_kind_of_event_is_read() {
    use std::fmt::Write as _;
    for (action, other) in [("Q", "G"), ("D", "I"), ("C", "C")] {
        let mut text = String::new();
        for n in 0..150_000_u64 {
            let (time, sector) = (n as f64 * 1e-6, n % 1000 * 8);
            writeln!(text, "8,0 1 {n} {time:.9} 5 {action} W {sector} + 8 [a]").unwrap();
            if other != action {
                writeln!(text, "8,0 1 {n} {time:.9} 5 {other} W {sector} + 8 [a]").unwrap();
            }
        }
        let reader = std::io::Cursor::new(text.into_bytes());
        let mut trace = Trace::from_reader("sample", reader, &Options::default()).unwrap();
        assert_eq!(drain(&mut trace).unwrap().len(), 150_000, "{action}");
    }
}
