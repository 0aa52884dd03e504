//! The volumes that clients find by name. All front ends share one list.
//!
//! Invariants:
//! * [`Exports::hide`] counts a concurrent user or keeps the user out.
//! * No number is given twice.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use thermocline_types::Bytes;

use crate::{BlockTarget, Granular};

/// A target under a name.
#[derive(Clone)]
pub struct Export {
    /// The name that clients ask for.
    pub name: String,
    /// The bytes.
    pub target: Arc<dyn BlockTarget>,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// An export of a list.
pub struct Offer {
    export: Export,
    number: u64,
    /// New clients do not find the export.
    hidden: AtomicBool,
    users: Arc<AtomicUsize>,
    at_any_byte: Arc<OnceLock<Arc<dyn BlockTarget>>>,
}

/// An offer in use by a client, until dropped.
pub struct User(Arc<Offer>);

/// A client began or ended to use an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientEvent {
    /// Address of the client, or the client's process on this machine.
    pub client: String,
    /// The name of the export.
    pub export: String,
    /// Whether the use ended.
    pub is_over: bool,
}

/// All exports of a server. Clones share the same list.
#[derive(Clone, Default)]
pub struct Exports(Arc<RwLock<List>>);

#[derive(Default)]
struct List {
    offers: Vec<Arc<Offer>>,
    /// Offers so far.
    made: u64,
    /// Called after each change.
    watchers: Vec<Arc<Watcher>>,
}

type Watcher = dyn Fn() + Send + Sync;

impl Offer {
    /// The position of the export among all exports that the list ever had.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The number of users.
    #[must_use]
    pub fn users(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    /// The target in logical blocks of one byte. All callers share the target.
    #[must_use]
    pub fn at_any_byte(&self) -> Arc<dyn BlockTarget> {
        let target = &self.export.target;
        let granular = || Arc::new(Granular::new(Arc::clone(target), Bytes(1))) as _;
        let bytes = || target.at_any_byte().unwrap_or_else(granular);
        Arc::clone(self.at_any_byte.get_or_init(bytes))
    }

    fn is_shown(&self) -> bool {
        !self.hidden.load(Ordering::Relaxed)
    }
}

impl Deref for Offer {
    type Target = Export;

    fn deref(&self) -> &Export {
        &self.export
    }
}

impl Deref for User {
    type Target = Export;

