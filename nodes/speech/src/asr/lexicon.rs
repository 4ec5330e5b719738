//! The words that may be heard, as a tree of their letters.

/// Words spelled in labels of a model.
#[derive(Debug)]
pub(super) struct Lexicon {
    places: Vec<Place>,
}

/// The place before the first letter.
pub(super) const ROOT: u32 = 0;

/// Where one is within a word.
#[derive(Debug)]
pub(super) struct Place {
    /// The letter that leads here.
    pub(super) label: usize,
    /// The word that ends here.
    pub(super) word: Option<u32>,
    /// The places behind the next letters.
    pub(super) next: Vec<u32>,
    /// The highest chance of a word that goes through here.
    pub(super) best: f32,
}

impl Lexicon {
    /// A lexicon without words.
    pub(super) fn new() -> Self {
        let root = Place { label: usize::MAX, word: None, next: Vec::new(), best: 0.0 };
        Self { places: vec![root] }
    }

    /// Adds the word with the number `word` and a chance by itself. One that is there already keeps
    /// the higher chance.
    pub(super) fn add(&mut self, word: u32, spelling: &[usize], chance: f32) {
        let mut at = ROOT as usize;
        for &label in spelling {
            let there = self.places[at].next.iter().map(|&next| next as usize);
            let found = there.into_iter().find(|&next| self.places[next].label == label);
            at = found.unwrap_or_else(|| self.grow(at, label));
            let best = &mut self.places[at].best;
            *best = best.max(chance);
        }
        if at != ROOT as usize {
            self.places[at].word.get_or_insert(word);
        }
    }

    fn grow(&mut self, from: usize, label: usize) -> usize {
        let new = self.places.len();
        let best = f32::NEG_INFINITY;
        self.places.push(Place { label, word: None, next: Vec::new(), best });
        self.places[from].next.push(u32::try_from(new).expect("a lexicon has fewer places"));
        new
    }

    /// What is at a place.
    pub(super) fn at(&self, place: u32) -> &Place {
        &self.places[place as usize]
    }
}

/// The labels that spell `word`; `None` when one of its letters is no label.
pub(super) fn spelled(word: &str, labels: &[String]) -> Option<Vec<usize>> {
    let letter = |letter: char| {
        let mut own = [0; 4];
        let own: &str = letter.encode_utf8(&mut own);
        labels.iter().position(|label| label == own)
    };
    word.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_share_their_beginnings() {
        let mut lexicon = Lexicon::new();
        lexicon.add(7, &[1, 2], -3.0);
        lexicon.add(8, &[1, 2, 2], -1.0);
        lexicon.add(9, &[3], -2.0);
        let root = lexicon.at(ROOT);
        assert_eq!((root.next.len(), root.word), (2, None));
        let first = lexicon.at(root.next[0]);
        assert_eq!((first.label, first.word, first.best), (1, None, -1.0));
        let second = lexicon.at(first.next[0]);
        assert_eq!((second.label, second.word, second.best), (2, Some(7), -1.0));
        let third = lexicon.at(second.next[0]);
        assert_eq!((third.label, third.word, third.best), (2, Some(8), -1.0));
        assert_eq!(lexicon.at(root.next[1]).word, Some(9));
    }

    #[test]
    fn a_word_without_letters_is_none() {
        let mut lexicon = Lexicon::new();
        lexicon.add(1, &[], -1.0);
        assert_eq!((lexicon.at(ROOT).word, lexicon.at(ROOT).best), (None, 0.0));
    }

    #[test]
    fn words_are_spelled_in_labels() {
        let labels = ["", " ", "a", "b"].map(str::to_owned);
        assert_eq!(spelled("ab", &labels), Some(vec![2, 3]));
        assert_eq!(spelled("abc", &labels), None);
    }
}
