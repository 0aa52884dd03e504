//! Crash-safe block volumes on flash.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! std::fs::write("pool.toml", "device = { path = 'pool.img', size = '256MiB' }\nvolumes = [{ name = 'main' }]")?;
//! let pool = thermocline::Pool::create("pool.toml")?;
//! let volume = pool.volume("main")?;
//! volume.write_at(0, b"hello")?;
//! volume.flush()?;
//! pool.close()?;
//!
//! let pool = thermocline::Pool::open("pool.toml")?;
//! let mut word = [0; 5];
//! pool.volume("main")?.read_at(0, &mut word)?;
//! assert_eq!(&word, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! What would it save? `lab` predicts write amplification, life and speed before a drive is bought:
//!
//! ```
//! # #[cfg(feature = "lab")]
//! # {
//! use thermocline::lab::{self, RunSpec, WorkloadSpec};
//! let record = lab::run(&RunSpec::new("raw:p5316", WorkloadSpec::trace("cassandra-ycsb-a")))?;
//! println!("write amplification {:.2}", record.waf.unwrap());
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Features `lab` and `papers` are on by default; `papers` has the published experiments that the lab repeats. Feature
//! `serve` adds module `serve`: a pool for clients of NBD and for programs that use files.
//!
//! A [`Pool`] is open in one process at a time. [`Volume`] handles are cheap clones for any number of threads.
//!
//! Invariants:
//! * A completed [`Volume::flush`] covers every write that was completed before it: the data survives a power cut.
//! * An [`Error`] holds a kind and facts, never advice: the program `thermocline` has the advice.

mod error;
#[cfg(feature = "lab")]
pub mod lab;
mod pool;
mod volume;

#[cfg(feature = "serve")]
pub use thermocline_serve as serve;

pub use error::{Error, ErrorKind};
pub use pool::Pool;
pub use volume::Volume;
