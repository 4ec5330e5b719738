//! How much of an answer was heard.

use std::collections::VecDeque;

use afferent_graph::Timestamp;
use afferent_messages::{Played, Word};

/// Counts the words of the answer of a turn that were heard.
#[derive(Default)]
pub(crate) struct Heard {
    turn: u64,
    /// Words that were not heard yet: when the sound says them, and how many words of the answer
    /// end with them.
    coming: VecDeque<(Timestamp, u32)>,
    words: u32,
}

impl Heard {
    /// Nothing is heard yet of the answer of a turn.
    pub(crate) fn of(turn: u64) -> Self {
        Self { turn, ..Self::default() }
    }

    /// Takes in that the sound says a word at a time.
    pub(crate) fn said_at(&mut self, at: Timestamp, word: &Word) {
        if word.turn == self.turn {
            self.coming.push_back((at, word.position));
        }
    }

    /// Takes in how much of the sound was played.
    pub(crate) fn played(&mut self, played: &Played) {
        while let Some((_, position)) = self.coming.pop_front_if(|(at, _)| *at < played.until) {
            self.words = self.words.max(position);
        }
    }

    /// Written words of the answer that were heard.
    pub(crate) fn words(&self) -> usize {
        usize::try_from(self.words).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_turn_are_heard_when_their_sound_was_played() {
        let mut heard = Heard::of(3);
        for (turn, at, position) in [(3, 100, 1), (2, 100, 9), (3, 200, 2), (3, 300, 4)] {
            heard.said_at(Timestamp(at), &Word { turn, position, ..Word::default() });
        }
        let mut after = |until| {
            heard.played(&Played { until: Timestamp(until), is_playing: true });
            heard.words()
        };
        assert_eq!([after(100), after(201), after(150), after(900)], [0, 2, 2, 4]);
    }
}
