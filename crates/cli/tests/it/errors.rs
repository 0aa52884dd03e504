//! Wrong input: exit code 2 and a reason, always.

use crate::{lab, lab_in, scratch, write};

/// Arguments after `run --stack raw:ideal --workload uniform --span 64MiB`, and a text in the error.
const SETTINGS: &[(&str, &str)] = &[
    ("--utilisation 0", "utilisation is 0"),
    ("--utilisation 2", "at most 1"),
    ("--utilisation nan", "`nan` must be a number, such as 0.25 or 25%"),
    ("--utilisation 1e-12", "2^31"),
    ("--capacity 1MiB", "the workload addresses 64 MiB"),
    ("--capacity 0", "needs 4 at least"),
    ("--capacity 900000TB", "of memory"),
    ("--fast-capacity 1GiB", "--fast-capacity is that of the fast device under tier"),
    ("--capacity 1parsec", "not a size"),
    ("--queue-depth 0", "1 to 65536"),
    ("--queue-depth 4 --speed 2", "cannot be used with"),
    ("--speed nan", "--speed is NaN"),
    ("--speed 2", "--rate"),
    ("--daily-writes 0", "above 0"),
    ("--read-share 1", "nothing to write"),
    ("--read-share 0.5 --trim-share 0.5", "nothing to write"),
    ("--read-share 1.5", "read share is 1.5"),
    ("--trim-share nan", "`nan` must be a number, such as 0.25 or 25%"),
    ("--io-size 0", "I/O size is 0 B"),
    ("--io-size 513", "multiple of 512 B"),
    ("--io-size 1GiB", "larger than the span"),
    ("--writes 0", "--writes must be at least 1"),
    ("--writes 5 --drive-writes 5", "cannot be used with"),
    ("--drive-writes 0", "above 0"),
    ("--drive-writes nan", "drive writes are NaN"),
    ("--rate 0", "rate is 0"),
    ("--loops 2", "--loops is for traces"),
    ("--volume a", "--volume is for traces"),
    ("--prefill first-touch", "is for traces"),
    ("--prefill full", "first-touch, sequential, none"),
    ("--victim lottery", "greedy"),
    ("--placement tenant", "raw:ideal takes none"),
    ("--seed one", "invalid"),
    ("--report .", "cannot write"),
    ("--record none/such.json", "cannot write"),
    ("--report a --record a", "the same file"),
];

#[test]
fn settings() {
    for (arguments, expected) in SETTINGS {
        let run = format!("run --stack raw:ideal --workload uniform --span 64MiB {arguments}");
        let complaint = lab(&run).refused(2);
        assert!(complaint.contains(expected), "{arguments}: {complaint}");
    }
}

#[test]
fn workloads() {
    let cases = [
        ("--workload zipf:-1", "THETA is -1"),
        ("--workload zipf:nan", "THETA is nan"),
        ("--workload zipf", "THETA is missing"),
        ("--workload hotcold:0:0", "DATA% is 0"),
        ("--workload uniform:1", "one parameter too many"),
        ("--workload sequential", "`sequential` is not a workload"),
        ("--workload none/such.toml", "none/such.toml"),
        (
            "--workload lsm:fs.extend=1MiB",
            "lsm fs.extend is `1MiB`: there is no such key; there are strategy",
        ),
        (
            "--workload lsm:pace=fast",
            "lsm pace is `fast`: must be above 0; `thermocline lab list lsm`",
        ),
        ("--workload lsm:load=50%", "lsm load is `8 GiB`: must be at most keys, 2.40 GiB"),
        (
            "--workload lsm:keys=90% --span 1GiB",
            "workload lsm: the file system of 1 GiB is full after",
        ),
        ("--workload lsm --read-share 0.5", "lsm:reads=on"),
        ("--workload uniform --span 0", "span is 0 B"),
        ("--workload uniform --span 4KiB", "give a --capacity"),
        ("--workload uniform --span 1000TiB", "of memory"),
        ("", "--trace FILE, or --workload SPEC"),
        ("--workload uniform --trace x.csv", "cannot be used with"),
    ];
    for (arguments, expected) in cases {
        let complaint = lab(&format!("run --stack raw:ideal {arguments}")).refused(2);
        assert!(complaint.contains(expected), "{arguments}: {complaint}");
    }
}

