//! Decoding of label probabilities to words with times.

use std::time::Duration;

use afferent_graph::Timestamp;
use afferent_messages::HeardWord;

use super::{
    beam_search::BeamSearch,
    greedy::{GreedyDecoder, argmax},
};

/// Decoder of consecutive utterances.
pub(super) struct Decoder {
    search: Search,
    labels: Vec<String>,
    space: usize,
    clock: StepClock,
    /// Steps of the current utterance.
    steps: u32,
    /// Last step with a letter.
    last_letter_step: Option<u32>,
    /// True if the space is the most probable label of the last step.
    is_after_word: bool,
}

/// Search for words.
pub(super) enum Search {
    /// Beam search with a lexicon and a language model.
    Beam(Box<BeamSearch>),
    /// The most probable letters.
    Greedy(GreedyDecoder),
}

/// Converts steps to timestamps.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepClock {
    /// Start of the first step of the utterance.
    pub(super) origin: Timestamp,
    /// Earliest start of a word: the start of the audio, or the end of the previous utterance.
    pub(super) earliest: Timestamp,
    /// Time from step to step.
    pub(super) step: Duration,
    /// Delay of the first letter of a word after the start of the word, in seconds.
    pub(super) start_delay_s: f32,
    /// Delay of the last letter of a word after the end of the word, in seconds.
    pub(super) end_delay_s: f32,
}

impl StepClock {
    /// Middle of a step, minus a delay.
    fn time(&self, step: u32, delay_s: f32) -> Timestamp {
        let delay = Duration::from_secs_f32(delay_s.abs());
        let at = self.origin + self.step * step + self.step / 2;
        if delay_s > 0.0 { at - delay } else { at + delay }
    }

    /// End of a word whose last letter is at `step`.
    fn word_end(&self, step: u32) -> Timestamp {
        self.time(step, self.end_delay_s).min(self.end(step))
    }

    /// End of a step.
    fn end(&self, step: u32) -> Timestamp {
        self.origin + self.step * (step + 1)
    }
}

impl Decoder {
    pub(super) fn new(search: Search, labels: Vec<String>, space: usize, clock: StepClock) -> Self {
        Self {
            search,
            labels,
            space,
            clock,
            steps: 0,
            last_letter_step: None,
            is_after_word: false,
        }
    }

    /// Begins a new utterance at `origin` in the same audio. Its first word may start before
    /// `origin`, since letters appear after their sound.
    pub(super) fn continue_at(&mut self, origin: Timestamp) {
        let earliest =
            self.last_letter_step.map_or(self.clock.earliest, |step| self.clock.word_end(step));
        self.restart(origin);
        self.clock.earliest = earliest;
    }

    /// Begins a new utterance at `origin`.
    pub(super) fn restart(&mut self, origin: Timestamp) {
        match &mut self.search {
            Search::Beam(search) => search.restart(),
            Search::Greedy(decoder) => decoder.restart(),
        }
        (self.clock.origin, self.clock.earliest) = (origin, origin);
        self.steps = 0;
        self.last_letter_step = None;
        self.is_after_word = false;
    }

    /// Number of labels.
    pub(super) fn label_count(&self) -> usize {
        self.labels.len()
    }

    /// Adds the log probabilities of the labels in the next step.
    pub(super) fn update(&mut self, log_probs: &[f32]) {
        let label = argmax(log_probs);
        self.is_after_word = label == self.space;
        if label != 0 && label != self.space {
            self.last_letter_step = Some(self.steps);
        }
        match &mut self.search {
            Search::Beam(search) => search.update(log_probs),
            Search::Greedy(decoder) => decoder.update(label),
        }
        self.steps += 1;
    }

    /// True if the last step ended a word.
    pub(super) fn is_after_word(&self) -> bool {
        self.is_after_word
    }

    /// Time from step to step.
    pub(super) fn step(&self) -> Duration {
        self.clock.step
    }

    /// Length of the decoded audio.
    pub(super) fn decoded(&self) -> Duration {
        self.clock.step * self.steps
    }

    /// Start of the next step.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.origin + self.decoded()
    }

    /// Time since the last letter.
    pub(super) fn silent_for(&self) -> Duration {
        let steps = self.last_letter_step.map_or(self.steps, |step| self.steps - step - 1);
        self.clock.step * steps
    }

    /// Writes the words so far to `words`.
    pub(super) fn partial(&mut self, words: &mut Vec<HeardWord>) {
        self.collect_words(false, words);
    }

    /// Writes the words of the utterance, which ends here, to `words`.
    pub(super) fn finish(&mut self, words: &mut Vec<HeardWord>) {
        self.collect_words(true, words);
    }

    fn collect_words(&mut self, is_final: bool, words: &mut Vec<HeardWord>) {
        words.clear();
        let clock = self.clock;
        // A word ends no later than the next one starts.
        let mut add = |text: String, first: u32, last: u32| {
            let start = clock.time(first, clock.start_delay_s).max(clock.earliest);
            if let Some(before) = words.last_mut() {
                let before: &mut HeardWord = before;
                before.end = before.end.min(start.max(before.start));
            }
            let end = clock.word_end(last);
            words.push(HeardWord { text, start, end: end.max(start), ..HeardWord::default() });
        };
        match &mut self.search {
            Search::Beam(search) => {
                let found = if is_final { search.finish() } else { search.partial() };
                for word in found {
                    add(search.text(word.word).to_owned(), word.first_step, word.last_step);
                }
            }
            Search::Greedy(decoder) => {
                for word in decoder.words() {
                    let text = word.labels.iter().map(|&label| self.labels[label].as_str());
                    add(text.collect(), word.first_step, word.last_step);
                }
            }
        }
    }
}
