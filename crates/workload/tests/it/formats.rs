//! Every format: recognised as itself, read exactly.

use std::collections::BTreeSet;

use thermocline_types::{Bytes, Op, Request};
use thermocline_workload::Source as _;
use thermocline_workload::synthetic::{self, Generator, Limit, Spec};
use thermocline_workload::trace::{self, ErrorKind, Format, Options, Trace, split_csv, write_csv};

use crate::{drain, read, samples};

fn open(bytes: &[u8], options: &Options) -> Trace {
    let reader = std::io::Cursor::new(bytes.to_vec());
    Trace::from_reader("sample", reader, options).unwrap()
}

#[test]
fn every_sample_is_recognised_and_gives_exactly_its_requests() {
    for sample in samples::all() {
        let mut trace = open(&sample.bytes, &Options::default());
        assert_eq!(trace.format(), sample.format);
        let requests = drain(&mut trace).unwrap();
        assert_eq!(requests, sample.requests, "{}", sample.format);
        assert_eq!(trace.volumes(), sample.volumes, "{}", sample.format);
    }
}

#[test]
fn every_format_has_a_sample() {
    let samples = samples::all();
    for format in Format::ALL {
        assert!(samples.iter().any(|sample| sample.format == format), "{format}");
    }
}

#[test]
fn a_stated_format_reads_the_same() {
    for sample in samples::all() {
        let options = Options { format: Some(sample.format), ..Options::default() };
        assert_eq!(read(&sample.bytes, &options).unwrap(), sample.requests, "{}", sample.format);
    }
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_change_nothing() {
    for sample in samples::all().into_iter().filter(|sample| sample.format != Format::Vscsi) {
        let text = String::from_utf8(sample.bytes).unwrap();
        let dos = format!("\u{feff}{}", text.replace("\r\n", "\n").replace('\n', "\r\n"));
        let requests = read(dos.as_bytes(), &Options::default()).unwrap();
        assert_eq!(requests, sample.requests, "{}", sample.format);
    }
}

#[test]
fn one_volume_is_kept_when_asked_for_and_becomes_tenant_zero() {
    for sample in samples::all().into_iter().filter(|sample| sample.volumes.len() == 2) {
        let volume = Some(sample.volumes[1].clone());
        let mut trace = open(&sample.bytes, &Options { volume, ..Options::default() });
        let requests = drain(&mut trace).unwrap();
        let wanted: Vec<_> = sample.requests.iter().filter(|r| r.tenant.0 == 1).collect();
        assert_eq!(requests.len(), wanted.len());
        assert!(requests.iter().all(|r| r.tenant.0 == 0));
        assert!(requests.iter().zip(wanted).all(|(a, b)| (a.op, a.offset) == (b.op, b.offset)));
        assert_eq!(trace.volumes(), &sample.volumes[1..]);
    }
}

#[test]
fn times_that_go_back_are_held_and_counted() {
    let mut trace = open(b"10,W,0,512\n30,W,0,512\n20,W,0,512\n31,W,0,512\n", &Options::default());
    let times: Vec<u64> = drain(&mut trace).unwrap().iter().map(|r| r.at.as_nanos()).collect();
    assert_eq!(times, [0, 20_000, 20_000, 21_000]);
    assert_eq!(trace.reordered(), 1);
}

/// Lines of both have five numbers; the first of one is a time in seconds, of the other a small version.
#[test]
fn small_requests_of_tencent_are_not_taken_for_those_of_cloudphysics() {
    let line = |i: u64| format!("{},{},8,{},1283\n", 1_538_323_200 + i / 4, i * 8, i % 2);
    let text: String = (0..200).map(line).collect();
    let mut trace = open(text.as_bytes(), &Options::default());
    assert_eq!(trace.format(), Format::Tencent);
    let requests = drain(&mut trace).unwrap();
    assert_eq!(requests.len(), 200);
    assert_eq!((requests[1].op, requests[1].length.0), (Op::Write, 4096));
}

#[test]
fn blkparse_without_issue_events_is_read_by_queue_events() {
    let text = "8,0 1 1 0.000000000 5 Q W 8 + 8 [a]\n8,0 1 2 0.000001000 5 G W 8 + 8 [a]\n\
                8,0 1 3 0.000002000 5 C W 8 + 8 [0]\n";
    let requests = read(text.as_bytes(), &Options::default()).unwrap();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].op, requests[0].offset.get()), (Op::Write, 4096));
}

