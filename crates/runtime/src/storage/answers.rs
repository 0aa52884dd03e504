//! Answers of a group of storages to whoever uses it.

use thermocline_types::Version;

use super::{Completion, Fault, Token};

/// Completions that can be handed out, and those that wait for a label: while a member that missed something could be
/// believed after a crash, nothing that it missed is called done.
#[derive(Debug, Default)]
pub(super) struct Answers {
    ready: Vec<Completion>,
    awaiting: Vec<Completion>,
    /// Whether answers wait for a label.
    held: bool,
    /// No label can be written, so nothing can be promised any more.
    broken: Option<Fault>,
}

impl Answers {
    /// What was asked for is done, or failed: that is told as soon as it can be.
    pub(super) fn give(&mut self, token: Token, result: Result<(), Fault>) {
        match (self.broken, result) {
            (Some(fault), _) => self.give_now(token, Err(fault)),
            (None, Ok(())) if self.held => self.awaiting.push(Completion::new(token, result)),
            (None, result) => self.give_now(token, result),
        }
    }

    /// What was asked for changed nothing, or failed: that waits for no label.
    pub(super) fn give_now(&mut self, token: Token, result: Result<(), Fault>) {
        self.ready.push(Completion::new(token, result));
    }

    /// A read ended; with a version, a side reported an error and the other gave the answer.
    pub(super) fn give_read(
        &mut self,
        token: Token,
        result: Result<(), Fault>,
        degraded: Option<Version>,
    ) {
        self.ready.push(Completion { token, result, degraded });
    }

    /// A member is done without: answers wait for a label that says so.
    pub(super) fn hold(&mut self) {
        self.held = true;
    }

    /// The label that they wait for is durable.
    pub(super) fn release(&mut self) {
        self.held = false;
        self.ready.append(&mut self.awaiting);
    }

    /// No label can be written.
    pub(super) fn give_up(&mut self, fault: Fault) {
        self.broken = Some(fault);
        for Completion { token, .. } in std::mem::take(&mut self.awaiting) {
            self.give_now(token, Err(fault));
        }
    }

    /// Why nothing can be promised any more.
    pub(super) fn broken(&self) -> Option<Fault> {
        self.broken
    }

    /// Whether none can be handed out.
    pub(super) fn are_none(&self) -> bool {
        self.ready.is_empty()
    }

    /// Hands out those that can be.
    pub(super) fn take(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.ready);
    }
}
