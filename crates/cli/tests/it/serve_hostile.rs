//! A served pool among clients that mean harm: it stays up, serves the others, and its memory is bounded.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use thermocline_nbd::protocol::request::{Command, Framing, Header};
use thermocline_types::Rng;

use super::serve::{Served, format};
use crate::scratch;

/// Half-open connections in all.
const HALF_OPEN: usize = 3000;

/// Memory that a process has, in bytes.
fn resident(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("it runs under Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

#[test]
fn hostile_clients_harm_nobody() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "--connections 64");
    let mut good = served.client("main");
    let mut check = |round: u8| {
        good.call(Command::Write, 0, 0, 0, &[round; 4096]).expect("written");
        let read = good.call(Command::Read, 0, 0, 4096, &[]).expect("read");
        assert!(read.data == [round; 4096]);
    };
    check(1);
    let before = resident(served.child.id());
    let mut half_open = Vec::new();
    for number in 0..HALF_OPEN {
        // The listener's queue may be full for a moment.
        let mut stream = served.stream();
        if number % 3 == 0 {
            let _closed = stream.write_all(&[0, 0, 0, 3, b'I', b'H']);
        }
        half_open.push(stream);
        if half_open.len() > 200 {
            half_open.remove(0);
        }
    }
    check(2);
    let mut rng = Rng::new(3);
    for _ in 0..300 {
        let mut stream = served.stream();
        let garbage: Vec<u8> = (0..rng.below(4000)).map(|_| rng.below(256) as u8).collect();
        let _closed = stream.write_all(&garbage);
    }
    check(3);
    let mut greedy = greedy(&served);
    check(4);
    let after = resident(served.child.id());
    // Sixty-odd connections with an input of 256 KiB, and what the greedy ones were served.
    let bound = before + (64 << 20) + greedy.len() as u64 * (40 << 20);
    assert!(after < bound, "{} MiB before, {} after", before >> 20, after >> 20);
    greedy.clear();
    half_open.clear();
    check(5);
    let status = served.status();
    let clients = &status["clients"];
    let broken = clients["thrown_out"].as_u64().expect("a number");
    assert!(broken >= 300, "{clients}");
    drop(good);
    assert_eq!(served.stop(), 0);
}

/// Clients that announce writes of gigabytes, ask for much and read nothing, and reach beyond the end.
fn greedy(served: &Served) -> Vec<UnixStream> {
    let mut streams = Vec::new();
    for length in [1 << 20, 32 << 20, u64::from(u32::MAX)] {
        let mut client =
            thermocline_nbd::Client::connect(served.stream(), "main", Framing::Simple).expect("in");
        let mut bytes = Vec::new();
        let write =
            Header { command: Command::Write, flags: 0, cookie: 1, offset: 1 << 40, length };
        write.encode(Framing::Simple, &mut bytes);
        bytes.extend_from_slice(&[1; 5000]);
        client.stream().write_all(&bytes).expect("taken");
        streams.push(client.stream().try_clone().expect("a socket"));
    }
    let mut reader = served.client("main");
    let stream = reader.stream().try_clone().expect("a socket");
    stream.set_nonblocking(true).expect("a socket");
    let (mut byte, mut asked) = ([0; 1], 0);
    while asked < 5000 && reader.send(Command::Read, 0, 0, 32 << 20, &[]).is_ok() {
        asked += 1;
    }
    let _unread = (&stream).read(&mut byte);
    streams.push(stream);
    streams
}
