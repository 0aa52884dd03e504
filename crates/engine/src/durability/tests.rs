use super::*;

const FIRST: DeviceId = DeviceId(0);
const SECOND: DeviceId = DeviceId(1);

fn on_media(all: u64, for_hosts: u64) -> OnMedia {
    OnMedia { all: Sequence(all), for_hosts: Sequence(for_hosts), host_blocks: for_hosts * 10 }
}

fn host(request: u32) -> Then {
    Then::Host { request }
}

/// One device to which the host's chunks up to `sealed` went.
fn of_hosts(sealed: u64) -> Durability {
    let mut durability = Durability::new(1);
    (1..=sealed).for_each(|sequence| durability.sealed(FIRST, Sequence(sequence), true));
    durability
}

fn wanted(durability: &Durability) -> Vec<DeviceId> {
    durability.may_flush().collect()
}

#[test]
fn a_flush_is_sent_only_when_it_helps_somebody_and_one_at_a_time() {
    let mut durability = Durability::new(1);
    durability.recovered(Sequence(5));
    assert!(wanted(&durability).is_empty());
    (6..=8).for_each(|sequence| durability.sealed(FIRST, Sequence(sequence), true));
    durability.wait(Sequence(7), host(1));
    assert_eq!(wanted(&durability), [FIRST]);
    assert!(!durability.begin_flush(FIRST, on_media(6, 6)), "chunk 7 is not on media");
    assert!(durability.begin_flush(FIRST, on_media(7, 7)));
    durability.wait(Sequence(8), host(2));
    assert!(wanted(&durability).is_empty(), "one at a time");
    assert!(!durability.begin_flush(FIRST, on_media(8, 8)), "one at a time");
    durability.end_flush(FIRST, true);
    assert_eq!(durability.due(true, false), [host(1)]);
    assert_eq!((durability.durable(), durability.host_blocks()), (Sequence(7), 70));
    assert!(durability.begin_flush(FIRST, on_media(8, 8)));
}

#[test]
fn hosts_do_not_wait_for_copies_and_units_do() {
    let mut durability = Durability::new(1);
    for (sequence, awaited) in [(4, true), (5, false), (9, true)] {
        durability.sealed(FIRST, Sequence(sequence), awaited);
    }
    durability.wait(Sequence(9), Then::Dead);
    durability.wait(Sequence(9), host(1));
    assert!(durability.begin_flush(FIRST, on_media(4, 9)), "for the host");
    durability.end_flush(FIRST, true);
    assert_eq!(durability.due(true, false), [host(1)]);
    assert_eq!(durability.durable(), Sequence(4));
    assert!(!durability.begin_flush(FIRST, on_media(8, 9)), "it would help nobody");
    assert!(durability.begin_flush(FIRST, on_media(9, 9)));
    durability.end_flush(FIRST, true);
    assert_eq!(durability.due(true, false), [Then::Dead]);
}

#[test]
fn a_flush_that_fails_makes_nothing_durable() {
    let mut durability = of_hosts(1);
    durability.wait(Sequence(1), host(1));
    assert!(durability.begin_flush(FIRST, on_media(1, 1)));
    durability.end_flush(FIRST, false);
    assert_eq!((durability.durable(), durability.host_blocks()), (Sequence(0), 0));
    assert!(durability.due(true, false).is_empty());
    assert_eq!(durability.abandon(), [host(1)]);
}

#[test]
fn who_waits_for_the_next_flush_is_not_content_with_one_that_was_sent_before() {
    let mut durability = of_hosts(1);
    durability.wait(Sequence(1), Then::Dead);
    assert!(durability.begin_flush(FIRST, on_media(1, 1)));
    durability.wait_for_next(std::iter::once(FIRST), Then::Scrub);
    durability.end_flush(FIRST, true);
    assert_eq!(durability.due(true, false), [Then::Dead]);
    assert!(durability.begin_flush(FIRST, on_media(1, 1)));
    durability.end_flush(FIRST, true);
    assert_eq!(durability.due(true, false), [Then::Scrub]);
}

#[test]
fn hosts_are_held_until_the_recovery_is_safe() {
    let mut durability = Durability::new(1);
    durability.recovered(Sequence(3));
    durability.wait(Sequence(3), host(1));
    durability.wait(Sequence(3), Then::Superblock);
    assert_eq!(durability.due(false, false), [Then::Superblock]);
    assert_eq!(durability.due(true, false), [host(1)]);
}

