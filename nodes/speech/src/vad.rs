//! Finds speech in sound.

use std::{collections::VecDeque, path::PathBuf, time::Duration};

use afferent_graph::{Cx, In, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{AudioBlock, SampleRate, SpeechEvent, SpeechEventKind};

use afferent_package::Decision;

use crate::recurrent::RecurrentModel;

params! {
    /// Settings of [`Vad`]. The defaults are those of Silero VAD and pipecat, but for
    /// `min_silence`, which a turn detector behind this node extends, and `min_resume`.
    pub struct VadParams {
        /// Model package or program with the contract of Silero VAD.
        pub model: PathBuf;
        /// Probability from which sound may be speech. By default that of the model's package, or
        /// 0.5.
        pub threshold: Option<f32>, range 0.0..=1.0;
        /// Probability below which sound may be silence; between the two nothing changes. By
        /// default that of the package, if the threshold is too, or 0.15 below the threshold.
        pub neg_threshold: Option<f32>, range 0.0..=1.0;
        /// Speech shorter than this is ignored.
        pub min_speech: Duration = "100ms", range 0.0..=10.0;
        /// A pause shorter than this is still speech.
        pub min_silence: Duration = "200ms", range 0.0..=10.0;
        /// Speech shorter than this does not end a pause: others who talk in the background are
        /// loud for a moment now and then.
        pub min_resume: Duration = "64ms", range 0.0..=10.0;
        /// Sound before the start of speech that is sent with it.
        pub pre_roll: Duration = "300ms", range 0.0..=10.0;
        /// Speech is cut into pieces of at most this length.
        pub max_speech: Duration = "30s", range 0.1..=3600.0;
    }
}

/// Finds speech with a model, hysteresis and minimum durations.
///
/// Contract of the model, as the Silero VAD export of ExecuTorch: `forward(x f32[1, context +
/// window], state f32[..]) -> (probability f32[1, 1], state)`, metadata `sample_rate`,
/// `window_size`, `context_size`. Its state is cleared after a gap in the sound, and after every
/// pause of more than two seconds, so that it does not go stale.
///
/// Latency: `min_speech` for a start, `min_silence` for an end, each plus one window.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Timestamp, params};
/// use afferent_messages::{AudioBlock, SampleRate};
/// use afferent_nodes_speech::{Vad, VadParams};
/// use afferent_graph::{ParamValue, Params};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/vad");
/// let values = [("model".to_owned(), ParamValue::Path(model.into()))].into();
/// let params = VadParams::from_values(&values).unwrap();
/// let cx = OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
/// let mut vad = NodeBench::new(Vad::open(params, &cx)?);
///
/// let mut silence = AudioBlock::default();
/// silence.reshape(SampleRate(16_000), 1, 16_000)?.fill(0.0);
/// assert!(vad.call(Vad::AUDIO, Timestamp(0), silence)?.is_empty());
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Vad {
    limits: Limits,
    pre_roll: Duration,
    model: RecurrentModel,
    rate: SampleRate,
    window: usize,
    context: usize,
    /// Context and the start of the next window.
    pending: Vec<f32>,
    /// Time of the first sample of `pending` behind the context.
    pending_at: Timestamp,
    /// Time of the sample that should come next; `None` before the first.
    next_at: Option<Timestamp>,
    gate: Gate,
    /// Windows that may become pre-roll, the oldest first.
    recent: VecDeque<f32>,
}

ports! {
    impl Vad {
        /// Audio, one channel, at the sample rate of the model, full scale ±1, blocks of any
        /// length.
        in AUDIO: AudioBlock;
        /// Start and end of speech, timestamped with the time at which they happened.
        out EVENTS: SpeechEvent;
        /// Audio of speech segments only, with the pre-roll.
        out SPEECH: AudioBlock;
    }
}

impl Vad {
    /// The threshold and the one below it, of the parameters or of the package.
    fn thresholds(params: &VadParams, own: &Decision) -> Result<(f32, f32), NodeError> {
        let of_package = own.threshold.as_ref().and_then(|threshold| threshold.for_label(""));
        let threshold = params.threshold.or(of_package).unwrap_or(0.5);
        let of_package = own.neg_threshold.filter(|_| params.threshold.is_none());
        let neg = params.neg_threshold.or(of_package).unwrap_or((threshold - 0.15).max(0.01));
        if neg > threshold {
            let reason = format!("{neg} is above the threshold of {threshold}");
            return Err(NodeError::InvalidParam { name: "neg_threshold".into(), reason });
        }
        Ok((threshold, neg))
    }

    fn clear(&mut self, at: Timestamp) {
        self.model.reset();
        self.pending.clear();
        self.pending.resize(self.context, 0.0);
        self.pending_at = at;
        self.recent.clear();
    }

    /// Runs the model over the whole windows of `pending`.
    fn windows(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let whole = self.context + self.window;
        while self.pending.len() >= whole {
            let (model, pending) = (&mut self.model, &self.pending);
            let probability = cx.time_model(|| model.run(&pending[..whole]))?;
            let probability = probability.first().copied().unwrap_or(0.0);
            let start = self.pending_at;
            let end = start + self.rate.duration(self.window);
            self.decide(cx, start, end, probability)?;
            self.pending.drain(..self.window);
            self.pending_at = end;
        }
        Ok(())
    }

    fn decide(
        &mut self,
        cx: &mut Cx<'_>,
        start: Timestamp,
        end: Timestamp,
        probability: f32,
    ) -> Result<(), NodeError> {
        let change = self.gate.update(start, end, probability, &self.limits);
        let window = &self.pending[self.context..self.context + self.window];
        self.recent.extend(window);
        match change {
            Some((SpeechEventKind::Start, at)) => {
                cx.send_at(
                    Self::EVENTS,
                    at,
                    SpeechEvent { kind: SpeechEventKind::Start, probability },
                );
                // What was kept since the pre-roll began, this window included.
                let lead = end.since(at) + self.pre_roll;
                self.keep(self.rate.samples(lead));
                self.send_speech(cx, end)?;
            }
            Some((SpeechEventKind::End, at)) => {
                self.send_speech(cx, end)?;
                cx.send_at(
                    Self::EVENTS,
                    at,
                    SpeechEvent { kind: SpeechEventKind::End, probability },
                );
            }
            None if self.gate.in_speech() => self.send_speech(cx, end)?,
            None => {
                let wait = self.pre_roll + self.limits.min_speech;
                self.keep(self.rate.samples(wait) + self.window);
                if self.gate.silent_for(end) > Duration::from_secs(2) {
                    self.model.reset();
                    self.gate.mark_reset(end);
                }
            }
        }
        Ok(())
    }

    /// Ends speech where the sound ends, or at `next`, where the next sound begins, if that is
    /// earlier: time began anew, and nothing that is later may come first.
    fn end_speech(&mut self, cx: &mut Cx<'_>, next: Timestamp) {
        if self.gate.in_speech() {
            let event = SpeechEvent { kind: SpeechEventKind::End, probability: 0.0 };
            cx.send_at(Self::EVENTS, self.pending_at.min(next), event);
        }
        self.gate = Gate::default();
    }

    /// Forgets all but the last `samples` of the recent sound.
    fn keep(&mut self, samples: usize) {
        let excess = self.recent.len().saturating_sub(samples);
        self.recent.drain(..excess);
    }

    /// Sends the recent sound, which ends at `end`.
    fn send_speech(&mut self, cx: &mut Cx<'_>, end: Timestamp) -> Result<(), NodeError> {
        if self.recent.is_empty() {
            return Ok(());
        }
        let mut block = cx.loan(Self::SPEECH);
        let samples = block.reshape(self.rate, 1, self.recent.len())?;
        for (sample, recent) in samples.iter_mut().zip(&self.recent) {
            *sample = *recent;
        }
        let at = end - self.rate.duration(self.recent.len());
        self.recent.clear();
        cx.send_at(Self::SPEECH, at, block);
        Ok(())
    }
}

impl Node for Vad {
    type Params = VadParams;

    const NAME: &'static str = "vad";
    const SUMMARY: &'static str = "Finds speech in sound: its start, its end, and the sound of it.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "min_speech for a start, min_silence for an end, plus a window";

    fn check(params: &VadParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(|_| ())
    }

    fn open(params: VadParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let (model, package) = RecurrentModel::open(&params.model, "voice_activity", cx)?;
        let number = |name: &str, default: i64| {
            let value = model.metadata_int(name).unwrap_or(default);
            usize::try_from(value).map_err(|_| model.fault(format!("{name} is negative: {value}")))
        };
        let window = number("window_size", 512)?;
        let context = number("context_size", 64)?;
        let rate = u32::try_from(number("sample_rate", 16_000)?).unwrap_or(0);
        if rate == 0 || window == 0 || model.input_sizes() != [1, context + window] {
            return Err(model.fault(format!(
                "its input {:?} does not hold a context of {context} and a window of {window} samples",
                model.input_sizes()
            )));
        }
        let (threshold, neg_threshold) = Self::thresholds(&params, &package.manifest.decision)?;
        let limits = Limits {
            threshold,
            neg_threshold,
            min_speech: params.min_speech,
            min_silence: params.min_silence,
            min_resume: params.min_resume,
            max_speech: params.max_speech,
        };
        let mut vad = Self {
            limits,
            pre_roll: params.pre_roll,
            model,
            rate: SampleRate(rate),
            window,
            context,
            pending: Vec::new(),
            pending_at: Timestamp::ZERO,
            next_at: None,
            gate: Gate::default(),
            recent: VecDeque::new(),
        };
        vad.clear(Timestamp::ZERO);
        Ok(vad)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // A second holder, so that events can be sent while the sound is read.
        let Some(packet) = cx.packet().cloned() else { return Ok(()) };
        let Some(block) = packet.get::<AudioBlock>() else { return Ok(()) };
        expect_mono(Self::AUDIO, block, self.rate)?;
        let at = cx.at();
        // Half a window of jitter is none: sound is counted in samples, not in nanoseconds.
        let tolerance = self.rate.duration(self.window / 2);
        let far = |next: Timestamp| at.since(next) > tolerance || next.since(at) > tolerance;
        if self.next_at.is_none_or(far) {
            self.end_speech(cx, at);
            self.clear(at);
        } else if self.gate.is_quiet() {
            // The clock of the sound is followed in pauses, so that speech is sent without gaps.
            self.pending_at = at - self.rate.duration(self.pending.len() - self.context);
        }
        self.pending.extend_from_slice(block.channel(0)?);
        self.next_at = Some(at + block.duration());
        self.windows(cx)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.end_speech(cx, Timestamp(i64::MAX));
        Ok(())
    }
}

/// Checks that sound has one channel and the rate that a model hears.
pub(crate) fn expect_mono(
    port: In<AudioBlock>,
    block: &AudioBlock,
    rate: SampleRate,
) -> Result<(), NodeError> {
    let port = port.name();
    if block.rate != rate {
        let reason = format!(
            "{} Hz, but the model hears {} Hz; put a resample node with rate: {} before it",
            block.rate.0, rate.0, rate.0
        );
        return Err(NodeError::InvalidInput { port: port.into(), reason });
    }
    if block.channels() != 1 {
        let reason = format!(
            "{} channels, but the model hears one; set channels: mono on wav_source, or channels: 1 \
             on microphone",
            block.channels()
        );
        return Err(NodeError::InvalidInput { port: port.into(), reason });
    }
    Ok(())
}

/// When speech starts and ends.
#[derive(Debug, Clone, Copy)]
struct Limits {
    threshold: f32,
    neg_threshold: f32,
    min_speech: Duration,
    min_silence: Duration,
    min_resume: Duration,
    max_speech: Duration,
}

/// Turns probabilities into starts and ends.
#[derive(Debug, Default, Clone, Copy)]
struct Gate {
    /// When the present speech began, once it counts.
    speech_since: Option<Timestamp>,
    /// When the probability last rose over the threshold, while it does not count yet: before
    /// speech, and in a pause.
    loud_since: Option<Timestamp>,
    /// When the probability last fell below the lower threshold.
    quiet_since: Option<Timestamp>,
}

impl Gate {
    fn in_speech(&self) -> bool {
        self.speech_since.is_some()
    }

    /// Whether there is a pause, in which nothing counts as speech yet.
    fn is_quiet(&self) -> bool {
        !self.in_speech() && self.quiet_since.is_some()
    }

    /// How long there has been no speech at `now`.
    fn silent_for(&self, now: Timestamp) -> Duration {
        self.quiet_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    fn mark_reset(&mut self, now: Timestamp) {
        self.quiet_since = Some(now);
    }

    /// Takes the probability of the window from `start` to `end`; returns what began or ended, and
    /// when.
    fn update(
        &mut self,
        start: Timestamp,
        end: Timestamp,
        probability: f32,
        limits: &Limits,
    ) -> Option<(SpeechEventKind, Timestamp)> {
        if probability < limits.neg_threshold {
            self.loud_since = None;
            self.quiet_since.get_or_insert(start);
        } else if probability >= limits.threshold {
            if !self.in_speech() {
                self.quiet_since = None;
            }
            if !self.in_speech() || self.quiet_since.is_some() {
                self.loud_since.get_or_insert(start);
            }
        }
        let counts = |since: Option<Timestamp>, least: Duration| {
            since.filter(|&since| end.since(since) >= least)
        };
        match self.speech_since {
            None => {
                let since = counts(self.loud_since, limits.min_speech)?;
                self.loud_since = None;
                self.speech_since = Some(since);
                Some((SpeechEventKind::Start, since))
            }
            Some(since) => {
                if counts(self.loud_since, limits.min_resume).is_some() {
                    (self.loud_since, self.quiet_since) = (None, None);
                }
                let quiet = counts(self.quiet_since, limits.min_silence);
                let cut = counts(Some(since), limits.max_speech).map(|_| end);
                let at = quiet.or(cut)?;
                self.speech_since = None;
                Some((SpeechEventKind::End, at))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{ParamValue, Params};
    use afferent_package::Threshold;

    use super::*;

    const WINDOW: Duration = Duration::from_millis(32);

    /// Starts (`+`) and ends (`-`) with their window, for one probability a window.
    fn check(probabilities: &[f32], expected: &[(char, i64)]) {
        let ms = Duration::from_millis;
        let limits = Limits {
            threshold: 0.5,
            neg_threshold: 0.35,
            min_speech: ms(64),
            min_silence: ms(96),
            min_resume: ms(64),
            max_speech: ms(1000),
        };
        let mut gate = Gate::default();
        let mut found = Vec::new();
        let mut start = Timestamp::ZERO;
        for &probability in probabilities {
            let end = start + WINDOW;
            if let Some((kind, at)) = gate.update(start, end, probability, &limits) {
                let sign = if kind == SpeechEventKind::Start { '+' } else { '-' };
                found.push((sign, at.0 / 32_000_000));
            }
            start = end;
        }
        assert_eq!(found, expected, "{probabilities:?}");
    }

    #[test]
    fn speech_needs_a_minimum_and_outlives_short_pauses() {
        check(&[0.1, 0.9, 0.1, 0.1], &[]);
        check(&[0.1, 0.9, 0.9, 0.1, 0.1, 0.1], &[('+', 1), ('-', 3)]);
        check(&[0.9, 0.9, 0.1, 0.9, 0.9, 0.1, 0.1, 0.1], &[('+', 0), ('-', 5)]);
    }

    #[test]
    fn a_moment_of_speech_does_not_end_a_pause() {
        check(&[0.9, 0.9, 0.1, 0.9, 0.1, 0.1], &[('+', 0), ('-', 2)]);
        check(&[0.9, 0.9, 0.1, 0.9, 0.4, 0.1, 0.1, 0.1], &[('+', 0), ('-', 5)]);
        // What is speech when the pause is long enough may be the start of the next.
        check(&[0.9, 0.9, 0.1, 0.1, 0.9, 0.9], &[('+', 0), ('-', 2), ('+', 4)]);
    }

    #[test]
    fn between_the_thresholds_nothing_changes() {
        check(&[0.9, 0.4, 0.4], &[('+', 0)]);
        check(&[0.4, 0.4, 0.4], &[]);
        check(&[0.9, 0.9, 0.1, 0.4, 0.4], &[('+', 0), ('-', 2)]);
    }

    #[test]
    fn long_speech_is_cut() {
        let ends = [('+', 0), ('-', 32), ('+', 32)];
        check(&[0.9; 40], &ends);
    }

    #[test]
    fn thresholds_are_those_of_parameters_or_of_the_package() {
        let package = |threshold, neg_threshold| Decision {
            threshold: Some(Threshold::Uniform(threshold)),
            neg_threshold,
            ..Decision::default()
        };
        let check = |given: &[(&str, f64)], own: &Decision| {
            let values = given.iter().map(|&(name, value)| (name, ParamValue::Float(value)));
            let values = values.chain([("model", ParamValue::Path("none".into()))]);
            let values = values.map(|(name, value)| (name.to_owned(), value)).collect();
            let found = Vad::thresholds(&VadParams::from_values(&values).unwrap(), own);
            found.map_err(|error| error.to_string())
        };
        let (none, own) = (Decision::default(), package(0.55, Some(0.45)));
        assert_eq!(check(&[], &none), Ok((0.5, 0.35)));
        assert_eq!(check(&[], &own), Ok((0.55, 0.45)));
        assert_eq!(check(&[], &package(0.7, None)), Ok((0.7, 0.7 - 0.15)));
        assert_eq!(check(&[("threshold", 0.25)], &own), Ok((0.25, 0.25 - 0.15)));
        assert_eq!(check(&[("neg_threshold", 0.25)], &own), Ok((0.55, 0.25)));
        let above = check(&[("neg_threshold", 0.7), ("threshold", 0.5)], &own);
        assert_eq!(
            above,
            Err("parameter neg_threshold: 0.7 is above the threshold of 0.5".to_owned())
        );
    }
}
