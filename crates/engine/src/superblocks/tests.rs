use std::collections::BTreeMap;

use thermocline_format::{Epoch, Generation, LogicalBlock, PoolId, VolumeId};

use super::*;

const HOME: [UnitId; 2] = [UnitId(0), UnitId(1)];

/// Units of superblocks hold sixteen records each.
fn geometry() -> Geometry {
    let geometry = Geometry::new(LogicalBlock::B4096, 16, 16, HOME);
    geometry.expect("sound units")
}

fn record() -> Superblock {
    Superblock {
        pool: PoolId([1; 16]),
        location: Location { unit: HOME[0], block: 0 },
        revision: Revision(1),
        epoch: Epoch(1),
        tail_epoch: Epoch(1),
        tail_end: None,
        patches: 0,
        vain: 0,
        flushed: 0,
        snapshots: false,
        checkpoint: Sequence(1),
        clean: true,
        confirmed: false,
        geometry: geometry(),
        next_generation: Generation(1),
        next_volume: VolumeId(1),
        volumes: Vec::new(),
        open_units: Vec::new(),
        unit_pages: vec![MapEntry::UNMAPPED; geometry().unit_pages()],
    }
}

/// A medium with superblock units, of which each holds some records that a power cut leaves, and some that it may take.
#[derive(Default)]
struct Media {
    flushed: BTreeMap<u32, Vec<Revision>>,
    cached: BTreeMap<u32, Vec<Revision>>,
}

impl Media {
    /// The newest record that is certainly there, should the power be cut while `reset` is emptied.
    fn newest_but(&self, reset: UnitId) -> Option<Revision> {
        let others = self.flushed.iter().filter(|(unit, _)| **unit != reset.0);
        others.flat_map(|(_, records)| records).max().copied()
    }
}

/// Writes a record to the end, checks that a record as new as the last that counted is there all the while, and returns
/// how many flushes that took.
fn write(
    superblocks: &mut Superblocks,
    media: &mut Media,
    purpose: Purpose,
    careless: bool,
) -> u32 {
    let before = superblocks.durable_revision();
    let record = superblocks.durable().expect("there is one").clone();
    superblocks.begin(record, purpose, HOME, Vec::new(), true);
    for flushes in 1..10 {
        loop {
            match superblocks.next(&geometry(), careless) {
                Next::Write(record) => {
                    let unit = record.location.unit.0;
                    media.cached.entry(unit).or_default().push(record.revision);
                }
                Next::Reset(unit) => {
                    assert!(media.newest_but(unit) >= Some(before), "{unit:?} is the last with it");
                    media.cached.remove(&unit.0);
                    media.flushed.remove(&unit.0);
                }
                Next::Flush => break,
            }
        }
        while let Some((unit, records)) = media.cached.pop_first() {
            media.flushed.entry(unit).or_default().extend(records);
        }
        if superblocks.copies_durable().is_some() {
            return flushes;
        }
    }
    panic!("it never counts")
}

fn opened() -> (Superblocks, Media) {
    let mut superblocks = Superblocks::default();
    superblocks.adopt(record());
    let flushed = HOME.map(|unit| (unit.0, vec![Revision(1)])).into();
    (superblocks, Media { flushed, ..Media::default() })
}

#[test]
fn a_superblock_unit_is_reset_only_when_another_has_a_record_that_counts() {
    let (mut superblocks, mut media) = opened();
    let mut most = 0;
    for revision in 2..60 {
        most = most.max(write(&mut superblocks, &mut media, Purpose::MoreUnits, false));
        assert_eq!(superblocks.durable_revision(), Revision(revision));
    }
    assert_eq!(most, 2, "when both must be reset, one is flushed before the other");
}

#[test]
#[should_panic(expected = "is the last with it")]
fn without_care_it_is_reset_too_early() {
    let (mut superblocks, mut media) = opened();
    (2..60).for_each(|_| _ = write(&mut superblocks, &mut media, Purpose::MoreUnits, true));
}

#[test]
fn what_a_checkpoint_replaced_goes_with_its_record_and_not_before() {
    let (mut superblocks, _) = opened();
    let at = Location { unit: UnitId(5), block: 1 };
    superblocks.drop_later(MapEntry::UNMAPPED);
    superblocks.drop_later(MapEntry::new(&geometry(), at, 7));
    let mut gone = |purpose| {
        superblocks.begin(record(), purpose, HOME, Vec::new(), true);
        assert!(!superblocks.are_idle());
        loop {
            while superblocks.next(&geometry(), false) != Next::Flush {}
            if let Some(counts) = superblocks.copies_durable() {
                return (counts.purpose, counts.obsolete.len());
            }
        }
    };
    assert_eq!(gone(Purpose::MoreUnits), (Purpose::MoreUnits, 0));
    assert_eq!(gone(Purpose::Checkpoint), (Purpose::Checkpoint, 1));
    assert_eq!(gone(Purpose::Checkpoint), (Purpose::Checkpoint, 0));
}

#[test]
fn an_opening_goes_to_other_devices_first_and_to_the_home_last() {
    let (mut superblocks, _) = opened();
    superblocks.label([UnitId(8), UnitId(9)], false);
    superblocks.label([UnitId(12), UnitId(13)], true);
    superblocks.begin(record(), Purpose::Opening, HOME, Vec::new(), true);
    let mut written = Vec::new();
    loop {
        match superblocks.next(&geometry(), false) {
            Next::Write(record) => written.push((record.location.unit.0, record.confirmed)),
            Next::Reset(_) => {}
            Next::Flush if superblocks.copies_durable().is_some() => break,
            Next::Flush => {}
        }
    }
    let (before, after) = ([13, 9, 8, 1, 0], [13, 12, 9, 8]);
    let before = before.map(|unit| (unit, false));
    assert_eq!(written[..5], before, "what the newest record stands in goes last");
    assert_eq!(written[5..], after.map(|unit| (unit, true)), "when the home has it");
    assert!(!superblocks.durable().expect("it counts").confirmed);
}
