//! The policies that can be chosen by name at run time.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use thermocline_types::{Class, Lba, UnitId};

use crate::Units;

use super::{
    Auto, Dac, Eti, Fadac, LsmZgc, Mida, Midas, MultiLog, MultiQueue, Nothing, Placement, SepBit,
    SeparateRelocation, Sfr, Sfs, Survivor, Warcip, Write,
};

/// A placement policy chosen at run time.
///
/// A further policy needs a variant here, an arm in `each`, a name in `Display` and `named`, and a line in
/// [`Policy::list`], from which tests and messages take it. What it remembers is part of it: a clone of a policy that
/// placed nothing yet begins anew.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Policy {
    /// The rule that copies least, found out while serving.
    Auto(Auto),
    /// No separation.
    Nothing(Nothing),
    /// Host writes apart from relocated blocks.
    SeparateRelocation(SeparateRelocation),
    /// Levels by survival, with hot apart from cold.
    LsmZgc(LsmZgc),
    /// DAC: levels that writes raise and relocations lower.
    Dac(Dac),
    /// SFS: hotness against clustered hotness of units.
    Sfs(Sfs),
    /// MultiLog: logs by update frequency.
    MultiLog(MultiLog),
    /// ETI: temperature of extents.
    Eti(Eti),
    /// AutoStream: queues of chunks by writes and expiry.
    MultiQueue(MultiQueue),
    /// AutoStream: sequentiality, frequency and recency of chunks.
    Sfr(Sfr),
    /// FADaC: counters against a fading average.
    Fadac(Fadac),
    /// WARCIP: clusters of rewrite intervals.
    Warcip(Warcip),
    /// SepBIT: inferred lifespan of writes, age of survivors.
    SepBit(SepBit),
    /// MiDA: number of relocations.
    Mida(Mida),
    /// MiDAS: number of relocations, groups sized by a model.
    Midas(Midas),
}

/// Evaluates `$call` with `$policy` bound to whichever policy `$self` is.
macro_rules! each {
    ($self:expr, $policy:ident => $call:expr) => {
        match $self {
            Policy::Auto($policy) => $call,
            Policy::Nothing($policy) => $call,
            Policy::SeparateRelocation($policy) => $call,
            Policy::LsmZgc($policy) => $call,
            Policy::Dac($policy) => $call,
            Policy::Sfs($policy) => $call,
            Policy::MultiLog($policy) => $call,
            Policy::Eti($policy) => $call,
            Policy::MultiQueue($policy) => $call,
            Policy::Sfr($policy) => $call,
            Policy::Fadac($policy) => $call,
            Policy::Warcip($policy) => $call,
            Policy::SepBit($policy) => $call,
            Policy::Mida($policy) => $call,
            Policy::Midas($policy) => $call,
        }
    };
}

impl Policy {
    /// Every named policy with a line about it, for listings.
    #[must_use]
    pub fn list() -> Vec<(Policy, &'static str)> {
        let about = [
            ("auto", "the rule of five that copies least in miniature; its own victim rule"),
            ("none", "no separation: host writes and survivors share a unit"),
            ("sepgc", "host writes apart from survivors"),
            (
                "lsm-zgc",
                "levels by survival, cold if the unit was fuller than a share: lsm-zgc:0.8",
            ),
            ("sepbit", "SepBIT (FAST 2022): inferred lifespan of writes, age of survivors"),
            ("dac", "DAC (1999): levels that writes raise and relocations lower; dac:6 has 6"),
            ("fadac", "FADaC (SYSTOR 2019): a counter per block against a fading average"),
            ("sfs", "SFS (FAST 2012): hotness against the clustered hotness of units"),
            ("warcip", "WARCIP (SYSTOR 2019): clusters of rewrite intervals"),
            ("mida", "MiDA (FAST 2024): number of relocations"),
            ("midas", "MiDAS (FAST 2024): number of relocations, groups sized by a model"),
            ("multilog", "MultiLog (VLDB 2013): logs by update frequency"),
            ("mq", "AutoStream (SYSTOR 2017): queues of chunks by writes and expiry"),
            ("sfr", "AutoStream (SYSTOR 2017): sequentiality, frequency and recency of chunks"),
            ("eti", "ETI (HotStorage 2016): temperature of extents"),
        ];
        about.map(|(name, about)| (name.parse().expect("a policy"), about)).to_vec()
    }
}

