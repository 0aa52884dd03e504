//! Faults of a device: which command fails how, and the record of what was broken.
//!
//! Invariants:
//! * Rules, seed and the order of commands alone decide which commands fail.
//! * The record has every fault. The disk's atlas has the visible effects.

use thermocline_engine::wire::{Encoding, IoCmd};
use thermocline_engine::{DeviceError, UnitCondition};
use thermocline_format::{Geometry, Location};
use thermocline_types::{Rng, Time};

/// Kinds of commands, as far as faults distinguish commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandKind {
    /// A chunk is written.
    WriteChunk,
    /// A superblock record is written.
    WriteSuperblock,
    /// Blocks, pages, chunks or superblocks are read.
    Read,
    /// A unit is reset.
    Reset,
    /// A unit is filled with zeros.
    Zero,
    /// A unit is finished.
    Finish,
    /// The cache is flushed.
    Flush,
    /// Units are reported.
    Report,
    /// A member of a device is repaired from the other members, or is marked as distrusted.
    Heal,
}

impl CommandKind {
    /// The kind of a command to media of `geometry`.
    #[must_use]
    pub fn of<E: Encoding>(cmd: &IoCmd<E>, geometry: &Geometry) -> CommandKind {
        match cmd {
            IoCmd::Write { at, .. } if geometry.is_superblock_unit(at.unit) => {
                CommandKind::WriteSuperblock
            }
            IoCmd::Write { .. } => CommandKind::WriteChunk,
            IoCmd::Read { .. } => CommandKind::Read,
            IoCmd::Reset(_) => CommandKind::Reset,
            IoCmd::Zero(_) => CommandKind::Zero,
            IoCmd::Finish(_) => CommandKind::Finish,
            IoCmd::Flush(_) => CommandKind::Flush,
            IoCmd::Report => CommandKind::Report,
            IoCmd::Heal(_) | IoCmd::Distrust { .. } => CommandKind::Heal,
        }
    }

    /// Whether commands of the kind change media.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, CommandKind::WriteChunk | CommandKind::WriteSuperblock)
    }
}

/// How a command goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The command reports an error and does nothing.
    Fail(DeviceError),
    /// As `Fail`, but the error comes late: later commands may complete first.
    FailLate(DeviceError),
    /// A write reports an error and is done in part.
    FailTorn(DeviceError),
    /// A flush reports an error, and some covered changes are lost for good. Reads show the lost changes until the host
    /// restarts. The next flush succeeds.
    FailForgotten(DeviceError),
    /// A write is reported as done, and the old content stays.
    Lose,
    /// A write is reported as done, and lands at another place of the medium; conventional media only.
    Misdirect,
    /// A write is reported as done, and lands at the same place of another device; conventional media only.
    OtherDevice,
    /// If a power cut takes the write, one of its sectors gets its first bytes only; conventional media only.
    TearWithin,
    /// A read returns wrong bytes once: flipped bits, zeros, or the bytes of another place. Only an open pool is
    /// struck: recovery takes a misread header for the end of a tail, and no checksum detects the mistake.
    Misread,
    /// From this command on no command to the device returns until the host restarts. Each command counts as failed
    /// after a deadline. Only an open pool is struck.
    Hang,
    /// The given number of written bits is flipped.
    Flip(u32),
    /// The command is delayed by the given time.
    Delay(Time),
    /// A flush is reported as done, and does nothing.
    Lie,
    /// The unit that the command is about changes its condition, before the command is tried.
    Degrade(UnitCondition),
}

/// When a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Kind of the struck commands; `None` means any kind.
    pub kind: Option<CommandKind>,
    /// First struck command, counted from 0 over all commands.
    pub first: u64,
    /// End of the struck commands, exclusive.
    pub end: u64,
    /// Mean number of commands per struck command.
    pub one_in: u64,
    /// What happens.
    pub fault: Fault,
}

impl Rule {
    /// `fault` happens to command `number`, once.
    #[must_use]
    pub const fn once(number: u64, fault: Fault) -> Rule {
        Rule { kind: None, first: number, end: number + 1, one_in: 1, fault }
    }

    /// `fault` happens to all commands of `kind` from command `first` on.
    #[must_use]
    pub const fn from_then_on(first: u64, kind: CommandKind, fault: Fault) -> Rule {
        Rule { kind: Some(kind), first, end: u64::MAX, one_in: 1, fault }
    }

    fn matches(&self, number: u64, kind: CommandKind) -> bool {
        (self.first..self.end).contains(&number) && self.kind.is_none_or(|only| only == kind)
    }
}

