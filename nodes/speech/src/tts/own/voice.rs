//! Speech synthesis with a model package.

use std::{path::Path, time::Duration};

use afferent_graph::{NodeError, OpenCx};
use afferent_messages::SampleRate;
use afferent_package::ModelPackage;

use super::{
    excitation::Excitation,
    length_regulator::{self, HOPS_PER_STEP, POSITION_FEATURES},
    lexicon::{Lexicon, Phoneme},
    program::{CONTEXT_LEN, VoiceProgram},
    tokens::{TOKEN_FEATURES, Tokens},
    utterance::{SpokenWord, Utterance},
};
use crate::tts::normalize::{self, Clause, ClauseEnd, Language};

/// Silence before and after each clause, in seconds.
const LEAD_S: f32 = 0.05;
const TAIL_S: f32 = 0.08;
/// Value of the bands in silence.
const SILENT_BAND: f32 = -2.0;
/// The decoder returns the pitch as a logarithm: `PITCH_CENTER_HZ * exp(value / PITCH_SCALE)`.
const PITCH_CENTER_HZ: f32 = 100.0;
const PITCH_SCALE: f32 = 4.0;
const NOISE_SEED: u64 = 1;

/// Synthesizes speech with a model package, chunk by chunk.
///
/// ```
/// use afferent_graph::OpenCx;
/// use afferent_nodes_speech::Voice;
///
/// let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/tts");
/// let models = afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS);
/// let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
/// let mut voice = Voice::open(package.as_ref(), &cx)?;
/// let mut sound = Vec::new();
/// for clause in voice.clauses("It is 7:30.") {
///     let mut utterance = voice.begin(&clause, 1.0)?;
///     while let Some(chunk) = voice.next_chunk(&mut utterance)? {
///         sound.extend_from_slice(chunk);
///     }
/// }
/// assert!(sound.len() > 16_000);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Voice {
    program: VoiceProgram,
    lexicon: Lexicon,
    language: Language,
    excitation: Excitation,
    scratch: Scratch,
    chunk: Vec<f32>,
}

/// Buffers for the inputs of a window.
#[derive(Debug, Default)]
struct Scratch {
    expanded: Vec<f32>,
    mask: Vec<f32>,
    bands: Vec<f32>,
    pulses: Vec<f32>,
    noise: Vec<f32>,
}

impl Voice {
    /// Task of the packages of voices.
    pub(crate) const TASK: &str = "text_to_speech";

