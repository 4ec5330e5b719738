//! Rows of a stream that a run reads before its own: speaker cache and queue.

/// Rows of embeddings: the speaker cache, then the queue, then the chunk of a run.
///
/// A row that leaves the queue enters the cache. Of a full cache, the rows with the highest probability of
/// a speaker stay, in the order of time.
pub(super) struct Context {
    width: usize,
    speakers: usize,
    /// Most rows of the cache and the queue.
    max_cached: usize,
    max_queued: usize,
    /// Rows of a chunk.
    pub(super) chunk: usize,
    rows: Vec<f32>,
    /// Rows of the cache, and of the cache and the queue.
    cached: usize,
    before_chunk: usize,
}

impl Context {
    pub(super) fn new(
        width: usize,
        speakers: usize,
        max_cached: usize,
        max_queued: usize,
        chunk: usize,
    ) -> Self {
        let (rows, cached, before_chunk) = (Vec::new(), 0, 0);
        Self { width, speakers, max_cached, max_queued, chunk, rows, cached, before_chunk }
    }

    /// Adds the rows of a chunk. Returns the number of all rows; zero if the chunk is empty.
    pub(super) fn push(&mut self, chunk: Vec<f32>) -> usize {
        if chunk.is_empty() {
            return 0;
        }
        self.rows.truncate(self.before_chunk * self.width);
        self.rows.extend(chunk);
        self.rows.len() / self.width
    }

    /// Sizes and values of `total` rows; those that are missing are zero.
    pub(super) fn input(&mut self, total: usize) -> ([usize; 3], &[f32]) {
        let len = self.rows.len().max(total * self.width);
        if len > self.rows.len() {
            self.rows.resize(len, 0.0);
        }
        ([1, total, self.width], &self.rows)
    }

    /// Moves the rows of the chunk to the queue, and those that leave the queue to the cache.
    /// `probabilities` are those of all rows. Returns the index of the first row of the chunk.
    pub(super) fn update(&mut self, probabilities: &[f32]) -> usize {
        let total = probabilities.len() / self.speakers;
        let first = self.before_chunk;
        let queued = (total - self.cached).min(self.max_queued);
        let queue = self.rows[(total - queued) * self.width..total * self.width].to_vec();
        let kept = self.best(&probabilities[..(total - queued) * self.speakers]);
        // The index of a kept row is never below its new one.
        for (to, from) in kept.iter().enumerate() {
            let from = from * self.width..(from + 1) * self.width;
            self.rows.copy_within(from, to * self.width);
        }
        self.cached = kept.len();
        self.rows.truncate(self.cached * self.width);
        self.rows.extend(queue);
        self.before_chunk = self.cached + queued;
        first
    }

    /// Indices of the rows that the cache keeps.
    fn best(&self, probabilities: &[f32]) -> Vec<usize> {
        let greatest = |row: &[f32]| row.iter().copied().fold(0.0, f32::max);
        let scores: Vec<f32> = probabilities.chunks_exact(self.speakers).map(greatest).collect();
        let mut indices: Vec<usize> = (0..scores.len()).collect();
        if indices.len() > self.max_cached {
            // Stable: of equal rows, the first ones stay.
            indices.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            indices.truncate(self.max_cached);
            indices.sort_unstable();
        }
        indices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of one value, after chunks of two rows with these probabilities of the context.
    fn rows_after(chunks: &[(&[f32], &[f32])]) -> Vec<f32> {
        let mut context = Context::new(1, 1, 3, 2, 2);
        for (rows, probabilities) in chunks {
            assert_eq!(context.push(rows.to_vec()), probabilities.len());
            context.update(probabilities);
        }
        context.rows
    }

    #[test]
    fn the_most_probable_rows_stay_in_the_order_of_time() {
        let first: (&[f32], &[f32]) = (&[1.0, 2.0], &[0.5; 2]);
        let second: (&[f32], &[f32]) = (&[3.0, 4.0], &[0.5; 4]);
        // 1 and 2 leave the queue; then 3 and 4 do, and the cache takes three of four.
        assert_eq!(rows_after(&[first, second]), [1.0, 2.0, 3.0, 4.0]);
        for (probabilities, expected) in [
            ([0.1, 0.9, 0.2, 0.3, 0.0, 0.0], [2.0, 3.0, 4.0, 5.0, 6.0]),
            ([0.9, 0.1, 0.2, 0.3, 1.0, 1.0], [1.0, 3.0, 4.0, 5.0, 6.0]),
            ([0.5, 0.5, 0.5, 0.5, 0.0, 0.0], [1.0, 2.0, 3.0, 5.0, 6.0]),
        ] {
            let third: (&[f32], &[f32]) = (&[5.0, 6.0], &probabilities);
            assert_eq!(rows_after(&[first, second, third]), expected, "{probabilities:?}");
        }
    }
}
