//! Traces of several formats and compressions: the same requests give the same answer.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::{lab_in, numbers, scratch, write};

const KIB: u64 = 1024;

/// Requests as offset and length in bytes, one per millisecond.
fn requests() -> Vec<(u64, u64)> {
    let sizes = numbers(4).skip(100).map(|size| (4 * KIB) << size);
    numbers(2048).map(|block| block * 4 * KIB).zip(sizes).take(6000).collect()
}

/// A trace, and the name of its format.
type Written = (&'static str, String);

fn render(line: impl Fn(u64, u64, u64) -> String) -> String {
    let lines = (0..).zip(requests()).map(|(ms, (offset, length))| line(ms, offset, length));
    lines.fold(String::new(), |text, line| text + &line + "\n")
}

fn traces() -> Vec<Written> {
    let mut csv = "timestamp_us,op,offset_bytes,length_bytes,tenant\n".to_owned();
    csv += &render(|ms, offset, length| format!("{},W,{offset},{length},0", ms * 1000));
    let msr = render(|ms, offset, length| {
        format!("{},usr,0,Write,{offset},{length},100", 128_166_372_003_061_629 + ms * 10_000)
    });
    let alibaba = render(|ms, offset, length| {
        format!("3,W,{offset},{length},{}", 1_577_808_000_000_000 + ms * 1000)
    });
    let blkparse = render(|ms, offset, length| {
        let (seconds, nanos) = (ms / 1000, ms % 1000 * 1_000_000);
        let (sector, sectors) = (offset / 512, length / 512);
        format!("  8,0    1  {ms}  {seconds}.{nanos:09}   697  D  WS {sector} + {sectors} [fio]")
    });
    let mut iolog = "fio version 3 iolog\n0 sda add\n0 sda open\n".to_owned();
    iolog += &render(|ms, offset, length| format!("{ms} sda write {offset} {length}"));
    iolog += "6000 sda close\n";
    vec![
        ("thermocline-csv", csv),
        ("msr", msr),
        ("alibaba", alibaba),
        ("blkparse", blkparse),
        ("fio-iolog", iolog),
    ]
}

fn run(folder: &Path, trace: &str) -> Value {
    lab_in(folder, &format!("run --json --stack raw:ideal --loops 3 --trace {trace}")).json()
}

#[test]
fn the_same_requests_in_every_format_give_the_same_answer() {
    let folder = scratch();
    let mut answers = Vec::new();
    for (format, content) in traces() {
        write(folder.path(), format, content);
        let original = run(folder.path(), format);
        assert_eq!(original["workload"]["format"], format);
        lab_in(folder.path(), &format!("convert --trace {format} --out {format}.csv")).ok();
        let converted = run(folder.path(), &format!("{format}.csv"));
        assert_eq!(converted["workload"]["format"], "thermocline-csv", "{format}");
        for key in ["host_bytes_written", "media_bytes_written", "waf", "requests"] {
            assert_eq!(original[key], converted[key], "{format}: {key}");
        }
        answers.push(original["media_bytes_written"].clone());
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    assert!(answers[0]["by_cause"]["relocation"].as_u64() > Some(0), "the drive was busy");
}

#[test]
fn compressed_traces_are_read_as_they_are() {
    let folder = scratch();
    let (_, content) = traces().remove(0);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(content.as_bytes()).expect("in memory");
    write(folder.path(), "trace.gz", gz.finish().expect("in memory"));
    write(folder.path(), "trace.zst", zstd::encode_all(content.as_bytes(), 1).expect("in memory"));
    write(folder.path(), "trace.csv", content);
    let [plain, gz, zst] = ["trace.csv", "trace.gz", "trace.zst"]
        .map(|name| run(folder.path(), name)["media_bytes_written"].clone());
    assert_eq!((&plain, &plain), (&gz, &zst));
}

#[test]
fn line_ends_marks_and_partial_sectors_do_not_matter() {
    let folder = scratch();
    let header = "timestamp_us,op,offset_bytes,length_bytes,tenant";
    let mut dos = format!("\u{feff}{header}\r\n");
    let mut odd = format!("{header}\n");
    let mut plain = format!("{header}\n");
    for (ms, (offset, length)) in (0..).zip(requests()) {
        let _ = write!(dos, "{ms},W,{offset},{length},0\r\n");
        let _ = writeln!(odd, "{ms},W,{},{},0", offset + 100, length - 200);
        let _ = writeln!(plain, "{ms},W,{offset},{length},0");
    }
    for (name, content) in [("dos", dos), ("odd", odd), ("plain", plain)] {
        write(folder.path(), name, content);
    }
    let [dos, odd, plain] =
        ["dos", "odd", "plain"].map(|name| run(folder.path(), name)["media_bytes_written"].clone());
    assert_eq!((&dos, &odd), (&plain, &plain));
}

#[test]
fn bad_lines_are_left_out_and_counted_when_asked() {
    let folder = scratch();
    let (_, good) = traces().remove(0);
    write(folder.path(), "good.csv", &good);
    write(folder.path(), "bad.csv", good.replace("\n7000,W", "\n7000,?"));
    let (good, bad) = (run(folder.path(), "good.csv"), run(folder.path(), "bad.csv --skip-bad"));
    assert_eq!(bad["workload"]["skipped_lines"], 1);
    assert!(bad["notes"].to_string().contains("1 lines"), "{}", bad["notes"]);
    let written = |run: &Value| run["host_bytes_written"].as_u64().expect("bytes");
    assert_eq!(written(&good) - written(&bad), 3 * requests()[7].1, "the eighth, in three passes");
}

/// Tracers report events lost for lack of room.
#[test]
fn events_that_a_trace_lacks_are_told() {
    let folder = scratch();
    let event = |us: u64, sector: u64| {
        format!("a-1 [000] d..1. 1.{us:06}: block_rq_issue: 8,0 W 0 () {sector} + 128 [a]\n")
    };
    let events = |from: u64| (from..from + 50).map(|i| event(i, i % 40 * 128)).collect::<String>();
    let text = format!("{}CPU:1 [LOST 1234 EVENTS]\n{}", events(0), events(50));
    write(folder.path(), "trace", text);
    let run = run(folder.path(), "trace --capacity 16MiB");
    assert_eq!(run["workload"]["lost_events"], 1234);
    let told = "1234 events or more were lost when the trace was recorded";
    assert!(run["notes"].to_string().contains(told), "{}", run["notes"]);
    let analysis = lab_in(folder.path(), "analyze --no-headroom --trace trace").ok();
    assert!(analysis.contains(told), "{analysis}");
    let converted = lab_in(folder.path(), "convert --trace trace --out t.csv");
    assert!(
        converted.err.contains("100 requests of format ftrace\nnote: 1234 events"),
        "{}",
        converted.err
    );
}

#[test]
fn requests_that_are_left_out_or_stamped_back_are_counted_and_told() {
    let folder = scratch();
    let header = "timestamp_us,op,offset_bytes,length_bytes\n";
    let text =
        format!("{header}10,W,0,65536\n20,W,65536,0\n30,W,65536,65536\n20,W,0,4096\n40,R,0,0\n");
    write(folder.path(), "trace.csv", text);
    let facts =
        ["2 requests of the trace are of no bytes", "1 requests of the trace are stamped earlier"];
    let run = run(folder.path(), "trace.csv --capacity 16MiB");
    for (key, fact, count) in [("empty_requests", facts[0], 2), ("reordered_requests", facts[1], 1)]
    {
        assert_eq!(run["workload"][key], count);
        assert!(run["notes"].to_string().contains(fact), "{}", run["notes"]);
    }
    let analysis = lab_in(folder.path(), "analyze --no-headroom --trace trace.csv").ok();
    for fact in facts {
        assert!(analysis.contains(fact), "{analysis}");
    }
    let analysis = lab_in(folder.path(), "analyze --no-headroom --json --trace trace.csv").json();
    assert_eq!(
        (&analysis["empty_requests"], &analysis["reordered_requests"]),
        (&2.into(), &1.into())
    );
}

#[test]
fn one_volume_of_several_can_be_chosen() {
    let folder = scratch();
    let mut text = "timestamp_us,op,offset_bytes,length_bytes,tenant\n".to_owned();
    for (ms, (offset, length)) in (0..).zip(requests()) {
        let volume = if ms % 3 == 0 { "log" } else { "data" };
        let _ = writeln!(text, "{ms},W,{offset},{length},{volume}");
    }
    write(folder.path(), "both.csv", text);
    let chosen = lab_in(folder.path(), "convert --trace both.csv --volume log").ok();
    assert_eq!(chosen.lines().count(), 1 + 2000);
    let all = lab_in(folder.path(), "analyze --no-headroom --json --trace both.csv").json();
    assert_eq!(all["volumes"], serde_json::json!(["log", "data"]));
    assert_eq!(all["profile"]["tenants"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_trace_is_never_written_over_and_never_left_half_written() {
    let folder = scratch();
    let text = "timestamp_us,op,offset_bytes,length_bytes,tenant\n1,W,0,4096,0\nhello\n";
    write(folder.path(), "bad.csv", text);
    let same = lab_in(folder.path(), "convert --trace bad.csv --out ./bad.csv").refused(2);
    assert!(same.contains("the trace itself"), "{same}");
    assert_eq!(std::fs::read_to_string(folder.path().join("bad.csv")).expect("there"), text);
    let half = lab_in(folder.path(), "convert --trace bad.csv --out half.csv").refused(2);
    assert!(half.contains("bad.csv:3:"), "{half}");
    assert!(!folder.path().join("half.csv").exists());
}

/// A store of 1 GiB with 2 GiB of writes.
const STORE: &str = "--workload lsm:memtable=4MiB,fs.extent=256KiB,log.segment=1MiB,tier.small=0 --span 1GiB \
                     --drive-writes 2";

#[test]
fn a_generated_store_and_the_trace_of_it_give_the_same_answer() {
    let folder = scratch();
    let done = lab_in(folder.path(), &format!("convert {STORE} --out store.csv"));
    assert!(done.err.contains("requests of lsm:memtable=4MiB"), "{}", done.err);
    done.ok();
    let run = |source: &str, more: &str| {
        let run = format!(
            "run --json {more} {source} --prefill none --capacity 1GiB --set device.op=0.2 --set device.unit=1MiB"
        );
        lab_in(folder.path(), &run).json()
    };
    let replay = "--trace store.csv --loops 1 --remap none";
    let (generated, replayed) = (run(STORE, "--stack raw:pm9d3"), run(replay, "--stack raw:pm9d3"));
    for key in ["host_bytes_written", "host_bytes_trimmed", "media_bytes_written", "requests"] {
        assert_eq!(generated[key], replayed[key], "{key}");
    }
    // By kind of file: the same kinds with other numbers, which are handles as well.
    let tagged = |source: &str| run(source, "--stack tag:pm9d3 --tag-by directory")["waf"].as_f64();
    let (generated, replayed) = (tagged(STORE), tagged(replay));
    let ratio = generated.expect("a WAF") / replayed.expect("a WAF");
    assert!((0.97..1.03).contains(&ratio), "{generated:?} and {replayed:?}");
}
