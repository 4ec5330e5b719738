//! N-gram model model, read from an ARPA file.

use std::{
    collections::HashMap,
    f32::consts::LN_10,
    fs::File,
    io::{BufReader, Read},
    path::Path,
    str::SplitWhitespace,
};

use flate2::bufread::GzDecoder;

/// Longest text that is read, in bytes: a small compressed file may expand to any length.
const MAX_TEXT_BYTES: u64 = 1 << 28;

/// Highest order of n-grams.
const MAX_ORDER: usize = 10;

/// N-gram model with backoff. All log probabilities are natural logarithms.
#[derive(Debug)]
pub(super) struct LanguageModel {
    /// Words by their ids.
    words: Vec<String>,
    ids: HashMap<String, u32>,
    /// N-grams by context and last word.
    ngrams: HashMap<(u32, u32), Ngram>,
    contexts: Vec<Context>,
    sentence_start: u32,
    /// Word id of the sentence end.
    end: Option<u32>,
}

/// The empty context. A context is the sequence of words before a word, as an id.
pub(super) const EMPTY: u32 = 0;

/// Placeholder of an n-gram without a context of its own.
const NO_CONTEXT: u32 = u32::MAX;

/// Log probability of an unknown word.
const UNKNOWN_LOG_PROB: f32 = -9.0;

#[derive(Debug, Clone, Copy)]
struct Ngram {
    log_prob: f32,
    /// Context after the n-gram.
    context: u32,
}

#[derive(Debug, Clone, Copy)]
struct Context {
    /// Backoff weight.
    backoff: f32,
    /// The same context without its oldest word.
    shorter: u32,
}

