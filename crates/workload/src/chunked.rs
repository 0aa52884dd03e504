//! A list that grows without moving its elements.

use std::ops::{Index, IndexMut};

/// Elements that are allocated together.
const CHUNK: usize = 1 << 14;

/// A list in pieces. A vector of many millions of elements is copied when it is full, and needs three times its size
/// then; a chunked list never needs more than its own size.
#[derive(Debug)]
pub(crate) struct Chunked<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Chunked { chunks: Vec::new() }
    }
}

impl<T> Chunked<T> {
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub fn push(&mut self, element: T) {
        match self.chunks.last_mut().filter(|last| last.len() < CHUNK) {
            Some(last) => last.push(element),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(element);
                self.chunks.push(chunk);
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}

impl<T> Index<usize> for Chunked<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        &self.chunks[at / CHUNK][at % CHUNK]
    }
}

impl<T> IndexMut<usize> for Chunked<T> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.chunks[at / CHUNK][at % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_in_order_across_chunks() {
        let mut list = Chunked::default();
        for element in 0..2 * CHUNK + 5 {
            assert_eq!(list.len(), element);
            list.push(element);
        }
        list[CHUNK] = 7;
        assert_eq!(
            (list[CHUNK - 1], list[CHUNK], list[2 * CHUNK + 4]),
            (CHUNK - 1, 7, 2 * CHUNK + 4)
        );
        assert_eq!(list.iter().filter(|&&element| element == 7).count(), 2);
    }
}