impl Placement for Policy {
    fn classes(&self) -> u8 {
        each!(self, policy => policy.classes())
    }

    fn relocation_classes(&self, pool: u8) -> Range<u8> {
        each!(self, policy => policy.relocation_classes(pool))
    }

    #[inline]
    fn place(&mut self, write: Write) -> Class {
        each!(self, policy => policy.place(write))
    }

    #[inline]
    fn place_survivor(&mut self, survivor: Survivor, now: u64) -> Class {
        each!(self, policy => policy.place_survivor(survivor, now))
    }

    #[inline]
    fn prefetch(&self, lba: Lba) {
        if let Policy::Auto(policy) = self {
            policy.prefetch(lba);
        }
    }

    #[inline]
    fn prefetch_survivor(&self, lba: Lba) {
        if let Policy::Auto(policy) = self {
            policy.prefetch_survivor(lba);
        }
    }

    fn opened(&mut self, units: &Units, unit: UnitId, now: u64) {
        each!(self, policy => policy.opened(units, unit, now));
    }

    #[inline]
    fn stored(&mut self, lba: Lba, unit: UnitId, now: u64) {
        each!(self, policy => policy.stored(lba, unit, now));
    }

    fn collected(&mut self, units: &Units, unit: UnitId, now: u64) {
        each!(self, policy => policy.collected(units, unit, now));
    }

    fn has_victim_rule(&self) -> bool {
        each!(self, policy => policy.has_victim_rule())
    }

    fn begin(&mut self, blocks: u64, units: u32, blocks_per_unit: u32) {
        each!(self, policy => policy.begin(blocks, units, blocks_per_unit));
    }

    fn reserve(&self) -> u8 {
        each!(self, policy => policy.reserve())
    }

    #[inline]
    fn stream(&self, class: Class, streams: u8) -> u8 {
        each!(self, policy => policy.stream(class, streams))
    }

    #[inline]
    fn renamed(&mut self) -> bool {
        each!(self, policy => policy.renamed())
    }

    fn victim(
        &mut self,
        units: &Units,
        range: Range<u32>,
        now: u64,
        allowed: impl Fn(UnitId) -> bool,
    ) -> Option<UnitId> {
        each!(self, policy => policy.victim(units, range, now, allowed))
    }

    fn memory_bytes(&self) -> usize {
        each!(self, policy => policy.memory_bytes())
    }

    fn pools(&self) -> u8 {
        each!(self, policy => policy.pools())
    }

    #[inline]
    fn pool(&self, class: Class) -> u8 {
        each!(self, policy => policy.pool(class))
    }

    fn redirect(&self, class: Class, pool: u8) -> Class {
        each!(self, policy => policy.redirect(class, pool))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Policy::Auto(_) => return write!(f, "auto"),
            Policy::Nothing(_) => return write!(f, "none"),
            Policy::SeparateRelocation(_) => return write!(f, "sepgc"),
            Policy::LsmZgc(policy) => return write!(f, "lsm-zgc:{}", policy.threshold()),
            Policy::Eti(_) => return write!(f, "eti"),
            Policy::SepBit(_) => return write!(f, "sepbit"),
            Policy::Midas(_) => return write!(f, "midas"),
            Policy::Dac(_) => "dac",
            Policy::Sfs(_) => "sfs",
            Policy::MultiLog(_) => "multilog",
            Policy::MultiQueue(_) => "mq",
            Policy::Sfr(_) => "sfr",
            Policy::Fadac(_) => "fadac",
            Policy::Warcip(_) => "warcip",
            Policy::Mida(_) => "mida",
        };
        write!(f, "{name}:{}", self.classes())
    }
}

