//! A pool device that is a group of simulated drives. The array of the server runs the group, over buffers with a
//! length but no bytes.
//!
//! The time of a group: a member gets a command of the array when the commands before it in its chain have ended. A
//! command of the engine runs to its end when it is given, so its later steps reach members ahead of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use thermocline_array::{
    Access, Array, ArrayStart, Command, Completion, FoundArray, MemberStart, Memory, Token,
    WrittenBytes,
};
use thermocline_format::{PoolId, RaidLabel, RaidShape};
use thermocline_nand::{Drive, DriveError, OwnerRun, Slices};
use thermocline_types::{Bytes, Class, DeviceId, Time, UnitId, Version};

use crate::tenants::push_run;

/// Bytes of which only the number is kept, and the owners, where these are followed.
#[derive(Clone, Debug)]
struct Length {
    bytes: u64,
    /// Owners of the bytes of a write of the engine, and the first of its bytes that is in this buffer.
    owners: Option<(Rc<[OwnerRun]>, u64)>,
}

impl Length {
    /// The owners of the bytes: the runs of a write, cut to this buffer.
    fn runs(&self, nobody: u16) -> Vec<OwnerRun> {
        let Some((runs, from)) = &self.owners else { return vec![(nobody, Bytes(self.bytes))] };
        let (mut all, mut start, end) = (Vec::new(), 0, from + self.bytes);
        for (owner, length) in runs.iter() {
            let (first, last) = (start.max(*from), (start + length.0).min(end));
            if first < last {
                all.push((*owner, Bytes(last - first)));
            }
            start += length.0;
        }
        all
    }
}

/// Makes buffers without bytes.
#[derive(Debug)]
struct Lengths;

impl Memory for Lengths {
    type Buffer = Length;
    const HAS_BYTES: bool = false;

    fn room(&self, bytes: usize) -> Length {
        Length { bytes: bytes as u64, owners: None }
    }

    fn len(buffer: &Length) -> usize {
        buffer.bytes as usize
    }

    fn part(buffer: &Length, from: usize, bytes: usize) -> Length {
        let owners = buffer.owners.as_ref();
        let owners = owners.map(|(runs, first)| (Rc::clone(runs), first + from as u64));
        Length { bytes: bytes as u64, owners }
    }

    fn read<R>(_: &Length, with: impl FnOnce(&[u8]) -> R) -> R {
        with(&[])
    }

    fn write<R>(_: &Length, with: impl FnOnce(&mut [u8]) -> R) -> R {
        with(&mut [])
    }

    fn holding(&self, bytes: &[u8]) -> Length {
        self.room(bytes.len())
    }
}

/// The end of a command to a member: when, in the order of submission, on which member.
type End = (Time, u64, usize, Token);

/// A new group over fresh drives.
#[derive(Debug)]
pub struct DriveGroup {
    array: Array<Lengths>,
    /// The members, side by side.
    drives: Drive,
    slices: Slices,
    /// Commands given so far, and commands to members.
    given: u64,
    sent: u64,
    under_way: BinaryHeap<Reverse<End>>,
    /// Owner number of unowned bytes; `None` if owners are not followed.
    nobody: Option<u16>,
    /// Owners of the bytes of the next write.
    claimed: Option<Rc<[OwnerRun]>>,
    /// The error of the first member that failed: the group is not used any more.
    failed: Option<DriveError>,
}

impl DriveGroup {
    /// A group of the given shape over the members in `drives`.
    ///
    /// # Panics
    /// If there are more or fewer drives than members.
    pub fn new(shape: RaidShape, drives: Drive) -> DriveGroup {
        let members = usize::from(shape.members);
        assert_eq!(drives.side_by_side().len(), members, "a drive for each member");
        let slices = Slices::new(&drives.side_by_side()[0], Bytes(shape.strip()));
        let label = RaidLabel::of_new(PoolId([1; 16]), 1, 0, shape);
        let current = (0..members).map(|member| (Some(member), MemberStart::Current)).collect();
        let array = Array::open(FoundArray {
            start: ArrayStart { label, members: current },
            places: vec![Some(0); members],
            rate: None,
            access: Access::ReadWrite,
            avoid: None,
            memory: Lengths,
        });
        let (nobody, claimed, failed, under_way) = (None, None, None, BinaryHeap::new());
        DriveGroup { array, drives, slices, given: 0, sent: 0, under_way, nobody, claimed, failed }
    }

    /// The members, side by side.
    pub fn drives(&self) -> &Drive {
        &self.drives
    }

