//! Chances of letters to words with times, with a lexicon or without.

use std::time::Duration;

use afferent_graph::Timestamp;
use afferent_messages::HeardWord;

use super::{
    beam::Beam,
    greedy::{Greedy, likeliest},
};

/// A decoder of one utterance after another.
pub(super) struct Decoder {
    search: Search,
    labels: Vec<String>,
    space: usize,
    clock: Clock,
    /// Steps of this utterance.
    steps: u32,
    /// The last step with a letter.
    letter_step: Option<u32>,
}

/// How words are found.
pub(super) enum Search {
    /// Words of a lexicon, by a language model.
    Beam(Box<Beam>),
    /// The likeliest letters, whatever they spell.
    Greedy(Greedy),
}

/// Makes times of steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// When the first step of the utterance began.
    pub(super) origin: Timestamp,
    /// No word begins before this: where sound began, or the last letter was heard.
    pub(super) earliest: Timestamp,
    /// Time from step to step.
    pub(super) step: Duration,
    /// How long after the begin of a word its first letter appears, in seconds.
    pub(super) start_delay_s: f32,
    /// How long after the end of a word its last letter appears, in seconds.
    pub(super) end_delay_s: f32,
}

impl Clock {
    /// The time in the middle of a step, less a delay.
    fn time(&self, step: u32, delay_s: f32) -> Timestamp {
        let delay = Duration::from_secs_f32(delay_s.abs());
        let at = self.origin + self.step * step + self.step / 2;
        if delay_s > 0.0 { at - delay } else { at + delay }
    }

    /// The end of a step.
    fn end(&self, step: u32) -> Timestamp {
        self.origin + self.step * (step + 1)
    }
}

impl Decoder {
    pub(super) fn new(search: Search, labels: Vec<String>, space: usize, clock: Clock) -> Self {
        Self { search, labels, space, clock, steps: 0, letter_step: None }
    }

    /// Begins a new utterance in the same sound, at `origin`: where this one ended, by the clock of the
    /// sound. Its first word may have begun before: letters appear after their sound.
    pub(super) fn go_on(&mut self, origin: Timestamp) {
        let earliest = self.letter_step.map_or(self.clock.earliest, |step| self.clock.end(step));
        self.restart(origin);
        self.clock.earliest = earliest;
    }

    /// Begins a new utterance at `origin`.
    pub(super) fn restart(&mut self, origin: Timestamp) {
        match &mut self.search {
            Search::Beam(beam) => beam.restart(),
            Search::Greedy(greedy) => greedy.restart(),
        }
        (self.clock.origin, self.clock.earliest) = (origin, origin);
        self.steps = 0;
        self.letter_step = None;
    }

    /// Number of labels of a step.
    pub(super) fn labels(&self) -> usize {
        self.labels.len()
    }

    /// Takes the logarithms of the chances of the labels in the next step.
    pub(super) fn update(&mut self, chances: &[f32]) {
        let label = likeliest(chances);
        if label != 0 && label != self.space {
            self.letter_step = Some(self.steps);
        }
        match &mut self.search {
            Search::Beam(beam) => beam.update(chances),
            Search::Greedy(greedy) => greedy.update(label),
        }
        self.steps += 1;
    }

    /// The time that was decoded.
    pub(super) fn heard(&self) -> Duration {
        self.clock.step * self.steps
    }

    /// When the next step begins.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.origin + self.heard()
    }

    /// How long there were no letters.
    pub(super) fn silent_for(&self) -> Duration {
        let steps = self.letter_step.map_or(self.steps, |step| self.steps - step - 1);
        self.clock.step * steps
    }

    /// The words so far.
    pub(super) fn partial(&mut self, words: &mut Vec<HeardWord>) {
        self.list(false, words);
    }

    /// The words of the utterance, which ends here.
    pub(super) fn finish(&mut self, words: &mut Vec<HeardWord>) {
        self.list(true, words);
    }

    fn list(&mut self, ended: bool, words: &mut Vec<HeardWord>) {
        words.clear();
        let clock = self.clock;
        // A word ends where the next one begins, at the latest.
        let mut add = |text: String, first: u32, last: u32| {
            let start = clock.time(first, clock.start_delay_s).max(clock.earliest);
            if let Some(before) = words.last_mut() {
                let before: &mut HeardWord = before;
                before.end = before.end.min(start.max(before.start));
            }
            let end = clock.time(last, clock.end_delay_s).min(clock.end(last));
            words.push(HeardWord { text, start, end: end.max(start) });
        };
        match &mut self.search {
            Search::Beam(beam) => {
                let found = if ended { beam.finish() } else { beam.partial() };
                for word in found {
                    add(beam.text(word.word).to_owned(), word.first_step, word.last_step);
                }
            }
            Search::Greedy(greedy) => {
                for word in greedy.words() {
                    let text = word.labels.iter().map(|&label| self.labels[label].as_str());
                    add(text.collect(), word.first_step, word.last_step);
                }
            }
        }
    }
}
