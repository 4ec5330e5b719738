//! CTC prefix beam search with a lexicon and a language model.

use std::collections::HashMap;

use super::{
    language_model::LanguageModel,
    lexicon::{Lexicon, ROOT},
    vocabulary::Vocabulary,
    word_sequences::{TimedWord, WordSequences},
};

/// Parameters of the search.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchParams {
    /// Most hypotheses after a step.
    pub(super) beam_width: usize,
    /// Weight of the language model relative to the acoustic model.
    pub(super) language_weight: f32,
    /// Log probability added per word.
    pub(super) word_bonus: f32,
}

/// Hypotheses whose log probability is lower than the best by more than this are dropped.
const BEAM_LOG_PROB: f32 = 14.0;

/// Labels below this log probability are not tried.
const MIN_LABEL_LOG_PROB: f32 = -11.0;

/// Penalty for an utterance that ends within a word, in log probability.
const PARTIAL_WORD_PENALTY: f32 = 10.0;

/// The search over one utterance. Label 0 is the CTC blank.
pub(super) struct BeamSearch {
    vocabulary: Vocabulary,
    params: SearchParams,
    /// Label of the space between words.
    space: usize,
    sequences: WordSequences,
    /// Hypotheses, the best first.
    hypotheses: Vec<Hypothesis>,
    next: Vec<Hypothesis>,
    /// Index in `next` of each prefix: word sequence and lexicon node.
    next_index: HashMap<(u32, u32), usize>,
    step: u32,
}

/// A prefix: complete words and the first letters of another.
#[derive(Debug, Clone, Copy)]
struct Hypothesis {
    /// Sequence of the complete words.
    sequence: u32,
    /// Language model context of the complete words.
    context: u32,
    /// Lexicon node of the first letters.
    node: u32,
    /// Log probability of the alignments that end with a blank.
    blank: f32,
    /// Log probability of the alignments that end with the last letter.
    letter: f32,
    /// Log probability of the language model, with bonuses and lookahead.
    language: f32,
    /// Log probability of the best alignment, which determines the times.
    best_path: f32,
    /// Steps of the first and last letter of the word at `node`; at the root, of the word before.
    first_step: u32,
    last_step: u32,
}

impl Hypothesis {
    fn acoustic(&self) -> f32 {
        log_add(self.blank, self.letter)
    }

    fn total(&self) -> f32 {
        self.acoustic() + self.language
    }
}

impl BeamSearch {
    pub(super) fn new(vocabulary: Vocabulary, space: usize, params: SearchParams) -> Self {
        let mut search = Self {
            vocabulary,
            params,
            space,
            sequences: WordSequences::default(),
            hypotheses: Vec::new(),
            next: Vec::new(),
            next_index: HashMap::new(),
            step: 0,
        };
        search.restart();
        search
    }

    /// Begins a new utterance.
    pub(super) fn restart(&mut self) {
        self.sequences.clear();
        self.hypotheses.clear();
        self.hypotheses.push(Hypothesis {
            sequence: WordSequences::EMPTY,
            context: self.language_model().sentence_start(),
            node: ROOT,
            blank: 0.0,
            letter: f32::NEG_INFINITY,
            language: 0.0,
            best_path: 0.0,
            first_step: 0,
            last_step: 0,
        });
        self.step = 0;
    }

    fn language_model(&self) -> &LanguageModel {
        &self.vocabulary.language_model
    }

    fn lexicon(&self) -> &Lexicon {
        &self.vocabulary.lexicon
    }

    /// Adds the log probabilities of all labels in the next step.
    pub(super) fn update(&mut self, log_probs: &[f32]) {
        self.next.clear();
        self.next_index.clear();
        let hypotheses = std::mem::take(&mut self.hypotheses);
        for hypothesis in &hypotheses {
            self.extend(hypothesis, log_probs);
        }
        self.hypotheses = hypotheses;
        std::mem::swap(&mut self.hypotheses, &mut self.next);
        self.step += 1;
        self.prune();
    }

    fn prune(&mut self) {
        let by_total = |a: &Hypothesis, b: &Hypothesis| b.total().total_cmp(&a.total());
        let width = self.params.beam_width;
        if self.hypotheses.len() > width {
            self.hypotheses.select_nth_unstable_by(width, by_total);
            self.hypotheses.truncate(width);
        }
        self.hypotheses.sort_unstable_by(by_total);
        let best = self.hypotheses.first().map_or(0.0, Hypothesis::total);
        self.hypotheses.retain(|hypothesis| hypothesis.total() >= best - BEAM_LOG_PROB);
        // Normalization keeps log probabilities near zero in long utterances.
        for hypothesis in &mut self.hypotheses {
            hypothesis.blank -= best;
            hypothesis.letter -= best;
            hypothesis.best_path -= best;
        }
    }

