//! Models that read whole utterances: Whisper, Parakeet, language models that hear, and those of servers.

use std::time::Duration;

use afferent_graph::{Cx, NodeError, Timestamp};
use afferent_messages::{AudioBlock, HeardWord, SampleRate, Transcript};

use super::{pause::PauseDetector, recognizer::Recognizer, transcripts::Transcripts};

/// Audio before the start of speech that belongs to the utterance.
const LEAD_IN: Duration = Duration::from_millis(300);
/// Length of the parts in which pauses are measured.
const PART: Duration = Duration::from_millis(10);
/// Utterances below this length are not recognized.
const MIN_UTTERANCE: Duration = Duration::from_millis(60);
/// Length over which the level is smoothed to find where to cut.
const CUT_WINDOW: Duration = Duration::from_millis(200);
/// Delay of the partial transcripts from which on they are skipped, as a multiple of `update`.
const MAX_DELAY: u32 = 2;

/// Model that recognizes an utterance at once.
pub(crate) trait SegmentModel: Send {
    /// Sample rate of the audio.
    fn rate(&self) -> SampleRate;

    /// Longest utterance.
    fn max_len(&self) -> Duration;

    /// Recognizes the utterance `samples`. If it has not ended yet, a quick result suffices.
    fn recognize(
        &mut self,
        cx: &mut Cx<'_>,
        samples: &[f32],
        has_ended: bool,
    ) -> Result<Recognized, NodeError>;
}

/// Words of an utterance.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Recognized {
    pub(crate) words: Vec<SegmentWord>,
    /// ISO 639-1 code; empty if it is not known.
    pub(crate) language: String,
}

/// Word with its time from the start of the utterance.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SegmentWord {
    pub(crate) text: String,
    pub(crate) start: Duration,
    pub(crate) end: Duration,
}

/// Words of `text` from `start` to `end` in seconds, split at spaces. Their times divide the duration by
/// their letters.
pub(crate) fn spread_words(text: &str, start: f64, end: f64) -> Vec<SegmentWord> {
    let letters = |text: &str| text.chars().count() + 1;
    let total: usize = text.split_whitespace().map(letters).sum();
    let at = |letters: usize| {
        let share = letters as f64 / total.max(1) as f64;
        Duration::from_secs_f64(start + share * (end - start))
    };
    let (mut words, mut before) = (Vec::new(), 0);
    for text in text.split_whitespace() {
        let after = before + letters(text);
        let (start, end) = (at(before), at(after));
        words.push(SegmentWord { text: text.to_owned(), start, end });
        before = after;
    }
    words
}

/// Limits of utterances.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Silence that ends an utterance.
    pub(crate) silence: Duration,
    /// Longest utterance.
    pub(crate) max_utterance: Duration,
    /// Least audio between two partial transcripts; `None` for no partial transcripts.
    pub(crate) update: Option<Duration>,
}

/// Recognizer with a model of whole utterances. Collects the audio of an utterance, and runs the model
/// at its end, and before that for partial transcripts.
pub(crate) struct Segments<M> {
    model: M,
    limits: Limits,
    max_samples: usize,
    /// Audio of the utterance, or the last audio before it.
    audio: Vec<f32>,
    /// Timestamp of the first sample of `audio`.
    audio_at: Timestamp,
    pauses: PauseDetector,
    /// Length of the current pause.
    silent_for: Duration,
    /// True from the end of an utterance until speech resumes.
    is_waiting: bool,
    /// Samples of the last partial transcript.
    updated: usize,
    /// Words of the last partial run.
    last_words: Vec<String>,
}

impl<M: SegmentModel> Segments<M> {
    pub(crate) fn new(model: M, limits: Limits) -> Self {
        let rate = model.rate();
        let max_samples = rate.samples(limits.max_utterance.min(model.max_len())).max(1);
        Self {
            limits,
            max_samples,
            audio: Vec::new(),
            audio_at: Timestamp::ZERO,
            pauses: PauseDetector::new(rate),
            silent_for: Duration::ZERO,
            is_waiting: false,
            updated: 0,
            last_words: Vec::new(),
            model,
        }
    }

    /// Timestamp of the end of the audio.
    fn end(&self) -> Timestamp {
        self.audio_at + self.model.rate().duration(self.audio.len())
    }

    /// Begins an utterance with the audio that is there.
    fn begin(&mut self) {
        (self.updated, self.is_waiting) = (0, false);
        self.last_words.clear();
    }

    /// Drops audio from the front.
    fn drop_front(&mut self, samples: usize) {
        self.audio.drain(..samples);
        self.audio_at = self.audio_at + self.model.rate().duration(samples);
    }

    /// Recognizes the first `len` samples, and sends the words as final. The next utterance begins with
    /// the rest.
    fn finish(
        &mut self,
        cx: &mut Cx<'_>,
        len: usize,
        at: Timestamp,
        transcripts: &mut Transcripts,
    ) -> Result<(), NodeError> {
        let rate = self.model.rate();
        let found = match len >= rate.samples(MIN_UTTERANCE) {
            true => self.model.recognize(cx, &self.audio[..len], true)?,
            false => Recognized::default(),
        };
        let fill = |transcript: &mut Transcript| found.write(self.audio_at, transcript);
        transcripts.send_final(cx, at, fill);
        self.drop_front(len);
        self.begin();
        Ok(())
    }

