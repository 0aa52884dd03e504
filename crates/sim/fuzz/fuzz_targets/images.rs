//! Images of pools, changed as somebody would who knows the format.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(wrong) = thermocline_sim::fuzz::images(bytes) {
        panic!("{wrong}");
    }
});
