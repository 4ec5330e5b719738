//! The settings of a node: declared once, with unit, range, default and meaning.

use std::{
    collections::BTreeMap,
    fmt,
    num::IntErrorKind::{NegOverflow, PosOverflow},
    ops::Deref,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParamKind {
    /// `true` or `false`.
    Bool,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// A time with its unit: `250us`, `20ms`, `1.5s`, `2min`.
    Duration,
    /// A text.
    Text,
    /// A file or folder that is read, relative to the folder of the graph file.
    Path,
    /// A file or folder that is written, relative to the folder of the graph file.
    OutputPath,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq)]
pub enum ParamValue {
    /// Value of [`ParamKind::Bool`].
    Bool(bool),
    /// Value of [`ParamKind::Int`].
    Int(i64),
    /// Value of [`ParamKind::Float`].
    Float(f64),
    /// Value of [`ParamKind::Duration`].
    Duration(Duration),
    /// Value of [`ParamKind::Text`] and [`ParamKind::Choice`].
    Text(String),
    /// Value of [`ParamKind::Path`] and [`ParamKind::OutputPath`], resolved against the folder of
    /// the graph file.
    Path(PathBuf),
}

/// The settings of one node, by name. Absent ones have their default.
pub type ParamValues = BTreeMap<String, ParamValue>;

/// Declaration of a setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Param {
    /// Name in graph files.
    pub name: &'static str,
    /// Type of the value.
    pub kind: ParamKind,
    /// Default as a graph file would write it; `None` when the setting is required.
    pub default: Option<&'static str>,
    /// True if the parameter may be absent without a default.
    pub optional: bool,
    /// Least and greatest value, in the unit of the kind (durations: seconds).
    pub range: Option<(f64, f64)>,
    /// Unit, empty when there is none.
    pub unit: &'static str,
    /// Meaning.
    pub help: &'static str,
}

/// Why a setting was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParamError {
    /// It is not of its kind.
    #[error("{found:?} is not {expected}")]
    Kind {
        /// As written.
        found: String,
        /// Accepted values.
        expected: String,
    },
    /// It is out of range.
    #[error("{found} is out of range: {range}")]
    Range {
        /// As written.
        found: String,
        /// The accepted range with its unit.
        range: String,
    },
    /// A required setting is absent.
    #[error("the setting is required")]
    Missing,
}

impl ParamKind {
    /// True for the kinds whose value is a [`ParamValue::Path`].
    pub fn is_path(self) -> bool {
        matches!(self, Self::Path | Self::OutputPath)
    }
}

impl fmt::Display for ParamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("true or false"),
            Self::Int => f.write_str("an integer"),
            Self::Float => f.write_str("a number"),
            Self::Duration => f.write_str("a time with its unit, such as 20ms or 1.5s"),
            Self::Text => f.write_str("a text"),
            Self::Path | Self::OutputPath => f.write_str("a path"),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
        }
    }
}

impl fmt::Display for ParamValue {
    /// As a graph file writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Duration(value) => f.write_str(&seconds(value.as_secs_f64())),
            Self::Text(value) => value.fmt(f),
            Self::Path(value) => value.display().fmt(f),
        }
    }
}

/// Accepted values of a parameter.
pub(crate) struct Rule<'p> {
    pub(crate) kind: ParamKind,
    /// More words of a choice.
    pub(crate) words: &'p [Arc<str>],
    pub(crate) range: Option<(f64, f64)>,
    pub(crate) unit: &'p str,
}

impl Param {
    fn rule(&self) -> Rule<'_> {
        Rule { kind: self.kind, words: &[], range: self.range, unit: self.unit }
    }

    /// Reads a value from `text` in the form of a graph file.
    ///
    /// # Errors
    /// [`ParamError::Kind`] and [`ParamError::Range`].
    pub fn parse(&self, text: &str) -> Result<ParamValue, ParamError> {
        self.rule().parse(text)
    }

    /// Checks a value of any origin. A text stands for any kind, in the form of a graph file; an
    /// integer stands for a number.
    ///
    /// # Errors
    /// [`ParamError::Kind`] and [`ParamError::Range`].
    pub fn accept(&self, value: &ParamValue) -> Result<ParamValue, ParamError> {
        self.rule().accept(value)
    }

    fn with_unit(&self, least: impl fmt::Display, greatest: impl fmt::Display) -> String {
        self.rule().with_unit(least, greatest)
    }
}

