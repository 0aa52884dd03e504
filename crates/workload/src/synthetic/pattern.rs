//! The text form of a tenant's writes.

use std::fmt;
use std::str::FromStr;

use super::Error;
use super::app::APPLICATIONS;

/// Which addresses are written, in which order and size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Every block equally likely.
    Uniform,
    /// In random order, each block once in a pass.
    RandomMap,
    /// The block of rank k with probability proportional to `k^−theta`; ranks scattered over the span.
    Zipf {
        /// Exponent, at least 0.
        theta: f64,
    },
    /// The first `data_percent` of the span receive `writes_percent` of the requests, each part uniformly.
    HotCold {
        /// Size of the hot part, per cent of the span, between 0 and 100.
        data_percent: f64,
        /// Requests to the hot part, per cent, 0 to 100.
        writes_percent: f64,
    },
    /// From the first block to the last, again and again.
    Sequential,
    /// Zipf whose ranks are scattered anew after every `every` times the span written.
    Drift {
        /// Exponent, at least 0.
        theta: f64,
        /// Bytes written between moves, in spans; above 0.
        every: f64,
    },
    /// A log that appends round and round and trims its tail so that at most `live_percent` of the span is live.
    Circular {
        /// Live part, per cent of the span, above 0 and at most 100.
        live_percent: f64,
    },
    /// The sizes and skew of JESD219's enterprise workload.
    Jesd219,
    /// Sizes and skew of a present-day mixed server.
    Modern,
}

/// One way to write a workload, for help texts.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// How it is written.
    pub syntax: &'static str,
    /// Behaviour, in a sentence.
    pub description: &'static str,
}

const fn form(syntax: &'static str, description: &'static str) -> Form {
    Form { syntax, description }
}

const UNIFORM: Form = form("uniform", "every block equally likely");
const RANDOM_MAP: Form = form(
    "random-map",
    "each block once in a pass, in random order: random writes of fio with its random map",
);
const ZIPF: Form = form(
    "zipf:THETA",
    "block of rank k with probability ~ 1/k^THETA, any THETA >= 0; ranks scattered over the span",
);
const HOTCOLD: Form = form(
    "hotcold:DATA%:WRITES%",
    "the first DATA % of the span receive WRITES % of the requests (hotcold:10:90)",
);
const SEQ: Form =
    form("seq", "first block to last, again and again; reads and trims keep their own position");
const DRIFT: Form = form(
    "drift:THETA:EVERY",
    "zipf:THETA whose hot blocks all move after every EVERY spans written (drift:0.99:0.5)",
);
const CIRCULAR: Form = form(
    "circular[:LIVE%]",
    "a log appending round and round, its tail trimmed to keep LIVE % live (50)",
);
const JESD219: Form = form(
    "jesd219",
    "JESD219 enterprise: 512 B to 64 KiB, half of the requests to the first 5 % of the span",
);
const MODERN: Form = form(
    "modern",
    "a present-day mix: 4 KiB to 256 KiB, no smaller writes, 60 % of requests to 10 % of the span",
);

/// Every form that a pattern has, in the order of help texts.
pub const PATTERNS: [Form; 9] =
    [UNIFORM, RANDOM_MAP, ZIPF, HOTCOLD, SEQ, DRIFT, CIRCULAR, JESD219, MODERN];

/// Every form that a workload has: patterns and then applications.
pub fn forms() -> impl Iterator<Item = Form> {
    PATTERNS.into_iter().chain(APPLICATIONS.iter().map(|app| app.form))
}

/// Live share of a circular log whose text does not say it (chosen, not measured).
const DEFAULT_LIVE_PERCENT: f64 = 50.0;

impl Pattern {
    /// The form this pattern is written in.
    #[must_use]
    pub fn form(&self) -> Form {
        match self {
            Pattern::Uniform => UNIFORM,
            Pattern::RandomMap => RANDOM_MAP,
            Pattern::Zipf { .. } => ZIPF,
            Pattern::HotCold { .. } => HOTCOLD,
            Pattern::Sequential => SEQ,
            Pattern::Drift { .. } => DRIFT,
            Pattern::Circular { .. } => CIRCULAR,
            Pattern::Jesd219 => JESD219,
            Pattern::Modern => MODERN,
        }
    }
}

/// The canonical text, which reads back as the same pattern.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Uniform => f.write_str("uniform"),
            Pattern::RandomMap => f.write_str("random-map"),
            Pattern::Zipf { theta } => write!(f, "zipf:{theta}"),
            Pattern::HotCold { data_percent, writes_percent } => {
                write!(f, "hotcold:{data_percent}:{writes_percent}")
            }
            Pattern::Sequential => f.write_str("seq"),
            Pattern::Drift { theta, every } => write!(f, "drift:{theta}:{every}"),
            Pattern::Circular { live_percent } => write!(f, "circular:{live_percent}"),
            Pattern::Jesd219 => f.write_str("jesd219"),
            Pattern::Modern => f.write_str("modern"),
        }
    }
}

