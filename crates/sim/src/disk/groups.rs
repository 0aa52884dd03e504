//! Devices of a pool that consist of several members: the production group code over members of a simulated medium.
//!
//! Each member is a device of the medium, and each strip of a member is a unit. The units of all members follow each
//! other. Caches, crash states and faults work as on any other medium. Only the code below maps members to the pool's
//! devices.

use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use thermocline_array::{
    Access, Array, Command, Completion, FoundArray, HealRange, MemberState, Memory, Token, decide,
    newest_label,
};
use thermocline_engine::wire::{ByteRun as _, InBytes, IoCmd, IoJob};
use thermocline_engine::{DeviceError, Heal, OpId};
use thermocline_format::{
    Geometry, Location, MediaClass, PoolDevice, RAID_PLACE_BYTES, RaidLabel, RaidShape,
};
use thermocline_types::{Bytes, DeviceId, Time, UnitId, Version};

use super::image::Image;
use crate::data::{Arena, Data};
use crate::machine::POOL;

/// A device of a pool that is several members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Which device of the pool.
    pub device: DeviceId,
    /// The group's layout.
    pub shape: RaidShape,
    /// The first device of the medium that is a member; the others follow.
    pub first_member: u8,
}

impl GroupSpec {
    /// The devices of the medium that are members.
    pub fn members(&self) -> impl Iterator<Item = DeviceId> {
        (self.first_member..self.first_member + self.shape.members).map(DeviceId)
    }
}

/// Which devices of a pool are groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups(pub Vec<GroupSpec>);

impl Groups {
    /// The medium for a pool of `geometry` in which some devices are groups: `shape_of` says how these are divided.
    ///
    /// # Panics
    /// When that cannot be.
    pub fn medium(
        geometry: &Geometry,
        shape_of: impl Fn(DeviceId, u32) -> Option<RaidShape>,
    ) -> (Geometry, Groups) {
        let (mut devices, mut groups, mut first) = (Vec::new(), Vec::new(), 0);
        for (device, units) in geometry.device_units() {
            let own = geometry.device(device).superblock_units.map(|unit| unit.0 - units.start);
            let mut add = |units: u32, head: u32, devices: &mut Vec<PoolDevice>| {
                let superblocks = own.map(|unit| UnitId(first + head + unit));
                devices.push(PoolDevice::new(MediaClass::Capacity, units, superblocks));
                first += units;
            };
            match shape_of(device, units.len() as u32) {
                None => add(units.len() as u32, 0, &mut devices),
                Some(shape) => {
                    let first_member = devices.len() as u8;
                    groups.push(GroupSpec { device, shape, first_member });
                    for _ in 0..shape.members {
                        add(shape.member_units(), shape.head_units(), &mut devices);
                    }
                }
            }
        }
        let per_unit = geometry.blocks_per_unit();
        let medium = Geometry::of_devices(geometry.logical_block(), per_unit, &devices);
        (medium.expect("members of a pool that works"), Groups(groups))
    }

    /// The members of all groups get the labels of groups that were just made.
    pub fn label(&self, arena: &Rc<Arena>, image: &mut Image) {
        for spec in &self.0 {
            for (member, device) in spec.members().enumerate() {
                let first = RaidLabel::of_new(POOL, 7, spec.device.0, spec.shape);
                let label = RaidLabel { member: member as u8, ..first };
                let mut sectors = Vec::new();
                arena.sectors(&label.encode(), &mut sectors);
                let at = place_on(image, device, &spec.shape, Bytes(RaidShape::label_place(0)));
                let per_block = image.media().sectors_per_logical();
                image.put(at.unit, at.block * per_block, &sectors);
            }
        }
    }
}

/// Where byte `at` of a member is on the medium.
fn place_on(image: &Image, member: DeviceId, shape: &RaidShape, at: Bytes) -> Location {
    let units = image.media().geometry.device_units().find(|(device, _)| *device == member);
    let (_, units) = units.expect("the medium has the member");
    strip_place(units.start, shape, at.0)
}

/// Where a byte of a member is whose first strip is in unit `first` of the medium.
fn strip_place(first: u32, shape: &RaidShape, at: u64) -> Location {
    let unit = UnitId(first + (at / shape.strip()) as u32);
    Location { unit, block: (at % shape.strip() / shape.logical_block.bytes() as u64) as u32 }
}

/// Blocks of the arena as buffers of an array.
#[derive(Clone)]
pub(super) struct Blocks(Rc<Arena>);

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Blocks")
    }
}

impl Memory for Blocks {
    type Buffer = Data;

