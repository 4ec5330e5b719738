//! Spoken form of e-mail addresses, web addresses, and dotted numbers.

use super::super::numbers;

/// Top-level domains of addresses that are written without `www.` or a scheme.
const DOMAINS: &[&str] = &[
    "ai", "app", "at", "au", "biz", "ca", "ch", "co", "com", "de", "dev", "edu", "es", "eu", "fr",
    "gov", "in", "info", "io", "it", "jp", "me", "mil", "net", "nl", "org", "pl", "rs", "se", "tv",
    "uk", "us", "xyz",
];
/// Names of the signs in addresses.
const SIGNS: &[(char, &str)] = &[
    ('@', "at"),
    ('.', "dot"),
    ('/', "slash"),
    (':', "colon"),
    ('-', "dash"),
    ('_', "underscore"),
    ('+', "plus"),
    ('?', "question mark"),
    ('=', "equals"),
    ('&', "and"),
    ('#', "hash"),
    ('%', "percent"),
    ('~', "tilde"),
];

/// True if `text` is an e-mail address or a web address.
pub(super) fn is_address(text: &str) -> bool {
    let is_host = |host: &str| {
        let mut labels = host.split('.');
        host.contains('.')
            && labels.all(|label| {
                !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-')
            })
    };
    if let Some((name, host)) = text.split_once('@') {
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | '%');
        return !name.is_empty() && name.chars().all(is_name) && is_host(host);
    }
    let (has_scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (scheme.chars().all(char::is_alphabetic), rest),
        None => (false, text),
    };
    let end = rest.find(['/', '?', '#', ':']).unwrap_or(rest.len());
    let host = rest[..end].to_lowercase();
    let is_known = || {
        let domain = host.rsplit('.').next().unwrap_or_default();
        is_host(&host) && (host.starts_with("www.") || DOMAINS.contains(&domain))
    };
    !host.is_empty() && (has_scheme || (is_known() && host.contains(char::is_alphabetic)))
}

/// Appends the parts and the signs of an address. A scheme is left out.
pub(super) fn push_address(
    text: &str,
    words: &mut Vec<String>,
    mut push: impl FnMut(&str, &mut Vec<String>),
) {
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let text = text.trim_end_matches('/');
    let kind = |c: char| (c.is_alphabetic() || c == '\'', c.is_ascii_digit());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((_, name)) = SIGNS.iter().find(|(sign, _)| *sign == first) {
            words.extend(name.split(' ').map(str::to_owned));
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let end = rest.find(|c| kind(c) != kind(first)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        match run {
            "www" => words.extend(["w"; 3].map(str::to_owned)),
            _ if first.is_ascii_digit() => {
                numbers::push_number(run, words);
            }
            _ => push(run, words),
        }
    }
}

/// Appends numbers with several points, such as a version or an IP address. Returns false if `text`
/// is not one.
pub(super) fn push_dotted_numbers(text: &str, words: &mut Vec<String>) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if parts.len() < 3 || !parts.iter().all(is_number) {
        return false;
    }
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            words.push("dot".to_owned());
        }
        numbers::push_number(part, words);
    }
    true
}
