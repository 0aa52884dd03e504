//! Several storages as one: carries out the commands of an array on its members.

mod labels;
mod notices;

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use thermocline_array::{Array, ArrayStart, ArrayStatus, FoundArray, MemberState, Memory};
use thermocline_engine::{DeviceError, Members, UnitCondition, UnitReport};
use thermocline_format::RaidLevel;
use thermocline_nand::Counters;
use thermocline_target::BufferPool;
use thermocline_types::{Bytes, DeviceId, Time};

use super::group::{Group, GroupKind, GroupStatus, MemberStatus};
use super::parts::{Parts, ROUNDS};
use super::{Access, Command, Completion, Fault, Layout, Storage, Token, Waker};
use crate::Buffer;

pub(crate) use labels::{erase, find, relabel, write_label};

/// Bytes of parity and read buffers that are kept for reuse. Chosen, not measured.
const POOL_BYTES: usize = 16 << 20;

/// A member as found.
pub struct FoundMember {
    /// The storage of the member.
    pub storage: Box<dyn Storage>,
    /// The place of its newest label.
    pub place: usize,
}

/// A group as found, and how to use it.
pub struct FoundRaid {
    /// The name in the settings.
    pub name: String,
    /// Paths of the members, by their number.
    pub paths: Vec<PathBuf>,
    /// Why a member is missing.
    pub why: Option<String>,
    /// Its members, by their number; `None` where one is missing.
    pub storages: Vec<Option<FoundMember>>,
    /// How the members start.
    pub start: ArrayStart,
    /// The most bytes per second to fill a member with; `None`: no limit.
    pub rate: Option<u64>,
    /// How the group may be used.
    pub access: Access,
    /// The side of a pair to avoid: read only if the other side cannot be read.
    pub avoid: Option<usize>,
}

/// Memory of an array.
#[derive(Debug)]
struct Room(BufferPool);

impl Memory for Room {
    type Buffer = Buffer;

    fn room(&self, bytes: usize) -> Buffer {
        Buffer::new(self.0.take(bytes))
    }

    fn len(buffer: &Buffer) -> usize {
        buffer.len()
    }

    fn part(buffer: &Buffer, from: usize, bytes: usize) -> Buffer {
        buffer.part(from, bytes)
    }

    fn read<R>(buffer: &Buffer, with: impl FnOnce(&[u8]) -> R) -> R {
        with(&buffer.read())
    }

    fn write<R>(buffer: &Buffer, with: impl FnOnce(&mut [u8]) -> R) -> R {
        with(&mut buffer.write())
    }

    fn is_apart(buffer: &Buffer, at: usize) -> bool {
        !buffer.cuts_block(at)
    }
}

/// Several storages as one.
pub struct Raid {
    array: Array<Room>,
    parts: Parts,
    group: Group,
    begun: Instant,
    completions: Vec<(usize, Completion)>,
    /// Whether members were handed commands since they were last reaped. A member may begin or end them only then, and
    /// wakes nobody.
    unreaped: bool,
    /// The state last shown by the handle.
    told: Option<ArrayStatus>,
}

impl Raid {
    /// Opens the group, and returns a handle of it. The group writes nothing before the first change.
    ///
    /// # Panics
    /// If a member has fewer units than the group needs.
    pub fn open(found: FoundRaid) -> (Raid, Group) {
        let FoundRaid { name, paths, why, storages, start, rate, access, avoid } = found;
        let shape = start.label.shape;
        for one in storages.iter().flatten() {
            assert!(one.storage.layout().units >= shape.member_units(), "no room");
        }
        let places = storages.iter().map(|one| Some(one.as_ref()?.place)).collect();
        let parts = Parts::new(storages.into_iter().map(|one| Some(one?.storage)));
        let kind = match shape.level {
            RaidLevel::Striped => GroupKind::Striped,
            RaidLevel::Mirrored => GroupKind::Mirror,
            RaidLevel::Parity => GroupKind::Parity,
        };
        let statuses = paths.into_iter().map(|path| MemberStatus::out(path, why.clone()));
        let group = Group::new(GroupStatus::new(kind, name, statuses.collect()));
        group.wake_with(parts.waker());
        let memory = Room(BufferPool::new(POOL_BYTES));
        let array = Array::open(FoundArray { start, places, rate, access, avoid, memory });
        let (begun, completions) = (Instant::now(), Vec::new());
        let (unreaped, told, handle) = (false, None, group.clone());
        let mut raid = Raid { array, parts, group, begun, completions, unreaped, told };
        raid.act();
        while !raid.array.is_open() {
            raid.turn(None);
        }
        (raid, handle)
    }