    /// Sends the words on which this run and the one before agree.
    fn send_partial(
        &mut self,
        cx: &mut Cx<'_>,
        update: Duration,
        transcripts: &mut Transcripts,
    ) -> Result<(), NodeError> {
        self.updated = self.audio.len();
        let at = self.end();
        if cx.now().since(at) > update * MAX_DELAY {
            return Ok(());
        }
        let mut found = self.model.recognize(cx, &self.audio, false)?;
        let words: Vec<String> = found.words.iter().map(|word| comparable(&word.text)).collect();
        let is_same = |(new, old): &(&String, &String)| new == old;
        let agreed = words.iter().zip(&self.last_words).take_while(is_same).count();
        self.last_words = words;
        found.words.truncate(agreed);
        transcripts.send_partial(cx, at, |transcript| found.write(self.audio_at, transcript));
        Ok(())
    }

    /// Adds a part of the audio, in which `silent_for` does not change much.
    fn push_part(
        &mut self,
        cx: &mut Cx<'_>,
        part: &[f32],
        transcripts: &mut Transcripts,
    ) -> Result<(), NodeError> {
        let rate = self.model.rate();
        self.audio.extend(part.iter().map(|sample| AudioBlock::sanitized(*sample)));
        self.pauses.update(part);
        self.silent_for = match self.pauses.is_silent() {
            true => self.silent_for + rate.duration(part.len()),
            false => Duration::ZERO,
        };
        if self.is_waiting {
            if self.pauses.is_silent() {
                let kept = rate.samples(LEAD_IN);
                self.drop_front(self.audio.len().saturating_sub(kept));
                return Ok(());
            }
            self.begin();
        }
        if self.silent_for >= self.limits.silence {
            let at = self.end();
            self.finish(cx, self.audio.len(), at, transcripts)?;
            self.is_waiting = true;
        } else if self.audio.len() >= self.max_samples {
            let len = quietest(&self.audio, rate);
            let at = self.audio_at + rate.duration(len);
            self.finish(cx, len, at, transcripts)?;
        } else if let Some(update) = self.limits.update
            && self.audio.len() - self.updated >= rate.samples(update)
        {
            self.send_partial(cx, update, transcripts)?;
        }
        Ok(())
    }
}

impl<M: SegmentModel> Recognizer for Segments<M> {
    fn rate(&self) -> SampleRate {
        self.model.rate()
    }

    fn restart(&mut self, at: Timestamp) {
        self.audio.clear();
        (self.audio_at, self.silent_for) = (at, Duration::ZERO);
        self.pauses.restart();
        self.begin();
    }

    fn push(
        &mut self,
        cx: &mut Cx<'_>,
        samples: &[f32],
        at: Timestamp,
        transcripts: &mut Transcripts,
    ) -> Result<(), NodeError> {
        if self.audio.is_empty() {
            self.audio_at = at;
        }
        let part = self.model.rate().samples(PART).max(1);
        samples.chunks(part).try_for_each(|part| self.push_part(cx, part, transcripts))
    }

    fn end_utterance(
        &mut self,
        cx: &mut Cx<'_>,
        at: Timestamp,
        transcripts: &mut Transcripts,
    ) -> Result<(), NodeError> {
        if !self.is_waiting {
            self.finish(cx, self.audio.len(), at, transcripts)?;
            self.is_waiting = true;
        }
        Ok(())
    }
}

impl Recognized {
    /// Writes the words to `transcript`; the utterance began at `at`.
    fn write(&self, at: Timestamp, transcript: &mut Transcript) {
        transcript.words.extend(self.words.iter().map(|word| HeardWord {
            text: word.text.clone(),
            start: at + word.start,
            end: at + word.end,
            ..HeardWord::default()
        }));
        transcript.language.push_str(&self.language);
    }
}

/// A word without case and punctuation.
fn comparable(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Middle of the quietest part of the second half of `audio`.
fn quietest(audio: &[f32], rate: SampleRate) -> usize {
    let window = rate.samples(CUT_WINDOW).clamp(1, audio.len().max(1));
    let first = audio.len() / 2;
    let energy = |samples: &[f32]| samples.iter().map(|x| f64::from(x * x)).sum::<f64>();
    let step = (window / 10).max(1);
    let starts = (first..=audio.len().saturating_sub(window)).step_by(step);
    let quiet = starts
        .min_by(|a, b| energy(&audio[*a..a + window]).total_cmp(&energy(&audio[*b..b + window])));
    quiet.map_or(audio.len(), |start| start + window / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_in_the_longest_pause_of_the_second_half() {
        let rate = SampleRate(16_000);
        let sound = |ms: usize| vec![0.3; 16 * ms];
        let silence = |ms: usize| vec![0.001; 16 * ms];
        let audio = [sound(300), silence(300), sound(700), silence(60), sound(200), silence(240)];
        let audio = [audio.concat(), sound(400)].concat();
        let cut = quietest(&audio, rate);
        let middle = 16 * (300 + 300 + 700 + 60 + 200 + 120);
        assert!(cut.abs_diff(middle) <= 16 * 40, "{cut} of {middle}");
        assert_eq!(quietest(&[0.1; 10], rate), 10);
        assert_eq!(quietest(&[], rate), 0);
    }

    #[test]
    fn words_are_compared_without_case_and_punctuation() {
        assert_eq!(comparable("Don't,"), "dont");
        assert_eq!(comparable("¿Qué?"), "qué");
    }
}
