//! Kokoro: speech from phonemes, with the durations of a predictor.

mod durations;
mod english;
mod espeak;
mod ipa;
mod phonemizer;
mod symbols;
mod trim;

use std::{collections::VecDeque, fs, path::Path, time::Duration};

use afferent_core::{Bool, ScalarType, TensorView, read_floats, tensor_of};
use afferent_graph::{Cx, NodeError};
use afferent_messages::SampleRate;
use afferent_runtime::{Input, ModelFile, Signature};

pub use self::phonemizer::TtsPhonemizer;
use self::phonemizer::{PhonemeWord, Phonemizer};
use super::{
    TtsParams,
    own::SpokenWord,
    sentences::{self, WrittenWord},
    synthesizer::{Chunk, Part, Synthesizer},
    voices::find_voice,
};
use crate::programs::{Programs, Step};

/// Roles of the programs.
const PREDICTOR: &str = "duration_predictor";
const SYNTHESIZER: &str = "synthesizer";
/// Start of the names of the methods.
const FORWARD: &str = "forward";
/// Forms of the methods, for messages.
const FORM: &str = "programs duration_predictor(tokens i64[1, T], mask bool[1, T], voice[1, 128], \
    speed[1]) -> (frames i64[T], features[1, T, F]) and synthesizer(tokens, mask, indices i64[N], \
    features, voice[1, 256]) -> sound[1, 1, 600 N], with `forward`, or `forward_8` and others by their \
    tokens";
const RATE: SampleRate = SampleRate(24_000);
/// Samples of a frame.
const FRAME: usize = 600;
/// Values of a row of a voice.
const ROW: usize = 256;
/// Least tokens and frames of a run.
const MIN_TOKENS: usize = 8;
const MIN_FRAMES: usize = 16;
/// Greatest ratio by which a part that is too long for the model is said faster; longer ones are divided.
const MAX_HURRY: f64 = 1.25;
/// Silence that is kept around speech.
const MARGIN: Duration = Duration::from_millis(50);

/// A Kokoro model with a voice.
pub(super) struct Kokoro {
    programs: Programs,
    /// Methods by their tokens, the smallest first.
    predictors: Vec<Step>,
    synthesizers: Vec<Step>,
    /// Rows of the voice, by the number of symbols.
    voice: Vec<f32>,
    phonemizer: Box<dyn Phonemizer>,
    pace: f32,
    /// Most symbols of a part.
    max_symbols: usize,
    /// Sentences of the text that are not yet converted to phonemes.
    sentences: VecDeque<Vec<(String, u32)>>,
    parts: VecDeque<Vec<PhonemeWord>>,
    audio: Part,
}

/// Input of a run.
struct Tokens {
    ids: Vec<i64>,
    mask: Vec<Bool>,
    /// Number of symbols.
    count: usize,
}

/// Name of the contract of `programs`, each with its role, if they are a Kokoro model.
pub(crate) fn contract(programs: &[(&str, &ModelFile)]) -> Option<&'static str> {
    let methods = |wanted: &str| -> Vec<(String, Signature)> {
        let files = programs.iter().filter(|(role, _)| *role == wanted);
        let names = files.flat_map(|(_, file)| {
            file.program().method_names().map(move |name| (name.to_owned(), file))
        });
        let methods = names.filter(|(name, _)| name.starts_with(FORWARD));
        methods
            .filter_map(|(name, file)| Some((name.clone(), file.signature(&name).ok()?)))
            .collect()
    };
    let (predictors, synthesizers) = (methods(PREDICTOR), methods(SYNTHESIZER));
    let fits = |all: &[(String, Signature)], role: &str| {
        !all.is_empty() && all.iter().all(|(_, signature)| has_form(role, signature))
    };
    if !fits(&predictors, PREDICTOR) || !fits(&synthesizers, SYNTHESIZER) {
        return None;
    }
    let is_one = predictors.iter().all(|(name, _)| name == FORWARD);
    Some(if is_one { "kokoro-rne@0.10" } else { "kokoro-rne@0.7" })
}

/// True if a method of the program with this role has the inputs of the contract.
fn has_form(role: &str, signature: &Signature) -> bool {
    use ScalarType::{Bool, Float, Long};
    let Some(specs) = signature.tensor_inputs() else { return false };
    let inputs: Vec<(ScalarType, &[usize])> =
        specs.into_iter().map(|spec| (spec.dtype, &*spec.sizes)).collect();
    match *inputs {
        [(Long, [1, _]), (Bool, [1, _]), (Float, [1, half]), (Float, [1])] => {
            role == PREDICTOR && *half == ROW / 2 && signature.outputs.len() == 2
        }
        [(Long, [1, _]), (Bool, [1, _]), (Long, [_]), (Float, [1, _, _]), (Float, [1, ROW])] => {
            role == SYNTHESIZER
        }
        _ => false,
    }
}

