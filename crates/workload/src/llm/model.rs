//! Bytes of keys and values of one token, by model.

use std::fmt;
use std::str::FromStr;

use thermocline_types::Bytes;

use super::prompts::TOKENS;

/// Shape of a model's cache.
///
/// Each layer keeps a key and a value vector for each key/value head and token: `2 x layers x heads x head size x bytes
/// of a number` (grouped heads: Ainslie et al., GQA, EMNLP 2023). A latent cache keeps one vector a layer: `layers x
/// (latent + rope) x bytes of a number` (DeepSeek-V2, 2024, section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlmModel {
    /// Numbers that a token takes in all layers.
    numbers: u64,
    /// Bits of a number.
    bits: u64,
}

/// A model that has a name.
#[derive(Clone, Copy, Debug)]
pub struct ModelInfo {
    /// Name.
    pub name: &'static str,
    /// Computation of the numbers per token.
    pub about: &'static str,
    numbers: u64,
}

/// Models with names, in the order of listings.
pub const MODELS: [ModelInfo; 3] = [
    ModelInfo {
        name: "8b",
        about: "2 x 32 layers x 8 heads x 128 (Llama 3.1 8B, config.json)",
        numbers: 2 * 32 * 8 * 128,
    },
    ModelInfo {
        name: "70b",
        about: "2 x 80 layers x 8 heads x 128 (Llama 3.1 70B, config.json)",
        numbers: 2 * 80 * 8 * 128,
    },
    ModelInfo {
        name: "latent",
        about: "61 layers x (512 + 64) (DeepSeek-V3, config.json)",
        numbers: 61 * (512 + 64),
    },
];

impl LlmModel {
    /// Bytes of keys and values of a token.
    #[must_use]
    pub fn token(self) -> Bytes {
        Bytes(self.numbers * self.bits / 8)
    }

    /// Bytes of a block of [`TOKENS`] tokens.
    #[must_use]
    pub fn block(self) -> Bytes {
        Bytes(self.token().0 * TOKENS)
    }
}

impl FromStr for LlmModel {
    type Err = String;

    /// `NAME` or `LAYERSxHEADSxSIZE`, and `@BITS` of a number after it (16 without).
    fn from_str(text: &str) -> Result<LlmModel, String> {
        let wrong = || {
            let names: Vec<&str> = MODELS.iter().map(|model| model.name).collect();
            format!("must be {}, or LAYERSxHEADSxSIZE, with @8 for 8 bits", names.join(", "))
        };
        let (shape, bits) = text.split_once('@').unwrap_or((text, "16"));
        let bits = bits.parse().ok().filter(|bits| [4, 8, 16, 32].contains(bits));
        let named = MODELS.iter().find(|model| model.name == shape).map(|model| model.numbers);
        let shaped = || {
            let parts: Option<Vec<u64>> = shape
                .split('x')
                .map(|part| part.parse().ok().filter(|x| (1..=65_536).contains(x)))
                .collect();
            parts.filter(|parts| parts.len() == 3).map(|parts| 2 * parts.iter().product::<u64>())
        };
        let (numbers, bits) = named.or_else(shaped).zip(bits).ok_or_else(wrong)?;
        Ok(LlmModel { numbers, bits })
    }
}

impl fmt::Display for LlmModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} a token, {} a block", self.token(), self.block())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_weigh_as_their_formulas_tell() {
        let block = |text: &str| text.parse::<LlmModel>().unwrap().block();
        assert_eq!(block("8b"), Bytes::mib(64));
        assert_eq!(block("70b"), Bytes::mib(160));
        assert_eq!(block("80x8x128"), block("70b"));
        assert_eq!(block("70b@8"), Bytes::mib(80));
        assert_eq!(block("latent"), Bytes(61 * 576 * 2 * 512));
        for wrong in ["7b", "80x8", "70b@3", "0x8x128"] {
            assert!(wrong.parse::<LlmModel>().is_err(), "{wrong}");
        }
    }
}
