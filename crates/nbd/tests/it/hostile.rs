//! Clients that mean harm, or are broken: they harm nobody but themselves.

use std::io::{Read as _, Write as _};
use std::time::Instant;

use thermocline_nbd::protocol::request::{Command, Header};
use thermocline_types::Rng;

use super::*;

/// Somebody else is served as always.
fn assert_serves(server: &Running) {
    let began = Instant::now();
    let mut client = server.client("main", Framing::Structured);
    client.call(Command::Write, 0, 4096, 0, &[3; 4096]).expect("written");
    let read = client.call(Command::Read, 0, 4096, 4096, &[]).expect("read");
    assert!(read.data == [3; 4096] && began.elapsed() < PATIENCE);
}

/// Reads until the server hangs up.
fn until_end(mut stream: UnixStream) {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("the server did not hang up: {error}"),
        }
    }
}

#[test]
fn garbage_ends_the_connection_that_it_came_on() {
    let server = Running::start(Limits::default());
    let mut rng = Rng::new(5);
    for round in 0..200 {
        let mut stream = server.raw();
        let length = rng.below(3000) as usize;
        let garbage: Vec<u8> = (0..length).map(|_| rng.below(256) as u8).collect();
        if round % 2 == 1 {
            // Garbage behind a sound beginning.
            stream.write_all(&[0, 0, 0, 3]).expect("the server listens");
            stream.write_all(b"IHAVEOPT").expect("the server listens");
        }
        // It may hang up before all is written.
        let _hung_up = stream.write_all(&garbage);
        let _hung_up = stream.shutdown(std::net::Shutdown::Write);
        until_end(stream);
    }
    for _ in 0..50 {
        let mut client = server.client("main", Framing::Extended);
        let garbage: Vec<u8> = (0..300).map(|_| rng.below(256) as u8).collect();
        let _hung_up = client.stream().write_all(&garbage);
        until_end(client.stream().try_clone().expect("a socket"));
    }
    assert_serves(&server);
    assert!(server.stopper.traffic().thrown_out > 100);
    assert!(server.stop());
}

#[test]
fn requests_that_break_off_leave_nothing() {
    let server = Running::start(Limits::default());
    let header = |length| {
        let command = Command::Write;
        let mut bytes = Vec::new();
        let request = Header { command, flags: 0, cookie: 1, offset: 0, length };
        request.encode(Framing::Simple, &mut bytes);
        bytes
    };
    for cut in 1..28 {
        let mut client = server.client("main", Framing::Simple);
        client.stream().write_all(&header(512)[..cut]).expect("taken");
    }
    for length in [512, 1 << 20, 33 << 20, u64::from(u32::MAX)] {
        let mut client = server.client("main", Framing::Simple);
        client.stream().write_all(&header(length)).expect("taken");
        client.stream().write_all(&[9; 100]).expect("taken");
    }
    let mut client = server.client("main", Framing::Structured);
    let read = client.call(Command::Read, 0, 0, 512, &[]).expect("read");
    assert!(read.data == [0; 512], "none of the writes was complete");
    assert!(server.stop());
}

#[test]
fn half_open_connections_make_room_for_others() {
    let limits = Limits { connections: 16, ..Limits::default() };
    let server = Running::start(limits);
    let mut client = server.client("main", Framing::Simple);
    let mut half_open = Vec::new();
    for _ in 0..300 {
        half_open.push(server.raw());
    }
    assert_serves(&server);
    let read = client.call(Command::Read, 0, 0, 512, &[]).expect("it was there before");
    assert_eq!(read.data.len(), 512);
    let traffic = server.stopper.traffic();
    assert!(traffic.open <= 16 && traffic.crowded_out >= 280, "{traffic:?}");
    assert!(server.stop());
}

#[test]
fn full_is_full() {
    let limits = Limits { connections: 4, ..Limits::default() };
    let server = Running::start(limits);
    let mut clients: Vec<_> = (0..4).map(|_| server.client("main", Framing::Simple)).collect();
    until_end(server.raw());
    for client in &mut clients {
        client.call(Command::Read, 0, 0, 512, &[]).expect("served on");
    }
    clients.pop();
    let began = Instant::now();
    while server.stopper.traffic().open == 4 {
        assert!(began.elapsed() < PATIENCE, "the server does not notice who left");
        std::thread::yield_now();
    }
    assert_serves(&server);
    assert!(server.stop());
}

