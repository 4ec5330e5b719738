//! Voices of Supertonic, in JSON.

use std::{fs, path::Path};

use serde::Deserialize;
use serde_json::Value;

/// Sizes of the style of the duration predictor.
pub(super) const DURATION_SIZES: [usize; 3] = [1, 8, 16];
/// Sizes of the style of the text encoder and the vector estimator.
pub(super) const TEXT_SIZES: [usize; 3] = [1, 50, 256];

/// A voice.
#[derive(Debug, PartialEq)]
pub(super) struct Style {
    pub(super) duration: Vec<f32>,
    pub(super) text: Vec<f32>,
}

#[derive(Deserialize)]
struct File {
    style_ttl: Array,
    style_dp: Array,
}

/// Numbers in nested lists.
#[derive(Deserialize)]
struct Array {
    data: Value,
}

/// True if the file at `path` is a voice.
pub(crate) fn is_voice(path: &Path) -> bool {
    let is_json = path.extension().is_some_and(|end| end == "json");
    is_json && fs::read_to_string(path).is_ok_and(|text| text.contains("\"style_ttl\""))
}

impl Style {
    /// Reads the voice at `path`.
    ///
    /// # Errors
    /// The reason.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        let file: File = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        Ok(Self {
            duration: numbers("style_dp", &file.style_dp, DURATION_SIZES)?,
            text: numbers("style_ttl", &file.style_ttl, TEXT_SIZES)?,
        })
    }
}

/// Numbers of the array `name`, whose sizes must be `sizes`.
fn numbers(name: &str, array: &Array, sizes: [usize; 3]) -> Result<Vec<f32>, String> {
    fn collect(value: &Value, found: &mut Vec<f32>) -> bool {
        match value {
            Value::Array(values) => values.iter().all(|value| collect(value, found)),
            Value::Number(number) => {
                found.extend(number.as_f64().map(|number| number as f32));
                true
            }
            _ => false,
        }
    }
    let mut found = Vec::new();
    if !collect(&array.data, &mut found) || found.len() != sizes.iter().product::<usize>() {
        return Err(format!(
            "{name}.data has {} numbers, but must have those of {sizes:?}, in lists",
            found.len()
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked() {
        let array = |text: &str| Array { data: serde_json::from_str(text).unwrap() };
        let found = numbers("x", &array("[[[1, 2], [3, 4.5]]]"), [1, 2, 2]).unwrap();
        assert_eq!(found, [1.0, 2.0, 3.0, 4.5]);
        for text in ["[[[1, 2], [3]]]", "[[[1, 2], [3, \"4\"]]]", "null"] {
            let reason = numbers("x", &array(text), [1, 2, 2]).unwrap_err();
            assert!(reason.contains("but must have those of [1, 2, 2]"), "{reason}");
        }
    }
}
