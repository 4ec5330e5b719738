//! Language models that hear an utterance: Voxtral.

use std::{path::PathBuf, sync::atomic::AtomicBool, time::Duration};

use afferent_core::tensor_of;
use afferent_graph::{Cx, NodeError};
use afferent_messages::SampleRate;
use afferent_package::Chat;
use afferent_runtime::ModelFile;
use afferent_text::{
    ContractOptions, GenerationOptions, GenerationState, Generator, Segment, TextError, Tokenizer,
};

use super::segments::{Recognized, SegmentModel, spread_words};
use crate::{
    llm::cache_of,
    mel::WhisperMel,
    programs::{Programs, Step},
};

/// Name of the contract in `model.yaml`.
const CONTRACT: &str = "voxtral";
/// Method that makes rows of features.
const ENCODER: &str = "audio_encoder";
const RATE: SampleRate = SampleRate(16_000);
/// Columns of features of a part, and its samples.
const COLUMNS: usize = 3000;
const PART_SAMPLES: usize = 480_000;
/// Most tokens of a transcript.
const MAX_NEW: usize = 1024;
/// Mark of the rows in a prompt.
const AUDIO: &str = "{audio}";

/// A language model that reads the rows of an utterance within its prompt.
pub(super) struct Hearing {
    path: PathBuf,
    generator: Generator,
    tokenizer: Tokenizer,
    options: GenerationOptions,
    mel: WhisperMel,
    encoder: Step,
    /// Tokens before and after the rows.
    prompt: [Vec<u32>; 2],
    /// Token in the context for each row; its embedding is not used.
    placeholder: u32,
    language: String,
    features: Vec<f32>,
}

/// The encoder, and the decoder of its rows.
fn methods(programs: &[(&str, &ModelFile)]) -> Option<[Step; 2]> {
    let find = |name: &str, forms: &[&str]| {
        Step::find(programs, &[name]).filter(|step| step.has_inputs(forms))
    };
    let encoder = find(ENCODER, &["f3"]).filter(|step| step.input_sizes(0)[2] == COLUMNS)?;
    find("token_embedding", &["i2"])?;
    Some([encoder, find("text_decoder", &["f3", "i1"])?])
}

/// Contract of the programs, if they are a language model that hears.
pub(crate) fn contract(programs: &[(&str, &ModelFile)]) -> Option<&'static str> {
    methods(programs).map(|_| CONTRACT)
}

/// The prompt of Voxtral for a transcript.
fn transcription(language: Option<&str>) -> Chat {
    let language = language.map(|code| format!("lang:{code}")).unwrap_or_default();
    Chat {
        begin: "<s>".to_owned(),
        user: format!("[INST][BEGIN_AUDIO]{AUDIO}[/INST]"),
        answer: format!("{language}[TRANSCRIBE]"),
        end: "</s>".to_owned(),
        ..Chat::default()
    }
}

impl Hearing {
    /// True if `programs` have a method that only these models have.
    pub(super) fn is_in(programs: &Programs) -> bool {
        programs.find(&[ENCODER]).is_some()
    }

    /// Checks the methods, the tokenizer and the prompt.
    pub(super) fn open(mut programs: Programs, language: Option<&str>) -> Result<Self, NodeError> {
        let Some([encoder, decoder]) = methods(&programs.files()) else {
            return Err(programs.error(format!(
                "audio_encoder(mel[parts, bands, {COLUMNS}]), token_embedding(i64[1, n]) and \
                 text_decoder(f32[1, n, width], i64[n]) were expected; the package has {}",
                programs.methods()
            )));
        };
        programs.expect_contract(CONTRACT)?;
        let tokenizer = programs.tokenizer()?;
        let manifest = &programs.package.manifest;
        let chat = manifest.chat.clone().filter(Chat::has_parts);
        if chat.is_some() && language.is_some() {
            let reason = "the prompt is that of `chat` in model.yaml: name the language there";
            return Err(NodeError::InvalidParam { name: "language".into(), reason: reason.into() });
        }
        let chat = chat.unwrap_or_else(|| transcription(language));
        let prompt = prompt(&chat, &tokenizer).map_err(|reason| programs.error(reason))?;
        let mut options = GenerationOptions { max_new_tokens: MAX_NEW, ..Default::default() };
        options.end_at(&chat.end, &tokenizer);
        let contract = ContractOptions { method: None, cache: manifest.cache.map(cache_of) };
        let placeholder = programs.int("audio_token_id").and_then(|token| token.try_into().ok());
        programs.load(&encoder)?;
        let path = programs.package.folder().to_owned();
        let failed =
            |error: TextError| NodeError::Model { path: path.clone(), reason: error.to_string() };
        let generator = Generator::with_options(programs.into_model(&decoder), &contract);
        Ok(Self {
            generator: generator.map_err(failed)?,
            tokenizer,
            options,
            mel: WhisperMel::new(encoder.input_sizes(0)[1]),
            encoder,
            prompt,
            placeholder: placeholder.unwrap_or(0),
            language: language.unwrap_or_default().to_owned(),
            features: Vec::new(),
            path,
        })
    }

