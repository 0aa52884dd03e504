//! Labels of a pair: written to the sides that are current first, one after the other, each flushed before the next.

use thermocline_format::{MirrorLabel, SIDES};
use thermocline_types::{Class, DeviceId};

use super::label::place;
use super::{Command, Fault, MemberState, Mirror, Phase, Relabel, Side, What};
use crate::Buffer;

impl Mirror {
    /// Begins to write what is so, if the newest label says something else and none is being written.
    pub(super) fn begin_label(&mut self) {
        if !self.stale || self.relabel.is_some() || self.answers.broken().is_some() {
            return;
        }
        self.stale = false;
        let current = self.sides.map(|side| side.standing == MemberState::Current);
        let before = self.label.current;
        let filled = |side: &usize| self.sides[*side].labelled && !before[*side];
        let filled = (0..SIDES).find(filled);
        self.label.event += 1;
        self.label.current = current;
        self.label.open = !self.closing;
        let whole = current == [true; SIDES];
        let lacking = if whole { vec![false; self.fill.saved().len()] } else { self.lacking() };
        self.label.lacking = lacking;
        let order = self.current().chain(self.filling()).collect();
        self.relabel = Some(Relabel { filled, order, done: 0, flushing: false });
        self.go_on_labelling();
    }

    fn lacking(&self) -> Vec<bool> {
        match self.filling() {
            Some(_) => self.fill.saved().to_vec(),
            None => vec![true; self.fill.saved().len()],
        }
    }

    fn go_on_labelling(&mut self) {
        let Some(Relabel { filled, order, done, flushing }) = &self.relabel else { return };
        if let Some(side) = *filled {
            return self.hand(side, What::Label, Command::Flush(DeviceId(0)));
        }
        let (side, flushing) = (order[*done], *flushing);
        let command = if flushing {
            Command::Flush(DeviceId(0))
        } else {
            let label = MirrorLabel { side: side as u8, ..self.label.clone() };
            let layout = self.parts.get(side).expect("it is there").layout();
            let at = place(layout, self.layout.units, 1 - self.sides[side].place);
            let bytes = thermocline_target::Buffer::from_bytes(&label.encode());
            Command::Write { at, parts: vec![Buffer::new(bytes)], class: Class(0) }
        };
        self.hand(side, What::Label, command);
    }

    pub(super) fn label_done(&mut self, side: usize, result: Result<(), Fault>) {
        if let Err(fault) = result {
            self.fail(side, fault);
            if self.sides[side].standing != MemberState::Out {
                self.give_up(fault);
            }
        }
        let Some(relabel) = &mut self.relabel else { return };
        if self.sides[side].standing == MemberState::Out {
            // What failed has made another label necessary.
            self.relabel = None;
            return;
        }
        if relabel.filled.take().is_some() {
            return self.go_on_labelling();
        }
        if !relabel.flushing {
            relabel.flushing = true;
        } else {
            (relabel.flushing, relabel.done) = (false, relabel.done + 1);
            let Side { labelled, place, .. } = &mut self.sides[side];
            (*labelled, *place) = (true, 1 - *place);
        }
        let Relabel { order, done, .. } = self.relabel.as_ref().expect("it is being written");
        let next = order.get(*done).copied();
        match next {
            // Meanwhile it failed.
            Some(next) if self.sides[next].standing == MemberState::Out => self.relabel = None,
            Some(_) => self.go_on_labelling(),
            None => self.labelled(),
        }
    }

    /// All have the label.
    fn labelled(&mut self) {
        self.relabel = None;
        if !self.stale {
            self.answers.release();
        }
        self.publish();
    }

    /// The only side left takes no labels: nothing that needs one can be promised.
    fn give_up(&mut self, fault: Fault) {
        self.answers.give_up(fault);
        self.relabel = None;
        self.pair.say(&format!("no label can be written ({fault}), so nothing more is written"));
    }

    /// Ends everything, and writes labels that say that the sides differ in nothing but what they say.
    pub(super) fn close(&mut self) {
        self.closing = true;
        if self.phase == Phase::Passive {
            return;
        }
        while self.answers.broken().is_none() && (!self.is_idle() || self.stale) {
            self.turn(None);
        }
        let live = (0..SIDES).filter(|&side| self.sides[side].labelled).collect::<Vec<_>>();
        for side in live {
            self.hand(side, What::Last, Command::Flush(DeviceId(0)));
        }
        while self.answers.broken().is_none() && !self.is_idle() {
            self.turn(None);
        }
        if self.filling().is_some() {
            self.fill.save();
        }
        self.stale = true;
        self.settle();
    }

    fn is_idle(&self) -> bool {
        let waits = self.held.is_empty() && self.waiting.is_empty() && self.mendings.is_empty();
        self.inner.is_empty() && self.relabel.is_none() && waits
    }
}
