//! Every way a trace can be wrong.

use thermocline_types::{Op, Request, Time};
use thermocline_workload::trace::{self, ErrorKind, Format, Options, Trace, Window, open};

use crate::{drain, read};

fn kind_and_text(bytes: &[u8], options: &Options) -> (ErrorKind, String) {
    let error = read(bytes, options).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn missing_files_directories_and_empty_files() {
    let dir = tempfile::tempdir().unwrap();
    let error = open(dir.path().join("no.csv"), &Options::default()).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Open);
    assert!(error.to_string().contains("no.csv: cannot open the trace: No such file"), "{error}");
    let error = open(dir.path(), &Options::default()).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Open);
    assert!(error.to_string().contains("directory"), "{error}");
    let path = dir.path().join("empty");
    std::fs::write(&path, b"").unwrap();
    let error = open(&path, &Options::default()).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Empty);
    let header_only = b"timestamp_us,op,offset_bytes,length_bytes\n";
    assert_eq!(kind_and_text(header_only, &Options::default()).0, ErrorKind::Empty);
}

#[test]
fn a_bad_line_is_named_with_what_was_expected_and_found() {
    let bytes =
        b"timestamp_us,op,offset_bytes,length_bytes\n0,W,0,4096\n1,X,4096,4096\n2,W,0,512\n";
    let error = read(bytes, &Options::default()).unwrap_err();
    assert_eq!((error.kind(), error.line()), (ErrorKind::BadRecord, Some(3)));
    assert_eq!(
        error.to_string(),
        "sample:3: expected an operation R, W, D, F or Z in column 2, found `1,X,4096,4096`"
    );
}

#[test]
fn bad_lines_are_counted_when_they_may_be_skipped() {
    let bytes = b"0,W,0,4096\nnonsense\n1,W,18446744073709551615,1\n2,W,0,99999999999\n3,W,0,512\n\
                  4,W,0,512\n";
    let options = Options { skip_bad: true, ..Options::default() };
    let mut trace =
        Trace::from_reader("sample", std::io::Cursor::new(bytes.to_vec()), &options).unwrap();
    assert_eq!(drain(&mut trace).unwrap().len(), 3);
    assert_eq!(trace.skipped(), 3);
}

#[test]
fn requests_of_no_bytes_are_left_out_and_counted() {
    let bytes = b"0,R,0,0\n5,W,0,512\n6,W,4096,0\n7,F,0,0\n8,D,4096,0\n9,W,0,512\n";
    let options = Options::default();
    let mut trace =
        Trace::from_reader("sample", std::io::Cursor::new(bytes.to_vec()), &options).unwrap();
    let found: Vec<_> = drain(&mut trace).unwrap().iter().map(|r| (r.op, r.at.0)).collect();
    assert_eq!(found, [(Op::Write, 0), (Op::Flush, 2000), (Op::Write, 4000)]);
    assert_eq!((trace.empty(), trace.skipped()), (3, 0));
}

#[test]
fn requests_of_no_bytes_are_counted_in_traces_of_kernels_too() {
    let blkparse = "  8,0    3        1     0.000000000   697  D  WS 8 + 8 [a]\n\
                    \x20 8,0    3        2     0.000001000   697  D  W 8 + 0 [a]\n\
                    \x20 8,0    3        3     0.000002000   697  D  N 0 (12 00) [a]\n\
                    \x20 8,0    3        4     0.000003000   697  D  FWS 0 + 0 [a]\n";
    let ftrace = "a-1 [000] d..1. 1.000000: block_rq_issue: 8,0 WS 4096 () 8 + 8 [a]\n\
                  a-1 [000] d..1. 1.000001: block_rq_issue: 8,0 R 0 () 18446744073709551615 + 0 [a]\n\
                  a-1 [000] d..1. 1.000002: block_rq_issue: 8,0 N 0 () 0 + 0 [a]\n\
                  a-1 [000] d..1. 1.000003: block_rq_issue: 8,0 FWS 0 () 0 + 0 [a]\n";
    for text in [blkparse, ftrace] {
        let reader = std::io::Cursor::new(text.as_bytes().to_vec());
        let mut trace = Trace::from_reader("sample", reader, &Options::default()).unwrap();
        let ops: Vec<_> = drain(&mut trace).unwrap().iter().map(|request| request.op).collect();
        assert_eq!((ops, trace.empty()), (vec![Op::Write, Op::Flush], 1), "{text}");
    }
}

#[test]
fn what_a_trace_says_that_it_lacks_is_counted() {
    let event = "a-1 [000] d..1. 1.000000: block_rq_issue: 8,0 WS 4096 () 8 + 8 [a]\n";
    let losses = "CPU:3 [LOST 12 EVENTS]\nCPU:1 [LOST EVENTS]\nCPU:0 [30 EVENTS DROPPED]\nCPU:0 [EVENTS DROPPED]\n";
    let text = format!("# tracer: nop\n{event}{losses}{event}");
    let reader = std::io::Cursor::new(text.into_bytes());
    let mut trace = Trace::from_reader("sample", reader, &Options::default()).unwrap();
    assert_eq!(drain(&mut trace).unwrap().len(), 2);
    assert_eq!((trace.lost(), trace.skipped()), (44, 0));
}