impl LanguageModel {
    /// Reads an ARPA file of order at most 10, compressed if its name ends in `.gz`.
    ///
    /// # Errors
    /// Reason why it cannot be read, or the invalid line.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let file = BufReader::new(File::open(path).map_err(|error| error.to_string())?);
        let is_compressed = path.extension().is_some_and(|extension| extension == "gz");
        let bytes: &mut dyn Read =
            if is_compressed { &mut GzDecoder::new(file) } else { &mut { file } };
        let mut text = String::new();
        let read = bytes.take(MAX_TEXT_BYTES + 1).read_to_string(&mut text);
        read.map_err(|error| error.to_string())?;
        if text.len() as u64 > MAX_TEXT_BYTES {
            return Err(format!("the text is longer than {} MiB", MAX_TEXT_BYTES >> 20));
        }
        Self::parse(&text)
    }

    /// Parses the text of an ARPA file of order at most 10.
    ///
    /// # Errors
    /// The invalid line and the reason.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut model = Self {
            words: Vec::new(),
            ids: HashMap::new(),
            ngrams: HashMap::new(),
            contexts: vec![Context { backoff: 0.0, shorter: EMPTY }],
            sentence_start: EMPTY,
            end: None,
        };
        let mut order = 0;
        for (index, line) in text.lines().enumerate() {
            let in_line = |reason: String| format!("line {}: {reason}", index + 1);
            let line = line.trim();
            if let Some(section) = line.strip_prefix('\\') {
                order = section_order(section).map_err(in_line)?;
            } else if order > 0 && !line.is_empty() {
                model.add_line(line, order).map_err(in_line)?;
            }
        }
        if model.words.is_empty() {
            return Err("section \\1-grams: is missing or empty".to_owned());
        }
        model.link_contexts();
        let id = |word: &str| model.ids.get(word).copied();
        let start = id("<s>").and_then(|word| model.ngrams.get(&(EMPTY, word)));
        model.sentence_start = start.map_or(EMPTY, |ngram| ngram.context);
        model.end = id("</s>");
        Ok(model)
    }

    /// Adds the n-gram of a line: log probability, words, and an optional backoff weight.
    fn add_line(&mut self, line: &str, order: usize) -> Result<(), String> {
        let mut parts = line.split_whitespace();
        let log_prob = next_log(&mut parts)?.ok_or("the log probability is missing")?;
        let mut words = Vec::with_capacity(order);
        for _ in 0..order {
            let word = parts.next().ok_or_else(|| format!("fewer than {order} words"))?;
            words.push(self.word_id(word, order == 1)?);
        }
        let backoff = next_log(&mut parts)?;
        if parts.next().is_some() {
            return Err(format!("more than {order} words"));
        }
        let (&word, before) = words.split_last().ok_or("there are no words")?;
        let before = self.context_or_new(before)?;
        let mut context = NO_CONTEXT;
        if let Some(backoff) = backoff {
            context = self.new_context(backoff)?;
        }
        self.ngrams.insert((before, word), Ngram { log_prob, context });
        Ok(())
    }

    /// Id of `word`, which is added if `may_add`.
    fn word_id(&mut self, word: &str, may_add: bool) -> Result<u32, String> {
        if let Some(&id) = self.ids.get(word) {
            return Ok(id);
        }
        if !may_add {
            return Err(format!("{word:?} is not in section \\1-grams:"));
        }
        let id = u32::try_from(self.words.len()).map_err(|_| "there are too many words")?;
        self.words.push(word.to_owned());
        self.ids.insert(word.to_owned(), id);
        Ok(id)
    }

    /// Context of exactly `words`, if the model has one.
    fn context(&self, words: &[u32]) -> Option<u32> {
        words.iter().try_fold(EMPTY, |context, &word| {
            let ngram = self.ngrams.get(&(context, word));
            ngram.map(|ngram| ngram.context).filter(|&context| context != NO_CONTEXT)
        })
    }

    /// A new context; [`LanguageModel::link_contexts`] links it to the shorter one.
    fn new_context(&mut self, backoff: f32) -> Result<u32, String> {
        let new = u32::try_from(self.contexts.len()).map_err(|_| "there are too many n-grams")?;
        self.contexts.push(Context { backoff, shorter: EMPTY });
        Ok(new)
    }

    /// Context of `words`. It is created with a backoff weight of zero if the line of its n-gram
    /// has none.
    fn context_or_new(&mut self, words: &[u32]) -> Result<u32, String> {
        if let Some(context) = self.context(words) {
            return Ok(context);
        }
        let missing = "the words before the last are not an n-gram";
        let (&word, before) = words.split_last().ok_or(missing)?;
        let key = (self.context(before).ok_or(missing)?, word);
        if !self.ngrams.contains_key(&key) {
            return Err(missing.to_owned());
        }
        let context = self.new_context(0.0)?;
        self.ngrams.entry(key).and_modify(|ngram| ngram.context = context);
        Ok(context)
    }

    /// Links every context to its longest known suffix, and every n-gram without a context of its
    /// own to the longest context that it ends with.
    fn link_contexts(&mut self) {
        let (mut created_by, mut open) = (vec![None; self.contexts.len()], Vec::new());
        for (&key, ngram) in &self.ngrams {
            match ngram.context {
                NO_CONTEXT => open.push(key),
                context => created_by[context as usize] = Some(key),
            }
        }
        // A context has a greater id than the one it extends, but its suffix may have been created
        // later. Contexts are linked in order of length.
        let mut by_length = Vec::with_capacity(created_by.len());
        let mut lengths = vec![0; created_by.len()];
        for (id, key) in created_by.iter().enumerate() {
            if let Some((before, word)) = *key {
                lengths[id] = lengths[before as usize] + 1;
                by_length.push((lengths[id], id, before, word));
            }
        }
        by_length.sort_unstable();
        for (_, id, before, word) in by_length {
            self.contexts[id].shorter = self.longest_suffix(before, word);
        }
        for (before, word) in open {
            let context = self.longest_suffix(before, word);
            self.ngrams.entry((before, word)).and_modify(|ngram| ngram.context = context);
        }
    }

    /// The longest context that is a proper suffix of `context` followed by `word`.
    fn longest_suffix(&self, context: u32, word: u32) -> u32 {
        let mut at = context;
        while at != EMPTY {
            at = self.contexts[at as usize].shorter;
            match self.ngrams.get(&(at, word)) {
                Some(ngram) if ngram.context != NO_CONTEXT => return ngram.context,
                _ => {}
            }
        }
        EMPTY
    }

    /// Number of words, including markers.
    pub(super) fn word_count(&self) -> usize {
        self.words.len()
    }

    /// Ids and texts of all words, without the markers `<s>`, `</s>`, and `<unk>`.
    pub(super) fn words(&self) -> impl Iterator<Item = (u32, &str)> {
        let words = (0..).zip(self.words.iter().map(String::as_str));
        words.filter(|(_, word)| !word.starts_with('<'))
    }

    /// Context at the start of a sentence.
    pub(super) fn sentence_start(&self) -> u32 {
        self.sentence_start
    }

    /// Log probability of `word` after `context`, and the context after it. An id that is not a
    /// word is an unknown word.
    pub(super) fn score(&self, context: u32, word: u32) -> (f32, u32) {
        let (mut at, mut log_prob) = (context, 0.0);
        loop {
            if let Some(ngram) = self.ngrams.get(&(at, word)) {
                return (log_prob + ngram.log_prob, ngram.context);
            }
            if at == EMPTY {
                return (log_prob + UNKNOWN_LOG_PROB, EMPTY);
            }
            log_prob += self.contexts[at as usize].backoff;
            at = self.contexts[at as usize].shorter;
        }
    }

    /// Log probability that a sentence ends after `context`.
    pub(super) fn end_score(&self, context: u32) -> f32 {
        self.end.map_or(0.0, |end| self.score(context, end).0)
    }
}

