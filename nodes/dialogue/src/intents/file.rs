//! The YAML file of intents.

use std::{collections::BTreeMap, fs, path::Path};

use afferent_graph::NodeError;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::grammar::{Match, SlotLists, Template, normalized};

/// Intents in the order of their names.
pub(super) struct Intents {
    intents: Vec<Intent>,
    lists: SlotLists,
}

struct Intent {
    tool: String,
    templates: Vec<Template>,
    rename: BTreeMap<String, String>,
    arguments: Map<String, Value>,
    say: Option<Say>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    slots: SlotLists,
    intents: BTreeMap<String, IntentSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IntentSpec {
    phrases: Vec<String>,
    tool: Option<String>,
    #[serde(default)]
    rename: BTreeMap<String, String>,
    #[serde(default)]
    arguments: Map<String, Value>,
    say: Option<String>,
}

impl Intents {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`NodeError::File`] with the intent and the template that are wrong.
    pub(super) fn open(path: &Path) -> Result<Self, NodeError> {
        let failed = |reason: String| NodeError::File { path: path.to_owned(), reason };
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        Self::parse(&text).map_err(failed)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let File { slots: lists, intents } =
            serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        for (slot, values) in &lists {
            if values.is_empty() {
                return Err(format!("slot {slot} has no values"));
            }
            if let Some(value) = values.iter().find(|value| normalized(value).is_empty()) {
                return Err(format!("slot {slot}: value {value:?} has no letters or digits"));
            }
        }
        let intent = |(name, spec): (String, IntentSpec)| {
            if spec.phrases.is_empty() {
                return Err(format!("intent {name} has no phrases"));
            }
            let intent = spec.into_intent(name.clone(), &lists);
            intent.map_err(|reason| format!("intent {name}: {reason}"))
        };
        let intents = intents.into_iter().map(intent).collect::<Result<_, _>>()?;
        Ok(Self { intents, lists })
    }

