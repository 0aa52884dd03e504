//! Servers killed while clients write: flushed data is found again, over NBD.

use std::path::Path;
use std::time::Duration;

use thermocline_nbd::protocol::request::{Command, flag};
use thermocline_nbd::{Client, ClientError};
use thermocline_types::Rng;

use super::serve::{Served, format_for, format_tiered, run};
use crate::{numbers, scratch};

pub const BLOCK: usize = 4096;
/// Number of written blocks of volume `main`.
pub const SPAN: u64 = 4096;
const DEPTH: usize = 16;

/// Known versions of a block: the newest sent version, and the newest flushed version.
#[derive(Clone, Copy, Default)]
pub struct Known {
    pub sent: u32,
    pub durable: u32,
}

/// Number of blocks with a flushed version.
pub fn durable(ledger: &[Known]) -> usize {
    ledger.iter().filter(|known| known.durable > 0).count()
}

/// A block stamped with its address and version.
fn stamped(lba: u64, version: u32) -> Vec<u8> {
    let mut rng = Rng::new(lba << 32 | u64::from(version));
    let mut block = Vec::with_capacity(BLOCK);
    block.extend_from_slice(&lba.to_le_bytes());
    block.extend_from_slice(&version.to_le_bytes());
    block.extend_from_slice(&[0; 4]);
    while block.len() < BLOCK {
        block.extend_from_slice(&rng.below(u64::MAX).to_le_bytes());
    }
    block
}

/// Writes at random until the server is gone.
pub fn write_until_the_end(
    client: &mut Client<impl std::io::Read + std::io::Write>,
    ledger: &mut [Known],
    rng: &mut Rng,
) -> Result<(), ClientError> {
    loop {
        write_some(client, ledger, rng)?;
    }
}

/// Writes some blocks at random. Every 50th write is durable by itself (FUA); now and then comes a flush.
pub fn write_some(
    client: &mut Client<impl std::io::Read + std::io::Write>,
    ledger: &mut [Known],
    rng: &mut Rng,
) -> Result<(), ClientError> {
    let mut batch = std::collections::BTreeMap::new();
    while batch.len() < DEPTH {
        let lba = rng.below(SPAN);
        batch.entry(lba).or_insert_with(|| {
            ledger[lba as usize].sent += 1;
            (ledger[lba as usize].sent, rng.below(50) == 0)
        });
    }
    let mut waiting = std::collections::BTreeMap::new();
    for (&lba, &(version, fua)) in &batch {
        let flags = if fua { flag::FUA } else { 0 };
        let at = lba * BLOCK as u64;
        let cookie = client.send(Command::Write, flags, at, 0, &stamped(lba, version))?;
        waiting.insert(cookie, (lba, version, fua));
    }
    while !waiting.is_empty() {
        let reply = client.receive()?;
        if reply.error != 0 {
            return Err(ClientError::Request(reply.error));
        }
        let (lba, version, fua) = waiting.remove(&reply.cookie).expect("it was sent");
        if fua {
            ledger[lba as usize].durable = version;
        }
    }
    if rng.below(8) == 0 {
        // All that was sent is complete: one client, and it has waited for every reply.
        client.call(Command::Flush, 0, 0, 0, &[])?;
        ledger.iter_mut().for_each(|known| known.durable = known.sent);
    }
    Ok(())
}

/// Reads everything and compares; what is found is what there is from now on.
pub fn compare(client: &mut Client<impl std::io::Read + std::io::Write>, ledger: &mut [Known]) {
    const AT_ONCE: usize = 64;
    for (number, pieces) in ledger.chunks_mut(AT_ONCE).enumerate() {
        let first = number * AT_ONCE;
        let (offset, length) = ((first * BLOCK) as u64, (pieces.len() * BLOCK) as u64);
        let reply = client.call(Command::Read, 0, offset, length, &[]).expect("it can be read");
        for (index, (known, block)) in pieces.iter_mut().zip(reply.data.chunks(BLOCK)).enumerate() {
            compare_block(first + index, known, block);
        }
    }
}

/// Compares the bytes read of a block with its known versions.
pub fn compare_block(lba: usize, known: &mut Known, block: &[u8]) {
    if block.iter().all(|&byte| byte == 0) {
        assert_eq!(known.durable, 0, "block {lba} is lost");
        known.sent = 0;
        return;
    }
    let version = u32::from_le_bytes(block[8..12].try_into().expect("four bytes"));
    assert!(block == stamped(lba as u64, version), "block {lba} is not what was written");
    let Known { sent, durable } = *known;
    assert!((durable..=sent).contains(&version), "block {lba}: {durable} <= {version} <= {sent}");
    // What was on its way when the server was killed, and is not here, does not come later.
    known.sent = version;
}

/// Serves, writes and kills `rounds` times, and compares what is found; more than `least` blocks are to be flushed in
/// all, for nothing is shown by less.
pub fn kill_and_compare(format: impl Fn(&Path), rounds: usize, least: usize) {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let mut ledger = vec![Known::default(); SPAN as usize];
    let mut rng = Rng::new(9);
    for pause in numbers(150).take(rounds) {
        let mut served = Served::start(folder, "");
        let mut client = served.client("main");
        compare(&mut client, &mut ledger);
        let id = served.child.id();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20 + pause));
            let killed = std::process::Command::new("kill").args(["-9", &id.to_string()]).status();
            assert!(killed.expect("there is a `kill`").success());
        });
        let ended = write_until_the_end(&mut client, &mut ledger, &mut rng);
        assert!(matches!(ended, Err(ClientError::Io(_))), "{ended:?}");
        killer.join().expect("it kills");
        let status = served.child.wait().expect("it is ours");
        assert_eq!(status.code(), None, "a signal ended it, and nothing else");
    }
    let durable = ledger.iter().filter(|known| known.durable > 0).count();
    assert!(durable > least, "{durable} blocks were flushed in all");
    let served = Served::start(folder, "");
    compare(&mut served.client("main"), &mut ledger);
    assert_eq!(served.stop(), 0);
    assert_eq!(run(folder, "check pool.toml").code, 0);
}

#[test]
fn killed_at_any_moment_nothing_that_clients_flushed_is_lost() {
    kill_and_compare(|folder| format_for(folder, "auto"), 25, 500);
}

/// With the server on its own thread.
#[test]
fn killed_at_any_moment_nothing_is_lost_with_threads() {
    kill_and_compare(|folder| format_for(folder, "threads"), 12, 500);
}

#[test]
fn killed_at_any_moment_nothing_is_lost_with_transfers_inline() {
    kill_and_compare(|folder| format_for(folder, "inline"), 12, 500);
}

#[test]
fn killed_at_any_moment_a_pool_of_two_devices_loses_nothing() {
    kill_and_compare(|folder| format_tiered(folder, "auto"), 12, 500);
}

/// Where the system cannot tell which of the devices has something to say.
#[test]
fn killed_at_any_moment_a_pool_of_two_devices_loses_nothing_with_threads() {
    kill_and_compare(|folder| format_tiered(folder, "threads"), 8, 500);
}

/// Writes until the server is killed.
pub fn write_and_kill(mut served: Served, ledger: &mut [Known], rng: &mut Rng) {
    let mut client = served.client("main");
    let id = served.child.id();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(150));
        std::process::Command::new("kill").args(["-9", &id.to_string()]).status()
    });
    let ended = write_until_the_end(&mut client, ledger, rng);
    assert!(matches!(ended, Err(ClientError::Io(_))), "{ended:?}");
    assert!(killer.join().expect("it kills").expect("there is a `kill`").success());
    served.child.wait().expect("it is ours");
}
