//! How pools are divided.

use super::*;

fn geometry(per_unit: u32, units: u32) -> Result<Geometry, GeometryError> {
    Geometry::new(LogicalBlock::B4096, per_unit, units, [UnitId(0), UnitId(1)])
}

#[test]
fn addresses_count_through_the_units_and_come_back() {
    let geometry = geometry(1000, 5).unwrap();
    assert_eq!(geometry.address(Location::new(3, 7)), 3007);
    assert_eq!(geometry.location(3007), Some(Location::new(3, 7)));
    assert_eq!(geometry.location(4999), Some(Location::new(4, 999)));
    assert_eq!(geometry.location(5000), None);
    assert_eq!(geometry.location(u64::MAX), None);
}

#[test]
fn what_the_format_cannot_describe_is_refused() {
    assert_eq!(geometry(15, 5), Err(GeometryError::SmallUnit(15 * 4096)));
    assert_eq!(geometry(16, 2), Err(GeometryError::FewUnits(2)));
    assert!(geometry(1 << 20, (1 << 16) - 1).is_ok());
    assert_eq!(geometry(1 << 20, 1 << 16), Err(GeometryError::TooLarge(1 << 36)));
    let many = |units: u32| Err(GeometryError::ManyUnits(units.into()));
    assert_eq!(geometry(u32::MAX, u32::MAX), many(u32::MAX));
    assert_eq!(geometry(16, MAX_UNITS + 1), many(MAX_UNITS + 1));
    for pair in [[2, 2], [0, 5], [9, 0]] {
        let new = Geometry::new(LogicalBlock::B4096, 16, 5, pair.map(UnitId));
        assert_eq!(new, Err(GeometryError::SuperblockUnits(pair[0], pair[1])));
    }
}

fn device(media: MediaClass, units: u32, superblock_units: [u32; 2]) -> PoolDevice {
    PoolDevice::new(media, units, superblock_units.map(UnitId))
}

#[test]
fn units_count_through_the_devices() {
    let devices = [
        device(MediaClass::Capacity, 4, [0, 1]),
        device(MediaClass::Capacity, 10, [6, 4]),
        device(MediaClass::Fast, 3, [14, 15]),
    ];
    let geometry = Geometry::of_devices(LogicalBlock::B4096, 16, &devices).unwrap();
    assert_eq!((geometry.units(), geometry.devices()), (17, &devices[..]));
    let of = |unit| geometry.device_of(UnitId(unit)).0;
    assert_eq!([0, 3, 4, 13, 14, 16].map(of), [0, 0, 1, 1, 2, 2]);
    let superblocks: Vec<u32> = geometry.all_superblock_units().map(|unit| unit.0).collect();
    assert_eq!(superblocks, [0, 1, 6, 4, 14, 15]);
    assert_eq!((geometry.home(), geometry.superblock_units()), (DeviceId(2), [14, 15].map(UnitId)));
    assert!(geometry.units_of(MediaClass::Capacity).eq(0..14));
    assert!(geometry.units_of(MediaClass::Fast).eq(14..17));
    assert_eq!(geometry.media_of(UnitId(13)), MediaClass::Capacity);
    assert!(!geometry.can_hold_block(Location::new(6, 0)));
    assert!(geometry.can_hold_block(Location::new(5, 0)));
}

#[test]
fn devices_that_cannot_be_are_refused() {
    let of = |devices: &[PoolDevice]| Geometry::of_devices(LogicalBlock::B4096, 16, devices);
    let capacity = |units, pair| device(MediaClass::Capacity, units, pair);
    assert_eq!(of(&[]), Err(GeometryError::Devices(0)));
    let fast = device(MediaClass::Fast, 3, [0, 1]);
    assert_eq!(of(&[fast]), Err(GeometryError::NoCapacity));
    let draining = PoolDevice { state: DeviceState::Draining, ..capacity(3, [3, 4]) };
    assert_eq!(of(&[fast, draining]), Err(GeometryError::NoCapacity));
    assert_eq!(of(&[capacity(3, [0, 1]); 9]), Err(GeometryError::Devices(9)));
    assert_eq!(of(&[capacity(3, [0, 1]), capacity(2, [3, 4])]), Err(GeometryError::FewUnits(2)));
    let elsewhere = of(&[capacity(3, [0, 1]), capacity(3, [3, 2])]);
    assert_eq!(elsewhere, Err(GeometryError::SuperblockUnits(3, 2)), "unit 2 is the first's");
    let many = of(&[capacity(u32::MAX, [0, 1]), capacity(u32::MAX, [u32::MAX, u32::MAX - 1])]);
    assert_eq!(many, Err(GeometryError::SuperblockUnits(u32::MAX, u32::MAX - 1)));
}

