//! Answers about where objects are.

use std::{cmp::Ordering, collections::BTreeMap, f64::consts::PI, sync::Arc, time::Duration};

use afferent_graph::Choice;
use glam::{DQuat, DVec3};

use super::{EntityRecord, Position, RecordPartsItem, SceneMemory};
use crate::frames::Rigid;

/// Pose of the camera of the user or robot that asks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Viewer {
    /// `world_from_camera`, in the frame of the input poses.
    pub world_from_camera: Rigid,
}

/// An object that was found, and how to get to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The object.
    pub record: EntityRecord,
    /// Name, or class.
    pub thing: String,
    /// Object or plane that it lies on.
    pub on: Option<String>,
    /// Horizontal distance from the viewer in meters; `None` if the viewer is not known.
    pub distance_m: Option<f64>,
    /// Angle from where the viewer looks, in degrees from −180 to 180, positive to the right.
    pub bearing_deg: Option<f64>,
    /// Angle from the optical axis of the camera, in degrees.
    pub off_axis_deg: Option<f64>,
    /// Time since it was seen.
    pub age: Duration,
    /// True if its position is in a map that this session has not found yet.
    pub is_stale: bool,
}

/// Words for classes that detectors name otherwise.
const SYNONYMS: &[(&str, &str)] = &[
    ("bike", "bicycle"),
    ("cell phone", "phone"),
    ("cellphone", "phone"),
    ("coffee cup", "cup"),
    ("desk", "table"),
    ("dining table", "table"),
    ("fridge", "refrigerator"),
    ("light", "lamp"),
    ("mobile", "phone"),
    ("mug", "cup"),
    ("notebook", "laptop"),
    ("potted plant", "plant"),
    ("seat", "chair"),
    ("sofa", "couch"),
    ("sports ball", "ball"),
    ("television", "tv"),
    ("tin", "can"),
];

/// Words before a name that do not belong to it.
const ARTICLES: &[&str] =
    &["a", "an", "any", "her", "his", "my", "our", "that", "the", "their", "this", "your"];

/// Classes that things lie on.
const SURFACES: &[&str] = &["bed", "bench", "chair", "couch", "dining table", "table"];

/// Direction and distance of a point from a camera.
#[derive(Clone, Copy)]
struct Direction {
    /// Horizontal.
    distance_m: f64,
    /// Positive to the right.
    bearing_deg: f64,
    off_axis_deg: f64,
}

fn direction(map_from_camera: &Rigid, position: &Position) -> Direction {
    let rotation = DQuat::from_array(map_from_camera.rotation_xyzw);
    let axis = rotation * DVec3::Z;
    // A camera that looks straight down is ahead where the top of its image is.
    let ahead = if axis.truncate().length() > 0.1 { axis } else { rotation * DVec3::NEG_Y };
    let to = DVec3::from_array(position.m) - DVec3::from_array(map_from_camera.translation_m);
    let angle = ahead.y.atan2(ahead.x) - to.y.atan2(to.x);
    Direction {
        distance_m: to.truncate().length(),
        bearing_deg: ((angle + PI).rem_euclid(2.0 * PI) - PI).to_degrees(),
        off_axis_deg: axis.angle_between(to).to_degrees(),
    }
}

/// The words of a name: lower case, without articles.
fn plain(text: &str) -> String {
    let lower = text.to_lowercase();
    let words =
        lower.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.skip_while(|word| ARTICLES.contains(word)).collect::<Vec<_>>().join(" ")
}

/// The name of a thing or a class in one form: without articles, singular, without synonyms.
fn canonical(text: &str) -> String {
    let plain = plain(text);
    let is_known = |word: &str| SYNONYMS.iter().any(|(one, other)| word == *one || word == *other);
    let singular = [("", plain.as_str()), ("s", &plain), ("es", &plain)]
        .into_iter()
        .filter_map(|(end, word)| word.strip_suffix(end))
        .find(|word| is_known(word));
    // "boxes" and "glasses" take off two letters, other plurals one.
    let word = singular.unwrap_or_else(|| {
        let sibilants = ["ches", "shes", "sses", "xes", "zes"];
        match plain.strip_suffix("es").filter(|_| sibilants.iter().any(|end| plain.ends_with(end)))
        {
            Some(word) => word,
            None if plain.ends_with("ss") => &plain,
            None => plain.strip_suffix('s').unwrap_or(&plain),
        }
    });
    SYNONYMS.iter().find(|(one, _)| *one == word).map_or(word, |(_, other)| *other).to_owned()
}

