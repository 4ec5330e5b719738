//! Voxtral: speech by a language model whose tokens are frames of a codec.

mod noise;
mod voice;

use std::{collections::VecDeque, time::Duration};

use afferent_core::{TensorView, read_floats, tensor_of};
use afferent_graph::{Cx, NodeError};
use afferent_messages::SampleRate;
use afferent_runtime::{Input, ModelFile};
use afferent_text::Tokenizer;

use self::noise::Noise;
pub(crate) use self::voice::is_voice;
use super::{
    TtsParams, sentences,
    synthesizer::{Chunk, Part, Synthesizer},
    text_part::TextPart,
    voices::find_voice,
};
use crate::programs::{Programs, Step, argmax};

/// Name of the contract in `model.yaml`.
const CONTRACT: &str = "voxtral_tts";
/// Forms of the methods, for messages.
const FORM: &str = "token_embedding(i64[1, n]), text_decoder(rows[1, n, D], i64[n]), \
    semantic_head(hidden[1, D]), predict_velocity(x[1, C], i64[1], hidden[1, D]), \
    audio_token_embedding(i64[1, C + 1, 1]), and a program codec_decoder with forward(i64[1, C + 1, n])";
/// Begin token of the Mistral vocabulary, if the tokenizer has none.
const DEFAULT_BOS: u32 = 1;
/// Most letters of a part.
const MAX_LETTERS: usize = 300;
/// Most frames of a part: a minute.
const MAX_FRAMES: usize = 750;
/// Frames before a window of the codec that it reads again.
const CONTEXT_FRAMES: usize = 25;
/// Pauses after a sentence, and after a part of one.
const SENTENCE_PAUSE: Duration = Duration::from_millis(250);
const PART_PAUSE: Duration = Duration::from_millis(100);

/// A Voxtral with a voice.
pub(super) struct VoxtralTts {
    programs: Programs,
    methods: Methods,
    tokenizer: Tokenizer,
    sizes: Sizes,
    /// Rows of the tokens and the voice at the start of every prompt.
    prefix: Vec<f32>,
    /// True once the decoder has read the prefix, which stays in its cache.
    has_prefix: bool,
    flow_steps: usize,
    seed: u64,
    parts: VecDeque<TextPart>,
    audio: Part,
}

/// Methods of the programs.
struct Methods {
    embedding: Step,
    decoder: Step,
    semantic: Step,
    velocity: Step,
    frame_embedding: Step,
    codec: Step,
}

/// Sizes and tokens, by the constants of the program.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    rate: SampleRate,
    /// Values of a row.
    width: usize,
    /// Acoustic codes of a frame.
    acoustic: usize,
    /// Values of an acoustic code.
    levels: usize,
    /// Codes that say something else.
    special: i64,
    end_code: usize,
    guidance: f32,
    /// Samples of a frame.
    frame_samples: usize,
    /// Positions of the decoder.
    context: usize,
    /// Tokens of the prompt.
    audio: i64,
    begin_audio: i64,
    text_to_audio: i64,
    repeat_text: i64,
}

impl Methods {
    fn find(programs: &[(&str, &ModelFile)]) -> Option<Self> {
        let find = |names: &[&str], forms: &[&str]| {
            Step::find(programs, names).filter(|step| step.has_inputs(forms))
        };
        Some(Self {
            embedding: find(&["token_embedding"], &["i2"])?,
            decoder: find(&["text_decoder"], &["f3", "i1"])?,
            semantic: find(&["semantic_head"], &["f2"])?,
            velocity: find(&["predict_velocity"], &["f2", "i1", "f2"])?,
            frame_embedding: find(&["audio_token_embedding"], &["i3"])?,
            codec: find(&["codec_decoder", "codec"], &["i3"])?,
        })
    }
}

/// Contract of the programs, if they are a Voxtral that speaks.
pub(crate) fn contract(programs: &[(&str, &ModelFile)]) -> Option<&'static str> {
    Methods::find(programs).map(|_| CONTRACT)
}