impl<'p> Rule<'p> {
    /// Reads the setting from `text`, as it stands in a graph file.
    ///
    /// # Errors
    /// [`ParamError::Kind`] and [`ParamError::Range`].
    fn parse(&self, text: &str) -> Result<ParamValue, ParamError> {
        let text = text.trim();
        let wrong = || ParamError::Kind { found: text.to_owned(), expected: self.expected() };
        let value = match self.kind {
            ParamKind::Bool => text.parse().ok().map(ParamValue::Bool),
            ParamKind::Int => match text.replace('_', "").parse() {
                Ok(value) => Some(ParamValue::Int(value)),
                Err(error) if matches!(error.kind(), NegOverflow | PosOverflow) => {
                    let range = self.range_text();
                    let range = range.unwrap_or_else(|| self.with_unit(i64::MIN, i64::MAX));
                    return Err(ParamError::Range { found: text.to_owned(), range });
                }
                Err(_) => None,
            },
            ParamKind::Float => text.parse().ok().map(ParamValue::Float),
            ParamKind::Duration => parse_duration(text).map(ParamValue::Duration),
            ParamKind::Text => Some(ParamValue::Text(text.to_owned())),
            ParamKind::Path | ParamKind::OutputPath => {
                Some(ParamValue::Path(text.into())).filter(|_| !text.is_empty())
            }
            ParamKind::Choice(_) => {
                self.words().any(|word| word == text).then(|| ParamValue::Text(text.to_owned()))
            }
        };
        let value = value.ok_or_else(wrong)?;
        self.check_range(&value, text)?;
        Ok(value)
    }

    /// Checks a value of any origin. A text stands for any kind, in the form of a graph file; an
    /// integer stands for a number.
    ///
    /// # Errors
    /// [`ParamError::Kind`] and [`ParamError::Range`].
    pub(crate) fn accept(&self, value: &ParamValue) -> Result<ParamValue, ParamError> {
        let value = match (self.kind, value) {
            (ParamKind::Bool, ParamValue::Bool(_))
            | (ParamKind::Int, ParamValue::Int(_))
            | (ParamKind::Float, ParamValue::Float(_))
            | (ParamKind::Duration, ParamValue::Duration(_))
            | (ParamKind::Text, ParamValue::Text(_))
            | (ParamKind::Path | ParamKind::OutputPath, ParamValue::Path(_)) => value.clone(),
            (ParamKind::Float, ParamValue::Int(value)) => ParamValue::Float(*value as f64),
            (_, ParamValue::Text(text)) => return self.parse(text),
            _ => {
                let (found, expected) = (value.to_string(), self.expected());
                return Err(ParamError::Kind { found, expected });
            }
        };
        self.check_range(&value, &value.to_string())?;
        Ok(value)
    }

    /// Words of a choice.
    pub(crate) fn words(&self) -> impl Iterator<Item = &'p str> + use<'p> {
        let listed: &[&str] = match self.kind {
            ParamKind::Choice(words) => words,
            _ => &[],
        };
        listed.iter().copied().chain(self.words.iter().map(|word| &**word))
    }

    /// Accepted values, for messages.
    fn expected(&self) -> String {
        match self.kind {
            ParamKind::Choice(_) => {
                format!("one of {}", self.words().collect::<Vec<_>>().join(", "))
            }
            kind => kind.to_string(),
        }
    }

