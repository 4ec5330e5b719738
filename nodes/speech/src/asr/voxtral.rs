//! Voxtral Realtime: a language model that hears 80 ms with each token.

use std::time::Duration;

use afferent_core::{Tensor, TensorView, read_floats, tensor_of};
use afferent_graph::{Cx, NodeError, Timestamp};
use afferent_messages::{AudioBlock, HeardWord, SampleRate, Transcript};
use afferent_runtime::{Input, ModelFile};
use afferent_text::{DecodeStream, Tokenizer};

use super::word_builder::{TimedWord, WordBuilder};
use super::{AsrParams, recognizer::Recognizer, transcripts::Transcripts};
use crate::{
    mel::WhisperMel,
    programs::{Programs, Step, argmax},
};

/// Name of the contract in `model.yaml`.
const CONTRACT: &str = "voxtral_realtime";
/// Begin token of the Mistral vocabulary, if the tokenizer has none.
const DEFAULT_BOS: u32 = 1;

/// A streaming Voxtral. In each step, the embedding of the last token is added to that of the audio.
pub(super) struct Voxtral {
    programs: Programs,
    methods: Methods,
    tokenizer: Tokenizer,
    mel: WhisperMel,
    sizes: Sizes,
    silence: Duration,
    partials: bool,
    bos: u32,
    eos: Vec<u32>,
    /// Audio from `left` samples before the next step on.
    pending: Vec<f32>,
    /// Timestamp of the first sample of the next step.
    at: Timestamp,
    /// Steps since the state was reset.
    position: usize,
    last_token: u32,
    stream: DecodeStream,
    /// Words of the utterance.
    words: WordBuilder<Timestamp>,
    /// Steps since the last text.
    quiet_steps: usize,
    features: Vec<f32>,
    logits: Vec<f32>,
}

/// Methods of the program.
struct Methods {
    encoder: Step,
    embedding: Step,
    decoder: Step,
}

/// Sizes of a step, by the constants of the program.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    rate: SampleRate,
    bands: usize,
    /// New samples.
    step: usize,
    /// Samples before and after the new ones.
    left: usize,
    right: usize,
    /// Columns of features that are skipped, and those that are used.
    skip: usize,
    columns: usize,
    /// Positions of the encoder in a step.
    encoder_positions: usize,
    /// Steps from a sound to its token.
    delay: usize,
    /// Most steps before the state must be reset; unbounded with a sliding window.
    max_steps: usize,
}

impl Methods {
    fn find(programs: &[(&str, &ModelFile)]) -> Option<Self> {
        let find = |name: &str, forms: &[&str]| {
            Step::find(programs, &[name]).filter(|step| step.has_inputs(forms))
        };
        Some(Self {
            encoder: find("encode_audio_chunk", &["f3", "i1"])?,
            embedding: find("token_embedding", &["i2"])?,
            decoder: find("text_decoder", &["f3", "i1"])?,
        })
    }
}

/// Contract of the programs, if they are a streaming Voxtral.
pub(crate) fn contract(programs: &[(&str, &ModelFile)]) -> Option<&'static str> {
    Methods::find(programs).map(|_| CONTRACT)
}

impl Sizes {
    fn read(programs: &Programs, methods: &Methods) -> Result<Self, NodeError> {
        let needed = |name: &str| {
            let value = programs.int(name).and_then(|value| usize::try_from(value).ok());
            value.ok_or_else(|| {
                programs.error(format!("the program has no constant {name}, 0 or greater"))
            })
        };
        let [_, bands, columns] = methods.encoder.input_sizes(0) else {
            return Err(programs.error("encode_audio_chunk does not take [1, bands, columns]"));
        };
        let encoder_positions = methods.encoder.input_sizes(1).first().copied().unwrap_or(1);
        let has_window = programs.size("sliding_window").is_some();
        let rate = needed("sample_rate")?;
        let sizes = Self {
            rate: SampleRate(u32::try_from(rate).unwrap_or(u32::MAX)),
            bands: *bands,
            step: needed("step_samples")?,
            left: needed("stft_left_overlap")?,
            right: needed("stft_right_lookahead")?,
            skip: needed("mel_skip_frames")?,
            columns: *columns,
            encoder_positions,
            delay: needed("delay_tokens")?,
            max_steps: if has_window { usize::MAX } else { needed("max_seq_len")? },
        };
        let made = (sizes.left + sizes.step + sizes.right) / 160;
        if sizes.step == 0 || sizes.max_steps == 0 || made < sizes.skip + sizes.columns {
            return Err(programs.error(format!(
                "{} samples make {made} columns, but the program skips {} and takes {}",
                sizes.left + sizes.step + sizes.right,
                sizes.skip,
                sizes.columns
            )));
        }
        Ok(sizes)
    }

