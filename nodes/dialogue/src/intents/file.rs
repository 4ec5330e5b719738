//! The YAML file of intents.

use std::{collections::BTreeMap, fs, path::Path};

use afferent_graph::NodeError;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::grammar::{Template, normalized};

/// Intents in the order of the file, the first match wins.
pub(super) struct Intents(Vec<Intent>);

struct Intent {
    tool: String,
    templates: Vec<Template>,
    arguments: Map<String, Value>,
    say: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IntentSpec {
    phrases: Vec<String>,
    tool: Option<String>,
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
        let specs: BTreeMap<String, IntentSpec> =
            serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let intent = |(name, spec): (String, IntentSpec)| {
            if spec.phrases.is_empty() {
                return Err(format!("intent {name} has no phrases"));
            }
            let templates = spec.phrases.iter().map(|phrase| Template::new(phrase));
            let templates = templates.collect::<Result<_, _>>();
            Ok(Intent {
                templates: templates.map_err(|reason| format!("intent {name}: {reason}"))?,
                tool: spec.tool.unwrap_or(name),
                arguments: spec.arguments,
                say: spec.say,
            })
        };
        Ok(Self(specs.into_iter().map(intent).collect::<Result<_, _>>()?))
    }

    /// Tool and arguments of a sentence. Of several matches, the one with the fewest words in its slots
    /// wins, then the first in the order of the names.
    pub(super) fn call(&self, sentence: &str) -> Option<(&str, Map<String, Value>)> {
        let sentence = normalized(sentence);
        let mut best: Option<(usize, &Intent, Vec<(&str, String)>)> = None;
        for intent in &self.0 {
            for slots in intent.templates.iter().filter_map(|template| template.slots_of(&sentence))
            {
                let words = slots.iter().map(|(_, value)| value.split(' ').count()).sum();
                if best.as_ref().is_none_or(|(least, ..)| words < *least) {
                    best = Some((words, intent, slots));
                }
            }
        }
        let (_, intent, slots) = best?;
        let mut arguments = intent.arguments.clone();
        arguments.extend(slots.into_iter().map(|(slot, value)| (slot.to_owned(), value.into())));
        Some((&intent.tool, arguments))
    }

    /// Sentence for the result of a tool: that of the intent with its `{fields}` filled in, or the
    /// field `phrase` of the result.
    ///
    /// # Errors
    /// What is missing.
    pub(super) fn say(&self, tool: &str, result: &Map<String, Value>) -> Result<String, String> {
        if let Some(error) = result.get("error") {
            return Err(error.as_str().map_or_else(|| error.to_string(), str::to_owned));
        }
        let intent = self.0.iter().find(|intent| intent.tool == tool);
        let Some(template) = intent.and_then(|intent| intent.say.as_deref()) else {
            let phrase = result.get("phrase").and_then(Value::as_str);
            return phrase.map(str::to_owned).ok_or_else(|| {
                "the result has no field \"phrase\"; set `say` of its intent".to_owned()
            });
        };
        let mut said = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let (field, after) = after.split_once('}').ok_or("`}` is missing in `say`")?;
            let value =
                result.get(field).ok_or_else(|| format!("the result has no field {field:?}"))?;
            said.push_str(before);
            said.push_str(&value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            rest = after;
        }
        said.push_str(rest);
        Ok(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
where_is: {phrases: ['where is {thing}', 'find {thing}']}
my_place: {phrases: ['where is my home'], tool: navigate, arguments: {to: home}, say: 'it is {distance} {unit} away.'}
";

    #[test]
    fn the_most_specific_template_wins() {
        let intents = Intents::parse(FILE).unwrap();
        let call = |sentence: &str| {
            intents
                .call(sentence)
                .map(|(tool, arguments)| format!("{tool} {}", Value::Object(arguments)))
        };
        assert_eq!(call("Where is my mug?").unwrap(), "where_is {\"thing\":\"my mug\"}");
        assert_eq!(call("where is my home").unwrap(), "navigate {\"to\":\"home\"}");
        assert_eq!(call("what is the time"), None);
    }

    #[test]
    fn results_become_sentences() {
        let intents = Intents::parse(FILE).unwrap();
        let say = |tool: &str, json: &str| intents.say(tool, &serde_json::from_str(json).unwrap());
        assert_eq!(say("where_is", "{\"phrase\": \"here.\"}").unwrap(), "here.");
        let said = say("navigate", "{\"distance\": 12, \"unit\": \"meters\"}");
        assert_eq!(said.unwrap(), "it is 12 meters away.");
        assert_eq!(say("navigate", "{}").unwrap_err(), "the result has no field \"distance\"");
        assert_eq!(say("where_is", "{\"error\": \"no pose\"}").unwrap_err(), "no pose");
        assert!(say("where_is", "{}").unwrap_err().contains("set `say`"));
    }

    #[test]
    fn faults_name_the_intent() {
        let check = |text: &str, expected: &str| {
            let told = Intents::parse(text).err().unwrap_or_default();
            assert!(told.contains(expected), "{told}");
        };
        check("a: {phrases: ['x (y']}", "intent a: \"x (y\", column 5: `)` is missing");
        check("a: {phrases: []}", "intent a has no phrases");
        check("a: {phrase: [b]}", "phrase");
    }
}
