//! A cache of keys and values on flash: small items in hashed buckets, large items in regions of a log, as CacheLib's
//! Navy.
//!
//! *Small items* lie in buckets of 4 KiB that cover the front of the volume (a set-associative cache, Navy's BigHash):
//! to insert one, the bucket that its key hashes to is read, changed in memory and written whole; the oldest item of it
//! is lost. *Large items* are gathered in memory to regions (Navy's BlockCache), which are written from beginning to
//! end; when all are used, one is chosen to be written anew, and what it held is lost. Nothing is trimmed.
//!
//! Left out: the cache in memory before it and what it admits, items by name (so no ratio of hits: reads are as many as
//! is said), items that are inserted again when their region goes, bloom filters, regions that are cleaned ahead, and
//! what is persisted at shutdown.
//!
//! The shape is that of CacheLib (`cachelib/navy/bighash`, `block_cache`) and of the paper on it with FDP (EuroSys
//! 2025): small items have 4 % of the volume and most of the random writes.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use thermocline_types::{Bytes, Op, Request, Rng, StreamId};

use super::app::{Application, VolumeFull};
use super::keys::{
    Amount, Given, Key, Keyed, REQUEST, amount, count, key, number, on, one_of, share, show, size,
    skew, wrong,
};
use super::scatter::Permutation;
use super::zipf::Zipf;
use super::{Error, Form};
use crate::filesystem::{Extent, request};

/// How a cache is written.
const KVCACHE_FORM: Form = Form {
    syntax: "kvcache[:KEY=VALUE,...]",
    description: "a cache of small items in hashed buckets and large items in regions, like CacheLib's; `lab list \
                  kvcache` shows the keys (kvcache:small=4%,small.writes=0.6)",
};

/// Every setting, in the order of listings. Sizes in per cent are of the volume (`--span`).
///
/// Buckets and regions have CacheLib's default sizes, `small` is that of the EuroSys paper; the others are chosen.
const KVCACHE_KEYS: [Key; 10] = [
    key("small", "4%", "the front of the volume that holds small items"),
    key("small.writes", "0.5", "share of the bytes written that are buckets of small items"),
    key("small.bucket", "4KiB", "size of a bucket"),
    key("small.skew", "uniform", "which bucket is written: uniform, or zipf:THETA"),
    key("small.read", "on", "whether a bucket is read before it is written"),
    key("region", "16MiB", "size of a region"),
    key("region.open", "1", "regions that are written at once, in turns"),
    key(
        "region.evict",
        "fifo",
        "which region is written anew: fifo, or lru (the one read longest ago)",
    ),
    key(
        "gets",
        "0",
        "items read for each bucket written and each MiB of a region, half of them large",
    ),
    key("get.skew", "zipf:0.9", "which bucket or region is read"),
];

/// Kinds of data.
const SMALL: u16 = 1;
const LARGE: u16 = 2;
const DIRECTORIES: [&str; 2] = ["small", "large"];

/// Bytes read of a large item (chosen: a few blocks).
const LARGE_GET: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Evict {
    #[default]
    Fifo,
    Lru,
}

/// A cache, as its keys say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KvCacheSpec {
    small: Amount,
    small_writes: f64,
    bucket: Bytes,
    small_theta: f64,
    small_read: bool,
    region: Bytes,
    open: usize,
    evict: Evict,
    gets: f64,
    get_theta: f64,
    given: Given,
}

impl Keyed for KvCacheSpec {
    const FORM: Form = KVCACHE_FORM;
    const KEYS: &'static [Key] = &KVCACHE_KEYS;

    fn blank() -> KvCacheSpec {
        KvCacheSpec::default()
    }

    fn change(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "small" => self.small = amount(value)?,
            "small.writes" => self.small_writes = share(value)?,
            "small.bucket" => self.bucket = size(value, 512)?,
            "small.skew" => self.small_theta = skew(value)?,
            "small.read" => self.small_read = on(value)?,
            "region" => self.region = size(value, 4096)?,
            "region.open" => self.open = count(value, 1)?,
            "region.evict" => {
                self.evict = one_of(value, &[("fifo", Evict::Fifo), ("lru", Evict::Lru)])?;
            }
            "gets" => self.gets = number(value, "0 or above", |x| x >= 0.0)?,
            _ => self.get_theta = skew(value)?,
        }
        Ok(())
    }

    fn given(&mut self) -> &mut Given {
        &mut self.given
    }
}

impl fmt::Display for KvCacheSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(Self::name(), &self.given, f)
    }
}

/// Places by how often they are wanted.
#[derive(Debug)]
struct Wanted {
    law: Zipf,
    scatter: Permutation,
}