    fn room(&self, bytes: usize) -> Data {
        <Data as thermocline_engine::wire::ByteRun>::room(&self.0, bytes)
    }

    fn len(buffer: &Data) -> usize {
        buffer.bytes()
    }

    fn part(buffer: &Data, from: usize, bytes: usize) -> Data {
        thermocline_engine::wire::ByteRun::part(buffer, from, bytes)
    }

    fn read<R>(buffer: &Data, with: impl FnOnce(&[u8]) -> R) -> R {
        buffer.look(with)
    }

    fn write<R>(buffer: &Data, with: impl FnOnce(&mut [u8]) -> R) -> R {
        buffer.rewrite(with)
    }
}

/// A command of the engine that a group carries out.
#[derive(Debug)]
struct Asked {
    op: OpId,
    job: IoJob<InBytes<Data>>,
}

/// A group of a pool that is in use.
#[derive(Debug)]
struct Group {
    spec: GroupSpec,
    /// The group's units in the pool.
    units: Range<u32>,
    /// Units of each member on the medium.
    members: Vec<Range<u32>>,
    /// `None` if the group refused its members.
    array: Option<Array<Blocks>>,
    asked: FxHashMap<u64, Asked>,
    next: u64,
}

/// A command to a member, on the medium.
pub(super) struct ToMember {
    pub(super) group: usize,
    pub(super) member: usize,
    pub(super) token: Token,
    pub(super) cmd: IoCmd<InBytes<Data>>,
}

/// How a command of the engine to a group ended.
pub(super) type Answer = (OpId, IoJob<InBytes<Data>>, Result<(), DeviceError>);

/// The pool's view of a medium.
#[derive(Debug)]
pub(super) struct Layer {
    groups: Vec<Group>,
    /// Of each device of the pool that is no group, its units in the pool and the first one on the medium.
    plain: Vec<(Range<u32>, u32)>,
    specs: Groups,
    arena: Rc<Arena>,
}

impl Layer {
    /// The layer for a pool of `geometry`; nothing is on it yet.
    pub(super) fn new(arena: &Rc<Arena>, specs: &Groups) -> Layer {
        let (groups, plain) = (Vec::new(), Vec::new());
        Layer { groups, plain, specs: specs.clone(), arena: Rc::clone(arena) }
    }

    /// Forgets the groups.
    pub(super) fn close(&mut self) {
        self.groups.clear();
        self.plain.clear();
    }

    /// Whether the groups were found.
    pub(super) fn is_open(&self) -> bool {
        !self.groups.is_empty() || self.is_none()
    }

    /// Whether the pool sees the medium as it is.
    pub(super) fn is_none(&self) -> bool {
        self.specs.0.is_empty()
    }

    /// Finds the groups on `image`, for a pool of `geometry`; what was under way is forgotten.
    pub(super) fn open(&mut self, image: &Image, geometry: &Geometry) {
        self.close();
        let medium: Vec<Range<u32>> =
            image.media().geometry.device_units().map(|(_, units)| units).collect();
        let mut next = 0;
        for (device, units) in geometry.device_units() {
            let spec = self.specs.0.iter().find(|spec| spec.device == device);
            let Some(spec) = spec else {
                self.plain.push((units, medium[next].start));
                next += 1;
                continue;
            };
            let members = spec.members().map(|member| medium[member.index()].clone()).collect();
            next += usize::from(spec.shape.members);
            let array = self.found(image, spec);
            let (asked, spec) = (FxHashMap::default(), *spec);
            self.groups.push(Group { spec, units, members, array, asked, next: 0 });
        }
    }

    /// The group whose members `image` has; `None` if they are refused.
    fn found(&self, image: &Image, spec: &GroupSpec) -> Option<Array<Blocks>> {
        let found: Vec<Option<(RaidLabel, usize)>> = spec
            .members()
            .map(|member| {
                let places = [0, 1].map(|place| {
                    let at = Bytes(RaidShape::label_place(place));
                    let at = place_on(image, member, &spec.shape, at);
                    let block = image.media().geometry.logical_block();
                    let sectors = image.logical(at, block.to_hold(RAID_PLACE_BYTES));
                    let mut bytes = Vec::new();
                    self.arena.copy_out(sectors, &mut bytes);
                    bytes
                });
                newest_label([&places[0], &places[1]], Some(POOL))
            })
            .collect();
        let labels: Vec<Option<&RaidLabel>> =
            found.iter().map(|found| found.as_ref().map(|(label, _)| label)).collect();
        // All members are there. Where one has no label any more, an operator has the other side of a mirror believed:
        // the program to keep it asks as if to look.
        let start = decide(&labels, Access::ReadOnly).ok()?;
        let places = start.members.iter().map(|(named, _)| {
            named.and_then(|named| found[named].as_ref().map(|(_, place)| *place))
        });
        let places = places.collect();
        let memory = Blocks(Rc::clone(&self.arena));
        let (rate, avoid, access) = (None, None, Access::ReadWrite);
        Some(Array::open(FoundArray { start, places, rate, access, avoid, memory }))
    }

