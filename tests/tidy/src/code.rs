//! Rust source without comments and literals.

/// Removes comments and literals from `source` and keeps line breaks.
pub(crate) fn code(source: &str) -> String {
    let (mut code, mut rest) = (String::with_capacity(source.len()), source);
    while let Some(first) = rest.chars().next() {
        let len = comment(rest).or_else(|| literal(&code, rest));
        let (skipped, after) = rest.split_at(len.unwrap_or(first.len_utf8()));
        match len {
            Some(_) => code.extend(skipped.chars().filter(|&character| character == '\n')),
            None => code.push(first),
        }
        rest = after;
    }
    code
}

/// True if `code` contains `word` as a whole identifier.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word)
    })
}

/// Length of the comment at the start of `rest`.
fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return Some(at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    Some(rest.len())
}

/// Length of the string or character literal at the start of `rest`, which follows `code`.
fn literal(code: &str, rest: &str) -> Option<usize> {
    let end = |close: &str| rest[1..].find(close).map_or(rest.len(), |at| 1 + at + close.len());
    if rest.starts_with('"') {
        let before = code.trim_end_matches('#');
        if before.ends_with('r') {
            return Some(end(&format!("\"{}", &code[before.len()..])));
        }
        return Some(escaped(rest, '"'));
    }
    let mut characters = rest.strip_prefix('\'')?.chars();
    match (characters.next()?, characters.next()?) {
        ('\\', _) => Some(escaped(rest, '\'')),
        (one, '\'') => Some(2 + one.len_utf8()),
        _ => None, // a lifetime
    }
}

/// Length of a literal with escapes, including `close`.
fn escaped(rest: &str, close: char) -> usize {
    let mut after_backslash = false;
    for (at, character) in rest.char_indices().skip(1) {
        if character == close && !after_backslash {
            return at + 1;
        }
        after_backslash = character == '\\' && !after_backslash;
    }
    rest.len()
}

#[test]
fn comments_and_literals_are_removed() {
    let check = |source: &str, expected: &str| assert_eq!(code(source), expected, "{source}");
    check("a // b\nc", "a \nc");
    check("a /* b /* c */ d\n */ e", "a \n e");
    check(r#"f("b \" c", d)"#, "f(, d)");
    check("f(r#\"b \" c\"#, d)", "f(r#, d)");
    check("fn f<'a>(x: &'a str) -> char { '\\'' }", "fn f<'a>(x: &'a str) -> char {  }");
    check("['\"', 'b', \"'\"]", "[, , ]");
}

#[test]
fn words_are_whole_identifiers() {
    assert!(has_word("unsafe { x }", "unsafe") && has_word("{unsafe}", "unsafe"));
    assert!(!has_word("deny(unsafe_code) NotUnsafe not_unsafe", "unsafe"));
}
