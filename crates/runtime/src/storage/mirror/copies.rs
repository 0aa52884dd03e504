//! What is copied from one side to the other: what a side lacks, and places that could not be read.

use std::time::Duration;

use thermocline_types::{Bytes, Class};

use super::{Access, Command, Fault, MemberState, Mirror, Piece, Step, What};
use crate::Buffer;

impl Mirror {
    /// Begins the next piece, or goes on with one that waited.
    pub(super) fn begin_piece(&mut self) {
        let round = self.fill.round;
        drop(self.piece.take_if(|piece| piece.step == Step::Wait && piece.round != round));
        if self.piece.is_none() {
            self.release();
            self.piece = self.next_repair().or_else(|| self.next_lacking());
        }
        let Some(piece) = &self.piece else { return };
        if piece.step != Step::Wait || self.is_written(&piece.range) {
            return;
        }
        let (at, into, from) = (Bytes(piece.range.start), piece.room.clone(), piece.from);
        let what = What::Piece(piece.number);
        if let Some(piece) = &mut self.piece {
            piece.step = Step::Read;
        }
        self.hand(from, what, Command::read(at, into));
    }

    fn new_piece(
        &mut self,
        range: std::ops::Range<u64>,
        from: usize,
        to: usize,
        repairs: bool,
    ) -> Piece {
        self.pieces += 1;
        let bytes = (range.end - range.start) as usize;
        let room = Buffer::new(thermocline_target::Buffer::zeroed(bytes));
        let (step, round) = (Step::Wait, self.fill.round);
        Piece { number: self.pieces, range, from, to, room, step, round, repairs }
    }

    fn next_repair(&mut self) -> Option<Piece> {
        let (range, to) = self.repairs.pop_front()?;
        let unit = self.layout.unit_of(Bytes(range.start));
        let both = !self.closing && self.holds(to, unit) && self.holds(1 - to, unit);
        both.then(|| self.new_piece(range, 1 - to, to, true))
    }

    /// From where to where what is lacking is copied, if that is in order now. Until it is known what may differ,
    /// nothing is copied that need not be.
    pub(super) fn may_fill(&self) -> Option<(usize, usize)> {
        let waits = self.closing || self.doubt.is_some() || self.access == Access::ReadOnly;
        let to = self.filling().filter(|&side| self.sides[side].labelled && !waits)?;
        Some((self.current().next()?, to))
    }

    fn next_lacking(&mut self) -> Option<Piece> {
        let (from, to) = self.may_fill()?;
        if self.fill.wants_label() {
            // The flush of the label that says so makes what was copied durable.
            self.stale = true;
            if self.fill.is_over() {
                self.sides[to].standing = MemberState::Current;
                self.pair.say("both sides are current");
                return None;
            }
        }
        if self.fill.pace.pause() > Duration::ZERO {
            return None;
        }
        let range = self.fill.next()?;
        self.fill.pace.spend(range.end - range.start);
        Some(self.new_piece(range, from, to, false))
    }

    pub(super) fn piece_done(&mut self, number: u64, result: Result<(), Fault>) {
        let Some(mut piece) = self.piece.take_if(|piece| piece.number == number) else { return };
        if piece.round != self.fill.round {
            return;
        }
        let bytes = piece.range.end - piece.range.start;
        match (piece.step, result) {
            (Step::Read, Ok(())) => {
                piece.step = Step::Write;
                let (at, parts) = (Bytes(piece.range.start), vec![piece.room.clone()]);
                let (to, class) = (piece.to, Class(0));
                self.piece = Some(piece);
                self.hand(to, What::Piece(number), Command::Write { at, parts, class });
            }
            (Step::Read, Err(fault)) if !piece.repairs => {
                self.pair.say(&format!(
                    "{bytes} bytes at byte {} cannot be read to fill the other side ({fault}): it lacks them as well",
                    piece.range.start
                ));
                self.fill.copied(bytes);
            }
            (_, Err(fault)) if piece.step == Step::Write => self.fail(piece.to, fault),
            (_, Err(_)) => {}
            (_, Ok(())) if piece.repairs => {
                self.pair.shared().status.repaired += 1;
                let at = piece.range.start;
                self.pair.say(&format!("{bytes} bytes at byte {at} were written again"));
            }
            (_, Ok(())) => self.fill.copied(bytes),
        }
    }
}