/// True if the file at `path` can be a voice.
pub(crate) fn is_voice(path: &Path) -> bool {
    let row = (ROW * size_of::<f32>()) as u64;
    let len = fs::metadata(path).map_or(0, |metadata| metadata.len());
    path.extension().is_some_and(|end| end == "bin") && len > 0 && len.is_multiple_of(row)
}

impl Kokoro {
    /// True if `programs` have the role that only this model has.
    pub(super) fn is_in(programs: &Programs) -> bool {
        !programs.methods_of(SYNTHESIZER, FORWARD).is_empty()
    }

    /// Checks the programs and companions.
    pub(super) fn open(mut programs: Programs, params: &TtsParams) -> Result<Self, NodeError> {
        let methods = |role: &str| {
            let mut steps = programs.methods_of(role, FORWARD);
            steps.sort_by_key(max_tokens);
            let is_missing = steps.is_empty();
            let fits = steps.iter().all(|step| has_form(role, &step.signature));
            match fits && !is_missing {
                true => Ok(steps),
                false => Err(programs.error(format!(
                    "Kokoro needs {FORM}; {role} {} {}",
                    if is_missing { "is missing among" } else { "has another form:" },
                    programs.methods()
                ))),
            }
        };
        let (predictors, synthesizers) = (methods(PREDICTOR)?, methods(SYNTHESIZER)?);
        let most = |steps: &[Step]| steps.last().map_or(0, max_tokens);
        let tokens = most(&predictors).min(most(&synthesizers));
        if tokens < MIN_TOKENS {
            return Err(programs.error(format!(
                "the model takes only {tokens} tokens, but must take {MIN_TOKENS}"
            )));
        }
        let kind = "a file with rows of 256 f32, such as af_heart.bin,";
        let (name, path) = find_voice(&programs, params.voice.as_deref(), kind, is_voice)?;
        let voice = read_voice(&path)
            .map_err(|reason| programs.error(format!("{}: {reason}", path.display())))?;
        let language = match &params.language {
            Some(language) => language.to_lowercase(),
            None => language_of(&name).to_owned(),
        };
        let choice = params.phonemizer.unwrap_or(TtsPhonemizer::Auto);
        let phonemizer = phonemizer::open(&programs, choice, &language)?;
        for step in predictors.iter().chain(&synthesizers) {
            programs.load(step)?;
        }
        Ok(Self {
            programs,
            predictors,
            synthesizers,
            voice,
            phonemizer,
            pace: params.pace,
            max_symbols: tokens - 2,
            sentences: VecDeque::new(),
            parts: VecDeque::new(),
            audio: Part::default(),
        })
    }

    /// Row of the voice for this many symbols.
    fn row(&self, symbols: usize) -> Vec<f32> {
        let rows = self.voice.len() / ROW;
        let row = symbols.saturating_sub(1).min(rows - 1);
        self.voice[row * ROW..(row + 1) * ROW].to_vec()
    }

    /// Converts the next sentence to phonemes, in parts that fit the model.
    fn phonemize(&mut self) -> Result<bool, NodeError> {
        let Some(sentence) = self.sentences.pop_front() else { return Ok(false) };
        let words = sentence.iter();
        let words = words.map(|(text, number)| WrittenWord { text, number: *number });
        let words = self.phonemizer.phonemize(&words.collect::<Vec<_>>());
        let words = words.map_err(|reason| self.programs.error(reason))?;
        self.parts.extend(divide(words, self.max_symbols));
        Ok(true)
    }

