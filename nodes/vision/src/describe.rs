//! Answers about objects and text in images.

use std::{collections::BTreeMap, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{
    Text,
    vision::{Detections, TextRegions},
};

params! {
    /// Settings of [`Describe`].
    pub struct DescribeParams {
        /// Least score of an object that is named.
        pub score: f32 = "0.5", range 0.0..=1.0;
        /// Age above which results are not described.
        pub max_age: Duration = "2s", range 0.0..=3600.0;
    }
}

/// Answers questions about what a camera shows, in sentences, from detected objects and text.
///
/// Questions are recognized by their words: "what do you see", "what is in front of me" and "describe"
/// ask for everything; "read" and "what does it say" for the text; "do you see a ..." and "how many
/// ..." for a class of the detector. Other questions are sent on `other`, for a language model.
///
/// The answer uses the last results before the question. If they are older than `max_age`, it says
/// that there is no image.
///
/// Latency: none.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Params, Timestamp};
/// use afferent_messages::{Text, vision::{Box2d, Detection, Detections}};
/// use afferent_nodes_vision::{Describe, DescribeParams};
///
/// let params = DescribeParams::from_values(&Default::default()).unwrap();
/// let mut bench = NodeBench::new(Describe::open(params, &OpenCx::default())?);
/// let lamp = Detection { label: "lamp".into(), score: 0.9, bounds: Box2d::default(), track: None };
/// let found = Detections { detections: vec![lamp], ..Detections::default() };
/// bench.call(Describe::DETECTIONS, Timestamp::ZERO, found)?;
/// let sent = bench.call(Describe::QUESTION, Timestamp(1), Text::from("what do you see"))?;
/// assert_eq!(sent[0].1.get::<Text>().unwrap().text, "I see a lamp.");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Describe {
    params: DescribeParams,
    /// Number of the objects of each class.
    objects: Option<(Timestamp, BTreeMap<String, usize>)>,
    lines: Option<(Timestamp, Vec<String>)>,
}

ports! {
    impl Describe {
        /// Questions, complete.
        in QUESTION: Text;
        /// Objects of the last image.
        in DETECTIONS: Detections, optional;
        /// Text in the last image.
        in TEXTS: TextRegions, optional;
        /// Answers, in the turn of their question.
        out ANSWER: Text;
        /// Questions about anything else.
        out OTHER: Text;
    }
}

/// Subject of a question.
#[derive(Debug, PartialEq)]
enum Subject {
    /// Everything in the image.
    All,
    /// The text in the image.
    Text,
    /// The objects of a class.
    Class(String),
}

/// Phrases that ask for everything, and for the text.
const ALL: &[&str] =
    &["what do you see", "what can you see", "in front of", "describe", "look around"];
const TEXT: &[&str] = &["does it say", "does that say", "is written", "read"];

/// Phrases that ask for a class.
const CLASS: &[&str] = &["do you see", "can you see", "is there", "are there", "how many"];

const NUMBERS: [&str; 13] = [
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
];

/// Words in lower case, with one space before and after each.
fn normalized(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    let mut result = String::from(" ");
    for word in words.filter(|word| !word.is_empty()) {
        result.push_str(&word.to_lowercase());
        result.push(' ');
    }
    result
}

fn plural(class: &str) -> String {
    match class {
        "person" => "people".to_owned(),
        "knife" => "knives".to_owned(),
        "mouse" => "mice".to_owned(),
        "sheep" | "scissors" | "skis" => class.to_owned(),
        _ if ["s", "x", "ch", "sh"].iter().any(|end| class.ends_with(end)) => format!("{class}es"),
        _ => format!("{class}s"),
    }
}

/// A number of objects, such as "a chair" and "two chairs".
fn counted(class: &str, count: usize) -> String {
    match count {
        1 if class.starts_with(['a', 'e', 'i', 'o', 'u']) => format!("an {class}"),
        1 => format!("a {class}"),
        _ => match NUMBERS.get(count) {
            Some(number) => format!("{number} {}", plural(class)),
            None => format!("{count} {}", plural(class)),
        },
    }
}

/// A list, such as "a, b and c".
fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