    /// The same, to look at their units.
    pub fn drives_mut(&mut self) -> &mut Drive {
        &mut self.drives
    }

    /// Bytes that members were given, by cause.
    pub fn written(&self) -> WrittenBytes {
        self.array.written().iter().fold(WrittenBytes::default(), |sum, one| sum.plus(one))
    }

    /// From now on, follows whose of `count` owners the data on the members is.
    pub fn follow_owners(&mut self, count: u16, piece: Bytes) {
        self.drives.follow_owners(count, piece);
        self.nobody = Some(count);
    }

    /// The bytes that are written next belong to the owners of `runs`, which follow each other.
    pub fn claim(&mut self, runs: &[OwnerRun]) {
        self.claimed = Some(runs.into());
    }

    /// The first byte of `unit`.
    pub fn start(&self, unit: UnitId) -> Bytes {
        self.array.layout().start(unit)
    }

    /// Number of units.
    pub fn units(&self) -> u32 {
        self.array.layout().units
    }

    pub fn write(
        &mut self,
        now: Time,
        at: Bytes,
        length: Bytes,
        class: Class,
    ) -> Result<Time, DriveError> {
        let owners = self.claimed.take().map(|runs| (runs, 0));
        let parts = vec![Length { bytes: length.0, owners }];
        self.carry_out(now, Command::Write { at, parts, class })
    }

    pub fn read(&mut self, now: Time, at: Bytes, length: Bytes) -> Result<Time, DriveError> {
        let into = Length { bytes: length.0, owners: None };
        self.carry_out(now, Command::read(at, into))
    }

    pub fn reset(&mut self, now: Time, unit: UnitId) -> Result<Time, DriveError> {
        self.carry_out(now, Command::Reset(unit))
    }

    pub fn finish(&mut self, now: Time, unit: UnitId) -> Result<Time, DriveError> {
        self.carry_out(now, Command::Finish(unit))
    }

    pub fn flush(&mut self, now: Time) -> Result<Time, DriveError> {
        self.carry_out(now, Command::Flush(DeviceId(0)))
    }

    /// Carries out a command that comes in at `now`. Returns when it ends.
    fn carry_out(&mut self, now: Time, command: Command<Length>) -> Result<Time, DriveError> {
        self.failed.map_or(Ok(()), Err)?;
        self.given += 1;
        self.array.submit(Token(self.given), command);
        let (mut at, mut answered) = (now, None);
        loop {
            while let Some((member, token, command)) = self.array.poll_command() {
                let end = self.on_member(at, member, command);
                let end = end.inspect_err(|error| self.failed = Some(*error))?;
                self.sent += 1;
                self.under_way.push(Reverse((end, self.sent, member, token)));
            }
            while let Some(answer) = self.array.poll_answer() {
                assert_eq!(answer.token, Token(self.given), "an earlier command has ended");
                answered = Some(answer.result.map(|()| at));
            }
            let Some(Reverse((end, _, member, token))) = self.under_way.pop() else { break };
            at = at.max(end);
            self.array.completed(member, Completion::new(token, Ok(())));
        }
        let result = answered.expect("the array answers when no command is under way");
        Ok(result.expect("no member failed"))
    }

    /// Has a member carry out a command that comes in at `now`. Returns when it ends.
    fn on_member(
        &mut self,
        now: Time,
        member: usize,
        command: Command<Length>,
    ) -> Result<Time, DriveError> {
        let Drive::Striped(drives) = &mut self.drives else {
            unreachable!("members stand side by side")
        };
        let (slices, drive) = (self.slices, drives.drive_mut(member));
        match command {
            Command::Write { at, parts, class } => {
                if let Some(nobody) = self.nobody {
                    let mut runs = Vec::new();
                    for (owner, bytes) in parts.iter().flat_map(|part| part.runs(nobody)) {
                        push_run(&mut runs, owner, bytes);
                    }
                    drive.claim(at, &runs);
                }
                let length = Bytes(parts.iter().map(|part| part.bytes).sum());
                slices.write(drive, now, at, length, class)
            }
            Command::Read { at, into, version } => {
                assert_eq!(version, Version::AS_READ, "members have one version");
                slices.read(drive, now, at, Bytes(into.bytes))
            }
            Command::Flush(_) => slices.flush(drive, now),
            Command::Reset(unit) | Command::Zero(unit) => slices.reset(drive, now, unit),
            Command::Finish(unit) => slices.finish(drive, now, unit),
            Command::Heal(_) | Command::Distrust { .. } => {
                unreachable!("members are not asked to heal")
            }
        }
    }
}
