//! The library as another program uses it.

mod examples;
#[cfg(feature = "lab")]
mod lab;
mod pool;
