//! A header that two tears make whole.

use thermocline_sim::torn_twice::torn_twice;

#[test]
fn a_chunk_that_two_tears_make_whole_does_not_count() {
    for seed in 0..16 {
        assert_eq!(torn_twice(seed, None), Ok(()), "seed {seed}");
    }
}
