//! Groups as storages: pools on them, and groups of all kinds and sizes.

mod pool;
mod shapes;
