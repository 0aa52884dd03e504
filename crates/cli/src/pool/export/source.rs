//! Where an export reads a volume: from the server of its pool, or from the devices.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use thermocline_engine::{Extent, HostRequest, MAX_IO_BLOCKS, Run};
use thermocline_format::VolumeId;
use thermocline_nbd::protocol::option::{ALLOCATION, CHANGES};
use thermocline_nbd::protocol::reply::{CHANGED, HOLE, Status};
use thermocline_nbd::protocol::request::{Command, Framing};
use thermocline_nbd::{Client, ClientError};
use thermocline_runtime::storage::Overlay;
use thermocline_runtime::{AnyStorage, Buffer};
use thermocline_target::EXTENTS_MAX;
use thermocline_types::Bytes;

use crate::pool::open::{Advised as _, Opened};

/// Bytes of one question for the status of blocks. Chosen, not measured.
const ASKED: u64 = 1 << 27;

/// Bytes of a read from a server, and how many reads wait for their replies at once. Chosen, not measured.
const READ: u64 = 1 << 20;
const READS: usize = 8;

/// What to do with a run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Nothing: they did not change.
    Keep,
    /// They are zeros.
    Zero,
    /// They are to be copied.
    Copy,
}

/// A sink for bytes of a volume at an offset.
pub type Sink<'a> = dyn FnMut(u64, &[u8]) -> anyhow::Result<()> + 'a;

/// A volume or snapshot that is exported.
pub enum Original {
    Served(Box<Client<Box<dyn Stream>>>),
    Here { pool: Box<Opened<Overlay<AnyStorage>>>, volume: VolumeId, since: Option<VolumeId> },
}

/// A connection.
pub trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

impl Original {
    /// Connects to the server of this status, for export `name`, and its changes since the snapshot `since`.
    ///
    /// # Errors
    /// If the server has no socket for this program, or no such export.
    pub fn connect(status: &Value, name: &str, since: Option<&str>) -> anyhow::Result<Original> {
        let changes = since.map(|since| format!("{}{since}", CHANGES.0));
        let contexts: Vec<&str> = std::iter::once(ALLOCATION.0).chain(changes.as_deref()).collect();
        let stream = stream(status)?;
        let client = Client::connect_for(stream, name, Framing::Extended, &contexts);
        let client = client.with_context(|| format!("the server does not export `{name}`"))?;
        ensure!(client.has_contexts(), "the server does not know what changed in `{name}`");
        Ok(Original::Served(Box::new(client)))
    }

    /// What to do with each run of bytes from `offset` on, as far as one question goes. The volume has `size` bytes.
    ///
    /// # Errors
    /// When the volume or the snapshot is gone, or the connection.
    pub fn pieces(&mut self, offset: u64, size: u64) -> anyhow::Result<Vec<(u64, Piece)>> {
        let length = ASKED.min(size - offset);
        match self {
            Original::Served(client) => {
                let reply = client.call(Command::BlockStatus, 0, offset, length, &[])?;
                let mut lists = reply.extents.into_iter();
                let mapped = |status: Status| (status.length, status.flags & HOLE == 0);
                let changed = |status: Status| (status.length, status.flags & CHANGED != 0);
                let all = lists.next().unwrap_or_default().into_iter().map(mapped).collect();
                let changed = lists.next().map(|list| list.into_iter().map(changed).collect());
                Ok(pieces(all, changed))
            }
            Original::Here { pool, volume, since } => {
                let (lba, blocks) = (offset / Bytes::BLOCK.0, length / Bytes::BLOCK.0);
                let extent = Extent { volume: *volume, lba, blocks };
                let engine = pool.driver.engine();
                let bytes = |runs: Vec<Run>| {
                    let run = |run: Run| (run.blocks * Bytes::BLOCK.0, run.mapped);
                    runs.into_iter().map(run).collect()
                };
                let mapped = bytes(engine.runs(extent, EXTENTS_MAX)?);
                let changed = since.map(|since| engine.changed(extent, since, EXTENTS_MAX));
                Ok(pieces(mapped, changed.transpose()?.map(bytes)))
            }
        }
    }

