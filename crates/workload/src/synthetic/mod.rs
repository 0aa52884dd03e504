//! Generators: workloads made from a short text, a span and a seed.
//!
//! A [`Spec`] says what is written where (`zipf:0.99`, an application such as [`lsm`], or a file with several tenants
//! of either kind), [`Options`] how much of it and over which span, and a [`Generator`] yields the requests.
//!
//! ```
//! use thermocline_types::Bytes;
//! use thermocline_workload::Source;
//! use thermocline_workload::synthetic::{Generator, Limit, Options, Spec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec: Spec = "zipf:0.99".parse()?;
//! let span = Bytes::gib(1);
//! let options = Options { seed: 7, read_share: 0.3, ..Options::new(span, Limit::drive_writes(0.01, span)?) };
//! let mut generator = Generator::new(&spec, &options)?;
//! let mut batch = Vec::new();
//! loop {
//!     generator.fill(&mut batch)?;
//!     if batch.is_empty() {
//!         break;
//!     }
//!     assert!(batch.iter().all(|request| request.end() <= span));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Invariants:
//! * Equal spec, options and seed give equal requests: on one machine always; on different ones as long as their `powf`
//!   agrees, where a last bit that differs moves a Zipf threshold by 2^-53, once in some 10^15 draws. Applications have
//!   sizes by `exp` as well, rounded to whole bytes.
//! * Every request lies inside the span, has a length above 0, and starts and ends on a 512-byte sector.
//! * A limit on writes or bytes written is met exactly.

mod app;
mod btree;
mod checkpoints;
mod error;
mod generator;
mod hse;
mod keys;
mod kvcache;
mod llm;
pub mod lsm;
mod objects;
mod options;
mod pattern;
mod random_map;
mod scatter;
mod select;
mod shape;
mod spec;
pub mod zipf;

pub use app::{APPLICATIONS, AppInfo, AppRoom, AppSpec, VolumeFull};
pub use btree::BtreeSpec;
pub use checkpoints::Checkpoints;
pub use error::Error;
pub use generator::Generator;
pub use hse::HseSpec;
pub use keys::{Amount, Key};
pub use kvcache::KvCacheSpec;
pub use llm::LlmSpec;
pub use objects::ObjectsSpec;
pub use options::{Bursts, Limit, Options};
pub use pattern::{Form, PATTERNS, Pattern, forms};
pub use random_map::RandomMap;
pub use scatter::Permutation;
pub use shape::{JESD219_SIZES, MODERN_SIZES};
pub use spec::{Spec, Tenant, TenantSpan, Work};
