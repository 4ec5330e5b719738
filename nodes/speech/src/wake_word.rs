//! Detects wake words and spoken commands.

use std::{path::PathBuf, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{Features, KeywordEvent};

use crate::recurrent::RecurrentModel;

params! {
    /// Settings of [`WakeWord`]. What is left out comes from the model package.
    pub struct WakeWordParams {
        /// Model package with labels.
        pub model: PathBuf;
        /// Smoothed score from which a phrase is detected, the same for all phrases.
        pub threshold: Option<f32>, range 0.0..=1.0;
        /// Time over which scores are averaged.
        pub smooth: Option<Duration>, range 0.0..=5.0;
        /// Time after a detection in which the same phrase is not detected again.
        pub refractory: Option<Duration>, range 0.0..=60.0;
    }
}

/// Detects phrases with a model that scores each of them every few hops.
///
/// Contract of the model: `forward(features f32[1, rows, bins], state f32[..]) -> (scores f32[1,
/// labels], state)`; label 0 is everything else and is never reported. A phrase is detected when
/// the mean of its last scores, over `smooth`, reaches `threshold`, unless it was detected less
/// than `refractory` ago.
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
    decider: Decider,
    /// Rows and bins of one run of the model.
    rows: usize,
    bins: usize,
    /// Rows that wait for a whole run.
    pending: Vec<f32>,
    /// Time of the row that should come next; `None` before the first.
    next_at: Option<Timestamp>,
}

/// Defaults of a package that says nothing about the decision.
const THRESHOLD: f32 = 0.5;
const SMOOTH: Duration = Duration::from_millis(120);
const REFRACTORY: Duration = Duration::from_millis(1000);

ports! {
    impl WakeWord {
        /// Feature rows that the model was trained on, any number per packet.
        in FEATURES: Features;
        /// Detected phrases, timestamped with the end of the audio that decided.
        out EVENTS: KeywordEvent;
    }
}