/// As blkparse prints what is passed through to the device: bytes, and the command where it has bytes of one.
#[test]
fn commands_passed_through_have_no_extent() {
    let text = "8,0 1 1 0.000000000 5 D R 36 (12 00 00 00 24 00) [smartd]\n\
                8,0 1 2 0.000000001 5 D R 0 (00 ..) [smartd]\n\
                8,0 1 3 0.000000002 5 D N 36 [smartd]\n\
                8,0 1 4 0.000001000 5 D W 8 + 8 [a]\n";
    let requests = read(text.as_bytes(), &Options::default()).unwrap();
    let writes: Vec<_> = requests.iter().filter(|one| one.op == Op::Write).collect();
    assert_eq!((requests.len(), writes.len(), writes[0].offset.get()), (1, 1, 4096));
}

#[test]
fn ftrace_without_issue_events_is_read_by_bio_queue_events() {
    let text = " a-1 [000] 5.000001: block_bio_queue: 8,0 FW 8 + 8 [a]\n\
                 a-1 [000] 5.000002: block_bio_complete: 8,0 FW 8 + 8 [0]\n";
    let ops: Vec<Op> =
        read(text.as_bytes(), &Options::default()).unwrap().iter().map(|r| r.op).collect();
    assert_eq!(ops, [Op::Flush, Op::Write]);
}

/// Kernels before `WZ` print them as `N`; an `N` without an extent is a command that moves no data of the host.
#[test]
fn write_zeroes_of_older_kernels_are_read() {
    let ftrace = " a-1 [000] 5.000001: block_rq_issue: 8,0 NS 65536 () 1024 + 128 [a]\n\
                  a-1 [000] 5.000002: block_rq_issue: 8,0 N 36 (12 00 00) 0 + 0 [a]\n\
                  a-1 [000] 5.000003: block_rq_issue: 8,0 W 4096 () 8 + 8 [a]\n";
    let blkparse =
        "8,0 1 1 0.000001000 5 D NS 1024 + 128 [a]\n8,0 1 2 0.000003000 5 D W 8 + 8 [a]\n";
    for text in [ftrace, blkparse] {
        let requests = read(text.as_bytes(), &Options::default()).unwrap();
        let found: Vec<_> =
            requests.iter().map(|r| (r.op, r.offset.get(), r.length.get())).collect();
        assert_eq!(found, [(Op::WriteZeroes, 1024 * 512, 65_536), (Op::Write, 4096, 4096)]);
    }
}

#[test]
fn the_clock_tells_disksim_from_mqsim_and_if_it_cannot_the_user_is_asked() {
    let spaced = |step: u64| -> String {
        (0..50).map(|i| format!("{} 0 {} 8 {}\n", i * step, i * 8, i % 2)).collect()
    };
    let found = |text: &str| {
        Trace::from_reader(
            "sample",
            std::io::Cursor::new(text.as_bytes().to_vec()),
            &Options::default(),
        )
        .map(|trace| trace.format())
    };
    assert_eq!(found(&spaced(20_000)).unwrap(), Format::MqSim);
    assert_eq!(found(&spaced(5)).unwrap(), Format::DiskSim);
    for unclear in [spaced(400), spaced(0)] {
        let error = found(&unclear).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ambiguous);
        let text = error.to_string();
        assert!(text.contains("disksim or mqsim") && text.contains("--format"), "{text}");
    }
}

#[test]
fn own_csv_with_tenants_is_not_taken_for_alibaba() {
    let options = Options::default();
    let own = open(b"5,W,0,4096,0\n7,W,4096,4096,1\n", &options);
    assert_eq!(own.format(), Format::ThermoclineCsv);
    let epoch = open(b"1577808002000129,W,0,4096,3\n", &options);
    assert_eq!(epoch.format(), Format::ThermoclineCsv);
}

