//! Spanish text to clauses of spoken words.

use super::{
    Clause, ClauseBuilder, QUOTES, clause_end, letters, lookup,
    spanish_numbers::{Form, Number, ordinal, push_cardinal, push_digits},
};

/// Abbreviations with a period.
const ABBREVIATIONS: &[(&str, &str)] = &[
    ("sr.", "señor"),
    ("sra.", "señora"),
    ("srta.", "señorita"),
    ("dr.", "doctor"),
    ("dra.", "doctora"),
    ("prof.", "profesor"),
    ("ud.", "usted"),
    ("uds.", "ustedes"),
    ("etc.", "etcétera"),
    ("tel.", "teléfono"),
    ("pág.", "página"),
    ("av.", "avenida"),
    ("avda.", "avenida"),
    ("núm.", "número"),
    ("n.º", "número"),
    ("nº", "número"),
    ("a.m.", "de la mañana"),
    ("p.m.", "de la tarde"),
    ("ee.uu.", "estados unidos"),
];
/// Units after a number: one, several, and true for a feminine unit.
const UNITS: &[(&str, &str, &str, bool)] = &[
    ("%", "por ciento", "por ciento", false),
    ("°c", "grado celsius", "grados celsius", false),
    ("ºc", "grado celsius", "grados celsius", false),
    ("°f", "grado fahrenheit", "grados fahrenheit", false),
    ("°", "grado", "grados", false),
    ("km", "kilómetro", "kilómetros", false),
    ("m", "metro", "metros", false),
    ("cm", "centímetro", "centímetros", false),
    ("mm", "milímetro", "milímetros", false),
    ("km²", "kilómetro cuadrado", "kilómetros cuadrados", false),
    ("m²", "metro cuadrado", "metros cuadrados", false),
    ("m³", "metro cúbico", "metros cúbicos", false),
    ("km/h", "kilómetro por hora", "kilómetros por hora", false),
    ("m/s", "metro por segundo", "metros por segundo", false),
    ("kg", "kilo", "kilos", false),
    ("g", "gramo", "gramos", false),
    ("mg", "miligramo", "miligramos", false),
    ("l", "litro", "litros", false),
    ("ml", "mililitro", "mililitros", false),
    ("h", "hora", "horas", true),
    ("min", "minuto", "minutos", false),
    ("s", "segundo", "segundos", false),
    ("ms", "milisegundo", "milisegundos", false),
    ("w", "vatio", "vatios", false),
    ("kw", "kilovatio", "kilovatios", false),
    ("kwh", "kilovatio hora", "kilovatios hora", false),
    ("v", "voltio", "voltios", false),
    ("kb", "kilobyte", "kilobytes", false),
    ("mb", "megabyte", "megabytes", false),
    ("gb", "gigabyte", "gigabytes", false),
    ("hz", "hercio", "hercios", false),
    ("db", "decibelio", "decibelios", false),
    ("€", "euro", "euros", false),
    ("eur", "euro", "euros", false),
    ("$", "dólar", "dólares", false),
    ("usd", "dólar", "dólares", false),
    ("£", "libra", "libras", true),
    ("¥", "yen", "yenes", false),
];
/// Signs that are currencies.
const CURRENCIES: [char; 4] = ['€', '$', '£', '¥'];
/// Signs that are spoken as words.
const SIGNS: &[(&str, &str)] = &[
    ("&", "y"),
    ("+", "más"),
    ("=", "igual a"),
    ("@", "arroba"),
    ("×", "por"),
    ("÷", "entre"),
    ("<", "menor que"),
    (">", "mayor que"),
    ("#", "número"),
];
const MONTHS: [&str; 12] = [
    "enero",
    "febrero",
    "marzo",
    "abril",
    "mayo",
    "junio",
    "julio",
    "agosto",
    "septiembre",
    "octubre",
    "noviembre",
    "diciembre",
];
/// Words that no noun is, after which a number is said alone.
const NO_NOUNS: [&str; 12] =
    ["y", "o", "a", "de", "por", "más", "menos", "en", "al", "es", "con", "entre"];
