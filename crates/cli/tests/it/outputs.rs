//! Tables, files and pipes.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::{command, lab, lab_in, repository, scratch, write};

const TWO: &str =
    "compare --workload uniform --span 64MiB --drive-writes 4 --stack raw:p5316 --stack raw:ideal";

#[test]
fn a_comparison_holds_the_runs_in_the_order_given() {
    let comparison = lab(&format!("{TWO} --json")).json();
    assert_eq!(comparison["schema"], "thermocline.compare/1");
    let runs = comparison["runs"].as_array().expect("runs");
    let stacks: Vec<&Value> = runs.iter().map(|run| &run["stack"]).collect();
    assert_eq!(stacks, ["raw:p5316", "raw:ideal"]);
    assert!(runs.iter().all(|run| run["schema"] == "thermocline.run/1"));
    assert_eq!(runs[0]["host_bytes_written"], runs[1]["host_bytes_written"]);
}

#[test]
fn a_run_in_a_comparison_is_the_run_alone() {
    // Both have mapping units of 4 KiB, so the addresses of the trace are the same in either.
    let trace = "--json --trace crates/workload/testdata/rocksdb-overwrite.csv.gz";
    let both = lab(&format!("compare {trace} --stack raw:ideal --stack raw:pm9d3")).json();
    let alone = lab(&format!("run {trace} --stack raw:pm9d3")).json();
    assert_eq!(both["runs"][1]["media_bytes_written"], alone["media_bytes_written"]);
}

