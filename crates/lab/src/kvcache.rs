//! The cache of a language model: what each admission rule keeps of the hits, and what its writes do to a drive.
//!
//! The simulated drive is smaller than the flash tier. A block takes [`SLOT`], and the unit of erasure shrinks alike:
//! as many blocks share a unit as in the product. The mapping unit stays. Life is that of the product: the tier is on
//! as many drives, in fractions, as it fills to the share asked for.

use thermocline_record::RunRecord;
use thermocline_types::Bytes;
use thermocline_workload::llm::{Admission, CacheCounts, HitBound, Prompts, Sizes, Tiers};
use thermocline_workload::synthetic::{self, AppSpec, Limit, LlmSpec, Spec};

use crate::{Error, Input, Layer, Prepared, Settings, Stack};

/// Bytes of a block on the simulated drive: the largest mapping unit of the profiles.
pub const SLOT: Bytes = Bytes::kib(64);

/// Fewest units of erasure of a drive whose units shrink with its blocks. Chosen.
const UNITS: u64 = 32;

const DAY: f64 = 86_400.0;

/// A cache with its trace.
pub struct KvCache {
    spec: LlmSpec,
    /// The trace.
    pub prompts: Prompts,
    /// Blocks of the tiers.
    pub sizes: Sizes,
}

/// What writes of the cache do to a drive.
#[derive(Clone, Copy, Debug)]
pub struct Wear {
    /// Media / host on the simulated drive.
    pub waf: Option<f64>,
    /// Median life of the product, in years, where its endurance is known.
    pub years: Option<f64>,
    /// Bytes written a day to each product, over its capacity.
    pub drive_writes_per_day: f64,
}

/// The part of the trace that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// All of it, from empty tiers.
    Whole,
    /// The first half of the prompts, from empty tiers.
    FirstHalf,
    /// The second half, with the tiers as the first half leaves them.
    SecondHalf,
}

