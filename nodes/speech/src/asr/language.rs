//! Chances of words behind words, from an ARPA file.

use std::{
    collections::HashMap,
    f32::consts::LN_10,
    fs::File,
    io::{BufReader, Read},
    path::Path,
    str::SplitWhitespace,
};

use flate2::bufread::GzDecoder;

/// Longest text that is read, in bytes: a small file can unfold to any length.
const MAX_TEXT: u64 = 1 << 28;

/// Longest run of words whose chances are read.
const MAX_ORDER: usize = 10;

/// An n-gram model with backoff. All chances are natural logarithms.
#[derive(Debug)]
pub(super) struct Language {
    /// By their numbers.
    words: Vec<String>,
    numbers: HashMap<String, u32>,
    /// A word behind a context.
    grams: HashMap<(u32, u32), Gram>,
    contexts: Vec<Context>,
    begin: u32,
    end: Option<u32>,
}

/// The words before a word, as a number; [`EMPTY`] knows nothing of them.
pub(super) const EMPTY: u32 = 0;

/// A context that a gram does not have of its own.
const NONE: u32 = u32::MAX;

/// Chance of a word that the model does not know.
const UNKNOWN: f32 = -9.0;

#[derive(Debug, Clone, Copy)]
struct Gram {
    chance: f32,
    /// The context behind the word.
    next: u32,
}

#[derive(Debug, Clone, Copy)]
struct Context {
    /// What falling back to the shorter one costs.
    weight: f32,
    /// The same context without its oldest word.
    shorter: u32,
}