    /// Length of a step.
    fn step_time(&self) -> Duration {
        self.rate.duration(self.step)
    }
}

impl Voxtral {
    /// Checks the methods and constants of `programs`.
    pub(super) fn open(mut programs: Programs, params: &AsrParams) -> Result<Self, NodeError> {
        let Some(methods) = Methods::find(&programs.files()) else {
            return Err(programs.error(format!(
                "Voxtral Realtime needs encode_audio_chunk(mel, i64[n]), token_embedding(i64[1, n]) \
                 and text_decoder(embeddings, i64[n]); export it with --streaming; the package has {}",
                programs.methods()
            )));
        };
        programs.expect_contract(CONTRACT)?;
        let sizes = Sizes::read(&programs, &methods)?;
        let tokenizer = programs.tokenizer()?;
        for step in [&methods.encoder, &methods.embedding, &methods.decoder] {
            programs.load(step)?;
        }
        let bos = tokenizer.bos().unwrap_or(DEFAULT_BOS);
        let eos = tokenizer.eos().to_vec();
        let mut voxtral = Self {
            programs,
            methods,
            tokenizer,
            mel: WhisperMel::new(sizes.bands),
            sizes,
            silence: params.silence,
            partials: params.partials,
            bos,
            eos,
            pending: Vec::new(),
            at: Timestamp::ZERO,
            position: 0,
            last_token: bos,
            stream: DecodeStream::continuing(),
            words: WordBuilder::new(),
            quiet_steps: 0,
            features: Vec::new(),
            logits: Vec::new(),
        };
        voxtral.restart(Timestamp::ZERO);
        Ok(voxtral)
    }

    /// Resets the state of the model; the audio before the next step is silence.
    fn reset(&mut self) {
        self.programs.reset();
        (self.position, self.last_token) = (0, self.bos);
        self.stream = DecodeStream::continuing();
        let filled = self.sizes.left.min(self.pending.len());
        self.pending[..filled].fill(0.0);
    }

    /// Runs the next step: the token that follows.
    fn run_step(&mut self) -> Result<u32, NodeError> {
        let Self { programs, methods, sizes, mel, features, logits, .. } = self;
        let len = sizes.left + sizes.step + sizes.right;
        mel.compute(&self.pending[..len], len, features);
        let made = features.len() / sizes.bands.max(1);
        let rows = features.chunks_exact(made);
        let used: Vec<f32> =
            rows.flat_map(|row| &row[sizes.skip..sizes.skip + sizes.columns]).copied().collect();
        let dtype = methods.encoder.input_dtype(0);
        let input = tensor_of(&used, &[1, sizes.bands, sizes.columns], dtype)?;
        let first = self.position * sizes.encoder_positions;
        let positions = positions(first, sizes.encoder_positions);
        let sizes_of_positions = [positions.len()];
        let position_input = Input::Tensor(TensorView::new(&sizes_of_positions, &positions)?);
        let outputs =
            programs.run(&methods.encoder, &[Input::Tensor(input.view()), position_input])?;
        let mut sum = Vec::new();
        read_floats(&outputs.tensor(0)?, &mut sum)?;
        let token = [i64::from(self.last_token)];
        let token = Input::Tensor(TensorView::new(&[1, 1], &token)?);
        let outputs = programs.run(&methods.embedding, &[token])?;
        let mut embedding = Vec::new();
        read_floats(&outputs.tensor(0)?, &mut embedding)?;
        if embedding.len() != sum.len() {
            let (audio, text) = (sum.len(), embedding.len());
            let reason = format!("the audio has {audio} values for a token, the text {text}");
            return Err(programs.error(reason));
        }
        sum.iter_mut().zip(&embedding).for_each(|(sum, value)| *sum += value);
        let input: Tensor = tensor_of(&sum, &[1, 1, sum.len()], methods.decoder.input_dtype(0))?;
        let position = self::positions(self.position, 1);
        let position = Input::Tensor(TensorView::new(&[1], &position)?);
        let outputs = programs.run(&methods.decoder, &[Input::Tensor(input.view()), position])?;
        read_floats(&outputs.tensor(0)?, logits)?;
        self.position += 1;
        // The index is below the size of the vocabulary.
        self.last_token = argmax(logits) as u32;
        Ok(self.last_token)
    }

