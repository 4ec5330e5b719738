//! Set of the nodes of one thread.

/// One bit for each node.
#[derive(Debug, Clone)]
pub(crate) struct Ready(Vec<u64>);

impl Ready {
    /// Empty set for `nodes` nodes.
    pub(crate) fn new(nodes: usize) -> Self {
        Self(vec![0; nodes.div_ceil(64)])
    }

    pub(crate) fn insert(&mut self, runner_index: usize) {
        self.0[runner_index / 64] |= 1 << (runner_index % 64);
    }

    pub(crate) fn insert_all(&mut self, others: &Self) {
        self.0.iter_mut().zip(&others.0).for_each(|(word, other)| *word |= other);
    }

    pub(crate) fn remove(&mut self, runner_index: usize) {
        self.0[runner_index / 64] &= !(1 << (runner_index % 64));
    }

    /// Last node: the one nearest to the sinks.
    pub(crate) fn last(&self) -> Option<usize> {
        let word = self.0.iter().rposition(|word| *word != 0)?;
        Some(word * 64 + 63 - self.0[word].leading_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_comes_first() {
        let (mut ready, mut far) = (Ready::new(130), Ready::new(130));
        far.insert(64);
        ready.insert(3);
        ready.insert_all(&far);
        ready.insert(129);
        for runner_index in [129, 64, 3] {
            assert_eq!(ready.last(), Some(runner_index));
            ready.remove(runner_index);
        }
        assert_eq!(ready.last(), None);
    }
}
