//! Pages in memory.
//!
//! Invariants:
//! * A page has one frame at most, and `frame_of` and `frames` say the same.
//! * A dirty page is once in `ages` with the log's position of its first change; entries of pages that were written
//!   since then are passed over.

use std::collections::VecDeque;

/// Of a page without a frame.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Frame {
    page: u32,
    /// Used since the clock's hand passed.
    used: bool,
    /// One more than the log's position of the first change since it was written; 0 if it is clean.
    dirty: u64,
}

/// Memory for pages; the page that goes is chosen by a clock.
#[derive(Debug)]
pub(super) struct Pool {
    frame_of: Vec<u32>,
    frames: Vec<Frame>,
    most: usize,
    hand: usize,
    ages: VecDeque<(u32, u64)>,
    dirty: usize,
    /// A frame that is empty.
    free: Option<u32>,
}

impl Pool {
    /// An empty one of `frames` frames, for `pages` pages.
    pub fn new(pages: u64, frames: u64) -> Pool {
        Pool {
            frame_of: vec![NONE; pages as usize],
            frames: Vec::with_capacity(frames as usize),
            most: frames as usize,
            hand: 0,
            ages: VecDeque::new(),
            dirty: 0,
            free: None,
        }
    }

    pub fn holds(&self, page: u32) -> bool {
        self.frame_of[page as usize] != NONE
    }

    fn frame(&mut self, page: u32) -> &mut Frame {
        &mut self.frames[self.frame_of[page as usize] as usize]
    }

    pub fn is_dirty(&self, page: u32) -> bool {
        let frame = self.frame_of[page as usize];
        frame != NONE && self.frames[frame as usize].dirty > 0
    }

    /// Dirty pages, and frames.
    pub fn fill(&self) -> (usize, usize) {
        (self.dirty, self.most)
    }

    /// The page to go, if there is no frame for another one.
    pub fn victim(&mut self) -> Option<u32> {
        if self.frames.len() < self.most || self.free.is_some() {
            return None;
        }
        loop {
            self.hand = (self.hand + 1) % self.most;
            let frame = &mut self.frames[self.hand];
            if !frame.used {
                return Some(frame.page);
            }
            frame.used = false;
        }
    }

    /// Takes a clean page out.
    pub fn remove(&mut self, page: u32) {
        let frame = std::mem::replace(&mut self.frame_of[page as usize], NONE);
        assert!(self.frames[frame as usize].dirty == 0, "page {page} was not written");
        self.free = Some(frame);
    }

    /// Gives a page a frame, which is free.
    pub fn insert(&mut self, page: u32) {
        let frame = Frame { page, used: true, dirty: 0 };
        let index = match self.free.take() {
            Some(index) => {
                self.frames[index as usize] = frame;
                index
            }
            None => {
                self.frames.push(frame);
                self.frames.len() as u32 - 1
            }
        };
        self.frame_of[page as usize] = index;
    }

    /// A page in memory is used, and changed at the log's position `lsn` if it says one.
    pub fn use_page(&mut self, page: u32, lsn: Option<u64>) {
        let frame = self.frame(page);
        frame.used = true;
        if let Some(lsn) = lsn
            && frame.dirty == 0
        {
            frame.dirty = lsn + 1;
            self.dirty += 1;
            self.ages.push_back((page, lsn + 1));
        }
    }

    /// The page that is dirty for the longest, and since when.
    pub fn oldest(&mut self) -> Option<(u32, u64)> {
        loop {
            let &(page, since) = self.ages.front()?;
            let frame = self.frame_of[page as usize];
            if frame != NONE && self.frames[frame as usize].dirty == since {
                return Some((page, since - 1));
            }
            self.ages.pop_front();
        }
    }

    /// A page was written.
    pub fn clean(&mut self, page: u32) {
        let frame = self.frame(page);
        if frame.dirty > 0 {
            frame.dirty = 0;
            self.dirty -= 1;
        }
    }

    /// All dirty pages, in order.
    pub fn dirty(&self) -> Vec<u32> {
        let dirty = self.frames.iter().filter(|frame| frame.dirty > 0);
        let mut pages: Vec<u32> = dirty.map(|frame| frame.page).collect();
        // An empty frame is a clean one.
        pages.sort_unstable();
        pages
    }
}