/// An object that a word names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Number of the object.
    pub id: u64,
    /// True if its position is in a map that this session has not found yet.
    pub is_stale: bool,
    /// Horizontal distance from the viewer in meters; `None` if that is not known.
    pub distance_m: Option<f64>,
    last_ns: u64,
}

impl Candidate {
    /// A candidate in the map `map`, seen from a camera there.
    fn new(parts: &RecordPartsItem<'_, '_>, map: u64, map_from_camera: Option<&Rigid>) -> Self {
        let is_stale = parts.provenance.map != map;
        let camera = map_from_camera.filter(|_| !is_stale);
        Self {
            id: parts.persistence.id,
            is_stale,
            distance_m: camera.map(|camera| direction(camera, parts.position).distance_m),
            last_ns: parts.seen.last_ns,
        }
    }

    /// A known map before a stale one, near before far, new before old.
    fn order(&self, other: &Self) -> Ordering {
        let distance = |found: &Self| found.distance_m.unwrap_or(f64::INFINITY);
        self.is_stale
            .cmp(&other.is_stale)
            .then(distance(self).total_cmp(&distance(other)))
            .then(other.last_ns.cmp(&self.last_ns))
            .then(self.id.cmp(&other.id))
    }
}

impl SceneMemory {
    /// Finds what `thing` names: a name that a person gave, or else a class. The best candidate comes
    /// first: one in the current map, near the viewer, seen lately.
    pub fn find(&mut self, thing: &str, viewer: Option<&Viewer>) -> Vec<Candidate> {
        let asked = canonical(thing);
        if asked.is_empty() {
            return Vec::new();
        }
        let (viewer, map) = (viewer.map(|viewer| self.in_map(viewer)), self.map);
        // There are few classes and many objects.
        let mut is_class = BTreeMap::<Arc<str>, bool>::new();
        let mut found: Vec<(bool, Candidate)> = Vec::new();
        for parts in self.records.iter(&self.world) {
            let name = parts.name.map(|name| &name.0);
            let is_named = name
                .or(parts.anchor.map(|anchor| &anchor.name))
                .is_some_and(|name| canonical(name) == asked);
            let is_meant = is_named
                || parts.label.is_some_and(|label| match is_class.get(&label.class) {
                    Some(is_meant) => *is_meant,
                    None => {
                        let is_meant = canonical(&label.class) == asked;
                        is_class.insert(label.class.clone(), is_meant);
                        is_meant
                    }
                });
            if is_meant {
                found.push((!is_named, Candidate::new(&parts, map, viewer.as_ref())));
            }
        }
        let best = found.iter().map(|(rank, _)| *rank).min();
        found.retain(|(rank, _)| Some(*rank) == best);
        let mut candidates: Vec<_> = found.into_iter().map(|(_, candidate)| candidate).collect();
        candidates.sort_by(Candidate::order);
        candidates
    }

    /// The objects within a distance of the viewer, the nearest first.
    pub fn around(&mut self, viewer: &Viewer, within_m: f64) -> Vec<Candidate> {
        let (pose, map) = (self.in_map(viewer), self.map);
        let things = self.records.iter(&self.world).filter(|parts| {
            parts.provenance.map == map && (parts.label.is_some() || parts.name.is_some())
        });
        let mut candidates: Vec<_> = things
            .map(|parts| Candidate::new(&parts, map, Some(&pose)))
            .filter(|found| found.distance_m.is_some_and(|distance| distance <= within_m))
            .collect();
        candidates.sort_by(Candidate::order);
        candidates
    }

    /// Answer about an object, from the viewer; `None` if there is no object with this number.
    pub fn answer(&mut self, id: u64, viewer: Option<&Viewer>, now_ns: u64) -> Option<Answer> {
        let record = self.get(id)?;
        let is_stale = record.provenance.map != self.map;
        let pose = viewer.filter(|_| !is_stale).map(|viewer| self.in_map(viewer));
        let from = pose.map(|pose| direction(&pose, &record.position));
        let thing = match (&record.name, &record.label, &record.anchor) {
            (Some(name), ..) => plain(&name.0),
            (None, Some(label), _) => label.class.to_string(),
            (None, None, Some(anchor)) => plain(&anchor.name),
            (None, None, None) => "thing".to_owned(),
        };
        Some(Answer {
            thing,
            on: self.surface_below(&record),
            distance_m: from.map(|from| from.distance_m),
            bearing_deg: from.map(|from| from.bearing_deg),
            off_axis_deg: from.map(|from| from.off_axis_deg),
            age: Duration::from_nanos(now_ns.saturating_sub(record.seen.last_ns)),
            is_stale,
            record,
        })
    }

    /// `map_from_camera` of a viewer.
    fn in_map(&self, viewer: &Viewer) -> Rigid {
        self.map_from_world.then(&viewer.world_from_camera)
    }

