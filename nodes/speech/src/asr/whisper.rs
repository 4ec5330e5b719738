//! Whisper: decoding with language, times, and fallback to higher temperatures.

mod model;
mod rules;
mod vocabulary;
mod words;

use std::{io::Write, time::Duration};

use afferent_graph::{Cx, NodeError};
use afferent_messages::SampleRate;
use afferent_text::{Sampler, Sampling, Tokenizer};
use flate2::{Compression, write::ZlibEncoder};

pub(crate) use self::model::contract;
use self::{
    model::WhisperModel,
    rules::log_sum_exp,
    vocabulary::Vocabulary,
    words::{Segment, segments},
};
use super::{
    AsrTask,
    segments::{Recognized, SegmentModel},
};
use crate::programs::Programs;

/// Temperatures that are tried until a transcript is plausible.
const TEMPERATURES: [f32; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
/// Least mean log probability of a plausible transcript.
const MIN_LOG_PROB: f32 = -1.0;
/// Greatest ratio of the length of a plausible transcript to its compressed length. A loop has more.
const MAX_COMPRESSION: f64 = 2.4;
/// Probability of no speech from which on an implausible transcript is dropped.
const NO_SPEECH: f32 = 0.6;
/// Longest audio. A little less than the 30 s of the model, whose forms by react-native-executorch take
/// 29 s.
const MAX_LEN: Duration = Duration::from_secs(29);
const RATE: SampleRate = SampleRate(16_000);

/// A Whisper model.
pub(super) struct Whisper {
    model: WhisperModel,
    tokenizer: Tokenizer,
    vocabulary: Vocabulary,
    /// Language that was set, and its token.
    language: Option<(&'static str, u32)>,
    task: AsrTask,
    /// Most tokens after the prompt.
    max_new: usize,
    /// Seed of the next sampler: each transcript at a temperature has another one.
    seed: u64,
    logits: Vec<f32>,
}

/// Transcript of one temperature.
struct Attempt {
    tokens: Vec<u32>,
    /// Mean log probability of the tokens and the end.
    log_prob: f32,
}

impl Whisper {
    /// Checks the programs, the tokenizer, and the parameters `language` and `task`.
    pub(super) fn open(
        programs: Programs,
        language: Option<&str>,
        task: Option<AsrTask>,
    ) -> Result<Self, NodeError> {
        let tokenizer = programs.tokenizer()?;
        let model = WhisperModel::open(programs)?;
        let vocabulary = Vocabulary::read(&model.programs, &tokenizer, model.vocabulary_size)?;
        let invalid = |name: &'static str, reason: String| NodeError::InvalidParam {
            name: name.into(),
            reason,
        };
        let language = match language {
            Some(wanted) => {
                let known = vocabulary.languages.iter().find(|(code, _)| *code == wanted);
                let is_only = vocabulary.languages.is_empty() && wanted == "en";
                if known.is_none() && !is_only {
                    let codes: Vec<&str> =
                        vocabulary.languages.iter().map(|(code, _)| *code).collect();
                    let codes = if codes.is_empty() { vec!["en"] } else { codes };
                    let reason = format!("the model knows {}, not {wanted}", codes.join(", "));
                    return Err(invalid("language", reason));
                }
                known.copied()
            }
            None => None,
        };
        let task = task.unwrap_or(AsrTask::Transcribe);
        if task == AsrTask::Translate
            && (vocabulary.languages.is_empty() || vocabulary.translate.is_none())
        {
            return Err(invalid(
                "task",
                "the model cannot translate: it knows one language".into(),
            ));
        }
        let max_new = model.max_tokens / 2;
        let (seed, logits) = (0, Vec::new());
        Ok(Self { model, tokenizer, vocabulary, language, task, max_new, seed, logits })
    }

    /// Reads the first token of the prompt. Its logits tell the language and whether there is speech.
    fn read_start(&mut self) -> Result<(), NodeError> {
        self.model.logits(&[self.vocabulary.start], &mut self.logits)
    }

    /// Language of the encoded audio: the most probable one after the first token of the prompt.
    fn detect_language(&self) -> Option<(&'static str, u32)> {
        if self.language.is_some() {
            return self.language;
        }
        let logit =
            |token: u32| self.logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY);
        let languages = self.vocabulary.languages.iter().copied();
        languages.max_by(|(_, a), (_, b)| logit(*a).total_cmp(&logit(*b)))
    }

    /// Probability that the audio has no speech, if the model tells it after the first token.
    fn no_speech(&self) -> f32 {
        let Some(token) = self.vocabulary.no_speech else { return 0.0 };
        let logit = self.logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY);
        (logit - log_sum_exp(&self.logits)).exp()
    }

    /// Tokens before the transcript.
    fn prompt(&self, language: Option<u32>) -> Vec<u32> {
        let vocabulary = &self.vocabulary;
        let mut prompt = vec![vocabulary.start];
        if let Some(language) = language {
            prompt.push(language);
            prompt.extend(match self.task {
                AsrTask::Transcribe => vocabulary.transcribe,
                AsrTask::Translate => vocabulary.translate,
            });
        }
        if vocabulary.times.is_empty() {
            prompt.extend(vocabulary.no_timestamps);
        }
        prompt
    }

    /// Decodes the encoded audio at a temperature.
    fn attempt(&mut self, prompt: &[u32], temperature: f32) -> Result<Attempt, NodeError> {
        self.seed += 1;
        let sampling = Sampling { temperature, seed: self.seed, ..Sampling::default() };
        let sampler = Sampler::new(sampling);
        let mut sampler = sampler.map_err(|error| self.model.programs.error(error.to_string()))?;
        let has_times = !self.vocabulary.times.is_empty();
        let (mut all, mut sum) = (prompt.to_vec(), 0.0);
        loop {
            self.model.logits(&all, &mut self.logits)?;
            let said = &all[prompt.len()..];
            rules::apply(&mut self.logits, said, &self.vocabulary, has_times);
            let total = log_sum_exp(&self.logits);
            let token = sampler.sample(&self.logits, &[]);
            let token = token.map_err(|error| self.model.programs.error(error.to_string()))?;
            sum += self.logits[token as usize] - total;
            let is_full = said.len() + 1 >= self.max_new || all.len() + 1 >= self.model.max_tokens;
            if token == self.vocabulary.end || is_full {
                let tokens = all.split_off(prompt.len());
                let log_prob = sum / (tokens.len() + 1) as f32;
                return Ok(Attempt { tokens, log_prob });
            }
            all.push(token);
        }
    }

    /// Segments of `tokens`, of audio of this length.
    fn segments_of(&self, tokens: &[u32], len_s: f64) -> Result<Vec<Segment>, NodeError> {
        let found = segments(tokens, &self.vocabulary, &self.tokenizer, len_s);
        found.map_err(|error| self.model.programs.error(error.to_string()))
    }

    fn transcribe(&mut self, samples: &[f32], has_ended: bool) -> Result<Recognized, NodeError> {
        self.model.encode(samples)?;
        self.read_start()?;
        let (language, no_speech) = (self.detect_language(), self.no_speech());
        let prompt = self.prompt(language.map(|(_, token)| token));
        let len_s = RATE.duration(samples.len()).as_secs_f64();
        let temperatures = if has_ended { &TEMPERATURES[..] } else { &TEMPERATURES[..1] };
        let mut found = Vec::new();
        for &temperature in temperatures {
            let attempt = self.attempt(&prompt, temperature)?;
            found = self.segments_of(&attempt.tokens, len_s)?;
            let is_silent = no_speech > NO_SPEECH && attempt.log_prob < MIN_LOG_PROB;
            if is_silent {
                found.clear();
            }
            let text: Vec<&str> = found.iter().map(|segment| segment.text.as_str()).collect();
            let is_plausible =
                attempt.log_prob >= MIN_LOG_PROB && compression(&text.concat()) <= MAX_COMPRESSION;
            if is_silent || is_plausible {
                break;
            }
        }
        let language = match (self.task, language) {
            (AsrTask::Translate, _) | (_, None) => "en",
            (AsrTask::Transcribe, Some((code, _))) => code,
        };
        Ok(Recognized { words: words::words(&found), language: language.to_owned() })
    }
}

