//! Servers in the background: start, wait, stop.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, getpgrp, getsid};

use super::serve::{Served, command, format, run};
use crate::{scratch, write};

/// Ends the server of a pool when a test fails.
struct Stopped<'a>(&'a Path);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        run(self.0, "stop pool.toml");
    }
}

#[test]
fn a_daemon_is_ready_when_the_command_returns_and_ends_by_stop() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let _stopped = Stopped(folder);
    let out = run(folder, "serve pool.toml --daemon").ok();
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("nbd+unix:///main?socket=/"), "{out}");
    let last = lines[2].strip_prefix("process ").expect("the process id");
    let id: i32 = last.strip_suffix(", messages in pool.log").unwrap().parse().unwrap();
    assert_eq!(run(folder, "stat pool.toml").ok().lines().count(), 2);
    let session = getsid(Pid::from_raw(id)).expect("it runs");
    assert_eq!(session.as_raw_nonzero().get(), id, "a closed terminal does not end the daemon");
    assert_ne!(session, getpgrp());
    assert_eq!(run(folder, "stop pool.toml").ok(), format!("stopped process {id}\n"));
    let checked = run(folder, "check pool.toml --json").json();
    assert_eq!(checked["replayed_chunks"], 0, "the pool was closed in order");
    let none = run(folder, "stop pool.toml").refused(2);
    assert!(none.contains("pool.toml: the pool is not served"), "{none}");
}

#[test]
fn a_daemon_that_cannot_serve_reports_why_and_leaves_no_files() {
    let folder = scratch();
    let folder = folder.path();
    write(folder, "pool.toml", "[device]\npath = 'pool.img'\nsize = '64MiB'\n");
    let none = run(folder, "serve pool.toml --daemon").refused(2);
    assert!(none.contains("pool.img"), "{none}");
    assert!(!folder.join("pool.log").exists());
    format(folder);
    let _stopped = Stopped(folder);
    run(folder, "serve pool.toml --daemon").ok();
    let twice = run(folder, "serve pool.toml --daemon").refused(2);
    assert!(twice.contains("serves there already"), "{twice}");
    let log = std::fs::read_to_string(folder.join("pool.log")).expect("messages");
    assert!(log.contains("serves there already"), "{log}");
}

#[test]
fn a_wait_ends_when_another_process_serves_the_pool() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let none = run(folder, "serve pool.toml --wait=0").refused(2);
    assert!(none.contains("pool.status.sock"), "{none}");
    let wait = command(folder, "serve pool.toml --wait").stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let served = Served::start(folder, "");
    let waited = wait.wait_with_output().expect("it ends");
    assert_eq!(waited.status.code(), Some(0));
    let uris: Vec<String> =
        String::from_utf8(waited.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(uris[..], served.uris[..2]);
    assert_eq!(served.stop(), 0);
}