impl Sizes {
    fn read(programs: &Programs, methods: &Methods) -> Result<Self, NodeError> {
        let or = |name: &str, default: i64| programs.int(name).unwrap_or(default);
        let size = |name: &str, default: usize| programs.size(name).unwrap_or(default);
        let rate = u32::try_from(or("sample_rate", 24_000)).unwrap_or(0);
        let sizes = Self {
            rate: SampleRate(rate),
            width: methods.decoder.input_sizes(0)[2],
            acoustic: methods.velocity.input_sizes(0)[1],
            levels: size("acoustic_levels", 21),
            special: or("n_special_tokens", 2),
            end_code: size("end_audio_code", 1),
            guidance: or("cfg_alpha_x100", 120) as f32 / 100.0,
            frame_samples: size("downsample_factor", 1920),
            context: size("max_seq_len", 4096),
            audio: or("audio_token_id", 24),
            begin_audio: or("begin_audio_token_id", 25),
            text_to_audio: or("text_to_audio_token_id", 36),
            repeat_text: or("repeat_audio_text_token_id", 35),
        };
        let codes = sizes.acoustic + 1;
        let frames = methods.codec.input_sizes(0)[2];
        let samples = methods.codec.output_sizes(0).iter().product::<usize>();
        let is_fit = methods.frame_embedding.input_sizes(0) == [1, codes, 1]
            && methods.codec.input_sizes(0)[1] == codes
            && frames > CONTEXT_FRAMES
            && samples >= frames * sizes.frame_samples;
        if !is_fit || rate == 0 || sizes.levels < 2 {
            return Err(programs.error(format!(
                "the program has frames of {codes} codes, and {} samples at {rate} Hz, but the codec takes \
                 {:?} and returns {samples} samples",
                sizes.frame_samples,
                methods.codec.input_sizes(0)
            )));
        }
        Ok(sizes)
    }
}

impl VoxtralTts {
    /// True if `programs` have a method that only this model has.
    pub(super) fn is_in(programs: &Programs) -> bool {
        programs.find(&["predict_velocity"]).is_some()
    }

    /// Checks the programs and companions.
    pub(super) fn open(mut programs: Programs, params: &TtsParams) -> Result<Self, NodeError> {
        let Some(methods) = Methods::find(&programs.files()) else {
            return Err(programs
                .error(format!("Voxtral needs {FORM}; the package has {}", programs.methods())));
        };
        programs.expect_contract(CONTRACT)?;
        let sizes = Sizes::read(&programs, &methods)?;
        let special = programs.tokenizer()?;
        let bos = special.bos().unwrap_or(DEFAULT_BOS);
        let (name, kind) = (params.voice.as_deref(), "a .pt or .bin with its rows");
        let (_, path) = find_voice(&programs, name, kind, is_voice)?;
        let voice = voice::read(&path, sizes.width)
            .map_err(|reason| programs.error(format!("{}: {reason}", path.display())))?;
        let Methods { embedding, decoder, semantic, velocity, frame_embedding, codec } = &methods;
        for step in [embedding, decoder, semantic, velocity, frame_embedding, codec] {
            programs.load(step)?;
        }
        let flow_steps = params.steps.or(programs.size("n_decoding_steps")).unwrap_or(7);
        let mut opened = Self {
            programs,
            methods,
            tokenizer: special.with_special_as_text(&[]),
            sizes,
            prefix: Vec::new(),
            has_prefix: false,
            flow_steps,
            seed: params.seed as u64,
            parts: VecDeque::new(),
            audio: Part::default(),
        };
        opened.prefix = opened.embed(&[i64::from(bos), sizes.begin_audio])?;
        opened.prefix.extend(voice);
        if opened.prefix.len() / sizes.width + 8 > sizes.context {
            let reason = format!("the voice {} exceeds the context of the model", path.display());
            return Err(opened.programs.error(reason));
        }
        Ok(opened)
    }

    /// Rows of tokens.
    fn embed(&mut self, tokens: &[i64]) -> Result<Vec<f32>, NodeError> {
        let sizes = [1, tokens.len()];
        let input = Input::Tensor(TensorView::new(&sizes, tokens)?);
        let mut rows = Vec::new();
        read_floats(&self.programs.run(&self.methods.embedding, &[input])?.tensor(0)?, &mut rows)?;
        Ok(rows)
    }