    fn check_range(&self, value: &ParamValue, text: &str) -> Result<(), ParamError> {
        let number = match value {
            ParamValue::Int(value) => *value as f64,
            ParamValue::Float(value) => *value,
            ParamValue::Duration(value) => value.as_secs_f64(),
            _ => return Ok(()),
        };
        match self.range {
            Some((least, greatest)) if !(least..=greatest).contains(&number) => {
                let range = self.range_text().unwrap_or_default();
                Err(ParamError::Range { found: text.to_owned(), range })
            }
            None if number.is_nan() => {
                Err(ParamError::Range { found: text.to_owned(), range: "a number".to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// The accepted range with its unit, when there is one.
    pub(crate) fn range_text(&self) -> Option<String> {
        let (least, greatest) = self.range?;
        Some(match self.kind {
            ParamKind::Duration => format!("{} to {}", seconds(least), seconds(greatest)),
            _ => self.with_unit(least, greatest),
        })
    }

    fn with_unit(&self, least: impl fmt::Display, greatest: impl fmt::Display) -> String {
        match self.unit {
            "" => format!("{least} to {greatest}"),
            unit => format!("{least} to {greatest} {unit}"),
        }
    }
}

/// Reads a time as settings are written, such as `20ms`; `range` is in seconds.
///
/// # Errors
/// [`ParamError::Kind`] and [`ParamError::Range`].
pub fn read_duration(text: &str, range: Option<(f64, f64)>) -> Result<Duration, ParamError> {
    let (kind, text) = (ParamKind::Duration, text.trim());
    let rule = Rule { kind, words: &[], range, unit: "" };
    let wrong = || ParamError::Kind { found: text.to_owned(), expected: kind.to_string() };
    let duration = parse_duration(text).ok_or_else(wrong)?;
    rule.check_range(&ParamValue::Duration(duration), text)?;
    Ok(duration)
}

fn seconds(seconds: f64) -> String {
    if seconds != 0.0 && seconds < 1.0 {
        format!("{}ms", seconds * 1e3)
    } else {
        format!("{seconds}s")
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.trim().parse::<f64>().ok()? * factor).ok()
}

/// A Rust type that can be the field of a params struct.
pub trait ParamType: Sized {
    /// Type in graph files.
    const KIND: ParamKind;

    /// True if it may be absent without a default.
    const OPTIONAL: bool = false;

    /// Smallest and largest integer that it holds.
    const HOLDS: (i64, i64) = (i64::MIN, i64::MAX);

    /// Reads a value of its kind; `None` stands for an absent setting.
    fn from_value(value: Option<&ParamValue>) -> Option<Self>;
}

macro_rules! param_types {
    ($($rust:ty => $kind:ident $(of $holds:expr)?, $value:ident => $convert:expr;)*) => {
        $(impl ParamType for $rust {
            const KIND: ParamKind = ParamKind::$kind;
            $(const HOLDS: (i64, i64) = $holds;)?

            fn from_value(value: Option<&ParamValue>) -> Option<Self> {
                match value? {
                    ParamValue::$kind($value) => $convert,
                    _ => None,
                }
            }
        })*
    };
}

param_types! {
    bool => Bool, value => Some(*value);
    i64 => Int, value => Some(*value);
    u32 => Int of (0, u32::MAX as i64), value => u32::try_from(*value).ok();
    usize => Int of (0, isize::MAX as i64), value => usize::try_from(*value).ok();
    f64 => Float, value => Some(*value);
    f32 => Float, value => Some(*value as f32);
    Duration => Duration, value => Some(*value);
    String => Text, value => Some(value.clone());
    PathBuf => Path, value => Some(value.clone());
}

/// A file or folder that a node writes. The check of a graph refuses one that overwrites a file
/// that the graph reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPath(pub PathBuf);

impl Deref for OutputPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl ParamType for OutputPath {
    const KIND: ParamKind = ParamKind::OutputPath;

    fn from_value(value: Option<&ParamValue>) -> Option<Self> {
        PathBuf::from_value(value).map(Self)
    }
}

impl<T: ParamType> ParamType for Option<T> {
    const KIND: ParamKind = T::KIND;
    const OPTIONAL: bool = true;
    const HOLDS: (i64, i64) = T::HOLDS;

    fn from_value(value: Option<&ParamValue>) -> Option<Self> {
        match value {
            None => Some(None),
            present => T::from_value(present).map(Some),
        }
    }
}

/// A field that holds one of a few words; see [`choices!`](crate::choices).
pub trait Choice: Sized + Copy + PartialEq + 'static {
    /// The words.
    const WORDS: &'static [&'static str];
    /// The values, in the order of the words.
    const VALUES: &'static [Self];

    /// Word of this value.
    fn word(self) -> &'static str {
        let index = Self::VALUES.iter().position(|value| *value == self);
        index.and_then(|index| Self::WORDS.get(index)).copied().unwrap_or_default()
    }

    /// Value of a word.
    fn from_word(word: &str) -> Option<Self> {
        Self::VALUES.iter().copied().find(|value| value.word() == word)
    }
}

/// The settings of a node as a struct.
pub trait Params: Sized + 'static {
    /// Declaration of every field.
    const PARAMS: &'static [Param];

    /// Builds the struct. Absent settings take their default.
    ///
    /// # Errors
    /// [`ParamError`] with the name of the field.
    fn from_values(values: &ParamValues) -> Result<Self, (&'static str, ParamError)>;
}

/// For nodes without settings.
impl Params for () {
    const PARAMS: &'static [Param] = &[];

    fn from_values(_: &ParamValues) -> Result<Self, (&'static str, ParamError)> {
        Ok(())
    }
}

/// Reads the field declared by `param`; used by [`params!`](crate::params).
#[doc(hidden)]
pub fn read_param<T: ParamType>(
    param: &'static Param,
    values: &ParamValues,
) -> Result<T, (&'static str, ParamError)> {
    let default = match (values.contains_key(param.name), param.default) {
        (false, Some(text)) => Some(param.parse(text).map_err(|error| (param.name, error))?),
        _ => None,
    };
    let value = values.get(param.name).or(default.as_ref());
    if value.is_none() && !param.optional {
        return Err((param.name, ParamError::Missing));
    }
    T::from_value(value).ok_or_else(|| {
        let found = value.map(ToString::to_string).unwrap_or_default();
        let (least, greatest) = T::HOLDS;
        let error = match value {
            Some(ParamValue::Int(_)) if param.kind == ParamKind::Int => {
                ParamError::Range { found, range: param.with_unit(least, greatest) }
            }
            _ => ParamError::Kind { found, expected: param.kind.to_string() },
        };
        (param.name, error)
    })
}

/// Declares the settings of a node: a struct, and the table that checks and documents it.
///
/// After the type of a field may follow its default as a graph file writes it, its range (numbers,
/// for a duration seconds) and its unit. A field without default is required, unless its type is
/// an `Option`.
///
/// ```
/// use std::time::Duration;
/// use afferent_graph::{ParamValue, Params, params};
///
/// params! {
///     /// Settings of a gate.
///     pub struct GateParams {
///         /// Level below which sound is muted.
///         pub threshold_dbfs: f32 = "-50", range -120.0..=0.0, unit "dBFS";
///         /// How long the gate stays open.
///         pub hold: Duration = "200ms", range 0.0..=10.0;
///         /// Name of the preset.
///         pub preset: String;
///     }
/// }
///
/// let values = [("preset".to_owned(), ParamValue::Text("soft".to_owned()))].into();
/// let params = GateParams::from_values(&values).unwrap();
/// assert_eq!(params.hold, Duration::from_millis(200));
/// assert!(GateParams::PARAMS[0].parse("3").is_err());
/// ```
#[macro_export]
macro_rules! params {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $help:literal])*
                pub $field:ident: $ty:ty
                    $(= $default:literal)? $(, range $least:literal ..= $greatest:literal)?
                    $(, unit $unit:literal)?;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        $vis struct $name {
            $($(#[doc = $help])* pub $field: $ty,)*
        }

        impl $crate::Params for $name {
            const PARAMS: &'static [$crate::Param] = &[$($crate::Param {
                name: stringify!($field),
                kind: <$ty as $crate::ParamType>::KIND,
                default: $crate::params!(@option $($default)?),
                optional: <$ty as $crate::ParamType>::OPTIONAL,
                range: $crate::params!(@option $(($least, $greatest))?),
                unit: concat!($($unit)?),
                help: concat!($($help,)*),
            },)*];

