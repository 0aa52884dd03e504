//! Choice between fast devices and devices for capacity, for host data and for blocks that leave a fast unit.
//!
//! Invariants:
//! * A block that leaves a fast unit moves to another only if a free fast unit is left that hosts may not use, or if
//!   the block stays in place. At most half of the blocks looked at may stay on fast devices. Fast units are therefore
//!   gained, however large fast volumes are.

/// Consecutive requests of a volume, each beginning where the last ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stream {
    /// The block behind the last request.
    next: u64,
    /// Blocks of the requests so far.
    blocks: u64,
}

impl Stream {
    /// Adds a request to the stream; returns the blocks of the stream so far, including the new request.
    pub(crate) fn go_on(&mut self, lba: u64, blocks: u64) -> u64 {
        let before = if lba == self.next { self.blocks } else { 0 };
        *self = Stream { next: lba + blocks, blocks: before + blocks };
        self.blocks
    }
}

/// Blocks of fast volumes that may stay on fast devices when they leave a unit, less two for each that did.
#[derive(Debug)]
pub(crate) struct Stays {
    left: u64,
}

impl Stays {
    /// Of an engine that begins, over fast devices that hold `all`.
    pub(crate) fn new(all: u64) -> Stays {
        Stays { left: all }
    }

    /// A unit of `blocks` was left, of fast devices that hold `all`.
    pub(crate) fn unit_left(&mut self, blocks: u64, all: u64) {
        self.left = (self.left + blocks).min(all);
    }

    /// Whether one more block may stay.
    pub(crate) fn one(&mut self) -> bool {
        let may = self.left >= 2;
        self.left -= if may { 2 } else { 0 };
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_left_may_stay_and_no_more_is_saved_up_than_there_is() {
        let mut stays = Stays::new(3);
        assert!(stays.one() && !stays.one());
        (0..4).for_each(|_| stays.unit_left(100, 250));
        assert_eq!((0..1000).filter(|_| stays.one()).count(), 125);
    }

    #[test]
    fn a_stream_goes_on_with_the_block_behind_the_last() {
        let mut stream = Stream::default();
        assert_eq!(stream.go_on(100, 8), 8);
        assert_eq!(stream.go_on(108, 8), 16);
        assert_eq!(stream.go_on(108, 8), 8, "the same once more");
        assert_eq!(stream.go_on(116, 1), 9);
        assert_eq!(stream.go_on(0, 4), 4);
    }
}