#[test]
fn stacks() {
    let cases = [
        ("--stack ideal", "LAYER:DEVICE"),
        ("--stack fast:ideal", "raw, tag"),
        ("--stack raw:p5317", "did you mean `p5316`?"),
        ("--stack raw:none/such.toml", "cannot read the profile none/such.toml"),
        ("--stack tag:p5316", "takes no placement handles"),
        ("--stack tag:pm9d3 --placement none", "takes tenant"),
        ("--stack tag:pm9d3 --placement sepbit", "takes tenant, file, directory, auto, dac:6"),
        ("--stack tag:pm9d3 --tag-by file", "does not know its files"),
        ("--stack tag:pm9d3 --tag-by colour", "possible values: file, directory, volume"),
        ("--stack tag:pm9d3 --set tag.handle=1", "tag.placement=NAME"),
        ("--stack log:ideal --placement tenant", "none, sepgc, lsm-zgc"),
        ("--stack log:ideal --set log.units=8MiB", "log.units is unknown; there are log.unit"),
        ("--stack log:ideal --set pool.read_plan=all", "basic, segment, cost"),
        (
            "--stack log:ideal --utilisation 0.99 --set device.garbage=0.01",
            "give device.garbage=0.",
        ),
        ("--stack log:zn540 --utilisation 0.99", "--utilisation 0."),
        ("--stack log:zn540 --utilisation 0.5 --set log.unit=512", "at least 4KiB"),
        ("--stack raw:zn540", "takes only sequential writes"),
        ("--stack raw:zn540 --prefill none", "takes only sequential writes"),
        ("--stack raw:ideal --set op=1", "device.KEY=VALUE"),
        ("--stack raw:ideal --set device.op", "device.KEY=VALUE"),
        ("--stack raw:ideal --set device.opp=1", "unknown field `opp`"),
        ("--stack raw:ideal --set device.op=nan", "between 0 and 16"),
        ("--stack raw:ideal --set device.op=0", "units are too few"),
        ("--stack raw:ideal --set device.op=0", "; give a larger device.op"),
        ("--stack raw:p5316 --set device.op=0.01", "MiB or more, or a larger device.op"),
        ("--stack raw:ideal --set device.unit=1GiB", "needs 4 at least"),
        ("--stack raw:p5316 --set device.buffer.size=1TiB", "at most 64 GiB"),
    ];
    for (arguments, expected) in cases {
        let run = format!("run --workload uniform --span 64MiB {arguments}");
        let complaint = lab(&run).refused(2);
        assert!(complaint.contains(expected), "{arguments}: {complaint}");
    }
    let one = lab("compare --workload uniform --stack raw:ideal").refused(2);
    assert!(one.contains("lab run"), "{one}");
}

/// A pool has a size of its own, so size arguments are refused.
#[test]
fn a_workload_that_a_pool_cannot_hold_is_told_what_helps() {
    let folder = scratch();
    let pool =
        "[device]\npath = \"p\"\nsize = \"64MiB\"\n[[volumes]]\nname = \"v\"\nsize = \"32MiB\"\n";
    write(folder.path(), "pool.toml", pool);
    let run = "run --pool pool.toml --workload uniform --span 60MiB";
    let complaint = lab_in(folder.path(), run).refused(2);
    assert!(
        complaint.contains("; give a pool on a larger device, or --prefill none"),
        "{complaint}"
    );
    for refused in ["--capacity", "--utilisation"] {
        assert!(!complaint.contains(refused), "{complaint}");
        lab_in(folder.path(), &format!("{run} {refused} 0.5")).refused(2);
    }
}

