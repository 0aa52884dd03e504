//! Blocks in order of their last use, as a list through arrays.

use super::PromptBlock;

/// End of the list.
const END: u32 = u32::MAX;
/// Link of a block that is not in the list.
const ABSENT: u32 = u32::MAX - 1;

/// A list of blocks from the one used last to the one used longest ago. All steps take constant time.
#[derive(Clone, Debug)]
pub(super) struct Lru {
    /// Neighbours used later and earlier.
    later: Vec<u32>,
    earlier: Vec<u32>,
    newest: u32,
    oldest: u32,
    len: usize,
}

impl Lru {
    /// An empty list of blocks below `ids`.
    pub fn new(ids: usize) -> Lru {
        let links = vec![ABSENT; ids];
        Lru { later: links.clone(), earlier: links, newest: END, oldest: END, len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn contains(&self, block: PromptBlock) -> bool {
        self.later[block as usize] != ABSENT
    }

    /// Adds an absent block as the newest.
    pub fn push(&mut self, block: PromptBlock) {
        debug_assert!(!self.contains(block));
        self.later[block as usize] = END;
        self.earlier[block as usize] = self.newest;
        match self.newest {
            END => self.oldest = block,
            newest => self.later[newest as usize] = block,
        }
        self.newest = block;
        self.len += 1;
    }

    /// Takes a present block out.
    pub fn remove(&mut self, block: PromptBlock) {
        let (later, earlier) = (self.later[block as usize], self.earlier[block as usize]);
        match later {
            END => self.newest = earlier,
            later => self.earlier[later as usize] = earlier,
        }
        match earlier {
            END => self.oldest = later,
            earlier => self.later[earlier as usize] = later,
        }
        self.later[block as usize] = ABSENT;
        self.len -= 1;
    }

    /// Makes a present block the newest.
    pub fn touch(&mut self, block: PromptBlock) {
        if self.newest != block {
            self.remove(block);
            self.push(block);
        }
    }

    /// Takes the oldest block out.
    pub fn pop(&mut self) -> Option<PromptBlock> {
        let oldest = self.oldest;
        (oldest != END).then(|| {
            self.remove(oldest);
            oldest
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_used_longest_ago_leaves_first() {
        let mut lru = Lru::new(5);
        (0..4).for_each(|block| lru.push(block));
        lru.touch(0);
        lru.remove(2);
        lru.touch(0);
        assert!(!lru.contains(2) && lru.contains(0) && !lru.contains(4));
        assert_eq!(lru.len(), 3);
        let order: Vec<PromptBlock> = std::iter::from_fn(|| lru.pop()).collect();
        assert_eq!(order, [1, 3, 0]);
        assert_eq!(lru.len(), 0);
        lru.push(2);
        assert_eq!(lru.pop(), Some(2));
    }
}
