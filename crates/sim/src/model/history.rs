//! The history of one block, and the contents that a read may find.

use std::fmt;

use crate::data::Content;

/// Number of a change: when it was submitted, on a clock that counts submissions and completions.
pub type WriteNumber = u64;

/// How far a change has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Submitted and not answered, or answered with an error: the change may be done or not.
    Open,
    /// Acknowledged to the host.
    Acknowledged,
    /// Acknowledged and flushed: the change must never be lost.
    Flushed,
}

/// One change of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number.
    pub version: WriteNumber,
    /// Whether the block reads as zeros since: trimmed, zeroed, or cut off by a smaller size.
    pub zeros: bool,
    /// The progress of the change.
    pub progress: Progress,
    /// Time of the answer on the clock of versions; `None` before the answer.
    pub ended: Option<u64>,
}

impl Step {
    /// Whether the change remains possible after the change at `floor`: it must not have ended before the submission of
    /// `floor`.
    fn outlives(&self, floor: WriteNumber) -> bool {
        self.ended.is_none_or(|ended| ended > floor)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.zeros { "zeros" } else { "data" };
        let progress = match self.progress {
            Progress::Open => "open",
            Progress::Acknowledged => "acknowledged",
            Progress::Flushed => "flushed",
        };
        write!(f, "{} ({what}, {progress})", self.version)
    }
}

/// All changes of one block that may still matter. At least one change is flushed.
#[derive(Clone, Debug)]
pub struct History {
    first: Step,
    later: Vec<Step>,
}

/// A block that was never written.
impl Default for History {
    fn default() -> History {
        let (version, ended) = (0, Some(1));
        History::of(Step { version, zeros: true, progress: Progress::Flushed, ended })
    }
}

impl History {
    /// The history of a block that is known to be `step`.
    #[must_use]
    pub const fn of(step: Step) -> History {
        History { first: step, later: Vec::new() }
    }

    /// The changes, in the order of their submission.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &Step> {
        std::iter::once(&self.first).chain(&self.later)
    }

    /// The changes that are possible, if nothing is that was over when the change at `floor` was submitted.
    pub fn possible(&self, floor: WriteNumber) -> impl DoubleEndedIterator<Item = &Step> {
        self.steps().filter(move |step| step.outlives(floor))
    }

    /// A change was submitted.
    pub fn begin(&mut self, version: WriteNumber, zeros: bool) {
        self.later.push(Step { version, zeros, progress: Progress::Open, ended: None });
    }

    /// Adds the changes of `other`, a later state of the same block, that were submitted later than all here. They may
    /// be done or not.
    pub fn add_later(&mut self, other: &History) {
        let last = self.steps().next_back().map_or(0, |step| step.version);
        let later = other.steps().filter(|step| step.version > last);
        self.later.extend(later.map(|step| Step { progress: Progress::Open, ..*step }));
    }

    /// A change was answered: with an error, if it stays [`Progress::Open`].
    pub fn end(&mut self, version: WriteNumber, progress: Progress, at: u64) {
        if let Some(step) = self.step_mut(version) {
            step.progress = progress;
            step.ended = Some(at);
        }
    }

    /// A change was not accepted: it never was.
    pub fn cancel(&mut self, version: WriteNumber) {
        self.later.retain(|step| step.version != version);
    }

    /// A change that was acknowledged is flushed.
    pub fn flush(&mut self, version: WriteNumber) {
        if let Some(step) = self.step_mut(version) {
            step.progress = Progress::Flushed;
        }
    }

    /// A crash left the block unreadable: every unflushed change may be done or not.
    pub fn doubt(&mut self) {
        for step in std::iter::once(&mut self.first).chain(&mut self.later) {
            if step.progress == Progress::Acknowledged {
                step.progress = Progress::Open;
            }
        }
    }

    fn step_mut(&mut self, version: WriteNumber) -> Option<&mut Step> {
        let mut steps = std::iter::once(&mut self.first).chain(&mut self.later);
        steps.find(|step| step.version == version)
    }

    /// Forgets impossible changes. No read may be pending.
    pub fn prune(&mut self) {
        let floor = self.flushed();
        if self.first.outlives(floor) {
            return;
        }
        self.later.retain(|step| step.outlives(floor));
        self.first = self.later.remove(0);
    }

    /// The newest flushed change. After a crash, no change that ended before its submission may be found.
    #[must_use]
    pub fn flushed(&self) -> WriteNumber {
        self.newest(|step| step.progress == Progress::Flushed)
    }

    /// The newest acknowledged change. From now on, no change that ended before its submission may be read.
    #[must_use]
    pub fn acknowledged(&self) -> WriteNumber {
        self.newest(|step| step.progress != Progress::Open)
    }

    fn newest(&self, holds: impl Fn(&Step) -> bool) -> WriteNumber {
        self.steps().rev().find(|step| holds(step)).map_or(self.first.version, |step| step.version)
    }

    /// The newest possible change that made the block what `content` shows; the content's volume and LBA are taken for
    /// right.
    #[must_use]
    pub fn explain(&self, content: Content, floor: WriteNumber) -> Option<Step> {
        let made = |step: &&Step| match content {
            Content::Zeros => step.zeros,
            Content::User(stamp) => !step.zeros && stamp.version == step.version,
            Content::Other => false,
        };
        self.possible(floor).rev().find(made).copied()
    }
}
