//! The library as another program uses it.

mod examples;
mod pool;
