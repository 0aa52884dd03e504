//! The handle of a group: the state of its members, and requests from any thread.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thermocline_array::{MemberState, WrittenBytes};
use thermocline_types::Bytes;

use super::{Storage, Waker};
use crate::Remedy;

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The path of the member.
    pub path: PathBuf,
    /// The state of the member.
    pub standing: MemberState,
    /// Why the member is out.
    pub why: Option<String>,
    /// Bytes written to the member since the group was opened, by cause.
    pub written: WrittenBytes,
}

impl MemberStatus {
    /// A member at the start, before the group has reported its state.
    pub(super) fn out(path: PathBuf, why: Option<String>) -> MemberStatus {
        MemberStatus { path, standing: MemberState::Out, why, written: WrittenBytes::default() }
    }
}

/// The redundancy of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// Two sides with the same data.
    Mirror,
    /// Data is striped over the members; no member may be lost.
    Striped,
    /// Data is striped with parity; one member may be lost.
    Parity,
}

impl GroupKind {
    /// All of them.
    pub const ALL: [GroupKind; 3] = [GroupKind::Mirror, GroupKind::Striped, GroupKind::Parity];

    /// The key in the settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            GroupKind::Mirror => "mirror",
            GroupKind::Striped => "raid0",
            GroupKind::Parity => "raid5",
        }
    }

    /// The word for a member.
    #[must_use]
    pub const fn member(self) -> &'static str {
        match self {
            GroupKind::Mirror => "side",
            GroupKind::Striped | GroupKind::Parity => "member",
        }
    }
}

/// The state of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// The kind of the group.
    pub kind: GroupKind,
    /// The name in the settings.
    pub name: String,
    /// Its members, by their number.
    pub members: Vec<MemberStatus>,
    /// Bytes that the member being filled lacks.
    pub lacking: Bytes,
    /// The lacking bytes that the other members could not give.
    pub holes: Bytes,
    /// Bytes that were copied or computed to fill a member since the service began.
    pub filled: Bytes,
    /// Bad places of members that were rewritten since the service began.
    pub repaired: u64,
    /// Why the pool is open for inspection and cannot be served, with the steps to take first.
    pub refusal: Option<String>,
    /// The step that resolves the refusal.
    pub refusal_remedy: Option<Remedy>,
}

impl GroupStatus {
    pub(super) fn new(kind: GroupKind, name: String, members: Vec<MemberStatus>) -> GroupStatus {
        let (lacking, holes, filled) = (Bytes(0), Bytes(0), Bytes(0));
        let (repaired, refusal, refusal_remedy) = (0, None, None);
        GroupStatus {
            kind,
            name,
            members,
            lacking,
            holes,
            filled,
            repaired,
            refusal,
            refusal_remedy,
        }
    }

    /// Bytes written to all members since the service began, by cause.
    #[must_use]
    pub fn written(&self) -> WrittenBytes {
        let each = self.members.iter().map(|member| &member.written);
        each.fold(WrittenBytes::default(), |sum, one| sum.plus(one))
    }

    /// Whether all members are current.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.members.iter().all(|member| member.standing == MemberState::Current)
    }

    /// The risk, as a sentence without its end; `None` without a risk.
    #[must_use]
    pub fn risk(&self) -> Option<String> {
        if let Some(refusal) = &self.refusal {
            return Some(refusal.clone());
        }
        let member = self.members.iter().find(|one| one.standing != MemberState::Current)?;
        let (kind, name, path) = (self.kind.name(), &self.name, member.path.display());
        let so = match self.kind {
            GroupKind::Mirror => "the other side is the only copy",
            GroupKind::Striped | GroupKind::Parity => "all other members are needed",
        };
        Some(match member.standing {
            MemberState::Filling if self.lacking == Bytes(0) => format!(
                "{kind} `{name}`: {path} is filled, and its new labels are not written yet; until then {so}"
            ),
            MemberState::Filling if self.holes > Bytes(0) => format!(
                "{kind} `{name}`: {path} lacks {}, of which {} cannot be restored, because another member does not \
                 read; these bytes are tried again while the pool is served; until then {so}",
                self.lacking, self.holes
            ),
            MemberState::Filling => format!(
                "{kind} `{name}`: {path} lacks {}, and is filled while the pool is served; until then {so}",
                self.lacking
            ),
            _ => format!(
                "{kind} `{name}`: {path} is out ({}), so {so}",
                member.why.as_deref().unwrap_or("it is missing"),
            ),
        })
    }

    /// The step that ends the risk, if any.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        let member = self.members.iter().find(|one| one.standing != MemberState::Current);
        let is_out = member.is_some_and(|member| member.standing == MemberState::Out);
        match self.refusal {
            Some(_) => self.refusal_remedy.clone(),
            None => is_out.then_some(Remedy::ReplaceMember),
        }
    }
}

/// The kind of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupChange {
    /// A member failed, or its data is not trusted.
    MemberLost,
    /// A member is being filled.
    RepairBegan,
    /// All members are current.
    RepairEnded,
    /// Wrong or unreadable bytes of a member were rewritten.
    Healed,
    /// Data is at risk for another reason.
    Risk,
}

/// A fact about a group for an operator.
#[derive(Clone, Debug)]
pub struct GroupNotice {
    /// Its kind.
    pub change: GroupChange,
    /// One sentence.
    pub text: String,
    /// The step that ends the risk.
    pub remedy: Option<Remedy>,
}

