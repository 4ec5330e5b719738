//! Steps in the acceleration of a body.

use std::{collections::VecDeque, f64::consts::PI, time::Duration};

use afferent_graph::Timestamp;
use afferent_messages::ActivityKind;

/// Band of steps in Hz.
const LOW_HZ: f64 = 0.7;
const HIGH_HZ: f64 = 3.5;
/// Lowest peak of a step, in m/s².
const LEAST_PEAK: f64 = 0.5;
/// Lowest peak relative to the mean of the last ones.
const RELATIVE_PEAK: f64 = 0.4;
/// Shortest and longest time between two steps.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_millis(1500);
/// Steps with regular intervals that begin a walk.
const FIRST_STEPS: usize = 4;
/// Largest deviation of an interval from the median of the first ones.
const MAX_IRREGULARITY: f64 = 0.35;
/// Time without a step after which a walk has ended.
const PAUSE: Duration = Duration::from_secs(2);
/// Intervals from which the cadence is computed.
const CADENCE_INTERVALS: usize = 6;
/// Cadence and mean peak from which on steps are those of a run.
const RUN_PER_MIN: f64 = 140.0;
const RUN_PEAK: f64 = 5.0;

/// Second-order section of a filter.
#[derive(Debug, Clone, Copy, Default)]
struct Section {
    feed: [f64; 3],
    back: [f64; 2],
    state: [f64; 2],
}

impl Section {
    /// Butterworth filter of second order: the frequencies above or below `hz`.
    fn new(hz: f64, rate: f64, is_high: bool) -> Self {
        let w = (2.0 * PI * hz / rate).min(PI * 0.95);
        let (sin, cos) = w.sin_cos();
        let alpha = sin * 0.5_f64.sqrt();
        let a0 = 1.0 + alpha;
        let edge = if is_high { (1.0 + cos) / 2.0 } else { (1.0 - cos) / 2.0 };
        let middle = if is_high { -2.0 * edge } else { 2.0 * edge };
        Self {
            feed: [edge / a0, middle / a0, edge / a0],
            back: [-2.0 * cos / a0, (1.0 - alpha) / a0],
            state: [0.0; 2],
        }
    }

    fn next(&mut self, x: f64) -> f64 {
        let y = self.feed[0] * x + self.state[0];
        self.state[0] = self.feed[1] * x - self.back[0] * y + self.state[1];
        self.state[1] = self.feed[2] * x - self.back[1] * y;
        y
    }
}

/// A peak of the filtered acceleration.
#[derive(Debug, Clone, Copy)]
struct Peak {
    at: Timestamp,
    height: f64,
}

/// Finds steps in the magnitude of the acceleration: peaks of its part between 0.7 and 3.5 Hz, at least
/// 250 ms apart. Four peaks with regular intervals begin a walk, and two seconds without a peak end it.
#[derive(Debug)]
pub struct StepCounter {
    low: Section,
    high: Section,
    /// The last two filtered values, with the time of the last one.
    before: [f64; 2],
    last_at: Option<Timestamp>,
    /// Peak that a higher one may still replace.
    candidate: Option<Peak>,
    /// Peaks that do not belong to a walk yet.
    loose: VecDeque<Peak>,
    /// Last step of the walk, and its last intervals in seconds.
    last_step: Option<Timestamp>,
    intervals: VecDeque<f64>,
    mean_height: f64,
    steps: u64,
}

impl StepCounter {
    /// Counter for measurements at `rate` per second.
    pub fn new(rate: f64) -> Self {
        Self {
            low: Section::new(HIGH_HZ, rate, false),
            high: Section::new(LOW_HZ, rate, true),
            before: [0.0; 2],
            last_at: None,
            candidate: None,
            loose: VecDeque::new(),
            last_step: None,
            intervals: VecDeque::new(),
            mean_height: 0.0,
            steps: 0,
        }
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Steps per minute of the walk; 0 at rest.
    pub fn cadence_per_min(&self) -> f64 {
        let mut sorted: Vec<f64> = self.intervals.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).map_or(0.0, |interval| 60.0 / interval)
    }

