//! Roles of the programs of a model, by the names of their files.

use std::{collections::BTreeSet, path::Path};

/// Words in names of files that say the backend.
const BACKENDS: &[&str] =
    &["coreml", "cuda", "metal", "mlx", "mps", "portable", "qnn", "vulkan", "xnnpack"];

/// Words in names of files that say the precision.
const PRECISIONS: &[&str] = &[
    "8da4w",
    "8da8w",
    "bf16",
    "fp16",
    "fp32",
    "int4",
    "int8",
    "q4",
    "q8",
    "qat",
    "qlora",
    "quantized",
    "spinquant",
];

/// Words of the name of a file, in lower case.
fn words(path: &Path) -> Vec<String> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    stem.split(['_', '-', '.']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Precision in the name of a file, such as `8da4w`.
pub fn precision_in_name(path: &Path) -> Option<String> {
    words(path).into_iter().find(|word| PRECISIONS.contains(&word.as_str()))
}

/// Role of each of several programs by the words of its name: without those of backends and
/// precisions, and without the words that all begin with. `None` for a single program.
pub fn roles(paths: &[&Path]) -> Vec<Option<String>> {
    if paths.len() < 2 {
        return vec![None; paths.len()];
    }
    let names: Vec<Vec<String>> = paths.iter().map(|path| words(path)).collect();
    let is_role =
        |word: &&String| !BACKENDS.contains(&word.as_str()) && !PRECISIONS.contains(&word.as_str());
    let named: Vec<Vec<&String>> =
        names.iter().map(|words| words.iter().filter(is_role).collect()).collect();
    let shortest = named.iter().map(Vec::len).min().unwrap_or(0);
    let is_common = |at: &usize| named.iter().all(|words| words[*at] == named[0][*at]);
    let common = (0..shortest).take_while(is_common).count();
    let join = |words: &[&String]| words.iter().map(|word| &***word).collect::<Vec<_>>().join("_");
    let short: Vec<String> = named.iter().map(|words| join(&words[common..])).collect();
    let is_clear = short.iter().all(|role| !role.is_empty())
        && short.iter().collect::<BTreeSet<_>>().len() == short.len();
    let whole = || names.iter().map(|words| words.join("_"));
    let roles: Vec<String> = if is_clear { short } else { whole().collect() };
    roles.into_iter().map(Some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_the_words_that_differ() {
        let check = |names: &[&str], expected: &[&str]| {
            let paths: Vec<&Path> = names.iter().map(Path::new).collect();
            let found: Vec<String> = roles(&paths).into_iter().flatten().collect();
            assert_eq!(found, expected, "{names:?}");
        };
        check(&["encoder.pte", "decoder.pte"], &["encoder", "decoder"]);
        let names = ["whisper_tiny_encoder_xnnpack_fp32.pte", "whisper_tiny_decoder_xnnpack.pte"];
        check(&names, &["encoder", "decoder"]);
        check(&["model.pte", "model_preprocessor.pte"], &["model", "model_preprocessor"]);
        check(&["a-fp32.pte", "a-int8.pte"], &["a_fp32", "a_int8"]);
        check(&["vad.pte"], &[]);
    }

    #[test]
    fn precisions_are_words_of_names() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(precision_in_name(Path::new(name)).as_deref(), expected, "{name}");
        };
        check("llama_8da4w.pte", Some("8da4w"));
        check("yolo11n-FP16.pte", Some("fp16"));
        check("model.pte", None);
    }
}
