//! A header that is lost, and a host that writes on.

use thermocline_sim::lost_header::lost_header;
use thermocline_sim::settings::{Scale, Settings};
use thermocline_sim::situations::Situation;

#[test]
fn what_could_be_read_without_a_header_is_not_written_over() {
    for seed in 0..60 {
        let settings = Settings::draw(seed, Scale::Small);
        assert_eq!(lost_header(seed, settings), Ok(()), "seed {seed}");
    }
}

/// Units are written again before what they held is known to be elsewhere.
#[test]
fn what_was_written_over_counts_no_more() {
    for seed in (3..100).step_by(4) {
        let settings = Situation::Crowded.settings(seed);
        assert_eq!(lost_header(seed, settings), Ok(()), "seed {seed}");
    }
}
