//! A key-value store in two tiers, as HSE (Micron's Heterogeneous-memory Storage Engine): young data in staging, old
//! data on capacity, all in files that are written once.
//!
//! The front of the volume is staging, the rest capacity: on a stack with a fast device, or with two placement handles,
//! that is where its two media are. The log, what memory was flushed to, and what was merged no more than
//! `staging.level` times are in staging; what was merged more often is written to capacity, and never comes back.
//! Files have the size of HSE's mblocks, which are allocated whole, written once from beginning to end, and deleted.
//! Below that it is the store of [`lsm`](super::lsm), merged by tiers.
//!
//! Left out, beside what `lsm` leaves out: the tree of nodes that HSE spills into (its leaves are tiers here), keys and
//! values in mblocks of their own with values that stay while keys are merged, its media policies by kind of node, and
//! its file of metadata (MDC).

use std::fmt;

use thermocline_types::Bytes;

use super::keys::{Amount, FS_KEYS, Given, Key, Keyed, amount, count, key, show, wrong};
use super::lsm::{LsmSpec, Staging, Store};
use super::{Error, Form};

/// How an HSE workload is written.
const HSE_FORM: Form = Form {
    syntax: "hse[:KEY=VALUE,...]",
    description: "a tiered key-value store like HSE: staging before capacity, files written once; `lab list hse` shows \
                  the keys (hse:staging=20%)",
};

/// Every setting, in the order of listings. Sizes in per cent are of the volume (`--span`).
///
/// The size of a file is that of an mblock, 32 MiB by default in HSE 2 (unverified); staging of 20 % is that of the
/// document of 2021, 150 to 200 of 800 GB. The others are chosen, not measured.
const HSE_KEYS: [Key; 17] = [
    key("staging", "20%", "the front of the volume that is staging"),
    key("staging.level", "1", "what was merged so often is in staging; 0 is what is flushed only"),
    key("keys", "12%", "size of all records that can be, each once"),
    key("skew", "uniform", "which record a write changes: uniform, or zipf:THETA"),
    key("record", "1KiB", "size of a record"),
    key("load", "0", "loaded before the first write, in key order, to capacity; at most keys"),
    key("memtable", "64MiB", "written between two flushes of memory to staging"),
    key("mblock", "32MiB", "size of a file of the log, and of what a file takes at a time"),
    key("merges", "4", "merges at once, at most"),
    key("pace", "4", "bytes that merges write for each byte written to the store, at most"),
    FS_KEYS[0],
    FS_KEYS[2],
    FS_KEYS[3],
    FS_KEYS[4],
    FS_KEYS[5],
    FS_KEYS[6],
    key("tables", "4", "files of about one size that are merged, at least"),
];

/// A tiered key-value store, as its keys say.
#[derive(Clone, Debug, PartialEq)]
pub struct HseSpec {
    staging: Amount,
    level: usize,
    /// All but the tiers.
    store: LsmSpec,
    given: Given,
}

impl Keyed for HseSpec {
    const FORM: Form = HSE_FORM;
    const KEYS: &'static [Key] = &HSE_KEYS;

    fn blank() -> HseSpec {
        let (staging, mut store) = (Amount::default(), LsmSpec::default());
        store.change("tier.small", "0").expect("a size");
        HseSpec { staging, level: 0, store, given: Given::new() }
    }

    fn change(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "staging" => self.staging = amount(value)?,
            "staging.level" => self.level = count(value, 0)?,
            "mblock" => {
                self.store.change("fs.extent", value)?;
                self.store.change("log.segment", value)?;
            }
            "merges" => self.store.change("compactors", value)?,
            "tables" => self.store.change("tier.tables", value)?,
            _ => self.store.change(name, value)?,
        }
        Ok(())
    }

    fn given(&mut self) -> &mut Given {
        &mut self.given
    }
}

impl fmt::Display for HseSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(Self::name(), &self.given, f)
    }
}

/// The store on a volume of `span` bytes, with requests of at most `request` bytes.
///
/// # Errors
/// [`Error::Key`] for keys that contradict each other or the volume.
pub(super) fn hse_store(
    spec: &HseSpec,
    span: Bytes,
    request: Option<Bytes>,
    seed: u64,
) -> Result<Store, Error> {
    let block = spec.store.block().0;
    let bytes = Bytes(spec.staging.of(span).0 / block * block);
    if bytes == Bytes::ZERO || bytes >= span {
        let what = "must be above 0 and below the volume".to_owned();
        return Err(wrong("hse", "staging", bytes.to_string(), what));
    }
    let staging = Staging { bytes, level: spec.level as u16 };
    Store::tiered(&spec.store, Some(staging), span, request, seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::app::Application as _;
    use crate::synthetic::keys::tests::keys_are_taken_and_read_back;
    use thermocline_types::Op;

    #[test]
    fn every_key_is_taken() {
        keys_are_taken_and_read_back::<HseSpec>();
    }

    #[test]
    fn what_is_young_is_in_staging_and_what_was_merged_twice_is_not() {
        let text = "hse:staging=25%,memtable=1MiB,mblock=512KiB,fs.turn=128KiB,pace=100,keys=20%";
        let (span, spec) = (Bytes::mib(512), HseSpec::read(text).expect("valid"));
        let mut store = hse_store(&spec, span, None, 1).expect("fits");
        let mut written = [0_u64; 2];
        while store.facts().ingested < Bytes::mib(300).0 {
            let request = store.next().expect("room");
            let kind = Store::directories()[usize::from(request.stream.directory) - 1];
            let in_staging = request.offset < Bytes::mib(128);
            assert!(request.end() <= span && (!in_staging || request.end() <= Bytes::mib(128)));
            assert_eq!(in_staging, ["log", "flush", "merge-1"].contains(&kind), "{request:?}");
            let bytes = if request.op == Op::Write { request.length.0 } else { 0 };
            written[usize::from(!in_staging)] += bytes;
        }
        // Log, flush and one merge against the merges above it, of records that are drawn several times.
        let share = written[0] as f64 / (written[0] + written[1]) as f64;
        assert!((0.4..0.9).contains(&share), "{share}");
        let all = HseSpec::read("hse:staging=100%").expect("valid");
        let error = hse_store(&all, span, None, 1).expect_err("no capacity").to_string();
        assert!(error.contains("hse staging is `512 MiB`: must be above 0 and below"), "{error}");
    }
}
