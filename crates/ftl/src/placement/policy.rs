//! The policies that can be chosen by name at run time.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use thermocline_types::{Class, Lba, Setting, UnitId};

use crate::Units;

use super::{
    Auto, Below, Classifier, Dac, Eti, Fadac, Handles, Isolation, LsmZgc, Mida, Midas, MultiLog,
    MultiQueue, Nothing, SepBit, SeparateRelocation, Sfr, Sfs, Survivor, Topology, VictimRule,
    Warcip, Write,
};

/// Default number of classes for policies with a choice of classes.
const CLASSES: u8 = 6;
/// As many as can be asked for: each has an open unit.
const MOST_CLASSES: u8 = 32;
/// Most blocks that share a history: 4 MiB.
const MOST_NEIGHBOURS: u32 = 1024;

/// What may stand behind the name of a policy, as in `dac:6`, and how the policy is made from it.
enum Parameter<T> {
    /// Nothing.
    None(fn() -> T),
    /// The number of classes, at least `least`.
    Classes { least: u8, default: u8, make: fn(u8) -> T },
    /// The number of placement handles; `of` tells that of a policy.
    Handles { default: u8, make: fn(u8) -> T, of: fn(&T) -> u8 },
    /// Blocks that have one history, a power of two; `of` tells what was stated of a policy.
    Neighbours { make: fn(Option<u32>) -> T, of: fn(&T) -> Option<u32> },
    /// A share, 0 to 1; `of` tells that of a policy.
    Share { default: f32, make: fn(f32) -> T, of: fn(&T) -> f32 },
}

impl<T: Classifier> Parameter<T> {
    /// The policy with this parameter; `None` if the policy does not accept the parameter.
    fn make(&self, text: Option<&str>) -> Option<T> {
        match (self, text) {
            (Parameter::None(make), None) => Some(make()),
            (Parameter::None(_), Some(_)) => None,
            (Parameter::Classes { default, make, .. }, None) => Some(make(*default)),
            (Parameter::Classes { least, make, .. }, Some(text)) => text
                .parse()
                .ok()
                .filter(|classes| (*least..=MOST_CLASSES).contains(classes))
                .map(make),
            (Parameter::Handles { default, make, .. }, None) => Some(make(*default)),
            (Parameter::Handles { make, .. }, Some(text)) => {
                text.parse().ok().filter(|count| (1..=MOST_CLASSES / 2).contains(count)).map(make)
            }
            (Parameter::Neighbours { make, .. }, None) => Some(make(None)),
            (Parameter::Neighbours { make, .. }, Some(text)) => text
                .parse()
                .ok()
                .filter(|count: &u32| count.is_power_of_two() && *count <= MOST_NEIGHBOURS)
                .map(|count| make(Some(count))),
            (Parameter::Share { default, make, .. }, None) => Some(make(*default)),
            (Parameter::Share { make, .. }, Some(text)) => {
                text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).map(make)
            }
        }
    }

    /// The name of `policy` with its parameter.
    fn write(&self, f: &mut fmt::Formatter<'_>, name: &str, policy: &T) -> fmt::Result {
        match self {
            Parameter::None(_) => f.write_str(name),
            Parameter::Classes { .. } => write!(f, "{name}:{}", policy.topology().classes()),
            Parameter::Handles { of, .. } => write!(f, "{name}:{}", of(policy)),
            Parameter::Neighbours { of, .. } => match of(policy) {
                Some(count) => write!(f, "{name}:{count}"),
                None => f.write_str(name),
            },
            Parameter::Share { of, .. } => write!(f, "{name}:{}", of(policy)),
        }
    }
}

