//! Reader of turns.

use std::{path::Path, time::Duration};

use afferent_spec::yaml::{Node, Value};

use super::Reading;
use crate::spec::{Act, Anchor, Check, Send, Shape, Speech, Turn, When};

/// Kinds of turns.
const ACTS: [&str; 5] = ["say", "play", "send", "silence", "interrupt"];
const KEYS: [&str; 17] = [
    "name",
    "say",
    "play",
    "send",
    "silence",
    "interrupt",
    "voice",
    "rate",
    "pitch",
    "from",
    "to",
    "level",
    "noise",
    "trim",
    "at",
    "after",
    "expect",
];
/// Default pause between a turn and the previous one.
const DEFAULT_PAUSE: Duration = Duration::from_millis(500);

impl Reading<'_> {
    /// Reads the turns `items` and their expectations.
    pub(super) fn turns(
        &mut self,
        items: &[Node],
        folder: &Path,
        turns: &mut Vec<Turn>,
        checks: &mut Vec<Check>,
    ) {
        // Names are collected first because an expectation may refer to any turn.
        for (number, item) in items.iter().enumerate() {
            let Some(node) = item.get("name") else { continue };
            let Some(name) = self.reader.text(node, "\"name\" of a turn") else { continue };
            if self.names.insert(name.to_owned(), number).is_some() {
                self.reader.error(&node.location, format!("there are two turns \"{name}\""));
            }
        }
        for (number, item) in items.iter().enumerate() {
            let Some(turn) = self.turn(item, number, folder) else { continue };
            turns.push(turn);
            if let Some(list) = item.get("expect").filter(|node| !node.is_null()) {
                self.checks(list, Some(number), checks);
            }
        }
    }

    fn turn(&mut self, node: &Node, number: usize, folder: &Path) -> Option<Turn> {
        let what = format!("turn {}", number + 1);
        let map = self.reader.map(node, &what, "what the user does, and when")?;
        let meant = self.reader.keys(map, &KEYS, &what);
        let given: Vec<_> =
            map.iter().filter(|(key, _)| ACTS.contains(&key.text.as_str())).collect();
        let (key, value) = match given.as_slice() {
            [(key, value)] => (key.text.as_str(), value),
            [] => {
                if !meant.iter().any(|key| ACTS.contains(key)) {
                    let acts = ACTS.join(", ");
                    let message = format!("{what} has no action: write one of {acts}");
                    self.reader.error(&node.location, message);
                }
                return None;
            }
            [_, (second, _), ..] => {
                let message = format!("{what} has two actions: split it into two turns");
                self.reader.error(&second.location, message);
                return None;
            }
        };
        let meanings = [
            (["voice", "rate", "pitch"].as_slice(), ["say"].as_slice()),
            (&["from", "to"], &["play"]),
            (&["level", "noise", "trim"], &["say", "play"]),
        ];
        for (shaping, _) in map {
            let meaning = meanings.iter().find(|(keys, _)| keys.contains(&shaping.text.as_str()));
            if meaning.is_some_and(|(_, acts)| !acts.contains(&key)) {
                let message = format!("\"{}\" is not valid for \"{key}\"", shaping.text);
                self.reader.error(&shaping.location, message);
            }
        }
        let act = match key {
            "say" => Act::Say(self.speech(node, value)?, self.shape(node, true)?),
            "play" => {
                let path = folder.join(self.reader.text(value, "\"play\", a sound file,")?);
                Act::Play(path, self.shape(node, false)?)
            }
            "send" => Act::Send(self.send(value)?),
            "silence" => Act::Silence(self.reader.span(value, "\"silence\"")?),
            _ => {
                if !self.reader.flag(value, "\"interrupt\"")? {
                    self.reader
                        .error(&value.location, "\"interrupt\" is written \"interrupt: true\"");
                }
                Act::Interrupt
            }
        };
        let when = self.when(node, number)?;
        let name = node.get("name").and_then(|name| match &name.value {
            Value::Scalar { text, .. } => Some(text.clone()),
            _ => None,
        });
        Some(Turn { name, location: value.location.clone(), act, when })
    }

    fn speech(&mut self, node: &Node, text: &Node) -> Option<Speech> {
        let text = self.reader.text(text, "\"say\"")?.to_owned();
        let voice = node.get("voice").map(|voice| self.reader.text(voice, "\"voice\""));
        let voice = voice.map_or(Some("en-us"), |voice| voice)?.to_owned();
        let rate = node.get("rate");
        let rate = rate.map(|rate| self.int(rate, "\"rate\", in words a minute,", 80..=450));
        let pitch = node.get("pitch").map(|pitch| self.int(pitch, "\"pitch\"", 0..=99));
        Some(Speech {
            text,
            voice,
            rate: rate.unwrap_or(Some(160))?,
            pitch: pitch.unwrap_or(Some(50))?,
        })
    }

    fn shape(&mut self, node: &Node, is_said: bool) -> Option<Shape> {
        let mut shape = Shape { trim: is_said, ..Shape::default() };
        if is_said {
            shape.level_dbfs = Some(-20.0);
        }
        if let Some(level) = node.get("level") {
            shape.level_dbfs = Some(self.decibels(level, "\"level\"", -90.0..=0.0)?);
        }
        if let Some(noise) = node.get("noise") {
            let map = self.reader.map(noise, "\"noise\"", "\"snr\"")?;
            self.reader.keys(map, &["snr"], "\"noise\"");
            let Some(snr) = noise.get("snr") else {
                self.reader.error(&noise.location, "\"noise\" has no \"snr\"");
                return None;
            };
            shape.snr_db = Some(self.decibels(snr, "\"snr\" of \"noise\"", -20.0..=90.0)?);
        }
        if let Some(from) = node.get("from") {
            shape.from = self.reader.span(from, "\"from\"")?;
        }
        if let Some(to) = node.get("to") {
            shape.to = Some(self.reader.duration(to, "\"to\"")?);
        }
        if let Some(trim) = node.get("trim") {
            shape.trim = self.reader.flag(trim, "\"trim\"")?;
        }
        Some(shape)
    }

    fn send(&mut self, node: &Node) -> Option<Send> {
        let map = self.reader.map(node, "\"send\"", "\"to\" and \"payload\"")?;
        let meant = self.reader.keys(map, &["to", "payload"], "\"send\"");
        let mut fields = Vec::new();
        if let Some(payload) = node.get("payload").filter(|node| !node.is_null()) {
            let payload = self.reader.map(payload, "\"payload\" of \"send\"", "fields by name")?;
            for (key, value) in payload {
                let text = self.reader.text(value, &format!("field \"{}\"", key.text));
                let Some(text) = text else { continue };
                fields.push((key.text.clone(), text.to_owned(), value.location.clone()));
            }
        }
        let Some(to) = node.get("to") else {
            if !meant.contains(&"to") {
                self.fault(
                    &node.location,
                    "\"send\" has no \"to\"",
                    "write a node and its port: \"to: asr.transcript\"",
                );
            }
            return None;
        };
        let to = self.output(to, "\"to\" of \"send\"")?;
        Some(Send { to, fields })
    }

    /// Reads the start of turn `number`.
    fn when(&mut self, node: &Node, number: usize) -> Option<When> {
        let before = match number.checked_sub(1) {
            Some(before) => Anchor::End(before),
            None => Anchor::Start,
        };
        let (at, after) = (node.get("at"), node.get("after").filter(|node| !node.is_null()));
        match (at, after) {
            (Some(at), None) => Some(When::At(self.reader.span(at, "\"at\"")?)),
            (None, None) => Some(When::After(before, DEFAULT_PAUSE)),
            (Some(_), Some(after)) => {
                let message = "a turn begins \"at\" a time or \"after\" something, not both";
                self.reader.error(&after.location, message);
                None
            }
            (None, Some(after)) if after.as_map().is_some() => {
                let anchor = self.anchor(after, number.checked_sub(1), before)?;
                Some(When::After(anchor, self.delay(after)?))
            }
            (None, Some(after)) => Some(When::After(before, self.reader.span(after, "\"after\"")?)),
        }
    }
}
