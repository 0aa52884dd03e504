use proptest::prelude::*;
use thermocline_types::{Rng, StreamId, TenantId};

use super::*;
use crate::profile::builtin;

const KIB: u64 = 1024;

/// 8 zones of 96 KiB (24 blocks, one program unit), 3 open, 4 active.
fn drive() -> Zoned {
    let overrides: Vec<(String, String)> = [
        ("unit", "96KiB"),
        ("zns.max_open", "3"),
        ("zns.max_active", "4"),
        ("zns.zone_size", "128KiB"),
        ("zns.zone_capacity", "96KiB"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .to_vec();
    let profile = Profile::with_overrides("zn540", builtin("zn540").unwrap(), &overrides).unwrap();
    Zoned::new(&profile, Cut::new(&profile, Some(Bytes::kib(8 * 96))).unwrap(), 1)
}

fn write(drive: &mut Zoned, zone: u64, block: u64, blocks: u64) -> Result<Time, DriveError> {
    let offset = Bytes(zone * drive.zone_size().0 + block * 4 * KIB);
    drive.write(Time::ZERO, offset, Bytes::kib(4 * blocks))
}

fn error<T: std::fmt::Debug>(result: Result<T, DriveError>) -> ZoneError {
    match result {
        Err(DriveError::Zone { error, .. }) => error,
        other => panic!("expected a zone error, got {other:?}"),
    }
}

#[test]
fn zones_keep_size_and_capacity() {
    let drive = drive();
    assert_eq!((drive.zones(), drive.zone_size()), (8, Bytes::kib(128)));
    let zone = drive.zone(2);
    assert_eq!(
        (zone.start, zone.capacity, zone.write_pointer),
        (Bytes::kib(256), Bytes::kib(96), Bytes::kib(256))
    );
}

#[test]
fn writes_must_hit_the_write_pointer_and_stay_inside() {
    let mut drive = drive();
    assert_eq!(error(write(&mut drive, 0, 1, 1)), ZoneError::InvalidWrite);
    write(&mut drive, 0, 0, 20).unwrap();
    assert_eq!(drive.zone(0).state, ZoneState::ImplicitlyOpen);
    assert_eq!(error(write(&mut drive, 0, 0, 1)), ZoneError::InvalidWrite);
    assert_eq!(error(write(&mut drive, 0, 20, 5)), ZoneError::Boundary);
    write(&mut drive, 0, 20, 4).unwrap();
    assert_eq!(drive.zone(0).state, ZoneState::Full);
    assert_eq!(error(write(&mut drive, 0, 24, 1)), ZoneError::Full);
    let partial = drive.write(Time::ZERO, Bytes::kib(128), Bytes(512));
    assert!(matches!(partial, Err(DriveError::Misaligned { .. })), "{partial:?}");
    let beyond = drive.write(Time::ZERO, Bytes::kib(8 * 128), Bytes::kib(4));
    assert!(matches!(beyond, Err(DriveError::OutOfRange { .. })), "{beyond:?}");
    drive.counters().check().unwrap();
}

#[test]
fn append_tells_where_the_data_went() {
    let mut drive = drive();
    let (first, _) = drive.append(Time::ZERO, 3, Bytes::kib(8)).unwrap();
    let (second, _) = drive.append(Time::ZERO, 3, Bytes::kib(4)).unwrap();
    assert_eq!((first, second), (Bytes::kib(3 * 128), Bytes::kib(3 * 128 + 8)));
    assert_eq!(error(drive.append(Time::ZERO, 3, Bytes::kib(96))), ZoneError::Boundary);
}

#[test]
fn open_and_active_limits_hold() {
    let mut drive = drive();
    for zone in 0..3 {
        write(&mut drive, zone, 0, 1).unwrap();
    }
    // A fourth active zone: the zone opened first is closed implicitly to make the place.
    write(&mut drive, 3, 0, 1).unwrap();
    assert_eq!(drive.zone(0).state, ZoneState::Closed);
    assert_eq!(error(write(&mut drive, 4, 0, 1)), ZoneError::TooManyActive);
    assert_eq!(error(drive.open(4)), ZoneError::TooManyActive);
    for zone in [1, 2, 3] {
        drive.open(zone).unwrap();
    }
    // Explicitly open zones are never closed by the drive.
    assert_eq!(error(write(&mut drive, 0, 1, 1)), ZoneError::TooManyOpen);
    drive.finish(1).unwrap();
    write(&mut drive, 0, 1, 1).unwrap();
    write(&mut drive, 4, 0, 1).unwrap_or_else(|error| panic!("zone 0 can be closed: {error}"));
}

#[test]
fn states_change_as_specified() {
    let mut drive = drive();
    drive.open(0).unwrap();
    assert_eq!(drive.zone(0).state, ZoneState::ExplicitlyOpen);
    drive.close(0).unwrap();
    assert_eq!(drive.zone(0).state, ZoneState::Empty, "nothing was written");
    assert_eq!(error(drive.close(0)), ZoneError::InvalidTransition);
    write(&mut drive, 0, 0, 1).unwrap();
    drive.close(0).unwrap();
    assert_eq!(drive.zone(0).state, ZoneState::Closed);
    drive.finish(0).unwrap();
    assert_eq!(drive.zone(0).state, ZoneState::Full);
    assert_eq!(drive.counters().media[Cause::Padding.index()], 23 * 4 * KIB);
    assert_eq!(error(drive.open(0)), ZoneError::Full);
    drive.reset(Time::ZERO, 0).unwrap();
    assert_eq!((drive.zone(0).state, drive.zone(0).resets), (ZoneState::Empty, 1));
    drive.finish(0).unwrap();
    assert_eq!(drive.zone(0).state, ZoneState::Full);
    drive.counters().check().unwrap();
}

#[test]
fn failed_zones_refuse_what_they_must() {
    let mut drive = drive();
    write(&mut drive, 0, 0, 4).unwrap();
    drive.degrade(0, ZoneState::ReadOnly);
    assert_eq!(error(write(&mut drive, 0, 4, 1)), ZoneError::ReadOnly);
    assert_eq!(error(drive.reset(Time::ZERO, 0)), ZoneError::ReadOnly);
    drive.read(Time::ZERO, Bytes::ZERO, Bytes::kib(16)).unwrap();
    drive.degrade(0, ZoneState::Offline);
    assert_eq!(error(drive.finish(0)), ZoneError::Offline);
    assert_eq!(error(drive.read(Time::ZERO, Bytes::ZERO, Bytes::kib(16))), ZoneError::Offline);
}

#[test]
fn a_worn_out_zone_goes_offline_at_its_reset() {
    let overrides = [("unit", "96KiB"), ("wear.pe_cycles", "5"), ("wear.spare", "0")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let profile = Profile::with_overrides("zn540", builtin("zn540").unwrap(), &overrides).unwrap();
    let mut drive = Zoned::new(&profile, Cut::new(&profile, Some(Bytes::kib(8 * 96))).unwrap(), 1);
    let last = (0..20).find_map(|_| {
        write(&mut drive, 0, 0, 1).unwrap();
        drive.reset(Time::ZERO, 0).err()
    });
    assert_eq!(error(Err::<(), _>(last.unwrap())), ZoneError::Offline);
    assert!((3..=7).contains(&drive.zone(0).resets), "{}", drive.zone(0).resets);
}

#[test]
fn block_requests_reset_zones_they_start_over() {
    let mut drive = drive();
    let submit = |drive: &mut Zoned, op, offset, length| {
        let request = Request {
            at: Time::ZERO,
            op,
            offset: Bytes(offset),
            length: Bytes(length),
            tenant: TenantId(0),
            stream: StreamId::UNKNOWN,
            outstanding: None,
        };
        drive.submit(Time::ZERO, &request)
    };
    submit(&mut drive, Op::Write, 0, 8 * KIB).unwrap();
    submit(&mut drive, Op::Write, 0, 4 * KIB).unwrap();
    assert_eq!((drive.zone(0).write_pointer, drive.zone(0).resets), (Bytes::kib(4), 1));
    assert_eq!(error(submit(&mut drive, Op::Write, 8 * KIB, 4 * KIB)), ZoneError::InvalidWrite);
    submit(&mut drive, Op::Trim, 0, 96 * KIB).unwrap();
    assert_eq!(drive.zone(0).state, ZoneState::Empty);
    // Round and round in pieces that cross from one zone into the next.
    for piece in 0..3 * 8 * 96 / 32 {
        submit(&mut drive, Op::Write, piece * 32 % (8 * 96) * KIB, 32 * KIB).unwrap();
    }
    assert!((0..8).all(|zone| drive.zone(zone).state == ZoneState::Full));
    assert_eq!(drive.zone(7).resets, 2);
    drive.counters().check().unwrap();
}

proptest! {
    /// Any sequence of commands keeps the limits and the counters.
    #[test]
    fn limits_and_counters_hold_under_any_commands(seed in any::<u64>()) {
        let mut drive = drive();
        let mut rng = Rng::new(seed);
        for _ in 0..300 {
            let zone = rng.below(8) as u32;
            let blocks = 1 + rng.below(9);
            let before = (drive.zone(zone), drive.counters());
            let done = match rng.below(8) {
                0 => drive.open(zone),
                1 => drive.close(zone),
                2 => drive.finish(zone),
                3 => drive.reset(Time::ZERO, zone).map(drop),
                4 => drive.append(Time::ZERO, zone, Bytes::kib(4 * blocks)).map(drop),
                5 => write(&mut drive, u64::from(zone), rng.below(24), blocks).map(drop),
                _ => {
                    let at = (drive.zone(zone).write_pointer - drive.zone(zone).start).0 / (4 * KIB);
                    write(&mut drive, u64::from(zone), at, blocks).map(drop)
                }
            };
            if done.is_err() {
                prop_assert_eq!((drive.zone(zone), drive.counters()), before, "a refused command has no effect");
            }
            let states: Vec<ZoneState> = (0..8).map(|zone| drive.zone(zone).state).collect();
            prop_assert!(states.iter().filter(|state| state.is_open()).count() <= 3);
            prop_assert!(states.iter().filter(|state| state.is_active()).count() <= 4);
            prop_assert!(drive.counters().check().is_ok());
        }
    }
}