    /// Whether members of a group are refused.
    pub(super) fn refuses(&self) -> bool {
        self.groups.iter().any(|group| group.array.is_none())
    }

    /// The place of a plain device on the medium; `None` of a group.
    pub(super) fn plain(&self, unit: UnitId) -> Option<UnitId> {
        let (units, first) = self.plain.iter().find(|(units, _)| units.contains(&unit.0))?;
        Some(UnitId(unit.0 - units.start + first))
    }

    /// The device of the medium that a device of the pool is, if that is no group.
    pub(super) fn plain_device(&self, device: DeviceId, geometry: &Geometry) -> Option<DeviceId> {
        let units = geometry.device_units().find(|(one, _)| *one == device)?.1;
        let first = self.plain(UnitId(units.start))?;
        let before = self.plain.iter().take_while(|(_, start)| *start < first.0).count();
        let members: usize = self
            .groups
            .iter()
            .filter(|group| group.members[0].start < first.0)
            .map(|group| usize::from(group.spec.shape.members))
            .sum();
        Some(DeviceId((before + members) as u8))
    }

    /// The members of each group have these versions, which an engine can ask for.
    pub(super) fn group_of(&self, cmd: &IoCmd<InBytes<Data>>) -> Option<usize> {
        let unit = match cmd {
            IoCmd::Write { at, .. } | IoCmd::Read { at, .. } => at.unit,
            IoCmd::Heal(places) => places[0].at.unit,
            IoCmd::Reset(unit) | IoCmd::Zero(unit) | IoCmd::Finish(unit) => *unit,
            IoCmd::Distrust { unit, .. } => *unit,
            IoCmd::Flush(device) => {
                return self.groups.iter().position(|group| group.spec.device == *device);
            }
            IoCmd::Report => return None,
        };
        self.groups.iter().position(|group| group.units.contains(&unit.0))
    }

    /// Where a block of the pool is on the medium, as its group reads it when all members are there.
    pub(super) fn on_medium(&self, at: Location, block_bytes: u64) -> Location {
        if let Some(unit) = self.plain(at.unit) {
            return Location { unit, ..at };
        }
        let group = self.groups.iter().find(|group| group.units.contains(&at.unit.0));
        let group = group.expect("a unit of the pool");
        let (shape, unit) = (&group.spec.shape, at.unit.0 - group.units.start);
        let from = u64::from(at.block) * block_bytes;
        let span = shape.spans(from, block_bytes).next().expect("it has a byte");
        let member = shape.member_of(unit, span.row, span.piece);
        let byte = shape.piece_start(unit, span.row) + span.from;
        strip_place(group.members[member].start, shape, byte)
    }

    /// What of the medium holds a block of the pool. For each piece of the block: the same bytes of each member's row,
    /// and of how many members they must be hit before the piece is lost.
    pub(super) fn pieces(&self, at: Location, bytes: u64) -> Vec<(Vec<Location>, u64, usize)> {
        if let Some(unit) = self.plain(at.unit) {
            return vec![(vec![Location { unit, ..at }], bytes, 1)];
        }
        let group = self.groups.iter().find(|group| group.units.contains(&at.unit.0));
        let Some(group) = group else { return vec![(vec![at], bytes, 1)] };
        let (shape, unit) = (&group.spec.shape, at.unit.0 - group.units.start);
        let from = u64::from(at.block) * shape.logical_block.bytes() as u64;
        let pieces = shape.spans(from, bytes).map(|span| {
            let byte = shape.piece_start(unit, span.row) + span.from;
            let members = group.members.iter();
            let places = members.map(|units| strip_place(units.start, shape, byte)).collect();
            (places, span.bytes, shape.level.parity() + 1)
        });
        pieces.collect()
    }

    /// The unit of the pool of which a unit of the medium has a part, if any.
    pub(super) fn in_pool(&self, unit: UnitId) -> Option<UnitId> {
        if self.is_none() {
            return Some(unit);
        }
        let plain = self.plain.iter().find_map(|(units, first)| {
            let own = unit.0.checked_sub(*first)? + units.start;
            units.contains(&own).then_some(own)
        });
        let of_group = |group: &Group| {
            let member = group.members.iter().find(|units| units.contains(&unit.0))?;
            let own = unit.0 - member.start;
            let own = own.checked_sub(group.spec.shape.head_units())? + group.units.start;
            group.units.contains(&own).then_some(own)
        };
        plain.or_else(|| self.groups.iter().find_map(of_group)).map(UnitId)
    }