    /// Hands the bytes of a range to `sink`, in any order.
    ///
    /// # Errors
    /// When they cannot be read, and those of `sink`.
    pub fn read(&mut self, offset: u64, length: u64, sink: &mut Sink<'_>) -> anyhow::Result<()> {
        match self {
            Original::Served(client) => read_served(client, offset, length, sink),
            Original::Here { pool, volume, .. } => {
                let (mut lba, end) = (offset / Bytes::BLOCK.0, (offset + length) / Bytes::BLOCK.0);
                while lba < end {
                    let extent =
                        Extent { volume: *volume, lba, blocks: (end - lba).min(MAX_IO_BLOCKS) };
                    let bytes = extent.blocks * Bytes::BLOCK.0;
                    let into = Buffer::new(thermocline_target::Buffer::zeroed(bytes as usize));
                    pool.ask(HostRequest::Read { extent, into: into.clone() })?;
                    sink(lba * Bytes::BLOCK.0, &into.read())?;
                    lba += extent.blocks;
                }
                Ok(())
            }
        }
    }
}

fn read_served(
    client: &mut Client<Box<dyn Stream>>,
    offset: u64,
    length: u64,
    sink: &mut Sink<'_>,
) -> anyhow::Result<()> {
    let (mut next, end) = (offset, offset + length);
    let longest = READ.min(client.blocks()[2].into());
    let mut under_way: HashMap<u64, (u64, u64)> = HashMap::new();
    while next < end || !under_way.is_empty() {
        if next < end && under_way.len() < READS {
            let length = longest.min(end - next);
            let cookie = client.send(Command::Read, 0, next, length, &[])?;
            under_way.insert(cookie, (next, length));
            next += length;
            continue;
        }
        let reply = client.receive()?;
        let (at, length) = under_way.remove(&reply.cookie).context("a reply to no request")?;
        if reply.error != 0 {
            return Err(ClientError::Request(reply.error))
                .with_context(|| format!("{length} bytes at byte {at} cannot be read"));
        }
        sink(at, &reply.data)?;
    }
    Ok(())
}

/// A connection to a socket of the server of this status.
fn stream(status: &Value) -> anyhow::Result<Box<dyn Stream>> {
    let uris: Vec<&str> =
        status["uris"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let socket = |uri: &&str| {
        uri.strip_prefix("nbd+unix://")
            .and_then(|uri| Some(uri.split_once("?socket=")?.1.to_owned()))
    };
    if let Some(path) = uris.iter().find_map(socket) {
        let stream =
            UnixStream::connect(&path).with_context(|| format!("no connection to {path}"))?;
        return Ok(Box::new(stream));
    }
    let address = |uri: &&str| Some(uri.strip_prefix("nbd://")?.split_once('/')?.0.to_owned());
    if let Some(address) = uris.iter().find_map(address) {
        let stream =
            TcpStream::connect(&address).with_context(|| format!("no connection to {address}"))?;
        return Ok(Box::new(stream));
    }
    bail!(
        "the server of the pool takes encrypted connections only: add a `socket` to [serve] of the settings, export with \
         the pool stopped, or copy with `nbdcopy`"
    )
}

/// Joins two lists of runs from the same byte on, as far as both go: mapped runs, and changed runs if not all is to be
/// copied.
fn pieces(mapped: Vec<(u64, bool)>, changed: Option<Vec<(u64, bool)>>) -> Vec<(u64, Piece)> {
    let total = mapped.iter().map(|(length, _)| length).sum();
    let changed = changed.unwrap_or_else(|| vec![(total, true)]);
    let (mut mapped, mut changed) = (mapped.into_iter(), changed.into_iter());
    let (mut pieces, mut one, mut other) = (Vec::new(), mapped.next(), changed.next());
    while let (Some((rest, data)), Some((left, differs))) = (one, other) {
        let length = rest.min(left);
        let piece = match (differs, data) {
            (false, _) => Piece::Keep,
            (true, false) => Piece::Zero,
            (true, true) => Piece::Copy,
        };
        pieces.push((length, piece));
        one = if rest > length { Some((rest - length, data)) } else { mapped.next() };
        other = if left > length { Some((left - length, differs)) } else { changed.next() };
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_where_either_list_changes_and_with_the_shorter_list() {
        use Piece::{Copy, Keep, Zero};
        let mapped = vec![(8, true), (8, false), (16, true)];
        let changed = vec![(4, false), (8, true), (8, false), (4, true)];
        let expected = [(4, Keep), (4, Copy), (4, Zero), (4, Keep), (4, Keep), (4, Copy)];
        assert_eq!(pieces(mapped.clone(), Some(changed)), expected);
        assert_eq!(pieces(mapped, None), [(8, Copy), (8, Zero), (16, Copy)]);
    }
}
