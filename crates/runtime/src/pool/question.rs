//! Questions for the mapped or changed extents of a volume, answered in pieces, each in the volume's turn.

use std::sync::Arc;

use thermocline_engine::{Engine, Extent, HostError, Run};
use thermocline_format::VolumeId;
use thermocline_target::{self as target, Completion, EXTENTS_MAX, Property};
use thermocline_types::Bytes;

use super::answer::{Tally, target_error};
use super::turns::Cost;
use super::{Job, Operation, Service, VolumeState};
use crate::Buffer;

/// Most blocks of a piece. Chosen so that a piece takes as long as a few small requests.
const PIECE: u64 = 2048;

/// Most blocks of one answer. Chosen, not measured.
const LOOKED_AT: u64 = 32 << 10;

/// Which blocks of an extent have a property.
pub(super) struct Question {
    pub(super) state: Arc<VolumeState>,
    of: Property,
    /// Blocks still to be looked at.
    rest: Extent,
    found: Vec<target::Extent>,
    tally: Tally,
    done: Completion<Vec<target::Extent>>,
}

impl Question {
    pub(super) fn new(
        state: &Arc<VolumeState>,
        of: Property,
        extent: Extent,
        done: Completion<Vec<target::Extent>>,
    ) -> Question {
        let bytes = Bytes(extent.blocks * Bytes::BLOCK.0);
        let tally = Tally::of(state, Operation::Extents, bytes);
        let rest = Extent { blocks: extent.blocks.min(LOOKED_AT), ..extent };
        Question { state: Arc::clone(state), of, rest, found: Vec::new(), tally, done }
    }

    /// Cost of the next piece. The limits of the volume count the question once.
    pub(super) fn cost(&self) -> Cost {
        let looked_at = self.rest.blocks.min(PIECE);
        Cost { limited: self.found.is_empty(), looked_at, ..Cost::default() }
    }

    /// Looks at a piece. Returns the question if there is more to look at, and answers it otherwise.
    pub(super) fn look(mut self, engine: &Engine<Buffer>) -> Option<Question> {
        let piece = Extent { blocks: self.rest.blocks.min(PIECE), ..self.rest };
        let runs = match self.of {
            Property::Mapped => engine.runs(piece, EXTENTS_MAX),
            Property::ChangedSince(number) => engine.changed(piece, VolumeId(number), EXTENTS_MAX),
        };
        match runs {
            Ok(runs) => runs.into_iter().for_each(|run| self.add(run)),
            Err(error) => return self.end(Err(error)),
        }
        if self.rest.blocks > 0 && self.found.len() < EXTENTS_MAX {
            return Some(self);
        }
        self.end(Ok(()))
    }

    fn add(&mut self, run: Run) {
        self.rest.lba += run.blocks;
        self.rest.blocks -= run.blocks;
        let length = Bytes(run.blocks * Bytes::BLOCK.0);
        match self.found.last_mut() {
            Some(last) if last.has == run.mapped => last.length += length,
            _ => self.found.push(target::Extent { length, has: run.mapped }),
        }
    }

    fn end(mut self, result: Result<(), HostError>) -> Option<Question> {
        self.found.truncate(EXTENTS_MAX);
        self.tally.end(result.is_ok());
        let found = self.found;
        self.done.complete(result.map(|()| found).map_err(target_error));
        None
    }
}

impl Service {
    /// Looks at all pieces of a question at once.
    pub(super) fn look_at_all(&mut self, question: Question) {
        let state = Arc::clone(&question.state);
        let mut rest = Some(question);
        while let Some(question) = rest {
            rest = question.look(self.driver.engine());
        }
        self.shared.begun(&state);
    }

    /// Looks at a piece of a question. The next piece waits for the next turn of the volume.
    pub(super) fn look_at(&mut self, question: Question) {
        let state = Arc::clone(&question.state);
        match question.look(self.driver.engine()) {
            Some(question) => {
                self.waiting.push(state.id.0, question.cost(), Job::Question(question));
            }
            None => self.shared.begun(&state),
        }
    }
}
