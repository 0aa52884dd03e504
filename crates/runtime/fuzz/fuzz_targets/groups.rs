//! Mirrored pairs and striped groups with changed labels and logs are refused and left alone, or serve.
#![no_main]

// What `cargo test` uses of it is more.
#[allow(dead_code)]
#[path = "../../tests/it/forge.rs"]
mod forge;

use forge::Forge;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static POOLS: Vec<Forge> = Forge::all();
}

fuzz_target!(|bytes: &[u8]| {
    let outcome = POOLS.with(|pools| forge::attempt(pools, bytes));
    assert!(outcome.is_ok(), "{outcome:?}");
});