impl Describe {
    /// Subject of a question; `None` if it is about something else.
    fn subject(&self, question: &str, now: Timestamp) -> Option<Subject> {
        let question = normalized(question);
        let says = |phrases: &[&str]| {
            phrases.iter().any(|phrase| question.contains(&format!(" {phrase} ")))
        };
        let known = self.objects(now).into_iter().flatten().map(|(class, _)| class);
        let mut named = known.chain(COMMON.iter().copied()).filter(|class| {
            [(*class).to_owned(), plural(class)]
                .iter()
                .any(|word| question.contains(&format!(" {word} ")))
        });
        match named.next() {
            Some(class) if says(CLASS) => Some(Subject::Class(class.to_owned())),
            _ if says(ALL) => Some(Subject::All),
            _ if says(TEXT) => Some(Subject::Text),
            _ => None,
        }
    }

    /// True for results of the time `at`.
    fn is_recent(&self, at: Timestamp, now: Timestamp) -> bool {
        now.since(at) <= self.params.max_age
    }

    /// Classes and numbers of the objects; `None` if they are not known.
    fn objects(&self, now: Timestamp) -> Option<impl Iterator<Item = (&str, usize)>> {
        let (at, objects) = self.objects.as_ref()?;
        self.is_recent(*at, now)
            .then(|| objects.iter().map(|(class, count)| (class.as_str(), *count)))
    }

    fn lines(&self, now: Timestamp) -> Option<&[String]> {
        let (at, lines) = self.lines.as_ref()?;
        self.is_recent(*at, now).then_some(lines)
    }

    fn answer(&self, subject: &Subject, now: Timestamp) -> String {
        let objects: Option<Vec<_>> = self.objects(now).map(Iterator::collect);
        let lines = self.lines(now);
        let seen = objects.as_ref().filter(|objects| !objects.is_empty()).map(|objects| {
            let parts: Vec<_> =
                objects.iter().map(|(class, count)| counted(class, *count)).collect();
            format!("I see {}.", listed(&parts))
        });
        let read = lines
            .filter(|lines| !lines.is_empty())
            .map(|lines| format!("The text says: {}.", lines.join(", ")));
        match subject {
            _ if objects.is_none() && lines.is_none() => "I have no image.".to_owned(),
            Subject::All => {
                let parts: Vec<_> = [seen, read].into_iter().flatten().collect();
                if parts.is_empty() {
                    "I see nothing that I know.".to_owned()
                } else {
                    parts.join(" ")
                }
            }
            Subject::Text => read.unwrap_or_else(|| "I see no text.".to_owned()),
            Subject::Class(class) => {
                let found = objects.iter().flatten().find(|(known, _)| known == class);
                match found {
                    Some((_, count)) => format!("I see {}.", counted(class, *count)),
                    None => format!("I see {}.", counted(class, 0)),
                }
            }
        }
    }
}

/// Classes of COCO and of the shipped detector that are often asked for: they are recognized in a
/// question when none is in the image.
const COMMON: &[&str] = &[
    "person",
    "bicycle",
    "car",
    "bus",
    "train",
    "truck",
    "bench",
    "bird",
    "cat",
    "dog",
    "backpack",
    "umbrella",
    "handbag",
    "suitcase",
    "ball",
    "bottle",
    "cup",
    "fork",
    "knife",
    "spoon",
    "bowl",
    "banana",
    "apple",
    "chair",
    "couch",
    "plant",
    "bed",
    "table",
    "toilet",
    "laptop",
    "mouse",
    "keyboard",
    "phone",
    "oven",
    "sink",
    "refrigerator",
    "book",
    "clock",
    "vase",
    "scissors",
    "box",
    "can",
    "lamp",
];

impl Node for Describe {
    type Params = DescribeParams;