impl Wanted {
    fn new(places: u64, theta: f64, rng: &mut Rng) -> Wanted {
        Wanted { law: Zipf::new(places, theta), scatter: Permutation::new(places, rng) }
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        self.scatter.apply(self.law.sample(rng))
    }
}

/// A region that is being written.
#[derive(Debug)]
struct Open {
    region: u64,
    done: u64,
}

/// A cache at work.
#[derive(Debug)]
pub(super) struct Cache {
    spec: KvCacheSpec,
    rng: Rng,
    /// Where regions begin, and how many there are.
    base: u64,
    regions: u64,
    put: Wanted,
    got_small: Wanted,
    got_large: Wanted,
    open: VecDeque<Open>,
    /// Regions that were never written begin here.
    fresh: u64,
    /// Regions by when they were last used, and when that was for each.
    order: BTreeSet<(u64, u64)>,
    used: Vec<u64>,
    clock: u64,
    request: u64,
    small_bytes: u64,
    large_bytes: u64,
    gets_owed: f64,
    waiting: VecDeque<Request>,
}

impl Cache {
    /// An empty one on a volume of `span` bytes, whose requests have at most `request` bytes.
    ///
    /// # Errors
    /// [`Error::Key`] for keys that contradict each other or the volume.
    pub fn new(
        spec: &KvCacheSpec,
        span: Bytes,
        request: Option<Bytes>,
        seed: u64,
    ) -> Result<Cache, Error> {
        let refuse = |key: &str, value: Bytes, what: &str| {
            Err(wrong("kvcache", key, value.to_string(), what.to_owned()))
        };
        for (key, size) in [("small.bucket", spec.bucket), ("region", spec.region)] {
            if !size.0.is_multiple_of(512) {
                return refuse(key, size, "must be a multiple of 512 B");
            }
        }
        let buckets = spec.small.of(span).0.min(span.0) / spec.bucket.0;
        let base = buckets * spec.bucket.0;
        let regions = (span.0 - base) / spec.region.0;
        if buckets == 0 && spec.small_writes > 0.0 {
            return refuse(
                "small",
                spec.small.of(span),
                "must hold a bucket, or small.writes be 0",
            );
        }
        if regions <= spec.open as u64 && spec.small_writes < 1.0 {
            let what = "must leave more than region.open regions on the volume";
            return refuse("region", spec.region, what);
        }
        let mut rng = Rng::new(seed);
        let size = request.unwrap_or(REQUEST).0 / 512 * 512;
        Ok(Cache {
            base,
            regions,
            put: Wanted::new(buckets.max(1), spec.small_theta, &mut rng),
            got_small: Wanted::new(buckets.max(1), spec.get_theta, &mut rng),
            got_large: Wanted::new(regions.max(1), spec.get_theta, &mut rng),
            open: VecDeque::new(),
            fresh: 0,
            order: BTreeSet::new(),
            used: vec![0; regions as usize],
            clock: 0,
            request: size.max(512),
            small_bytes: 0,
            large_bytes: 0,
            gets_owed: 0.0,
            waiting: VecDeque::new(),
            spec: spec.clone(),
            rng,
        })
    }

    fn ask(&mut self, op: Op, start: u64, length: u64, directory: u16, file: u64) {
        let stream = StreamId { directory, file: file as u16 };
        self.waiting.push_back(request(op, Extent { start, length }, stream));
    }

    /// A bucket or a piece of a region, whichever is behind its share.
    fn round(&mut self) {
        let all = (self.small_bytes + self.large_bytes) as f64;
        let gets = if (self.small_bytes as f64) < all * self.spec.small_writes
            || self.spec.small_writes >= 1.0
            || all == 0.0 && self.spec.small_writes > 0.0
        {
            self.insert_small();
            1.0
        } else {
            self.write_region() as f64 / (1 << 20) as f64
        };
        self.gets_owed += gets * self.spec.gets;
        while self.gets_owed >= 1.0 {
            self.gets_owed -= 1.0;
            self.get();
        }
    }

    fn insert_small(&mut self) {
        let (bucket, length) = (self.put.draw(&mut self.rng), self.spec.bucket.0);
        if self.spec.small_read {
            self.ask(Op::Read, bucket * length, length, SMALL, 0);
        }
        self.ask(Op::Write, bucket * length, length, SMALL, 0);
        self.small_bytes += length;
    }

    /// Writes a piece of an open region; returns its bytes.
    fn write_region(&mut self) -> u64 {
        while self.open.len() < self.spec.open {
            let region = self.next_region();
            self.open.push_back(Open { region, done: 0 });
        }
        let mut open = self.open.pop_front().expect("it was opened");
        let length = self.request.min(self.spec.region.0 - open.done);
        let start = self.base + open.region * self.spec.region.0 + open.done;
        self.ask(Op::Write, start, length, LARGE, open.region);
        self.large_bytes += length;
        open.done += length;
        if open.done < self.spec.region.0 {
            self.open.push_back(open);
        } else {
            self.use_region(open.region);
        }
        length
    }