/// Masculine nouns that end with a, and with as.
const MASCULINE: [&str; 8] =
    ["día", "mapa", "problema", "programa", "sistema", "tema", "idioma", "planeta"];
/// Letters of the alphabet beyond ASCII.
const LETTERS: &str = "áéíóúüñ";

/// Splits `text` into clauses. `is_known` is true for words of the dictionary; other words in capitals
/// are spelled letter by letter.
pub(super) fn clauses(text: &str, is_known: impl Fn(&str) -> bool) -> Vec<Clause> {
    let mut building = ClauseBuilder::default();
    let pieces: Vec<(String, u32)> = text.split_whitespace().zip(1..).flat_map(pieces_of).collect();
    let mut at = 0;
    while let Some((piece, number)) = pieces.get(at) {
        let next = pieces.get(at + 1).map(|(text, _)| text.as_str());
        let lower = piece.to_lowercase();
        let is_abbreviation = lookup(ABBREVIATIONS, lower.trim_start_matches(QUOTES)).is_some();
        let (mut end, mut number) = (clause_end(&lower).filter(|_| !is_abbreviation), *number);
        if push_piece(piece, next, &mut building.words, &is_known) {
            // The next piece is the unit of this number.
            at += 1;
            (end, number) = (clause_end(&pieces[at].0), pieces[at].1);
        }
        building.end_piece(number, end);
        at += 1;
    }
    building.finish()
}

/// Pieces of a written word: brackets and dashes become commas.
fn pieces_of((word, number): (&str, u32)) -> Vec<(String, u32)> {
    let plain = word.replace('−', "-").replace(['¿', '¡', '«', '»'], " ");
    let plain = plain.replace(['—', '–', ';', '…', '(', ')', '[', ']'], ", ");
    plain.split_whitespace().map(|piece| (piece.to_owned(), number)).collect()
}

/// Appends the words of a piece. Returns true if they hold those of the unit in `next`.
fn push_piece(
    piece: &str,
    next: Option<&str>,
    words: &mut Vec<String>,
    is_known: &impl Fn(&str) -> bool,
) -> bool {
    let lower = piece.to_lowercase();
    let name = lower.trim_start_matches(QUOTES);
    let marks = [',', ':', '?', '!', '"', '\'', '”', '“', '*'];
    let spoken = lookup(ABBREVIATIONS, name.trim_end_matches(marks));
    if let Some(spoken) = spoken.or_else(|| lookup(SIGNS, name)) {
        words.extend(spoken.split(' ').map(str::to_owned));
        return false;
    }
    let is_inner = |c: char| {
        c.is_alphanumeric() || matches!(c, '%' | '°' | '-' | '+') || CURRENCIES.contains(&c)
    };
    let core = piece.trim_matches(|c| !is_inner(c));
    if push_time(core, words) || push_date(core, words) || push_ordinal(core, words) {
        return false;
    }
    let next_core = next.map(|next| next.trim_end_matches(['.', ',', ':', '?', '!', '"', '”']));
    if let Some(number) = Number::parse(core) {
        // A mark separates the number from the next word.
        let follows = next_core.filter(|_| clause_end(piece).is_none());
        if let Some(unit) = follows.and_then(unit) {
            push_with_unit(&number, unit, words);
            return true;
        }
        number.push(form_before(follows), words);
        return false;
    }
    if push_amount(core, words) {
        return false;
    }
    for part in core.split(|c: char| !(is_inner(c) && c != '-')) {
        push_mixed(part, words, is_known);
    }
    false
}

/// A row of [`UNITS`].
type Unit = &'static (&'static str, &'static str, &'static str, bool);

fn unit(text: &str) -> Option<Unit> {
    let lower = text.to_lowercase();
    UNITS.iter().find(|(name, ..)| *name == lower)
}

