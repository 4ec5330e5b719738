//! Detection of phrases in samples: features, network, decision.

use core::time::Duration;

use crate::{Detected, Detector, Label, LogMel};

/// Network that scores 40 ms of sound at a time, of the package `wake_word_int8`.
///
/// | tensor | values |
/// |---|---|
/// | input 0 | four feature rows |
/// | inputs 1 to 5 | past inputs of a block of the network: 4 rows of 128, the oldest first |
/// | output 0 | scores of the labels: `(q + 128) / 256` |
/// | outputs 1 to 5 | inputs of the blocks in this run: 128 values |
///
/// A block takes its past inputs with a dilation, so the listener keeps them and the network has no
/// state.
pub trait Network {
    /// Reason why the network does not run.
    type Error;

    /// Writes values of an input, from position `at` on. Every run needs all its inputs.
    ///
    /// # Errors
    /// The network has no such values.
    fn write(&mut self, input: usize, at: usize, values: &[i8]) -> Result<(), Self::Error>;

    /// Runs the network.
    ///
    /// # Errors
    /// An operator failed.
    fn run(&mut self) -> Result<(), Self::Error>;

    /// Reads the first values of an output, after a run.
    ///
    /// # Errors
    /// The network has no such values.
    fn read(&self, output: usize, values: &mut [i8]) -> Result<(), Self::Error>;
}

/// Result of a run of the network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Number of samples from the first one to the end of the run.
    pub end: u64,
    /// Scores of the labels.
    pub scores: [f32; Listener::<()>::LABELS.len()],
    /// Phrase that was detected.
    pub detected: Option<Detected>,
}

/// Detects phrases in 16-bit samples at 16 kHz.
#[derive(Debug, Clone)]
pub struct Listener<N> {
    front_end: LogMel,
    network: N,
    /// Feature rows of the next run.
    features: [i8; ROWS * LogMel::BANDS],
    /// Number of these rows.
    rows: usize,
    /// Past inputs of the blocks, a ring for each.
    past: [[i8; WIDTH]; PAST_ROWS],
    /// Position of the oldest row in each ring.
    oldest: [usize; DILATIONS.len()],
    detector: Detector<[Label; LABEL_COUNT], [f32; LABEL_COUNT * SMOOTHED_RUNS]>,
    /// Number of runs.
    runs: u64,
}

/// Feature rows of a run.
const ROWS: usize = 4;
/// Values of an input of a block, and the past inputs that it takes.
const WIDTH: usize = 128;
const TAPS: usize = 4;
/// Runs from one past input to the next, for each block.
const DILATIONS: [usize; 5] = [1, 1, 2, 2, 4];
const PAST_ROWS: usize = TAPS * (1 + 1 + 2 + 2 + 4);
/// Zero of the inputs of blocks, which are outputs of ReLU.
const ZERO: i8 = -128;
const LABEL_COUNT: usize = 4;
const SMOOTHED_RUNS: usize = 5;

impl Listener<()> {
    /// Labels and the thresholds of their mean scores, as in `model.yaml` of the package.
    pub const LABELS: [(&'static str, f32); LABEL_COUNT] =
        [("background", 1.0), ("hey afferent", 0.72), ("stop", 0.6), ("go", 0.6)];
    /// Time after a detection in which the same phrase is ignored.
    pub const REFRACTORY: Duration = Duration::from_millis(1000);
    /// Length of the mean of the scores.
    pub const SMOOTH: Duration = Duration::from_millis(40 * SMOOTHED_RUNS as u64);
    /// Samples of a run.
    pub const RUN_SAMPLES: usize = ROWS * LogMel::HOP;
    /// Samples per second.
    pub const SAMPLE_RATE: u32 = 16_000;
}

impl<N: Network> Listener<N> {
    /// Listener to a new stream.
    pub fn new(network: N) -> Self {
        Self {
            front_end: LogMel::new(),
            network,
            features: [0; ROWS * LogMel::BANDS],
            rows: 0,
            past: [[ZERO; WIDTH]; PAST_ROWS],
            oldest: [0; DILATIONS.len()],
            detector: Detector::new(
                Listener::LABELS.map(|(_, threshold)| Label::new(threshold)),
                [0.0; LABEL_COUNT * SMOOTHED_RUNS],
                Listener::REFRACTORY,
            ),
            runs: 0,
        }
    }

    /// Adds samples, and calls `on_step` for each run that they complete.
    ///
    /// # Errors
    /// Those of the network. The listener may be used again: the run counts as silence.
    pub fn push(&mut self, samples: &[i16], mut on_step: impl FnMut(Step)) -> Result<(), N::Error> {
        let Self { front_end, features, rows, network, past, oldest, detector, runs } = self;
        let mut result = Ok(());
        front_end.push(samples, |row| {
            if let Some(free) = features.as_chunks_mut::<{ LogMel::BANDS }>().0.get_mut(*rows) {
                *free = *row;
            }
            *rows += 1;
            if *rows < ROWS {
                return;
            }
            *rows = 0;
            *runs += 1;
            match scores(network, features, past, oldest) {
                Ok(scores) => {
                    let end = *runs * Listener::RUN_SAMPLES as u64;
                    // A sample takes 62,500 ns. The numbers of scores and of labels are equal.
                    let detected = detector.update(&scores, (end * 62_500).cast_signed());
                    on_step(Step { end, scores, detected: detected.ok().flatten() });
                }
                Err(error) => result = Err(error),
            }
        });
        result
    }
}

/// Runs the network on four feature rows, and keeps the inputs of the blocks.
fn scores<N: Network>(
    network: &mut N,
    features: &[i8],
    past: &mut [[i8; WIDTH]; PAST_ROWS],
    oldest: &mut [usize; DILATIONS.len()],
) -> Result<[f32; LABEL_COUNT], N::Error> {
    network.write(0, 0, features)?;
    let mut rings = &past[..];
    for (block, (&dilation, &oldest)) in DILATIONS.iter().zip(oldest.iter()).enumerate() {
        let (ring, rest) = rings.split_at_checked(TAPS * dilation).unwrap_or_default();
        rings = rest;
        let mut at = oldest;
        for tap in 0..TAPS {
            if let Some(row) = ring.get(at) {
                network.write(1 + block, tap * WIDTH, row)?;
            }
            at = after(at, dilation, ring.len());
        }
    }
    network.run()?;
    let mut rings = &mut past[..];
    for (block, (&dilation, oldest)) in DILATIONS.iter().zip(oldest.iter_mut()).enumerate() {
        let (ring, rest) =
            core::mem::take(&mut rings).split_at_mut_checked(TAPS * dilation).unwrap_or_default();
        rings = rest;
        if let Some(row) = ring.get_mut(*oldest) {
            network.read(1 + block, row)?;
        }
        *oldest = after(*oldest, 1, ring.len());
    }
    let mut values = [0; LABEL_COUNT];
    network.read(0, &mut values)?;
    Ok(values.map(|value| (f32::from(value) + 128.0) / 256.0))
}

/// Position `step` after `at` in a ring of `len` rows.
fn after(at: usize, step: usize, len: usize) -> usize {
    let next = at + step;
    if next >= len { next - len } else { next }
}