#[test]
fn lines_that_are_cut_short_are_bad_and_name_the_column_that_is_missing() {
    let systor =
        "Timestamp,Response,IOType,LUN,Offset,Size\n1.0,0.1,W,3,4096,4096\n1.5,0.1,,3,0,512\n";
    let own = "0,W,0,4096\n";
    for (before, line, expected) in [
        (systor, "2.0,0.1", "six columns"),
        (systor, "2.0,0.1,", "six columns"),
        (systor, "2.0,0.1,,3,0", "six columns"),
        (systor, "2.0,0.1,W,3", "an offset in bytes in column 5"),
        (systor, "2.0,0.1,W,3,4096", "a size in bytes in column 6"),
        (own, "1,W,", "an offset in bytes in column 3"),
        (own, "1,W,4096x,512", "an offset in bytes in column 3"),
        (own, "1,W,4096", "a length in bytes in column 4"),
        (own, "1,W,4096,", "a length in bytes in column 4"),
    ] {
        let text = format!("{before}{line}\n");
        let (kind, message) = kind_and_text(text.as_bytes(), &Options::default());
        assert_eq!(kind, ErrorKind::BadRecord, "{line}");
        assert!(message.contains(&format!("expected {expected}, found")), "{line}: {message}");
    }
}

#[test]
fn a_trace_in_which_nothing_can_be_read_is_an_error_even_when_skipping() {
    let options = Options { skip_bad: true, format: Some(Format::Msr), ..Options::default() };
    let (kind, text) = kind_and_text(b"0,W,0,4096\n1,W,0,512\n", &options);
    assert_eq!(kind, ErrorKind::BadRecord);
    assert!(text.contains("none of 2") && text.contains("msr"), "{text}");
}