    fn deref(&self) -> &Export {
        &self.0.export
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Exports {
    /// Lists `exports` in their order.
    #[must_use]
    pub fn new(exports: Vec<Export>) -> Exports {
        let all = Exports::default();
        exports.into_iter().for_each(|export| all.add(export));
        all
    }

    /// Calls `changed` after each change of what new clients find, on the thread of the change. It must be short.
    pub fn watch(&self, changed: impl Fn() + Send + Sync + 'static) {
        self.locked().watchers.push(Arc::new(changed));
    }

    /// Appends an export, from any thread. New clients find the export at once.
    pub fn add(&self, export: Export) {
        self.change(|list| {
            let (hidden, users) = (AtomicBool::new(false), Arc::default());
            let (number, at_any_byte) = (list.made, Arc::default());
            list.made += 1;
            list.offers.push(Arc::new(Offer { export, number, hidden, users, at_any_byte }));
        });
    }

    /// Hides the export called `name` from new clients. Returns the number of its users; 0 if no export has the name.
    #[must_use]
    pub fn hide(&self, name: &str) -> usize {
        self.set_hidden(name, true)
    }

    /// Shows the export called `name` to new clients again.
    pub fn show(&self, name: &str) {
        let _users = self.set_hidden(name, false);
    }

    fn set_hidden(&self, name: &str, hidden: bool) -> usize {
        self.change(|list| {
            let offer = list.offers.iter().find(|offer| offer.name == name);
            offer.map_or(0, |offer| {
                offer.hidden.store(hidden, Ordering::Relaxed);
                offer.users()
            })
        })
    }

    /// Removes the export called `name`. Its users keep the target.
    pub fn remove(&self, name: &str) {
        self.change(|list| list.offers.retain(|offer| offer.name != name));
    }

    /// Gives the export called `name` another name. Number and users of the export stay.
    pub fn rename(&self, name: &str, to: &str) {
        self.change(|list| {
            let Some(at) = list.offers.iter().position(|offer| offer.name == name) else { return };
            let old = &list.offers[at];
            let renamed = Offer {
                export: Export { name: to.to_owned(), ..old.export.clone() },
                number: old.number,
                hidden: AtomicBool::new(!old.is_shown()),
                users: Arc::clone(&old.users),
                at_any_byte: Arc::clone(&old.at_any_byte),
            };
            list.offers[at] = Arc::new(renamed);
        });
    }

    /// All shown exports in the order of their numbers.
    #[must_use]
    pub fn shown(&self) -> Vec<Arc<Offer>> {
        self.list().offers.iter().filter(|offer| offer.is_shown()).cloned().collect()
    }

    /// The export with a number, shown or hidden.
    #[must_use]
    pub fn numbered(&self, number: u64) -> Option<Arc<Offer>> {
        self.list().offers.iter().find(|offer| offer.number == number).cloned()
    }

    /// The first shown export that is wanted.
    #[must_use]
    pub fn find(&self, wanted: impl Fn(&Offer) -> bool) -> Option<Arc<Offer>> {
        let list = self.list();
        list.offers.iter().find(|offer| offer.is_shown() && wanted(offer)).cloned()
    }

    /// Begins to use the first shown export that is wanted.
    #[must_use]
    pub fn enter(&self, wanted: impl Fn(&Offer) -> bool) -> Option<User> {
        // Count under the lock: a concurrent hide either sees this user or prevents the use.
        let list = self.list();
        let offer = list.offers.iter().find(|offer| offer.is_shown() && wanted(offer))?;
        offer.users.fetch_add(1, Ordering::Relaxed);
        Some(User(Arc::clone(offer)))
    }

    fn list(&self) -> RwLockReadGuard<'_, List> {
        // No panic under the lock can leave a half-made change.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the list, then calls the watchers.
    fn change<T>(&self, change: impl FnOnce(&mut List) -> T) -> T {
        let mut list = self.locked();
        let result = change(&mut list);
        let watchers = list.watchers.clone();
        drop(list);
        watchers.iter().for_each(|watcher| watcher());
        result
    }

    fn locked(&self) -> RwLockWriteGuard<'_, List> {
        // As above.
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Exports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.shown().iter().map(|offer| &offer.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    fn export(name: &str) -> Export {
        let target = Arc::new(Memory::new(Bytes(8192), Bytes(512)));
        Export { name: name.to_owned(), target, read_only: false }
    }

    #[test]
    fn exports_come_and_go() {
        let exports = Exports::new(vec![export("a")]);
        exports.clone().add(export("b"));
        let numbers = |exports: &Exports| -> Vec<u64> {
            exports.shown().iter().map(|offer| offer.number()).collect()
        };
        assert_eq!(numbers(&exports), [0, 1]);
        exports.remove("a");
        exports.add(export("a"));
        assert_eq!(numbers(&exports), [1, 2], "no number is given twice");
        assert!(exports.numbered(0).is_none());
        assert_eq!(exports.find(|offer| offer.name == "a").map(|offer| offer.number()), Some(2));
        assert_eq!(format!("{exports:?}"), "[\"b\", \"a\"]");
    }

    #[test]
    fn new_users_do_not_find_a_hidden_export() {
        let exports = Exports::new(vec![export("a")]);
        let enter = || exports.enter(|offer| offer.name == "a");
        let (first, second) = (enter().expect("shown"), enter().expect("shown"));
        drop(second);
        assert_eq!((exports.hide("none"), exports.hide("a")), (0, 1));
        assert!(enter().is_none() && exports.shown().is_empty());
        assert!(exports.numbered(0).is_some(), "its user goes on");
        exports.show("a");
        drop(first);
        assert!(enter().is_some());
        assert_eq!(exports.hide("a"), 0);
        exports.remove("a");
        exports.show("a");
        assert!(enter().is_none());
    }

    #[test]
    fn users_of_a_renamed_export_are_counted() {
        let exports = Exports::new(vec![export("a"), export("b")]);
        let enter = |name| exports.enter(|offer: &Offer| offer.name == name);
        let user = enter("a").expect("shown");
        exports.rename("a", "c");
        assert!(enter("a").is_none());
        let other = enter("c").expect("shown");
        assert_eq!(exports.hide("c"), 2);
        drop((user, other));
        assert_eq!(exports.hide("c"), 0);
        assert_eq!(exports.numbered(0).map(|offer| offer.name.clone()), Some("c".to_owned()));
    }

    #[test]
    fn watchers_hear_of_each_change() {
        let exports = Exports::new(vec![export("a")]);
        let (count, shared) = (Arc::new(AtomicUsize::new(0)), exports.clone());
        let counted = Arc::clone(&count);
        exports.watch(move || _ = counted.fetch_add(shared.shown().len(), Ordering::Relaxed));
        exports.add(export("b"));
        exports.rename("b", "c");
        let _users = exports.hide("a");
        exports.remove("a");
        assert_eq!(count.load(Ordering::Relaxed), 2 + 2 + 1 + 1, "after the change, and unlocked");
    }

    #[test]
    fn users_of_bytes_share_a_target() {
        let exports = Exports::new(vec![export("a")]);
        let offer = exports.numbered(0).expect("shown");
        let one = offer.at_any_byte();
        exports.rename("a", "b");
        let other = exports.numbered(0).expect("shown").at_any_byte();
        assert!(Arc::ptr_eq(&one, &other), "partial changes must see each other");
        assert_eq!(one.info().logical_block, Bytes(1));
    }
}
