//! Prefix beam search: the likeliest words for the chances of letters that a model gives, step by
//! step.

use std::collections::HashMap;

use super::{
    language::Language,
    lexicon::{Lexicon, ROOT},
    vocabulary::Vocabulary,
    words::{SpokenWord, Words},
};

/// How the search weighs and prunes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    /// Hypotheses that are kept after a step.
    pub(super) beam: usize,
    /// Weight of the language model against the sound.
    pub(super) language: f32,
    /// What every word adds.
    pub(super) word: f32,
}

/// Hypotheses this much less likely than the best one are dropped.
const RANGE: f32 = 14.0;

/// Letters less likely than this are not tried.
const LEAST: f32 = -11.0;

/// The search over one utterance. Label 0 is the blank.
pub(super) struct Beam {
    vocabulary: Vocabulary,
    weights: Weights,
    /// The label between words.
    space: usize,
    words: Words,
    /// The likeliest first.
    hypotheses: Vec<Hypothesis>,
    next: Vec<Hypothesis>,
    /// Where each prefix stands in `next`.
    places: HashMap<(u32, u32), usize>,
    step: u32,
}

/// A prefix: whole words and the beginning of one.
#[derive(Debug, Clone, Copy)]
struct Hypothesis {
    /// The whole words.
    words: u32,
    /// What the language model knows of them.
    context: u32,
    /// Place in the lexicon.
    place: u32,
    /// Chance that the sound gives this prefix and a blank behind it.
    blank: f32,
    /// The same with its last letter at the end.
    letter: f32,
    /// What language and bonuses add.
    language: f32,
    /// Chance of the likeliest way here, which gives the times.
    way: f32,
    /// Steps of the first and the last letter of the word at `place`; at the root, of the one before.
    start: u32,
    last: u32,
}

impl Hypothesis {
    fn sound(&self) -> f32 {
        log_add(self.blank, self.letter)
    }

    fn total(&self) -> f32 {
        self.sound() + self.language
    }
}

impl Beam {
    pub(super) fn new(vocabulary: Vocabulary, space: usize, weights: Weights) -> Self {
        let mut beam = Self {
            vocabulary,
            weights,
            space,
            words: Words::default(),
            hypotheses: Vec::new(),
            next: Vec::new(),
            places: HashMap::new(),
            step: 0,
        };
        beam.restart();
        beam
    }

    /// Begins a new utterance.
    pub(super) fn restart(&mut self) {
        self.words.clear();
        self.hypotheses.clear();
        self.hypotheses.push(Hypothesis {
            words: Words::NONE,
            context: self.language().begin(),
            place: ROOT,
            blank: 0.0,
            letter: f32::NEG_INFINITY,
            language: 0.0,
            way: 0.0,
            start: 0,
            last: 0,
        });
        self.step = 0;
    }

    fn language(&self) -> &Language {
        &self.vocabulary.language
    }

    fn lexicon(&self) -> &Lexicon {
        &self.vocabulary.lexicon
    }

    /// Takes the logarithms of the chances of all labels in the next step.
    pub(super) fn update(&mut self, chances: &[f32]) {
        self.next.clear();
        self.places.clear();
        let hypotheses = std::mem::take(&mut self.hypotheses);
        for hypothesis in &hypotheses {
            self.extend(hypothesis, chances);
        }
        self.hypotheses = hypotheses;
        std::mem::swap(&mut self.hypotheses, &mut self.next);
        self.step += 1;
        self.prune();
    }

    fn prune(&mut self) {
        let by_total = |a: &Hypothesis, b: &Hypothesis| b.total().total_cmp(&a.total());
        if self.hypotheses.len() > self.weights.beam {
            self.hypotheses.select_nth_unstable_by(self.weights.beam, by_total);
            self.hypotheses.truncate(self.weights.beam);
        }
        self.hypotheses.sort_unstable_by(by_total);
        let best = self.hypotheses.first().map_or(0.0, Hypothesis::total);
        self.hypotheses.retain(|hypothesis| hypothesis.total() >= best - RANGE);
        // Chances stay near zero however long an utterance is.
        for hypothesis in &mut self.hypotheses {
            hypothesis.blank -= best;
            hypothesis.letter -= best;
            hypothesis.way -= best;
        }
    }

