//! The judge of volume contents and answers: the simulation's model behind the requests of clients.

use thermocline_engine::Extent;
use thermocline_format::BLOCK_BYTES;
use thermocline_nbd::protocol::request::{Command, Header, flag};
use thermocline_sim::data::{Content, Stamp};
use thermocline_sim::model::{Model, Outcome};
use thermocline_types::{Lba, Rng};

use crate::client::{Answered, AwaitedReply, ScriptedClient, Wants};
use crate::storage::Hits;

/// The part of a volume that a client uses.
#[derive(Clone, Copy, Debug)]
pub struct UsedRange {
    /// All of the volume.
    pub all: Extent,
    /// Number of read and written blocks at the volume's front.
    pub used: u64,
}

/// Lets a client send a request of one of its kinds.
pub fn ask(model: &mut Model, rng: &mut Rng, client: &mut ScriptedClient, range: UsedRange) {
    let what = rng.below(32);
    match client.manner.wants {
        Wants::Status => status(model, rng, client, range),
        Wants::Probe => read(model, client, extent(rng, range, 1)),
        Wants::Reads => {
            let most = [16, 600][rng.below(2) as usize];
            read(model, client, extent(rng, range, most));
        }
        Wants::Writes if what < 28 => write(model, rng, client, range),
        Wants::Writes => flush(model, client, range),
        Wants::All => match what {
            0..=11 => write(model, rng, client, range),
            12..=19 => {
                let most = length(rng);
                read(model, client, extent(rng, range, most));
            }
            20..=23 => zero(model, rng, client, range),
            24..=26 => flush(model, client, range),
            27..=29 => status(model, rng, client, range),
            _ => wrong(rng, client, range),
        },
    }
}

/// Most blocks of a request: usually few, sometimes more than one engine request holds.
fn length(rng: &mut Rng) -> u64 {
    match rng.below(16) {
        0 => 600,
        1..=3 => 64,
        _ => 8,
    }
}

fn extent(rng: &mut Rng, range: UsedRange, most: u64) -> Extent {
    let lba = rng.below(range.used);
    let blocks = 1 + rng.below(most.min(range.used - lba));
    Extent { lba, blocks, ..range.all }
}

fn header(command: Command, extent: Extent, flags: u16) -> Header {
    let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
    let (offset, length) = (bytes(extent.lba), bytes(extent.blocks));
    Header { command, flags, cookie: 0, offset, length }
}

fn read(model: &mut Model, client: &mut ScriptedClient, extent: Extent) {
    let read = model.begin_read(extent);
    client.ask(header(Command::Read, extent, 0), &[], AwaitedReply::Read(read));
}

fn write(model: &mut Model, rng: &mut Rng, client: &mut ScriptedClient, range: UsedRange) {
    let most = length(rng);
    let extent = extent(rng, range, most);
    let fua = rng.below(6) == 0;
    let version = model.begin_change(extent, false);
    let mut payload = Vec::with_capacity(extent.blocks as usize * BLOCK_BYTES);
    for lba in extent.lba..extent.lba + extent.blocks {
        let stamp = Stamp { volume: extent.volume, lba: Lba(lba), version };
        payload.extend_from_slice(&stamp.block());
    }
    let stated = client.manner.framing == thermocline_nbd::protocol::request::Framing::Extended;
    let flags = if fua { flag::FUA } else { 0 } | if stated { flag::PAYLOAD_LENGTH } else { 0 };
    client.ask(header(Command::Write, extent, flags), &payload, AwaitedReply::Change(version, fua));
}

fn zero(model: &mut Model, rng: &mut Rng, client: &mut ScriptedClient, range: UsedRange) {
    let most = [4, 64, 600][rng.below(3) as usize];
    let extent = extent(rng, range, most);
    let fua = rng.below(4) == 0;
    let command = [Command::Trim, Command::WriteZeroes][rng.below(2) as usize];
    let version = model.begin_change(extent, true);
    let flags = if fua { flag::FUA } else { 0 };
    client.ask(header(command, extent, flags), &[], AwaitedReply::Change(version, fua));
}

