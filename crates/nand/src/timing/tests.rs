use super::*;

fn timeline(dies: u32, channels: u32, suspend: Option<f64>) -> Timeline {
    timeline_of(dies, channels, suspend, 64, Bytes::kib(64))
}

fn timeline_of(
    dies: u32,
    channels: u32,
    suspend: Option<f64>,
    unit: u32,
    buffer: Bytes,
) -> Timeline {
    limited(dies, channels, suspend, (unit, buffer), [None; 2])
}

/// The same with limits of all programs together, and of those while garbage collection moves data.
fn limited(
    dies: u32,
    channels: u32,
    suspend: Option<f64>,
    (unit, buffer): (u32, Bytes),
    [program_mb_per_s, collecting_mb_per_s]: [Option<f64>; 2],
) -> Timeline {
    let geometry = Geometry {
        channels,
        dies,
        planes: 1,
        page: Bytes::kib(16),
        block: Bytes::kib(256),
        unit_dies: None,
        unit: None,
        superblock: Default::default(),
        cache_register: true,
        programs_per_page: 1,
    };
    let timing = Timing {
        read_us: 50.0,
        program_us: 500.0,
        erase_us: 3000.0,
        program_mb_per_s,
        collecting_mb_per_s,
        bus_mb_per_s: 1638.4, // 16 KiB in 10 us
        command_us: 0.0,
        suspend_us: suspend,
        link_read_mb_per_s: 1e6,
        link_write_mb_per_s: 1e6,
        link_half_duplex: false,
        bus_in_order: false,
        firmware_read_us: 0.0,
        firmware_write_us: 0.0,
        controller_kiops: 1e9,
        controller_write_kiops: None,
        modify_at_once: None,
    };
    Timeline::new(&geometry, &timing, None, unit, buffer)
}

fn page(page: u32) -> Page {
    Page { unit: UnitId(0), page, slc: false }
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
        t.program_host(page(0), Time::ZERO); // Transfer until 1010, program until 1510.
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
    t.program_host(page(0), Time::ZERO);
    t.program_host(page(1), Time::ZERO);
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
        t.program_host(page(n), Time::ZERO);
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
        t.program_relocated(Page { unit: UnitId(1), page: n, slc: false });
    }
    t.erase(UnitId(0));
    assert_eq!(t.debt.len(), 65, "reads of one page merge");
    let mut left = Vec::new();
    for n in 0..64 {
        t.program_host(Page { unit: UnitId(2), page: n, slc: false }, Time::ZERO);
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
    t.program_relocated(Page { unit: UnitId(1), page: 0, slc: false });
    t.erase(UnitId(0));
    t.arrive(us(10_000));
    assert!(t.debt.is_empty());
    assert_eq!(t.read(page(3), Bytes::kib(16)), us(10_060));
}

#[test]
fn dies_that_are_idle_pay_debt_side_by_side() {
    let mut t = timeline(8, 8, None);
    t.arrive(us(0));
    for n in 0..8 {
        t.read_to_relocate(page(n), Bytes::kib(16));
        t.program_relocated(Page { unit: UnitId(1), page: n, slc: false });
    }
    // One after the other the reads alone would take as long.
    t.arrive(us(600));
    assert!(t.debt.is_empty(), "{} left", t.debt.len());
}

#[test]
fn units_that_cover_no_whole_stripe_still_load_every_die_alike() {
    let mut t = timeline_of(8, 8, None, 3, Bytes::mib(16));
    for unit in [5, 2, 7, 0, 1, 3, 4, 6] {
        for n in 0..3 {
            t.program_host(Page { unit: UnitId(unit), page: n, slc: false }, Time::ZERO);
        }
    }
    let ends: Vec<u64> = t.dies.iter().map(Die::work_end).collect();
    assert_eq!(ends, vec![us(3 * 500 + 10).as_nanos(); 8], "24 pages on 8 dies are 3 each");
    let before = t.place(Page { unit: UnitId(5), page: 1, slc: false });
    t.program_host(Page { unit: UnitId(5), page: 0, slc: false }, Time::ZERO);
    assert_eq!(
        t.place(Page { unit: UnitId(5), page: 1, slc: false }),
        before,
        "in-place media stays put"
    );
}

#[test]
fn a_page_is_read_once_however_many_programs_it_feeds() {
    let mut t = timeline(4, 4, None);
    for n in 0..8 {
        for _ in 0..3 {
            t.read_to_relocate(page(n), Bytes::kib(4));
            t.program_relocated(Page { unit: UnitId(1), page: n, slc: false });
        }
    }
    let reads = t.debt.iter().filter(|debt| matches!(debt, Debt::Read { .. })).count();
    assert_eq!(reads, 8);
}