/// Form of a number before the word `next`: feminine nouns mostly end with a.
fn form_before(next: Option<&str>) -> Form {
    let Some(next) = next.map(str::to_lowercase) else { return Form::Alone };
    if NO_NOUNS.contains(&next.as_str()) || !next.chars().all(char::is_alphabetic) {
        Form::Alone
    } else if MASCULINE.contains(&next.trim_end_matches('s')) {
        Form::Masculine
    } else if next.ends_with('a') || next.ends_with("as") || next.ends_with("ción") {
        Form::Feminine
    } else {
        Form::Masculine
    }
}

fn push_with_unit(number: &Number<'_>, unit: Unit, words: &mut Vec<String>) {
    let (name, one, several, is_feminine) = *unit;
    let form = if is_feminine { Form::Feminine } else { Form::Masculine };
    let is_money = name.starts_with(CURRENCIES) || matches!(name, "eur" | "usd");
    let cents = number.cents().filter(|_| is_money);
    let whole = Number::whole(number.whole);
    let number = if cents.is_some() { &whole } else { number };
    // A percentage is said as a number alone.
    number.push(if name == "%" { Form::Alone } else { form }, words);
    words.extend((if number.is_one() { one } else { several }).split(' ').map(str::to_owned));
    if let Some(cents) = cents.filter(|cents| *cents > 0) {
        words.push("con".to_owned());
        push_cardinal(cents, Form::Alone, words);
    }
}

/// Appends a number that adjoins its unit or currency, such as `40%` and `€5`.
fn push_amount(core: &str, words: &mut Vec<String>) -> bool {
    let unsigned = core.trim_start_matches(['-', '+']);
    if let Some(sign) = unsigned.chars().next().filter(|c| CURRENCIES.contains(c)) {
        let amount = Number::parse(&unsigned[sign.len_utf8()..]);
        if let Some((amount, unit)) = amount.zip(unit(sign.encode_utf8(&mut [0; 4]))) {
            push_with_unit(&amount, unit, words);
            return true;
        }
    }
    let Some(at) = core.rfind(|c: char| c.is_ascii_digit()) else { return false };
    let (value, rest) = core.split_at(at + 1);
    match Number::parse(value).zip(unit(rest)) {
        Some((number, unit)) => push_with_unit(&number, unit, words),
        None => return false,
    }
    true
}

/// Appends a time of day, such as `7:30`.
fn push_time(core: &str, words: &mut Vec<String>) -> bool {
    let Some((hour, minute)) = core.strip_suffix('h').unwrap_or(core).split_once(':') else {
        return false;
    };
    let is_valid = (1..=2).contains(&hour.len()) && minute.len() == 2;
    let numbers = hour.parse::<u64>().ok().zip(minute.parse::<u64>().ok());
    let Some((hour, minute)) = numbers.filter(|(h, m)| is_valid && *h < 25 && *m < 60) else {
        return false;
    };
    push_cardinal(hour, Form::Feminine, words);
    if (1..10).contains(&minute) {
        words.push("cero".to_owned());
    }
    if minute > 0 {
        push_cardinal(minute, Form::Alone, words);
    }
    true
}

/// Appends a date, such as `3/5/2026` or `03-05-2026`: day, month, year.
fn push_date(core: &str, words: &mut Vec<String>) -> bool {
    let parts: Vec<&str> = core.split(['/', '-']).collect();
    let [day, month, year] = parts.as_slice() else { return false };
    let number = |text: &str| text.parse::<u64>().ok();
    let (Some(day), Some(month), Some(year)) = (number(day), number(month), number(year)) else {
        return false;
    };
    let name = usize::try_from(month).ok().and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    let Some(name) = name.filter(|_| (1..=31).contains(&day) && year < 10_000) else {
        return false;
    };
    push_cardinal(day, Form::Alone, words);
    words.extend(["de", name, "de"].map(str::to_owned));
    push_cardinal(year, Form::Alone, words);
    true
}

/// Appends an ordinal, such as `3.º` or `2ª`.
fn push_ordinal(core: &str, words: &mut Vec<String>) -> bool {
    let Some(sign) = core.chars().next_back().filter(|c| matches!(c, 'º' | 'ª')) else {
        return false;
    };
    let value = core.trim_end_matches(['º', 'ª', '.']);
    let Some(number) = value.parse().ok() else { return false };
    match ordinal(number, sign == 'ª') {
        Some(name) => words.push(name),
        None => push_cardinal(number, Form::Alone, words),
    }
    true
}

