use thermocline_format::{ChunkHeader, ChunkOrigin, Entry, VolumeId};
use thermocline_types::{Class, Lba};

use super::*;

fn geometry() -> Geometry {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 16, [0, 1].map(UnitId));
    geometry.expect("sound units")
}

/// Flights whose chunks are of these causes, in these units, on their way or not, with two blocks of a host each.
fn flights(chunks: &[(ChunkCause, u32, bool)]) -> Flights<()> {
    let geometry = geometry();
    let mut flights = Flights::new(Sequence(11));
    for (index, &(cause, unit, on_its_way)) in (0..).zip(chunks) {
        let origin = ChunkOrigin {
            pool: thermocline_format::PoolId([1; 16]),
            location: Location::new(unit, index * 8),
            generation: thermocline_format::Generation(1),
            epoch: thermocline_format::Epoch(1),
            sequence: flights.next(),
            durable: Sequence(10),
            revision: thermocline_format::Revision(1),
            cause,
            class: Class(0),
        };
        let volume = VolumeId(1);
        let entries = (0..2).map(|lba| Entry::Data { volume, lba: Lba(lba), crc: 0 });
        let header = ChunkHeader::new(origin, entries.collect(), &geometry);
        let written = if cause == ChunkCause::Host { 2 } else { 0 };
        let chunk =
            Chunk { header: Arc::new(header), body: Body::User(vec![(), ()]), packed: None };
        flights.launch(Arc::new(chunk), Vec::new(), written);
        if !on_its_way {
            flights.progress(Sequence(11 + u64::from(index)), 1);
        }
    }
    flights
}

/// How far hosts' chunks are on media, and how many of their blocks.
fn for_hosts(chunks: &[(ChunkCause, u32, bool)]) -> (u64, u64) {
    let config = Config::new(geometry());
    let on_media = flights(chunks).on_media(DeviceId(0), &config);
    assert!(on_media.all <= on_media.for_hosts, "hosts wait for no more than others");
    (on_media.for_hosts.0, on_media.host_blocks)
}

#[test]
fn hosts_wait_for_their_chunks_and_for_what_is_before_these_in_a_unit() {
    use ChunkCause::{Checkpoint, Host, Relocation};
    assert_eq!(for_hosts(&[]), (10, 0));
    assert_eq!(for_hosts(&[(Host, 3, true), (Host, 4, false)]), (10, 0));
    assert_eq!(for_hosts(&[(Host, 3, false), (Host, 4, true)]), (11, 2));
    let elsewhere = [(Relocation, 5, true), (Checkpoint, 6, true), (Host, 3, false)];
    assert_eq!(for_hosts(&elsewhere), (13, 2));
    let before = [(Host, 3, false), (Relocation, 3, true), (Host, 4, false), (Host, 3, false)];
    assert_eq!(for_hosts(&before), (13, 4), "the last stands behind a copy");
    let behind = [(Host, 3, false), (Relocation, 3, true)];
    assert_eq!(for_hosts(&behind), (12, 2));
}

#[test]
fn a_failed_chunk_waits_for_what_was_sealed_behind_it_and_lands_then() {
    let chunks = [(3, true), (4, true), (4, false), (3, true)];
    let mut flights = flights(&chunks.map(|(unit, way)| (ChunkCause::Host, unit, way)));
    let (failed, geometry) = (Sequence(11), geometry());
    assert!(flights.abandon(failed) && !flights.abandon(failed) && flights.has_abandoned());
    assert_eq!(flights.await_later(failed, Some(UnitId(4))), 1, "one of them is done already");
    assert!(flights.progress(failed, 1).is_none(), "it waits for the other");
    let landed = flights.progress(Sequence(12), 1).expect("it waited for nothing else");
    assert_eq!((landed.owners, landed.replaced), (vec![(Owner::Failed(failed), 1)], None));
    flights.retire(&geometry);
    assert_eq!(flights.completed(), Sequence(10));
    let landed = flights.progress(failed, 1).expect("nothing is left to wait for");
    assert_eq!((landed.replaced, landed.host_blocks), (Some(UnitId(3)), 2));
    flights.retire(&geometry);
    assert_eq!((flights.completed(), flights.sealed()), (Sequence(13), Sequence(14)));
    assert_eq!(flights.await_later(Sequence(14), None), 0);
}

#[test]
fn those_behind_a_failed_write_are_found_when_they_are_done() {
    let chunks = [(3, true), (3, false), (4, false), (3, true)];
    let flights = flights(&chunks.map(|(unit, way)| (ChunkCause::Host, unit, way)));
    let behind = flights.done_behind(Location::new(3, 0));
    let sequences: Vec<Sequence> = behind.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(sequences, [Sequence(12)]);
}
