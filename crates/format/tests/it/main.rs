//! The format through its public interface.

mod arbitrary;
mod golden;
mod limits;
mod properties;
mod refusals;