            fn from_values(
                values: &$crate::ParamValues,
            ) -> Result<Self, (&'static str, $crate::ParamError)> {
                let mut params = Self::PARAMS.iter();
                Ok(Self {
                    $($field: $crate::read_param(
                        params.next().expect("one declaration for each field"),
                        values,
                    )?,)*
                })
            }
        }
    };
    (@option) => { None };
    (@option $value:expr) => { Some($value) };
}

/// Declares an enumeration that can be the field of a params struct.
///
/// ```
/// use afferent_graph::{Choice, choices};
///
/// choices! {
///     /// How fast a file is read.
///     pub enum Pace {
///         /// As fast as it was recorded.
///         Realtime = "realtime",
///         /// As fast as possible.
///         Max = "max",
///     }
/// }
///
/// assert_eq!(Pace::WORDS, ["realtime", "max"]);
/// assert_eq!(Pace::Max.word(), "max");
/// assert_eq!(Pace::from_word("realtime"), Some(Pace::Realtime));
/// assert_eq!(Pace::from_word("slow"), None);
/// ```
#[macro_export]
macro_rules! choices {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$help:meta])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$help])* $variant,)*
        }

        impl $crate::Choice for $name {
            const WORDS: &'static [&'static str] = &[$($word),*];
            const VALUES: &'static [Self] = &[$(Self::$variant),*];
        }

        impl $crate::ParamType for $name {
            const KIND: $crate::ParamKind = $crate::ParamKind::Choice(<Self as $crate::Choice>::WORDS);

            fn from_value(value: Option<&$crate::ParamValue>) -> Option<Self> {
                let $crate::ParamValue::Text(text) = value? else { return None };
                <Self as $crate::Choice>::from_word(text)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(kind: ParamKind, range: Option<(f64, f64)>) -> Param {
        Param { name: "x", kind, default: None, optional: false, range, unit: "dB", help: "" }
    }

    #[test]
    fn durations_need_a_unit() {
        let duration = param(ParamKind::Duration, Some((0.001, 2.0)));
        assert_eq!(duration.parse("1.5s"), Ok(ParamValue::Duration(Duration::from_millis(1500))));
        assert_eq!(duration.parse("20 ms"), Ok(ParamValue::Duration(Duration::from_millis(20))));
        for text in ["20", "ms", "-1s", "20 weeks", ""] {
            assert!(matches!(duration.parse(text), Err(ParamError::Kind { .. })), "{text}");
        }
        let error = duration.parse("3s").unwrap_err();
        assert_eq!(error.to_string(), "3s is out of range: 1ms to 2s");
    }

    #[test]
    fn numbers_stay_in_range() {
        let float = param(ParamKind::Float, Some((-60.0, 0.0)));
        assert!(float.parse("-3").is_ok());
        assert_eq!(float.parse("1").unwrap_err().to_string(), "1 is out of range: -60 to 0 dB");
        assert!(float.parse("nan").is_err());
        assert!(param(ParamKind::Float, None).parse("nan").is_err());
        assert!(param(ParamKind::Int, None).parse("1.5").is_err());
    }

    crate::params! {
        /// Integers of two types.
        #[expect(dead_code, reason = "reading them is what is tested")]
        struct Counts {
            /// A 32-bit value.
            pub few: u32 = "0", unit "Hz";
            /// May be absent.
            pub many: Option<usize>;
        }
    }

    #[test]
    fn whole_numbers_stay_in_the_range_of_their_type() {
        let check = |name: &str, text: &str, expected: &str| {
            let param = Counts::PARAMS.iter().find(|param| param.name == name).unwrap();
            let error = param.parse(text).and_then(|value| {
                Counts::from_values(&[(name.to_owned(), value)].into()).map_err(|(_, error)| error)
            });
            assert_eq!(error.unwrap_err().to_string(), expected);
        };
        check("few", "-1", "-1 is out of range: 0 to 4294967295 Hz");
        check("many", "-1", "-1 is out of range: 0 to 9223372036854775807");
        let (text, far) = ("99999999999999999999", "-9223372036854775808 to 9223372036854775807");
        check("many", text, &format!("{text} is out of range: {far}"));
    }

    #[test]
    fn a_text_stands_for_any_kind() {
        let text = |text: &str| ParamValue::Text(text.to_owned());
        let float = param(ParamKind::Float, Some((-60.0, 0.0)));
        assert_eq!(float.accept(&text("-3")), Ok(ParamValue::Float(-3.0)));
        assert_eq!(float.accept(&ParamValue::Int(-3)), Ok(ParamValue::Float(-3.0)));
        let error = float.accept(&ParamValue::Float(1.5)).unwrap_err();
        assert_eq!(error.to_string(), "1.5 is out of range: -60 to 0 dB");
        let error = float.accept(&ParamValue::Bool(true)).unwrap_err();
        assert_eq!(error.to_string(), "\"true\" is not a number");
        assert_eq!(param(ParamKind::Text, None).accept(&text(" a ")), Ok(text(" a ")));
    }

    #[test]
    fn words_are_listed() {
        let choice = param(ParamKind::Choice(&["realtime", "max"]), None);
        let error = choice.parse("fast").unwrap_err();
        assert_eq!(error.to_string(), "\"fast\" is not one of realtime, max");
    }
}