#[test]
fn a_drive_that_is_too_small_is_told_how_large_it_must_be_and_runs_then() {
    let cases = [
        ("--stack raw:p5316 --span 1MiB", " --capacity 1MiB", "--capacity"),
        ("--stack raw:pm9d3 --span 1MiB", "", "--capacity"),
        ("--stack log:p5316 --span 1MiB", " --capacity 1MiB", "--capacity"),
        ("--stack tier:p5800x+p5316 --span 16MiB --capacity 64MiB", "", "--fast-capacity"),
        (
            "--stack tier:pm9d3+p5316 --span 16MiB --capacity 64MiB",
            " --fast-capacity 1MiB",
            "--fast-capacity",
        ),
    ];
    for (arguments, size, name) in cases {
        let run = format!("run --workload uniform --drive-writes 0.5 {arguments}");
        let complaint = lab(&format!("{run}{size}")).refused(2);
        let (_, advice) = complaint
            .split_once(&format!("; give a {name} of "))
            .unwrap_or_else(|| panic!("{complaint}"));
        let least = advice.split_whitespace().next().expect("a size");
        assert!(advice.starts_with(&format!("{least} or more")), "{complaint}");
        lab(&format!("{run} {name} {least}")).ok();
    }
}

#[test]
fn a_reason_is_given_once() {
    let complaint = lab("run --workload uniform --span 64MiB --stack raw:zn540").refused(2);
    assert_eq!(complaint.matches("the zone is full").count(), 1, "{complaint}");
}

#[test]
fn own_profiles_name_file_and_key() {
    let folder = scratch();
    let profile = lab("list devices p5316").ok();
    let cases = [
        ("capacity = \"15.36TB\"", "capacity = \"big\"", "`capacity`", "`big` is not a size"),
        ("capacity = \"15.36TB\"", "capacity = 0", "`capacity`", "above zero"),
        ("mapping_unit = \"64KiB\"", "mapping_unit = \"3KiB\"", "`mapping_unit`", "power of two"),
        ("kind = \"conventional\"", "kind = \"zns\"", "`zns`", "needs [zns]"),
        ("kind = \"conventional\"", "kind = \"tape\"", "`kind`", "`tape`"),
        ("op = 0.1453", "op = -0.1", "`op`", "between 0 and 16"),
        ("read_us = 85", "read_us = nan", "`timing.read_us`", "microseconds"),
        ("read_us = 85", "read_us = \"fast\"", "`timing.read_us`", "invalid type"),
        ("bus_mb_per_s = 1200", "bus_mb_per_s = 0", "`timing.bus_mb_per_s`", "above 0"),
        ("channels = 16", "channels = 0", "`geometry`", "channels"),
        ("warranty_years = 5", "warranty_years = nan", "`wear.warranty_years`", "above zero"),
        ("[gc]", "[garbage_collection]", "", "unknown field `garbage_collection`"),
        ("op = 0.1453", "op = = 1", "", "line 6"),
    ];
    for (from, to, key, reason) in cases {
        assert!(profile.contains(from), "{from}");
        write(folder.path(), "mine.toml", profile.replacen(from, to, 1));
        let run = "run --stack raw:./mine.toml --workload uniform --span 64MiB";
        let complaint = lab_in(folder.path(), run).refused(2);
        for part in ["mine.toml", key, reason] {
            assert!(complaint.contains(part), "{to}: {complaint}");
        }
    }
}