#[test]
fn the_table_shows_the_numbers_of_the_record() {
    let folder = scratch();
    let run = "run --workload uniform --span 64MiB --stack raw:ideal --record record.json";
    let table = lab_in(folder.path(), run).ok();
    let record = std::fs::read_to_string(folder.path().join("record.json")).expect("a record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    let row = table.lines().find(|line| line.trim_start().starts_with("whole run")).expect("a row");
    let shown: f64 =
        row.split_whitespace().last().and_then(|text| text.parse().ok()).expect("a number");
    assert!((shown - record["waf"].as_f64().expect("a WAF")).abs() < 0.0006, "{row}");
    for nonsense in ["NaN", "inf", "-0.0"] {
        assert!(!table.contains(nonsense), "{table}");
    }
}

#[test]
fn tenants_have_a_table_of_their_own() {
    let folder = scratch();
    let tenant = |name: &str, workload: &str| {
        format!("[[tenant]]\nname = '{name}'\nworkload = '{workload}'\n")
    };
    let two = tenant("in order", "seq") + &tenant("all over", "uniform");
    write(folder.path(), "two.toml", &two);
    let run = "run --workload two.toml --span 64MiB --stack log:zn540 --utilisation 0.6 --record run.json";
    let table = lab_in(folder.path(), run).ok();
    let record = std::fs::read_to_string(folder.path().join("run.json")).expect("a record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    let below = table.split("log:zn540 by tenant").nth(1).expect("a table");
    for (tenant, name) in [(0, "in order"), (1, "all over")] {
        let waf = record["tenants"]["each"][tenant]["waf"].as_f64().expect("it wrote");
        let row = below.lines().find(|line| line.trim_start().starts_with(name)).expect("a row");
        assert!(row.contains(&format!("{waf:.3}")), "{row}");
    }
    assert!(below.contains("nobody's"), "headers and maps:\n{below}");
}

/// A tenant that writes in order has fewer copies than one that writes everywhere; the accounts add up.
#[test]
fn copies_are_on_the_accounts_of_placement_handles() {
    let folder = scratch();
    let tenants = "tenant = [{ name = 'order', workload = 'seq', span = '50%' }, \
                   { name = 'all over', workload = 'uniform' }]";
    write(folder.path(), "two.toml", tenants);
    let run = "run --stack tag:pm9d3 --workload two.toml --span 128MiB --drive-writes 8";
    let record = lab_in(folder.path(), &format!("{run} --json --report page.html")).json();
    let handles = record["handles"].as_array().expect("handles");
    let sum = |key: &str| handles.iter().map(|h| h[key].as_u64().expect("bytes")).sum::<u64>();
    let media = &record["media_bytes_written"];
    let relocated = media["by_cause"]["relocation"].as_u64().expect("bytes");
    assert!(relocated > 0);
    assert_eq!(sum("bytes_relocated"), relocated);
    assert_eq!(sum("bytes_relocated_by_own") + sum("bytes_relocated_by_others"), relocated);
    assert_eq!(sum("host_bytes_programmed") + relocated, media["total"].as_u64().expect("bytes"));
    let others = sum("bytes_relocated_by_others").abs_diff(sum("bytes_relocated_of_others"));
    assert!(others <= 2, "rounded: {others}");
    let waf = |index: usize| handles[index]["waf"].as_f64().expect("it wrote");
    assert!(handles.len() == 2 && waf(0) < waf(1), "{handles:?}");
    let table = lab_in(folder.path(), run).ok();
    assert!(table.contains("tag:pm9d3 by placement handle"), "{table}");
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert!(page.contains("Placement handles"));
    let raw = run.replace("tag:", "raw:");
    assert!(!lab_in(folder.path(), &raw).ok().contains("by placement handle"));
}

#[test]
fn a_short_run_is_called_transient_and_a_long_one_is_not() {
    let run = "run --stack raw:ideal --workload uniform --span 64MiB --drive-writes";
    let short = lab(&format!("{run} 1")).ok();
    for part in ["transient", "over the  ", "later half", "last half / quarter"] {
        assert!(short.contains(part), "{part} is not in {short}");
    }
    let long = lab(&format!("{run} 8")).ok();
    assert!(!long.contains("transient") && !long.contains("last half"), "{long}");
    let passes = lab("run --stack raw:ideal --trace postgres-tpcc --loops 2 --table csv").ok();
    assert!(passes.contains("passes of the trace (--loops),2\n"), "{passes}");
}

#[test]
fn the_report_needs_no_network() {
    let folder = scratch();
    let shown = lab_in(folder.path(), &format!("{TWO} --report page.html --record runs.json")).ok();
    assert!(shown.contains("report: page.html"), "{shown}");
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert!(page.starts_with("<!") && page.contains("raw:p5316") && page.contains("raw:ideal"));
    for reference in ["src=\"http", "href=\"http", "src=http", "@import", "url(http"] {
        assert!(!page.contains(reference), "{reference}");
    }
    let runs = std::fs::read_to_string(folder.path().join("runs.json")).expect("a record");
    assert!(runs.contains("thermocline.compare/1"));
}

/// `thermocline lab ARGUMENTS` with a file size limit of some KiB, as on a full disk.
fn lab_on_a_full_disk(folder: &Path, arguments: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_thermocline");
    let script = format!("trap '' XFSZ; ulimit -f 8; exec {program} lab {arguments}");
    Command::new("sh").args(["-c", &script]).current_dir(folder).output().expect("a shell")
}

#[test]
fn a_report_that_cannot_be_written_loses_neither_the_run_nor_the_report_before_it() {
    let folder = scratch();
    write(folder.path(), "page.html", "the report before");
    let run = "run --stack raw:ideal --workload uniform --span 16MiB --report page.html";
    let done = lab_on_a_full_disk(folder.path(), run);
    let err = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{err}");
    assert!(err.contains("cannot write page.html: File too large"), "{err}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("WAF (media / host)"), "{done:?}");
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("still there");
    assert_eq!(page, "the report before");
    let left = std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(left, 1, "nothing is left beside it");
}

#[test]
fn results_go_to_whatever_a_path_leads_to() {
    let folder = scratch();
    let run = "run --json --stack raw:ideal --workload uniform --span 16MiB --record /dev/stderr";
    let done = lab_in(folder.path(), run);
    assert!(done.code == 0 && done.err == done.out && done.out.contains("run/1"), "{}", done.err);
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let convert = "convert --trace crates/workload/testdata/postgres-tpcc.csv.gz";
    for arguments in [convert, "theory", "list devices"] {
        let mut child = command(&repository(), arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let mut out = BufReader::with_capacity(16, child.stdout.take().expect("piped"));
        out.read_line(&mut line).expect("a line");
        drop(out);
        let mut err = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
        let status = child.wait().expect("it ends");
        assert!(!line.is_empty() && status.success() && err.is_empty(), "{arguments}: {err}");
    }
}

#[test]
fn help_of_every_command_has_an_example() {
    for name in ["run", "compare", "analyze", "theory", "reproduce", "convert", "list"] {
        let help = lab(&format!("{name} --help")).ok();
        assert!(help.contains(&format!("  thermocline lab {name}")), "{help}");
    }
}

#[test]
fn the_examples_of_the_help_are_accepted() {
    let folder = scratch();
    let profile = lab("list devices p5316").ok();
    write(folder.path(), "mine.toml", profile);
    let run =
        "run --stack raw:./mine.toml --workload jesd219 --span 64MiB --utilisation 0.9 --json";
    let record = lab_in(folder.path(), run).json();
    let capacity = record["device"]["capacity_bytes"].as_f64().expect("a size");
    assert!((64.0 * 1048576.0 / capacity - 0.9).abs() < 0.01, "{capacity}");
}