    /// Runs the decoder on rows from `position` on, and returns the last row of its output.
    fn decode(&mut self, rows: &[f32], position: usize) -> Result<Vec<f32>, NodeError> {
        let (step, width) = (&self.methods.decoder, self.sizes.width);
        let count = rows.len() / width;
        let input = tensor_of(rows, &[1, count, width], step.input_dtype(0))?;
        let positions: Vec<i64> = (position as i64..).take(count).collect();
        let sizes = [count];
        let positions = Input::Tensor(TensorView::new(&sizes, &positions)?);
        let mut hidden = Vec::new();
        let outputs = self.programs.run(step, &[Input::Tensor(input.view()), positions])?;
        read_floats(&outputs.tensor(0)?, &mut hidden)?;
        Ok(hidden.split_off(hidden.len().saturating_sub(width)))
    }

    /// The acoustic values that follow from noise by the flow.
    fn flow(&mut self, hidden: &[f32], noise: &mut Noise) -> Result<Vec<f32>, NodeError> {
        let Self { programs, methods, sizes, flow_steps, .. } = self;
        let step = &methods.velocity;
        let of = |values: &[f32]| tensor_of(values, &[1, sizes.width], step.input_dtype(2));
        let (hidden, none) = (of(hidden)?, of(&vec![0.0; sizes.width])?);
        let mut values: Vec<f32> = (0..sizes.acoustic).map(|_| noise.normal()).collect();
        let (mut guided, mut free) = (Vec::new(), Vec::new());
        for number in 0..*flow_steps {
            let at = tensor_of(&values, &[1, sizes.acoustic], step.input_dtype(0))?;
            let index = [number as i64];
            for (context, velocity) in [(&hidden, &mut guided), (&none, &mut free)] {
                let index = Input::Tensor(TensorView::new(&[1], &index)?);
                let inputs = [Input::Tensor(at.view()), index, Input::Tensor(context.view())];
                read_floats(&programs.run(step, &inputs)?.tensor(0)?, velocity)?;
            }
            let time = |number: usize| number as f32 / *flow_steps as f32;
            let length = time(number + 1) - time(number);
            for (value, (guided, free)) in values.iter_mut().zip(guided.iter().zip(&free)) {
                *value += (sizes.guidance * guided + (1.0 - sizes.guidance) * free) * length;
            }
        }
        Ok(values)
    }

    /// Codes of the frame after `hidden`; `None` at the end.
    fn frame(&mut self, hidden: &[f32], noise: &mut Noise) -> Result<Option<Vec<i64>>, NodeError> {
        let input = tensor_of(hidden, &[1, hidden.len()], self.methods.semantic.input_dtype(0))?;
        let outputs = self.programs.run(&self.methods.semantic, &[Input::Tensor(input.view())])?;
        let mut logits = Vec::new();
        read_floats(&outputs.tensor(0)?, &mut logits)?;
        let semantic = argmax(&logits);
        if semantic == self.sizes.end_code {
            return Ok(None);
        }
        let values = self.flow(hidden, noise)?;
        let Sizes { levels, special, .. } = self.sizes;
        let code = |value: f32| {
            let level = (value.clamp(-1.0, 1.0) + 1.0) / 2.0 * (levels - 1) as f32;
            level.round() as i64 + special
        };
        Ok(Some(std::iter::once(semantic as i64).chain(values.into_iter().map(code)).collect()))
    }

