//! `/health` and `/ready`: what supervisors ask.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use thermocline_nbd::protocol::request;

use super::serve::{PATIENCE, Served, command, format, format_mirrored, run};
use super::serve_bounds::free_port;
use super::serve_full::fill;
use crate::scratch;

/// The code and the body of an answer. `headers` end with a line break each.
fn ask(
    mut stream: impl std::io::Read + std::io::Write,
    path: &str,
    headers: &str,
) -> (u16, String) {
    write!(stream, "GET {path} HTTP/1.0\r\n{headers}\r\n").expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a header");
    (head.split(' ').nth(1).expect("a code").parse().expect("a number"), body.to_owned())
}

fn socket(folder: &Path) -> UnixStream {
    let stream = UnixStream::connect(folder.join("pool.status.sock")).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

/// The answer of the status socket of the pool in `folder`.
fn of(folder: &Path, path: &str) -> (u16, String) {
    ask(socket(folder), path, "")
}

/// Waits until the answer of `path` contains `expected`; returns the answer.
fn answers(folder: &Path, path: &str, expected: &str) -> (u16, String) {
    let began = Instant::now();
    loop {
        let (code, body) = of(folder, path);
        if body.contains(expected) {
            return (code, body);
        }
        assert!(began.elapsed() < PATIENCE, "{code} {body}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_sound_pool_is_healthy_and_ready_on_the_socket_and_the_port() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let port = free_port();
    let served = Served::start(folder, &format!("--http 127.0.0.1:{port}"));
    for path in ["/health", "/ready"] {
        assert_eq!(of(folder, path), (200, "ok\n".to_owned()));
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let json = ask(stream, path, "Accept: text/html, application/json\r\n");
        assert_eq!(json, of(folder, &format!("{path}.json")), "JSON by a header or the path");
        assert_eq!(json.0, 200);
        let report: Value = serde_json::from_str(&json.1).expect("JSON");
        assert_eq!(report["schema"], "thermocline.health/1");
        assert_eq!((&report["state"], &report["reasons"]), (&"ok".into(), &serde_json::json!([])));
    }
    assert_eq!(of(folder, "/healthy").0, 404);
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_pool_that_takes_no_writes_is_neither_healthy_nor_ready() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let mut served = Served::start(folder, "");
    fs::remove_file(folder.join("pool.img")).expect("it is there");
    let (code, body) = answers(folder, "/health", "failed\n");
    assert_eq!(code, 503);
    assert!(body.contains("pool.img was removed while it was in use"), "{body}");
    assert_eq!(of(folder, "/ready").0, 503);
    let report: Value = serde_json::from_str(&of(folder, "/health.json").1).expect("JSON");
    assert_eq!(report["state"], "failed");
    served.signal("TERM");
    assert_eq!(served.child.wait().expect("it ends").code(), Some(1));
}

#[test]
fn a_lost_member_and_a_full_pool_are_reasons_and_writes_go_on() {
    let folder = scratch();
    let folder = folder.path();
    format_mirrored(folder, "auto");
    fs::remove_file(folder.join("a.img")).expect("it is there");
    run(folder, "device keep pool.toml b.img").ok();
    let served = Served::start(folder, "");
    let (code, body) = answers(folder, "/health", "degraded\n");
    assert!(code == 200 && body.contains("mirror `m`"), "{body}");
    run(folder, "volume create pool.toml big 1GiB").ok();
    fill(&served, "big");
    let (code, body) = answers(folder, "/ready", "the pool is full");
    assert!(code == 200 && body.starts_with("degraded\n"), "{body}");
    assert_eq!(served.stop(), 0);
}

/// Spawns a server whose pool is locked, and waits until the server answers. Returns the server and the answer.
fn while_locked(folder: &Path) -> (std::process::Child, (u16, String)) {
    loop {
        let mut serve = command(folder, "serve pool.toml");
        let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
        // A server waits for a lock for two seconds. On a busy machine that may be too short: then once more.
        while child.try_wait().expect("it is ours").is_none() {
            if let Ok(stream) = UnixStream::connect(folder.join("pool.status.sock")) {
                return (child, ask(stream, "/ready", ""));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_pool_that_is_being_opened_is_not_ready_and_other_requests_wait() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let image = File::open(folder.join("pool.img")).expect("it is there");
    flock(&image, FlockOperation::LockExclusive).expect("a lock");
    let (child, (code, body)) = while_locked(folder);
    assert_eq!((code, body.as_str()), (503, "opening\nthe pool is being opened or recovered\n"));
    assert_eq!(of(folder, "/health").0, 200, "a supervisor must not end a recovery");
    let mut waiting = socket(folder);
    write!(waiting, "GET /status HTTP/1.0\r\n\r\n").expect("it listens");
    drop(image);
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    assert_eq!(answers(folder, "/ready", "ok\n").0, 200);
    let served = Served { child, folder: folder.to_owned(), uris: Vec::new() };
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_server_that_stops_is_not_ready() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let mut served = Served::start(folder, "--patience 600");
    // A stop waits for a client that reads no reply.
    let mut client = served.client("main");
    for _ in 0..8 {
        client.send(request::Command::Read, 0, 0, 16 << 20, &[]).expect("sent");
    }
    served.signal("TERM");
    let (code, body) = answers(folder, "/ready", "stopping\n");
    assert_eq!((code, body.as_str()), (503, "stopping\na stop was requested\n"));
    assert_eq!(of(folder, "/health").0, 200, "a stop in order is no failure");
    drop(client);
    assert_eq!(served.child.wait().expect("it ends").code(), Some(0));
}
