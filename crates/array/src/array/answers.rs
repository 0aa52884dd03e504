//! Answers of an array to its user.

use std::collections::VecDeque;

use thermocline_types::Version;

use crate::{Completion, Fault, Token};

/// Completions ready to hand out, and completions that wait for a label. While a stale member could be believed after a
/// crash, no write that the member missed is acknowledged.
#[derive(Debug, Default)]
pub(super) struct Answers {
    ready: VecDeque<Completion>,
    awaiting: Vec<Completion>,
    /// Whether answers wait for a label.
    held: bool,
    /// Why no label can be written. Every later command fails with this error.
    broken: Option<Fault>,
}

impl Answers {
    /// Answers a command. While answers are held for a label, a success waits and a failure does not.
    pub(super) fn give(&mut self, token: Token, result: Result<(), Fault>) {
        match (self.broken, result) {
            (Some(fault), _) => self.give_now(token, Err(fault)),
            (None, Ok(())) if self.held => self.awaiting.push(Completion::new(token, result)),
            (None, result) => self.give_now(token, result),
        }
    }

    /// Answers a failed command, or one without changes. No label delays the answer.
    pub(super) fn give_now(&mut self, token: Token, result: Result<(), Fault>) {
        self.ready.push_back(Completion::new(token, result));
    }

    /// Answers a read. After an error of a member, `degraded` is the version that the other members gave.
    pub(super) fn give_read(
        &mut self,
        token: Token,
        result: Result<(), Fault>,
        degraded: Option<Version>,
    ) {
        self.ready.push_back(Completion { token, result, degraded });
    }

    /// Holds answers back until a durable label shows that a member is no longer current.
    pub(super) fn hold(&mut self) {
        self.held = true;
    }

    /// Hands out the held answers: the awaited label is durable.
    pub(super) fn release(&mut self) {
        self.held = false;
        self.ready.extend(self.awaiting.drain(..));
    }

    /// Fails all held answers: no label can be written.
    pub(super) fn give_up(&mut self, fault: Fault) {
        self.broken = Some(fault);
        for Completion { token, .. } in std::mem::take(&mut self.awaiting) {
            self.give_now(token, Err(fault));
        }
    }

    /// The error because of which no command can succeed any more.
    pub(super) fn broken(&self) -> Option<Fault> {
        self.broken
    }

    /// Whether no answer is ready.
    pub(super) fn are_none(&self) -> bool {
        self.ready.is_empty()
    }

    /// The next answer.
    pub(super) fn take(&mut self) -> Option<Completion> {
        self.ready.pop_front()
    }
}
