//! Stop strings: strings that end an answer.

/// Searches generated text for stop strings, and holds back text that may be the start of one.
///
/// ```
/// let mut stop = afferent_text::StopStrings::new(vec!["\nQ:".to_owned()]);
/// assert_eq!(stop.push("yes\n"), ("yes".to_owned(), None)); // holds back the line break
/// assert_eq!(stop.push("Q: and"), (String::new(), Some(0)));
/// ```
#[derive(Debug, Clone, Default)]
pub struct StopStrings {
    strings: Vec<String>,
    /// Text that may be the start of a stop string.
    held: String,
}

impl StopStrings {
    /// Searches for `strings`; ignores empty ones.
    pub fn new(strings: Vec<String>) -> Self {
        Self { strings, held: String::new() }
    }

    /// Appends text. Returns the text that is certainly before a stop string, and the index of the
    /// stop string found.
    ///
    /// Text after the stop string is dropped. If several stop strings occur, the first one counts;
    /// of those with the same start, the longest.
    pub fn push(&mut self, text: &str) -> (String, Option<usize>) {
        self.held.push_str(text);
        let found = self.strings.iter().enumerate().filter(|(_, stop)| !stop.is_empty());
        let found = found.filter_map(|(index, stop)| Some((self.held.find(stop)?, stop, index)));
        if let Some((at, _, index)) =
            found.min_by_key(|&(at, stop, _)| (at, std::cmp::Reverse(stop.len())))
        {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), Some(index));
        }
        let start = self.held.char_indices().map(|(at, _)| at);
        let start =
            start.filter(|&at| self.strings.iter().any(|stop| stop.starts_with(&self.held[at..])));
        let certain = start.min().unwrap_or(self.held.len());
        let held = self.held.split_off(certain);
        (std::mem::replace(&mut self.held, held), None)
    }

    /// Returns the text held back, at the end of the answer.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_strings_may_span_several_pushes() {
        let check = |stops: &[&str], parts: &[&str], expected: &str, index: Option<usize>| {
            let mut stop = StopStrings::new(stops.iter().map(|&text| text.to_owned()).collect());
            let mut text = String::new();
            for part in parts {
                let (certain, found) = stop.push(part);
                text.push_str(&certain);
                if found.is_some() {
                    assert_eq!((text.as_str(), found), (expected, index), "{stops:?} {parts:?}");
                    return;
                }
            }
            text.push_str(&stop.finish());
            assert_eq!((text.as_str(), None), (expected, index), "{stops:?} {parts:?}");
        };
        check(&[], &["a", "b"], "ab", None);
        check(&[""], &["a", "b"], "ab", None);
        check(&["stop"], &["a s", "t", "op b"], "a ", Some(0));
        check(&["stop"], &["a s", "to", "ne"], "a stone", None);
        check(&["stop"], &["ststo", "p"], "st", Some(0));
        check(&["aab"], &["a", "a", "a", "b"], "a", Some(0));
        check(&["b", "abc"], &["xab"], "xa", Some(0));
        check(&["bc", "abc"], &["xabc"], "x", Some(1));
        check(&["a", "ab"], &["xab"], "x", Some(1));
        check(&["</s>"], &["grüß<", "/", "s", ">x"], "grüß", Some(0));
        check(&["日本"], &["日", "本"], "", Some(0));
        check(&["日本"], &["日", "曜"], "日曜", None);
    }

    #[test]
    fn only_possible_starts_are_held_back() {
        let mut stop = StopStrings::new(vec!["\n\n".to_owned()]);
        assert_eq!(stop.push("one\n"), ("one".to_owned(), None));
        assert_eq!(stop.push("two"), ("\ntwo".to_owned(), None));
        assert_eq!(stop.finish(), "");
    }
}
