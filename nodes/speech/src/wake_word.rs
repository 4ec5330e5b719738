//! Wake word detection.

use std::{path::PathBuf, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{Features, KeywordEvent};

use afferent_wake::{Detected, Detector, Label};

use crate::recurrent::RecurrentModel;

params! {
    /// Settings of [`WakeWord`]. Absent values come from the model package.
    pub struct WakeWordParams {
        /// Path of the model package, which must define labels.
        pub model: PathBuf;
        /// Smoothed score from which on a phrase is detected, for all phrases.
        pub threshold: Option<f32>, range 0.0..=1.0;
        /// Length of the moving average of the scores.
        pub smooth: Option<Duration>, range 0.0..=5.0;
        /// Time after a detection in which the same phrase is ignored.
        pub refractory: Option<Duration>, range 0.0..=60.0;
    }
}

/// Detects wake words and spoken commands from feature rows.
///
/// Contract of the model: `forward(features f32[1, rows, bins], state f32[..]) -> (scores f32[1,
/// labels], state)`. Label 0 is the background and is never reported. A phrase is detected when the
/// mean of its scores over `smooth` reaches `threshold`, unless it was detected less than
/// `refractory` ago.
///
/// Latency: about half of `smooth`, plus the rows of one run.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::Features;
/// use afferent_nodes_speech::{WakeWord, WakeWordParams};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/wake_word");
/// let values = [("model".to_owned(), ParamValue::Path(model.into()))].into();
/// let params = WakeWordParams::from_values(&values).unwrap();
/// let cx = OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
/// let mut wake = NodeBench::new(WakeWord::open(params, &cx)?);
///
/// let mut silence = Features::default();
/// silence.values.resize(&[4, 40])?;
/// assert!(wake.call(WakeWord::FEATURES, Timestamp(0), silence)?.is_empty());
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct WakeWord {
    model: RecurrentModel,
    detector: Detector<Vec<Label>, Vec<f32>>,
    /// Time between two runs that the smoothing of the detector is for.
    step: Duration,
    settings: Settings,
    /// Input rows of a run of the model, and bins of a row.
    rows: usize,
    bins: usize,
    /// Rows of the next run.
    pending: Vec<f32>,
    /// Expected timestamp of the next row; `None` before the first.
    next_at: Option<Timestamp>,
}

/// Labels and the settings of their detection.
struct Settings {
    labels: Vec<String>,
    thresholds: Vec<f32>,
    smooth: Duration,
    refractory: Duration,
}

/// Values for packages that do not define them.
const DEFAULT_THRESHOLD: f32 = 0.5;
const DEFAULT_SMOOTH: Duration = Duration::from_millis(120);
/// Most runs of a moving average.
const MAX_SMOOTHED_RUNS: usize = 4096;
const DEFAULT_REFRACTORY: Duration = Duration::from_millis(1000);

ports! {
    impl WakeWord {
        /// Feature rows that the model was trained on, any number per packet.
        in FEATURES: Features;
        /// Detected phrases, timestamped with the end of the audio that decided.
        out EVENTS: KeywordEvent;
    }
}

impl WakeWord {
    /// Starts a new stream.
    fn restart(&mut self) {
        self.model.reset();
        self.detector.restart();
        self.pending.clear();
    }
}

impl Node for WakeWord {
    type Params = WakeWordParams;

    const NAME: &'static str = "wake_word";
    const SUMMARY: &'static str = "Detects wake words and spoken commands.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "about half of smooth, plus the rows of one run of the model";

    fn check(params: &WakeWordParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(|_| ())
    }

    fn open(params: WakeWordParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let (model, package) =
            RecurrentModel::open(&params.model, "keyword_spotting", "keyword_scores", cx)?;
        let labels = package.manifest.labels;
        if labels.len() < 2 {
            return Err(model.error("model.yaml must define `labels`: [background, phrase, ...]"));
        }
        let &[1, rows, bins] = model.input_sizes() else {
            let sizes = model.input_sizes();
            return Err(model.error(format!("input {sizes:?} of forward is not [1, rows, bins]")));
        };
        if rows * bins == 0 {
            return Err(model.error("the input of forward is empty"));
        }
        let decision = package.manifest.decision;
        let ms = |value: Option<u32>| value.map(|ms| Duration::from_millis(u64::from(ms)));
        let settings = Settings {
            thresholds: labels
                .iter()
                .map(|label| {
                    let default = decision.threshold.as_ref();
                    let default = default.and_then(|threshold| threshold.for_label(label));
                    params.threshold.or(default).unwrap_or(DEFAULT_THRESHOLD)
                })
                .collect(),
            smooth: params.smooth.or(ms(decision.smooth_ms)).unwrap_or(DEFAULT_SMOOTH),
            refractory: params
                .refractory
                .or(ms(decision.refractory_ms))
                .unwrap_or(DEFAULT_REFRACTORY),
            labels,
        };
        let (detector, step) = (settings.detector(Duration::ZERO), Duration::ZERO);
        Ok(Self { model, detector, step, settings, rows, bins, pending: Vec::new(), next_at: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // Cloning the packet allows sending while the rows are borrowed.
        let Some(packet) = cx.packet().cloned() else { return Ok(()) };
        let Some(features) = packet.get::<Features>() else { return Ok(()) };
        let &[rows, bins] = features.values.sizes() else { return Ok(()) };
        if bins != self.bins {
            let reason = format!("the rows have {bins} bins, but the model needs {}", self.bins);
            return Err(NodeError::InvalidInput { port: Self::FEATURES.name().into(), reason });
        }
        let at = cx.at();
        let is_gap =
            |next: Timestamp| at.since(next) >= features.hop || next.since(at) >= features.hop;
        if self.next_at.is_none_or(is_gap) {
            self.restart();
        }
        let duration = |count: usize| features.hop * u32::try_from(count).unwrap_or(u32::MAX);
        // Timestamp of the first row of the next run.
        let mut run_at = at - duration(self.pending.len() / self.bins);
        self.next_at = Some(at + duration(rows));
        self.pending.extend_from_slice(features.values.data::<f32>()?);
        let whole = self.rows * self.bins;
        while self.pending.len() >= whole {
            let (model, pending) = (&mut self.model, &self.pending);
            let scores = cx.time_model(|| model.run(&pending[..whole]))?;
            let decided = run_at + duration(self.rows - 1) + features.window;
            if self.step != duration(self.rows) {
                self.step = duration(self.rows);
                self.detector = self.settings.detector(self.step);
            }
            let detected = self.detector.update(scores, decided.0);
            let detected = detected.map_err(|error| self.model.error(error.to_string()))?;
            if let Some(Detected { label, score }) = detected {
                let mut event = cx.loan(Self::EVENTS);
                event.label.clone_from(&self.settings.labels[label]);
                event.score = score;
                cx.send_at(Self::EVENTS, decided, event);
            }
            self.pending.drain(..whole);
            run_at = run_at + duration(self.rows);
        }
        Ok(())
    }
}

impl Settings {
    /// Detector for runs every `step`.
    fn detector(&self, step: Duration) -> Detector<Vec<Label>, Vec<f32>> {
        let runs = (self.smooth.as_secs_f64() / step.as_secs_f64().max(1e-9)).round();
        let runs = (runs as usize).clamp(1, MAX_SMOOTHED_RUNS);
        let labels: Vec<Label> = self.thresholds.iter().map(|&value| Label::new(value)).collect();
        let recent = vec![0.0; runs * labels.len()];
        Detector::new(labels, recent, self.refractory)
    }
}