/// Appends the words and numbers of a part that may hold both.
fn push_mixed(part: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) {
    let is_numeric = |c: char| c.is_ascii_digit();
    let mut rest = part;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_numeric(c) != is_numeric(first)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        match Number::parse(run) {
            Some(number) => number.push(Form::Alone, words),
            None if is_numeric(first) => push_digits(run, words),
            None => push_word(run, words, is_known),
        }
    }
}

/// Appends a word, or the letters of an unknown one in capitals.
fn push_word(part: &str, words: &mut Vec<String>, is_known: &impl Fn(&str) -> bool) {
    let mut letters = String::new();
    for letter in part.to_lowercase().chars() {
        match letter {
            'a'..='z' => letters.push(letter),
            _ if LETTERS.contains(letter) => letters.push(letter),
            '%' | '°' | '€' | '$' | '£' | '¥' => {
                let name = unit(letter.encode_utf8(&mut [0; 4])).map(|(_, _, several, _)| *several);
                letters.extend(name);
            }
            _ => letters.extend(
                letters::plain_letters(letter.encode_utf8(&mut [0; 4]))
                    .to_lowercase()
                    .chars()
                    .filter(char::is_ascii_lowercase),
            ),
        }
    }
    let is_capitals = part.chars().count() > 1 && part.chars().all(char::is_uppercase);
    if is_capitals && !is_known(&letters) {
        words.extend(letters.chars().map(String::from));
    } else {
        words.extend(letters.split(' ').filter(|word| !word.is_empty()).map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tts::normalize::tests::spoken;

    fn check(text: &str, expected: &str) {
        let known = ["hola", "no"];
        let found = clauses(text, |word| known.contains(&word));
        for clause in &found {
            assert_eq!(clause.words.len(), clause.written.len());
        }
        assert_eq!(spoken(&found), expected, "{text}");
    }

    #[test]
    fn text_is_split_at_punctuation() {
        check("¿Dónde está mi llave, Ana?", "dónde está mi llave, ana?");
        check("¡HOLA! La ONU (o no) existe", "hola! la o n u, o no, existe.");
        check("El Sr. Núñez y la Dra. Peña, etc.", "el señor núñez y la doctora peña, etcétera.");
        check("«Sí», dijo “Łukasz”. … —", "sí, dijo lukasz.");
        check("  ", "");
    }

    #[test]
    fn numbers_agree_with_their_noun() {
        let cases = [
            ("21 minutos, 21 horas y 1", "veintiún minutos, veintiuna horas y uno."),
            ("1 hora o 31 días", "una hora o treinta y un días."),
            ("1.200 km y 2.000.001", "mil doscientos kilómetros y dos millones uno."),
            ("3,5 o -4,05 °C", "tres coma cinco o menos cuatro coma cero cinco grados celsius."),
            ("100% y 21 %", "cien por ciento y veintiuno por ciento."),
            ("500 personas, 200 casas", "quinientas personas, doscientas casas."),
            (
                "0 y 999.999.999.999",
                "cero y novecientos noventa y nueve mil novecientos noventa y nueve \
              millones novecientos noventa y nueve mil novecientos noventa y nueve.",
            ),
            ("R2D2", "r dos d dos."),
        ];
        for (text, expected) in cases {
            check(text, expected);
        }
    }

    #[test]
    fn times_dates_and_money() {
        let cases = [
            ("A las 7:30 o 1:05.", "a las siete treinta o una cero cinco."),
            ("El 3/5/2026", "el tres de mayo de dos mil veintiséis."),
            ("5 €, 1 € y $2,50", "cinco euros, un euro y dos dólares con cincuenta."),
            ("la 2ª y el 3.º", "la segunda y el tercero."),
            ("25:99 y 40/50/60", "veinticinco noventa y nueve y cuarenta cincuenta sesenta."),
        ];
        for (text, expected) in cases {
            check(text, expected);
        }
    }
}