    /// The intent of a sentence, and the arguments of its tool. Of several matches, the one with the fewest
    /// words that its template does not name wins, then the first in the order of the names.
    pub(super) fn call(&self, sentence: &str) -> Option<(usize, Map<String, Value>)> {
        let sentence = normalized(sentence);
        let mut best: Option<(usize, Match<'_>)> = None;
        for (index, intent) in self.intents.iter().enumerate() {
            let templates = intent.templates.iter();
            for found in templates.filter_map(|template| template.matches(&sentence, &self.lists)) {
                if best.as_ref().is_none_or(|(_, best)| found.open_words < best.open_words) {
                    best = Some((index, found));
                }
            }
        }
        let (index, Match { slots, .. }) = best?;
        let intent = &self.intents[index];
        let mut arguments = intent.arguments.clone();
        arguments.extend(slots.into_iter().map(|(slot, value)| {
            let name = intent.rename.get(slot).map_or(slot, String::as_str);
            (name.to_owned(), value.into())
        }));
        Some((index, arguments))
    }

    /// Tool of an intent.
    pub(super) fn tool(&self, intent: usize) -> &str {
        self.intents.get(intent).map_or("", |intent| &intent.tool)
    }

    /// Sentence for the result of a tool: that of the intent with its `{fields}` filled in, or the
    /// field `phrase` of the result.
    ///
    /// # Errors
    /// The missing field.
    pub(super) fn say(&self, intent: usize, result: &Map<String, Value>) -> Result<String, String> {
        if let Some(error) = result.get("error") {
            return Err(error.as_str().map_or_else(|| error.to_string(), str::to_owned));
        }
        let Some(say) = self.intents.get(intent).and_then(|intent| intent.say.as_ref()) else {
            let phrase = result.get("phrase").and_then(Value::as_str);
            return phrase.map(str::to_owned).ok_or_else(|| {
                "the result has no field \"phrase\"; set `say` of its intent".to_owned()
            });
        };
        say.fill(result)
    }
}

/// Sentence with fields of a result.
struct Say {
    /// Texts, each with the field after it.
    parts: Vec<(String, String)>,
    end: String,
}

impl Say {
    /// Parses a sentence with `{fields}`.
    ///
    /// # Errors
    /// The missing bracket.
    fn parse(text: &str) -> Result<Self, String> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (field, after) = after.split_once('}').ok_or("`}` is missing in `say`")?;
            parts.push((before.to_owned(), field.to_owned()));
            rest = after;
        }
        Ok(Self { parts, end: rest.to_owned() })
    }

    /// # Errors
    /// The missing field.
    fn fill(&self, result: &Map<String, Value>) -> Result<String, String> {
        let mut said = String::new();
        for (before, field) in &self.parts {
            let value =
                result.get(field).ok_or_else(|| format!("the result has no field {field:?}"))?;
            said.push_str(before);
            said.push_str(&value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        said.push_str(&self.end);
        Ok(said)
    }
}

impl IntentSpec {
    /// # Errors
    /// The phrase, `say` or `rename` that is wrong.
    fn into_intent(self, name: String, lists: &SlotLists) -> Result<Intent, String> {
        let templates = self.phrases.iter().map(|phrase| Template::new(phrase, lists));
        let templates: Vec<_> = templates.collect::<Result<_, _>>()?;
        let has_slot = |name: &String| templates.iter().any(|template| template.has_slot(name));
        if let Some(slot) = self.rename.keys().find(|slot| !has_slot(slot)) {
            return Err(format!("`rename` names {slot}, which is no slot of its phrases"));
        }
        Ok(Intent {
            templates,
            tool: self.tool.unwrap_or(name),
            rename: self.rename,
            arguments: self.arguments,
            say: self.say.as_deref().map(Say::parse).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
slots: {thing_here: [mug, red book]}
intents:
  where_is: {phrases: ['where is {thing}', 'find {thing}']}
  find_here: {phrases: ['... where ... {thing_here} ...'], tool: where_is, rename: {thing_here: thing}}
  my_home: {phrases: ['where is my home'], tool: navigate, arguments: {to: home}, say: 'it is {distance} {unit} away.'}
";

    #[test]
    fn the_most_specific_template_wins() {
        let intents = Intents::parse(FILE).unwrap();
        let call = |sentence: &str| {
            let (intent, arguments) = intents.call(sentence)?;
            Some(format!("{} {}", intents.tool(intent), Value::Object(arguments)))
        };
        assert_eq!(call("Where is my cat?").unwrap(), "where_is {\"thing\":\"my cat\"}");
        assert_eq!(call("where is my home").unwrap(), "navigate {\"to\":\"home\"}");
        let known = "where_is {\"thing\":\"red book\"}";
        assert_eq!(call("where the hell is that red book of mine").unwrap(), known);
        let known = "where_is {\"thing\":\"mug\"}";
        assert_eq!(call("where is the code is my mug").unwrap(), known, "a word was misheard");
        assert_eq!(call("what is the time"), None);
    }

    #[test]
    fn results_become_sentences() {
        let intents = Intents::parse(FILE).unwrap();
        let say = |sentence: &str, json: &str| {
            let (intent, _) = intents.call(sentence).unwrap();
            intents.say(intent, &serde_json::from_str(json).unwrap())
        };
        let (cat, home) = ("where is my cat", "where is my home");
        assert_eq!(say(cat, "{\"phrase\": \"here.\"}").unwrap(), "here.");
        let said = say(home, "{\"distance\": 12, \"unit\": \"meters\"}");
        assert_eq!(said.unwrap(), "it is 12 meters away.");
        assert_eq!(say(home, "{}").unwrap_err(), "the result has no field \"distance\"");
        assert_eq!(say(cat, "{\"error\": \"no pose\"}").unwrap_err(), "no pose");
        assert!(say(cat, "{}").unwrap_err().contains("set `say`"));
    }

    #[test]
    fn faults_name_the_intent() {
        let check = |text: &str, expected: &str| {
            let told = Intents::parse(text).err().unwrap_or_default();
            assert!(told.contains(expected), "{told}");
        };
        check("intents: {a: {phrases: ['x (y']}}", "intent a: \"x (y\", column 5: `)` is missing");
        check("intents: {a: {phrases: []}}", "intent a has no phrases");
        check("intents: {a: {phrase: [b]}}", "phrase");
        check("{slots: {b: []}, intents: {}}", "slot b has no values");
        check("{slots: {b: ['?']}, intents: {}}", "slot b: value \"?\" has no letters or digits");
        check("intents: {a: {phrases: [b], say: 'x {y'}}", "intent a: `}` is missing in `say`");
        let rename = "intents: {a: {phrases: ['b {c}'], rename: {d: e}}}";
        check(rename, "intent a: `rename` names d, which is no slot of its phrases");
    }
}
