//! What is asked of a pair: changes and flushes go to both sides, a read to the one with fewer reads under way, unless
//! the other is to be written mostly.

use std::ops::Range;

use thermocline_engine::DeviceError;
use thermocline_format::SIDES;
use thermocline_types::{Bytes, DeviceId, Version};

use super::{Asked, Command, Fault, Host, Mirror, Phase, Token, What};
use crate::Buffer;
use thermocline_array::bugs::{self, ArrayBug as Bug};

impl Mirror {
    /// Begins a command, or lets it wait until what is copied there is.
    pub(super) fn take(&mut self, token: Token, command: Command) {
        match command {
            Command::Read { at, into, version } => self.read(token, at, into, version),
            Command::Flush(_) => self.change(token, &Command::Flush(DeviceId(0)), Asked::Flush),
            Command::Heal { at, bytes, version } => self.heal(token, at, bytes, version),
            Command::Distrust { version, .. } => self.distrust(token, version),
            command => {
                let range = self.range(&command);
                let copied = self.piece.as_ref().is_some_and(|piece| meet(&piece.range, &range));
                if copied && !bugs::has(Bug::CopyOverWrites) {
                    self.held.push_back((token, command));
                } else {
                    self.change(token, &command, Asked::Change(range));
                }
            }
        }
    }

    /// Begins what waited for a piece.
    pub(super) fn release(&mut self) {
        for (token, command) in std::mem::take(&mut self.held) {
            self.take(token, command);
        }
    }

    /// Whether somebody writes some of these bytes.
    pub(super) fn is_written(&self, bytes: &Range<u64>) -> bool {
        let written = self
            .hosts
            .iter()
            .any(|(_, host)| matches!(&host.asked, Asked::Change(range) if meet(range, bytes)));
        written && !bugs::has(Bug::CopyOverWrites)
    }

    fn range(&self, command: &Command) -> Range<u64> {
        let unit = |unit| {
            let start = self.layout.start(unit).0;
            start..start + self.layout.unit_bytes().0
        };
        match command {
            Command::Write { at, parts, .. } => {
                at.0..at.0 + parts.iter().map(|part| part.len() as u64).sum::<u64>()
            }
            Command::Read { at, into, .. } => at.0..at.0 + into.len() as u64,
            Command::Reset(one) | Command::Zero(one) | Command::Finish(one) => unit(*one),
            Command::Flush(_) | Command::Heal { .. } | Command::Distrust { .. } => 0..0,
        }
    }

    fn change(&mut self, token: Token, command: &Command, asked: Asked) {
        if let Some(fault) = self.answers.broken() {
            return self.answers.give_now(token, Err(fault));
        }
        let mut sides: Vec<usize> = (0..SIDES).filter(|&side| self.sides[side].labelled).collect();
        if matches!(asked, Asked::Flush) && bugs::has(Bug::FlushOfOne) {
            sides.retain(|&side| self.current().next() == Some(side));
        }
        let host = Host { token, asked, waits: sides.len(), results: [None; SIDES] };
        let key = self.hosts.insert(host);
        for &side in &sides {
            self.hand(side, What::Host(key), copy_of(command));
        }
    }

    fn read(&mut self, token: Token, at: Bytes, into: Buffer, version: Version) {
        let unit = self.layout.unit_of(at);
        let left_out = version.member_left_out().filter(|_| !bugs::has(Bug::VersionNotHeeded));
        let holders = (0..SIDES).filter(|&side| self.holds(side, unit) && Some(side) != left_out);
        let last = |side: usize| (self.sides[side].write_mostly, self.sides[side].reads);
        let side = match self.phase {
            // Until something is changed, the same side gives the same bytes: what is found right is found in them.
            Phase::Passive | Phase::Labelling if left_out.is_none() => self.first_holder(unit),
            _ => holders.min_by_key(|&side| last(side)),
        };
        let Some(side) = side else {
            return self.answers.give_now(token, Err(DeviceError::Gone.into()));
        };
        let asked = Asked::Read(at, into, version);
        let key = self.hosts.insert(Host { token, asked, waits: 1, results: [None; SIDES] });
        self.read_from(side, key);
    }

    fn read_from(&mut self, side: usize, key: usize) {
        let Asked::Read(at, into, _) = &self.hosts[key].asked else { unreachable!("it is a read") };
        let command = Command::read(*at, into.clone());
        self.sides[side].reads += 1;
        self.hand(side, What::Host(key), command);
    }

    pub(super) fn host_done(&mut self, key: usize, side: usize, result: Result<(), Fault>) {
        let host = &mut self.hosts[key];
        host.results[side] = Some(result);
        if matches!(host.asked, Asked::Read(..)) {
            self.sides[side].reads -= 1;
            return self.read_done(key, side, result);
        }
        host.waits -= 1;
        if host.waits == 0 {
            let Host { token, results, .. } = self.hosts.remove(key);
            let result = self.outcome(results);
            self.answers.give(token, result);
        }
    }

    /// What comes of a change that all sides have answered. One that a current side has done is done; the other side is
    /// done without then. One that none has done failed, as on a device of its own.
    fn outcome(&mut self, results: [Option<Result<(), Fault>>; SIDES]) -> Result<(), Fault> {
        let done = self.current().any(|side| results[side] == Some(Ok(())));
        let faults = (0..SIDES).filter_map(|side| Some((side, results[side]?.err()?)));
        let faults: Vec<(usize, Fault)> = faults.collect();
        let of_current = faults.iter().find(|(side, _)| self.current().any(|one| one == *side));
        let worst = of_current.or(faults.first()).map(|(_, fault)| *fault);
        for (side, fault) in faults {
            if done || fault.error == DeviceError::Gone {
                self.fail(side, fault);
            }
        }
        if done { Ok(()) } else { Err(worst.unwrap_or(DeviceError::Gone.into())) }
    }

    fn read_done(&mut self, key: usize, side: usize, result: Result<(), Fault>) {
        let other = 1 - side;
        let Asked::Read(at, _, version) = &self.hosts[key].asked else {
            unreachable!("it is a read")
        };
        let (unit, version) = (self.layout.unit_of(*at), *version);
        let tried = self.hosts[key].results[other].is_some();
        let Err(fault) = result else {
            let Host { token, .. } = self.hosts.remove(key);
            let degraded = (tried && self.holds(other, unit)).then(|| Version::without(other));
            return self.answers.give_read(token, result, degraded);
        };
        if version != Version::AS_READ {
            let Host { token, .. } = self.hosts.remove(key);
            return self.answers.give_now(token, Err(fault));
        }
        if fault.error == DeviceError::Gone {
            self.fail(side, fault);
        }
        if !tried && self.holds(other, unit) {
            return self.read_from(other, key);
        }
        let Host { token, .. } = self.hosts.remove(key);
        self.answers.give_now(token, result);
    }
}

/// Whether two ranges have something in common.
fn meet(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The same command once more; its bytes are shared.
fn copy_of(command: &Command) -> Command {
    match command {
        Command::Heal { .. } | Command::Distrust { .. } => unreachable!("no side gets it"),
        Command::Write { at, parts, class } => {
            Command::Write { at: *at, parts: parts.clone(), class: *class }
        }
        Command::Read { at, into, .. } => Command::read(*at, into.clone()),
        Command::Flush(device) => Command::Flush(*device),
        Command::Reset(unit) => Command::Reset(*unit),
        Command::Zero(unit) => Command::Zero(*unit),
        Command::Finish(unit) => Command::Finish(*unit),
    }
}