    /// Writes the features of `samples`, and returns the number of parts of 30 s.
    fn prepare(&mut self, samples: &[f32]) -> usize {
        let [most, bands, _] = *self.encoder.input_sizes(0) else { return 0 };
        let is_static = self.encoder.inputs().is_some_and(|inputs| inputs[0].2);
        let parts = if is_static { most } else { samples.len().div_ceil(PART_SAMPLES).max(1) };
        let mut all = Vec::new();
        self.mel.compute(samples, parts * PART_SAMPLES, &mut all);
        self.features.clear();
        for part in 0..parts {
            for band in all.chunks_exact(parts * COLUMNS).take(bands) {
                self.features.extend_from_slice(&band[part * COLUMNS..][..COLUMNS]);
            }
        }
        parts
    }

    /// Text of the utterance `samples`.
    fn transcribe(&mut self, cancel: &AtomicBool, samples: &[f32]) -> Result<String, TextError> {
        let parts = self.prepare(samples);
        let Self { generator, tokenizer, encoder, features, .. } = self;
        let sizes = [parts, encoder.input_sizes(0)[1], COLUMNS];
        let failed =
            |error: afferent_core::Error| TextError::Embedding { reason: error.to_string() };
        let input = tensor_of(features, &sizes, encoder.input_dtype(0)).map_err(failed)?;
        let cancel = Some(cancel);
        let rows = generator.run_encoder(ENCODER, &[input.view()], cancel)?;
        let [before, after] = self.prompt.clone();
        let placeholder = self.placeholder;
        let rows = Segment::Rows { placeholder, rows };
        generator.set_context(&[Segment::Tokens(before), rows, Segment::Tokens(after)])?;
        let mut state = GenerationState::start(generator, tokenizer, &[], &self.options)?;
        let mut text = String::new();
        while let Some(token) = state.next(generator, tokenizer, cancel)? {
            text.push_str(&token.text);
        }
        Ok(text)
    }
}

/// Tokens before and after the rows of a prompt.
///
/// # Errors
/// A message that says what is missing.
fn prompt(chat: &Chat, tokenizer: &Tokenizer) -> Result<[Vec<u32>; 2], String> {
    let Some((before, after)) = chat.user.split_once(AUDIO) else {
        return Err(format!(
            "chat.user in model.yaml has no {AUDIO}, where the rows of the audio are"
        ));
    };
    let mark = "[BEGIN_AUDIO]";
    if before.contains(mark) && tokenizer.token_id(mark).is_none() {
        return Err(format!(
            "the tokenizer has no token {mark}: give the prompt of the model by `chat` in model.yaml, with \
             {AUDIO} in `user`"
        ));
    }
    let encode = |text: String| tokenizer.encode(&text).map_err(|error| error.to_string());
    Ok([encode(format!("{}{before}", chat.begin))?, encode(format!("{after}{}", chat.answer))?])
}

impl SegmentModel for Hearing {
    fn rate(&self) -> SampleRate {
        RATE
    }

    fn max_len(&self) -> Duration {
        RATE.duration(PART_SAMPLES * self.encoder.input_sizes(0)[0])
    }

    fn recognize(
        &mut self,
        cx: &mut Cx<'_>,
        samples: &[f32],
        _: bool,
    ) -> Result<Recognized, NodeError> {
        let cancel = cx.cancel_flag();
        let text = cx.time_model(|| self.transcribe(cancel, samples));
        let text = text.map_err(|error| match error.is_canceled() {
            true => NodeError::Canceled,
            false => NodeError::Model { path: self.path.clone(), reason: error.to_string() },
        })?;
        let words = spread_words(&text, 0.0, RATE.duration(samples.len()).as_secs_f64());
        Ok(Recognized { words, language: self.language.clone() })
    }
}