    /// A region to write: an unused region, or else the least recently used region.
    fn next_region(&mut self) -> u64 {
        if self.fresh < self.regions {
            self.fresh += 1;
            return self.fresh - 1;
        }
        let (_, region) = self.order.pop_first().expect("more regions than are open");
        region
    }

    /// Region `region` is the youngest from now on.
    fn use_region(&mut self, region: u64) {
        self.clock += 1;
        self.order.remove(&(self.used[region as usize], region));
        self.used[region as usize] = self.clock;
        self.order.insert((self.clock, region));
    }

    fn get(&mut self) {
        let large = self.rng.below(2) == 0 && self.fresh > 0 || self.spec.small_writes <= 0.0;
        if !large {
            let (bucket, length) = (self.got_small.draw(&mut self.rng), self.spec.bucket.0);
            return self.ask(Op::Read, bucket * length, length, SMALL, 0);
        }
        let region = self.got_large.draw(&mut self.rng);
        // Items of a region that is not written, or is being written, are in no region yet.
        if !self.order.contains(&(self.used[region as usize], region)) {
            return;
        }
        let length = LARGE_GET.min(self.spec.region.0);
        let place = self.rng.below((self.spec.region.0 - length) / 512 + 1) * 512;
        let start = self.base + region * self.spec.region.0 + place;
        self.ask(Op::Read, start, length, LARGE, region);
        if self.spec.evict == Evict::Lru {
            self.use_region(region);
        }
    }
}

impl Application for Cache {
    fn next(&mut self) -> Result<Request, VolumeFull> {
        loop {
            if let Some(request) = self.waiting.pop_front() {
                return Ok(request);
            }
            self.round();
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

    const SPAN: Bytes = Bytes::mib(256);

    fn cache(text: &str) -> Result<Cache, Error> {
        Cache::new(&KvCacheSpec::read(text)?, SPAN, None, 5)
    }

    fn take(cache: &mut Cache, count: usize) -> Vec<Request> {
        (0..count).map(|_| cache.next().expect("it is never full")).collect()
    }

    #[test]
    fn every_key_is_taken() {
        keys_are_taken_and_read_back::<KvCacheSpec>();
    }

    #[test]
    fn small_items_have_their_part_of_the_volume_and_their_share_of_the_bytes() {
        let mut cache = cache("kvcache:small.writes=0.3,region=1MiB").expect("valid");
        let all = take(&mut cache, 60_000);
        let bytes = |directory| -> u64 {
            let of = |r: &&Request| r.op == Op::Write && r.stream.directory == directory;
            all.iter().filter(of).map(|r| r.length.0).sum()
        };
        let share = bytes(SMALL) as f64 / (bytes(SMALL) + bytes(LARGE)) as f64;
        assert!((share - 0.3).abs() < 0.01, "{share}");
        for request in &all {
            let is_small = request.offset.0 < SPAN.0 / 25 / 4096 * 4096;
            assert_eq!(request.stream.directory == SMALL, is_small, "{request:?}");
            assert!(request.end() <= SPAN);
        }
        let buckets: BTreeSet<u64> =
            all.iter().filter(|r| r.stream.directory == SMALL).map(|r| r.offset.0).collect();
        assert!(buckets.len() > 2_400, "any of 2,621: {}", buckets.len());
    }

    #[test]
    fn regions_are_written_in_order_and_by_lru_those_that_are_read_stay() {
        let text = "kvcache:small.writes=0,region=1MiB,gets=4,get.skew=zipf:1.2,region.evict=";
        let mut rewrites = Vec::new();
        for evict in ["fifo", "lru"] {
            let mut cache = cache(&format!("{text}{evict}")).expect("valid");
            let mut written = vec![0_u32; cache.regions as usize];
            for request in take(&mut cache, 40_000).iter().filter(|r| r.op == Op::Write) {
                written[((request.offset.0 - cache.base) >> 20) as usize] += 1;
            }
            let (least, most) = (written.iter().min().unwrap(), written.iter().max().unwrap());
            rewrites.push(most - least);
        }
        assert!(rewrites[0] <= 1 && rewrites[1] > 10, "{rewrites:?}");
    }

    #[test]
    fn keys_that_do_not_fit_the_volume_are_named() {
        for (text, part) in [
            ("kvcache:small=0", "kvcache small is `0 B`: must hold a bucket"),
            ("kvcache:region=1GiB", "kvcache region is `1 GiB`: must leave more than"),
            ("kvcache:small.bucket=1000", "must be a multiple of 512 B"),
        ] {
            let error = cache(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