    /// Class of the object, or kind of the plane, that an object lies on.
    fn surface_below(&mut self, record: &EntityRecord) -> Option<String> {
        let label = record.label.as_ref();
        if label.is_some_and(|label| SURFACES.contains(&&*label.class)) {
            return None;
        }
        let point = DVec3::from_array(record.position.m);
        let below = record.bounds.map_or(0.0, |bounds| f64::from(bounds.size_m[2]) / 2.0);
        let surfaces = self.records.iter(&self.world);
        let mut found: Vec<(f64, u64, String)> = surfaces
            .filter_map(|parts| {
                let (label, bounds) = (parts.label?, parts.bounds?);
                let is_surface = SURFACES.contains(&&*label.class)
                    && parts.provenance.map == record.provenance.map
                    && parts.persistence.id != record.id;
                let size = bounds.size_m.map(f64::from);
                let apart = point - DVec3::from_array(parts.position.m);
                let is_above = apart.x.abs() < size[0] / 2.0
                    && apart.y.abs() < size[1] / 2.0
                    && apart.z - below > -0.1
                    && apart.z - below < size[2] / 2.0 + 0.3;
                (is_surface && is_above).then(|| {
                    let apart = apart.truncate().length();
                    (apart, parts.persistence.id, label.class.to_string())
                })
            })
            .collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let object = found.into_iter().next().map(|(.., class)| class);
        object.or_else(|| {
            let plane = self.plane_below(point, below, record.provenance.map)?;
            Some(plane.word().to_owned())
        })
    }
}

impl Answer {
    /// The answer in a sentence, such as "The cup is on the table, about two meters ahead on the left. I saw
    /// it five minutes ago."
    pub fn phrase(&self) -> String {
        let thing = &self.thing;
        let ago = age_phrase(self.age);
        if self.is_stale {
            return format!("I saw the {thing} {ago}, but I do not know where that is from here.");
        }
        let on = self.on.as_ref().map(|surface| format!("on the {surface}, "));
        let on = on.unwrap_or_default();
        let position = match (self.distance_m, self.bearing_deg) {
            (Some(distance), Some(bearing)) => {
                format!("{on}{} {}", distance_phrase(distance), direction_phrase(bearing))
            }
            _ => match &self.on {
                Some(surface) => format!("on the {surface}"),
                None => return format!("I saw the {thing} {ago}, but I do not know where I am."),
            },
        };
        let seen = match self.age < RECENT {
            true => String::new(),
            false => format!(" I saw it {ago}."),
        };
        format!("The {thing} is {position}.{seen}")
    }
}

/// Age up to which an object counts as seen now.
const RECENT: Duration = Duration::from_secs(10);

fn distance_phrase(distance_m: f64) -> String {
    match distance_m {
        ..0.75 => "within reach".to_owned(),
        ..1.5 => "about one meter".to_owned(),
        ..10.0 => format!("about {} meters", number_word(distance_m.round() as u64)),
        _ => format!("about {} meters", (distance_m / 5.0).round() * 5.0),
    }
}

/// Small numbers in words, which speech reads better.
fn number_word(number: u64) -> String {
    const WORDS: [&str; 13] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    usize::try_from(number)
        .ok()
        .and_then(|index| WORDS.get(index))
        .map_or_else(|| number.to_string(), |word| (*word).to_owned())
}

/// A bearing in degrees, positive to the right, in words.
fn direction_phrase(bearing_deg: f64) -> &'static str {
    let is_right = bearing_deg > 0.0;
    match (bearing_deg.abs(), is_right) {
        (..20.0, _) => "straight ahead",
        (..60.0, true) => "ahead on the right",
        (..60.0, false) => "ahead on the left",
        (..120.0, true) => "on your right",
        (..120.0, false) => "on your left",
        (..160.0, true) => "behind you on the right",
        (..160.0, false) => "behind you on the left",
        _ => "behind you",
    }
}

fn age_phrase(age: Duration) -> String {
    let (count, unit) = match age.as_secs() {
        seconds @ 0..10 => {
            return match seconds {
                0 => "just now".to_owned(),
                _ => "a few seconds ago".to_owned(),
            };
        }
        seconds @ 10..60 => return format!("{seconds} seconds ago"),
        seconds @ 60..3600 => (seconds / 60, "minute"),
        seconds @ 3600..86_400 => (seconds / 3600, "hour"),
        seconds => (seconds / 86_400, "day"),
    };
    match count {
        1 if unit == "hour" => "an hour ago".to_owned(),
        1 => format!("a {unit} ago"),
        _ => format!("{} {unit}s ago", number_word(count)),
    }
}