impl Language {
    /// Reads an ARPA file of orders up to ten, compressed where its name ends in `.gz`.
    ///
    /// # Errors
    /// Why it cannot be read, or the line that is not as it should be.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let file = BufReader::new(File::open(path).map_err(|error| error.to_string())?);
        let is_compressed = path.extension().is_some_and(|extension| extension == "gz");
        let bytes: &mut dyn Read =
            if is_compressed { &mut GzDecoder::new(file) } else { &mut { file } };
        let mut text = String::new();
        let read = bytes.take(MAX_TEXT + 1).read_to_string(&mut text);
        read.map_err(|error| error.to_string())?;
        if text.len() as u64 > MAX_TEXT {
            return Err(format!("its text is longer than {} MiB", MAX_TEXT >> 20));
        }
        Self::parse(&text)
    }

    /// Reads the text of an ARPA file of orders up to ten.
    ///
    /// # Errors
    /// The line that is not as it should be, and why.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut language = Self {
            words: Vec::new(),
            numbers: HashMap::new(),
            grams: HashMap::new(),
            contexts: vec![Context { weight: 0.0, shorter: EMPTY }],
            begin: EMPTY,
            end: None,
        };
        let mut order = 0;
        for (at, line) in text.lines().enumerate() {
            let wrong = |reason: String| format!("line {}: {reason}", at + 1);
            let line = line.trim();
            if let Some(section) = line.strip_prefix('\\') {
                order = order_of(section).map_err(wrong)?;
            } else if order > 0 && !line.is_empty() {
                language.add(line, order).map_err(wrong)?;
            }
        }
        if language.words.is_empty() {
            return Err("it has no \\1-grams:".to_owned());
        }
        language.link();
        let number = |word: &str| language.numbers.get(word).copied();
        let begin = number("<s>").and_then(|word| language.grams.get(&(EMPTY, word)));
        language.begin = begin.map_or(EMPTY, |gram| gram.next);
        language.end = number("</s>");
        Ok(language)
    }

    /// Adds the gram of one line: chance, words, and perhaps the weight of falling back.
    fn add(&mut self, line: &str, order: usize) -> Result<(), String> {
        let mut parts = line.split_whitespace();
        let chance = number(&mut parts)?.ok_or("a chance is missing")?;
        let mut gram = Vec::with_capacity(order);
        for _ in 0..order {
            let word = parts.next().ok_or_else(|| format!("it has fewer than {order} words"))?;
            gram.push(self.number(word, order == 1)?);
        }
        let weight = number(&mut parts)?;
        if parts.next().is_some() {
            return Err(format!("it has more than {order} words"));
        }
        let (&word, before) = gram.split_last().ok_or("it has no words")?;
        let context = self.grown(before)?;
        let mut next = NONE;
        if let Some(weight) = weight {
            next = self.new_context(weight)?;
        }
        self.grams.insert((context, word), Gram { chance, next });
        Ok(())
    }

    /// The number of `word`, new if it may be.
    fn number(&mut self, word: &str, new: bool) -> Result<u32, String> {
        if let Some(&number) = self.numbers.get(word) {
            return Ok(number);
        }
        if !new {
            return Err(format!("{word:?} is not among the \\1-grams:"));
        }
        let number = u32::try_from(self.words.len()).map_err(|_| "there are too many words")?;
        self.words.push(word.to_owned());
        self.numbers.insert(word.to_owned(), number);
        Ok(number)
    }

    /// The context that `words` make, if the model has one of exactly these.
    fn context(&self, words: &[u32]) -> Option<u32> {
        words.iter().try_fold(EMPTY, |context, &word| {
            self.grams.get(&(context, word)).map(|gram| gram.next).filter(|&next| next != NONE)
        })
    }

    /// A new context, which [`Language::link`] links to the shorter one.
    fn new_context(&mut self, weight: f32) -> Result<u32, String> {
        let new = u32::try_from(self.contexts.len()).map_err(|_| "there are too many grams")?;
        self.contexts.push(Context { weight, shorter: EMPTY });
        Ok(new)
    }

    /// The context that `words` make; one whose line gives no weight falls back for nothing.
    fn grown(&mut self, words: &[u32]) -> Result<u32, String> {
        if let Some(context) = self.context(words) {
            return Ok(context);
        }
        let missing = "the words before the last are no gram";
        let (&word, before) = words.split_last().ok_or(missing)?;
        let key = (self.context(before).ok_or(missing)?, word);
        if !self.grams.contains_key(&key) {
            return Err(missing.to_owned());
        }
        let next = self.new_context(0.0)?;
        self.grams.entry(key).and_modify(|gram| gram.next = next);
        Ok(next)
    }

    /// Gives every context the longest shorter one, and every gram without a context of its own the
    /// longest that it ends in.
    fn link(&mut self) {
        let (mut made, mut open) = (vec![None; self.contexts.len()], Vec::new());
        for (&key, gram) in &self.grams {
            match gram.next {
                NONE => open.push(key),
                context => made[context as usize] = Some(key),
            }
        }
        // A context stands behind the one that it makes longer, but a shorter one may have been made
        // later: those of fewer words come first.
        let mut by_length = Vec::with_capacity(made.len());
        let mut lengths = vec![0; made.len()];
        for (at, key) in made.iter().enumerate() {
            if let Some((before, word)) = *key {
                lengths[at] = lengths[before as usize] + 1;
                by_length.push((lengths[at], at, before, word));
            }
        }
        by_length.sort_unstable();
        for (_, at, before, word) in by_length {
            self.contexts[at].shorter = self.ending(before, word);
        }
        for (context, word) in open {
            let next = self.ending(context, word);
            self.grams.entry((context, word)).and_modify(|gram| gram.next = next);
        }
    }

    /// The longest context that `word` behind `context` ends in, but is not.
    fn ending(&self, context: u32, word: u32) -> u32 {
        let mut at = context;
        while at != EMPTY {
            at = self.contexts[at as usize].shorter;
            match self.grams.get(&(at, word)) {
                Some(gram) if gram.next != NONE => return gram.next,
                _ => {}
            }
        }
        EMPTY
    }

    /// How many words and marks there are.
    pub(super) fn count(&self) -> usize {
        self.words.len()
    }

    /// Every word and its number, without the marks of begin, end and unknown words.
    pub(super) fn words(&self) -> impl Iterator<Item = (u32, &str)> {
        let words = (0..).zip(self.words.iter().map(String::as_str));
        words.filter(|(_, word)| !word.starts_with('<'))
    }

    /// The context at the begin of a sentence.
    pub(super) fn begin(&self) -> u32 {
        self.begin
    }

    /// The chance of `word` behind `context`, and the context behind it. A number that is no word's
    /// is that of an unknown word.
    pub(super) fn next(&self, context: u32, word: u32) -> (f32, u32) {
        let (mut at, mut chance) = (context, 0.0);
        loop {
            if let Some(gram) = self.grams.get(&(at, word)) {
                return (chance + gram.chance, gram.next);
            }
            if at == EMPTY {
                return (chance + UNKNOWN, EMPTY);
            }
            chance += self.contexts[at as usize].weight;
            at = self.contexts[at as usize].shorter;
        }
    }

    /// The chance that a sentence ends behind `context`.
    pub(super) fn end(&self, context: u32) -> f32 {
        self.end.map_or(0.0, |end| self.next(context, end).0)
    }
}

