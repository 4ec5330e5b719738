//! Length, header, name and size of files.

use std::fs;

use crate::tree;

/// Maximum number of lines of a Rust or Python file, including tests.
const MAX_LINES: usize = 800;

/// File names that do not describe the contents.
const VAGUE: &[&str] = &["util.rs", "utils.rs", "helpers.rs", "common.rs", "misc.rs", "mod.rs"];

/// Maximum size of a file that is not in [`LARGE`].
const MAX_BYTES: u64 = 1 << 20;

/// Larger files, with a reason.
const LARGE: &[(&str, &str)] = &[
    ("pipelines/assets/other_speech.wav", "a minute of speech for false alarm tests"),
    ("pipelines/models/asr/asr_xnnpack.pte", "a speech recognizer with 1.1 million parameters"),
    ("pipelines/models/captioner/captioner_int8.pte", "a detector and a decoder of answers"),
    ("pipelines/models/depth/depth_vulkan.pte", "a network of depth in f16 for the GPU"),
    ("pipelines/models/llm/llm_8da4w.pte", "weights of a language model, 4 bits"),
    ("pipelines/models/objects/objects_xnnpack.pte", "a detector of eight classes"),
    ("pipelines/models/palm/palm_xnnpack.pte", "a palm detector, less exact in int8"),
    ("pipelines/models/text_detector/text_detector_xnnpack.pte", "a detector of lines of text"),
    ("pipelines/models/translate/translate_8da8w.pte", "a translator of 1.5 million parameters"),
    ("pipelines/models/tts/tts_xnnpack.pte", "the weights of a voice"),
    ("pipelines/models/tts_es/tts_xnnpack.pte", "the weights of a voice"),
];

#[test]
fn files_are_short() {
    tree::expect_none(sources().filter_map(|(path, text)| too_long(path, text)));
}

#[test]
fn files_have_headers() {
    tree::expect_none(sources().filter_map(|(path, text)| no_header(path, text)));
}

#[test]
fn file_names_are_specific() {
    tree::expect_none(tree::paths().filter_map(vague_name));
}

#[test]
fn large_files_have_a_reason() {
    let size = |path| fs::metadata(tree::root().join(path)).map_or(0, |data| data.len());
    let listed = LARGE.iter().map(|(path, _)| *path);
    tree::expect_none(tree::paths().chain(listed).filter_map(|path| wrong_size(path, size(path))));
}

fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    tree::texts(".rs").chain(tree::texts(".py"))
}

fn too_long(path: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > MAX_LINES).then(|| format!("{path}: {lines} lines, more than {MAX_LINES}"))
}

fn no_header(path: &str, text: &str) -> Option<String> {
    if path.ends_with(".rs") {
        return (!text.starts_with("//! ")).then(|| format!("{path}: does not start with `//! `"));
    }
    let text =
        if text.starts_with("#!") { text.split_once('\n').unwrap_or_default().1 } else { text };
    (!text.starts_with("\"\"\"")).then(|| format!("{path}: does not start with a docstring"))
}

fn vague_name(path: &str) -> Option<String> {
    let name = path.rsplit('/').next().unwrap_or_default();
    VAGUE.contains(&name).then(|| format!("{path}: the name does not describe the contents"))
}

fn wrong_size(path: &str, bytes: u64) -> Option<String> {
    match (LARGE.iter().any(|(large, _)| *large == path), bytes > MAX_BYTES) {
        (false, true) => Some(format!(
            "{path}: {bytes} bytes, more than {MAX_BYTES}; shrink it or list it in {}",
            file!()
        )),
        (true, false) => Some(format!("{path}: listed as large in {}, but is not", file!())),
        _ => None,
    }
}

#[test]
fn wrong_files_are_found() {
    assert!(too_long("a.rs", &"\n".repeat(801)).is_some());
    assert_eq!(too_long("a.rs", &"\n".repeat(800)), None);
    for (path, text) in [("a.rs", "use b;"), ("a.py", "import b"), ("a.py", "#!/usr/bin/python\n")]
    {
        assert!(no_header(path, text).is_some(), "{path}: {text}");
    }
    for (path, text) in [("a.rs", "//! A."), ("a.py", "#!/usr/bin/python\n\"\"\"A.\"\"\"")] {
        assert_eq!(no_header(path, text), None);
    }
    assert!(vague_name("a/mod.rs").is_some() && vague_name("a/modes.rs").is_none());
    assert!(wrong_size("a.bin", MAX_BYTES + 1).is_some() && wrong_size(LARGE[0].0, 0).is_some());
}