/// Receives notices of a group, on the thread of its pool.
type Listener = Box<dyn FnMut(GroupNotice) + Send>;

/// State shared by the group and its handles.
pub(super) struct Shared {
    /// Counted since the group was opened.
    pub(super) status: GroupStatus,
    /// Counted before a device change opened the group again.
    earlier: Option<GroupStatus>,
    /// A new member that waits to be filled.
    pub(super) joining: Option<Box<dyn Storage>>,
    wake: Option<Waker>,
    listener: Option<Listener>,
    /// Notices before the first listener.
    unheard: VecDeque<GroupNotice>,
}

/// A handle of a group. Clones share one group.
#[derive(Clone)]
pub struct Group(Arc<Mutex<Shared>>);

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group({:?})", self.status())
    }
}

impl Group {
    pub(super) fn new(status: GroupStatus) -> Group {
        let (earlier, joining, wake, listener) = (None, None, None, None);
        let unheard = VecDeque::new();
        let shared = Shared { status, earlier, joining, wake, listener, unheard };
        Group(Arc::new(Mutex::new(shared)))
    }

    /// The state of the group. Its counters include those of [`Group::count_on_from`].
    #[must_use]
    pub fn status(&self) -> GroupStatus {
        let shared = self.shared();
        let mut status = shared.status.clone();
        if let Some(earlier) = &shared.earlier {
            status.filled += earlier.filled;
            status.repaired += earlier.repaired;
            for member in &mut status.members {
                let before = earlier.members.iter().find(|before| before.path == member.path);
                if let Some(before) = before {
                    member.written = member.written.plus(&before.written);
                }
            }
        }
        status
    }

    /// Counts on from `earlier`, the state of the same group before the pool was opened again. Members keep their
    /// counters by their paths.
    pub fn count_on_from(&self, earlier: GroupStatus) {
        self.shared().earlier = Some(earlier);
    }

    /// Marks the group as open for inspection only. `refusal` has the reason.
    pub(crate) fn refuse(&self, refusal: String, remedy: Option<Remedy>) {
        let status = &mut self.shared().status;
        (status.refusal, status.refusal_remedy) = (Some(refusal), remedy);
    }

    /// Sends all notices to `listener`, including those since the opening.
    pub fn listen(&self, mut listener: Listener) {
        let mut shared = self.shared();
        shared.unheard.drain(..).for_each(&mut listener);
        shared.listener = Some(listener);
    }

    /// The number of the member that is out.
    ///
    /// # Errors
    /// A message, if no member is out.
    pub(crate) fn vacancy(&self) -> Result<usize, String> {
        let status = self.status();
        let out = status.members.iter().position(|one| one.standing == MemberState::Out);
        out.ok_or_else(|| {
            let (kind, name) = (status.kind.name(), &status.name);
            let paths: Vec<String> =
                status.members.iter().map(|member| member.path.display().to_string()).collect();
            let (all, paths) = match status.kind {
                GroupKind::Mirror => ("both its sides", paths.join(" and ")),
                _ => ("all its members", paths.join(", ")),
            };
            format!("{kind} `{name}` has {all}, {paths}: only a failed device can be replaced")
        })
    }

    /// Gives the group a new member in place of the member that is out. `storage` is large enough, and has a label in
    /// its first place.
    ///
    /// # Errors
    /// As [`Group::vacancy`].
    pub(crate) fn join(&self, storage: Box<dyn Storage>, path: &Path) -> Result<(), String> {
        let member = self.vacancy()?;
        let mut shared = self.shared();
        let status = &mut shared.status.members[member];
        path.clone_into(&mut status.path);
        status.why = Some("it is about to be filled".to_owned());
        shared.joining = Some(storage);
        let wake = shared.wake.clone();
        drop(shared);
        if let Some(wake) = wake {
            wake();
        }
        Ok(())
    }

    pub(super) fn wake_with(&self, wake: Waker) {
        self.shared().wake = Some(wake);
    }

    pub(super) fn say(&self, change: GroupChange, text: &str, remedy: Option<Remedy>) {
        /// Chosen, not measured.
        const MOST: usize = 64;
        let mut shared = self.shared();
        let text = format!("{} `{}`: {text}", shared.status.kind.name(), shared.status.name);
        let notice = GroupNotice { change, text, remedy };
        let Shared { listener, unheard, .. } = &mut *shared;
        match listener {
            Some(listener) => listener(notice),
            None if unheard.len() < MOST => unheard.push_back(notice),
            None => {}
        }
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        // Listeners only print; no other foreign code runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use thermocline_array::ByteCause;

    use super::*;

    #[test]
    fn counters_go_on_after_the_group_was_opened_again() {
        let opened = |written: u64, repaired: u64| {
            let mut member = MemberStatus::out("a.img".into(), None);
            member.written.add(ByteCause::Data, written);
            let mut status = GroupStatus::new(GroupKind::Mirror, "m".to_owned(), vec![member]);
            (status.repaired, status.filled) = (repaired, Bytes(written));
            Group::new(status)
        };
        let first = opened(4096, 3);
        let second = opened(512, 2);
        second.count_on_from(first.status());
        let third = opened(0, 0);
        third.count_on_from(second.status());
        for group in [second, third] {
            let status = group.status();
            assert_eq!((status.repaired, status.filled), (5, Bytes(4608)));
            assert_eq!(status.written().total(), 4608);
        }
    }
}
