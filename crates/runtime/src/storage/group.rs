//! A device that is several, as others see it: how its members stand, and what is asked of it, from any thread.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thermocline_array::MemberState;
use thermocline_types::Bytes;

use super::{Storage, Waker};

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Where it is.
    pub path: PathBuf,
    /// How it stands.
    pub standing: MemberState,
    /// Why it is out.
    pub why: Option<String>,
}

impl MemberStatus {
    /// One that nothing was asked of yet.
    pub(super) fn out(path: PathBuf, why: Option<String>) -> MemberStatus {
        MemberStatus { path, standing: MemberState::Out, why }
    }
}

/// What the members of a group are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// Two sides that hold the same.
    Mirror,
    /// What is written goes round; no member may be lost.
    Striped,
    /// What is written goes round, with parity: one member may be lost.
    Parity,
}

impl GroupKind {
    /// Its key in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            GroupKind::Mirror => "mirror",
            GroupKind::Striped => "raid0",
            GroupKind::Parity => "raid5",
        }
    }

    /// What a member is called.
    #[must_use]
    pub const fn member(self) -> &'static str {
        match self {
            GroupKind::Mirror => "side",
            GroupKind::Striped | GroupKind::Parity => "member",
        }
    }
}

/// How a group stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// What it is.
    pub kind: GroupKind,
    /// Its name in the settings.
    pub name: String,
    /// Its members, by their number.
    pub members: Vec<MemberStatus>,
    /// Bytes that the member which is being filled lacks.
    pub lacking: Bytes,
    /// Bytes that were copied or computed to fill a member since the group was opened.
    pub filled: Bytes,
    /// Bad places of a member that were written again from the others, since then.
    pub repaired: u64,
    /// Why the pool was opened to be looked at, and is not served like this: what to do first.
    pub refusal: Option<String>,
}

impl GroupStatus {
    pub(super) fn new(kind: GroupKind, name: String, members: Vec<MemberStatus>) -> GroupStatus {
        let (lacking, filled, repaired, refusal) = (Bytes(0), Bytes(0), 0, None);
        GroupStatus { kind, name, members, lacking, filled, repaired, refusal }
    }

    /// Whether all members hold everything.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.members.iter().all(|member| member.standing == MemberState::Current)
    }

    /// What is at risk and what to do, as a sentence without its end; `None` if nothing is.
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
                "{kind} `{name}`: {path} is filled, and counts when the labels say so; until then {so}"
            ),
            MemberState::Filling => format!(
                "{kind} `{name}`: {path} lacks {}, which are copied while the pool is served; until then {so}",
                self.lacking
            ),
            _ => format!(
                "{kind} `{name}`: {path} is out ({}), so {so}; name a device for it in the settings and say `thermocline \
                 device replace POOL.toml PATH`",
                member.why.as_deref().unwrap_or("it is missing"),
            ),
        })
    }
}

/// Takes what an operator has to know of a group, on the thread of its pool.
type Listener = Box<dyn FnMut(&str) + Send>;

/// What others and the group tell each other.
pub(super) struct Shared {
    pub(super) status: GroupStatus,
    /// A member to be filled, that was not there.
    pub(super) joining: Option<Box<dyn Storage>>,
    wake: Option<Waker>,
    listener: Option<Listener>,
    /// What nobody listened to yet.
    unheard: VecDeque<String>,
}

/// A handle of a group. Clones are of the same.
#[derive(Clone)]
pub struct Group(Arc<Mutex<Shared>>);

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group({:?})", self.status())
    }
}

impl Group {
    pub(super) fn new(status: GroupStatus) -> Group {
        let (joining, wake, listener) = (None, None, None);
        let unheard = VecDeque::new();
        Group(Arc::new(Mutex::new(Shared { status, joining, wake, listener, unheard })))
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> GroupStatus {
        self.shared().status.clone()
    }

    /// It is open to be looked at, and not to be served before something is done.
    pub(crate) fn refuse(&self, refusal: String) {
        self.shared().status.refusal = Some(refusal);
    }

    /// Has `listener` hear of all that happens to the group, and of what did since it was opened.
    pub fn listen(&self, mut listener: Listener) {
        let mut shared = self.shared();
        shared.unheard.drain(..).for_each(|text| listener(&text));
        shared.listener = Some(listener);
    }

    /// The number of the member that is out.
    ///
    /// # Errors
    /// A sentence, when all are there.
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
            format!("{kind} `{name}` has {all}, {paths}: only one that failed can be replaced")
        })
    }

    /// Gives the group a member in place of the one that is out; `storage` has room for it, and a label in its first
    /// place.
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

    pub(super) fn say(&self, text: &str) {
        /// Chosen, not measured.
        const MOST: usize = 64;
        let mut shared = self.shared();
        let text = format!("{} `{}`: {text}", shared.status.kind.name(), shared.status.name);
        let Shared { listener, unheard, .. } = &mut *shared;
        match listener {
            Some(listener) => listener(&text),
            None if unheard.len() < MOST => unheard.push_back(text),
            None => {}
        }
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        // Listeners only print; nothing else of others runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
