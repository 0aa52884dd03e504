//! Bounds of a server: hosts that may request its status on a port, and address space for its start and stop.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use super::serve::{PATIENCE, Served, format};
use crate::scratch;

/// The status line of the port's answer to `GET /status` with these headers.
fn asks(port: u16, version: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    write!(stream, "GET /status HTTP/{version}\r\n{headers}\r\n").expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.lines().next().expect("a status").to_owned()
}

/// A TCP port of this machine that no program listens on now.
pub fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    free.local_addr().expect("a port").port()
}

/// A page of a browser, whose name leads to this machine from one moment to the next, is not told names of volumes.
#[test]
fn status_by_a_name_that_is_not_ours_is_refused() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let text = std::fs::read_to_string(folder.join("pool.toml")).expect("settings");
    let text = text + "[serve]\nhttp_hosts = ['monitor.example']\n";
    std::fs::write(folder.join("pool.toml"), text).expect("settings");
    let port = free_port();
    let served = Served::start(folder, &format!("--http 127.0.0.1:{port}"));
    for host in ["127.0.0.1", "localhost", "[::1]", "Monitor.example", "192.0.2.7"] {
        let answer = asks(port, "1.1", &format!("Host: {host}:{port}\r\nConnection: close\r\n"));
        assert!(answer.contains("200"), "{host}: {answer}");
    }
    assert!(asks(port, "1.0", "").contains("200"), "no browser states no host");
    for host in ["evil.example", "127.0.0.1.evil.example", "xmonitor.example"] {
        let answer = asks(port, "1.1", &format!("Host: {host}:{port}\r\nConnection: close\r\n"));
        assert!(answer.contains("421"), "{host}: {answer}");
    }
    assert_eq!(served.stop(), 0);
}

/// A server that starts with little address space can stop. A server with too little reports an error.
#[test]
fn a_stop_takes_no_memory_that_is_not_there() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let program = env!("CARGO_BIN_EXE_thermocline");
    let (mut began, mut refused, mut short) = (0, 0, 0);
    for kib in (0..60).map(|step| 250_000 - 2000 * step) {
        let mut command = Command::new("sh");
        let text = format!("ulimit -v {kib}; exec {program} serve pool.toml");
        command.args(["-c", &text]).current_dir(folder);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("a shell");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("it was piped"));
        out.read_line(&mut line).expect("UTF-8");
        if line.is_empty() {
            let done = child.wait_with_output().expect("it is ours");
            let (code, err) = (done.status.code(), String::from_utf8_lossy(&done.stderr));
            let in_order = matches!(code, Some(1 | 2)) && !err.contains("panicked");
            assert!(in_order, "{kib} KiB: {code:?}, {err}");
            refused += 1;
            short = if err.contains("ulimit -v") { short + 1 } else { 0 };
            if short == 5 {
                // With much less no program begins. Where the system puts libraries and stacks decides about single
                // steps.
                break;
            }
            continue;
        }
        let stop = Command::new("kill").arg(child.id().to_string()).status();
        assert!(stop.expect("there is a `kill`").success());
        let done = child.wait_with_output().expect("it is ours");
        let err = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(0), "{kib} KiB: {err}");
        (began, short) = (began + 1, 0);
    }
    assert!(began > 10 && refused > 0, "{began} began, {refused} did not");
}
