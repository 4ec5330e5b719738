//! The last samples.

use crate::device::{BLOCK, Block};

/// Ring of the last blocks, by their numbers.
#[derive(Debug, Clone)]
pub(crate) struct Recent {
    blocks: [Block; Self::BLOCKS],
}

impl Recent {
    /// Blocks of the ring: 160 ms.
    pub(crate) const BLOCKS: usize = 16;

    pub(crate) const fn new() -> Self {
        Self { blocks: [[0; BLOCK]; Self::BLOCKS] }
    }

    /// Keeps a block in place of the one [`Self::BLOCKS`] before it.
    pub(crate) fn keep(&mut self, number: u64, block: &Block) {
        self.blocks[number as usize % Self::BLOCKS] = *block;
    }

    /// One of the last blocks.
    pub(crate) fn get(&self, number: u64) -> &Block {
        &self.blocks[number as usize % Self::BLOCKS]
    }
}
