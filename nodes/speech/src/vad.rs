//! Voice activity detection.

pub(crate) mod fsmn;
mod speech_model;

use std::{collections::VecDeque, path::PathBuf, time::Duration};

use afferent_graph::{Cx, In, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{AudioBlock, SampleRate, SpeechEvent, SpeechEventKind};

use afferent_package::Decision;

use afferent_wake::{SpeechChange, SpeechGate, Thresholds};

use self::speech_model::SpeechModel;

params! {
    /// Settings of [`Vad`]. The defaults are those of Silero VAD and pipecat, except for
    /// `min_silence`, which a downstream turn detector extends, and `min_resume`.
    pub struct VadParams {
        /// Path of the model package or program, in the form of Silero VAD or of FSMN.
        pub model: PathBuf;
        /// Probability from which on a window counts as speech. Default: the value of the package,
        /// or 0.5.
        pub threshold: Option<f32>, range 0.0..=1.0;
        /// Probability below which a window counts as silence; between the thresholds, nothing
        /// changes. Default: the value of the package if `threshold` is too, or 0.15 below the
        /// threshold.
        pub neg_threshold: Option<f32>, range 0.0..=1.0;
        /// Least length of speech; shorter speech is ignored.
        pub min_speech: Duration = "100ms", range 0.0..=10.0;
        /// Least length of a pause that ends speech.
        pub min_silence: Duration = "200ms", range 0.0..=10.0;
        /// Least length of speech that ends a pause, so that short background voices do not.
        pub min_resume: Duration = "64ms", range 0.0..=10.0;
        /// Audio before the start of speech that is sent with it.
        pub pre_roll: Duration = "300ms", range 0.0..=10.0;
        /// Longest speech segment. Longer speech is cut: at the first pause of one window in the
        /// last third, or at this length.
        pub max_speech: Duration = "30s", range 0.1..=3600.0;
    }
}

/// Detects speech with a model, hysteresis, and minimum durations.
///
/// | model | contract |
/// |---|---|
/// | Silero VAD, by ExecuTorch's export | `forward(x f32[1, context + window], state f32[..]) -> (probability f32[1, 1], state)`, metadata `sample_rate`, `window_size`, and `context_size`. The state is reset after a gap in the audio, and after every two seconds of silence, so that it does not go stale |
/// | FSMN, by react-native-executorch | `forward(windows f32[100 to 1000, 512]) -> f32[1, windows, classes]`; class 0 is silence. The windows of 400 samples, every 10 ms, are made here. It runs on the last second of audio, every 50 ms |
///
/// Latency: `min_speech` for a start, `min_silence` for an end, plus one window.
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
    thresholds: Thresholds,
    pre_roll: Duration,
    model: SpeechModel,
    rate: SampleRate,
    window: usize,
    context: usize,
    /// Context and the samples of the next window.
    pending: Vec<f32>,
    /// Timestamp of the first sample of `pending` after the context.
    pending_at: Timestamp,
    /// Expected timestamp of the next sample; `None` before the first block.
    next_at: Option<Timestamp>,
    gate: SpeechGate,
    /// Recent audio that was not sent, for the pre-roll.
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
    /// Threshold and lower threshold, from the parameters or the package.
    fn probability_thresholds(
        params: &VadParams,
        package: &Decision,
    ) -> Result<(f32, f32), NodeError> {
        let default = package.threshold.as_ref().and_then(|threshold| threshold.for_label(""));
        let threshold = params.threshold.or(default).unwrap_or(0.5);
        let default = package.neg_threshold.filter(|_| params.threshold.is_none());
        let neg = params.neg_threshold.or(default).unwrap_or((threshold - 0.15).max(0.01));
        if neg > threshold {
            let reason = format!("{neg} must not be above the threshold, {threshold}");
            return Err(NodeError::InvalidParam { name: "neg_threshold".into(), reason });
        }
        Ok((threshold, neg))
    }

    /// Starts a new stream at `at`.
    fn restart(&mut self, at: Timestamp) {
        self.model.reset();
        self.pending.clear();
        self.pending.resize(self.context, 0.0);
        self.pending_at = at;
        self.recent.clear();
    }

    /// Runs the model on the whole windows of `pending`.
    fn run_windows(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let whole = self.context + self.window;
        while self.pending.len() >= whole {
            let (model, pending) = (&mut self.model, &self.pending);
            let probability = cx.time_model(|| model.probability(&pending[..whole]))?;
            let start = self.pending_at;
            let end = start + self.rate.duration(self.window);
            self.on_window(cx, start, end, probability)?;
            self.pending.drain(..self.window);
            self.pending_at = end;
        }
        Ok(())
    }

    /// Updates the gate with the window from `start` to `end`, and sends events and speech.
    fn on_window(
        &mut self,
        cx: &mut Cx<'_>,
        start: Timestamp,
        end: Timestamp,
        probability: f32,
    ) -> Result<(), NodeError> {
        let change = self.gate.update(start.0, end.0, probability, &self.thresholds);
        let change = change.map(|(change, at)| (change, Timestamp(at)));
        let window = &self.pending[self.context..self.context + self.window];
        self.recent.extend(window);
        match change {
            Some((SpeechChange::Start, at)) => {
                cx.send_at(
                    Self::EVENTS,
                    at,
                    SpeechEvent { kind: SpeechEventKind::Start, probability },
                );
                // Audio since the start of the pre-roll, this window included.
                let lead = end.since(at) + self.pre_roll;
                self.keep_recent(self.rate.samples(lead));
                self.send_speech(cx, end)?;
            }
            Some((SpeechChange::End, at)) => {
                self.send_speech(cx, end)?;
                cx.send_at(
                    Self::EVENTS,
                    at,
                    SpeechEvent { kind: SpeechEventKind::End, probability },
                );
            }
            None if self.gate.in_speech() => self.send_speech(cx, end)?,
            None => {
                let wait = self.pre_roll + self.thresholds.min_speech;
                self.keep_recent(self.rate.samples(wait) + self.window);
                if self.gate.silent_for(end.0) > Duration::from_secs(2) {
                    self.model.reset();
                    self.gate.mark_reset(end.0);
                }
            }
        }
        Ok(())
    }

    /// Ends speech at the end of the audio. If the next audio begins earlier, at `next`, time has
    /// restarted; speech then ends at `next`, since timestamps must not decrease.
    fn end_speech(&mut self, cx: &mut Cx<'_>, next: Timestamp) {
        if self.gate.in_speech() {
            let event = SpeechEvent { kind: SpeechEventKind::End, probability: 0.0 };
            cx.send_at(Self::EVENTS, self.pending_at.min(next), event);
        }
        self.gate = SpeechGate::default();
    }

    /// Discards all but the last `samples` of the recent audio.
    fn keep_recent(&mut self, samples: usize) {
        let excess = self.recent.len().saturating_sub(samples);
        self.recent.drain(..excess);
    }

    /// Sends the recent audio, which ends at `end`.
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
    const SUMMARY: &'static str = "Detects speech: its start, its end, and its audio.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "min_speech for a start, min_silence for an end, plus one window";

    fn check(params: &VadParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(|_| ())
    }

    fn open(params: VadParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let (model, package) = SpeechModel::open(&params.model, cx)?;
        let (rate, window, context) = (model.rate(), model.window(), model.context());
        let (threshold, neg_threshold) =
            Self::probability_thresholds(&params, &package.manifest.decision)?;
        let thresholds = Thresholds {
            threshold,
            neg_threshold,
            min_speech: params.min_speech,
            min_silence: params.min_silence,
            min_resume: params.min_resume,
            max_speech: params.max_speech,
        };
        let mut vad = Self {
            thresholds,
            pre_roll: params.pre_roll,
            model,
            rate,
            window,
            context,
            pending: Vec::new(),
            pending_at: Timestamp::ZERO,
            next_at: None,
            gate: SpeechGate::default(),
            recent: VecDeque::new(),
        };
        vad.restart(Timestamp::ZERO);
        Ok(vad)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // Cloning the packet allows sending while the block is borrowed.
        let Some(packet) = cx.packet().cloned() else { return Ok(()) };
        let Some(block) = packet.get::<AudioBlock>() else { return Ok(()) };
        expect_format(Self::AUDIO, block, self.rate)?;
        let at = cx.at();
        // Jitter up to half a window is ignored: time is counted in samples.
        let tolerance = self.rate.duration(self.window / 2);
        let is_gap = |next: Timestamp| at.since(next) > tolerance || next.since(at) > tolerance;
        if self.next_at.is_none_or(is_gap) {
            self.end_speech(cx, at);
            self.restart(at);
        } else if self.gate.is_silent() {
            // Clock drift is corrected in pauses only, so that speech is sent without gaps.
            self.pending_at = at - self.rate.duration(self.pending.len() - self.context);
        }
        self.pending.extend_from_slice(block.channel(0)?);
        self.next_at = Some(at + block.duration());
        self.run_windows(cx)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.end_speech(cx, Timestamp(i64::MAX));
        Ok(())
    }
}

