//! Which page a transaction wants.

use std::str::FromStr;

use thermocline_types::Rng;

use crate::synthetic::keys;
use crate::synthetic::scatter::Permutation;
use crate::synthetic::zipf::Zipf;

/// How unequal the pages are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Skew {
    /// By rank, to the power of minus so much; ranks are scattered over the pages. 0 is uniform.
    Zipf(f64),
    /// Two tables, side by side, each uniform in itself.
    HotCold {
        /// Share of the pages in the first.
        data: f64,
        /// Share of the draws from the first table.
        writes: f64,
    },
}

impl Default for Skew {
    fn default() -> Self {
        Skew::Zipf(0.0)
    }
}

impl FromStr for Skew {
    type Err = String;

    fn from_str(text: &str) -> Result<Skew, String> {
        let Some((data, writes)) =
            text.strip_prefix("hotcold:").and_then(|shares| shares.split_once(':'))
        else {
            return keys::skew(text).map(Skew::Zipf).map_err(|what| {
                if text.starts_with("zipf:") {
                    what
                } else {
                    format!("{what}, or hotcold:DATA%:WRITES%")
                }
            });
        };
        let percent = |text: &str, most: f64| {
            let text = text.trim_end_matches('%');
            let range = "hotcold:DATA%:WRITES%, DATA above 0 and below 100, WRITES 0 to 100";
            keys::number(text, range, |x| (0.0..=most).contains(&x)).map(|x| x / 100.0)
        };
        let (data, writes) = (percent(data, 99.99)?, percent(writes, 100.0)?);
        if data == 0.0 {
            return Err("must be hotcold:DATA%:WRITES%, DATA above 0 and below 100".to_owned());
        }
        Ok(Skew::HotCold { data, writes })
    }
}

/// Draws pages.
#[derive(Debug)]
pub(super) enum Law {
    Zipf(Zipf, Permutation),
    /// Pages in the hot table, of so many, and the share of the draws that are from it.
    HotCold {
        hot: u64,
        count: u64,
        writes: f64,
    },
}

impl Law {
    /// Over `count` pages, two at least.
    pub fn new(skew: Skew, count: u64, rng: &mut Rng) -> Law {
        match skew {
            Skew::Zipf(theta) => Law::Zipf(Zipf::new(count, theta), Permutation::new(count, rng)),
            Skew::HotCold { data, writes } => {
                let hot = ((count as f64 * data).round() as u64).clamp(1, count - 1);
                Law::HotCold { hot, count, writes }
            }
        }
    }

    pub fn draw(&self, rng: &mut Rng) -> u32 {
        let page = match self {
            Law::Zipf(law, scatter) => scatter.apply(law.sample(rng)),
            &Law::HotCold { hot, writes, .. } if rng.unit_f64() < writes => rng.below(hot),
            &Law::HotCold { hot, count, .. } => hot + rng.below(count - hot),
        };
        page as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_table_takes_its_share_evenly_and_lies_in_one_piece() {
        let mut rng = Rng::new(5);
        let law = Law::new("hotcold:20%:70%".parse().expect("valid"), 1_000, &mut rng);
        let mut counts = vec![0_u32; 1_000];
        (0..200_000).for_each(|_| counts[law.draw(&mut rng) as usize] += 1);
        let hot: u32 = counts[..200].iter().sum();
        assert!((139_000..141_000).contains(&hot), "{hot}");
        assert!(counts[..200].iter().all(|count| (550..850).contains(count)), "700 each");
        assert!(counts[200..].iter().all(|count| (25..130).contains(count)), "75 each");
    }

    #[test]
    fn wrong_skews_say_what_would_be_right() {
        for (text, part) in [
            ("normal", "uniform or zipf:THETA, or hotcold:DATA%:WRITES%"),
            ("zipf:hot", "THETA 0 or above"),
            ("hotcold:0:10", "DATA above 0 and below 100"),
            ("hotcold:10:101", "WRITES 0 to 100"),
        ] {
            let error = text.parse::<Skew>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
