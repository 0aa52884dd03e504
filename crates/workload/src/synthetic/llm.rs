//! The cache of a language model on flash: a trace of prompts through [`crate::llm`], as requests to a volume.
//!
//! Each slot of the flash tier is an extent of the volume, all of one size. To write a block is a write of its slot, to
//! evict it a trim, a hit a read. The volume may be smaller than the tier: extents are the span over the slots, rounded
//! down to 64 KiB, or to 4 KiB where that leaves nothing. The trace repeats without end, with other blocks in each
//! pass.
//!
//! Left out: the time of requests, blocks that several devices share, metadata, and compression.

use std::collections::VecDeque;
use std::fmt;

use thermocline_types::{Bytes, Op, Request, StreamId};

use super::app::{Application, VolumeFull};
use super::keys::{Amount, Given, Key, Keyed, amount, key, on, show, wrong};
use super::{Error, Form};
use crate::filesystem::{Extent, request};
use crate::llm::{Admission, BUILT_IN, Change, LlmModel, Prompts, Sizes, Tiers};

/// How the cache is written.
const LLM_FORM: Form = Form {
    syntax: "llm[:KEY=VALUE,...]",
    description: "the cache of a language model's keys and values on flash, from a trace of prompts; keys are in \
                  lab list llm (llm:flash=20%,admit=second)",
};

/// Every setting, in the order of listings. Sizes in per cent are of all blocks of the trace.
const LLM_KEYS: [Key; 6] = [
    key(
        "trace",
        BUILT_IN,
        "prompts as Mooncake publishes them (JSON lines, gzip or not), or the trace that comes along",
    ),
    key(
        "model",
        "70b",
        "bytes of a block: 8b, 70b, latent or LAYERSxHEADSxSIZE, with @8 for 8 bits",
    ),
    key("dram", "5%", "size of the tier in DRAM, which writes nothing"),
    key("flash", "20%", "size of the tier on flash"),
    key(
        "admit",
        "probation",
        "which blocks are written: all, first, second, evicted, evicted-twice, frequency[:FILLS], distance, \
         budget:FILLS_PER_DAY, probation[:SHARE]",
    ),
    key("reads", "on", "whether hits on flash are read"),
];

/// Kinds of blocks, by their uses when they are written.
const DIRECTORIES: [&str; 3] = ["used-once", "used-twice", "used-more"];

/// A cache of a language model, as its keys say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LlmSpec {
    trace: String,
    model: Option<LlmModel>,
    dram: Amount,
    flash: Amount,
    admit: Admission,
    reads: bool,
    given: Given,
}

impl Keyed for LlmSpec {
    const FORM: Form = LLM_FORM;
    const KEYS: &'static [Key] = &LLM_KEYS;

    fn blank() -> LlmSpec {
        LlmSpec::default()
    }

    fn change(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "trace" => value.clone_into(&mut self.trace),
            "model" => self.model = Some(value.parse()?),
            "dram" => self.dram = amount(value)?,
            "flash" => self.flash = amount(value)?,
            "admit" => self.admit = value.parse().map_err(|error| format!("{error}"))?,
            _ => self.reads = on(value)?,
        }
        Ok(())
    }

    fn given(&mut self) -> &mut Given {
        &mut self.given
    }
}

impl fmt::Display for LlmSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(Self::name(), &self.given, f)
    }
}

impl LlmSpec {
    /// The trace.
    ///
    /// # Errors
    /// [`Error::Key`] for one that cannot be read.
    pub fn prompts(&self) -> Result<Prompts, Error> {
        let fault = |error: crate::llm::TraceError| {
            wrong("llm", "trace", self.trace.clone(), format!("cannot be read: {error}"))
        };
        Prompts::open(&self.trace).map_err(fault)
    }

    /// Bytes of a block.
    ///
    /// # Panics
    /// Never: every model has a default.
    #[must_use]
    pub fn block(&self) -> Bytes {
        self.model.expect("it has a default").block()
    }

    /// The admission rule.
    #[must_use]
    pub fn rule(&self) -> Admission {
        self.admit
    }

    /// Blocks of the tiers, for a trace of so many.
    ///
    /// # Errors
    /// [`Error::Key`] for a flash tier of no block, and tiers that are more than 16 times the trace.
    pub fn sizes(&self, distinct: usize) -> Result<Sizes, Error> {
        let all = Bytes(self.block().0 * distinct as u64);
        let blocks = |amount: Amount| (amount.of(all).0 / self.block().0) as usize;
        let sizes = Sizes { dram: blocks(self.dram), flash: blocks(self.flash) };
        for (key, blocks, least) in [("dram", sizes.dram, 0), ("flash", sizes.flash, 1)] {
            if !(least..=16 * distinct).contains(&blocks) {
                let what =
                    format!("must be {least} to {} blocks of {}", 16 * distinct, self.block());
                return Err(wrong("llm", key, format!("{blocks} blocks"), what));
            }
        }
        Ok(sizes)
    }
}

