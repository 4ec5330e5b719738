//! Division of texts into sentences, and of long sentences into parts.

/// Words before a period that does not end a sentence.
const ABBREVIATIONS: &[&str] = &[
    "ave", "blvd", "co", "corp", "dr", "e.g", "etc", "i.e", "inc", "jr", "ltd", "mr", "mrs", "ms",
    "ph.d", "prof", "sr", "st", "vs",
];
/// Characters that may follow the mark at the end of a sentence.
const CLOSING: [char; 8] = ['"', '\'', '”', '’', ')', ']', '»', '*'];
/// Marks that end a sentence, also without a space.
const WIDE_ENDS: [char; 3] = ['。', '！', '？'];

/// A written word, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WrittenWord<'t> {
    pub(super) text: &'t str,
    /// Position in the text, counted from one; words are separated by whitespace.
    pub(super) number: u32,
}

/// Words that are spoken without a break.
pub(super) type Words<'t> = Vec<WrittenWord<'t>>;

/// Sentences of `text`.
pub(super) fn sentences(text: &str) -> Vec<Words<'_>> {
    let (mut found, mut words) = (Vec::new(), Vec::new());
    for (word, number) in text.split_whitespace().zip(1..) {
        for text in word.split_inclusive(WIDE_ENDS) {
            words.push(WrittenWord { text, number });
            if ends_sentence(text) {
                found.push(std::mem::take(&mut words));
            }
        }
    }
    found.extend((!words.is_empty()).then_some(words));
    found
}

/// Text of `words`.
pub(super) fn join(words: &[WrittenWord<'_>]) -> String {
    let mut text = String::new();
    let mut before = None;
    for word in words {
        if before.is_some_and(|number| number != word.number) {
            text.push(' ');
        }
        text.push_str(word.text);
        before = Some(word.number);
    }
    text
}

/// Parts of a sentence whose lengths by `len` are at most `limit`: cut after the last comma or other
/// mark in the second half of a part, else at the last space, else within a word.
pub(super) fn divide<'t>(
    sentence: &[WrittenWord<'t>],
    limit: usize,
    len: impl Fn(&str) -> usize,
) -> Vec<Words<'t>> {
    let limit = limit.max(1);
    let words: Words<'t> = sentence.iter().flat_map(|word| cut_word(*word, limit, &len)).collect();
    let lens: Vec<usize> = words.iter().map(|word| len(word.text) + 1).collect();
    let (mut parts, mut start) = (Vec::new(), 0);
    while start < words.len() {
        let mut total = 0;
        let fits = lens[start..].iter().take_while(|&&len| {
            total += len;
            total <= limit + 1
        });
        let most = fits.count().max(1);
        let mut end = start + most;
        if end < words.len() {
            let is_mark = |at: &usize| words[*at].text.ends_with([',', ';', ':', '—', '–', '、']);
            let mark = (start + most / 2..end).rev().find(is_mark);
            end = mark.map_or(end, |at| at + 1);
        }
        parts.push(words[start..end].to_vec());
        start = end;
    }
    parts
}

/// True if a sentence ends after `word`.
pub(super) fn ends_sentence(word: &str) -> bool {
    let word = word.trim_end_matches(CLOSING);
    let Some(last) = word.chars().next_back() else { return false };
    if last != '.' {
        return matches!(last, '!' | '?' | '…') || WIDE_ENDS.contains(&last);
    }
    !is_abbreviation(word)
}

/// True if the period at the end of `word` belongs to an abbreviation.
pub(super) fn is_abbreviation(word: &str) -> bool {
    let Some(stem) = word.strip_suffix('.') else { return false };
    let stem = stem.trim_start_matches(['"', '\'', '“', '‘', '(', '[']);
    let mut letters = stem.chars();
    let is_initial =
        letters.next().is_some_and(|c| c.is_uppercase() && c != 'I') && letters.next().is_none();
    is_initial || ABBREVIATIONS.contains(&stem.to_lowercase().as_str())
}

/// Parts of a word with at most the length `limit`; one part if it fits.
fn cut_word<'t>(word: WrittenWord<'t>, limit: usize, len: &impl Fn(&str) -> usize) -> Words<'t> {
    let (mut parts, mut rest) = (Vec::new(), word.text);
    while len(rest) > limit && rest.chars().nth(1).is_some() {
        let ends = rest.char_indices().skip(1).map(|(at, _)| at);
        let fitting = ends.take_while(|&at| len(&rest[..at]) <= limit).last();
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let (part, after) = rest.split_at(fitting.unwrap_or(first));
        parts.push(WrittenWord { text: part, ..word });
        rest = after;
    }
    parts.push(WrittenWord { text: rest, ..word });
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_marks() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<String> = sentences(text).iter().map(|words| join(words)).collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("One.  Two\nwords! Three", &["One.", "Two words!", "Three"]);
        check("“Yes.” (No?) ok", &["“Yes.”", "(No?)", "ok"]);
        check(
            "Dr. J. Smith, e.g. here. So am I. Yes",
            &["Dr. J. Smith, e.g. here.", "So am I.", "Yes"],
        );
        check("今日。明日は？ はい", &["今日。", "明日は？", "はい"]);
        check("It is 3.5 or 7:30", &["It is 3.5 or 7:30"]);
        check(" \n", &[]);
    }

    #[test]
    fn words_are_numbered() {
        let found = sentences("今日。明日 x");
        assert_eq!(found[0][0].number, 1);
        assert_eq!(found[1].iter().map(|word| word.number).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn long_sentences_are_divided() {
        let check = |text: &str, limit: usize, expected: &[&str]| {
            let words = sentences(text).concat();
            let parts = divide(&words, limit, |text| text.chars().count());
            let found: Vec<String> = parts.iter().map(|words| join(words)).collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("one two three four", 100, &["one two three four"]);
        check("one two three four", 9, &["one two", "three", "four"]);
        check("a bc, d efg hij", 9, &["a bc,", "d efg hij"]);
        check("a, bcd e fgh", 9, &["a, bcd e", "fgh"]);
        check("abcdefg hi", 3, &["abc", "def", "g", "hi"]);
        check("ééé", 1, &["é", "é", "é"]);
    }
}
