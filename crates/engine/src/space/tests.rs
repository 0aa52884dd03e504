use thermocline_format::{Geometry, LogicalBlock, PoolDevice};

use super::*;
use crate::config::Config;

const CLASS: Class = Class(0);

/// A pool of 64 units of 256 logical blocks, of which units 2 to 5 are listed.
fn space() -> Space {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 64, [0, 1].map(UnitId));
    let config = Config::new(geometry.expect("sound units"));
    let mut space = Space::new(Units::new(64, 256), &config);
    (2..64).for_each(|unit| space.free(UnitId(unit)));
    let listed = space.list_free(MediaClass::Capacity, 4);
    space.set_listed(&listed);
    listed.into_iter().for_each(|listed| space.reserve(listed));
    space
}

#[test]
fn devices_fill_side_by_side_and_each_keeps_an_empty_unit_as_long_as_it_can() {
    let device =
        |units, first| PoolDevice::new(MediaClass::Capacity, units, [first, first + 1].map(UnitId));
    let devices = [device(42, 0), device(22, 42)];
    let geometry = Geometry::of_devices(LogicalBlock::B4096, 256, &devices).expect("sound units");
    let mut space = Space::new(Units::new(64, 256), &Config::new(geometry));
    (2..42).chain(44..64).for_each(|unit| space.free(UnitId(unit)));
    let mut listed = space.list_free(MediaClass::Capacity, 30);
    let on_second =
        |listed: &[OpenUnit]| listed.iter().filter(|listed| listed.next.unit.0 >= 42).count();
    assert_eq!(on_second(&listed), 10, "a third of the units, a third of what is written");
    listed.extend(space.list_free(MediaClass::Capacity, 28));
    assert_eq!((on_second(&listed), listed.len()), (19, 58), "one is left on each");
    assert_eq!(space.list_free(MediaClass::Capacity, 9).len(), 2);
}

/// Writes a chunk of `blocks` logical blocks behind the last of `CLASS`.
fn write(space: &mut Space, blocks: u32, sequence: u64) -> UnitId {
    let at = space.next_of(CLASS).expect("a unit is open");
    space.begin_chunk(at.unit, Sequence(sequence));
    space.end_chunk(CLASS, Location { block: at.block + blocks, ..at });
    at.unit
}

#[test]
fn a_unit_goes_from_listed_to_free_again() {
    let mut space = space();
    let (units, free) = (space.units().count(), space.free_units(MediaClass::Capacity));
    assert_eq!((units, free, space.reserved_on(MediaClass::Capacity)), (64, 62, 4));
    let at = space.open(CLASS, MediaClass::Capacity).expect("units are listed");
    assert_eq!(
        (at, space.opened(), space.active_units(MediaClass::Capacity)),
        (Location::new(2, 0), 1, 1)
    );
    let unit = write(&mut space, 8, 20);
    space.add_valid(unit);
    assert_eq!((space.tail_of(unit), space.sealed_into(unit)), ((1, 20), 8));
    space.close(CLASS, 0);
    assert_eq!(
        (space.active_units(MediaClass::Capacity), space.finish_if_quiet(unit)),
        (1, None),
        "a chunk flies"
    );
    space.chunk_answered(CLASS, unit);
    assert_eq!(space.finish_if_quiet(unit), Some(248));
    space.finished(unit);
    assert_eq!((space.active_units(MediaClass::Capacity), space.dead_units()), (0, 0));
    space.drop_block(256 * u64::from(unit.0));
    assert_eq!((space.dead_units(), space.died(unit)), (1, 0));
    space.begin_release(&[unit]);
    assert_eq!((space.resetting(), space.next_reset(true)), (1, None), "its release may be lost");
    assert!(!space.released(unit) && !space.is_releasing());
    assert_eq!((space.next_reset(false), space.next_reset(true)), (Some(unit), None));
    space.reset_answered(unit, true);
    assert_eq!((space.resetting(), space.free_units(MediaClass::Capacity)), (0, 62));
}

#[test]
fn a_class_is_idle_when_half_the_pool_was_written_to_others() {
    let mut space = space();
    let other = Class(1);
    for class in [CLASS, other] {
        space.open(class, MediaClass::Capacity).expect("units are listed");
    }
    let half = 32 * 256;
    (0..half - 1).for_each(|sequence| _ = write(&mut space, 1, sequence));
    let at = space.next_of(other).expect("it is open");
    space.begin_chunk(at.unit, Sequence(half));
    space.end_chunk(other, Location { block: 1, ..at });
    (0..=half).for_each(|sequence| {
        assert_eq!(space.idle_class(), None);
        write(&mut space, 1, sequence);
    });
    assert_eq!(space.idle_class(), Some(other));
    space.close(other, 0);
    assert_eq!(space.idle_class(), None);
    (0..2).for_each(|_| _ = space.open(other, MediaClass::Capacity));
    assert_eq!(space.idle_class(), None, "it is open anew");
}

