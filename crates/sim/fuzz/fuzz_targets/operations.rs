//! Requests of a host, power cuts, kills and failing commands.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let wrong = thermocline_sim::fuzz::operations(bytes, true);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
});