    /// Speech of a part with its words, and the pause after it; `None` if the part was divided.
    fn speak(&mut self, words: &[PhonemeWord]) -> Result<Option<Part>, NodeError> {
        let symbols = join(words);
        let ids: Vec<i64> = symbols.chars().filter_map(symbols::id).collect();
        if ids.is_empty() {
            return Ok(Some(Part::default()));
        }
        let row = self.row(ids.len());
        let predictor = fitting(&self.predictors, ids.len() + 2);
        let synthesizer = fitting(&self.synthesizers, ids.len() + 2);
        let tokens = Tokens::new(&ids, predictor, synthesizer);
        let max_frames = synthesizer.input_sizes(2)[0].max(MIN_FRAMES);
        let (mut frames, features) =
            predict(&mut self.programs, predictor, &tokens, &row, self.pace)?;
        let total: usize = frames.iter().sum();
        if total as f64 > max_frames as f64 * MAX_HURRY && words.len() > 1 {
            let (first, second) = words.split_at(words.len() / 2);
            self.parts.push_front(second.to_vec());
            self.parts.push_front(first.to_vec());
            return Ok(None);
        }
        durations::scale(&mut frames, total.clamp(MIN_FRAMES, max_frames));
        let sound = synthesize(&mut self.programs, synthesizer, &tokens, &frames, &features, &row)?;
        // The padding at the end, and a punctuation mark ahead of it, often have artifacts.
        let last = symbols.chars().next_back().unwrap_or(' ');
        let kept_tokens = tokens.count + 2 - if last.is_alphabetic() { 1 } else { 2 };
        let kept = FRAME * frames[..kept_tokens].iter().sum::<usize>();
        let sound = &sound[..kept.min(sound.len())];
        let range = trim::trim(sound, RATE.samples(MARGIN));
        let spoken = spoken_words(words, &frames, &range);
        let pause = Duration::from_millis(symbols::pause_ms(last));
        Ok(Some(Part::new(sound[range].to_vec(), spoken, pause, RATE)))
    }
}

impl Synthesizer for Kokoro {
    fn rate(&self) -> SampleRate {
        RATE
    }

    fn begin(&mut self, text: &str) -> Vec<String> {
        self.stop();
        for sentence in sentences::sentences(text) {
            let words = sentence.iter().map(|word| (word.text.to_owned(), word.number));
            self.sentences.push_back(words.collect());
        }
        self.phonemizer.unspeakable(text)
    }

    fn next_chunk(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk<'_>>, NodeError> {
        while self.audio.is_done() {
            if cx.canceled() {
                return Ok(None);
            }
            let Some(words) = self.parts.pop_front() else {
                if self.phonemize()? {
                    continue;
                }
                return Ok(None);
            };
            if let Some(part) = cx.time_model(|| self.speak(&words))? {
                self.audio = part;
            }
        }
        Ok(Some(self.audio.next_chunk(RATE)))
    }

    fn is_done(&self) -> bool {
        self.audio.is_done() && self.parts.is_empty() && self.sentences.is_empty()
    }

    fn stop(&mut self) {
        self.sentences.clear();
        self.parts.clear();
        self.audio = Part::default();
    }
}

impl Tokens {
    /// Tokens of symbols with padding at both ends, and more if a method has fixed sizes.
    fn new(ids: &[i64], predictor: &Step, synthesizer: &Step) -> Self {
        let fixed = [predictor, synthesizer].into_iter().filter_map(|step| {
            let spec = step.signature.inputs.first().and_then(Option::as_ref)?;
            spec.is_static.then_some(spec.sizes[1])
        });
        let used = ids.len() + 2;
        let len = fixed.max().unwrap_or(MIN_TOKENS).max(used);
        let mut padded = vec![0; len];
        padded[1..=ids.len()].copy_from_slice(ids);
        let mask = (0..len).map(|at| Bool::from(at < used)).collect();
        Self { ids: padded, mask, count: ids.len() }
    }
}

/// Frames of each token, and the features of all.
fn predict(
    programs: &mut Programs,
    step: &Step,
    tokens: &Tokens,
    row: &[f32],
    speed: f32,
) -> Result<(Vec<usize>, Vec<f32>), NodeError> {
    let sizes = [1, tokens.ids.len()];
    let speed = [speed];
    let inputs = [
        Input::Tensor(TensorView::new(&sizes, &tokens.ids)?),
        Input::Tensor(TensorView::new(&sizes, &tokens.mask)?),
        Input::Tensor(TensorView::new(&[1, ROW / 2], &row[ROW / 2..])?),
        Input::Tensor(TensorView::new(&[1], &speed)?),
    ];
    let mut features = Vec::new();
    let outputs = programs.run(step, &inputs)?;
    let frames = outputs.tensor(0)?.data::<i64>()?.to_vec();
    read_floats(&outputs.tensor(1)?, &mut features)?;
    let len = tokens.ids.len();
    if frames.len() != len || features.is_empty() || !features.len().is_multiple_of(len) {
        return Err(programs.error(format!(
            "duration_predictor returned {} durations and {} features for {len} tokens",
            frames.len(),
            features.len()
        )));
    }
    // A token lasts at most a minute, so that sums do not overflow.
    let frames = frames.into_iter().map(|count| count.clamp(0, 2400) as usize);
    Ok((frames.collect(), features))
}