#[test]
fn one_unit_is_reset_at_a_time_unless_many_may_be() {
    let mut space = space();
    let units = [UnitId(10), UnitId(11), UnitId(12)];
    space.begin_release(&units);
    units.into_iter().for_each(|unit| _ = space.released(unit));
    assert_eq!((space.next_reset(false), space.next_reset(false)), (Some(units[0]), None));
    assert_eq!((space.next_reset(true), space.next_reset(true)), (Some(units[1]), Some(units[2])));
}

#[test]
fn a_condemned_unit_is_retired_and_never_reset() {
    let mut space = space();
    space.open(CLASS, MediaClass::Capacity);
    let unit = write(&mut space, 8, 20);
    assert!(space.condemn(unit) && !space.condemn(unit));
    assert_eq!(space.condemned().collect::<Vec<_>>(), [unit]);
    space.close(CLASS, 0);
    space.begin_release(&[unit]);
    assert!(space.released(unit), "it is to be retired");
    assert_eq!((space.resetting(), space.next_reset(true)), (0, None));
    space.retire(unit);
    assert_eq!((space.retired(), space.condemned().next()), (1, None));
    assert!(!space.listed().contains_key(&unit.0) && !space.condemn(unit));
    assert_eq!(space.condemned().next(), None, "it stays out of service");
}

#[test]
fn nothing_counts_behind_the_first_failed_write_of_a_unit() {
    let mut space = space();
    space.open(CLASS, MediaClass::Capacity);
    let unit = write(&mut space, 8, 20);
    write(&mut space, 8, 21);
    space.break_at(Location { unit, block: 8 });
    space.break_at(Location { unit, block: 0 });
    space.break_at(Location { unit, block: 8 });
    assert_eq!(space.broken(unit), Some(0));
    space.uncount_chunk(unit, Sequence(20));
    assert_eq!(space.tail_of(unit), (1, 21));
}

#[test]
fn a_checkpoint_lists_open_units_where_they_stand_and_counts_from_there() {
    let mut space = space();
    space.open(CLASS, MediaClass::Capacity);
    let unit = write(&mut space, 8, 20);
    let table = space.begin_tail(Sequence(21));
    assert_eq!(table.keys().copied().collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert_eq!(table[&unit.0].next, Location { unit, block: 8 });
    write(&mut space, 8, 21);
    space.uncount_chunk(unit, Sequence(20));
    assert_eq!(space.tail_of(unit), (1, 21), "what came before the checkpoint was not counted");
}

#[test]
fn only_pages_of_the_unit_table_with_changes_are_compared() {
    let mut space = space();
    assert!(space.take_changed(0) && !space.take_changed(0));
    space.add_valid(UnitId(7));
    assert!(space.take_changed(0));
    space.drop_block(256 * 7);
    assert!(space.take_changed(0));
}

#[test]
fn what_users_had_in_a_unit_counts_beside_the_pages_of_maps_that_are_there_by_now() {
    let mut space = space();
    let unit = UnitId(40);
    (0..3).for_each(|_| space.add_page(unit));
    space.add_users(unit, 2);
    assert_eq!(space.units().valid_count(unit), 5);
    assert!(space.uncount(unit) && space.uncount(unit), "as the tail says");
    assert_eq!(space.units().valid_count(unit), 3);
    let full = space.units().blocks_per_unit();
    space.add_users(unit, full);
    space.drop_users(unit, full);
    assert_eq!(space.units().valid_count(unit), 3, "also of a unit that was full");
}

#[test]
fn closed_units_of_metadata_are_found_some_at_a_time_and_others_are_forgotten() {
    let mut space = space();
    let metadata = Class((space.frontiers.classes() - 1) as u8);
    for (unit, state, class) in [
        (8, UnitState::Closed, metadata),
        (9, UnitState::Closed, CLASS),
        (10, UnitState::Closed, metadata),
        (12, UnitState::Open, metadata),
        (13, UnitState::Closed, metadata),
        (20, UnitState::Closed, metadata),
        (21, UnitState::Closed, metadata),
    ] {
        space.adopt(UnitId(unit), state, class, 256);
    }
    // One is of users by now, one is out of service.
    space.adopt(UnitId(20), UnitState::Closed, CLASS, 256);
    space.units.retire(UnitId(21));
    let mut closed = |from, count| {
        let (units, next) = space.closed_metadata(from, count);
        (units.into_iter().map(|unit| unit.0).collect::<Vec<_>>(), next)
    };
    assert_eq!(closed(0, 2), (vec![8, 10], Some(11)));
    assert_eq!(closed(11, 2), (vec![13], Some(14)), "one is open");
    assert_eq!(closed(14, 9), (vec![], None));
    assert_eq!(space.metadata_units.iter().copied().collect::<Vec<_>>(), [8, 10, 12, 13]);
}

#[test]
fn memory_is_that_of_every_unit_and_of_the_blocks_that_are_known() {
    let mut space = space();
    let units = space.units.memory_bytes() + 64 * size_of::<Tail>();
    assert_eq!(space.memory_bytes(), units as u64 + space.validity.memory_bytes());
    space.validity.begin(UnitId(3));
    assert!(space.memory_bytes() > units as u64);
}
