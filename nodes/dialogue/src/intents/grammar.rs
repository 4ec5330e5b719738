//! Grammar of sentences: templates that become regular expressions.

use std::{cmp::Reverse, collections::BTreeMap};

use regex::Regex;

/// Longest template in characters, so that a mistake does not fill the memory.
const MAX_TEMPLATE_CHARS: usize = 1000;

/// Words before and after a question that say nothing, such as "please", "can you tell me" and "now".
const LEAD: &[&str] = &[
    "and",
    "any clue",
    "any idea",
    "can you",
    "check",
    "could you",
    "discover",
    "do you have any idea",
    "do you know",
    "figure out",
    "find out",
    "give me a hint",
    "guess",
    "have you any idea",
    "hello",
    "hey",
    "hi",
    "i do not know",
    "i don't know",
    "i forgot",
    "i want to know",
    "i wonder",
    "let me know",
    "look",
    "now",
    "ok",
    "okay",
    "please",
    "remind me",
    "reveal",
    "say",
    "see if you can",
    "see whether",
    "show me",
    "so",
    "tell me",
    "then",
    "try and",
    "try to",
    "uh",
    "um",
    "well",
    "will you",
    "would you",
];
const TAIL: &[&str] =
    &["again", "for me", "now", "please", "right now", "thank you", "thanks", "then", "today"];

/// A template that matches whole sentences.
#[derive(Debug)]
pub(super) struct Template {
    pattern: Regex,
    slots: Vec<String>,
    /// Number of `...`.
    wildcards: usize,
}

/// A match of a template.
#[derive(Debug, PartialEq)]
pub(super) struct Match<'t> {
    /// Names and values of the slots.
    pub(super) slots: Vec<(&'t str, String)>,
    /// Words that the template does not name: those of `...`, and twice those of slots without a list.
    pub(super) open_words: usize,
}

/// Values that slots may have, by the names of the slots. Others take any words.
pub(super) type SlotLists = BTreeMap<String, Vec<String>>;

impl Template {
    /// Compiles a template: words, `(one|other)` alternatives, `[optional]` parts, `{slots}`, and `...`
    /// for any words.
    ///
    /// # Errors
    /// The fault, with its column.
    pub(super) fn new(template: &str, lists: &SlotLists) -> Result<Self, String> {
        if template.chars().count() > MAX_TEMPLATE_CHARS {
            return Err(format!("a template is longer than {MAX_TEMPLATE_CHARS} characters"));
        }
        let mut parser =
            Parser { rest: template, whole: template, slots: Vec::new(), wildcards: 0, lists };
        let pattern = parser.alternatives()?;
        if !parser.rest.is_empty() {
            return Err(parser.fault("a bracket is closed that is not open"));
        }
        if template.trim().is_empty() {
            return Err("a template is empty".to_owned());
        }
        let (lead, tail) = (LEAD.join("|"), TAIL.join("|"));
        let pattern = format!("^(?:(?:{lead}) )*(?:{pattern})(?: (?:{tail}))*$");
        let pattern = Regex::new(&pattern).map_err(|error| format!("{template:?}: {error}"))?;
        Ok(Self { pattern, slots: parser.slots, wildcards: parser.wildcards })
    }

    /// True if the template has the slot.
    pub(super) fn has_slot(&self, name: &str) -> bool {
        self.slots.iter().any(|slot| slot == name)
    }

    /// Matches a whole sentence, which is [`normalized`].
    pub(super) fn matches(&self, sentence: &str, lists: &SlotLists) -> Option<Match<'_>> {
        let found = self.pattern.captures(sentence)?;
        let text = |name: &str| found.name(name).map_or("", |found| found.as_str().trim());
        let words = |text: &str| text.split_whitespace().count();
        let wild = (0..self.wildcards).map(|index| words(text(&wildcard(index)))).sum::<usize>();
        let slots = self.slots.iter().map(|slot| (slot.as_str(), text(slot).to_owned()));
        let slots: Vec<_> = slots.filter(|(_, value)| !value.is_empty()).collect();
        let open = slots.iter().filter(|(slot, _)| !lists.contains_key(*slot));
        let open_words = wild + 2 * open.map(|(_, value)| words(value)).sum::<usize>();
        Some(Match { slots, open_words })
    }
}

