//! Written text and its spoken form.

use super::*;

/// Words of clauses with their marks.
pub(super) fn spoken(clauses: &[Clause]) -> String {
    let written = clauses.iter().map(|clause| {
        let mark = match clause.end {
            ClauseEnd::Statement => '.',
            ClauseEnd::Comma => ',',
            ClauseEnd::Question => '?',
            ClauseEnd::Exclamation => '!',
        };
        format!("{}{mark}", clause.words.join(" "))
    });
    written.collect::<Vec<_>>().join(" ")
}

fn check(text: &str, expected: &str) {
    let known = ["turn", "ok", "i", "pin", "nasa"];
    let found = clauses(text, Language::English, |word| known.contains(&word));
    assert_eq!(spoken(&found), expected, "{text}");
}

#[test]
fn text_is_split_at_punctuation() {
    check("Hello, Anna! How are you?", "hello, anna! how are you?");
    check("It's done", "it's done.");
    check("He said \"stop.\" Then - nothing", "he said stop. then nothing.");
    check("the kitchen (or the hall)", "the kitchen, or the hall,");
    check("   ", "");
    check("...", "");
}

#[test]
fn numbers_and_signs_become_words() {
    check("It is 7:30 pm.", "it is seven thirty p m.");
    check("at 7:05pm", "at seven oh five p m.");
    check("I am here at 7 AM.", "i am here at seven a m.");
    check(
        "21°C and 5% of $3.50",
        "twenty one degrees celsius and five percent of three dollars fifty.",
    );
    check("The 3rd of May, 1,200 km", "the third of may, one thousand two hundred kilometers.");
    check("-4 degrees & more", "minus four degrees and more.");
    check("R2D2 has 10-20", "r two d two has ten to twenty.");
    check("−4°C, .5 miles", "minus four degrees celsius, zero point five miles.");
}

#[test]
fn units_are_singular_or_plural() {
    let cases = [
        ("100 km/h, 5 m/s", "one hundred kilometers per hour, five meters per second."),
        ("100km/h and 1 km/h", "one hundred kilometers per hour and one kilometer per hour."),
        ("1 km, 1°C and 1 min.", "one kilometer, one degree celsius and one minute."),
        ("21 km or 2.1 km", "twenty one kilometers or two point one kilometers."),
        ("1% at 1 pm", "one percent at one p m."),
        ("20 €, 1 €", "twenty euros, one euro."),
        ("I am a km/h", "i am a km h."),
    ];
    for (text, expected) in cases {
        check(text, expected);
    }
}

#[test]
fn numbers_may_adjoin_letters() {
    let cases = [
        ("16GB or 16gb", "sixteen gigabytes or sixteen gigabytes."),
        ("a 4K camera", "a four k camera."),
        ("gate B12", "gate b twelve."),
        ("60Hz, 2.4 GHz", "sixty hertz, two point four gigahertz."),
        ("5xnz", "five x n z."),
        ("9bars", "nine bars."),
        ("-16dB", "minus sixteen decibels."),
        ("MP3 and v2.0", "m p three and v two point zero."),
        ("-1.5GB", "minus one point five gigabytes."),
        ("192.168.0.1", "one hundred ninety two dot one hundred sixty eight dot zero dot one."),
        ("3.5.1", "three dot five dot one."),
        ("7:05:30", "seven oh five thirty."),
        ("10:30-11:00", "ten thirty to eleven o'clock."),
        ("50%-60%", "fifty percent to sixty percent."),
        ("A1 B2,C3", "a one b two c three."),
        ("the 1,000th", "the one thousandth."),
        ("2026's", "two thousand twenty six s."),
    ];
    for (text, expected) in cases {
        check(text, expected);
    }
}