/// Makes [`Policy`] of a table with a row for each: its type, name, parameter, and a line about it. The dollar sign
/// before the table is for the macro that it makes.
macro_rules! policies {
    ($dollar:tt $($policy:ident = $name:literal, $parameter:expr, $about:literal;)*) => {
        /// A placement policy chosen at run time.
        ///
        /// The history is part of the policy: a clone made before the first placement starts empty.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Policy {
            $(#[doc = concat!("`", $name, "`: ", $about, ".")] $policy($policy),)*
        }

        /// Evaluates `$call` with `$one` bound to whichever policy `$value` is.
        macro_rules! each {
            ($dollar value:expr, $dollar one:ident => $dollar call:expr) => {
                match $dollar value { $(Policy::$policy($dollar one) => $dollar call,)* }
            };
        }

        impl Policy {
            /// Every named policy with a line about it, for listings.
            #[must_use]
            pub fn list() -> Vec<(Policy, &'static str)> {
                vec![$((named($name, None).expect("a default for each"), $about),)*]
            }
        }

        fn named(name: &str, text: Option<&str>) -> Option<Policy> {
            match name {
                $($name => {
                    let parameter: Parameter<$policy> = $parameter;
                    parameter.make(text).map(Policy::$policy)
                })*
                _ => None,
            }
        }

        impl fmt::Display for Policy {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Policy::$policy(policy) => {
                        let parameter: Parameter<$policy> = $parameter;
                        parameter.write(f, $name, policy)
                    })*
                }
            }
        }
    };
}

policies! {$
    Auto = "auto", Parameter::Neighbours { make: Auto::of_neighbours, of: Auto::neighbours },
        "the rule of five that copies least in miniature; its own victim rule; auto:16 has a history for 16 blocks";
    Nothing = "none", Parameter::None(|| Nothing),
        "no separation: host writes and survivors share a unit";
    SeparateRelocation = "sepgc", Parameter::None(|| SeparateRelocation),
        "host writes apart from survivors";
    LsmZgc = "lsm-zgc", Parameter::Share { default: 0.8, make: LsmZgc::new, of: LsmZgc::threshold },
        "levels by survival, cold if the unit was fuller than a share: lsm-zgc:0.8";
    SepBit = "sepbit", Parameter::None(SepBit::default),
        "SepBIT (FAST 2022): inferred lifespan of writes, age of survivors";
    Dac = "dac", Parameter::Classes { least: 1, default: CLASSES, make: Dac::new },
        "DAC (1999): levels that writes raise and relocations lower; dac:6 has 6";
    Fadac = "fadac", Parameter::Classes { least: 1, default: CLASSES, make: Fadac::new },
        "FADaC (SYSTOR 2019): a counter per block against a fading average";
    Sfs = "sfs", Parameter::Classes { least: 1, default: CLASSES, make: Sfs::new },
        "SFS (FAST 2012): hotness against the clustered hotness of units";
    Warcip = "warcip", Parameter::Classes { least: 2, default: CLASSES, make: Warcip::new },
        "WARCIP (SYSTOR 2019): clusters of rewrite intervals";
    Mida = "mida", Parameter::Classes { least: 2, default: 5, make: Mida::new },
        "MiDA (FAST 2024): number of relocations";
    Midas = "midas", Parameter::None(Midas::default),
        "MiDAS (FAST 2024): number of relocations, groups sized by a model";
    MultiLog = "multilog", Parameter::Classes { least: 1, default: CLASSES, make: MultiLog::new },
        "MultiLog (VLDB 2013): logs by update frequency";
    MultiQueue = "mq", Parameter::Classes { least: 2, default: CLASSES, make: MultiQueue::new },
        "AutoStream (SYSTOR 2017): queues of chunks by writes and expiry";
    Sfr = "sfr", Parameter::Classes { least: 2, default: CLASSES, make: Sfr::new },
        "AutoStream (SYSTOR 2017): sequentiality, frequency and recency of chunks";
    Eti = "eti", Parameter::None(Eti::default),
        "ETI (HotStorage 2016): temperature of extents";
    Handles = "handles", Parameter::Handles { default: CLASSES, make: own_survivors, of: Handles::count },
        "the handle that comes with a write (`tag_by`), survivors apart by handle; handles:6 has 6";
}

/// Handles of one pool, with survivors of each apart.
fn own_survivors(handles: u8) -> Handles {
    Handles::new(1, handles, Isolation::Persistently)
}