/// Name of the group of a wildcard. Names of slots have no capital letters.
fn wildcard(index: usize) -> String {
    format!("W{index}")
}

/// Words of a sentence in lower case, without punctuation, with one space between them.
pub(super) fn normalized(text: &str) -> String {
    let kept = |letter: char| match letter {
        '’' => '\'',
        letter if letter.is_alphanumeric() || letter == '\'' => letter,
        _ => ' ',
    };
    let lower: String = text.chars().map(kept).collect::<String>().to_lowercase();
    lower.split_whitespace().collect::<Vec<_>>().join(" ")
}

struct Parser<'t> {
    rest: &'t str,
    whole: &'t str,
    slots: Vec<String>,
    wildcards: usize,
    lists: &'t SlotLists,
}

impl Parser<'_> {
    fn fault(&self, reason: &str) -> String {
        let column = self.whole.chars().count() - self.rest.chars().count() + 1;
        format!("{:?}, column {column}: {reason}", self.whole)
    }

    /// Parts separated by `|`, up to a closing bracket or the end.
    fn alternatives(&mut self) -> Result<String, String> {
        let mut parts = vec![self.sequence()?];
        while let Some(rest) = self.rest.strip_prefix('|') {
            self.rest = rest;
            parts.push(self.sequence()?);
        }
        Ok(parts.join("|"))
    }

    /// Words, brackets and slots. Spaces between them match the spaces of the sentence, which are
    /// optional next to what may be missing.
    fn sequence(&mut self) -> Result<String, String> {
        let mut pattern = String::new();
        let mut is_first = true;
        loop {
            self.rest = self.rest.trim_start();
            let Some(next) = self.rest.chars().next() else { return Ok(pattern) };
            let element = match next {
                ')' | ']' | '|' => return Ok(pattern),
                '(' => self.group(')', false)?,
                '[' => self.group(']', true)?,
                '{' => self.slot()?,
                '.' => self.wildcard()?,
                _ => self.word()?,
            };
            if !is_first {
                pattern.push_str(r"\s*\b");
            }
            pattern.push_str(&element);
            is_first = false;
        }
    }

    fn group(&mut self, end: char, is_optional: bool) -> Result<String, String> {
        self.rest = &self.rest[1..];
        let inner = self.alternatives()?;
        let Some(rest) = self.rest.strip_prefix(end) else {
            return Err(self.fault(&format!("`{end}` is missing")));
        };
        self.rest = rest;
        Ok(format!("(?:{inner}){}", if is_optional { "?" } else { "" }))
    }

    fn slot(&mut self) -> Result<String, String> {
        let Some((name, rest)) = self.rest[1..].split_once('}') else {
            return Err(self.fault("`}` is missing"));
        };
        let is_name = !name.is_empty()
            && name.starts_with(|letter: char| letter.is_ascii_lowercase())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if !is_name || self.slots.iter().any(|slot| slot == name) {
            return Err(self.fault(
                "a slot has a name of small letters and `_`, and stands once in a template",
            ));
        }
        self.slots.push(name.to_owned());
        self.rest = rest;
        Ok(match self.lists.get(name) {
            Some(values) => {
                let mut values: Vec<_> =
                    values.iter().map(|value| regex::escape(&normalized(value))).collect();
                // "ball bearing" before "ball".
                values.sort_by_key(|value| Reverse(value.len()));
                format!(r"(?P<{name}>(?:{})\b)", values.join("|"))
            }
            // The shortest that fits, so that the words after it are not in it.
            None => format!(r"(?P<{name}>\b[^\s]+(?: [^\s]+){{0,5}}?)"),
        })
    }

    fn wildcard(&mut self) -> Result<String, String> {
        let Some(rest) = self.rest.strip_prefix("...") else {
            return Err(self.fault("`...` stands for any words; a single period does not"));
        };
        self.rest = rest;
        let name = wildcard(self.wildcards);
        self.wildcards += 1;
        Ok(format!(r"(?P<{name}>(?:[^\s]+\s*){{0,10}}?)"))
    }

    fn word(&mut self) -> Result<String, String> {
        let len = self
            .rest
            .find(|letter: char| letter.is_whitespace() || "()[]{}|.".contains(letter))
            .unwrap_or(self.rest.len());
        let word = normalized(&self.rest[..len]);
        if word.is_empty() || word.contains(' ') {
            return Err(self.fault("a word has letters, digits and apostrophes only"));
        }
        self.rest = &self.rest[len..];
        Ok(format!(r"{}\b", regex::escape(&word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(template: &str, sentence: &str) -> Option<String> {
        let values = vec!["Ball".to_owned(), "dining table".to_owned()];
        let lists = SlotLists::from([("object".to_owned(), values)]);
        let template = Template::new(template, &lists).unwrap();
        let sentence = normalized(sentence);
        let found = template.matches(&sentence, &lists)?;
        let slots = found.slots.iter().map(|(name, value)| format!("{name}={value}"));
        Some(slots.collect::<Vec<_>>().join(","))
    }

    #[test]
    fn templates_match_whole_sentences() {
        let check = |template: &str, sentence: &str, expected: Option<&str>| {
            assert_eq!(slots(template, sentence).as_deref(), expected, "{template}: {sentence}");
        };
        let find = "where (is|are|did i (leave|put)) {thing} [at]";
        check(find, "Where is my mug?", Some("thing=my mug"));
        check(find, "where are the two red books", Some("thing=the two red books"));
        check(find, "where did I put my keys", Some("thing=my keys"));
        check(find, "please, can you tell me where my mug is", None);
        check(find, "Hey, where is the lamp now, please?", Some("thing=the lamp"));
        check(find, "where is the lamp at", Some("thing=the lamp"));
        check(find, "where is", None);
        check(find, "somewhere is my mug", None);
        check(
            "(do you know) where {thing} is",
            "do you know where the ball is",
            Some("thing=the ball"),
        );
        check("how many steps", "how many steps", Some(""));
        check(
            "how many steps [have i (taken|made)]",
            "how many steps have I taken today",
            Some(""),
        );
        check("how many steps", "how many stepsisters", None);
        check("what's here", "What’s here?", Some(""));
        check(
            "put {thing} on {target}",
            "put the cup on the table",
            Some("thing=the cup,target=the table"),
        );
        check("[the] ball", "ball", Some(""));
        check("[the] ball", "theball", None);
        let any = "... (where|find) ... {object} ...";
        check(any, "um where on earth is that dining table", Some("object=dining table"));
        check(any, "where ball", Some("object=ball"));
        check(any, "where is the balloon", None);
        check(any, "somewhere a ball", None);
        check("{object}", "the ball", None);
    }

    #[test]
    fn faults_have_a_column() {
        let check = |template: &str, expected: &str| {
            let told = Template::new(template, &SlotLists::new()).unwrap_err();
            assert!(told.contains(expected), "{told}");
        };
        check("where (is", "column 10: `)` is missing");
        check("where is)", "column 9: a bracket is closed that is not open");
        check("where {Thing}", "column 7: a slot has a name");
        check("{a} {a}", "column 5: a slot has a name");
        check("{a", "`}` is missing");
        check("a .. b", "column 3: `...` stands for any words");
        check("  ", "empty");
        check("a ?! b", "a word has letters");
    }
}