    /// Loads the package at `path`: a program with the contract of [`Tts`](crate::Tts), and its
    /// `lexicon.txt`.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    pub fn open(path: &Path, cx: &OpenCx) -> Result<Self, NodeError> {
        let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
        let package = ModelPackage::open(path).map_err(|error| failed(error.to_string()))?;
        package.expect_task(Self::TASK).map_err(|error| failed(error.to_string()))?;
        let code = package.manifest.language.as_deref().unwrap_or("en");
        let language = Language::of(code).ok_or_else(|| {
            failed(format!("language: {code:?} is none of the languages of this voice, en and es"))
        })?;
        let program = VoiceProgram::open(&package, cx)?;
        let lexicon = Lexicon::open(&package.folder().join("lexicon.txt"))?;
        let sizes = program.sizes;
        let excitation = Excitation::new(sizes.hop, sizes.rate);
        let scratch = Scratch {
            expanded: vec![0.0; HOPS_PER_STEP * (sizes.hidden + POSITION_FEATURES) * sizes.steps],
            mask: Vec::new(),
            bands: vec![0.0; sizes.bands * sizes.hops],
            pulses: vec![0.0; excitation.spectrum_len() * sizes.hops],
            noise: vec![0.0; excitation.spectrum_len() * sizes.hops],
        };
        Ok(Self { program, lexicon, language, excitation, scratch, chunk: Vec::new() })
    }

    /// Sample rate of the speech, which has one channel.
    pub fn rate(&self) -> SampleRate {
        SampleRate(self.program.sizes.rate)
    }

    /// Normalizes `text` to clauses of spoken words.
    pub fn clauses(&self, text: &str) -> Vec<Clause> {
        normalize::clauses(text, self.language, |word| self.lexicon.contains(word))
    }

    /// Silence after a clause.
    pub fn pause(end: ClauseEnd) -> Duration {
        Duration::from_millis(if end == ClauseEnd::Comma { 100 } else { 250 })
    }

    /// Begins an utterance of `clause`, `pace` times as fast as the voice by default.
    ///
    /// # Errors
    /// [`NodeError::Model`] and [`NodeError::Tensor`].
    pub fn begin(&mut self, clause: &Clause, pace: f32) -> Result<Utterance, NodeError> {
        let mut phonemes: Vec<Vec<Phoneme>> = Vec::new();
        for word in clause.words.iter().rev() {
            let next = phonemes.last().and_then(|word| word.first()).copied();
            let known = self.lexicon.get(word, next.as_ref()).map(<[Phoneme]>::to_vec);
            phonemes.push(match known {
                Some(known) => known,
                None => self.spell(word)?,
            });
        }
        phonemes.reverse();
        let tokens = Tokens::new(&phonemes, clause.end);
        let (hidden, mut seconds) = self.encode(&tokens)?;
        let last = seconds.len() - 1;
        seconds.iter_mut().for_each(|seconds| *seconds /= pace);
        (seconds[0], seconds[last]) = (LEAD_S, TAIL_S);
        let hop_s = self.program.sizes.hop as f64 / f64::from(self.program.sizes.rate);
        let hops = length_regulator::expand(&mut seconds, hop_s);
        let words = spoken_words(clause, &tokens, &seconds);
        Ok(Utterance { hidden, hops, words, ..Utterance::default() })
    }

    /// The next samples of an utterance; `None` at its end.
    ///
    /// # Errors
    /// [`NodeError::Model`] and [`NodeError::Tensor`].
    pub fn next_chunk(&mut self, utterance: &mut Utterance) -> Result<Option<&[f32]>, NodeError> {
        let sizes = self.program.sizes;
        if utterance.returned_hops >= utterance.hop_count() {
            return Ok(None);
        }
        let payload = sizes.hops - 2 * CONTEXT_LEN;
        // One hop more than the window, because the pitch is interpolated between hops.
        let needed =
            (utterance.returned_hops + payload + CONTEXT_LEN + 1).min(utterance.hop_count());
        while utterance.pitch.len() < needed {
            self.decode(utterance)?;
        }
        let is_complete = utterance.pitch.len() == utterance.hop_count();
        self.excitation.extend(&mut utterance.pulses, &utterance.pitch, is_complete);
        let first = utterance.returned_hops as isize - CONTEXT_LEN as isize;
        let Scratch { bands, pulses, noise, .. } = &mut self.scratch;
        for column in 0..sizes.hops {
            let hop = usize::try_from(first + column as isize).ok();
            let known = hop.and_then(|hop| utterance.bands.chunks_exact(sizes.bands).nth(hop));
            for row in 0..sizes.bands {
                let silent = if row + 2 < sizes.bands { SILENT_BAND } else { 0.0 };
                bands[row * sizes.hops + column] = known.map_or(silent, |known| known[row]);
            }
        }
        self.excitation.pulses(&utterance.pulses, first, sizes.hops, pulses);
        self.excitation.noise(NOISE_SEED, first, sizes.hops, noise);
        let hops = payload.min(utterance.hop_count() - utterance.returned_hops);
        let chunk = &mut self.chunk;
        self.program.sound(bands, pulses, noise, |sound| {
            chunk.clear();
            let samples = CONTEXT_LEN * sizes.hop..(CONTEXT_LEN + hops) * sizes.hop;
            chunk.extend(sound[samples].iter().map(|sample| sample.clamp(-1.0, 1.0)));
        })?;
        utterance.returned_hops += hops;
        Ok(Some(&self.chunk))
    }

    /// Phonemes of a word that is not in the dictionary.
    fn spell(&mut self, word: &str) -> Result<Vec<Phoneme>, NodeError> {
        let sizes = self.program.sizes;
        let mut phonemes = Vec::new();
        // A letter that the voice does not know is silent.
        let letters: Vec<i64> = word.chars().filter_map(|c| self.lexicon.letter(c)).collect();
        for part in letters.chunks(sizes.letters) {
            let mut ids = part.to_vec();
            ids.resize(sizes.letters, 0);
            let mask: Vec<f32> = ids.iter().map(|&id| if id > 0 { 1.0 } else { 0.0 }).collect();
            let lexicon = &self.lexicon;
            self.program.spell(&ids, &mask, |scores| {
                let mut before = 0;
                for row in scores.chunks_exact(sizes.columns).take(2 * part.len()) {
                    let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
                    let best = best.unwrap_or(0);
                    if best != before {
                        phonemes.extend(lexicon.column(best));
                    }
                    before = best;
                }
            })?;
        }
        Ok(phonemes)
    }

    /// Hidden states, token after token, and duration in seconds of each token.
    fn encode(&mut self, tokens: &Tokens) -> Result<(Vec<f32>, Vec<f32>), NodeError> {
        let sizes = self.program.sizes;
        let window = sizes.tokens;
        let mut hidden = vec![0.0; tokens.len() * sizes.hidden];
        let mut seconds = vec![0.0; tokens.len()];
        let (mut from, mut done) = (0, 0);
        while done < tokens.len() {
            let inside = window.min(tokens.len() - from);
            let mut ids = tokens.ids[from..from + inside].to_vec();
            ids.resize(window, 0);
            let mut features =
                tokens.features[from * TOKEN_FEATURES..(from + inside) * TOKEN_FEATURES].to_vec();
            features.resize(window * TOKEN_FEATURES, 0.0);
            let mask: Vec<f32> =
                (0..window).map(|at| if at < inside { 1.0 } else { 0.0 }).collect();
            let is_last = from + inside == tokens.len();
            let until = if is_last { from + inside } else { from + inside - CONTEXT_LEN };
            self.program.forward(&ids, &features, &mask, |states, durations| {
                for token in done..until {
                    let at = token - from;
                    seconds[token] = durations[at];
                    for row in 0..sizes.hidden {
                        hidden[token * sizes.hidden + row] = states[row * window + at];
                    }
                }
            })?;
            done = until;
            from = done.saturating_sub(CONTEXT_LEN);
        }
        Ok((hidden, seconds))
    }

    /// Decodes the next steps of an utterance.
    fn decode(&mut self, utterance: &mut Utterance) -> Result<(), NodeError> {
        let sizes = self.program.sizes;
        let Scratch { expanded, mask, .. } = &mut self.scratch;
        let first = utterance.pitch.len() as isize / HOPS_PER_STEP as isize - CONTEXT_LEN as isize;
        let rows = sizes.hidden + POSITION_FEATURES;
        expanded.fill(0.0);
        mask.clear();
        for column in 0..sizes.steps {
            let hop = usize::try_from((first + column as isize) * HOPS_PER_STEP as isize).ok();
            let hops = hop.and_then(|hop| utterance.hops.get(hop..hop + HOPS_PER_STEP));
            mask.push(if hops.is_some() { 1.0 } else { 0.0 });
            for (half, position) in hops.into_iter().flatten().enumerate() {
                let states = &utterance.hidden[position.token * sizes.hidden..][..sizes.hidden];
                for (row, value) in states.iter().chain(&position.features).enumerate() {
                    expanded[(half * rows + row) * sizes.steps + column] = *value;
                }
            }
        }
        let hops = (HOPS_PER_STEP * (sizes.steps - 2 * CONTEXT_LEN))
            .min(utterance.hop_count() - utterance.pitch.len());
        let (bands, pitch) = (&mut utterance.bands, &mut utterance.pitch);
        self.program.spectrum(expanded, mask, |spectrum| {
            let columns = HOPS_PER_STEP * sizes.steps;
            for column in (HOPS_PER_STEP * CONTEXT_LEN..).take(hops) {
                let number = |row: usize| spectrum[row * columns + column];
                let (value, is_voiced) = (number(sizes.bands - 2), number(sizes.bands - 1) > 0.0);
                bands.extend((0..sizes.bands - 2).map(number));
                bands.extend(if is_voiced { [value, 1.0] } else { [0.0, 0.0] });
                let hertz = PITCH_CENTER_HZ * (value / PITCH_SCALE).clamp(-1.0, 1.5).exp();
                pitch.push(if is_voiced { hertz } else { 0.0 });
            }
        })
    }
}

/// Times of the words of a clause.
fn spoken_words(clause: &Clause, tokens: &Tokens, seconds: &[f32]) -> Vec<SpokenWord> {
    let mut spoken: Vec<SpokenWord> = Vec::new();
    let (mut now, mut before) = (0.0, 0);
    for (word, seconds) in tokens.words.iter().zip(seconds) {
        let start = Duration::from_secs_f32(now);
        now += seconds;
        let end = Duration::from_secs_f32(now);
        let mut words = clause.words.iter().zip(&clause.written);
        let Some((text, written)) = word.checked_sub(1).and_then(|at| words.nth(at)) else {
            continue;
        };
        match spoken.last_mut() {
            Some(last) if before == *word => last.end = end,
            _ => {
                let (text, written) = (text.clone(), *written);
                spoken.push(SpokenWord { text, written, start, end });
            }
        }
        before = *word;
    }
    spoken
}