impl Policy {
    /// Bytes of memory that it takes at most for a pool or drive of `blocks` blocks, as each policy documents it.
    #[must_use]
    pub fn most_memory_bytes(&self, blocks: u64) -> u64 {
        /// Blocks of 1 TiB, beyond which `auto` remembers no more.
        const TEBIBYTE: u64 = 1 << 28;
        /// Tables that do not depend on the number of blocks. Chosen, not measured.
        const FIXED: u64 = 1 << 20;
        let per_block = |bytes: f64| (blocks as f64 * bytes) as u64;
        let of_blocks = match self {
            Policy::Auto(auto) => {
                let known = blocks.min(TEBIBYTE) as f64;
                let history = 3.0 * known / f64::from(auto.neighbours().unwrap_or(1).max(1));
                let most = TEBIBYTE as f64;
                (history + (3.7 * known).min(0.7 * most) + (2.8 * known).min(0.3 * most)) as u64
            }
            Policy::Nothing(_)
            | Policy::SeparateRelocation(_)
            | Policy::LsmZgc(_)
            | Policy::Mida(_)
            | Policy::Eti(_)
            | Policy::Handles(_) => 0,
            Policy::Dac(_) | Policy::MultiQueue(_) | Policy::Sfr(_) => per_block(1.0),
            Policy::Fadac(_) => per_block(2.0),
            Policy::SepBit(_) => per_block(4.0),
            Policy::MultiLog(_) | Policy::Midas(_) => per_block(5.0),
            Policy::Sfs(_) | Policy::Warcip(_) => per_block(8.0),
        };
        FIXED + of_blocks
    }
}

impl Classifier for Policy {
    #[inline]
    fn topology(&self) -> Topology {
        each!(self, policy => policy.topology())
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

    fn begin(&mut self, blocks: u64, units: u32, blocks_per_unit: u32, below: Below) {
        each!(self, policy => policy.begin(blocks, units, blocks_per_unit, below));
    }

    #[inline]
    fn stream(&self, class: Class, streams: u8) -> u8 {
        each!(self, policy => policy.stream(class, streams))
    }

    #[inline]
    fn renamed(&mut self) -> bool {
        each!(self, policy => policy.renamed())
    }

    fn memory_bytes(&self) -> usize {
        each!(self, policy => policy.memory_bytes())
    }
}

impl VictimRule for Policy {
    fn has_rule(&self) -> bool {
        each!(self, policy => policy.has_rule())
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
}

/// Why a text names no placement policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Policy::list();
        let names = names.iter().map(|(policy, _)| policy);
        write!(
            f,
            "`{}` is no placement policy; {}",
            self.0,
            thermocline_types::choices(&self.0, names)
        )
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

impl Setting for Policy {
    fn read(text: &str) -> Result<Policy, String> {
        text.parse().map_err(|error: UnknownPolicy| error.to_string())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_policy_takes_more_memory_than_it_states() {
        const BLOCKS: u64 = 1 << 18;
        let below = Below::Mixed { spare: 0.07, units: 4.0 };
        for (mut policy, _) in Policy::list() {
            policy.begin(BLOCKS, 1100, 256, below);
            for now in 0..2 * BLOCKS {
                policy.place(Write::plain(Lba(now * 7919 % BLOCKS), now));
            }
            let (takes, most) = (policy.memory_bytes() as u64, policy.most_memory_bytes(BLOCKS));
            assert!(takes <= most, "{policy} takes {takes} bytes, and states {most}");
        }
        let auto = Policy::Auto(Auto::default());
        assert_eq!(auto.most_memory_bytes(1 << 28), auto.most_memory_bytes(1 << 30));
    }

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
        assert_eq!("dac:12".parse::<Policy>().map(|dac| dac.topology().classes()), Ok(12));
        let sixteen = "auto:16".parse::<Policy>().map(|auto| auto.to_string());
        assert_eq!(sixteen, Ok("auto:16".to_owned()));
        for text in [
            "auto:0",
            "auto:3",
            "auto:2048",
            "auto:",
            "dac:0",
            "dac:33",
            "dac:x",
            "warcip:1",
            "sepbit:6",
            "mida:",
        ] {
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
            assert_eq!(policy.topology().classes(), classes, "{name}");
            assert_eq!(policy.topology().relocation_classes(0), relocated, "{name}");
            assert_eq!(policy.place(write), Class(0), "{name}");
            assert_eq!(policy.place_survivor(survivor, 0), Class(to), "{name}");
        }
    }
}