    /// Whether all members of all groups are current.
    pub(super) fn is_whole(&self) -> bool {
        let current = |one: &MemberState| *one == MemberState::Current;
        let whole = |array: &Array<Blocks>| array.status().members.iter().all(current);
        self.groups.iter().all(|group| group.array.as_ref().is_some_and(whole))
    }

    /// Hands a command of the engine to a group. The answer comes out of [`Layer::poll_answer`].
    pub(super) fn submit(
        &mut self,
        index: usize,
        op: OpId,
        cmd: IoCmd<InBytes<Data>>,
        job: IoJob<InBytes<Data>>,
    ) -> Option<Answer> {
        let group = &mut self.groups[index];
        let Some(array) = &mut group.array else { return Some((op, job, Err(DeviceError::Gone))) };
        let layout = *array.layout();
        let own = |unit: UnitId| UnitId(unit.0 - group.units.start);
        let offset = |at: Location| layout.offset(Location { unit: own(at.unit), ..at });
        let command = match cmd {
            IoCmd::Write { at, parts, class } => Command::Write { at: offset(at), parts, class },
            IoCmd::Read { at, into, version } => Command::Read { at: offset(at), into, version },
            IoCmd::Heal(places) => {
                let range = |Heal { at, blocks, version }: Heal| {
                    let bytes = u64::from(blocks) * layout.logical_block.bytes() as u64;
                    HealRange { at: offset(at), bytes, version }
                };
                Command::Heal(places.into_iter().map(range).collect())
            }
            IoCmd::Distrust { unit, version } => {
                Command::Distrust { at: layout.start(own(unit)), version }
            }
            IoCmd::Flush(_) => Command::Flush(DeviceId(0)),
            IoCmd::Reset(unit) => Command::Reset(own(unit)),
            IoCmd::Zero(unit) => Command::Zero(own(unit)),
            IoCmd::Finish(unit) => Command::Finish(own(unit)),
            IoCmd::Report => panic!("a report is of all devices"),
        };
        group.next += 1;
        group.asked.insert(group.next, Asked { op, job });
        array.submit(Token(group.next), command);
        None
    }

    /// A command to a member has ended.
    pub(super) fn completed(
        &mut self,
        group: usize,
        member: usize,
        token: Token,
        result: Result<(), DeviceError>,
    ) {
        if let Some(array) = &mut self.groups[group].array {
            let result = result.map_err(Into::into);
            array.completed(member, Completion { token, result, degraded: None });
        }
    }

    /// The next command to a member of any group.
    pub(super) fn poll_command(&mut self, now: Time) -> Option<ToMember> {
        for (index, group) in self.groups.iter_mut().enumerate() {
            let Some(array) = &mut group.array else { continue };
            array.handle_timeout(now);
            while array.poll_notice().is_some() {}
            while array.takes_out().is_some() {}
            let Some((member, token, command)) = array.poll_command() else { continue };
            let first = group.members[member].start;
            let place = |at: Bytes| strip_place(first, &group.spec.shape, at.0);
            let unit = |unit: UnitId| UnitId(first + unit.0);
            let cmd = match command {
                Command::Write { at, parts, class } => IoCmd::Write { at: place(at), parts, class },
                Command::Read { at, into, version } => IoCmd::Read { at: place(at), into, version },
                Command::Flush(_) => IoCmd::Flush(DeviceId(group.spec.first_member + member as u8)),
                Command::Reset(own) => IoCmd::Reset(unit(own)),
                Command::Zero(own) => IoCmd::Zero(unit(own)),
                Command::Finish(own) => IoCmd::Finish(unit(own)),
                Command::Heal(_) | Command::Distrust { .. } => {
                    panic!("members are not asked to heal")
                }
            };
            return Some(ToMember { group: index, member, token, cmd });
        }
        None
    }

    /// The next answer of a group.
    pub(super) fn poll_answer(&mut self) -> Option<(Answer, Option<Version>)> {
        for group in &mut self.groups {
            let Some(array) = &mut group.array else { continue };
            let Some(Completion { token, result, degraded }) = array.poll_answer() else {
                continue;
            };
            let Asked { op, job } = group.asked.remove(&token.0).expect("it was asked for");
            return Some(((op, job, result.map_err(|fault| fault.error)), degraded));
        }
        None
    }
}
