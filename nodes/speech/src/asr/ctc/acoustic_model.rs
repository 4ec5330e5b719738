//! Acoustic model: audio to log probabilities of labels, with silence ahead of each start of speech.

use std::{collections::VecDeque, time::Duration};

use afferent_core::Tensor;
use afferent_graph::{Cx, NodeError};
use afferent_messages::SampleRate;

use super::greedy::argmax;
use crate::{asr::pause::PauseDetector, recurrent::RecurrentModel};

/// Silence that the model hears ahead of speech. Without it, it loses the first word.
const LEAD_IN: Duration = Duration::from_millis(500);
/// Silence appended to the end of speech, since letters appear after their sound.
const TAIL_SILENCE: Duration = Duration::from_millis(300);
/// Audio before the start of an utterance that belongs to it, if it follows a pause.
const MAX_REPLAY: Duration = Duration::from_millis(250);
/// Least pause within speech that counts as a start of speech. Stops within words are shorter.
const MIN_PAUSE: Duration = Duration::from_millis(140);

/// The model with its input and its state.
///
/// After a pause, the state starts over as if the following speech was the first, since the model
/// loses words after a pause otherwise. The letters of the words before it appear during the pause
/// and later: a copy of the state hears silence and yields them. A step has the letter of the copy,
/// or else that of the new state.
pub(super) struct AcousticModel {
    model: RecurrentModel,
    rate: SampleRate,
    window: usize,
    context: usize,
    labels: usize,
    /// Label of the space between words.
    space: usize,
    /// Context and the samples of the next windows.
    pending: Vec<f32>,
    pauses: PauseDetector,
    is_in_pause: bool,
    tail: Tail,
    recent: RecentAudio,
    /// See [`AcousticModel::is_waiting`].
    is_waiting: bool,
}

/// The last audio.
struct RecentAudio {
    samples: VecDeque<f32>,
    pauses: PauseDetector,
}

/// Copy of the state from before a pause.
struct Tail {
    state: Tensor,
    /// Windows that it still hears.
    windows_left: usize,
    /// Context, and a window of silence.
    input: Vec<f32>,
    log_probs: Vec<f32>,
}

impl AcousticModel {
    /// Model that takes `context` and `window` samples, whose label `space` of `labels` separates
    /// words.
    pub(super) fn new(
        mut model: RecurrentModel,
        rate: SampleRate,
        (context, window): (usize, usize),
        (labels, space): (usize, usize),
    ) -> Result<Self, NodeError> {
        model.set_silent_lead_in(rate.samples(LEAD_IN).div_ceil(window))?;
        let tail = Tail {
            state: model.state(),
            windows_left: 0,
            input: vec![0.0; context + window],
            log_probs: Vec::new(),
        };
        let pauses = PauseDetector::new(rate);
        let recent = RecentAudio { samples: VecDeque::new(), pauses: PauseDetector::new(rate) };
        let (pending, is_in_pause) = (vec![0.0; context], false);
        Ok(Self {
            model,
            rate,
            window,
            context,
            labels,
            space,
            pending,
            pauses,
            is_in_pause,
            tail,
            recent,
            is_waiting: false,
        })
    }

    pub(super) fn rate(&self) -> SampleRate {
        self.rate
    }

    /// Samples of a window.
    pub(super) fn window(&self) -> usize {
        self.window
    }

    /// Begins another stream.
    pub(super) fn restart(&mut self) {
        self.begin_utterance();
        self.recent.samples.clear();
        self.recent.pauses.restart();
    }

    /// Ends an utterance. The next one begins when speech resumes in the same audio.
    pub(super) fn end_utterance(&mut self) {
        self.begin_utterance();
        self.is_waiting = true;
    }

