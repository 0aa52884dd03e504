//! What is served.

use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use thermocline_target::BlockTarget;

use crate::Limits;
use crate::protocol::handshake::{Catalogue, Facts, export_flag};

/// A target under a name.
#[derive(Clone)]
pub struct Export {
    /// The name that clients ask for.
    pub name: String,
    /// What it is.
    pub target: Arc<dyn BlockTarget>,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// All exports of a server. A client that gives no name gets the first export. Clones share the same list.
#[derive(Clone, Default)]
pub struct Exports {
    offers: Arc<RwLock<Vec<Offer>>>,
    payload: u32,
}

struct Offer {
    export: Export,
    /// New clients do not find the export.
    hidden: bool,
    /// Each client of the export has a clone.
    in_use: InUse,
}

/// Marks an export as in use until dropped.
pub(crate) type InUse = Arc<()>;

impl Offer {
    fn new(export: Export) -> Offer {
        Offer { export, hidden: false, in_use: InUse::default() }
    }
}

impl Exports {
    /// These, in this order, with payloads as long as `limits` say.
    #[must_use]
    pub fn new(exports: Vec<Export>, limits: &Limits) -> Exports {
        let offers = exports.into_iter().map(Offer::new).collect();
        Exports { offers: Arc::new(RwLock::new(offers)), payload: limits.payload }
    }

    /// Appends an export, from any thread. New clients find the export at once.
    pub fn add(&self, export: Export) {
        self.change().push(Offer::new(export));
    }

    /// Hides the export called `name` from new clients. Returns the number of its clients; `None` if no export has the
    /// name.
    #[must_use]
    pub fn hide(&self, name: &str) -> Option<usize> {
        let mut offers = self.change();
        let offer = offers.iter_mut().find(|offer| offer.export.name == name)?;
        offer.hidden = true;
        Some(Arc::strong_count(&offer.in_use) - 1)
    }

    /// Lets clients at the export called `name` again.
    pub fn show(&self, name: &str) {
        let mut offers = self.change();
        offers.iter_mut().filter(|offer| offer.export.name == name).for_each(|offer| {
            offer.hidden = false;
        });
    }

    /// Removes the export called `name`. Connected clients keep the target.
    pub fn remove(&self, name: &str) {
        self.change().retain(|offer| offer.export.name != name);
    }

    /// The export called `name`, or the first if `name` is empty. The export is in use until the second value is
    /// dropped.
    pub(crate) fn enter(&self, name: &str) -> Option<(Export, InUse)> {
        let offers = self.offers.read().unwrap_or_else(PoisonError::into_inner);
        let mut shown = offers.iter().filter(|offer| !offer.hidden);
        let offer = shown.find(|offer| name.is_empty() || offer.export.name == name)?;
        Some((offer.export.clone(), InUse::clone(&offer.in_use)))
    }

    fn change(&self) -> RwLockWriteGuard<'_, Vec<Offer>> {
        self.offers.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Catalogue for Exports {
    fn names(&self) -> Vec<String> {
        let offers = self.offers.read().unwrap_or_else(PoisonError::into_inner);
        let shown = offers.iter().filter(|offer| !offer.hidden);
        shown.map(|offer| offer.export.name.clone()).collect()
    }

    fn facts(&self, name: &str) -> Option<Facts> {
        /// Preferred block size: best for most storage.
        const PREFERRED: u32 = 4096;
        let (export, _) = self.enter(name)?;
        let info = export.target.info();
        Some(Facts {
            name: export.name.clone(),
            size: info.size.0,
            flags: flags(&export, info.features),
            block_min: info.logical_block.0 as u32,
            block_preferred: PREFERRED,
            payload_max: self.payload,
        })
    }
}

/// A target's flush covers all completed writes of all connections. Several connections to one export are safe.
fn flags(export: &Export, features: thermocline_target::Features) -> u16 {
    let writes = !export.read_only;
    let zeroes = writes && features.zeroes;
    let all = [
        (true, export_flag::HAS_FLAGS | export_flag::SEND_CACHE | export_flag::CAN_MULTI_CONN),
        (!writes, export_flag::READ_ONLY),
        (features.flush, export_flag::SEND_FLUSH),
        (writes && features.fua, export_flag::SEND_FUA),
        (writes && features.trim, export_flag::SEND_TRIM),
        (zeroes, export_flag::SEND_WRITE_ZEROES | export_flag::SEND_FAST_ZERO),
    ];
    all.into_iter().filter(|(has, _)| *has).fold(0, |flags, (_, flag)| flags | flag)
}

impl std::fmt::Debug for Exports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use thermocline_target::Memory;
    use thermocline_types::Bytes;

    use super::*;

    #[test]
    fn what_is_offered_follows_from_the_target() {
        let target = Arc::new(Memory::new(Bytes::mib(1), Bytes(512)));
        let export = |name: &str, read_only| {
            let target = Arc::<Memory>::clone(&target);
            Export { name: name.to_owned(), target, read_only }
        };
        let exports =
            Exports::new(vec![export("one", false), export("two", true)], &Limits::default());
        assert_eq!(exports.names(), ["one", "two"]);
        let one = exports.facts("").expect("the first");
        assert_eq!((one.name.as_str(), one.size, one.block_min), ("one", 1 << 20, 512));
        assert!(one.flags & export_flag::SEND_FUA > 0 && one.flags & export_flag::READ_ONLY == 0);
        let two = exports.facts("two").expect("the second");
        assert!(two.flags & export_flag::SEND_TRIM == 0 && two.flags & export_flag::READ_ONLY > 0);
        assert_eq!(exports.facts("three"), None);
        exports.clone().add(export("three", false));
        assert_eq!(exports.facts("three").map(|facts| facts.size), Some(1 << 20));
    }

    #[test]
    fn what_is_hidden_is_not_found_until_it_is_shown() {
        let target = Arc::new(Memory::new(Bytes::mib(1), Bytes(512)));
        let export = Export { name: "one".to_owned(), target, read_only: false };
        let exports = Exports::new(vec![export], &Limits::default());
        let (_, client) = exports.enter("").expect("it is there");
        assert_eq!((exports.hide("two"), exports.hide("one")), (None, Some(1)));
        assert!(exports.enter("one").is_none() && exports.names().is_empty());
        exports.show("one");
        drop(client);
        assert!(exports.enter("one").is_some());
        assert_eq!(exports.hide("one"), Some(0));
        exports.remove("one");
        exports.show("one");
        assert!(exports.enter("one").is_none());
    }
}