#[test]
fn traces() {
    let folder = scratch();
    let header = "timestamp_us,op,offset_bytes,length_bytes,tenant\n";
    let whole = format!("{header}{}", "1,W,0,4096,0\n".repeat(5000));
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gz, whole.as_bytes()).expect("in memory");
    let gz = gz.finish().expect("in memory");
    let cases: [(&[u8], &str); 12] = [
        (b"", "the trace is empty"),
        (header.as_bytes(), "no request"),
        (&gz[..gz.len() / 2], "truncated"),
        (b"hello world\nof text\n", "no trace in a known format"),
        (b"timestamp_us,op,offset_bytes,length_bytes\n1,R,0,4096\n", "holds no writes"),
        (
            b"timestamp_us,op,offset_bytes,length_bytes\n1,W,0,4096\n2,X,0,4096\n",
            "trace.csv:3: expected an operation",
        ),
        (
            b"timestamp_us,op,offset_bytes,length_bytes\n1,W,-5,4096\n",
            "trace.csv:2: expected an offset",
        ),
        (
            b"timestamp_us,op,offset_bytes,length_bytes\n1,W,0,4096\n2,W,0\n",
            "trace.csv:3: expected",
        ),
        (
            b"timestamp_us,op,offset_bytes,length_bytes\n1,W,18446744073709551104,4096\n",
            "below 2^63",
        ),
        (b"timestamp_us,op,offset_bytes,length_bytes\n1,W,0,17179869184\n", "at most 4 GiB"),
        (b"\xff\xfet\0i\0m\0e\0", "UTF-16"),
        (b"timestamp_us,op,offset_bytes,length_bytes\n1,W,0,4096\n", "give a --capacity"),
    ];
    for (content, expected) in cases {
        write(folder.path(), "trace.csv", content);
        let complaint = lab_in(folder.path(), "run --stack raw:p5316 --trace trace.csv").refused(2);
        assert!(complaint.contains(expected), "{}: {complaint}", content.escape_ascii());
    }
}

#[test]
fn trace_settings() {
    let folder = scratch();
    write(
        folder.path(),
        "trace.csv",
        "timestamp_us,op,offset_bytes,length_bytes\n1,W,1073741824,4096\n",
    );
    let cases = [
        ("--trace none.csv", "none.csv: cannot open"),
        ("--trace .", "is a directory"),
        ("--trace -", "save standard input to a file"),
        ("--trace trace.csv --format msr", "trace.csv:2: expected Read or Write"),
        ("--trace trace.csv --format ntfs", "known are thermocline-csv"),
        ("--trace trace.csv --volume z", "no volume `z`"),
        ("--trace trace.csv --loops 0", "--loops must be at least 1"),
        ("--trace trace.csv --span 1GiB", "--span is for generators"),
        ("--trace trace.csv --remap none", "give --capacity"),
        ("--trace trace.csv --remap none --capacity 1GiB", "the device ends at"),
        ("--trace trace.csv --remap inside-out", "inside-out"),
        ("--trace trace.csv --record trace.csv", "the trace itself"),
    ];
    for (arguments, expected) in cases {
        let complaint =
            lab_in(folder.path(), &format!("run --stack raw:ideal {arguments}")).refused(2);
        assert!(complaint.contains(expected), "{arguments}: {complaint}");
    }
}

#[test]
fn other_commands() {
    let cases = [
        ("list", "<WHAT>"),
        ("list cars", "devices, layers"),
        ("list devices p5317", "there are ideal"),
        ("list victims greedy", "devices only"),
        ("theory astrology", "no table is called `astrology`"),
        ("reproduce cold-fusion", "there are uniform-greedy"),
        ("reproduce micron-zero-op --traces none", "none"),
        ("reproduce warp", "name it with --logs DIR"),
        ("reproduce ftlsim --logs none", "goes with `lab reproduce warp` alone"),
        ("reproduce warp --logs none", "none/logs.csv"),
        ("analyze", "--trace FILE, or --workload SPEC"),
        ("convert --trace none.csv", "none.csv: cannot open"),
        (
            "convert --trace none.csv",
            "of traces that come with the program there are postgres-tpcc",
        ),
        ("convert --trace cassandra-ycsb-a --out none/such.csv", "there is no folder none"),
        ("bench-placement --only-workload uniform --report none/such", "there is no folder none"),
        ("fly", "unrecognized subcommand"),
        (
            "pts --stack raw:zn540 --quick",
            "IOPS writes at random, which a zoned drive takes only below a log",
        ),
        (
            "pts --stack raw:zn540 --test latency",
            "give --stack log:zn540, or only --test throughput",
        ),
        (
            "compare --stack raw:ideal --stack raw:p5316 --workload uniform --fast-capacity 1GiB",
            "there is none in raw:ideal, raw:p5316",
        ),
        (
            "sweep --stack raw:ideal --workload uniform --sweep fast_capacity=1GiB,2GiB",
            "there is none in raw:ideal",
        ),
        (
            "sweep --stack raw:ideal --workload uniform --sweep queue_depth=1..4:7",
            "how many values it has, not how far apart they are",
        ),
    ];
    for (arguments, expected) in cases {
        let complaint = lab(arguments).refused(2);
        assert!(complaint.contains(expected), "{arguments}: {complaint}");
    }
}