/// Order of the n-grams in a section; 0 for sections without n-grams.
fn section_order(section: &str) -> Result<usize, String> {
    if matches!(section, "data\\" | "end\\") {
        return Ok(0);
    }
    let order: Option<usize> = section.strip_suffix("-grams:").and_then(|n| n.parse().ok());
    order.filter(|order| (1..=MAX_ORDER).contains(order)).ok_or_else(|| {
        format!("\\{section} is not \\data\\, \\end\\, or \\1-grams: to \\{MAX_ORDER}-grams:")
    })
}

/// The next part, a decimal logarithm, as a natural logarithm.
fn next_log(parts: &mut SplitWhitespace<'_>) -> Result<Option<f32>, String> {
    let part = parts.next().map(|part| {
        part.parse::<f32>()
            .ok()
            .filter(|value| !value.is_nan())
            .ok_or_else(|| format!("{part:?} is not a number"))
    });
    Ok(part.transpose()?.map(|value| value * LN_10))
}

#[cfg(test)]
pub(super) mod tests {
    use std::{fs, io::Write};

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    pub(in super::super) const SMALL: &str = "\\data\\
ngram 1=6
ngram 2=3
ngram 3=1

\\1-grams:
-99\t<s>\t-0.5
-1\t</s>
-1\ta\t-0.25
-2\tb\t-0.75
-1\tbad
-1\tc

\\2-grams:
-0.5\t<s> a\t-0.1
-0.25\ta b\t-0.2
-0.5\tb </s>

\\3-grams:
-0.125\t<s> a b

\\end\\
";

    /// Checks the decimal log probability of the last word after the others.
    fn check(model: &LanguageModel, words: &[&str], expected: f32) {
        let mut context = if words[0] == "<s>" { model.sentence_start() } else { EMPTY };
        let mut found = 0.0;
        for word in words.iter().filter(|word| **word != "<s>") {
            let word = model.ids.get(*word).copied().unwrap_or(u32::MAX);
            (found, context) = model.score(context, word);
        }
        let expected = expected * LN_10;
        assert!((found - expected).abs() < 1e-5, "{words:?}: {found}, not {expected}");
    }

