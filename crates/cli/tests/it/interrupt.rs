//! Ctrl-C shows partial results.

use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::serve::{command, run};
use crate::{scratch, write};

/// Interrupts a started command, later each time, until the command showed partial results.
#[track_caller]
fn interrupted(mut start: impl FnMut() -> Command, shown: impl Fn(&Output) -> bool) -> Output {
    for tenths in 2..100 {
        let mut started = start();
        started.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = started.spawn().expect("the program starts");
        sleep(Duration::from_millis(100 * tenths));
        interrupt(&child);
        let done = child.wait_with_output().expect("it ends");
        if shown(&done) {
            return done;
        }
    }
    panic!("there never was anything to show");
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
    assert!(sent.expect("there is a `kill`").success());
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A workload that outlasts every test.
const ENDLESS: &str = "--workload uniform --span 16MiB --drive-writes 1e9";

#[test]
fn a_run_shows_what_was_measured_by_then() {
    let folder = scratch();
    let arguments =
        format!("lab run --stack raw:ideal {ENDLESS} --record run.json --report run.html");
    let done = interrupted(|| command(folder.path(), &arguments), |done| !done.stdout.is_empty());
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert_eq!(done.status.code(), Some(130), "{err}");
    assert!(
        out.contains("transient") && out.contains("interrupted at 0 % of the workload"),
        "{out}"
    );
    assert!(err.contains("interrupted"), "{err}");
    let record = std::fs::read_to_string(folder.path().join("run.json")).expect("a record");
    let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    assert!(record["interrupted"].as_f64().is_some_and(|share| share < 0.01), "{record}");
    assert_eq!(record["steady_state"]["reached"], false);
    let page = std::fs::read_to_string(folder.path().join("run.html")).expect("a page");
    assert!(page.contains("interrupted at 0 %"));
}

#[test]
fn a_comparison_shows_the_stacks_of_which_something_was_measured() {
    let folder = scratch();
    let arguments = format!("lab compare --stack raw:ideal --stack raw:p5800x {ENDLESS} --json");
    let done = interrupted(|| command(folder.path(), &arguments), |done| !done.stdout.is_empty());
    assert_eq!(done.status.code(), Some(130), "{}", text(&done.stderr));
    let comparison: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let runs = comparison["runs"].as_array().expect("runs");
    assert!(!runs.is_empty() && runs.iter().all(|run| run["interrupted"].is_f64()), "{comparison}");
}

#[test]
fn placements_are_compared_as_far_as_they_were_measured() {
    let arguments = "lab bench-placement --only-workload uniform --blocks 20000 --turnovers 50 --segment 64 --json";
    let folder = scratch();
    let done = interrupted(|| command(folder.path(), arguments), |done| !done.stdout.is_empty());
    assert_eq!(done.status.code(), Some(130), "{}", text(&done.stderr));
    let outcome: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(outcome["interrupted"], true);
    let lines = outcome["tables"][0]["lines"].as_array().expect("one per policy");
    let measured = |line: &&serde_json::Value| line["nanoseconds_per_write"].is_f64();
    assert!(lines.iter().any(|line| measured(&line)) && !lines.iter().all(|line| measured(&line)));
}

#[test]
fn a_load_ends_in_order_and_its_ledger_holds() {
    let folder = scratch();
    let settings = "[device]\npath = 'pool.img'\nsize = '128MiB'\nunit = '1MiB'\n[[volumes]]\nname = 'main'\nsize = '48MiB'\n";
    write(folder.path(), "pool.toml", settings);
    run(folder.path(), "format pool.toml").ok();
    let arguments = format!("load pool.toml {ENDLESS} --ledger pool.ledger");
    let start = || command(folder.path(), &arguments);
    let done = interrupted(start, |done| !done.stdout.is_empty());
    assert_eq!(done.status.code(), Some(130), "{}", text(&done.stderr));
    assert!(text(&done.stdout).starts_with("wrote "), "{}", text(&done.stdout));
    run(folder.path(), "check pool.toml --ledger pool.ledger").ok();
    let status = run(folder.path(), "status pool.toml --json").json();
    assert_eq!(status["clean"], true, "it was closed: {status}");
}

/// Starts `lab ARGUMENTS` in a new folder, interrupts it once there is a file in it.
fn interrupted_while_it_writes(arguments: &str) -> (Output, usize) {
    let folder = scratch();
    let mut command = command(folder.path(), &format!("lab {arguments}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let files = || std::fs::read_dir(folder.path()).expect("readable").count();
    let line = "timestamp_us,op,offset_bytes,length_bytes,tenant\n".to_owned();
    // More bytes than the program's buffers hold, then close the pipe.
    let feed = std::thread::spawn(move || {
        let lines = line + &"1,W,0,4096,a\n2,W,0,4096,b\n".repeat(1000);
        let mut text = lines.as_str();
        while stdin.write_all(text.as_bytes()).is_ok() {
            text = &lines[lines.find('\n').expect("a line") + 1..];
        }
    });
    while files() == 0 {
        sleep(Duration::from_millis(10));
    }
    interrupt(&child);
    let done = child.wait_with_output().expect("it ends");
    feed.join().expect("it does not panic");
    (done, files())
}

#[test]
fn a_conversion_leaves_no_file_behind() {
    for arguments in
        ["--workload uniform --drive-writes 1e9 --out trace.csv", "--trace - --split ."]
    {
        let (done, files) = interrupted_while_it_writes(&format!("convert {arguments}"));
        let err = text(&done.stderr);
        assert_eq!(done.status.code(), Some(130), "{arguments}: {err}");
        assert_eq!((files, text(&done.stdout).as_str()), (0, ""), "{arguments}: {err}");
        assert!(err.ends_with("interrupted\n"), "nothing was measured: {err}");
    }
}