impl WakeWord {
    fn clear(&mut self) {
        self.model.reset();
        self.decider.clear();
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
        let (model, package) = RecurrentModel::open(&params.model, "keyword_spotting", cx)?;
        let labels = package.manifest.labels;
        if labels.len() < 2 {
            return Err(model.fault("model.yaml gives no labels: [background, phrase, …]"));
        }
        let &[1, rows, bins] = model.input_sizes() else {
            let sizes = model.input_sizes();
            return Err(model.fault(format!("its input {sizes:?} is not [1, rows, bins]")));
        };
        if rows * bins == 0 {
            return Err(model.fault("its input is empty"));
        }
        let decision = package.manifest.decision;
        let ms = |value: Option<u32>| value.map(|ms| Duration::from_millis(u64::from(ms)));
        let decider = Decider {
            thresholds: labels
                .iter()
                .map(|label| {
                    let own = decision.threshold.as_ref().and_then(|own| own.for_label(label));
                    params.threshold.or(own).unwrap_or(THRESHOLD)
                })
                .collect(),
            smooth: params.smooth.or(ms(decision.smooth_ms)).unwrap_or(SMOOTH),
            refractory: params.refractory.or(ms(decision.refractory_ms)).unwrap_or(REFRACTORY),
            last: vec![None; labels.len()],
            labels,
            recent: Vec::new(),
        };
        Ok(Self { model, decider, rows, bins, pending: Vec::new(), next_at: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // A second holder, so that events can be sent while the rows are read.
        let Some(packet) = cx.packet().cloned() else { return Ok(()) };
        let Some(features) = packet.get::<Features>() else { return Ok(()) };
        let &[rows, bins] = features.values.sizes() else { return Ok(()) };
        if bins != self.bins {
            let reason = format!("rows of {bins} bins, but the model reads {}", self.bins);
            return Err(NodeError::InvalidInput { port: Self::FEATURES.name().into(), reason });
        }
        let at = cx.at();
        let far =
            |next: Timestamp| at.since(next) >= features.hop || next.since(at) >= features.hop;
        if self.next_at.is_none_or(far) {
            self.clear();
        }
        let time = |count: usize| features.hop * u32::try_from(count).unwrap_or(u32::MAX);
        // Time of the first row of the next run.
        let mut run_at = at - time(self.pending.len() / self.bins);
        self.next_at = Some(at + time(rows));
        self.pending.extend_from_slice(features.values.data::<f32>()?);
        let whole = self.rows * self.bins;
        while self.pending.len() >= whole {
            let (model, pending) = (&mut self.model, &self.pending);
            let scores = cx.time_model(|| model.run(&pending[..whole]))?;
            let decided = run_at + time(self.rows - 1) + features.window;
            let detected = self.decider.update(scores, decided, time(self.rows));
            if let Some((label, score)) = detected.map_err(|reason| self.model.fault(reason))? {
                let mut event = cx.loan(Self::EVENTS);
                event.label.clone_from(&self.decider.labels[label]);
                event.score = score;
                cx.send_at(Self::EVENTS, decided, event);
            }
            self.pending.drain(..whole);
            run_at = run_at + time(self.rows);
        }
        Ok(())
    }
}

/// Turns scores into detections.
struct Decider {
    /// For each label.
    thresholds: Vec<f32>,
    smooth: Duration,
    refractory: Duration,
    labels: Vec<String>,
    /// The last scores, run after run, the oldest first.
    recent: Vec<f32>,
    /// When each label was last detected.
    last: Vec<Option<Timestamp>>,
}

impl Decider {
    fn clear(&mut self) {
        self.recent.clear();
    }

    /// Takes the scores of one run, which end at `now` and come every `step`; returns the label
    /// that is detected and its smoothed score.
    fn update(
        &mut self,
        scores: &[f32],
        now: Timestamp,
        step: Duration,
    ) -> Result<Option<(usize, f32)>, String> {
        let labels = self.labels.len();
        if scores.len() != labels {
            return Err(format!("it gives {} scores for {labels} labels", scores.len()));
        }
        let runs = (self.smooth.as_secs_f64() / step.as_secs_f64().max(1e-9)).round();
        let runs = (runs as usize).max(1);
        self.recent.extend_from_slice(scores);
        let excess = (self.recent.len() / labels).saturating_sub(runs);
        self.recent.drain(..excess * labels);
        // Before the first runs everything scored zero, so the mean is over all of them.
        let mean = |label: usize| {
            self.recent.iter().skip(label).step_by(labels).sum::<f32>() / runs as f32
        };
        let over = (1..labels).map(|label| (label, mean(label))).filter(|&(label, score)| {
            // What was detected later belongs to a clock that has begun anew since.
            let rests = |last: Timestamp| now >= last && now.since(last) < self.refractory;
            score >= self.thresholds[label] && !self.last[label].is_some_and(rests)
        });
        let detected = over.max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((label, _)) = detected {
            self.last[label] = Some(now);
        }
        Ok(detected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(40);

    /// Runs at which "b" (1) or "c" (2) are detected, from one pair of scores a run.
    fn check(scores: &[(f32, f32)], expected: &[(usize, usize)]) {
        let mut decider = Decider {
            thresholds: vec![0.6; 3],
            smooth: STEP * 2,
            refractory: STEP * 4,
            labels: ["a", "b", "c"].map(str::to_owned).to_vec(),
            recent: Vec::new(),
            last: vec![None; 3],
        };
        let mut found = Vec::new();
        let mut now = Timestamp::ZERO;
        for (at, &(b, c)) in scores.iter().enumerate() {
            let detected = decider.update(&[1.0 - b - c, b, c], now, STEP).unwrap();
            found.extend(detected.map(|(label, _)| (at, label)));
            now = now + STEP;
        }
        assert_eq!(found, expected, "{scores:?}");
    }

    #[test]
    fn one_high_score_is_not_enough() {
        check(&[(0.0, 0.0), (1.0, 0.0), (0.0, 0.0)], &[]);
        check(&[(0.0, 0.0), (1.0, 0.0), (0.4, 0.0)], &[(2, 1)]);
    }

    #[test]
    fn a_phrase_rests_after_it_was_detected() {
        check(&[(1.0, 0.0); 9], &[(1, 1), (5, 1)]);
        check(&[(1.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 1.0)], &[(1, 1), (3, 2)]);
    }

    /// Labels "a" and "b", of which "b" rests for four steps.
    fn two_labels() -> Decider {
        Decider {
            thresholds: vec![0.5; 2],
            smooth: STEP,
            refractory: STEP * 4,
            labels: vec!["a".to_owned(), "b".to_owned()],
            recent: Vec::new(),
            last: vec![None; 2],
        }
    }

    #[test]
    fn scores_match_the_labels() {
        assert!(two_labels().update(&[0.1; 3], Timestamp::ZERO, STEP).is_err());
    }

    #[test]
    fn a_clock_that_begins_anew_ends_the_rest() {
        let mut decider = two_labels();
        let detected = |step: u32| {
            let found = decider.update(&[0.0, 1.0], Timestamp::ZERO + STEP * step, STEP);
            found.unwrap().is_some()
        };
        assert_eq!([1000, 1001, 3, 4, 7].map(detected), [true, false, true, false, true]);
    }
}