impl FromStr for Pattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut words = text.trim().split(':');
        let name = words.next().unwrap_or_default().to_ascii_lowercase();
        let mut read = Parameters { text, form: UNIFORM, words };
        let pattern = match name.as_str() {
            "uniform" => Pattern::Uniform,
            "random-map" => Pattern::RandomMap,
            "zipf" => {
                read.form = ZIPF;
                Pattern::Zipf { theta: read.theta()? }
            }
            "hotcold" => {
                read.form = HOTCOLD;
                Pattern::HotCold {
                    data_percent: read
                        .number("DATA%", "between 0 and 100", |x| x > 0.0 && x < 100.0)?,
                    writes_percent: read
                        .number("WRITES%", "0 to 100", |x| (0.0..=100.0).contains(&x))?,
                }
            }
            "seq" => Pattern::Sequential,
            "drift" => {
                read.form = DRIFT;
                Pattern::Drift {
                    theta: read.theta()?,
                    every: read.number("EVERY", "above 0", |x| x > 0.0)?,
                }
            }
            "circular" => {
                read.form = CIRCULAR;
                let live_percent = read
                    .optional("LIVE%", "above 0 and at most 100", |x| x > 0.0 && x <= 100.0)?
                    .unwrap_or(DEFAULT_LIVE_PERCENT);
                Pattern::Circular { live_percent }
            }
            "jesd219" => Pattern::Jesd219,
            "modern" => Pattern::Modern,
            _ => return Err(Error::UnknownForm { text: text.to_owned() }),
        };
        read.form = pattern.form();
        read.nothing_more()?;
        Ok(pattern)
    }
}

/// The parameters after a workload's name.
struct Parameters<'a> {
    text: &'a str,
    form: Form,
    words: std::str::Split<'a, char>,
}

impl Parameters<'_> {
    fn theta(&mut self) -> Result<f64, Error> {
        self.number("THETA", "0 or above", |x| x >= 0.0)
    }

    fn number(
        &mut self,
        name: &str,
        range: &str,
        valid: impl Fn(f64) -> bool,
    ) -> Result<f64, Error> {
        self.optional(name, range, valid)?.ok_or_else(|| self.wrong(format!("{name} is missing")))
    }

    fn optional(
        &mut self,
        name: &str,
        range: &str,
        valid: impl Fn(f64) -> bool,
    ) -> Result<Option<f64>, Error> {
        let Some(word) = self.words.next() else { return Ok(None) };
        let number =
            if name.ends_with('%') { word.strip_suffix('%').unwrap_or(word) } else { word };
        match number.trim().parse::<f64>() {
            Ok(value) if value.is_finite() && valid(value) => Ok(Some(value)),
            Ok(_) => Err(self.wrong(format!("{name} is {word}, must be {range}"))),
            Err(_) => Err(self.wrong(format!("{name} is `{word}`, which is not a number"))),
        }
    }

    fn nothing_more(&mut self) -> Result<(), Error> {
        match self.words.next() {
            None => Ok(()),
            Some(word) => Err(self.wrong(format!("`{word}` is one parameter too many"))),
        }
    }

    fn wrong(&self, what: String) -> Error {
        Error::Parameter { text: self.text.to_owned(), what, syntax: self.form.syntax }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_texts_read_back() {
        for text in [
            "uniform",
            "random-map",
            "zipf:0",
            "zipf:1.2",
            "hotcold:10:90",
            "seq",
            "drift:0.99:0.5",
            "circular:25",
            "jesd219",
            "modern",
        ] {
            let pattern: Pattern = text.parse().expect(text);
            assert_eq!(pattern.to_string(), text);
            assert_eq!(pattern.form().syntax.split([':', '[']).next(), text.split(':').next());
        }
    }

    #[test]
    fn reads_what_people_write() {
        for (text, canonical) in [
            ("hotcold:10%:90%", "hotcold:10:90"),
            ("Zipf:1.0", "zipf:1"),
            ("circular", "circular:50"),
        ] {
            assert_eq!(text.parse::<Pattern>().expect(text).to_string(), canonical);
        }
    }

    #[test]
    fn errors_name_what_was_wrong_and_the_valid_form() {
        let cases = [
            (
                "",
                "is not a workload, and a file of tenants ends in .toml; there are uniform, random-map",
            ),
            ("gauss", "`gauss` is not a workload"),
            ("zipf", "THETA is missing; write zipf:THETA"),
            ("zipf:-1", "THETA is -1, must be 0 or above"),
            ("zipf:inf", "THETA is inf, must be"),
            ("zipf:one", "THETA is `one`, which is not a number"),
            ("zipf:1:2", "`2` is one parameter too many; write zipf:THETA"),
            ("uniform:4", "`4` is one parameter too many; write uniform"),
            ("hotcold:10", "WRITES% is missing; write hotcold:DATA%:WRITES%"),
            ("hotcold:100:50", "DATA% is 100, must be between 0 and 100"),
            ("hotcold:10:101", "WRITES% is 101, must be 0 to 100"),
            ("drift:1:0", "EVERY is 0, must be above 0"),
            ("circular:0", "LIVE% is 0, must be above 0 and at most 100"),
        ];
        for (text, part) in cases {
            let error = text.parse::<Pattern>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