/// Checks that audio has one channel and the sample rate of a model.
pub(crate) fn expect_format(
    port: In<AudioBlock>,
    block: &AudioBlock,
    rate: SampleRate,
) -> Result<(), NodeError> {
    let port = port.name();
    if block.rate != rate {
        let reason = format!(
            "the audio has {} Hz, but the model needs {} Hz; insert a resample node with rate: {}",
            block.rate.0, rate.0, rate.0
        );
        return Err(NodeError::InvalidInput { port: port.into(), reason });
    }
    if block.channels() != 1 {
        let reason = format!(
            "the audio has {} channels, but the model needs one; set mix: mono on wav_source, or \
             channels: 1 on microphone",
            block.channels()
        );
        return Err(NodeError::InvalidInput { port: port.into(), reason });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_graph::{ParamValue, Params};
    use afferent_package::Threshold;

    use super::*;

    #[test]
    fn thresholds_come_from_the_parameters_or_the_package() {
        let package = |threshold, neg_threshold| Decision {
            threshold: Some(Threshold::Uniform(threshold)),
            neg_threshold,
            ..Decision::default()
        };
        let check = |given: &[(&str, f64)], own: &Decision| {
            let values = given.iter().map(|&(name, value)| (name, ParamValue::Float(value)));
            let values = values.chain([("model", ParamValue::Path("none".into()))]);
            let values = values.map(|(name, value)| (name.to_owned(), value)).collect();
            let found = Vad::probability_thresholds(&VadParams::from_values(&values).unwrap(), own);
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
            Err("parameter neg_threshold: 0.7 must not be above the threshold, 0.5".to_owned())
        );
    }
}
