//! Closing: partial rows get their parity, and labels record a clean end.

use super::{Array, MemberState, Phase};
use crate::Memory;

/// A stage of closing waits for:
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Changes of the user.
    Changes,
    /// Partial rows, and jobs.
    Rows,
    /// The last flush.
    Round,
    /// The last label.
    Label,
}

impl<M: Memory> Array<M> {
    /// Ends all work. If all rows agree with their parity, the last labels record a clean end. An array without changes
    /// is closed without writing. The user sends no further command.
    pub fn close(&mut self) {
        if matches!(self.phase, Phase::Looking(_) | Phase::Passive) {
            self.phase = Phase::Closed;
        }
        self.closing = true;
        self.act();
    }

    /// Whether the array is closed. With too few members, or without a label, closing ends at once.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    pub(super) fn go_on_closing(&mut self) {
        if !self.closing || matches!(self.phase, Phase::Closed) {
            return;
        }
        if self.answers.broken().is_some() || !self.is_usable() {
            self.phase = Phase::Closed;
        }
        if matches!(self.phase, Phase::Active) {
            self.phase = Phase::Closing(Stage::Changes);
        }
        while let Phase::Closing(stage) = self.phase {
            match self.after(stage) {
                Some(next) => self.phase = next,
                None => return,
            }
        }
    }

    /// The phase behind a stage, if the stage is over.
    fn after(&mut self, stage: Stage) -> Option<Phase<M::Buffer>> {
        match stage {
            Stage::Changes if self.changes.is_empty() && self.held.is_empty() => {
                let units: Vec<u32> = self.fronts.keys().copied().collect();
                for unit in units {
                    self.pad(None, unit);
                }
                Some(Phase::Closing(Stage::Rows))
            }
            Stage::Rows if self.changes.is_empty() && self.job.is_none() && !self.has_job() => {
                self.wants_round = true;
                self.begin_round();
                Some(Phase::Closing(Stage::Round))
            }
            Stage::Round if self.round.is_none() && !self.wants_round => {
                // The rows of the log are full and flushed now. A row that could not be settled stays in the log.
                let settled = self.left.is_empty() && self.full.is_empty();
                if self.filling().is_some() {
                    self.rebuild.save();
                }
                self.settled = settled && self.fronts.is_empty();
                self.stale = true;
                self.begin_label();
                Some(Phase::Closing(Stage::Label))
            }
            Stage::Label if !self.stale && self.relabel.is_none() => Some(Phase::Closed),
            _ => None,
        }
    }

    /// Whether few enough members are out to write labels.
    fn is_usable(&self) -> bool {
        let out = self.members.iter().filter(|member| member.standing == MemberState::Out);
        out.count() <= self.shape.level.parity()
    }
}