    const NAME: &'static str = "describe";
    const SUMMARY: &'static str = "Answers questions about objects and text in images.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open(params: DescribeParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { params, objects: None, lines: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let at = cx.at();
        if cx.restarted() {
            (self.objects, self.lines) = (None, None);
        }
        match cx.port() {
            Some(port) if port == Self::DETECTIONS.name() => {
                if let Some(found) = cx.get(Self::DETECTIONS) {
                    let mut objects = BTreeMap::new();
                    let sure =
                        found.detections.iter().filter(|found| found.score >= self.params.score);
                    sure.for_each(|found| {
                        *objects.entry(found.label.to_string()).or_insert(0) += 1
                    });
                    self.objects = Some((at, objects));
                }
            }
            Some(port) if port == Self::TEXTS.name() => {
                if let Some(found) = cx.get(Self::TEXTS) {
                    let lines = found.regions.iter().map(|region| region.text.clone());
                    self.lines = Some((at, lines.filter(|line| !line.is_empty()).collect()));
                }
            }
            _ => {
                let Some(question) = cx.take(Self::QUESTION) else { return Ok(()) };
                match self.subject(&question.text, at) {
                    Some(subject) => {
                        let text = self.answer(&subject, at);
                        let turn = question.turn;
                        cx.send(Self::ANSWER, Text { turn, text, is_last: true });
                    }
                    None => cx.send(Self::OTHER, question),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, Params};
    use afferent_messages::vision::{Box2d, Detection, TextRegion};

    use super::*;

    struct Run(NodeBench<Describe>);

    impl Run {
        fn new() -> Self {
            let params = DescribeParams::from_values(&Default::default()).unwrap();
            Self(NodeBench::new(Describe::open(params, &OpenCx::default()).unwrap()))
        }

        fn show(&mut self, seconds: i64, labels: &[(&str, f32)], lines: &[&str]) {
            let at = Timestamp(seconds * 1_000_000_000);
            let detection = |(label, score): &(&str, f32)| Detection {
                label: (*label).into(),
                score: *score,
                bounds: Box2d::default(),
                track: None,
            };
            let detections = labels.iter().map(detection).collect();
            let found = Detections { detections, ..Detections::default() };
            self.0.call(Describe::DETECTIONS, at, found).unwrap();
            let region =
                |line: &&str| TextRegion { text: (*line).to_owned(), ..TextRegion::default() };
            let regions = lines.iter().map(region).collect();
            let found = TextRegions { regions, ..TextRegions::default() };
            self.0.call(Describe::TEXTS, at, found).unwrap();
        }

        /// The answer, or the question on `other`.
        fn ask(&mut self, seconds: i64, question: &str) -> String {
            let at = Timestamp(seconds * 1_000_000_000);
            let question = Text { turn: 7, ..Text::from(question) };
            let sent = self.0.call(Describe::QUESTION, at, question).unwrap();
            let text = sent[0].1.get::<Text>().unwrap();
            assert_eq!(text.turn, 7);
            let port = if sent[0].0 == Describe::OTHER.name() { "other: " } else { "" };
            format!("{port}{}", text.text)
        }
    }

    #[test]
    fn objects_and_text_are_named() {
        let mut run = Run::new();
        let objects =
            [("chair", 0.9), ("table", 0.8), ("chair", 0.6), ("ball", 0.3), ("apple", 0.9)];
        run.show(1, &objects, &["EXIT", "Room 204"]);
        let all = "I see an apple, two chairs and a table. The text says: EXIT, Room 204.";
        assert_eq!(run.ask(2, "What do you see?"), all);
        assert_eq!(run.ask(2, "read it to me"), "The text says: EXIT, Room 204.");
        assert_eq!(run.ask(2, "how many chairs are there"), "I see two chairs.");
        assert_eq!(run.ask(2, "Do you see a ball?"), "I see no balls.");
        assert_eq!(run.ask(2, "what is the time"), "other: what is the time");
        assert_eq!(
            run.ask(2, "i already ate"),
            "other: i already ate",
            "no word is read in another"
        );
    }

    #[test]
    fn old_and_empty_results() {
        let mut run = Run::new();
        assert_eq!(run.ask(0, "what do you see"), "I have no image.");
        run.show(1, &[], &[]);
        assert_eq!(run.ask(2, "what do you see"), "I see nothing that I know.");
        assert_eq!(run.ask(2, "what does it say"), "I see no text.");
        run.show(3, &[("box", 0.7)], &[]);
        assert_eq!(run.ask(4, "what do you see"), "I see a box.");
        assert_eq!(run.ask(6, "what do you see"), "I have no image.");
        assert_eq!(
            (counted("box", 3), counted("person", 13)),
            ("three boxes".into(), "13 people".into())
        );
    }
}