impl KvCache {
    /// The cache that the workload `text` describes, such as `llm:flash=20%`.
    ///
    /// # Errors
    /// [`Error::Settings`] for another workload, and errors of its keys and its trace.
    pub fn new(text: &str) -> Result<KvCache, Error> {
        let Spec::App(AppSpec::Llm(spec)) = text.parse()? else {
            return Err(Error::Settings(format!("`{text}` is not a workload of llm")));
        };
        let prompts = spec.prompts()?;
        let sizes = spec.sizes(prompts.distinct)?;
        Ok(KvCache { spec: *spec, prompts, sizes })
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block(&self) -> Bytes {
        self.spec.block()
    }

    /// Bytes of the flash tier.
    #[must_use]
    pub fn flash(&self) -> Bytes {
        Bytes(self.block().0 * self.sizes.flash as u64)
    }

    /// What `rule` counts in `window`.
    #[must_use]
    pub fn counts(&self, rule: Admission, window: Counted) -> CacheCounts {
        let mut tiers = Tiers::new(rule, self.sizes, self.prompts.distinct);
        let (first, second) = self.prompts.all.split_at(self.prompts.all.len() / 2);
        first.iter().for_each(|prompt| tiers.serve(prompt, &mut |_| ()));
        let half = tiers.counts();
        if window == Counted::FirstHalf {
            return half;
        }
        second.iter().for_each(|prompt| tiers.serve(prompt, &mut |_| ()));
        match window {
            Counted::SecondHalf => tiers.counts().since(&half),
            Counted::Whole | Counted::FirstHalf => tiers.counts(),
        }
    }

    /// The bound on hits over the whole trace.
    #[must_use]
    pub fn bound(&self) -> HitBound {
        HitBound::new(&self.prompts, self.sizes.dram)
    }

    /// Bytes a day of `blocks` written in `window`.
    #[must_use]
    pub fn daily(&self, blocks: u64, window: Counted) -> f64 {
        let half = self.prompts.all[self.prompts.all.len() / 2].at;
        let seconds = match window {
            Counted::Whole => self.prompts.duration(),
            Counted::FirstHalf => half,
            Counted::SecondHalf => self.prompts.duration().since(half),
        };
        blocks as f64 * self.block().as_f64() * DAY / seconds.as_secs_f64().max(1.0)
    }

    /// Products that the flash tier fills to `utilisation`, in fractions.
    #[must_use]
    pub fn drives(&self, stack: &Stack, utilisation: f64) -> f64 {
        self.flash().as_f64() / (stack.profile.capacity.as_f64() * utilisation)
    }

    /// Replays the cache on `stack`: writes `fills` times the flash tier after it was filled. The tier takes `daily`
    /// bytes a day.
    ///
    /// # Errors
    /// As [`crate::run`].
    pub fn wear(
        &self,
        stack: &Stack,
        settings: &Settings,
        fills: f64,
        daily: f64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Wear, Error> {
        let span = Bytes(SLOT.0 * self.sizes.flash as u64);
        let options = synthetic::Options {
            seed: settings.seed,
            ..synthetic::Options::new(span, Limit::drive_writes(fills, span)?)
        };
        let spec = Spec::App(AppSpec::Llm(Box::new(self.spec.clone())));
        let mut stack = stack.clone().untimed();
        self.scale(&mut stack, span);
        let granule = stack.profile.mapping_unit.max(Bytes::BLOCK);
        let mut workload = Prepared::new(Input::Synthetic { spec, options }, None, granule, None)?;
        let drives = self.drives(&stack, settings.utilisation);
        let each = Bytes((daily / drives).max(1.0) as u64);
        let settings = Settings { daily_writes: Some(each), ..*settings };
        let record: RunRecord = crate::run(&mut workload, &stack, &settings, progress)?;
        Ok(Wear {
            waf: record.lasting.waf,
            years: record.life.map(|life| life.years_p50),
            drive_writes_per_day: each.as_f64() / stack.profile.capacity.as_f64(),
        })
    }

    /// Shrinks the unit of erasure of the drive as blocks shrink, where enough units remain.
    fn scale(&self, stack: &mut Stack, span: Bytes) {
        let profile = &mut stack.profile;
        let (Layer::Raw | Layer::Tag, None, Some(product)) =
            (stack.layer, profile.unit, profile.product_unit())
        else {
            return;
        };
        let page = profile.program_unit().0.max(profile.mapping_unit.0);
        let unit = product.as_f64() * SLOT.as_f64() / self.block().as_f64();
        let unit = (unit / page as f64).ceil() as u64 * page;
        if profile.kind.relocates() && span.0 / unit >= UNITS {
            profile.unit = Some(Bytes(unit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_writes_wear_less_and_the_first_half_is_not_counted_twice() {
        let cache = KvCache::new("llm:flash=2%,admit=second").unwrap();
        assert_eq!(cache.sizes, Sizes { dram: 9_139, flash: 3_655 });
        let [whole, first, second] = [Counted::Whole, Counted::FirstHalf, Counted::SecondHalf]
            .map(|window| cache.counts(Admission::Second, window));
        assert_eq!(whole.since(&first), second);
        let stack = Stack::parse("raw:p5316", &[]).unwrap();
        let settings = Settings { utilisation: 0.9, ..Settings::default() };
        let wear = |daily| cache.wear(&stack, &settings, 2.0, daily, &mut |_| ()).unwrap();
        let drive = stack.profile.capacity.as_f64() * cache.drives(&stack, 0.9);
        let (much, little) = (wear(drive), wear(drive / 10.0));
        assert!((much.drive_writes_per_day - 1.0).abs() < 1e-6);
        assert_eq!(much.waf, little.waf);
        let times = little.years.unwrap() / much.years.unwrap();
        assert!((times - 10.0).abs() < 1e-3, "{times}");
    }

    #[test]
    fn as_many_blocks_share_a_unit_as_in_the_product() {
        let cache = KvCache::new("llm:flash=20%").unwrap();
        let mut stack = Stack::parse("raw:p5316", &[]).unwrap();
        cache.scale(&mut stack, Bytes(SLOT.0 * cache.sizes.flash as u64));
        let product = stack.profile.product_unit().unwrap().as_f64() / cache.block().as_f64();
        let simulated = stack.profile.unit.unwrap().as_f64() / SLOT.as_f64();
        assert!((simulated / product - 1.0).abs() < 0.05, "{simulated} and {product}");
        assert!(KvCache::new("uniform").is_err());
    }
}
