//! Requests with power cuts, and images of pools, from arbitrary bytes: a bounded number, the same each time.
//! `crates/sim/fuzz` goes on, with failing commands too.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use thermocline_sim::fuzz::{images, operations};

/// So many cases, the same each time.
fn cases(cases: u32) -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(1);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn any_operations_with_power_cuts_and_kills_lose_nothing_and_end(bytes in vec(any::<u8>(), 2..1200)) {
        prop_assert_eq!(operations(&bytes, false), Vec::<String>::new());
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn any_image_is_refused_or_serves_nothing_that_was_not_written(bytes in vec(any::<u8>(), 2..80)) {
        prop_assert_eq!(images(&bytes), Ok(()));
    }
}