/// The host's chunks go to the first of two devices, and copies to the second.
#[test]
fn a_host_waits_for_the_devices_that_its_chunks_went_to() {
    let mut durability = Durability::new(2);
    durability.sealed(FIRST, Sequence(1), true);
    durability.sealed(SECOND, Sequence(2), false);
    durability.wait(Sequence(2), host(1));
    durability.wait(Sequence(2), Then::Dead);
    assert!(durability.begin_flush(FIRST, on_media(2, 2)));
    assert!(!durability.begin_flush(SECOND, on_media(1, 2)), "the copy is on its way");
    durability.end_flush(FIRST, true);
    assert_eq!(durability.due(true, false), [host(1)]);
    assert_eq!(durability.durable(), Sequence(1), "the copy is not");
    assert!(durability.begin_flush(SECOND, on_media(2, 2)));
    durability.end_flush(SECOND, true);
    assert_eq!(
        (durability.due(true, false), durability.durable()),
        (vec![Then::Dead], Sequence(2))
    );
}

#[test]
fn a_device_that_nothing_came_to_for_long_holds_nobody_up() {
    let mut durability = Durability::new(2);
    durability.sealed(SECOND, Sequence(1), true);
    durability.wait(Sequence(1), host(1));
    assert_eq!(wanted(&durability), [SECOND]);
    assert!(durability.begin_flush(SECOND, on_media(1, 1)));
    durability.end_flush(SECOND, true);
    assert_eq!(durability.durable(), Sequence(1));
    (2..90).for_each(|sequence| durability.sealed(FIRST, Sequence(sequence), true));
    durability.sealed(SECOND, Sequence(90), false);
    assert!(durability.begin_flush(FIRST, on_media(90, 90)) || wanted(&durability).is_empty());
    durability.wait(Sequence(89), Then::Dead);
    assert_eq!(wanted(&durability), [FIRST], "chunk 90 came later");
    assert!(durability.begin_flush(FIRST, on_media(90, 90)));
    durability.end_flush(FIRST, true);
    assert_eq!(durability.durable(), Sequence(89));
}

#[test]
fn what_somebody_waited_for_is_durable_though_a_device_was_flushed_before_it_was_sealed() {
    let mut durability = Durability::new(2);
    durability.sealed(FIRST, Sequence(1), false);
    durability.sealed(SECOND, Sequence(2), false);
    durability.wait(Sequence(2), Then::Dead);
    assert!(durability.begin_flush(SECOND, on_media(2, 2)));
    durability.sealed(FIRST, Sequence(3), false);
    durability.wait(Sequence(3), Then::Pages { target: Sequence(3) });
    durability.sealed(SECOND, Sequence(4), false);
    durability.end_flush(SECOND, true);
    assert!(durability.begin_flush(FIRST, on_media(3, 3)));
    durability.end_flush(FIRST, true);
    let pages = Then::Pages { target: Sequence(3) };
    assert_eq!(durability.due(true, false), [Then::Dead, pages]);
    assert_eq!(durability.durable(), Sequence(2), "by what the second device knows of itself");
    durability.reached(Sequence(3));
    assert_eq!(durability.durable(), Sequence(3));
}

#[test]
fn what_comes_while_a_flush_is_on_its_way_is_not_covered_by_it() {
    let mut durability = Durability::new(2);
    durability.sealed(FIRST, Sequence(1), true);
    durability.wait(Sequence(1), host(1));
    assert!(durability.begin_flush(FIRST, on_media(1, 1)));
    durability.sealed(FIRST, Sequence(2), true);
    durability.wait(Sequence(2), host(2));
    durability.end_flush(FIRST, true);
    assert_eq!(durability.due(true, false), [host(1)]);
    assert_eq!((durability.durable(), wanted(&durability)), (Sequence(1), vec![FIRST]));
}

#[test]
fn after_a_failed_write_nothing_counts_before_every_device_is_flushed() {
    let mut durability = Durability::new(2);
    durability.sealed(FIRST, Sequence(1), true);
    durability.wait(Sequence(1), host(1));
    durability.sealed(SECOND, Sequence(2), false);
    durability.replaced(FIRST);
    durability.wait(Sequence(1), host(2));
    assert_eq!(wanted(&durability), [FIRST, SECOND]);
    assert!(durability.begin_flush(FIRST, on_media(2, 2)));
    durability.end_flush(FIRST, true);
    assert!(durability.due(true, false).is_empty());
    assert_eq!(durability.durable(), Sequence(0));
    assert!(durability.begin_flush(SECOND, on_media(2, 2)));
    durability.end_flush(SECOND, true);
    assert_eq!(durability.due(true, false), [host(1), host(2)]);
    assert_eq!(durability.durable(), Sequence(2));
}