#[test]
fn money_has_sign_scale_and_cents() {
    let cases = [
        ("$5m", "five million dollars."),
        ("$5k or £1.2bn", "five thousand dollars or one point two billion pounds."),
        ("$1M", "one million dollars."),
        ("-$5", "minus five dollars."),
        ("€-5", "minus five euros."),
        ("-$1", "minus one dollar."),
        ("$1,200", "one thousand two hundred dollars."),
        ("$3.5", "three dollars fifty."),
        ("$3.05", "three dollars five."),
        ("$3.00", "three dollars."),
        ("$1.999", "one point nine nine nine dollars."),
        ("$5-$10", "five dollars to ten dollars."),
        ("$1.2 billion, or", "one point two billion dollars, or."),
        ("(-$5 Million) now", "minus five million dollars, now."),
        ("$5 or million", "five dollars or million."),
        ("$5m million", "five million dollars million."),
        ("$5 m", "five dollars m."),
        ("5€ and 1.20$", "five euros and one dollar twenty."),
        ("US$5 and US$1", "five u s dollars and one u s dollar."),
        ("$.50", "zero dollars fifty."),
        ("$5x", "five x."),
        ("$x", "x."),
        ("$", ""),
    ];
    for (text, expected) in cases {
        check(text, expected);
    }
}

#[test]
fn decades_are_not_seconds() {
    let cases = [
        ("the 1990s", "the nineteen nineties."),
        ("the 1990's", "the nineteen nineties."),
        ("the '80s", "the eighties."),
        ("in 80s", "in eighty seconds."),
        ("the 5s", "the five seconds."),
        ("3000s", "three thousand seconds."),
    ];
    for (text, expected) in cases {
        check(text, expected);
    }
}

#[test]
fn abbreviations_do_not_end_a_clause() {
    check("Mr. Smith met Dr. Jones.", "mister smith met doctor jones.");
    check("at 5 p.m. on Monday", "at five p m on monday.");
    check("fruit, e.g., apples, etc., too", "fruit, for example, apples, et cetera, too.");
    check("\"Mr. Smith\" (i.e. “Dr.” Jones)", "mister smith, that is doctor jones,");
    check("at 5 p.m.? No: a.m.!", "at five p m? no, a m!");
    check("dr.jones", "dr jones.");
}

#[test]
fn unknown_capitals_are_spelled() {
    check("the BBC is OK", "the b b c is ok.");
    check("café", "cafe.");
}

#[test]
fn spoken_words_refer_to_written_words() {
    let found = english("At 7:30 (or later) Dr. Jones — well, she — came.", |_| true);
    let words = found.iter().flat_map(|clause| clause.words.iter().zip(&clause.written));
    let words: Vec<_> = words.map(|(word, number)| format!("{word} {number}")).collect();
    let expected = [
        "at 1", "seven 2", "thirty 2", "or 3", "later 4", "doctor 5", "jones 6", "well 8", "she 9",
        "came 11",
    ];
    assert_eq!(words, expected);
}

#[test]
fn long_clauses_are_cut() {
    let found = english(&"word ".repeat(30), |_| true);
    assert_eq!(found.iter().map(|clause| clause.words.len()).collect::<Vec<_>>(), [24, 6]);
    let found = english(&format!("It is 3.{}.", "1".repeat(100)), |_| true);
    let about = found.iter().map(|clause| (clause.words.len(), clause.written.len()));
    assert_eq!(about.collect::<Vec<_>>(), [(24, 24), (24, 24), (24, 24), (32, 32)]);
    assert_eq!((found[0].end, found[3].end), (ClauseEnd::Comma, ClauseEnd::Statement));
}

/// Cases of `spoken.tsv`: written text, a tab, and the spoken words with the ends of clauses.
#[test]
fn text_is_spoken_as_written() {
    let cases: Vec<&str> = include_str!("spoken.tsv").lines().collect();
    assert!(cases.len() >= 200, "{}", cases.len());
    for case in cases {
        let (written, spoken) = case.split_once('\t').unwrap();
        check(written, spoken);
    }
}

#[test]
fn words_of_unknown_scripts_are_named() {
    let check = |text: &str, expected: &[&str]| {
        assert_eq!(unspeakable(text).collect::<Vec<_>>(), expected, "{text}");
    };
    check("It is 北京, Москва, and Ψ.", &["北京,", "Москва,", "Ψ."]);
    check("½ cup, 5 m², Łódź, “Škoda” – 20 €, 😀, 5 µm", &[]);
    check("٣ o'clock", &["٣"]);
}

#[test]
fn any_number_of_ampersands_joins_words() {
    check("turn&ok&&turn & ok&", "turn and ok and turn and ok.");
    let count = 20_000;
    let found = english(&"ok&".repeat(count), |_| true);
    let words: usize = found.iter().map(|clause| clause.words.len()).sum();
    assert_eq!(words, 2 * count - 1);
}