impl SegmentModel for Whisper {
    fn rate(&self) -> SampleRate {
        RATE
    }

    fn max_len(&self) -> Duration {
        MAX_LEN
    }

    fn recognize(
        &mut self,
        cx: &mut Cx<'_>,
        samples: &[f32],
        has_ended: bool,
    ) -> Result<Recognized, NodeError> {
        cx.time_model(|| self.transcribe(samples, has_ended))
    }
}

/// Ratio of the length of `text` to its compressed length.
fn compression(text: &str) -> f64 {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let compressed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    // Writing to a vector does not fail.
    let compressed = compressed.map_or(text.len(), |bytes| bytes.len()).max(1);
    text.len() as f64 / compressed as f64
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    use afferent_graph::OpenCx;
    use afferent_runtime::ModelOptions;
    use serde_json::Value;

    use super::*;
    use crate::mel::WhisperMel;

    /// Programs of random weights in the forms of the public exporters, and what transformers
    /// generates; see `tools/stand_ins/whisper.py`.
    fn data() -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/whisper"))
    }

    fn cases() -> Vec<Value> {
        serde_json::from_str(&fs::read_to_string(data().join("cases.json")).unwrap()).unwrap()
    }

    /// Sound `number` of the script: a sum of two sweeps.
    fn sound(number: usize) -> Vec<f32> {
        let tau = 2.0 * std::f64::consts::PI;
        let (low, high) = (150 + 90 * number, 900 + 310 * number);
        let (low, high) = (low as f64, high as f64);
        let sample = |n: usize| {
            let t = n as f64 / 16_000.0;
            let wave = (tau * (low + 40.0 * t) * t).sin() * 0.3;
            (wave + (tau * (high - 25.0 * t) * t).sin() * 0.1) as f32
        };
        (0..16_000 * (2 + 5 * number) / 2).map(sample).collect()
    }

    /// A folder as a user has it: the programs, the tokenizer, and the generation settings.
    fn folder(form: &str) -> PathBuf {
        let name = format!("afferent-whisper-{form}-{:?}", std::thread::current().id());
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for entry in fs::read_dir(data().join(form)).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
        }
        for file in ["tokenizer.json", "generation_config.json"] {
            fs::copy(data().join(file), folder.join(file)).unwrap();
        }
        folder
    }

    fn open(folder: &Path, language: Option<&str>, task: AsrTask) -> Result<Whisper, NodeError> {
        let models = ModelOptions::new(afferent_kernels::KERNELS);
        let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
        let programs = Programs::open(folder, "speech_recognition", &cx)?;
        Whisper::open(programs, language, Some(task))
    }

    #[test]
    fn features_are_those_of_transformers() {
        let mut mel = WhisperMel::new(80);
        let mut found = Vec::new();
        for (number, case) in cases().iter().enumerate() {
            mel.compute(&sound(number), 480_000, &mut found);
            for one in case["mel"].as_array().unwrap() {
                let at = |index: usize| usize::try_from(one[index].as_u64().unwrap()).unwrap();
                let (value, expected) = (found[at(0) * 3000 + at(1)], one[2].as_f64().unwrap());
                let error = (f64::from(value) - expected).abs();
                assert!(error < 1e-4, "sound {number}: {value}, expected {one}");
            }
        }
    }

    #[test]
    fn tokens_are_those_of_transformers_in_every_form() {
        for form in ["token", "positions", "whole", "padded"] {
            let folder = folder(form);
            for (name, language, task) in
                [("english", "en", AsrTask::Transcribe), ("spanish", "es", AsrTask::Translate)]
            {
                let mut whisper = open(&folder, Some(language), task).unwrap();
                whisper.max_new = 60;
                for (number, case) in cases().iter().enumerate() {
                    whisper.model.encode(&sound(number)).unwrap();
                    let prompt = whisper.prompt(whisper.language.map(|(_, token)| token));
                    let found = whisper.attempt(&prompt, 0.0).unwrap().tokens;
                    let expected = case[name].as_array().unwrap().iter().filter_map(Value::as_u64);
                    let end = u64::from(whisper.vocabulary.end);
                    let expected: Vec<u64> = expected.filter(|&token| token != end).collect();
                    let found: Vec<u64> = found.into_iter().map(u64::from).collect();
                    // Both stop at a limit, which is not exactly the same.
                    let has_ended = expected.len() < 55;
                    let len = if has_ended { found.len() } else { 55.min(found.len()) };
                    let expected = &expected[..expected.len().min(55)];
                    assert_eq!(&found[..len], expected, "{form}, {name}, sound {number}");
                }
            }
            fs::remove_dir_all(folder).unwrap();
        }
    }

    #[test]
    fn the_language_is_that_of_transformers() {
        let folder = folder("token");
        let mut whisper = open(&folder, None, AsrTask::Transcribe).unwrap();
        for (number, case) in cases().iter().enumerate() {
            whisper.model.encode(&sound(number)).unwrap();
            whisper.read_start().unwrap();
            let (_, token) = whisper.detect_language().unwrap();
            assert_eq!(Some(u64::from(token)), case["language"].as_u64(), "sound {number}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn errors_name_what_is_missing() {
        let folder = folder("token");
        let told = |language, task| open(&folder, language, task).err().unwrap().to_string();
        let unknown = told(Some("fr"), AsrTask::Transcribe);
        assert_eq!(unknown, "parameter language: the model knows en, es, not fr");
        fs::remove_file(folder.join("tokenizer.json")).unwrap();
        let missing = told(None, AsrTask::Transcribe);
        assert!(
            missing.contains("the model needs a tokenizer: put one of tokenizer.json"),
            "{missing}"
        );
        fs::write(folder.join("generation_config.json"), "{").unwrap();
        fs::copy(data().join("tokenizer.json"), folder.join("tokenizer.json")).unwrap();
        let damaged = told(None, AsrTask::Transcribe);
        assert!(damaged.contains("generation_config.json"), "{damaged}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn loops_compress_well() {
        assert!(compression("the lights in the kitchen are on, and it is half past nine") < 1.2);
        assert!(compression(&"thank you. ".repeat(30)) > MAX_COMPRESSION);
        assert_eq!(compression(""), 0.0);
    }
}