    /// Adds everything that one more step can make of a hypothesis.
    fn extend(&mut self, from: &Hypothesis, chances: &[f32]) {
        let (all, step) = (from.sound(), self.step);
        let stay = Hypothesis { blank: all + chances[0], letter: f32::NEG_INFINITY, ..*from };
        self.add(stay, from.way + chances[0]);

        let at_root = from.place == ROOT;
        let label = if at_root { self.space } else { self.lexicon().at(from.place).label };
        let repeated = chances[label];
        // Spaces before a word are none, however many.
        let held = if at_root { all } else { from.letter };
        let hold = Hypothesis { blank: f32::NEG_INFINITY, letter: held + repeated, ..*from };
        self.add(hold, from.way + repeated);

        if at_root {
            self.words.time(from.words, (from.start, from.last));
        }
        let here = self.lexicon().at(from.place);
        let (word, best, count) = (here.word, here.best, here.next.len());
        for index in 0..count {
            let place = self.lexicon().at(from.place).next[index];
            let next = self.lexicon().at(place);
            let chance = chances[next.label];
            if chance < LEAST {
                continue;
            }
            let before = if next.label == label && !at_root { from.blank } else { all };
            let ahead = self.weights.language * (next.best - best);
            let grown = Hypothesis {
                place,
                blank: f32::NEG_INFINITY,
                letter: before + chance,
                language: from.language + ahead,
                start: if at_root { step } else { from.start },
                last: step,
                ..*from
            };
            self.add(grown, from.way + chance);
        }
        if let Some(word) = word
            && chances[self.space] >= LEAST
        {
            let chance = chances[self.space];
            let letter = all + chance;
            let whole = Hypothesis { blank: f32::NEG_INFINITY, letter, ..self.whole(from, word) };
            self.add(whole, from.way + chance);
        }
    }

    /// A hypothesis whose last word is whole.
    fn whole(&mut self, from: &Hypothesis, word: u32) -> Hypothesis {
        let (chance, context) = self.language().next(from.context, word);
        let ahead = self.lexicon().at(from.place).best;
        let words = self.words.add(from.words, word);
        let bonus = self.weights.word + self.vocabulary.bonus(&self.words, words);
        let language = from.language + self.weights.language * (chance - ahead) + bonus;
        Hypothesis { words, context, place: ROOT, language, ..*from }
    }

    /// Adds a hypothesis whose likeliest way has the chance `way`, together with those of the same
    /// prefix.
    fn add(&mut self, new: Hypothesis, way: f32) {
        let new = Hypothesis { way, ..new };
        let place = *self.places.entry((new.words, new.place)).or_insert(self.next.len());
        let Some(there) = self.next.get_mut(place) else {
            self.next.push(new);
            return;
        };
        there.blank = log_add(there.blank, new.blank);
        there.letter = log_add(there.letter, new.letter);
        if new.way > there.way {
            (there.way, there.start, there.last) = (new.way, new.start, new.last);
        }
    }

    /// The likeliest words so far; the last one may become another.
    pub(super) fn partial(&mut self) -> Vec<SpokenWord> {
        let Some(&best) = self.hypotheses.first() else { return Vec::new() };
        if best.place == ROOT {
            self.words.time(best.words, (best.start, best.last));
        }
        let mut found = self.words.list(best.words);
        let (word, first_step, last_step) =
            (self.lexicon().at(best.place).word, best.start, best.last);
        found.extend(word.map(|word| SpokenWord { word, first_step, last_step }));
        found
    }

    /// The likeliest words of the utterance that ends here.
    pub(super) fn finish(&mut self) -> Vec<SpokenWord> {
        let mut best = (f32::NEG_INFINITY, Words::NONE, (0, 0));
        let hypotheses = std::mem::take(&mut self.hypotheses);
        for from in &hypotheses {
            let ended = match self.lexicon().at(from.place).word {
                Some(word) => self.whole(from, word),
                None => *from,
            };
            let end = self.weights.language * self.language().end(ended.context);
            let total = ended.sound() + ended.language + end;
            // The beginning of a word that does not end is no word.
            let cut = if ended.place == ROOT { 0.0 } else { -CUT };
            if total + cut > best.0 {
                best = (total + cut, ended.words, (ended.start, ended.last));
                if ended.place != ROOT {
                    best.2 = self.words.times(ended.words);
                }
            }
        }
        self.hypotheses = hypotheses;
        let (_, words, times) = best;
        self.words.time(words, times);
        self.words.list(words)
    }

    /// The text of a word.
    pub(super) fn text(&self, word: u32) -> &str {
        self.vocabulary.text(word)
    }
}

/// What it costs when an utterance ends within a word.
const CUT: f32 = 10.0;