#[test]
fn formats_that_cannot_carry_write_amplification_are_refused_with_the_reason() {
    let biosnoop_bt = "Attaching 4 probes...\nTIME(ms)     COMM             PID    LAT(ms)\n";
    let after_banner = biosnoop_bt.split_once('\n').unwrap().1;
    let mut oracle = Vec::new();
    for second in 0..10_u32 {
        oracle.extend(second.to_le_bytes());
        oracle.extend((u64::from(second) * 77).to_le_bytes());
        oracle.extend(4096_u32.to_le_bytes());
        oracle.extend((-1_i64).to_le_bytes());
    }
    let cases: [(&[u8], &str); 15] = [
        (b"  UID   PID D    BLOCK   SIZE       COMM PATHNAME\n 0 1 W 8 4096 dd x\n", "DTrace"),
        (b"0, 81234, 1, 4096, 0x0000\n1, 70000, 1, 8192, 0x0000\n", "--log_offset=1"),
        (
            b"pwrite64(3, \"abc\"..., 4096, 8192)       = 4096\n",
            "is the output of strace or of `perf trace` with calls; it has calls of programs",
        ),
        (
            b"     0.016 ( 0.003 ms): dd/71 write(fd: 1, buf: 0x55, count: 4096) = 4096\n",
            "perf trace -e block:block_rq_issue",
        ),
        (b"TIME     DISK     %RND  %SEQ    COUNT     KBYTES\n11:03:16 sda  1 2 3 4\n", "biopattern"),
        (b"Device            r/s     w/s     rkB/s\nsda  1.0 2.0 3.0\n", "iostat; it has sums"),
        (
            b"Tracing block I/O. Ctrl-C to end.\nCOMM PID TYPE DEV BLOCK BYTES LATms\nx 1 W 8,0 8 4096 0.1\n",
            "iosnoop -ts",
        ),
        (biosnoop_bt.as_bytes(), "neither"),
        (after_banner.as_bytes(), "bcc"),
        (&oracle, "oracleGeneral"),
        (b"time,op,size,latency\n1,W,4096,10\n", "none is an address"),
        (b"\x07tae\0\0\0\0\x01\0", "blkparse -i"),
        (b"PERFILE2\0\0\0", "perf script"),
        (b"\xfd7zXZ\0\0\0", "xz -dc"),
        (b"BZh91AY&SY", "bzip2"),
    ];
    for (bytes, reason) in cases {
        let (kind, text) = kind_and_text(bytes, &Options::default());
        assert_eq!(kind, ErrorKind::Unusable, "{text}");
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn unknown_content_is_quoted() {
    let options = Options::default();
    let (kind, text) = kind_and_text(b"hello world, this is not a trace\n", &options);
    assert_eq!(kind, ErrorKind::Unrecognised);
    assert!(text.contains("`hello world") && text.contains("--format"), "{text}");
    let garbage: Vec<u8> =
        (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    assert_eq!(kind_and_text(&garbage, &options).0, ErrorKind::Unrecognised);
    let (kind, text) = kind_and_text(b"when,what,sector,count\n1,W,0,8\n", &options);
    assert_eq!(kind, ErrorKind::Unrecognised);
    assert!(text.contains("timestamp_us,op,offset_bytes,length_bytes"), "{text}");
}

#[test]
fn a_volume_that_does_not_occur_is_answered_with_those_that_do() {
    let options = Options { volume: Some("usr_0".into()), ..Options::default() };
    let bytes = b"128166372003061629,hm,0,Read,0,512,1\n128166372003061630,hm,1,Write,0,512,1\n";
    let (kind, text) = kind_and_text(bytes, &options);
    assert_eq!(kind, ErrorKind::NoSuchVolume);
    assert!(text.contains("`usr_0`") && text.contains("hm_0, hm_1"), "{text}");
}

/// A recorder that is killed, or whose disk is full, leaves such a file.
#[test]
fn of_a_file_that_ends_within_a_line_or_record_the_rest_is_read() {
    for sample in crate::samples::all() {
        let end = match sample.format {
            Format::Vscsi => sample.bytes.len() - 5,
            // What follows the last line of an event is no event.
            Format::Blkparse => continue,
            _ => {
                let text = sample.bytes.trim_ascii_end();
                let line = text.iter().rposition(|&byte| byte == b'\n').unwrap();
                // Two bytes of a line are none that can be read.
                line + 3
            }
        };
        let reader = std::io::Cursor::new(sample.bytes[..end].to_vec());
        let options = Options { format: Some(sample.format), ..Options::default() };
        let mut trace = Trace::from_reader("sample", reader, &options).unwrap();
        let requests = drain(&mut trace).unwrap();
        assert_eq!(requests, sample.requests[..requests.len()], "{}", sample.format);
        assert!(requests.len() + 2 > sample.requests.len(), "{}", sample.format);
        // ftrace has lines of anything.
        let is_told = trace.notes().iter().any(|note| note.contains("the file ends within "));
        assert_eq!(is_told, sample.format != Format::Ftrace, "{}", sample.format);
        assert_eq!(trace.skipped(), 0);
    }
}

#[test]
fn a_line_without_end_that_is_all_there_is_is_no_trace() {
    let options = Options { format: Some(Format::Msr), ..Options::default() };
    let (kind, text) = kind_and_text(b"128166372003061629,hm,0,Re", &options);
    assert_eq!(kind, ErrorKind::BadRecord);
    assert!(text.starts_with("sample:1: expected Read or Write"), "{text}");
}

#[test]
fn a_failing_reader_is_reported() {
    struct Failing;
    impl std::io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("cable pulled"))
        }
    }
    let reader = std::io::Read::chain(&b"1,W,0,4096\n"[..], Failing);
    let mut trace = Trace::from_reader("sample", reader, &Options::default()).unwrap();
    let error = drain(&mut trace).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Read);
    assert!(error.to_string().contains("cable pulled"), "{error}");
}

#[test]
fn a_window_keeps_the_requests_of_its_time_and_names_the_end_if_there_are_none() {
    // A request a second, with its number in the address.
    let line = |second: u64| format!("{},W,{},4096\n", second * 1_000_000, second * 4096);
    let text: String = (0..10).map(line).collect();
    let read = |from: u64, until: Option<u64>| {
        let window = Window { from: Time::seconds(from), until: until.map(Time::seconds) };
        let found = read(text.as_bytes(), &Options { window, ..Options::default() })?;
        let number = |request: &Request| (request.at.0 / 1_000_000_000, request.offset.0 / 4096);
        Ok::<_, trace::Error>(found.iter().map(number).collect::<Vec<_>>())
    };
    assert_eq!(read(3, Some(6)).unwrap(), [(0, 3), (1, 4), (2, 5)]);
    assert_eq!(read(8, None).unwrap(), [(0, 8), (1, 9)]);
    assert_eq!(read(0, Some(1)).unwrap(), [(0, 0)]);
    let error = read(20, None).unwrap_err().to_string();
    assert!(error.contains("no request lies in the window") && error.contains("9"), "{error}");
}

#[test]
fn a_line_of_biosnoop_with_too_many_or_too_few_columns_is_bad() {
    let many = "x ".repeat(20);
    for header in [
        "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)".to_owned(),
        format!("TIME(s) COMM PID DISK T SECTOR BYTES {many}"),
    ] {
        for line in ["0.1 a", "0.1 a 1 vda W 8 4096 0.2", &format!("0.1 {many} 1 vda W 8 4096 0.2")]
        {
            let text = format!("{header}\n{line}\n");
            let options = Options { format: Some(Format::Biosnoop), ..Options::default() };
            let requests = read(text.as_bytes(), &options).map(|found| found.len());
            let sound = line.ends_with("0.2") && !header.contains('x');
            assert_eq!(requests.ok(), sound.then_some(1), "{text}");
        }
    }
}
