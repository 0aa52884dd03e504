use super::*;

fn timeline(dies: u32, channels: u32, suspend: Option<f64>) -> Timeline {
    let geometry = Geometry {
        channels,
        dies,
        planes: 1,
        page: Bytes::kib(16),
        block: Bytes::kib(256),
        unit_dies: None,
        unit: None,
    };
    let timing = Timing {
        read_us: 50.0,
        program_us: 500.0,
        erase_us: 3000.0,
        bus_mb_per_s: 1638.4, // 16 KiB in 10 us
        command_us: 0.0,
        suspend_us: suspend,
        link_read_mb_per_s: 1e6,
        link_write_mb_per_s: 1e6,
        firmware_read_us: 0.0,
        firmware_write_us: 0.0,
        controller_kiops: 1e9,
    };
    Timeline::new(&geometry, &timing, 64, Bytes::kib(64))
}

fn page(page: u32) -> Page {
    Page { unit: UnitId(0), page }
}

const fn us(n: u64) -> Time {
    Time::micros(n)
}

#[test]
fn an_idle_read_takes_array_time_and_transfer() {
    let mut t = timeline(4, 2, None);
    t.arrive(us(1000));
    assert_eq!(t.read(page(0), Bytes::kib(16)), us(1060));
}

#[test]
fn reads_of_one_die_queue_and_of_several_overlap() {
    let mut t = timeline(4, 4, None);
    t.arrive(us(1000));
    assert_eq!(t.read(page(0), Bytes::kib(16)), us(1060));
    assert_eq!(t.read(page(4), Bytes::kib(16)), us(1110), "same die: waits for the array");
    assert_eq!(t.read(page(1), Bytes::kib(16)), us(1060), "another die and channel");
}

#[test]
fn dies_of_one_channel_share_its_transfers() {
    let mut t = timeline(4, 2, None);
    t.arrive(us(1000));
    assert_eq!(t.read(page(0), Bytes::kib(16)), us(1060));
    // Dies 0 and 2 are on channel 0, which has carried 10 us of work; both arrays are ready at 1050.
    let second = t.read(page(2), Bytes::kib(16));
    assert!(second >= us(1060) && second <= us(1070), "{second:?}");
}

#[test]
fn the_channel_never_carries_more_than_its_rate() {
    let mut t = timeline(8, 1, None);
    t.arrive(us(1000));
    let last = (0..800).map(|n| t.read(page(n), Bytes::kib(16))).max().unwrap();
    assert!(last >= us(1000 + 800 * 10), "{last:?}");
    assert!(last <= us(1000 + 800 * 10 + 60), "{last:?}");
}

#[test]
fn a_read_waits_for_a_program_or_suspends_it() {
    for (suspend, expected) in [(None, 1510 + 60), (Some(20.0), 1100 + 20 + 60)] {
        let mut t = timeline(1, 1, suspend);
        t.arrive(us(1000));
        t.program_host(page(0)); // Transfer until 1010, program until 1510.
        t.arrive(us(1100));
        assert_eq!(t.read(page(1), Bytes::kib(16)), us(expected), "suspend {suspend:?}");
        let end = t.dies[0].work_end();
        let delayed = if suspend.is_some() { 1510 + 50 } else { 1510 };
        assert_eq!(end, us(delayed).as_nanos(), "suspend {suspend:?}");
    }
}

#[test]
fn a_read_goes_before_programs_that_have_not_started() {
    let mut t = timeline(1, 1, None);
    t.arrive(us(1000));
    t.program_host(page(0));
    t.program_host(page(1));
    t.arrive(us(1100));
    assert_eq!(t.read(page(2), Bytes::kib(16)), us(1510 + 60));
    assert_eq!(t.dies[0].work_end(), us(2010 + 50).as_nanos());
}

#[test]
fn the_write_buffer_admits_at_the_rate_of_the_dies() {
    let mut t = timeline(4, 4, None);
    assert_eq!(t.buffer_pages, 4);
    let mut admitted = Vec::new();
    for n in 0..12 {
        t.arrive(us(1000));
        admitted.push(t.admit());
        t.program_host(page(n));
    }
    assert_eq!(admitted[..4], [us(1000); 4]);
    assert_eq!(admitted[4..8], [us(1510); 4], "when the first four are programmed");
    assert_eq!(admitted[8..12], [us(2010); 4]);
}

#[test]
fn debt_is_gone_when_the_open_unit_is_full() {
    let mut t = timeline(4, 4, None);
    t.arrive(us(0));
    for n in 0..32 {
        t.read_to_relocate(page(n), Bytes::kib(4));
        t.read_to_relocate(page(n), Bytes::kib(4));
        t.program_relocated(Page { unit: UnitId(1), page: n });
    }
    t.erase(UnitId(0));
    assert_eq!(t.debt.len(), 65, "reads of one page merge");
    let mut left = Vec::new();
    for n in 0..64 {
        t.program_host(Page { unit: UnitId(2), page: n });
        left.push(t.debt.len());
    }
    assert_eq!(left[63], 0);
    assert!((25..=40).contains(&left[31]), "half way: {}", left[31]);
}

#[test]
fn idle_time_pays_debt_without_delaying_later_requests() {
    let mut t = timeline(1, 1, None);
    t.arrive(us(0));
    t.read_to_relocate(page(0), Bytes::kib(16));
    t.program_relocated(Page { unit: UnitId(1), page: 0 });
    t.erase(UnitId(0));
    t.arrive(us(10_000));
    assert!(t.debt.is_empty());
    assert_eq!(t.read(page(3), Bytes::kib(16)), us(10_060));
}