#[test]
fn relocation_reads_go_before_waiting_programs_and_after_each_other() {
    let mut t = timeline_of(1, 1, None, 64, Bytes::mib(1));
    t.arrive(us(1000));
    t.program_host(page(0), Time::ZERO); // 1010 to 1510.
    t.program_host(page(1), Time::ZERO);
    t.arrive(us(1100));
    t.work_off(Debt::Read { page: page(2), bytes: 4096 }, t.now);
    t.work_off(Debt::Read { page: page(3), bytes: 4096 }, t.now);
    let work: Vec<u64> = t.dies[0].work.iter().map(|&(start, _)| start / 1000).collect();
    assert_eq!(work, [1010, 1510, 1560, 1610]);
    assert_eq!(
        t.relocation_ready / 1000,
        1612,
        "50 us each after the program, then 2.5 us of transfer"
    );
}

/// Every host page has two relocated pages, read from three: the dies have that much to do and never wait idly.
#[test]
fn garbage_collection_costs_what_the_dies_spend_on_it() {
    let (dies, unit) = (16, 40);
    let mut t = timeline_of(dies, 8, None, unit, Bytes::kib(64 * 16));
    let at = |unit: u32, page: u32| Page { unit: UnitId(unit), page, slc: false };
    let rounds = 30;
    for round in 0..rounds {
        let base = 6 * round;
        for n in 0..3 * unit {
            t.read_to_relocate(at(base + n / unit, n % unit), Bytes::kib(16));
            if n % 3 < 2 {
                let n = n / 3 * 2 + n % 3;
                t.program_relocated(at(base + 3 + n / unit, n % unit));
            }
        }
        for n in 0..unit {
            t.arrive(Time::ZERO);
            t.admit();
            t.program_host(at(base + 5, n), Time::ZERO);
        }
    }
    let busy = f64::from(rounds * unit) * (3.0 * 500.0 + 3.0 * 50.0) / f64::from(dies);
    let took = t.drained().as_nanos() as f64 / 1e3;
    assert!((1.0..1.08).contains(&(took / busy)), "{took} us, of which dies are busy {busy}");
}

#[test]
fn programs_of_all_dies_share_a_power_limit() {
    let mut free = timeline(8, 8, None);
    let mut limited = timeline(8, 8, None);
    limited.ns_per_programmed_byte = 1e3 / 81.92; // 16 KiB per 200 us, a fifth of what eight dies can do
    let last_end = |t: &mut Timeline| {
        t.arrive(us(0));
        (0..40).for_each(|n| t.program_host(page(n), Time::ZERO));
        t.dies.iter().map(Die::work_end).max().unwrap()
    };
    assert_eq!(last_end(&mut free), us(5 * 500 + 10).as_nanos());
    assert_eq!(last_end(&mut limited), us(40 * 200 + 500).as_nanos());
}

#[test]
fn what_is_written_in_part_is_programmed_when_the_rest_was_read() {
    let mut t = timeline(4, 4, None);
    t.arrive(us(1000));
    let whole = t.read_to_modify(page(1), Bytes::kib(16));
    assert_eq!(whole, us(1060));
    t.program_host(page(0), whole);
    assert_eq!(t.dies[0].work_end(), us(1060 + 10 + 500).as_nanos());
}

#[test]
fn modifications_wait_for_a_place_and_reads_do_not_wait_for_them() {
    let mut t = timeline(8, 8, None);
    t.modifying = vec![0; 2].into();
    t.arrive(us(1000));
    let ready: Vec<Time> = (0..6).map(|n| t.read_to_modify(page(n), Bytes::kib(16))).collect();
    assert_eq!(ready, [1060, 1060, 1120, 1120, 1180, 1180].map(us));
    assert_eq!(t.read(page(6), Bytes::kib(16)), us(1060));
}

#[test]
fn all_dies_together_are_slower_while_data_is_moved() {
    // 16 KiB in 1 us for the host alone, in 10 us while data is moved.
    let rates = [Some(16_384.0), Some(1638.4)];
    let mut t = limited(64, 64, None, (64, Bytes::kib(16)), rates);
    t.arrive(us(1000));
    let power = |t: &Timeline| t.power.busy() / 1000;
    (0..16).for_each(|n| t.program_host(page(n), us(1000)));
    assert_eq!(power(&t), 16, "nothing is moved");
    t.erase(UnitId(2));
    (16..32).for_each(|n| t.program_host(page(n), us(1000)));
    assert_eq!(power(&t), 32, "an erase moves nothing");
    t.read_to_relocate(Page { unit: UnitId(3), ..page(0) }, Bytes::kib(16));
    t.program_relocated(Page { unit: UnitId(4), ..page(0) });
    t.program_host(page(32), us(1000));
    t.program_host(page(33), us(1000));
    assert_eq!(power(&t), 32 + 2 * 10 + 10, "a program of relocated data, and two beside it");
    t.program_host(page(34), us(1000));
    assert_eq!(power(&t), 63);
}
