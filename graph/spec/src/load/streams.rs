//! Reads `in`: the input streams of a node.
//!
//! ```yaml
//! in: mic.audio                                        # into the only input
//! in: [left.audio, right.audio]                        # several, into the only input
//! in: {from: mic.audio, on_full: latest}               # with what happens under load
//! in: {audio: mic.audio, events: [vad.events, kws]}    # by input
//! in: {audio: {from: mic.audio, queue: 4}}
//! in: {image: {from: cam.image, in_flight: 3}}         # or: in_flight: unlimited
//! in: {image: cam.image, imu: {from: imu.samples, sync: interpolate, timeout: 50ms}}
//! in: {image: {from: cam.image, on_loss: wait, loss_timeout: 5s}}
//! in: {text: asr.text, played: {from: speaker.played, feedback: true}}
//! ```

use afferent_graph::{Choice, OnFull};

use crate::{
    InputConfig, Location, OnLoss,
    load::{locations::InputLocations, reader::Reader},
    yaml::{Node, Value},
};

/// Keys of a stream.
const KEYS: [&str; 10] = [
    "from",
    "on_full",
    "queue",
    "max_age",
    "sync",
    "timeout",
    "in_flight",
    "feedback",
    "on_loss",
    "loss_timeout",
];

/// Input streams of a node, and whether some could not be read.
#[derive(Default)]
pub(crate) struct Streams {
    pub(crate) specs: Vec<InputConfig>,
    pub(crate) locations: Vec<InputLocations>,
    pub(crate) faulty: bool,
}

impl Reader {
    /// Input streams of the node `name`.
    pub(crate) fn streams(&mut self, node: &Node, name: &str) -> Streams {
        let mut streams = Streams::default();
        let what = format!("\"in\" of node \"{name}\"");
        match node.as_map() {
            _ if node.is_null() => {}
            Some(map) if !map.iter().any(|(key, _)| KEYS.contains(&key.text.as_str())) => {
                for (key, value) in map {
                    let what = format!("input \"{}\" of node \"{name}\"", key.text);
                    self.streams_into(value, &what, Some((&key.text, &key.location)), &mut streams);
                }
            }
            _ => self.streams_into(node, &what, None, &mut streams),
        }
        streams
    }

    fn streams_into(
        &mut self,
        node: &Node,
        what: &str,
        port: Option<(&str, &Location)>,
        streams: &mut Streams,
    ) {
        let items = match &node.value {
            Value::Seq(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        for item in items {
            let Some((mut spec, mut locations)) = self.stream(item, what) else {
                streams.faulty = true;
                continue;
            };
            if let Some((name, location)) = port {
                (spec.port, locations.port) = (name.to_owned(), Some(location.clone()));
            }
            streams.specs.push(spec);
            streams.locations.push(locations);
        }
    }

    fn stream(&mut self, node: &Node, what: &str) -> Option<(InputConfig, InputLocations)> {
        let mut spec = InputConfig::default();
        let mut locations = InputLocations::default();
        let Some(map) = node.as_map() else {
            let (port, from) = self.port(node, what)?;
            (spec.from_node, spec.from_port, locations.from) = (port.node, port.port, from);
            return Some((spec, locations));
        };
        let meant = self.keys(map, &KEYS, what);
        if let Some(value) = node.get("on_full") {
            spec.on_full = self.on_full(value, what);
            locations.on_full = Some(value.location.clone());
        }
        if let Some(value) = node.get("queue") {
            spec.queue = self.queue(value, what);
            locations.queue = Some(value.location.clone());
        }
        if let Some(value) = node.get("max_age") {
            spec.max_age = self.duration(value, &format!("\"max_age\" of {what}"));
            locations.max_age = Some(value.location.clone());
        }
        if let Some(value) = node.get("sync") {
            spec.sync = self.sync(value, &format!("\"sync\" of {what}"));
            locations.sync = Some(value.location.clone());
        }
        if let Some(value) = node.get("timeout") {
            spec.timeout = self.duration(value, &format!("\"timeout\" of {what}"));
            locations.timeout = Some(value.location.clone());
        }
        if let Some(value) = node.get("in_flight") {
            spec.in_flight = self.in_flight(value, what);
            locations.in_flight = Some(value.location.clone());
        }
        if let Some(value) = node.get("feedback") {
            spec.feedback = self.flag(value, &format!("\"feedback\" of {what}")).unwrap_or(false);
        }
        if let Some(value) = node.get("on_loss") {
            spec.on_loss = self.on_loss(value, what);
            locations.on_loss = Some(value.location.clone());
        }
        if let Some(value) = node.get("loss_timeout") {
            spec.loss_timeout = self.duration(value, &format!("\"loss_timeout\" of {what}"));
            locations.loss_timeout = Some(value.location.clone());
        }
        let Some(from) = node.get("from") else {
            if !meant.contains(&"from") {
                self.error(&node.location, format!("{what} does not say where it comes \"from\""));
            }
            return None;
        };
        let (port, from) = self.port(from, &format!("\"from\" of {what}"))?;
        (spec.from_node, spec.from_port, locations.from) = (port.node, port.port, from);
        Some((spec, locations))
    }

    fn on_full(&mut self, node: &Node, what: &str) -> Option<OnFull> {
        let what = format!("\"on_full\" of {what}");
        let text = self.text(node, &what)?;
        OnFull::from_word(text).or_else(|| self.unknown_word(node, &what, text, OnFull::WORDS))
    }

    fn on_loss(&mut self, node: &Node, what: &str) -> Option<OnLoss> {
        let what = format!("\"on_loss\" of {what}");
        let text = self.text(node, &what)?;
        OnLoss::from_word(text).or_else(|| self.unknown_word(node, &what, text, OnLoss::WORDS))
    }

    fn in_flight(&mut self, node: &Node, what: &str) -> Option<usize> {
        let what = format!("\"in_flight\" of {what}");
        match self.text(node, &what)? {
            "unlimited" => Some(usize::MAX),
            text => match text.parse() {
                Ok(count) if count > 0 => Some(count),
                _ => {
                    let message =
                        format!("{what} must be a number from 1 on, or unlimited, not \"{text}\"");
                    self.error(&node.location, message);
                    None
                }
            },
        }
    }

    fn queue(&mut self, node: &Node, what: &str) -> Option<usize> {
        let what = format!("\"queue\" of {what}");
        let text = self.text(node, &what)?;
        match text.parse::<i128>() {
            // Too large values are rejected by `check`, as in graphs built in Rust.
            Ok(length) if length >= 0 => Some(usize::try_from(length).unwrap_or(usize::MAX)),
            Ok(_) => {
                self.error(&node.location, format!("{what} must be at least 1, not {text}"));
                None
            }
            Err(_) => {
                self.error(&node.location, format!("{what} must be an integer, not \"{text}\""));
                None
            }
        }
    }
}
