//! A pair as others see it: how its sides stand, and what is asked of it, from any thread.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thermocline_types::{Bytes, UnitId};

use super::super::{Storage, Waker};

/// How a side of a pair stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideState {
    /// It holds all that the pair does.
    Current,
    /// It gets what is written, and is being filled with the rest.
    Filling,
    /// It is missing, failed, or was not named.
    Out,
}

impl SideState {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SideState::Current => "current",
            SideState::Filling => "filling",
            SideState::Out => "out",
        }
    }
}

/// A side of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideStatus {
    /// Where it is.
    pub path: PathBuf,
    /// How it stands.
    pub standing: SideState,
    /// Why it is out.
    pub why: Option<String>,
}

/// How a pair stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairStatus {
    /// Its name in the settings.
    pub name: String,
    /// Its sides: side 0, side 1.
    pub sides: [SideStatus; 2],
    /// Bytes that the side which is being filled lacks.
    pub lacking: Bytes,
    /// Bytes that were copied to fill a side since the pair was opened.
    pub filled: Bytes,
    /// Bad places of one side that were written again from the other, since then.
    pub repaired: u64,
}

impl PairStatus {
    /// Whether both sides hold everything.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.sides.iter().all(|side| side.standing == SideState::Current)
    }

    /// What is at risk and what to do, as a sentence without its end; `None` if nothing is.
    #[must_use]
    pub fn risk(&self) -> Option<String> {
        let side = self.sides.iter().find(|side| side.standing != SideState::Current)?;
        let (name, path) = (&self.name, side.path.display());
        Some(match side.standing {
            SideState::Filling => format!(
                "mirror `{name}`: {path} lacks {}, which are copied while the pool is served; until then the other side \
                 is the only copy",
                self.lacking
            ),
            _ => format!(
                "mirror `{name}`: {path} is out ({}), so the other side is the only copy; name a device for it in the \
                 settings and say `thermocline device replace POOL.toml PATH`",
                side.why.as_deref().unwrap_or("it is missing"),
            ),
        })
    }
}

/// Takes what an operator has to know of a pair, on the thread of its pool.
type Listener = Box<dyn FnMut(&str) + Send>;

/// What others and the pair tell each other.
pub(super) struct Shared {
    pub(super) status: PairStatus,
    /// A side to be filled, that was not there.
    pub(super) joining: Option<Box<dyn Storage>>,
    /// Units, besides those known, in which alone the sides may differ.
    pub(super) doubtful: Option<Vec<UnitId>>,
    wake: Option<Waker>,
    listener: Option<Listener>,
    /// What nobody listened to yet.
    unheard: VecDeque<String>,
}

/// A handle of a pair. Clones are of the same.
#[derive(Clone)]
pub struct Pair(Arc<Mutex<Shared>>);

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pair({:?})", self.status())
    }
}

impl Pair {
    pub(super) fn new(status: PairStatus) -> Pair {
        let (joining, doubtful, wake, listener) = (None, None, None, None);
        let unheard = VecDeque::new();
        Pair(Arc::new(Mutex::new(Shared { status, joining, doubtful, wake, listener, unheard })))
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> PairStatus {
        self.shared().status.clone()
    }

    /// Has `listener` hear of all that happens to the pair, and of what did since it was opened.
    pub fn listen(&self, mut listener: Listener) {
        let mut shared = self.shared();
        shared.unheard.drain(..).for_each(|text| listener(&text));
        shared.listener = Some(listener);
    }

    /// The number of the side that is out.
    ///
    /// # Errors
    /// A sentence, when both are there.
    pub(crate) fn vacancy(&self) -> Result<usize, String> {
        let status = self.status();
        let out = status.sides.iter().position(|side| side.standing == SideState::Out);
        out.ok_or_else(|| {
            let [one, other] = status.sides.each_ref().map(|side| side.path.display());
            let name = &status.name;
            format!(
                "mirror `{name}` has both its sides, {one} and {other}: only one that failed can be replaced"
            )
        })
    }

    /// Gives the pair a side in place of the one that is out; `storage` has room for the pair and its labels, and has
    /// one of those in its first place.
    ///
    /// # Errors
    /// As [`Pair::vacancy`].
    pub(crate) fn join(&self, storage: Box<dyn Storage>, path: &Path) -> Result<(), String> {
        let side = self.vacancy()?;
        let mut shared = self.shared();
        let status = &mut shared.status.sides[side];
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

    /// Says in which units, counted within the device, sides may differ after a crash: those that were being written
    /// then, and no others.
    pub(crate) fn only(&self, units: Vec<UnitId>) {
        self.shared().doubtful = Some(units);
    }

    pub(super) fn wake_with(&self, wake: Waker) {
        self.shared().wake = Some(wake);
    }

    pub(super) fn say(&self, text: &str) {
        /// Chosen, not measured.
        const MOST: usize = 64;
        let mut shared = self.shared();
        let name = shared.status.name.clone();
        let text = format!("mirror `{name}`: {text}");
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
