//! Recognition vocabulary as a trie of letters.

/// Words, spelled in labels of a model.
#[derive(Debug)]
pub(super) struct Lexicon {
    nodes: Vec<TrieNode>,
}

/// The trie node before the first letter.
pub(super) const ROOT: u32 = 0;

/// A prefix of words.
#[derive(Debug)]
pub(super) struct TrieNode {
    /// Last letter of the prefix.
    pub(super) label: usize,
    /// The word that is spelled like the prefix.
    pub(super) word: Option<u32>,
    /// Nodes of the next letters.
    pub(super) children: Vec<u32>,
    /// Greatest log probability of the words with this prefix.
    pub(super) best_log_prob: f32,
}

impl Lexicon {
    /// A lexicon without words.
    pub(super) fn new() -> Self {
        let root =
            TrieNode { label: usize::MAX, word: None, children: Vec::new(), best_log_prob: 0.0 };
        Self { nodes: vec![root] }
    }

    /// Adds `word` with its unigram log probability. If it exists, it keeps the greater one.
    pub(super) fn add(&mut self, word: u32, spelling: &[usize], log_prob: f32) {
        let mut at = ROOT as usize;
        for &label in spelling {
            let children = self.nodes[at].children.iter().map(|&child| child as usize);
            let found = children.into_iter().find(|&child| self.nodes[child].label == label);
            at = found.unwrap_or_else(|| self.add_child(at, label));
            let best = &mut self.nodes[at].best_log_prob;
            *best = best.max(log_prob);
        }
        if at != ROOT as usize {
            self.nodes[at].word.get_or_insert(word);
        }
    }

    fn add_child(&mut self, parent: usize, label: usize) -> usize {
        let new = self.nodes.len();
        let best_log_prob = f32::NEG_INFINITY;
        self.nodes.push(TrieNode { label, word: None, children: Vec::new(), best_log_prob });
        self.nodes[parent].children.push(u32::try_from(new).expect("a lexicon has fewer nodes"));
        new
    }

    /// The node at an index.
    pub(super) fn node(&self, index: u32) -> &TrieNode {
        &self.nodes[index as usize]
    }
}

/// The labels that spell `word`; `None` if one of its letters is not a label.
pub(super) fn spell(word: &str, labels: &[String]) -> Option<Vec<usize>> {
    let label = |letter: char| {
        let mut buffer = [0; 4];
        let text: &str = letter.encode_utf8(&mut buffer);
        labels.iter().position(|label| label == text)
    };
    word.chars().map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_share_prefixes() {
        let mut lexicon = Lexicon::new();
        lexicon.add(7, &[1, 2], -3.0);
        lexicon.add(8, &[1, 2, 2], -1.0);
        lexicon.add(9, &[3], -2.0);
        let root = lexicon.node(ROOT);
        assert_eq!((root.children.len(), root.word), (2, None));
        let first = lexicon.node(root.children[0]);
        assert_eq!((first.label, first.word, first.best_log_prob), (1, None, -1.0));
        let second = lexicon.node(first.children[0]);
        assert_eq!((second.label, second.word, second.best_log_prob), (2, Some(7), -1.0));
        let third = lexicon.node(second.children[0]);
        assert_eq!((third.label, third.word, third.best_log_prob), (2, Some(8), -1.0));
        assert_eq!(lexicon.node(root.children[1]).word, Some(9));
    }

    #[test]
    fn a_word_without_letters_is_ignored() {
        let mut lexicon = Lexicon::new();
        lexicon.add(1, &[], -1.0);
        assert_eq!((lexicon.node(ROOT).word, lexicon.node(ROOT).best_log_prob), (None, 0.0));
    }

    #[test]
    fn words_are_spelled_in_labels() {
        let labels = ["", " ", "a", "b"].map(str::to_owned);
        assert_eq!(spell("ab", &labels), Some(vec![2, 3]));
        assert_eq!(spell("abc", &labels), None);
    }
}