    /// True between the end of an utterance and the next speech.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    fn begin_utterance(&mut self) {
        self.model.reset();
        self.pending.clear();
        self.pending.resize(self.context, 0.0);
        self.pauses.restart();
        (self.is_in_pause, self.tail.windows_left, self.is_waiting) = (false, 0, false);
    }

    /// Adds audio. Returns true if speech resumes with it: the end of the pause before it is added
    /// too, since its first sounds may lie there.
    pub(super) fn push(&mut self, samples: &[f32]) -> bool {
        let RecentAudio { samples: recent, pauses } = &mut self.recent;
        pauses.update(samples);
        recent.extend(samples);
        let excess = recent.len().saturating_sub(self.rate.samples(MAX_REPLAY));
        recent.drain(..excess);
        if !self.is_waiting {
            self.pending.extend_from_slice(samples);
            return false;
        }
        if pauses.is_silent() {
            return false;
        }
        self.is_waiting = false;
        let len = self.rate.samples(pauses.since_pause()).max(samples.len()).min(recent.len());
        self.pending.extend(recent.range(recent.len() - len..));
        true
    }

    /// Adds silence that flushes the delay of the model.
    pub(super) fn push_tail_silence(&mut self) {
        let tail = self.undecoded() + self.rate.samples(TAIL_SILENCE);
        let windows = tail.div_ceil(self.window);
        self.pending.resize(self.context + windows * self.window, 0.0);
    }

    /// Samples that have not been decoded.
    pub(super) fn undecoded(&self) -> usize {
        self.pending.len() - self.context
    }

    /// Runs the model on the next window, and writes the log probabilities of its steps to
    /// `log_probs`. Returns false if there is no whole window.
    pub(super) fn next_window(
        &mut self,
        cx: &mut Cx<'_>,
        log_probs: &mut Vec<f32>,
    ) -> Result<bool, NodeError> {
        let whole = self.context + self.window;
        if self.pending.len() < whole {
            return Ok(false);
        }
        if self.pauses.update(&self.pending[self.context..whole]) >= MIN_PAUSE {
            if !self.is_in_pause {
                self.begin_tail();
            }
            self.model.reset();
            self.is_in_pause = true;
        } else {
            self.is_in_pause = false;
        }
        let (model, input) = (&mut self.model, &self.pending[..whole]);
        log_probs.clear();
        log_probs.extend_from_slice(cx.time_model(|| model.run(input))?);
        if self.tail.windows_left > 0 {
            let Tail { state, input, log_probs: tail, windows_left } = &mut self.tail;
            tail.clear();
            tail.extend_from_slice(cx.time_model(|| model.run_from(state, input))?);
            input[..self.context].fill(0.0);
            *windows_left -= 1;
            self.merge_tail(log_probs);
        }
        self.pending.drain(..self.window);
        Ok(true)
    }

    /// Keeps a copy of the state for the letters of the words before this window.
    fn begin_tail(&mut self) {
        self.tail.state = self.model.state();
        self.tail.windows_left = self.rate.samples(TAIL_SILENCE).div_ceil(self.window);
        self.tail.input[..self.context].copy_from_slice(&self.pending[..self.context]);
    }

    /// Merges the steps of the tail into those of the window.
    fn merge_tail(&self, log_probs: &mut [f32]) {
        let steps = log_probs.chunks_exact_mut(self.labels);
        let mut last_is_blank = None;
        for (new, old) in steps.zip(self.tail.log_probs.chunks_exact(self.labels)) {
            if argmax(old) != BLANK {
                new.copy_from_slice(old);
            }
            last_is_blank = (argmax(new) == BLANK).then_some(new);
        }
        // The new state does not know that there was a word, so it yields no space ahead of the
        // next one.
        if let Some(last) = last_is_blank {
            last.fill(f32::NEG_INFINITY);
            (last[BLANK], last[self.space]) = (EVEN_LOG_PROB, EVEN_LOG_PROB);
        }
    }
}

/// Label of the CTC blank.
const BLANK: usize = 0;

/// Logarithm of one half.
const EVEN_LOG_PROB: f32 = -std::f32::consts::LN_2;
