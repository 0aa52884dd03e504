//! A header that is lost, and a host that writes on.

use thermocline_sim::lost_header::lost_header;
use thermocline_sim::settings::{Scale, Settings};

#[test]
fn what_could_be_read_without_a_header_is_not_written_over() {
    for seed in 0..60 {
        let settings = Settings::draw(seed, Scale::Small);
        assert_eq!(lost_header(seed, settings), Ok(()), "seed {seed}");
    }
}
