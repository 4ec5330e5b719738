//! Turns of speakers from probabilities of rows.

use std::time::Duration;

use afferent_graph::Timestamp;
use afferent_messages::SpeakerTurn;

/// The turns that go on.
pub(super) struct TurnTracker {
    threshold: f32,
    /// Start of the turn of each speaker that goes on.
    starts: Vec<Option<Timestamp>>,
}

impl TurnTracker {
    pub(super) fn new(threshold: f32, speakers: usize) -> Self {
        Self { threshold, starts: vec![None; speakers] }
    }

    /// Drops the turns that go on.
    pub(super) fn restart(&mut self) {
        self.starts.fill(None);
    }

    /// Writes the turns of rows of `row` each from `at` to `end` to `turns`: those that end, and those that go
    /// on. With `is_last`, all turns end.
    pub(super) fn update(
        &mut self,
        probabilities: &[f32],
        at: Timestamp,
        row: Duration,
        end: Timestamp,
        is_last: bool,
        turns: &mut Vec<SpeakerTurn>,
    ) {
        turns.clear();
        let mut now = at;
        for values in probabilities.chunks_exact(self.starts.len()) {
            for ((speaker, start), value) in (0..).zip(&mut self.starts).zip(values) {
                if *value > self.threshold {
                    start.get_or_insert(now);
                } else if let Some(start) = start.take() {
                    turns.push(SpeakerTurn { speaker, start, end: now, has_ended: true });
                }
            }
            now = now + row;
        }
        for (speaker, start) in (0..).zip(&mut self.starts) {
            let open = if is_last { start.take() } else { *start };
            turns.extend(open.map(|start| SpeakerTurn { speaker, start, end, has_ended: is_last }));
        }
        turns.sort_by_key(|turn| (turn.start, turn.speaker));
    }
}