#[test]
fn what_is_written_reads_back_the_same() {
    for sample in samples::all() {
        let mut csv = Vec::new();
        let count = write_csv(&mut open(&sample.bytes, &Options::default()), &mut csv).unwrap();
        assert_eq!(count, sample.requests.len() as u64);
        assert_eq!(read(&csv, &Options::default()).unwrap(), sample.requests, "{}", sample.format);
    }
}

#[test]
fn files_are_known_by_their_stream_and_older_traces_have_none() {
    let text = b"timestamp_us,op,offset_bytes,length_bytes,tenant,stream\n\
        1,W,0,4096,db,sst/0/7\n2,W,4096,4096,db,log/1\n3,D,0,4096,db,sst/0/7\n4,W,8192,4096,db,\n5,W,0,4096,db\n\
        6,W,4096,512,db,log/2\n";
    let mut trace = open(text, &Options::default());
    let requests = drain(&mut trace).unwrap();
    let streams: Vec<_> = requests.iter().map(|r| (r.stream.directory, r.stream.file)).collect();
    assert_eq!(streams, [(1, 0), (2, 0), (1, 0), (0, 0), (0, 0), (2, 1)]);
    assert_eq!(trace.directories(), ["sst/0", "log"]);
    assert_eq!(trace.volumes(), ["db"]);
    let own = Options { format: Some(Format::ThermoclineCsv), ..Options::default() };
    for (line, expected) in [
        (&b"1,W,0,4096,db,log/1,2,3\n"[..], "at most seven columns"),
        (b"1,W,0,4096,db,log/1,many\n", "a number of requests in column 7"),
    ] {
        let complaint = read(line, &own).unwrap_err().to_string();
        assert!(complaint.contains(expected), "{complaint}");
    }
}

#[test]
fn outstanding_requests_are_read_and_written_back() {
    let text = b"timestamp_us,op,offset_bytes,length_bytes,tenant,stream,outstanding\n\
        0,W,0,4096,0,,0\n1,F,0,0,0,,100000\n2,W,4096,4096,0,log/0,1\n";
    let requests = read(text, &Options::default()).unwrap();
    let outstanding: Vec<_> = requests.iter().map(|request| request.outstanding).collect();
    assert_eq!(outstanding, [Some(0), Some(u16::MAX), Some(1)]);
    let mut csv = Vec::new();
    write_csv(&mut open(text, &Options::default()), &mut csv).unwrap();
    assert_eq!(read(&csv, &Options::default()).unwrap(), requests);
}

#[test]
fn a_generated_store_reads_back_the_same_but_for_the_numbers_of_its_kinds() {
    let spec: Spec = "lsm:memtable=1MiB,fs.metadata=0.02,log.segment=512KiB".parse().unwrap();
    let span = Bytes::mib(512);
    let options = synthetic::Options::new(span, Limit::drive_writes(0.5, span).unwrap());
    let mut generator = Generator::new(&spec, &options).unwrap();
    let expected = drain(&mut generator).unwrap();
    let mut csv = Vec::new();
    write_csv(&mut Generator::new(&spec, &options).unwrap(), &mut csv).unwrap();
    assert!(csv.starts_with(b"timestamp_us,op,offset_bytes,length_bytes,tenant,stream\n"));
    let mut trace = open(&csv, &Options::default());
    let found = drain(&mut trace).unwrap();
    assert_eq!(found.len(), expected.len());
    let (ours, theirs) = (generator.directories(), trace.directories());
    for (found, expected) in found.iter().zip(&expected) {
        let name = |names: &[String], request: &Request| {
            names[usize::from(request.stream.directory) - 1].clone()
        };
        assert_eq!(name(&theirs, found), name(&ours, expected));
        assert_eq!(Request { stream: expected.stream, ..*found }, *expected);
    }
    let kinds: BTreeSet<&str> = theirs.iter().map(String::as_str).collect();
    assert!(["log", "flush", "metadata", "merge-1"].iter().all(|kind| kinds.contains(kind)));
}