    /// Frames of a part of a text; `None` if the call is canceled.
    fn frames(&mut self, cx: &mut Cx<'_>, text: &str) -> Result<Option<Vec<Vec<i64>>>, NodeError> {
        let Sizes { audio, begin_audio, text_to_audio, repeat_text, .. } = self.sizes;
        let tokens = self.tokenizer.encode(text);
        let tokens = tokens.map_err(|error| self.programs.error(error.to_string()))?;
        let mut prompt = vec![text_to_audio];
        prompt.extend(tokens.into_iter().map(i64::from));
        prompt.extend([repeat_text, begin_audio]);
        let mut position = self.prefix.len() / self.sizes.width;
        if !self.has_prefix {
            let prefix = self.prefix.clone();
            cx.time_model(|| self.decode(&prefix, 0))?;
            self.has_prefix = true;
        }
        let mut hidden = cx.time_model(|| -> Result<Vec<f32>, NodeError> {
            let rows = self.embed(&prompt)?;
            self.decode(&rows, position)?;
            let row = self.embed(&[audio])?;
            self.decode(&row, position + prompt.len())
        })?;
        position += prompt.len() + 1;
        let (mut frames, mut noise) = (Vec::new(), Noise::new(self.seed));
        while frames.len() < MAX_FRAMES && position < self.sizes.context {
            if cx.canceled() {
                return Ok(None);
            }
            let found = cx.time_model(|| self.frame(&hidden, &mut noise))?;
            let Some(codes) = found else { break };
            hidden = cx.time_model(|| -> Result<Vec<f32>, NodeError> {
                let sizes = [1, codes.len(), 1];
                let input = Input::Tensor(TensorView::new(&sizes, &codes)?);
                let outputs = self.programs.run(&self.methods.frame_embedding, &[input])?;
                let mut row = Vec::new();
                read_floats(&outputs.tensor(0)?, &mut row)?;
                self.decode(&row, position)
            })?;
            position += 1;
            frames.push(codes);
        }
        Ok(Some(frames))
    }

    /// Sound of frames, by windows of the codec. A window begins with the end of the one before it.
    fn sound(&mut self, frames: &[Vec<i64>]) -> Result<Vec<f32>, NodeError> {
        let [_, codes, most] = *self.methods.codec.input_sizes(0) else { return Ok(Vec::new()) };
        let frame_samples = self.sizes.frame_samples;
        let (mut sound, mut values, mut done) = (Vec::new(), Vec::new(), 0);
        while done < frames.len() {
            let start = done.saturating_sub(CONTEXT_FRAMES);
            let end = frames.len().min(start + most);
            // The last frame fills up the window.
            let filled: Vec<&Vec<i64>> =
                (start..start + most).map(|at| &frames[at.min(end - 1)]).collect();
            let row = |code: usize| filled.iter().map(move |frame| frame[code]);
            let window: Vec<i64> = (0..codes).flat_map(row).collect();
            let sizes = [1, codes, most];
            let input = Input::Tensor(TensorView::new(&sizes, &window)?);
            let outputs = self.programs.run(&self.methods.codec, &[input])?;
            read_floats(&outputs.tensor(0)?, &mut values)?;
            let new = (done - start) * frame_samples..(end - start) * frame_samples;
            let Some(new) = values.get(new) else {
                return Err(self
                    .programs
                    .error(format!("codec_decoder returned {} samples, too few", values.len())));
            };
            sound.extend_from_slice(new);
            done = end;
        }
        Ok(sound)
    }
}

impl Synthesizer for VoxtralTts {
    fn rate(&self) -> SampleRate {
        self.sizes.rate
    }

    fn begin(&mut self, text: &str) -> Vec<String> {
        self.stop();
        for sentence in sentences::sentences(text) {
            let parts = sentences::divide(&sentence, MAX_LETTERS, |text| text.chars().count());
            let count = parts.len();
            for (words, at) in parts.iter().zip(1..) {
                self.parts.push_back(TextPart::new(words, at == count));
            }
        }
        Vec::new()
    }

    fn next_chunk(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk<'_>>, NodeError> {
        while self.audio.is_done() {
            let Some(part) = self.parts.pop_front() else { return Ok(None) };
            let Some(frames) = self.frames(cx, &part.text())? else { return Ok(None) };
            if frames.is_empty() {
                continue;
            }
            let samples = cx.time_model(|| self.sound(&frames))?;
            let rate = self.sizes.rate;
            let words = part.spoken_words(rate.duration(samples.len()));
            let pause = if part.is_end { SENTENCE_PAUSE } else { PART_PAUSE };
            self.audio = Part::new(samples, words, pause, rate);
        }
        Ok(Some(self.audio.next_chunk(self.sizes.rate)))
    }

    fn is_done(&self) -> bool {
        self.audio.is_done() && self.parts.is_empty()
    }

    fn stop(&mut self) {
        self.parts.clear();
        self.audio = Part::default();
    }
}