/// Why a text names no placement policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> =
            Policy::list().iter().map(|(policy, _)| policy.to_string()).collect();
        write!(f, "`{}` is no placement policy; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, parameter) =
            text.split_once(':').map_or((text, None), |(name, parameter)| (name, Some(parameter)));
        named(name, parameter).ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

/// Classes of the policies that let one choose, unless one does.
const CLASSES: u8 = 6;
/// As many as can be asked for: each has an open unit.
const MOST_CLASSES: u8 = 32;

fn named(name: &str, parameter: Option<&str>) -> Option<Policy> {
    let classes = |least: u8, default: u8| match parameter {
        None => Some(default),
        Some(text) => text.parse().ok().filter(|n| (least..=MOST_CLASSES).contains(n)),
    };
    let share = |default: f32| match parameter {
        None => Some(default),
        Some(text) => text.parse().ok().filter(|share| (0.0..=1.0).contains(share)),
    };
    let plain = |policy: Policy| parameter.is_none().then_some(policy);
    match name {
        "auto" => plain(Policy::Auto(Auto::default())),
        "none" => plain(Policy::Nothing(Nothing)),
        "sepgc" => plain(Policy::SeparateRelocation(SeparateRelocation)),
        "eti" => plain(Policy::Eti(Eti::default())),
        "midas" => plain(Policy::Midas(Midas::default())),
        "sepbit" => plain(Policy::SepBit(SepBit::default())),
        "lsm-zgc" => Some(Policy::LsmZgc(LsmZgc::new(share(LsmZgc::default().threshold())?))),
        "dac" => Some(Policy::Dac(Dac::new(classes(1, CLASSES)?))),
        "sfs" => Some(Policy::Sfs(Sfs::new(classes(1, CLASSES)?))),
        "multilog" => Some(Policy::MultiLog(MultiLog::new(classes(1, CLASSES)?))),
        "mq" => Some(Policy::MultiQueue(MultiQueue::new(classes(2, CLASSES)?))),
        "sfr" => Some(Policy::Sfr(Sfr::new(classes(2, CLASSES)?))),
        "fadac" => Some(Policy::Fadac(Fadac::new(classes(1, CLASSES)?))),
        "warcip" => Some(Policy::Warcip(Warcip::new(classes(2, CLASSES)?))),
        "mida" => Some(Policy::Mida(Mida::new(classes(2, 5)?))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_unknown_ones_are_listed() {
        for (policy, _) in Policy::list() {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("lsm-zgc".parse(), "lsm-zgc:0.8".parse::<Policy>());
        assert_eq!("lsm-zgc:0.65".parse(), Ok(Policy::LsmZgc(LsmZgc::new(0.65))));
        let error = "sepgcc".parse::<Policy>().unwrap_err().to_string();
        assert!(error.contains("`sepgcc`") && error.contains("none, sepgc, "), "{error}");
        assert_eq!("dac".parse(), "dac:6".parse::<Policy>());
        assert_eq!("dac:12".parse::<Policy>().map(|dac| dac.classes()), Ok(12));
        for text in ["dac:0", "dac:33", "dac:x", "warcip:1", "sepbit:6", "mida:"] {
            assert!(text.parse::<Policy>().is_err(), "{text}");
        }
        for text in ["", "sepgc:1", "none:", "lsm-zgc:", "lsm-zgc:1.5", "lsm-zgc:NaN", "lsm-zgc:-1"]
        {
            assert!(text.parse::<Policy>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_chosen_policy_places_as_the_policy_itself() {
        let write = Write::plain(Lba(1), 0);
        let survivor = Survivor { lba: Lba(1), from: Class(0), utilisation: 0.9 };
        for (name, classes, relocated, to) in [
            ("none", 1, 0..1, 0),
            ("sepgc", 2, 1..2, 1),
            ("lsm-zgc", 4, 1..4, 2),
            ("lsm-zgc:0.95", 4, 1..4, 1),
        ] {
            let mut policy: Policy = name.parse().unwrap();
            assert_eq!(policy.classes(), classes, "{name}");
            assert_eq!(policy.relocation_classes(0), relocated, "{name}");
            assert_eq!(policy.place(write), Class(0), "{name}");
            assert_eq!(policy.place_survivor(survivor, 0), Class(to), "{name}");
        }
    }
}
