//! Labels of groups, and heads of logs, from arbitrary bytes: a bounded number, the same each time.
//! `crates/runtime/fuzz` goes on.

use std::sync::atomic::Ordering;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::LARGEST;
use crate::forge::{Forge, Outcome, attempt};

/// Bytes that nothing asks for at once, whatever labels say: members have 4 MiB.
const MOST: usize = 32 << 20;

thread_local! {
    static POOLS: Vec<Forge> = Forge::all();
}

/// So many cases, the same each time.
fn cases(cases: u32) -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(1);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn pools_whose_labels_nobody_changed_serve() {
    POOLS.with(|pools| {
        for pool in 0..pools.len() as u8 {
            assert_eq!(attempt(pools, &[pool]), Ok(Outcome::Serves), "{pool}");
        }
    });
}

/// Bytes of a label of a group: `docs/use/GROUPS.md`, its label.
const EVENT: usize = 40;
const UNITS: usize = 56;
const UNIT_BLOCKS: usize = 60;
const PIECE: usize = 68;

#[test]
fn what_all_labels_agree_on_is_refused_where_it_cannot_be() {
    let cases: [(usize, &[u8]); 6] = [
        (EVENT, &(1_u64 << 63).to_le_bytes()),
        (UNITS, &3_u32.to_le_bytes()),
        (UNITS, &[0, 0, 0, 1]),
        (UNIT_BLOCKS, &[65]),
        (UNIT_BLOCKS, &[0xFF; 4]),
        (PIECE, &4097_u32.to_le_bytes()),
    ];
    POOLS.with(|pools| {
        for (pool, (field, value)) in pools.iter().flat_map(|pool| cases.map(|case| (pool, case))) {
            let outcome = pool.with_field(field, value);
            assert_eq!(outcome, Ok(Outcome::Refused), "{field} {value:?}");
        }
    });
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_group_is_refused_by_a_member_and_left_as_it_is_or_serves(bytes in vec(any::<u8>(), 1..60)) {
        let outcome = POOLS.with(|pools| attempt(pools, &bytes));
        prop_assert!(outcome.is_ok(), "{:?}", outcome);
        prop_assert!(LARGEST.load(Ordering::Relaxed) < MOST);
    }
}
