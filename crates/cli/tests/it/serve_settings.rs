//! Settings of the server, and volumes added while a pool is served.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use thermocline_nbd::Client;
use thermocline_nbd::protocol::request::{Command, Framing, flag};

use super::serve::{PATIENCE, Served, format, run};
use crate::{scratch, write};

/// Adds to the settings of a pool.
fn add(folder: &Path, text: &str) {
    let path = folder.join("pool.toml");
    let settings = std::fs::read_to_string(&path).expect("there are settings");
    write(folder, "pool.toml", settings + text);
}

fn http(folder: &Path, request: &str) -> (String, String) {
    let mut stream = UnixStream::connect(folder.join("pool.status.sock")).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a header");
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

#[test]
fn settings_say_how_to_serve_and_arguments_go_before() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    add(folder, "[serve]\nsocket = 'own.sock'\nlisten = ['127.0.0.1:0']\nconnections = 2\n");
    let served = Served::start(folder, "");
    assert!(served.uris[0].ends_with("/own.sock"), "{:?}", served.uris);
    assert!(served.uris[1].starts_with("nbd://127.0.0.1:"), "{:?}", served.uris);
    let connect = || {
        let stream = UnixStream::connect(folder.join("own.sock")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Client::connect(stream, "main", Framing::Simple)
    };
    let _two = [connect().expect("one"), connect().expect("another")];
    assert!(connect().is_err(), "a third is too many");
    assert_eq!(served.stop(), 0);
    let served = Served::start(folder, "--socket other.sock --connections 3");
    assert!(served.uris[0].ends_with("/other.sock"), "{:?}", served.uris);
    assert!(!folder.join("own.sock").exists());
    assert_eq!(served.stop(), 0);
    add(folder, "http = 'nowhere'\n");
    let refused = run(folder, "serve pool.toml").refused(2);
    assert!(refused.contains("pool.toml: serve.http: `nowhere` is no HOST:PORT"), "{refused}");
}

#[test]
fn a_volume_that_is_created_while_the_pool_is_served_is_served_and_stays() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    run(folder, "volume create pool.toml third 8MiB").ok();
    let mut client = served.client("third");
    assert_eq!(client.size(), 8 << 20);
    client.call(Command::Write, flag::FUA, 4096, 0, &[7; 4096]).expect("written");
    let status = served.status();
    assert_eq!(status["volumes"][2]["name"], "third");
    let uris = status["uris"].as_array().expect("a list");
    assert!(uris.iter().any(|uri| uri.as_str().is_some_and(|uri| uri.contains("/third?"))));
    let twice = run(folder, "volume create pool.toml third 8MiB").refused(2);
    assert!(twice.contains("the server of the pool says: "), "{twice}");
    let (code, _) = http(folder, "POST /volumes HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}");
    assert!(code.contains(" 409 "), "{code}");
    drop(client);
    assert_eq!(served.stop(), 0);
    let served = Served::start(folder, "--read-only");
    let mut client = served.client("third");
    let read = client.call(Command::Read, 0, 4096, 4096, &[]).expect("read");
    assert!(read.data == [7; 4096]);
    let refused = run(folder, "volume create pool.toml fourth 8MiB").refused(2);
    assert!(refused.contains("only GET"), "{refused}");
}