#[test]
fn who_does_not_come_to_the_point_in_time_is_closed() {
    let limits = Limits { handshake: Duration::from_millis(100), ..Limits::default() };
    let server = Running::start(limits);
    let silent = server.raw();
    let mut client = server.client("main", Framing::Simple);
    until_end(silent);
    client.call(Command::Read, 0, 0, 512, &[]).expect("a client may be silent");
    assert!(server.stop());
}

#[test]
fn who_stops_amid_a_message_is_closed() {
    let limits = Limits { stall: Duration::from_millis(100), ..Limits::default() };
    let server = Running::start(limits);
    let mut idle = server.client("main", Framing::Simple);
    let mut client = server.client("main", Framing::Simple);
    client.stream().write_all(&[0x25, 0x60]).expect("taken");
    until_end(client.stream().try_clone().expect("a socket"));
    idle.call(Command::Read, 0, 0, 512, &[]).expect("idle is not stalled");
    assert!(server.stop());
}

/// A client that asks for a gigabyte and reads none of it holds its share of memory and nobody up.
#[test]
fn who_does_not_read_is_not_waited_for() {
    let server = Running::start(Limits::default());
    let mut slow = server.client("main", Framing::Structured);
    slow.stream().set_write_timeout(Some(Duration::from_millis(200))).expect("a socket");
    let mut sent = 0;
    while sent < 1000 && slow.send(Command::Read, 0, 0, 1 << 20, &[]).is_ok() {
        sent += 1;
    }
    for _ in 0..20 {
        assert_serves(&server);
    }
    let reads = server.stopper.traffic().requests;
    assert!(reads < 40 + 40, "{reads} requests were begun: 17 of the slow client at most");
    drop(slow);
    assert!(server.stop());
}

/// Clients that ask for as much as they can, and take no replies.
fn who_never_reads(server: &Running, count: usize) -> Vec<Client<UnixStream>> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = server.client("main", Framing::Simple);
        client.stream().set_nonblocking(true).expect("a socket");
        for _ in 0..64 {
            // The socket is full when the server reads no more.
            let _full = client.send(Command::Read, 0, 0, 1 << 20, &[]);
        }
        clients.push(client);
    }
    clients
}

#[test]
fn all_who_do_not_read_hold_no_more_than_there_is_for_all() {
    let limits = Limits { memory: 8 << 20, payload: 1 << 20, ..Limits::default() };
    let server = Running::start(limits);
    let mut good = server.client("main", Framing::Simple);
    let never = who_never_reads(&server, limits.connections - 2);
    for round in 0..50 {
        good.call(Command::Write, 0, 4096, 0, &[round; 4096]).expect("written");
        let read = good.call(Command::Read, 0, 4096, 4096, &[]).expect("read");
        assert!(read.data == [round; 4096]);
        let held = server.stopper.traffic().held_bytes;
        assert!(held <= limits.memory, "{held}");
    }
    assert!(server.stopper.traffic().held_bytes > limits.memory / 4, "they hold what they can");
    drop(never);
    good.call(Command::Read, 0, 0, 1 << 20, &[]).expect("there is room again");
    assert!(server.stop());
}

#[test]
fn who_does_not_read_is_closed_when_others_need_the_memory() {
    let pressed = Duration::from_millis(200);
    let limits = Limits { memory: 8 << 20, payload: 1 << 20, pressed, ..Limits::default() };
    let server = Running::start(limits);
    let mut good = server.client("main", Framing::Simple);
    let never = who_never_reads(&server, 20);
    // More than its part, which is 32 KiB.
    for _ in 0..20 {
        let read = good.call(Command::Read, 0, 0, 1 << 20, &[]).expect("read");
        assert_eq!(read.data.len(), 1 << 20);
    }
    assert!(server.stopper.traffic().thrown_out > 0);
    drop(never);
    assert!(server.stop());
}
