//! Volumes as namespaces: numbers and identifiers that stay over restarts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use thermocline_target::{Exports, Offer};

use crate::protocol::data::NAMESPACE_MAX;

/// A universally unique identifier, version 8 (RFC 9562, section 5.8): a hash of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uuid(pub(crate) [u8; 16]);

impl Uuid {
    /// The identifier of `name` within `of`.
    fn hash(of: &str, name: &str) -> Uuid {
        // FNV-1a of 128 bits (draft-eastlake-fnv).
        let step = |hash: u128, &byte: &u8| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013B)
        };
        let bytes = of.as_bytes().iter().chain(&[0]).chain(name.as_bytes());
        let hash = bytes.fold(0x6C62_272E_07BB_0142_62B8_2175_6295_C58D, step);
        let mut bytes = hash.to_le_bytes();
        bytes[6] = bytes[6] & 0x0F | 0x80;
        bytes[8] = bytes[8] & 0x3F | 0x80;
        Uuid(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// The NVM subsystem of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subsystem {
    id: String,
    name: String,
    serial: String,
}

impl Subsystem {
    /// The subsystem of the pool with this identifier.
    #[must_use]
    pub fn new(id: &str) -> Subsystem {
        let own = Uuid::hash(id, "");
        let name = format!("nqn.2014-08.org.nvmexpress:uuid:{own}");
        let serial = own.to_string().replace('-', "")[..20].to_owned();
        Subsystem { id: id.to_owned(), name, serial }
    }

    /// Its qualified name, by which hosts connect.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its serial number.
    #[must_use]
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// The identifier of the namespace of the volume `name`.
    #[must_use]
    pub fn volume(&self, name: &str) -> Uuid {
        Uuid::hash(&self.id, name)
    }
}

/// Numbers of namespaces. A number is a hash of the volume's identifier, or the next free one.
#[derive(Debug)]
pub(crate) struct Namespaces {
    pub(crate) subsystem: Subsystem,
    /// The number and identifier of each export, by the export's number.
    known: BTreeMap<u64, (u32, Uuid)>,
}

impl Namespaces {
    pub(crate) fn new(subsystem: Subsystem) -> Namespaces {
        Namespaces { subsystem, known: BTreeMap::new() }
    }

    /// All shown exports with their numbers and identifiers.
    pub(crate) fn of(&mut self, exports: &Exports) -> Vec<(u32, Uuid, Arc<Offer>)> {
        self.known.retain(|&number, _| exports.numbered(number).is_some());
        let shown = exports.shown().into_iter();
        shown
            .map(|offer| {
                let (number, uuid) = self.number(&offer);
                (number, uuid, offer)
            })
            .collect()
    }

    fn number(&mut self, offer: &Offer) -> (u32, Uuid) {
        if let Some(&known) = self.known.get(&offer.number()) {
            return known;
        }
        let uuid = self.subsystem.volume(&offer.name);
        let hash = u32::from(u16::from_le_bytes([uuid.0[0], uuid.0[1]]));
        let is_free = |number: &u32| self.known.values().all(|(other, _)| other != number);
        let mut numbers = (0..NAMESPACE_MAX).map(|step| (hash + step) % NAMESPACE_MAX + 1);
        let number = numbers.find(is_free).expect("fewer volumes than numbers");
        self.known.insert(offer.number(), (number, uuid));
        (number, uuid)
    }
}

#[cfg(test)]
mod tests {
    use thermocline_target::{Export, Memory};
    use thermocline_types::Bytes;

    use super::*;

    fn exports(names: &[&str]) -> Exports {
        let export = |name: &&str| {
            let target = Arc::new(Memory::new(Bytes(8192), Bytes(512)));
            Export { name: (*name).to_owned(), target, read_only: false }
        };
        Exports::new(names.iter().map(export).collect())
    }

    #[test]
    fn a_volume_keeps_its_number_whatever_others_there_are() {
        let subsystem = Subsystem::new("pool");
        let number = |names: &[&str], wanted: &str| {
            let all = Namespaces::new(subsystem.clone()).of(&exports(names));
            all.into_iter().find(|(_, _, offer)| offer.name == wanted).map(|(number, ..)| number)
        };
        assert_eq!(number(&["a", "b"], "b"), number(&["b", "c", "d"], "b"));
        assert_ne!(number(&["a", "b"], "a"), number(&["a", "b"], "b"));
        assert_ne!(subsystem.volume("a"), Subsystem::new("other").volume("a"));
    }

    #[test]
    fn no_two_volumes_have_one_number() {
        let names: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut namespaces = Namespaces::new(Subsystem::new("pool"));
        let mut numbers: Vec<u32> =
            namespaces.of(&exports(&names)).into_iter().map(|(number, ..)| number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), names.len());
        assert!(numbers[0] >= 1 && numbers[1999] <= NAMESPACE_MAX);
    }

    #[test]
    fn a_renamed_volume_stays_itself_until_a_restart() {
        let exports = exports(&["a"]);
        let mut namespaces = Namespaces::new(Subsystem::new("pool"));
        let before = namespaces.of(&exports)[0].1;
        exports.rename("a", "b");
        assert_eq!(namespaces.of(&exports)[0].1, before);
    }

    #[test]
    fn identifiers_are_of_version_eight() {
        let text = Subsystem::new("pool").volume("a").to_string();
        assert_eq!((text.len(), &text[14..15]), (36, "8"));
        assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"), "{text}");
    }
}