#[test]
fn devices_come_behind_the_others_and_leave_their_numbers() {
    use DeviceState::{Active, Detached, Draining, Lost};
    let (old, fast) = (device(MediaClass::Capacity, 4, [0, 1]), MediaClass::Fast);
    let new = device(MediaClass::Capacity, 10, [8, 9]);
    let states = |states: [DeviceState; 3]| {
        let devices = [old, device(fast, 4, [4, 5]), new];
        let all: Vec<PoolDevice> =
            devices.into_iter().zip(states).map(|(d, state)| PoolDevice { state, ..d }).collect();
        Geometry::of_devices(LogicalBlock::B4096, 16, &all).unwrap()
    };
    let [all, drains, gone] =
        [[Active; 3], [Draining, Active, Active], [Detached, Active, Active]].map(states);
    assert!(all.units_of(MediaClass::Capacity).eq((0..4).chain(8..18)));
    assert_eq!(
        [all, drains, gone].map(|pool| pool.active_units(MediaClass::Capacity)),
        [14, 10, 10]
    );
    assert_eq!([drains, gone].map(|pool| pool.span_of(MediaClass::Capacity)), [0..18, 8..18]);
    assert!(gone.all_superblock_units().eq([4, 5, 8, 9].map(UnitId)));
    assert_eq!((gone.device_of(UnitId(3)), gone.units()), (DeviceId(0), 18));
    let untiered = states([Active, Draining, Active]);
    assert_eq!(
        [all.home(), untiered.home(), states([Draining, Detached, Active]).home()].map(|id| id.0),
        [1, 0, 2]
    );
    assert!(all.becomes(&all) && all.becomes(&drains) && drains.becomes(&gone));
    assert!(drains.becomes(&all) && !all.becomes(&gone) && !gone.becomes(&drains));
    assert!(gone.becomes(&all) && all.attaches(&gone, DeviceId(0)));
    let lost = states([Lost, Active, Active]);
    assert!(all.becomes(&lost) && drains.becomes(&lost) && lost.becomes(&gone));
    assert!(!lost.becomes(&all) && !lost.becomes(&drains) && !gone.becomes(&lost));
    assert!(lost.present().eq(gone.present()) && !all.attaches(&lost, DeviceId(0)));
    assert!(!all.attaches(&drains, DeviceId(0)) && !gone.attaches(&drains, DeviceId(0)));
    let two = Geometry::of_devices(LogicalBlock::B4096, 16, &all.devices()[..2]).unwrap();
    assert!(two.becomes(&all) && two.becomes(&drains) && !all.becomes(&two));
    assert!(all.attaches(&two, DeviceId(2)) && !all.attaches(&two, DeviceId(1)));
    assert!(!two.becomes(&gone) && !two.becomes(&states([Active, Active, Draining])));
}

#[test]
fn the_last_device_grows_while_it_is_active() {
    use DeviceState::{Active, Draining};
    let [first, last] = [[0, 1], [4, 5]].map(|units| device(MediaClass::Capacity, 4, units));
    let of =
        |devices: &[PoolDevice]| Geometry::of_devices(LogicalBlock::B4096, 16, devices).unwrap();
    let (before, grown) = (of(&[first, last]), of(&[first, PoolDevice { units: 9, ..last }]));
    assert!(before.becomes(&grown) && grown.grows(&before, DeviceId(1)));
    assert!(!grown.becomes(&before) && !grown.grows(&before, DeviceId(0)));
    assert!(!before.grows(&before, DeviceId(1)));
    let drains = |pool: &Geometry, state| {
        let mut devices = pool.devices().to_vec();
        devices[1].state = state;
        of(&devices)
    };
    assert!(!before.becomes(&drains(&grown, Draining)));
    assert!(!drains(&before, Draining).becomes(&drains(&grown, Active)));
    let moved = [PoolDevice { units: 5, ..first }, device(MediaClass::Capacity, 4, [5, 6])];
    assert!(!before.becomes(&of(&moved)), "units of the second would have other numbers");
    let (alone, larger) = (of(&[first]), of(&[PoolDevice { units: 5, ..first }]));
    assert!(alone.becomes(&larger) && !alone.becomes(&of(&moved)));
}

#[test]
fn a_block_lies_in_one_unit_that_holds_no_superblocks() {
    let small = Geometry::new(LogicalBlock::B512, 1001, 4, [UnitId(0), UnitId(2)]).unwrap();
    assert!(small.can_hold_block(Location::new(1, 993)));
    assert!(!small.can_hold_block(Location::new(1, 994)));
    assert!(!small.can_hold_block(Location::new(1, u32::MAX)));
    assert!(!small.can_hold_block(Location::new(2, 0)));
    assert!(!small.can_hold_block(Location::new(4, 0)));
}

#[test]
fn a_lone_write_costs_one_logical_block_of_header() {
    assert_eq!(LogicalBlock::B512.chunk_header(1) + LogicalBlock::B512.per_block(), 9);
    assert_eq!(LogicalBlock::B4096.chunk_header(1) + LogicalBlock::B4096.per_block(), 2);
    assert_eq!(LogicalBlock::B512.chunk_header(27), 1);
    assert_eq!(LogicalBlock::B512.chunk_header(28), 2);
}

#[test]
fn a_full_chunk_has_a_mebibyte_with_a_header_as_long_as_a_block() {
    for block in [LogicalBlock::B512, LogicalBlock::B4096] {
        assert_eq!(block.chunk_header(MAX_LINES), block.per_block());
        assert_eq!(block.blocks_in_chunk(block.max_chunk()), MAX_LINES);
        assert_eq!(block.blocks_in_chunk(block.max_chunk() - 1), MAX_LINES - 1);
    }
}

proptest::proptest! {
    #[test]
    fn multiplying_by_the_reciprocal_divides(
        per_unit in 16_u32..1 << 31,
        address in 0_u64..1 << 36,
    ) {
        let (unit, block) = (address / u64::from(per_unit), address % u64::from(per_unit));
        let expected = Location::new(unit as u32, block as u32);
        proptest::prop_assert_eq!(PerUnit::new(per_unit).location(address), expected);
    }
}