    #[test]
    fn scores_back_off_to_shorter_contexts() {
        let model = LanguageModel::parse(SMALL).unwrap();
        check(&model, &["a"], -1.0);
        check(&model, &["<s>", "a"], -0.5);
        check(&model, &["a", "b"], -0.25);
        check(&model, &["<s>", "a", "b"], -0.125);
        check(&model, &["<s>", "b"], -2.5);
        check(&model, &["a", "c"], -1.25);
        check(&model, &["<s>", "a", "c"], -0.1 - 0.25 - 1.0);
        check(&model, &["<s>", "a", "b", "</s>"], -0.2 - 0.5);
        check(&model, &["c", "a"], -1.0);
        check(&model, &["a", "unknown"], -0.25 + UNKNOWN_LOG_PROB / LN_10);
        let (_, context) = model.score(model.sentence_start(), 2);
        assert_eq!(model.end_score(context), model.score(context, 1).0);
    }

    #[test]
    fn markers_are_not_words() {
        let model = LanguageModel::parse(SMALL).unwrap();
        assert_eq!(model.words().map(|(_, word)| word).collect::<Vec<_>>(), ["a", "b", "bad", "c"]);
    }

    #[test]
    fn files_may_be_compressed() {
        let folder = std::env::temp_dir().join(format!("afferent-arpa-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        packer.write_all(SMALL.as_bytes()).unwrap();
        let packed = packer.finish().unwrap();
        for (name, bytes) in [("a.arpa", SMALL.as_bytes()), ("a.arpa.gz", &packed)] {
            let model = LanguageModel::read(&write(name, bytes)).unwrap();
            check(&model, &["<s>", "a", "b"], -0.125);
        }
        assert!(LanguageModel::read(&write("b.arpa.gz", &packed[..packed.len() / 2])).is_err());
        assert!(LanguageModel::read(&write("b.arpa.gz", SMALL.as_bytes())).is_err());
        assert!(LanguageModel::read(&folder.join("missing.arpa")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn errors_name_the_line() {
        let check = |text: &str, expected: &str| {
            assert_eq!(LanguageModel::parse(text).unwrap_err(), expected, "{text:?}");
        };
        check("", "section \\1-grams: is missing or empty");
        check("\\1-grams:\n-1", "line 2: fewer than 1 words");
        check("\\1-grams:\nx a", "line 2: \"x\" is not a number");
        check("\\1-grams:\n-1 a -1 b", "line 2: more than 1 words");
        check(
            "\\1-grams:\n-1 a 0\n\\2-grams:\n-1 a b",
            "line 4: \"b\" is not in section \\1-grams:",
        );
        check(
            "\\1-grams:\n-1 a\n\\3-grams:\n-1 a a a",
            "line 4: the words before the last are not an n-gram",
        );
        for section in ["\\2-gram:", "\\0-grams:", "\\11-grams:", "\\18446744073709551615-grams:"] {
            let reason = "is not \\data\\, \\end\\, or \\1-grams: to \\10-grams:";
            check(
                &format!("\\1-grams:\n-1 a\n{section}\n-1 a a"),
                &format!("line 3: {section} {reason}"),
            );
        }
    }

    #[test]
    fn a_context_without_a_backoff_weight_backs_off_at_no_cost() {
        let text = "\\1-grams:\n-1 a\n-2 b\n\\2-grams:\n-0.5 a b\n\\3-grams:\n-0.25 a b a\n";
        let model = LanguageModel::parse(text).unwrap();
        check(&model, &["a", "b"], -0.5);
        check(&model, &["a", "b", "a"], -0.25);
        check(&model, &["a", "b", "b"], -2.0);
        check(&model, &["a", "a"], -1.0);
    }

    #[test]
    fn scores_back_off_to_contexts_that_are_created_later() {
        let text = "\\1-grams:\n-1 a -0.3\n-1 b\n-2 c\n\\2-grams:\n-0.5 a b -0.2\n-0.4 b c\n";
        let model = LanguageModel::parse(text).unwrap();
        check(&model, &["a", "b", "c"], -0.2 - 0.4);
        check(&model, &["a", "b", "b"], -0.2 - 1.0);
    }
}
