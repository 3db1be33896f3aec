//! A vector that, beyond its first thousand elements, grows without moving its elements.
//!
//! Invariant: all chunks but the last are full, and all in `more` have room for [`CHUNK`]; `len` counts the elements.
//!
//! A plain vector would copy a million keys again and again under the queue's lock, and leave the old copies to the allocator.
//! Called by `slots` and `wheel`.

use std::ops::{Index, IndexMut};

/// Elements of a chunk; a power of two. Of 40 bytes each they are 40 KiB, which any allocator has at hand.
const CHUNK: usize = 1024;

/// Holds the elements. A few of them take no more memory than in a vector, and are found as quickly.
#[derive(Debug)]
pub(crate) struct Chunks<T> {
    first: Vec<T>,
    more: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { first: Vec::new(), more: Vec::new(), len: 0 }
    }
}

impl<T> Chunks<T> {
    /// Number of elements.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The element at an index; none beyond the end.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        match self.first.get(index) {
            None => self.more.get((index / CHUNK).checked_sub(1)?)?.get(index % CHUNK),
            element => element,
        }
    }

    /// Appends an element.
    #[inline]
    pub(crate) fn push(&mut self, element: T) {
        if self.len.is_multiple_of(CHUNK) && self.len > 0 {
            self.more.push(Vec::with_capacity(CHUNK));
        }
        self.len += 1;
        self.more.last_mut().unwrap_or(&mut self.first).push(element);
    }

    /// All elements in their order; each chunk is released when its last element was taken.
    pub(crate) fn into_iter(self) -> impl Iterator<Item = T> {
        self.first.into_iter().chain(self.more.into_iter().flatten())
    }

    /// All elements in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.more.iter().flatten())
    }

    /// All elements in their order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(self.more.iter_mut().flatten())
    }
}

impl<T> Index<usize> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        match self.first.get(index) {
            Some(element) => element,
            None => &self.more[index / CHUNK - 1][index % CHUNK],
        }
    }
}

impl<T> IndexMut<usize> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        match self.first.get_mut(index) {
            Some(element) => element,
            None => &mut self.more[index / CHUNK - 1][index % CHUNK],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_in_their_order_over_several_chunks() {
        let mut chunks = Chunks::default();
        assert_eq!((chunks.len(), chunks.get(0)), (0, None));
        for n in 0..2 * CHUNK + 1 {
            chunks.push(n);
            assert_eq!((chunks.len(), chunks.get(n), chunks.get(n + 1)), (n + 1, Some(&n), None));
        }
        chunks.iter_mut().for_each(|n| *n += 1);
        chunks[CHUNK] = 0;
        assert_eq!((chunks[CHUNK - 1], chunks[CHUNK], chunks[CHUNK + 1]), (CHUNK, 0, CHUNK + 2));
        assert!(chunks.into_iter().enumerate().all(|(at, n)| n == at + 1 || (at, n) == (CHUNK, 0)));
    }
}
