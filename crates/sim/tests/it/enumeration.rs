//! One crash state again.

use thermocline_sim::enumerate::{Budget, enumerate};

#[test]
fn a_state_can_be_looked_at_again_alone() {
    let all = enumerate(1, &Budget { states: 200, failures: 1, per_point: None, only: None });
    assert!(all.states >= 200 && all.points > 0);
    let only = "1:1:0".parse().expect("a place");
    let alone =
        enumerate(1, &Budget { states: 200, failures: 1, per_point: None, only: Some(only) });
    assert!((1..=5).contains(&alone.states), "{}", alone.states);
}