/// A fault that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injected {
    /// The number of the command.
    pub command: u64,
    /// Its kind.
    pub kind: CommandKind,
    /// The fault of the command.
    pub fault: Fault,
    /// Where the command was to do its work, if it has a place.
    pub at: Option<Location>,
    /// The place that was hit instead.
    pub instead: Option<Location>,
}

/// Decides which commands go wrong, and records it.
#[derive(Clone, Debug)]
pub struct Injector {
    rules: Vec<Rule>,
    rng: Rng,
    commands: u64,
    log: Vec<Injected>,
}

impl Injector {
    /// An injector that follows `rules`, the first that matches each command.
    #[must_use]
    pub fn new(rules: Vec<Rule>, seed: u64) -> Injector {
        Injector { rules, rng: Rng::new(seed), commands: 0, log: Vec::new() }
    }

    /// Number of commands submitted until now.
    #[must_use]
    pub const fn commands(&self) -> u64 {
        self.commands
    }

    /// Every injected fault in order, without delays.
    #[must_use]
    pub fn log(&self) -> &[Injected] {
        &self.log
    }

    /// Follows another rule, before all others.
    pub fn add(&mut self, rule: Rule) {
        self.rules.insert(0, rule);
    }

    /// Stops all faults; keeps the record.
    pub fn heal(&mut self) {
        self.rules.clear();
    }

    /// Randomness for how a fault looks in detail.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Counts a command and decides its fault.
    pub fn decide(&mut self, kind: CommandKind) -> Option<Fault> {
        let number = self.commands;
        self.commands += 1;
        let rng = &mut self.rng;
        let strikes = |rule: &&Rule| {
            rule.matches(number, kind) && (rule.one_in == 1 || rng.below(rule.one_in) == 0)
        };
        let fault = self.rules.iter().find(strikes)?.fault;
        applies(fault, kind).then_some(fault)
    }

    /// Records a fault that happened to the command last counted.
    pub fn record(
        &mut self,
        kind: CommandKind,
        fault: Fault,
        at: Option<Location>,
        instead: Option<Location>,
    ) {
        let command = self.commands.saturating_sub(1);
        self.log.push(Injected { command, kind, fault, at, instead });
    }
}

/// Whether a fault can happen to a command of this kind.
fn applies(fault: Fault, kind: CommandKind) -> bool {
    match fault {
        Fault::Fail(_) | Fault::FailLate(_) | Fault::Delay(_) => true,
        Fault::FailTorn(_) | Fault::Lose | Fault::Flip(_) => kind.is_write(),
        Fault::Misdirect | Fault::OtherDevice | Fault::TearWithin => kind.is_write(),
        Fault::Misread => kind == CommandKind::Read,
        Fault::Hang => !matches!(kind, CommandKind::Report | CommandKind::Heal),
        Fault::Lie | Fault::FailForgotten(_) => kind == CommandKind::Flush,
        Fault::Degrade(_) => {
            kind.is_write() || matches!(kind, CommandKind::Reset | CommandKind::Finish)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_strikes_the_commands_that_it_names() {
        let once = Rule::once(2, Fault::Fail(DeviceError::Io));
        let sticky = Rule::from_then_on(4, CommandKind::Flush, Fault::Lie);
        let mut injector = Injector::new(vec![once, sticky], 1);
        let kinds = [
            CommandKind::Flush,
            CommandKind::Read,
            CommandKind::Read,
            CommandKind::Flush,
            CommandKind::Flush,
            CommandKind::Read,
            CommandKind::Flush,
        ];
        let struck: Vec<bool> = kinds.map(|kind| injector.decide(kind).is_some()).to_vec();
        assert_eq!(struck, [false, false, true, false, true, false, true]);
        assert_eq!(injector.commands(), 7);
    }

    #[test]
    fn nothing_is_lost_by_a_read_and_no_flush_is_misdirected() {
        for (fault, kind) in [
            (Fault::Lose, CommandKind::Read),
            (Fault::Misdirect, CommandKind::Flush),
            (Fault::Misread, CommandKind::WriteChunk),
            (Fault::Hang, CommandKind::Report),
            (Fault::Lie, CommandKind::WriteChunk),
            (Fault::Flip(1), CommandKind::Reset),
        ] {
            let mut injector = Injector::new(vec![Rule::once(0, fault)], 1);
            assert_eq!(injector.decide(kind), None, "{fault:?} {kind:?}");
        }
    }
}
