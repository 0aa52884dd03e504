//! The cache of a language model: keys and values of attention, in blocks, over DRAM and flash.
//!
//! A prompt is cut into blocks of tokens ([`Prompts`]). A block that an earlier prompt computed is read from a tier
//! instead of computed again. [`LlmModel`] has the bytes of a block. [`Admission`] decides which blocks [`Tiers`] write
//! to flash.
//!
//! Invariants:
//! * Equal prompts, sizes and rules give equal changes of the flash tier.
//! * A tier never holds more blocks than its size.

mod bound;
mod lru;
mod model;
mod prompts;
mod rule;
mod tiers;

pub use bound::HitBound;
pub use model::{LlmModel, MODELS, ModelInfo};
pub use prompts::{BUILT_IN, Prompt, PromptBlock, Prompts, TOKENS, TraceError};
pub use rule::{Admission, UnknownAdmission};
pub use tiers::{CacheCounts, Change, Sizes, Tiers};
