//! The files of a mount, as they come and go.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::disk::Disk;
use crate::{MountError, Volume};

/// Number of the first file; the directory itself is 1. No number is given twice.
const FIRST: u64 = 2;

/// The files of a mount; clones are handles of the same. Changes are seen by whoever opens or lists them from then on.
#[derive(Clone, Default)]
pub struct Directory(Arc<RwLock<Entries>>);

#[derive(Default)]
struct Entries {
    files: BTreeMap<u64, Entry>,
    /// Files so far.
    made: u64,
}

struct Entry {
    file: Arc<File>,
    /// New lookups do not find the file.
    hidden: bool,
}

/// A volume as a file.
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) disk: Arc<Disk>,
    /// How often it is open.
    opened: AtomicUsize,
}

impl Directory {
    /// Whether a file can be called `name`.
    ///
    /// # Errors
    /// [`MountError::Name`] if none can.
    pub fn may_have(name: &str) -> Result<(), MountError> {
        if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
            return Err(MountError::Name(name.to_owned()));
        }
        Ok(())
    }

    /// Adds a file.
    ///
    /// # Errors
    /// As [`Directory::may_have`].
    pub fn add(&self, volume: Volume) -> Result<(), MountError> {
        let Volume { name, target } = volume;
        Directory::may_have(&name)?;
        let file = Arc::new(File { name, disk: Disk::new(target), opened: AtomicUsize::new(0) });
        let mut entries = self.change();
        let number = FIRST + entries.made;
        entries.made += 1;
        entries.files.insert(number, Entry { file, hidden: false });
        Ok(())
    }

    /// Lets nobody open the file called `name` any more, and tells how often it is open; 0 if there is none.
    #[must_use]
    pub fn hide(&self, name: &str) -> usize {
        self.set_hidden(name, true)
    }

    /// Lets the file called `name` be opened again.
    pub fn show(&self, name: &str) {
        let _open = self.set_hidden(name, false);
    }

    /// Removes the file called `name`. Users of the open file get errors.
    pub fn remove(&self, name: &str) {
        self.change().files.retain(|_, entry| entry.file.name != name);
    }

    fn set_hidden(&self, name: &str, hidden: bool) -> usize {
        let mut entries = self.change();
        let entry = entries.files.values_mut().find(|entry| entry.file.name == name);
        let Some(entry) = entry else { return 0 };
        entry.hidden = hidden;
        entry.file.opened.load(Ordering::Relaxed)
    }

    /// The number of the file called `name`.
    pub(crate) fn find(&self, name: &OsStr) -> Option<u64> {
        self.shown().find_map(|(number, file)| (OsStr::new(&file.name) == name).then_some(number))
    }

    /// All files with their numbers, which rise.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (u64, Arc<File>)> + use<> {
        let entries = self.entries();
        let shown = entries.files.iter().filter(|(_, entry)| !entry.hidden);
        let shown: Vec<_> =
            shown.map(|(&number, entry)| (number, Arc::clone(&entry.file))).collect();
        shown.into_iter()
    }

    /// A file, be it hidden or not.
    pub(crate) fn file(&self, number: u64) -> Option<Arc<File>> {
        self.entries().files.get(&number).map(|entry| Arc::clone(&entry.file))
    }

    /// Opens a file; `false` if there is none. [`Directory::close`] is its counterpart.
    pub(crate) fn open(&self, number: u64) -> bool {
        let entries = self.entries();
        let Some(entry) = entries.files.get(&number).filter(|entry| !entry.hidden) else {
            return false;
        };
        // Count under the lock: a concurrent hide either sees this open or prevents it.
        entry.file.opened.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// A file is open once less, if it is there still.
    pub(crate) fn close(&self, number: u64) {
        if let Some(file) = self.file(number) {
            file.opened.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn entries(&self) -> RwLockReadGuard<'_, Entries> {
        // No foreign code runs under the lock.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Entries> {
        // As above.
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.shown().map(|(_, file)| file.name.clone())).finish()
    }
}

#[cfg(test)]
mod tests {
    use thermocline_target::Memory;
    use thermocline_types::Bytes;

    use super::*;

    fn volume(name: &str) -> Volume {
        let target = Arc::new(Memory::new(Bytes(8192), Bytes(512)));
        Volume { name: name.to_owned(), target }
    }

    #[test]
    fn files_come_and_go() {
        let directory = Directory::default();
        directory.add(volume("a")).expect("a name");
        directory.add(volume("b")).expect("a name");
        for none in ["", ".", "..", "a/b", "a\0"] {
            assert!(directory.add(volume(none)).is_err(), "{none:?}");
        }
        let a = directory.find(OsStr::new("a")).expect("it is there");
        assert!(directory.open(a) && directory.open(a));
        directory.close(a);
        assert_eq!((directory.hide("a"), directory.hide("none")), (1, 0));
        assert_eq!(directory.find(OsStr::new("a")), None);
        assert!(!directory.open(a) && directory.file(a).is_some(), "open files go on");
        directory.show("a");
        assert!(directory.open(a));
        directory.remove("a");
        assert!(!directory.open(a) && directory.file(a).is_none());
        directory.close(a);
        directory.add(volume("a")).expect("a name");
        let again = directory.find(OsStr::new("a")).expect("it is there");
        assert!(again > a, "no number is given twice");
        assert_eq!(directory.hide("a"), 0);
        assert_eq!(format!("{directory:?}"), "[\"b\"]");
    }
}
