//! Exports as the handshake describes them.

use thermocline_target::{Export, Exports, Features};

use crate::protocol::handshake::{Catalogue, Facts, export_flag};
use crate::protocol::option::Context;

impl Catalogue for Exports {
    fn names(&self) -> Vec<String> {
        self.shown().iter().map(|offer| offer.name.clone()).collect()
    }

    fn facts(&self, name: &str) -> Option<Facts> {
        /// Preferred block size: best for most storage.
        const PREFERRED: u32 = 4096;
        let export = self.find(|offer| name.is_empty() || offer.name == name)?;
        let info = export.target.info();
        Some(Facts {
            name: export.name.clone(),
            size: info.size.0,
            flags: flags(&export, info.features),
            block_min: info.logical_block.0 as u32,
            block_preferred: PREFERRED,
            contexts: Context::all(&export.target.snapshots()),
        })
    }
}

/// A target's flush covers all completed writes of all connections. Several connections to one export are safe.
fn flags(export: &Export, features: Features) -> u16 {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thermocline_target::Memory;
    use thermocline_types::Bytes;

    use super::*;

    #[test]
    fn facts_follow_from_the_target() {
        let export = |name: &str, read_only| {
            let target = Arc::new(Memory::new(Bytes::mib(1), Bytes(512)));
            Export { name: name.to_owned(), target, read_only }
        };
        let exports = Exports::new(vec![export("one", false), export("two", true)]);
        assert_eq!(exports.names(), ["one", "two"]);
        let one = exports.facts("").expect("the first");
        assert_eq!((one.name.as_str(), one.size, one.block_min), ("one", 1 << 20, 512));
        assert!(one.flags & export_flag::SEND_FUA > 0 && one.flags & export_flag::READ_ONLY == 0);
        let two = exports.facts("two").expect("the second");
        assert!(two.flags & export_flag::SEND_TRIM == 0 && two.flags & export_flag::READ_ONLY > 0);
        assert_eq!(exports.facts("three"), None);
    }
}