    /// Adds the text of a token that the step from `at` on gave.
    fn add_token(&mut self, token: u32, at: Timestamp) -> Result<(), NodeError> {
        let text = self.stream.push(&self.tokenizer, token);
        let text = text.map_err(|error| self.programs.error(error.to_string()))?;
        self.quiet_steps = if text.trim().is_empty() { self.quiet_steps + 1 } else { 0 };
        let step = self.sizes.step_time();
        let delay = step * u32::try_from(self.sizes.delay).unwrap_or(u32::MAX);
        let (start, end) = (at - delay, at - delay + step);
        self.words.push(&text, start, end);
        Ok(())
    }

    /// Runs the whole steps of the audio.
    fn run_steps(
        &mut self,
        cx: &mut Cx<'_>,
        transcripts: &mut Transcripts,
    ) -> Result<(), NodeError> {
        let Sizes { left, step, right, max_steps, .. } = self.sizes;
        while self.pending.len() >= left + step + right {
            let at = self.at;
            let token = cx.time_model(|| self.run_step())?;
            self.pending.drain(..step);
            self.at = at + self.sizes.step_time();
            self.add_token(token, at)?;
            let quiet =
                self.sizes.step_time() * u32::try_from(self.quiet_steps).unwrap_or(u32::MAX);
            let has_ended = self.eos.contains(&token) || self.position >= max_steps;
            if has_ended || (quiet >= self.silence && !self.words.words().is_empty()) {
                self.send_final(cx, self.at, transcripts);
            } else if self.partials && self.quiet_steps == 0 {
                let words = self.words.words().iter().cloned();
                let fill = |transcript: &mut Transcript| transcript.words.extend(words.map(heard));
                transcripts.send_partial(cx, self.at, fill);
            }
            if has_ended {
                self.reset();
            }
        }
        Ok(())
    }

    /// Sends the words as final, and begins the next utterance.
    fn send_final(&mut self, cx: &mut Cx<'_>, at: Timestamp, transcripts: &mut Transcripts) {
        let words = self.words.take().into_iter();
        let fill = |transcript: &mut Transcript| transcript.words.extend(words.map(heard));
        transcripts.send_final(cx, at, fill);
    }
}

impl Recognizer for Voxtral {
    fn rate(&self) -> SampleRate {
        self.sizes.rate
    }

    fn restart(&mut self, at: Timestamp) {
        self.pending.clear();
        self.pending.resize(self.sizes.left, 0.0);
        self.at = at;
        self.words.take();
        self.quiet_steps = 0;
        self.reset();
    }

    fn push(
        &mut self,
        cx: &mut Cx<'_>,
        samples: &[f32],
        _: Timestamp,
        transcripts: &mut Transcripts,
    ) -> Result<(), NodeError> {
        self.pending.extend(samples.iter().map(|sample| AudioBlock::sanitized(*sample)));
        self.run_steps(cx, transcripts)
    }

    fn end_utterance(
        &mut self,
        cx: &mut Cx<'_>,
        at: Timestamp,
        transcripts: &mut Transcripts,
    ) -> Result<(), NodeError> {
        let Sizes { left, step, right, delay, .. } = self.sizes;
        if self.position == 0 && self.pending.len() <= left {
            return Ok(());
        }
        // Silence up to a whole step, and for the delay.
        let new = self.pending.len() - left;
        let next = self.at + self.sizes.rate.duration(new);
        let steps = new.div_ceil(step) + delay;
        self.pending.resize(left + steps * step + right, 0.0);
        self.silence_while(cx, transcripts)?;
        self.send_final(cx, at, transcripts);
        self.restart(next);
        Ok(())
    }
}

impl Voxtral {
    /// Runs the steps of silence at the end of an utterance, whose pauses do not end it.
    fn silence_while(
        &mut self,
        cx: &mut Cx<'_>,
        transcripts: &mut Transcripts,
    ) -> Result<(), NodeError> {
        let (silence, partials) = (self.silence, self.partials);
        (self.silence, self.partials) = (Duration::MAX, false);
        let result = self.run_steps(cx, transcripts);
        (self.silence, self.partials) = (silence, partials);
        result
    }
}

fn heard(word: TimedWord<Timestamp>) -> HeardWord {
    let TimedWord { text, start, end } = word;
    HeardWord { text, start, end, ..HeardWord::default() }
}

/// Positions from `first` on.
fn positions(first: usize, count: usize) -> Vec<i64> {
    // Positions count steps of 80 ms.
    (first..first + count).map(|position| position as i64).collect()
}
