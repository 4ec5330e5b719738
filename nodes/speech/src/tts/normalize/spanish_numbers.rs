//! Spoken form of Spanish numbers.

const ONES: [&str; 30] = [
    "cero",
    "uno",
    "dos",
    "tres",
    "cuatro",
    "cinco",
    "seis",
    "siete",
    "ocho",
    "nueve",
    "diez",
    "once",
    "doce",
    "trece",
    "catorce",
    "quince",
    "dieciséis",
    "diecisiete",
    "dieciocho",
    "diecinueve",
    "veinte",
    "veintiuno",
    "veintidós",
    "veintitrés",
    "veinticuatro",
    "veinticinco",
    "veintiséis",
    "veintisiete",
    "veintiocho",
    "veintinueve",
];
const TENS: [&str; 7] =
    ["treinta", "cuarenta", "cincuenta", "sesenta", "setenta", "ochenta", "noventa"];
const HUNDREDS: [&str; 9] = [
    "ciento",
    "doscientos",
    "trescientos",
    "cuatrocientos",
    "quinientos",
    "seiscientos",
    "setecientos",
    "ochocientos",
    "novecientos",
];
const ORDINALS: [&str; 10] = [
    "primero", "segundo", "tercero", "cuarto", "quinto", "sexto", "séptimo", "octavo", "noveno",
    "décimo",
];

/// Form of a number that ends with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Without a noun: `uno`.
    Alone,
    /// Before a masculine noun: `un`.
    Masculine,
    /// Before a feminine noun: `una`.
    Feminine,
}

/// Appends a whole number below 10^12.
pub(super) fn push_cardinal(number: u64, form: Form, words: &mut Vec<String>) {
    if number >= 1_000_000 {
        let millions = number / 1_000_000;
        push_cardinal(millions, Form::Masculine, words);
        words.push(if millions == 1 { "millón" } else { "millones" }.to_owned());
        if !number.is_multiple_of(1_000_000) {
            push_cardinal(number % 1_000_000, form, words);
        }
        return;
    }
    let (thousands, rest) = (number / 1000, number % 1000);
    if thousands > 0 {
        if thousands > 1 {
            let form = if form == Form::Feminine { form } else { Form::Masculine };
            push_below_1000(thousands, form, words);
        }
        words.push("mil".to_owned());
    }
    if rest > 0 || thousands == 0 {
        push_below_1000(rest, form, words);
    }
}

fn push_below_1000(number: u64, form: Form, words: &mut Vec<String>) {
    // All indices follow from a number below 1000.
    let (hundreds, rest) = ((number / 100) as usize, (number % 100) as usize);
    if hundreds > 0 {
        let name = if number == 100 { "cien" } else { HUNDREDS[hundreds - 1] };
        let is_feminine = form == Form::Feminine && hundreds > 1;
        let stem = name.strip_suffix("os").filter(|_| is_feminine);
        words.push(stem.map_or_else(|| name.to_owned(), |stem| format!("{stem}as")));
        if rest == 0 {
            return;
        }
    }
    if rest < 30 {
        words.push(with_form(ONES[rest], form));
        return;
    }
    words.push(TENS[rest / 10 - 3].to_owned());
    if rest % 10 > 0 {
        words.push("y".to_owned());
        words.push(with_form(ONES[rest % 10], form));
    }
}

fn with_form(word: &str, form: Form) -> String {
    match (word.strip_suffix("uno"), form) {
        (Some(""), Form::Masculine) => "un".to_owned(),
        (Some(stem), Form::Masculine) => format!("{stem}ún"),
        (Some(stem), Form::Feminine) => format!("{stem}una"),
        _ => word.to_owned(),
    }
}

/// Appends the digits of `text`, one by one.
pub(super) fn push_digits(text: &str, words: &mut Vec<String>) {
    let digits = text.chars().filter_map(|c| c.to_digit(10));
    words.extend(digits.map(|digit| ONES[digit as usize].to_owned()));
}

/// Ordinal of a number up to ten.
pub(super) fn ordinal(number: u64, is_feminine: bool) -> Option<String> {
    let name = ORDINALS.get(usize::try_from(number.checked_sub(1)?).ok()?)?;
    Some(if is_feminine { format!("{}a", &name[..name.len() - 1]) } else { (*name).to_owned() })
}

/// A number as it is written: digits with separators, and a sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Number<'t> {
    is_negative: bool,
    /// Whole part.
    pub(super) whole: u64,
    /// Digits after the decimal comma, if any.
    fraction: Option<&'t str>,
}

impl<'t> Number<'t> {
    /// A whole number without a sign.
    pub(super) fn whole(number: u64) -> Self {
        Self { is_negative: false, whole: number, fraction: None }
    }

    /// Reads a number of at most twelve digits before the comma. A point or a comma before groups of three
    /// digits separates thousands, any other one is decimal.
    pub(super) fn parse(text: &'t str) -> Option<Self> {
        let unsigned = text.strip_prefix('-').or_else(|| text.strip_prefix('+'));
        let is_negative = text.starts_with('-');
        let text = unsigned.unwrap_or(text);
        if text.is_empty() || !text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',')) {
            return None;
        }
        let is_grouped = |text: &str, separator: char| {
            let mut groups = text.split(separator);
            let first = groups.next().is_some_and(|first| (1..=3).contains(&first.len()));
            first && !text.starts_with('0') && groups.all(|group| group.len() == 3)
        };
        let (whole, fraction) = match (text.rfind('.'), text.rfind(',')) {
            (Some(point), Some(comma)) => {
                let (at, separator) = (point.max(comma), if point < comma { '.' } else { ',' });
                let (whole, fraction) = (&text[..at], &text[at + 1..]);
                (is_grouped(whole, separator).then_some(whole)?, Some(fraction))
            }
            (Some(_), None) if is_grouped(text, '.') => (text, None),
            (Some(at), None) | (None, Some(at)) => (&text[..at], Some(&text[at + 1..])),
            (None, None) => (text, None),
        };
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if fraction.is_some_and(|fraction| fraction.is_empty() || !is_digits(fraction)) {
            return None;
        }
        let digits: String = whole.chars().filter(char::is_ascii_digit).collect();
        if digits.len() > 12
            || (digits.len() < whole.len() && !is_grouped(whole, '.') && !is_grouped(whole, ','))
        {
            return None;
        }
        let whole = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        Some(Self { is_negative, whole, fraction })
    }

    /// True for 1 and -1.
    pub(super) fn is_one(&self) -> bool {
        self.whole == 1 && self.fraction.is_none()
    }

    /// Digits after the comma of an amount of money, if they are two.
    pub(super) fn cents(&self) -> Option<u64> {
        self.fraction.filter(|fraction| fraction.len() == 2)?.parse().ok()
    }

    /// Appends its words.
    pub(super) fn push(&self, form: Form, words: &mut Vec<String>) {
        if self.is_negative {
            words.push("menos".to_owned());
        }
        let Some(fraction) = self.fraction else {
            push_cardinal(self.whole, form, words);
            return;
        };
        push_cardinal(self.whole, Form::Alone, words);
        words.push("coma".to_owned());
        match fraction.parse() {
            Ok(value) if fraction.len() <= 2 && !fraction.starts_with('0') => {
                push_cardinal(value, Form::Alone, words);
            }
            _ => push_digits(fraction, words),
        }
    }
}