fn flush(model: &mut Model, client: &mut ScriptedClient, range: UsedRange) {
    let flush = model.begin_flush(Some(range.all.volume));
    let header = Header { command: Command::Flush, flags: 0, cookie: 0, offset: 0, length: 0 };
    client.ask(header, &[], AwaitedReply::Flush(flush));
}

fn status(model: &mut Model, rng: &mut Rng, client: &mut ScriptedClient, range: UsedRange) {
    if client.manner.framing == thermocline_nbd::protocol::request::Framing::Simple {
        return flush(model, client, range);
    }
    let lba = if rng.below(2) == 0 { 0 } else { rng.below(range.used) };
    let asked = Extent { lba, blocks: range.all.blocks - lba, ..range.all };
    let flags = if rng.below(4) == 0 { flag::REQ_ONE } else { 0 };
    let read = model.begin_read(Extent { blocks: range.used - lba, ..asked });
    client.ask(header(Command::BlockStatus, asked, flags), &[], AwaitedReply::Status(read, asked));
}

/// A request that must be refused.
fn wrong(rng: &mut Rng, client: &mut ScriptedClient, range: UsedRange) {
    let header = match rng.below(3) {
        0 => header(Command::Read, Extent { lba: range.all.blocks, blocks: 1, ..range.all }, 0),
        1 => header(Command::Flush, Extent { lba: 1, blocks: 1, ..range.all }, 0),
        _ => header(Command::Other(77), Extent { lba: 0, blocks: 1, ..range.all }, 0),
    };
    client.ask(header, &[], AwaitedReply::Wrong);
}

/// Judges an answer. `hits` are errors of devices that explain errors.
///
/// # Errors
/// The error found.
pub fn answer(model: &mut Model, answered: Answered, hits: Hits) -> Result<(), String> {
    let Answered { pending, error, contents, hole } = answered;
    let failed = |excused: bool, what: &str| match excused {
        true => Ok(()),
        false => Err(format!("{what} ended with error {error}, and no device had failed")),
    };
    let any = hits.reads + hits.changes > 0;
    match pending.asked {
        AwaitedReply::Read(read) if error == 0 => {
            match model.end_read(read, contents.into_iter()) {
                Some(verdict) => Err(verdict.to_string()),
                None => Ok(()),
            }
        }
        AwaitedReply::Status(read, _) if error == 0 => {
            let zeros = std::iter::repeat_n(Content::Zeros, hole as usize / BLOCK_BYTES);
            match model.end_read(read, zeros) {
                Some(verdict) => Err(format!("told as a hole: {verdict}")),
                None => Ok(()),
            }
        }
        AwaitedReply::Read(read) | AwaitedReply::Status(read, _) => {
            model.drop_read(read);
            failed(any, "a read")
        }
        AwaitedReply::Change(version, durable) if error == 0 => {
            let outcome = if durable { Outcome::Durable } else { Outcome::Done };
            model.end_change(version, outcome);
            Ok(())
        }
        AwaitedReply::Change(version, _) => {
            model.end_change(version, Outcome::Failed);
            failed(any, "a change")
        }
        AwaitedReply::Flush(flush) if error == 0 => {
            model.end_flush(flush);
            Ok(())
        }
        AwaitedReply::Flush(_) => failed(any, "a flush"),
        AwaitedReply::Wrong if error == 0 => {
            Err("a request that is none was carried out".to_owned())
        }
        AwaitedReply::Wrong => Ok(()),
    }
}

/// Forgets the requests of a client that is gone. Returns its changes, which the pool may still make.
pub fn forget(model: &mut Model, client: &mut ScriptedClient) -> Vec<u64> {
    let mut changes = Vec::new();
    for pending in std::mem::take(&mut client.pending).into_values() {
        match pending.asked {
            AwaitedReply::Read(read) | AwaitedReply::Status(read, _) => model.drop_read(read),
            AwaitedReply::Change(version, _) => changes.push(version),
            AwaitedReply::Flush(_) | AwaitedReply::Wrong => {}
        }
    }
    changes
}
