use super::*;

/// A log whose chunks are of these causes, in these units, on their way or not, with two blocks of a host each.
fn log(chunks: &[(ChunkCause, u32, bool)]) -> Log<()> {
    let block = LogicalBlock::B4096;
    let geometry = thermocline_format::Geometry::new(block, 256, 16, [0, 1].map(UnitId));
    let geometry = geometry.expect("sound units");
    let mut log = Log::new(Sequence(11));
    for (index, &(cause, unit, on_its_way)) in (0..).zip(chunks) {
        let origin = ChunkOrigin {
            pool: thermocline_format::PoolId([1; 16]),
            location: Location::new(unit, index * 8),
            generation: thermocline_format::Generation(1),
            epoch: thermocline_format::Epoch(1),
            sequence: log.next(),
            durable: Sequence(10),
            revision: thermocline_format::Revision(1),
            cause,
            class: Class(0),
        };
        let volume = VolumeId(1);
        let entries = (0..2).map(|lba| Entry::Data { volume, lba: Lba(lba), crc: 0 });
        let header = ChunkHeader::new(origin, entries.collect(), &geometry);
        let written = if cause == ChunkCause::Host { 2 } else { 0 };
        log.flights.push_back(Flight {
            chunk: Arc::new(Chunk { header, body: Body::User(vec![(), ()]), packed: None }),
            owners: Vec::new(),
            host_blocks: 0,
            written,
            abandoned: false,
            pending: u32::from(on_its_way),
        });
    }
    log
}

/// How far hosts' chunks are on media, and how many of their blocks.
fn for_hosts(chunks: &[(ChunkCause, u32, bool)]) -> (u64, u64) {
    let config = Config::new(
        thermocline_format::Geometry::new(LogicalBlock::B4096, 256, 16, [0, 1].map(UnitId))
            .expect("sound units"),
    );
    let on_media = log(chunks).on_media(DeviceId(0), &config);
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