/// Sound of the tokens.
fn synthesize(
    programs: &mut Programs,
    step: &Step,
    tokens: &Tokens,
    frames: &[usize],
    features: &[f32],
    row: &[f32],
) -> Result<Vec<f32>, NodeError> {
    let indices = durations::indices(frames);
    let mut sound = Vec::new();
    if indices.is_empty() {
        return Ok(sound);
    }
    let len = tokens.ids.len();
    let (sizes, frames) = ([1, len], [indices.len()]);
    let features = tensor_of(features, &[1, len, features.len() / len], step.input_dtype(3))?;
    let inputs = [
        Input::Tensor(TensorView::new(&sizes, &tokens.ids)?),
        Input::Tensor(TensorView::new(&sizes, &tokens.mask)?),
        Input::Tensor(TensorView::new(&frames, &indices)?),
        Input::Tensor(features.view()),
        Input::Tensor(TensorView::new(&[1, ROW], row)?),
    ];
    let outputs = programs.run(step, &inputs)?;
    read_floats(&outputs.tensor(0)?, &mut sound)?;
    Ok(sound)
}

/// Most tokens of a method.
fn max_tokens(step: &Step) -> usize {
    step.input_sizes(0).get(1).copied().unwrap_or(0)
}

/// The smallest method for this many tokens.
fn fitting(steps: &[Step], tokens: usize) -> &Step {
    let last = steps.len() - 1;
    steps.iter().find(|step| max_tokens(step) >= tokens).unwrap_or(&steps[last])
}