    /// Kind of the motion now.
    pub fn kind(&self) -> ActivityKind {
        match self.last_step {
            None => ActivityKind::Resting,
            Some(_) if self.cadence_per_min() >= RUN_PER_MIN && self.mean_height >= RUN_PEAK => {
                ActivityKind::Running
            }
            Some(_) => ActivityKind::Walking,
        }
    }

    /// Takes the acceleration `m_s2`, its magnitude including gravity, at a time that is later than the
    /// one before. Returns true if steps were counted or a walk has ended.
    pub fn push(&mut self, at: Timestamp, m_s2: f64) -> bool {
        let value = self.high.next(self.low.next(m_s2 - 9.81));
        let [older, newer] = self.before;
        let mut has_changed = false;
        if let Some(peak_at) = self.last_at.filter(|_| newer > older && newer >= value) {
            has_changed |= self.on_peak(Peak { at: peak_at, height: newer });
        }
        self.before = [newer, value];
        self.last_at = Some(at);
        if let Some(peak) = self.candidate.filter(|peak| at.since(peak.at) > SHORTEST) {
            self.candidate = None;
            has_changed |= self.on_step_like(peak);
        }
        if self.last_step.is_some_and(|last| at.since(last) > PAUSE) {
            self.end_walk();
            has_changed = true;
        }
        has_changed
    }

    /// Ends the walk and drops the filter state, after a gap in the measurements.
    pub fn interrupt(&mut self) {
        self.end_walk();
        (self.low.state, self.high.state) = ([0.0; 2], [0.0; 2]);
        (self.before, self.last_at, self.candidate) = ([0.0; 2], None, None);
    }

    fn end_walk(&mut self) {
        (self.last_step, self.mean_height) = (None, 0.0);
        self.intervals.clear();
        self.loose.clear();
    }

    /// Takes a local maximum: the highest one within [`SHORTEST`] is kept.
    fn on_peak(&mut self, peak: Peak) -> bool {
        if peak.height < LEAST_PEAK.max(RELATIVE_PEAK * self.mean_height) {
            return false;
        }
        match self.candidate {
            Some(before) if peak.at.since(before.at) < SHORTEST => {
                if peak.height > before.height {
                    self.candidate = Some(peak);
                }
                false
            }
            before => {
                self.candidate = Some(peak);
                before.is_some_and(|before| self.on_step_like(before))
            }
        }
    }

    /// Takes a peak that may be a step.
    fn on_step_like(&mut self, peak: Peak) -> bool {
        if let Some(last) = self.last_step {
            let interval = peak.at.since(last);
            if interval < SHORTEST {
                return false;
            }
            self.count(peak, Some(interval));
            return true;
        }
        if self.loose.back().is_some_and(|last| peak.at.since(last.at) > LONGEST) {
            self.loose.clear();
        }
        self.loose.push_back(peak);
        if self.loose.len() > FIRST_STEPS {
            self.loose.pop_front();
        }
        let times: Vec<Timestamp> = self.loose.iter().map(|peak| peak.at).collect();
        let intervals: Vec<f64> =
            times.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64()).collect();
        let mut sorted = intervals.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
        let is_regular = |interval: &f64| (interval / median - 1.0).abs() <= MAX_IRREGULARITY;
        if self.loose.len() < FIRST_STEPS || !intervals.iter().all(is_regular) {
            return false;
        }
        let mut before: Option<Timestamp> = None;
        for peak in std::mem::take(&mut self.loose) {
            self.count(peak, before.map(|before| peak.at.since(before)));
            before = Some(peak.at);
        }
        true
    }

    fn count(&mut self, peak: Peak, interval: Option<Duration>) {
        self.steps += 1;
        self.last_step = Some(peak.at);
        let share = if self.mean_height == 0.0 { 1.0 } else { 0.2 };
        self.mean_height += share * (peak.height - self.mean_height);
        if let Some(interval) = interval.filter(|interval| *interval <= LONGEST) {
            self.intervals.push_back(interval.as_secs_f64());
            if self.intervals.len() > CADENCE_INTERVALS {
                self.intervals.pop_front();
            }
        }
    }
}
