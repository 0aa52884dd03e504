//! Closed forms: the write amplification that models predict, without simulating anything.
//!
//! Invariants:
//! * Every function is pure and states the formula and the source.
//! * Spare space is only ever passed as [`Overprovisioning`], because the literature uses four different ratios for it.
//! * Every `*_waf` is a write amplification factor of one log-structured layer: bytes written to media ÷ bytes the host
//!   wrote, at least 1, in the limit of many blocks and after a long time.
//!
//! Common to all: the layer appends to blocks of `b` mapping units, the host overwrites units independently of each
//! other with fixed probabilities (no memory), and garbage collection copies the valid units of one victim at a time.

pub mod bandwidth;
pub mod fdp;
pub mod indirection;
pub mod integrity;
pub mod lifetime;
mod overprovisioning;
mod population;
pub mod separation;
pub mod skew;
mod solve;
mod tables;
pub mod uniform;

pub use overprovisioning::Overprovisioning;
pub use population::{Part, Population};
pub use tables::{Row, Table, tables};

/// A parameter outside the range for which a formula means anything.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{quantity} is {value}, must be {expected}")]
pub struct DomainError {
    quantity: &'static str,
    value: f64,
    expected: &'static str,
}

impl DomainError {
    /// `Ok` if `holds`, otherwise the complaint that `quantity` is `value` instead of what was `expected`.
    fn unless(
        holds: bool,
        quantity: &'static str,
        value: f64,
        expected: &'static str,
    ) -> Result<(), DomainError> {
        if holds { Ok(()) } else { Err(DomainError { quantity, value, expected }) }
    }
}