/// The order of the grams in a section; 0 where there are none.
fn order_of(section: &str) -> Result<usize, String> {
    if matches!(section, "data\\" | "end\\") {
        return Ok(0);
    }
    let order: Option<usize> = section.strip_suffix("-grams:").and_then(|n| n.parse().ok());
    order.filter(|order| (1..=MAX_ORDER).contains(order)).ok_or_else(|| {
        format!("\\{section} is not \\data\\, \\end\\, or \\1-grams: to \\{MAX_ORDER}-grams:")
    })
}

/// The next part as a natural logarithm, if there is one.
fn number(parts: &mut SplitWhitespace<'_>) -> Result<Option<f32>, String> {
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

    /// The chance of the last word behind the others, to the base of ten.
    fn check(language: &Language, words: &[&str], expected: f32) {
        let mut context = if words[0] == "<s>" { language.begin() } else { EMPTY };
        let mut found = 0.0;
        for word in words.iter().filter(|word| **word != "<s>") {
            let word = language.numbers.get(*word).copied().unwrap_or(u32::MAX);
            (found, context) = language.next(context, word);
        }
        let expected = expected * LN_10;
        assert!((found - expected).abs() < 1e-5, "{words:?}: {found}, not {expected}");
    }

    #[test]
    fn chances_fall_back_to_shorter_contexts() {
        let language = Language::parse(SMALL).unwrap();
        check(&language, &["a"], -1.0);
        check(&language, &["<s>", "a"], -0.5);
        check(&language, &["a", "b"], -0.25);
        check(&language, &["<s>", "a", "b"], -0.125);
        check(&language, &["<s>", "b"], -2.5);
        check(&language, &["a", "c"], -1.25);
        check(&language, &["<s>", "a", "c"], -0.1 - 0.25 - 1.0);
        check(&language, &["<s>", "a", "b", "</s>"], -0.2 - 0.5);
        check(&language, &["c", "a"], -1.0);
        check(&language, &["a", "unknown"], -0.25 + UNKNOWN / LN_10);
        let (_, behind) = language.next(language.begin(), 2);
        assert_eq!(language.end(behind), language.next(behind, 1).0);
    }

    #[test]
    fn marks_are_no_words() {
        let language = Language::parse(SMALL).unwrap();
        assert_eq!(
            language.words().map(|(_, word)| word).collect::<Vec<_>>(),
            ["a", "b", "bad", "c"]
        );
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
            let language = Language::read(&write(name, bytes)).unwrap();
            check(&language, &["<s>", "a", "b"], -0.125);
        }
        assert!(Language::read(&write("b.arpa.gz", &packed[..packed.len() / 2])).is_err());
        assert!(Language::read(&write("b.arpa.gz", SMALL.as_bytes())).is_err());
        assert!(Language::read(&folder.join("missing.arpa")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn faults_name_their_line() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Language::parse(text).unwrap_err(), expected, "{text:?}");
        };
        check("", "it has no \\1-grams:");
        check("\\1-grams:\n-1", "line 2: it has fewer than 1 words");
        check("\\1-grams:\nx a", "line 2: \"x\" is not a number");
        check("\\1-grams:\n-1 a -1 b", "line 2: it has more than 1 words");
        check(
            "\\1-grams:\n-1 a 0\n\\2-grams:\n-1 a b",
            "line 4: \"b\" is not among the \\1-grams:",
        );
        check(
            "\\1-grams:\n-1 a\n\\3-grams:\n-1 a a a",
            "line 4: the words before the last are no gram",
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
    fn a_context_without_a_weight_falls_back_for_nothing() {
        let text = "\\1-grams:\n-1 a\n-2 b\n\\2-grams:\n-0.5 a b\n\\3-grams:\n-0.25 a b a\n";
        let language = Language::parse(text).unwrap();
        check(&language, &["a", "b"], -0.5);
        check(&language, &["a", "b", "a"], -0.25);
        check(&language, &["a", "b", "b"], -2.0);
        check(&language, &["a", "a"], -1.0);
    }

    #[test]
    fn a_context_that_is_made_later_is_fallen_back_to() {
        let text = "\\1-grams:\n-1 a -0.3\n-1 b\n-2 c\n\\2-grams:\n-0.5 a b -0.2\n-0.4 b c\n";
        let language = Language::parse(text).unwrap();
        check(&language, &["a", "b", "c"], -0.2 - 0.4);
        check(&language, &["a", "b", "b"], -0.2 - 1.0);
    }
}
