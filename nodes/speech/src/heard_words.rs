//! Words of an answer that the user heard.

use std::collections::VecDeque;

use afferent_graph::Timestamp;
use afferent_messages::{Played, Word};

/// Counts the words of an answer whose audio was played.
#[derive(Default)]
pub(crate) struct HeardWords {
    turn: u64,
    /// Words that were not heard: their start in the audio, and their position in the answer,
    /// counted from one.
    pending: VecDeque<(Timestamp, u32)>,
    count: u32,
}

impl HeardWords {
    /// No word of the answer to `turn` was heard.
    pub(crate) fn for_turn(turn: u64) -> Self {
        Self { turn, ..Self::default() }
    }

    /// Adds a word that starts at `at` in the audio.
    pub(crate) fn add_word(&mut self, at: Timestamp, word: &Word) {
        if word.turn == self.turn {
            self.pending.push_back((at, word.position));
        }
    }

    /// Updates the count with the playback position.
    pub(crate) fn on_played(&mut self, played: &Played) {
        while let Some((_, position)) = self.pending.pop_front_if(|(at, _)| *at < played.until) {
            self.count = self.count.max(position);
        }
    }

    /// Number of words of the answer that were heard.
    pub(crate) fn count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }
}

/// The first `count` words of `text`, with the whitespace before them.
pub(crate) fn first_words(text: &str, count: usize) -> &str {
    let mut words = text.split_whitespace();
    match count.checked_sub(1).and_then(|last| words.nth(last)) {
        // The word is a slice of `text`, so the difference of the addresses is its offset.
        Some(word) => &text[..word.as_ptr().addr() - text.as_ptr().addr() + word.len()],
        None if count == 0 => "",
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_turn_count_once_their_audio_was_played() {
        let mut heard = HeardWords::for_turn(3);
        for (turn, at, position) in [(3, 100, 1), (2, 100, 9), (3, 200, 2), (3, 300, 4)] {
            heard.add_word(Timestamp(at), &Word { turn, position, ..Word::default() });
        }
        let mut after = |until| {
            heard.on_played(&Played { until: Timestamp(until), is_playing: true });
            heard.count()
        };
        assert_eq!([after(100), after(201), after(150), after(900)], [0, 2, 2, 4]);
    }
}