#[test]
fn a_command_in_the_wrong_place_is_answered_with_the_command_that_was_meant() {
    for (typed, meant) in [
        (
            "run --stack raw:p5316",
            "`run` is a command of the lab. You meant: thermocline lab run --stack raw:p5316\n",
        ),
        ("list devices", "You meant: thermocline lab list devices\n"),
        (
            "lab analyze postgres-tpcc --quick",
            "You meant: thermocline lab analyze --trace postgres-tpcc --quick\n",
        ),
        (
            "lab status pool.toml",
            "`status` is a command of pools. You meant: thermocline status pool.toml\n",
        ),
    ] {
        let complaint = super::serve::run(scratch().path(), typed).refused(2);
        assert!(complaint.ends_with(meant), "{complaint}");
    }
}

#[test]
fn misspelt_names_are_answered_with_the_nearest_and_numbers_with_the_reason() {
    for (typed, part) in [
        ("run --stack raw:p5361 --workload uniform", "did you mean `p5316`?"),
        ("run --stack rwa:p5316 --workload uniform", "did you mean `raw`?"),
        ("run --stack raw:p5316 --workload unifrom", "did you mean `uniform`?"),
        ("run --stack log:p5316 --placement sepbitt --workload uniform", "did you mean `sepbit`?"),
        ("run --stack raw:p5316 --victim greddy --workload uniform", "did you mean `greedy`?"),
        ("analyze --trace postgres-tpc", "did you mean `postgres-tpcc`?"),
        ("list devices p5361", "did you mean `p5316`?"),
        ("list devices 990-pro", "did you mean `990pro`?"),
        ("sheets ps1011", "did you mean `ps1010`?"),
        ("list devcies", "tip: a similar value exists: 'devices'"),
        ("anlyze --trace postgres-tpcc", "tip: a similar subcommand exists: 'analyze'"),
        ("run --stack raw:p5316 --workload uniform --span -5", "invalid value '-5' for '--span"),
        ("run --stack raw:p5316 --workload uniform --read-share 1x%", "such as 0.25 or 25%"),
        ("run --stack raw:~/none.toml --workload uniform", "none.toml: No such file"),
    ] {
        let complaint = lab(typed).refused(2);
        assert!(complaint.contains(part), "{typed}: {complaint}");
    }
}

#[test]
fn a_share_may_be_a_percentage() {
    let figures = |share: &str| {
        let more = "run --stack raw:p5316 --workload uniform --span 16MiB --drive-writes 1 --json";
        let json: serde_json::Value =
            serde_json::from_str(&lab(&format!("{more} --read-share {share}")).ok()).expect("JSON");
        json["host_bytes_read"].as_u64().expect("bytes")
    };
    assert_eq!(figures("10%"), figures("0.1"));
    assert!(figures("10%") > 0);
}

#[test]
fn what_the_machine_refuses_exits_1() {
    if cfg!(target_os = "linux") {
        let run = "run --stack raw:ideal --workload uniform --span 16MiB --record /dev/full";
        let done = lab(run);
        assert_eq!(done.code, 1, "{}", done.err);
        assert!(done.err.contains("cannot write /dev/full"), "{}", done.err);
        assert!(done.out.contains("WAF"), "what was measured is shown all the same");
    }
}