    /// Adds all extensions of a hypothesis by one step.
    fn extend(&mut self, from: &Hypothesis, log_probs: &[f32]) {
        let (acoustic, step) = (from.acoustic(), self.step);
        let blank = acoustic + log_probs[0];
        let stay = Hypothesis { blank, letter: f32::NEG_INFINITY, ..*from };
        self.add(stay, from.best_path + log_probs[0]);

        let at_root = from.node == ROOT;
        let label = if at_root { self.space } else { self.lexicon().node(from.node).label };
        let repeated = log_probs[label];
        // Repeated spaces between words are one.
        let held = if at_root { acoustic } else { from.letter };
        let hold = Hypothesis { blank: f32::NEG_INFINITY, letter: held + repeated, ..*from };
        self.add(hold, from.best_path + repeated);

        if at_root {
            self.sequences.set_steps(from.sequence, (from.first_step, from.last_step));
        }
        let here = self.lexicon().node(from.node);
        let (word, best, count) = (here.word, here.best_log_prob, here.children.len());
        for index in 0..count {
            let node = self.lexicon().node(from.node).children[index];
            let child = self.lexicon().node(node);
            let log_prob = log_probs[child.label];
            if log_prob < MIN_LABEL_LOG_PROB {
                continue;
            }
            let before = if child.label == label && !at_root { from.blank } else { acoustic };
            let lookahead = self.params.language_weight * (child.best_log_prob - best);
            let extended = Hypothesis {
                node,
                blank: f32::NEG_INFINITY,
                letter: before + log_prob,
                language: from.language + lookahead,
                first_step: if at_root { step } else { from.first_step },
                last_step: step,
                ..*from
            };
            self.add(extended, from.best_path + log_prob);
        }
        if let Some(word) = word
            && log_probs[self.space] >= MIN_LABEL_LOG_PROB
        {
            let log_prob = log_probs[self.space];
            let letter = acoustic + log_prob;
            let blank = f32::NEG_INFINITY;
            let complete = Hypothesis { blank, letter, ..self.complete_word(from, word) };
            self.add(complete, from.best_path + log_prob);
        }
    }

    /// The hypothesis with its last word completed.
    fn complete_word(&mut self, from: &Hypothesis, word: u32) -> Hypothesis {
        let (log_prob, context) = self.language_model().score(from.context, word);
        let lookahead = self.lexicon().node(from.node).best_log_prob;
        let sequence = self.sequences.append(from.sequence, word);
        let bonus = self.params.word_bonus + self.vocabulary.hot_bonus(&self.sequences, sequence);
        let language = from.language + self.params.language_weight * (log_prob - lookahead) + bonus;
        Hypothesis { sequence, context, node: ROOT, language, ..*from }
    }

    /// Adds a hypothesis whose best alignment has the log probability `best_path`, or merges it
    /// with that of the same prefix.
    fn add(&mut self, new: Hypothesis, best_path: f32) {
        let new = Hypothesis { best_path, ..new };
        let index = *self.next_index.entry((new.sequence, new.node)).or_insert(self.next.len());
        let Some(known) = self.next.get_mut(index) else {
            self.next.push(new);
            return;
        };
        known.blank = log_add(known.blank, new.blank);
        known.letter = log_add(known.letter, new.letter);
        if new.best_path > known.best_path {
            (known.best_path, known.first_step, known.last_step) =
                (new.best_path, new.first_step, new.last_step);
        }
    }

    /// Words of the best hypothesis so far; they may change with later steps.
    pub(super) fn partial(&mut self) -> Vec<TimedWord> {
        let Some(&best) = self.hypotheses.first() else { return Vec::new() };
        if best.node == ROOT {
            self.sequences.set_steps(best.sequence, (best.first_step, best.last_step));
        }
        let mut found = self.sequences.words(best.sequence);
        let (first_step, last_step) = (best.first_step, best.last_step);
        let word = self.lexicon().node(best.node).word;
        found.extend(word.map(|word| TimedWord { word, first_step, last_step }));
        found
    }

    /// Words of the best hypothesis for the utterance that ends here.
    pub(super) fn finish(&mut self) -> Vec<TimedWord> {
        let mut best = (f32::NEG_INFINITY, WordSequences::EMPTY, (0, 0));
        let hypotheses = std::mem::take(&mut self.hypotheses);
        for from in &hypotheses {
            let ended = match self.lexicon().node(from.node).word {
                Some(word) => self.complete_word(from, word),
                None => *from,
            };
            let end = self.params.language_weight * self.language_model().end_score(ended.context);
            let total = ended.acoustic() + ended.language + end;
            // The first letters of an incomplete word are dropped.
            let penalty = if ended.node == ROOT { 0.0 } else { -PARTIAL_WORD_PENALTY };
            if total + penalty > best.0 {
                best = (total + penalty, ended.sequence, (ended.first_step, ended.last_step));
                if ended.node != ROOT {
                    best.2 = self.sequences.last_steps(ended.sequence);
                }
            }
        }
        self.hypotheses = hypotheses;
        let (_, sequence, steps) = best;
        self.sequences.set_steps(sequence, steps);
        self.sequences.words(sequence)
    }