#[test]
fn a_trace_is_split_into_one_file_per_volume() {
    let folder = tempfile::tempdir().unwrap();
    // Volume 7 has more text than is kept in memory; volume 9 stands between.
    let mut text = String::new();
    for n in 0..5_000_u64 {
        text += &format!("7,W,{},4096,{}\n", n * 4096, 1_577_808_000_000_000 + n);
        if n % 100 == 0 {
            text += &format!("9,R,{},8192,{}\n", n * 8192, 1_577_808_000_000_000 + n);
        }
    }
    let options = Options { format: Some(Format::Alibaba), ..Options::default() };
    let mut trace = open(text.as_bytes(), &options);
    let parts = split_csv(&mut trace, folder.path(), &|| false).unwrap().unwrap();
    let counts: Vec<(&str, u64)> = parts.iter().map(|p| (p.volume.as_str(), p.requests)).collect();
    assert_eq!(counts, [("7", 5_000), ("9", 50)]);
    let read = |path| drain(&mut trace::open(path, &Options::default()).unwrap()).unwrap();
    let (seven, nine) = (read(&parts[0].path), read(&parts[1].path));
    assert_eq!((seven.len(), nine.len()), (5_000, 50));
    assert!(seven.iter().zip(0..).all(|(r, n)| r.offset.get() == n * 4096 && r.op == Op::Write));
    assert!(nine.iter().zip(0..).all(|(r, n)| r.offset.get() == n * 819_200 && r.op == Op::Read));
    let mut trace = open(text.as_bytes(), &options);
    let again = split_csv(&mut trace, folder.path(), &|| false).unwrap_err();
    assert!(matches!(again.kind(), ErrorKind::Write(_)), "{again}");
}

#[test]
fn volumes_of_one_name_in_the_file_system_have_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let text = "timestamp_us,op,offset_bytes,length_bytes,tenant\n0,W,0,512,a b\n1,W,0,1024,a_b\n2,W,0,1536,a/b\n";
    let mut trace = open(text.as_bytes(), &Options::default());
    let parts = split_csv(&mut trace, folder.path(), &|| false).unwrap().unwrap();
    for ((part, name), sectors) in parts.iter().zip(["a_b", "a_b_2", "a_b_3"]).zip(1..) {
        assert_eq!(part.path, folder.path().join(format!("{name}.csv")));
        let requests = drain(&mut trace::open(&part.path, &Options::default()).unwrap()).unwrap();
        assert_eq!((requests.len(), requests[0].length.0), (1, 512 * sectors));
    }
}

#[test]
fn of_a_split_that_does_not_end_well_no_file_stays() {
    let text = "timestamp_us,op,offset_bytes,length_bytes,tenant\n0,W,0,512,a\n1,W,0,512,b\n";
    let left = |text: &str, is_ended: &dyn Fn() -> bool, old: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        old.iter().for_each(|name| std::fs::write(folder.path().join(name), "mine").unwrap());
        let mut trace = open(text.as_bytes(), &Options::default());
        let split = split_csv(&mut trace, folder.path(), is_ended);
        let files = std::fs::read_dir(folder.path()).unwrap();
        let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        (split.map(|parts| parts.map(|parts| parts.len())), names)
    };
    let (whole, files) = left(text, &|| false, &[]);
    assert_eq!((whole.unwrap(), files.len()), (Some(2), 2));
    let (existing, files) = left(text, &|| false, &["b.csv"]);
    assert!(matches!(existing.unwrap_err().kind(), ErrorKind::Write(_)));
    assert_eq!(files, ["b.csv"], "what was there stays, and alone");
    let (bad, files) = left(&format!("{text}2,W,0,512,c\nnonsense\n"), &|| false, &[]);
    assert_eq!((bad.unwrap_err().kind(), files.len()), (ErrorKind::BadRecord, 0));
    let looked = std::cell::Cell::new(0);
    let second_time = || looked.replace(looked.get() + 1) > 0;
    let (ended, files) = left(text, &second_time, &[]);
    assert_eq!((ended.unwrap(), files.len()), (None, 0));
}