/// Symbols of words, with spaces and marks.
fn join(words: &[PhonemeWord]) -> String {
    let words = words.iter().map(|word| {
        let mark = word.mark.map_or_else(String::new, String::from);
        format!("{}{mark}", word.phonemes)
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Number of symbols of a word with its mark.
fn len(word: &PhonemeWord) -> usize {
    word.phonemes.chars().count() + usize::from(word.mark.is_some())
}

/// Parts of at most `limit` symbols: cut after the last mark in the second half of a part, else at the
/// last space. Words that are longer are cut off.
fn divide(words: Vec<PhonemeWord>, limit: usize) -> Vec<Vec<PhonemeWord>> {
    let (mut parts, mut part, mut total) = (Vec::new(), Vec::<PhonemeWord>::new(), 0);
    for mut word in words {
        if len(&word) > limit {
            word.phonemes = word.phonemes.chars().take(limit - 1).collect();
        }
        if !part.is_empty() && total + 1 + len(&word) > limit {
            let mark = part.iter().rposition(|word| word.mark.is_some());
            let mark = mark.filter(|at| *at >= part.len() / 2);
            let rest = part.split_off(mark.map_or(part.len(), |at| at + 1));
            parts.push(std::mem::replace(&mut part, rest));
            total = join(&part).chars().count();
        }
        total += len(&word) + usize::from(!part.is_empty());
        part.push(word);
    }
    parts.extend((!part.is_empty()).then_some(part));
    parts
}

/// Words with their times. Only `range` of the sound is kept.
fn spoken_words(
    words: &[PhonemeWord],
    frames: &[usize],
    range: &std::ops::Range<usize>,
) -> Vec<SpokenWord> {
    let at = |token: usize| {
        let samples = FRAME * frames[..token.min(frames.len())].iter().sum::<usize>();
        RATE.duration(samples.clamp(range.start, range.end) - range.start)
    };
    let mut spoken: Vec<SpokenWord> = Vec::new();
    // The first token is padding.
    let mut token = 1;
    for word in words {
        let (start, end) = (at(token), at(token + word.phonemes.chars().count()));
        token += len(word) + 1;
        match spoken.last_mut() {
            Some(last) if last.written == word.written && last.text == word.text => last.end = end,
            _ => {
                let (text, written) = (word.text.clone(), word.written);
                spoken.push(SpokenWord { text, written, start, end });
            }
        }
    }
    spoken
}

/// Language of a voice by its name: the first letter of names such as `bf_emma`; English otherwise.
fn language_of(voice: &str) -> &'static str {
    let [first, b'f' | b'm', b'_', ..] = voice.as_bytes() else { return "en" };
    match first {
        b'b' => "en-gb",
        b'e' => "es",
        b'f' => "fr",
        b'h' => "hi",
        b'i' => "it",
        b'j' => "ja",
        b'p' => "pt",
        b'z' => "zh",
        _ => "en",
    }
}

/// Values of the voice at `path`.
fn read_voice(path: &Path) -> Result<Vec<f32>, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let (values, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() || values.is_empty() || !values.len().is_multiple_of(ROW) {
        return Err(format!(
            "a voice has rows of {ROW} f32, but the file has {} bytes",
            bytes.len()
        ));
    }
    Ok(values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tts::supertonic;

    fn word(phonemes: &str, mark: Option<char>) -> PhonemeWord {
        PhonemeWord { text: phonemes.into(), written: 1, phonemes: phonemes.into(), mark }
    }

    #[test]
    fn parts_have_a_limited_number_of_symbols() {
        let words = ["ab", "cd,", "ef", "gh", "ijklmnopqrstuvw"].map(|text| {
            let mark = text.ends_with(',').then_some(',');
            word(text.trim_end_matches(','), mark)
        });
        let check = |limit: usize, expected: &[&str]| {
            let found: Vec<String> =
                divide(words.to_vec(), limit).iter().map(|part| join(part)).collect();
            assert_eq!(found, expected, "{limit}");
        };
        check(9, &["ab cd,", "ef gh", "ijklmnop"]);
        check(27, &["ab cd, ef gh", "ijklmnopqrstuvw"]);
        check(28, &["ab cd, ef gh ijklmnopqrstuvw"]);
    }

    #[test]
    fn words_have_the_times_of_their_frames() {
        // Padding, a, b, the comma, the space, c, padding.
        let (words, frames) = ([word("ab", Some(',')), word("c", None)], [2, 3, 4, 5, 6, 7, 8]);
        let times = |words: &[PhonemeWord]| {
            let found = spoken_words(words, &frames, &(1800..15_000));
            let ms = found.iter().map(|word| (word.start.as_millis(), word.end.as_millis()));
            ms.collect::<Vec<_>>()
        };
        assert_eq!(times(&words), [(0, 150), (425, 550)]);
        // Two groups of phonemes of one written word.
        let same = words.map(|word| PhonemeWord { text: "7:30".into(), ..word });
        assert_eq!(times(&same), [(0, 550)]);
    }

    #[test]
    fn contracts_are_told_by_the_programs() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let check = |paths: &[(&str, &str)], expected: [Option<&str>; 2]| {
            let files = paths
                .iter()
                .map(|(role, path)| (*role, ModelFile::open(data.join(path), &[]).unwrap()));
            let files: Vec<_> = files.collect();
            let files: Vec<_> = files.iter().map(|(role, file)| (*role, &**file)).collect();
            assert_eq!([contract(&files), supertonic::contract(&files)], expected, "{paths:?}");
        };
        let (one, synthesizer) = ("kokoro/one", "kokoro/one/synthesizer_xnnpack_fp32.pte");
        let predictor = format!("{one}/duration_predictor_xnnpack_fp32.pte");
        let pair = [(PREDICTOR, predictor.as_str()), (SYNTHESIZER, synthesizer)];
        check(&pair, [Some("kokoro-rne@0.10"), None]);
        check(&pair[..1], [None, None]);
        check(&[(SYNTHESIZER, &predictor), (PREDICTOR, synthesizer)], [None, None]);
        let (predictor, synthesizer) =
            ("kokoro/several/duration_predictor.pte", "kokoro/several/synthesizer.pte");
        let pair = [(PREDICTOR, predictor), (SYNTHESIZER, synthesizer)];
        check(&pair, [Some("kokoro-rne@0.7"), None]);
        check(&[("", "supertonic/one/supertonic.pte")], [None, Some("supertonic")]);
        let roles = ["duration_predictor", "text_encoder", "vector_estimator", "vocoder"];
        let paths = roles.map(|role| format!("supertonic/four/{role}_xnnpack_fp32.pte"));
        let four: Vec<(&str, &str)> =
            roles.into_iter().zip(paths.iter().map(String::as_str)).collect();
        check(&four, [None, Some("supertonic-rne@0.10")]);
        check(&four[1..], [None, None]);
    }

    #[test]
    fn the_language_is_that_of_the_voice() {
        let languages = ["af_heart", "bm_daniel", "ff_siwis", "anna"].map(language_of);
        assert_eq!(languages, ["en", "en-gb", "fr", "en"]);
    }
}