/// The flash tier at work.
#[derive(Debug)]
pub(super) struct LlmCache {
    prompts: Prompts,
    tiers: Tiers,
    /// The prompt that is next.
    next: usize,
    /// Bytes of a slot on the volume.
    slot: u64,
    reads: bool,
    waiting: VecDeque<Request>,
}

impl LlmCache {
    /// An empty cache on a volume of `span` bytes.
    ///
    /// # Errors
    /// [`Error::Key`] for a trace that cannot be read, and for a volume with less than 4 KiB for each slot.
    pub fn new(spec: &LlmSpec, span: Bytes) -> Result<LlmCache, Error> {
        let prompts = spec.prompts()?;
        let sizes = spec.sizes(prompts.distinct)?;
        let slot = span.0 / sizes.flash as u64;
        let unit = if slot < Bytes::kib(64).0 { Bytes::BLOCK.0 } else { Bytes::kib(64).0 };
        let slot = slot / unit * unit;
        if slot == 0 {
            let what = format!("must leave 4 KiB of the volume of {span} for each block");
            return Err(wrong("llm", "flash", format!("{} blocks", sizes.flash), what));
        }
        let tiers = Tiers::new(spec.admit, sizes, prompts.distinct);
        let (reads, waiting) = (spec.reads, VecDeque::new());
        Ok(LlmCache { prompts, tiers, next: 0, slot, reads, waiting })
    }

    /// Serves the next prompt.
    fn serve(&mut self) {
        if self.next == self.prompts.all.len() {
            self.next = 0;
            self.tiers.next_pass();
        }
        let LlmCache { slot: length, reads, waiting, .. } = self;
        self.tiers.serve(&self.prompts.all[self.next], &mut |change| {
            let (op, slot, directory) = match change {
                Change::Delete { slot } => (Op::Trim, slot, 0),
                Change::Write { slot, uses } => (Op::Write, slot, uses.clamp(1, 3)),
                Change::Read { .. } if !*reads => return,
                Change::Read { slot } => (Op::Read, slot, 0),
            };
            let stream = StreamId { directory, file: 0 };
            let start = u64::from(slot) * *length;
            waiting.push_back(request(op, Extent { start, length: *length }, stream));
        });
        self.next += 1;
    }
}

impl Application for LlmCache {
    fn next(&mut self) -> Result<Request, VolumeFull> {
        let mut served = 0;
        loop {
            if let Some(request) = self.waiting.pop_front() {
                return Ok(request);
            }
            if served > 2 * self.prompts.all.len() {
                let what = "no block of the trace is written: another admit writes some";
                return Err(VolumeFull(what.to_owned()));
            }
            self.serve();
            served += 1;
        }
    }

    fn directories(&self) -> &'static [&'static str] {
        &DIRECTORIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::keys::tests::keys_are_taken_and_read_back;

    fn cache(text: &str, span: Bytes) -> Result<LlmCache, Error> {
        LlmCache::new(&LlmSpec::read(text)?, span)
    }

    #[test]
    fn every_key_is_taken() {
        keys_are_taken_and_read_back::<LlmSpec>();
    }

    #[test]
    fn a_block_is_a_slot_that_is_trimmed_before_it_is_written_again() {
        let mut cache = cache("llm:flash=1%,admit=all", Bytes::mib(256)).unwrap();
        let slot = Bytes::mib(256).0 / 1_827 / 65_536 * 65_536;
        let mut full = vec![false; 1_827];
        let mut trims = 0;
        for _ in 0..20_000 {
            let request = cache.next().unwrap();
            assert!(request.length.0 == slot && request.offset.0.is_multiple_of(slot));
            let full = &mut full[(request.offset.0 / slot) as usize];
            assert_eq!(*full, request.op != Op::Write, "{request:?}");
            *full = request.op != Op::Trim;
            trims += u32::from(request.op == Op::Trim);
        }
        assert!(trims > 1_000, "{trims}");
    }

    #[test]
    fn sizes_in_bytes_are_those_of_the_model_and_wrong_ones_are_named() {
        let spec = LlmSpec::read("llm:model=8b,dram=640MiB,flash=6400MiB").unwrap();
        assert_eq!(spec.sizes(1_000).unwrap(), Sizes { dram: 10, flash: 100 });
        for (text, part) in [
            ("llm:flash=0", "llm flash is `0 blocks`: must be 1 to"),
            ("llm:trace=none.jsonl", "llm trace is `none.jsonl`: cannot be read"),
            ("llm:model=1b", "must be 8b, 70b, latent, or LAYERSxHEADSxSIZE"),
            ("llm:admit=some", "must be all, first, second"),
            ("llm:flash=100%", "must leave 4 KiB of the volume"),
        ] {
            let error = cache(text, Bytes::mib(16)).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let mut none = cache("llm:dram=10GB,admit=budget:0.000001", Bytes::gib(4)).unwrap();
        assert!(none.next().unwrap_err().0.contains("no block of the trace is written"));
    }
}