/// The logarithm of the sum of two chances.
fn log_add(a: f32, b: f32) -> f32 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if low == f32::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asr::language::tests::SMALL;

    /// The label of each letter of "_ abcd".
    fn label(letter: char) -> usize {
        "_ abcd".find(letter).unwrap()
    }

    fn beam(hot: Option<&str>) -> Beam {
        let labels = ["", " ", "a", "b", "c", "d"].map(str::to_owned);
        let mut vocabulary = Vocabulary::new(Language::parse(SMALL).unwrap(), &labels);
        if let Some(phrase) = hot {
            vocabulary.expect(phrase, &labels, 3.0).unwrap();
        }
        Beam::new(vocabulary, 1, Weights { beam: 16, language: 0.5, word: 0.0 })
    }

    /// Hears steps, each a label that is likely, or several that are alike likely.
    fn hear(beam: &mut Beam, steps: &[&str]) {
        for step in steps {
            let mut chances = [0.01_f32; 6];
            let share = (1.0 - 0.01 * (6 - step.len()) as f32) / step.len() as f32;
            step.chars().for_each(|letter| chances[label(letter)] = share);
            beam.update(&chances.map(f32::ln));
        }
    }

    fn texts(beam: &Beam, words: &[SpokenWord]) -> String {
        words.iter().map(|word| beam.text(word.word)).collect::<Vec<_>>().join(" ")
    }

    /// What is heard at the end of steps.
    fn check(hot: Option<&str>, steps: &[&str], expected: &str) {
        let mut beam = beam(hot);
        hear(&mut beam, steps);
        let words = beam.finish();
        assert_eq!(texts(&beam, &words), expected, "{steps:?} with {hot:?}");
    }

    #[test]
    fn clear_letters_are_words() {
        check(None, &[], "");
        check(None, &["_", "_"], "");
        check(None, &["a", "a", " ", "_", "b"], "a b");
        check(None, &["_", "b", "_", "a", "d", " ", "c"], "bad c");
        check(None, &[" ", "_", " ", "a", " ", " "], "a");
    }

    #[test]
    fn words_outside_the_lexicon_become_words_of_it() {
        check(None, &["b", "a", "c"], "bad");
    }

    #[test]
    fn the_language_model_decides_between_like_sounds() {
        check(None, &["a", " ", "bc"], "a b");
        check(None, &["bc"], "c");
    }

    #[test]
    fn hot_words_are_preferred_and_may_be_new() {
        check(Some("b"), &["bc"], "b");
        check(Some("dad"), &["d", "a", "d"], "dad");
        check(Some("c dad"), &["c", " ", "bd", "a", "d"], "c dad");
        check(None, &["c", " ", "bd", "a", "d"], "c bad");
    }

    #[test]
    fn an_unspeakable_hot_word_is_refused() {
        let labels = ["", " ", "a"].map(str::to_owned);
        let mut vocabulary = Vocabulary::new(Language::parse(SMALL).unwrap(), &labels);
        let refused = vocabulary.expect("a x", &labels, 1.0);
        assert_eq!(refused, Err("the model cannot spell \"x\"".to_owned()));
    }

    #[test]
    fn words_have_the_steps_of_their_letters() {
        let mut beam = beam(None);
        hear(&mut beam, &["_", "_", "b", "_", "a", "a", "d", "_", " ", "_", "c", "_"]);
        let times = |words: &[SpokenWord]| {
            words.iter().map(|word| (word.first_step, word.last_step)).collect::<Vec<_>>()
        };
        assert_eq!(times(&beam.partial()), [(2, 6), (10, 10)]);
        assert_eq!(times(&beam.finish()), [(2, 6), (10, 10)]);
    }

    #[test]
    fn results_grow_and_begin_anew() {
        let mut beam = beam(None);
        hear(&mut beam, &["a", " "]);
        let words = beam.partial();
        assert_eq!(texts(&beam, &words), "a");
        hear(&mut beam, &["b"]);
        let words = beam.partial();
        assert_eq!(texts(&beam, &words), "a b");
        beam.restart();
        assert_eq!(beam.partial(), []);
        hear(&mut beam, &["c"]);
        let words = beam.finish();
        assert_eq!(texts(&beam, &words), "c");
    }

    #[test]
    fn long_utterances_stay_within_numbers() {
        let mut beam = beam(None);
        for _ in 0..400 {
            hear(&mut beam, &["_", "a", " ", "b", "_", " ", "_"]);
        }
        assert_eq!(beam.finish().len(), 800);
    }
}