    /// Text of a word.
    pub(super) fn text(&self, word: u32) -> &str {
        self.vocabulary.text(word)
    }
}

/// Logarithm of the sum of two probabilities, given as logarithms.
fn log_add(a: f32, b: f32) -> f32 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if low == f32::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asr::ctc::language_model::tests::SMALL;

    /// Label of a letter of "_ abcd"; `_` is the blank.
    fn label(letter: char) -> usize {
        "_ abcd".find(letter).unwrap()
    }

    fn search(hot: Option<&str>) -> BeamSearch {
        let labels = ["", " ", "a", "b", "c", "d"].map(str::to_owned);
        let mut vocabulary = Vocabulary::new(LanguageModel::parse(SMALL).unwrap(), &labels);
        if let Some(phrase) = hot {
            vocabulary.add_hot_phrase(phrase, &labels, 3.0).unwrap();
        }
        let params = SearchParams { beam_width: 16, language_weight: 0.5, word_bonus: 0.0 };
        BeamSearch::new(vocabulary, 1, params)
    }

    /// Adds steps with one probable label each, or with several equally probable ones.
    fn update(search: &mut BeamSearch, steps: &[&str]) {
        for step in steps {
            let mut probs = [0.01_f32; 6];
            let share = (1.0 - 0.01 * (6 - step.len()) as f32) / step.len() as f32;
            step.chars().for_each(|letter| probs[label(letter)] = share);
            search.update(&probs.map(f32::ln));
        }
    }

    fn texts(search: &BeamSearch, words: &[TimedWord]) -> String {
        words.iter().map(|word| search.text(word.word)).collect::<Vec<_>>().join(" ")
    }

    /// Checks the words at the end of the steps.
    fn check(hot: Option<&str>, steps: &[&str], expected: &str) {
        let mut search = search(hot);
        update(&mut search, steps);
        let words = search.finish();
        assert_eq!(texts(&search, &words), expected, "{steps:?} with {hot:?}");
    }

    #[test]
    fn clear_letters_make_words() {
        check(None, &[], "");
        check(None, &["_", "_"], "");
        check(None, &["a", "a", " ", "_", "b"], "a b");
        check(None, &["_", "b", "_", "a", "d", " ", "c"], "bad c");
        check(None, &[" ", "_", " ", "a", " ", " "], "a");
    }

    #[test]
    fn only_words_of_the_lexicon_are_found() {
        check(None, &["b", "a", "c"], "bad");
    }

    #[test]
    fn the_language_model_decides_between_similar_sounds() {
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
    fn a_hot_word_that_cannot_be_spelled_is_rejected() {
        let labels = ["", " ", "a"].map(str::to_owned);
        let mut vocabulary = Vocabulary::new(LanguageModel::parse(SMALL).unwrap(), &labels);
        let result = vocabulary.add_hot_phrase("a x", &labels, 1.0);
        assert_eq!(result, Err("the model cannot spell \"x\"".to_owned()));
    }

    #[test]
    fn words_have_the_steps_of_their_letters() {
        let mut search = search(None);
        update(&mut search, &["_", "_", "b", "_", "a", "a", "d", "_", " ", "_", "c", "_"]);
        let times = |words: &[TimedWord]| {
            words.iter().map(|word| (word.first_step, word.last_step)).collect::<Vec<_>>()
        };
        assert_eq!(times(&search.partial()), [(2, 6), (10, 10)]);
        assert_eq!(times(&search.finish()), [(2, 6), (10, 10)]);
    }

    #[test]
    fn results_grow_until_a_restart() {
        let mut search = search(None);
        update(&mut search, &["a", " "]);
        let words = search.partial();
        assert_eq!(texts(&search, &words), "a");
        update(&mut search, &["b"]);
        let words = search.partial();
        assert_eq!(texts(&search, &words), "a b");
        search.restart();
        assert_eq!(search.partial(), []);
        update(&mut search, &["c"]);
        let words = search.finish();
        assert_eq!(texts(&search, &words), "c");
    }

    #[test]
    fn log_probabilities_stay_finite_in_long_utterances() {
        let mut search = search(None);
        for _ in 0..400 {
            update(&mut search, &["_", "a", " ", "b", "_", " ", "_"]);
        }
        assert_eq!(search.finish().len(), 800);
    }
}