    /// Hands the commands of the array to the members.
    fn act(&mut self) {
        self.take_news();
        self.array.handle_timeout(Time(self.begun.elapsed().as_nanos() as u64));
        while let Some((member, token, command)) = self.array.poll_command() {
            self.parts.submit(member, token, command);
            self.unreaped = true;
        }
        while let Some(member) = self.array.takes_out() {
            drop(self.parts.take(member));
        }
        while let Some(notice) = self.array.poll_notice() {
            self.tell(&notice);
        }
        self.publish();
    }

    /// Takes a new member from the handle, if one waits.
    fn take_news(&mut self) {
        let mut shared = self.group.shared();
        let joins = self.array.vacancy().and_then(|member| Some((member, shared.joining.take()?)));
        drop(shared);
        if let Some((member, storage)) = joins {
            self.parts.put(member, storage);
            self.array.join(member);
        }
    }

    fn publish(&mut self) {
        let array = self.array.status();
        let mut shared = self.group.shared();
        let status = &mut shared.status;
        for (status, written) in status.members.iter_mut().zip(self.array.written()) {
            status.written = *written;
        }
        if self.told.as_ref() == Some(array) {
            return;
        }
        self.told = Some(array.clone());
        for (status, standing) in status.members.iter_mut().zip(&array.members) {
            status.standing = *standing;
            if *standing != MemberState::Out {
                status.why = None;
            }
        }
        status.repaired = array.healed.iter().map(|member| member.places).sum();
        (status.lacking, status.holes) = (array.lacking, array.holes);
        status.filled = array.filled;
    }

    /// How long the group may wait for its members.
    fn due(&self) -> Option<Duration> {
        let now = Time(self.begun.elapsed().as_nanos() as u64);
        let array = self.array.poll_timeout().map(|when| Duration::from_nanos(when.since(now).0));
        array.into_iter().chain(self.parts.timeout()).min()
    }

    /// Waits for the members, and handles their completions.
    fn turn(&mut self, wait: Option<Duration>) {
        let mut completions = std::mem::take(&mut self.completions);
        let wait = wait.into_iter().chain(self.due()).min();
        for round in 0..ROUNDS {
            let wait = if round == 0 { wait } else { Some(Duration::ZERO) };
            self.unreaped = false;
            self.parts.reap(wait, &mut completions);
            for (member, Completion { token, result, .. }) in completions.drain(..) {
                let result = result.map_err(Fault::into);
                self.array.completed(member, thermocline_array::Completion::new(token, result));
            }
            self.act();
            if !self.unreaped {
                break;
            }
        }
        self.completions = completions;
    }
}

impl Storage for Raid {
    fn layout(&self) -> &Layout {
        self.array.layout()
    }

    fn submit(&mut self, token: Token, command: Command) {
        self.array.submit(token, command);
    }

    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        self.act();
        self.turn(wait);
        while let Some(answer) = self.array.poll_answer() {
            let thermocline_array::Completion { token, result, degraded } = answer;
            done.push(Completion { token, result: result.map_err(Fault::from), degraded });
        }
    }

    fn waker(&self) -> Waker {
        self.parts.waker()
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.parts.descriptors(into);
    }

    fn timeout(&self) -> Option<Duration> {
        if self.unreaped { Some(Duration::ZERO) } else { self.due() }
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        let members = self.array.status().members.len();
        if (0..members).all(|member| self.parts.get(member).is_none()) {
            return Err(DeviceError::Gone.into());
        }
        let report = UnitReport { condition: UnitCondition::Good, written: None };
        Ok(vec![report; self.layout().units as usize])
    }

    fn members(&self) -> Members {
        let mut members = Members::NONE;
        if self.array.keeps_parity() {
            members.set(DeviceId(0), self.array.status().members.len() as u8);
        }
        members
    }

    fn drive_counters(&self) -> Option<Counters> {
        self.parts.drive_counters()
    }

    fn drive_media(&self) -> Bytes {
        self.parts.drive_media()
    }
}

impl Drop for Raid {
    /// Closes the array: labels record whether all rows agree with their parity. If all agree, the next opening
    /// compares no rows.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.array.close();
        self.act();
        while !self.array.is_closed() {
            self.turn(None);
        }
    }
}

#[cfg(test)]
mod tests;
