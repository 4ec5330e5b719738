//! Program of a voice: its methods and the sizes of their windows.

use std::path::{Path, PathBuf};

use afferent_core::{Dynamism, TensorView};
use afferent_graph::{NodeError, OpenCx};
use afferent_package::ModelPackage;
use afferent_runtime::{Input, Model, program::Value};

use super::{
    length_regulator::{HOPS_PER_STEP, POSITION_FEATURES},
    tokens::TOKEN_FEATURES,
};

/// Context on each side of a window, in tokens, steps, or hops. Its results are not used.
pub(crate) const CONTEXT_LEN: usize = 16;

/// The loaded program of a voice.
pub(crate) struct VoiceProgram {
    model: Model,
    path: PathBuf,
    pub(crate) sizes: Sizes,
}

/// Sizes of the exported program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Sample rate in hertz, and samples per hop.
    pub(crate) rate: u32,
    pub(crate) hop: usize,
    /// Tokens per window of `forward`, and hidden size.
    pub(crate) tokens: usize,
    pub(crate) hidden: usize,
    /// Steps per window of `spectrum`, and bands per hop.
    pub(crate) steps: usize,
    pub(crate) bands: usize,
    /// Hops per window of `sound`.
    pub(crate) hops: usize,
    /// Letters per run of `spell`, and its output columns.
    pub(crate) letters: usize,
    pub(crate) columns: usize,
}

/// Highest sample rate in hertz.
const MAX_RATE_HZ: u32 = 192_000;

const FORWARD: &str = "forward";
const SPECTRUM: &str = "spectrum";
const SOUND: &str = "sound";
const SPELL: &str = "spell";

impl VoiceProgram {
    /// Loads the program of a package.
    ///
    /// # Errors
    /// [`NodeError::Model`] if it does not load or does not have the contract.
    pub(crate) fn open(package: &ModelPackage, cx: &OpenCx) -> Result<Self, NodeError> {
        let path = package.folder().to_owned();
        let failed = |reason: String| NodeError::Model { path: path.clone(), reason };
        let mut model = package
            .load(cx.services.need::<afferent_runtime::ModelOptions>()?)
            .map_err(|error| failed(error.to_string()))?;
        for method in [SPECTRUM, SOUND, SPELL] {
            model.load_method(method).map_err(|error| failed(error.to_string()))?;
        }
        let sizes = read_sizes(&model).map_err(failed)?;
        Ok(Self { model, path, sizes })
    }

    /// Runs `forward`, the encoder, on a window of tokens. `take` receives the hidden states, one
    /// row per number, and the durations in seconds.
    pub(crate) fn forward(
        &mut self,
        ids: &[i64],
        features: &[f32],
        mask: &[f32],
        take: impl FnOnce(&[f32], &[f32]),
    ) -> Result<(), NodeError> {
        let tokens = self.sizes.tokens;
        let sizes: [&[usize]; 3] = [&[1, tokens], &[1, tokens, TOKEN_FEATURES], &[1, 1, tokens]];
        let inputs = [
            Input::Tensor(TensorView::new(sizes[0], ids)?),
            Input::Tensor(TensorView::new(sizes[1], features)?),
            Input::Tensor(TensorView::new(sizes[2], mask)?),
        ];
        let outputs = run(&mut self.model, &self.path, FORWARD, &inputs)?;
        take(outputs.tensor(0)?.data()?, outputs.tensor(1)?.data()?);
        Ok(())
    }

    /// Runs `spectrum`, the decoder, on a window of steps. `take` receives one row of hops per
    /// band.
    pub(crate) fn spectrum(
        &mut self,
        expanded: &[f32],
        mask: &[f32],
        take: impl FnOnce(&[f32]),
    ) -> Result<(), NodeError> {
        let Sizes { steps, hidden, .. } = self.sizes;
        let sizes: [&[usize]; 2] =
            [&[1, HOPS_PER_STEP * (hidden + POSITION_FEATURES), steps], &[1, 1, steps]];
        let inputs = [
            Input::Tensor(TensorView::new(sizes[0], expanded)?),
            Input::Tensor(TensorView::new(sizes[1], mask)?),
        ];
        let outputs = run(&mut self.model, &self.path, SPECTRUM, &inputs)?;
        take(outputs.tensor(0)?.data()?);
        Ok(())
    }

    /// Runs `sound`, the vocoder, on a window of hops. `take` receives the samples.
    pub(crate) fn sound(
        &mut self,
        bands: &[f32],
        pulses: &[f32],
        noise: &[f32],
        take: impl FnOnce(&[f32]),
    ) -> Result<(), NodeError> {
        let hops = self.sizes.hops;
        let rows = pulses.len() / hops;
        let sizes: [&[usize]; 2] = [&[1, self.sizes.bands, hops], &[1, rows, hops]];
        let inputs = [
            Input::Tensor(TensorView::new(sizes[0], bands)?),
            Input::Tensor(TensorView::new(sizes[1], pulses)?),
            Input::Tensor(TensorView::new(sizes[1], noise)?),
        ];
        let outputs = run(&mut self.model, &self.path, SOUND, &inputs)?;
        take(outputs.tensor(0)?.data()?);
        Ok(())
    }

    /// Runs `spell`, the grapheme-to-phoneme model, on letters. `take` receives the scores of all
    /// columns, two rows per letter.
    pub(crate) fn spell(
        &mut self,
        letters: &[i64],
        mask: &[f32],
        take: impl FnOnce(&[f32]),
    ) -> Result<(), NodeError> {
        let sizes: [&[usize]; 2] = [&[1, letters.len()], &[1, 1, letters.len()]];
        let inputs = [
            Input::Tensor(TensorView::new(sizes[0], letters)?),
            Input::Tensor(TensorView::new(sizes[1], mask)?),
        ];
        let outputs = run(&mut self.model, &self.path, SPELL, &inputs)?;
        take(outputs.tensor(0)?.data()?);
        Ok(())
    }
}

fn run<'s>(
    model: &'s mut Model,
    path: &Path,
    method: &str,
    inputs: &[Input<'s>],
) -> Result<afferent_runtime::ModelOutputs<'s>, NodeError> {
    let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
    model.run(method, inputs).map_err(|error| failed(error.to_string()))
}

impl Sizes {
    /// Checks the contract and returns the sizes. `shapes` are those of the inputs, then the
    /// outputs, of `forward`, `spectrum`, `sound`, and `spell`.
    fn from_shapes(shapes: &[Vec<Vec<usize>>; 4], rate: u32, hop: u32) -> Result<Self, String> {
        if !(1..=MAX_RATE_HZ).contains(&rate) || !(rate.div_ceil(1000)..=rate).contains(&hop) {
            return Err(format!(
                "hop_size is {hop} and sample_rate {rate}, but a hop must last 1 ms to 1 s, at up \
                 to {MAX_RATE_HZ} Hz"
            ));
        }
        let hop = hop as usize;
        let size = |method: usize, tensor: usize, dim: usize| {
            shapes[method].get(tensor).and_then(|sizes| sizes.get(dim)).copied().unwrap_or(0)
        };
        // Names as in the contract.
        let (n, h) = (size(0, 0, 1), size(0, 3, 1));
        let (s, b) = (size(1, 0, 2), size(1, 2, 1));
        let (t, rows) = (size(2, 0, 2), 3 * hop + 2);
        let (l, columns) = (size(3, 0, 1), size(3, 2, 2));
        let contract: [(&str, &[&[usize]]); 4] = [
            (FORWARD, &[&[1, n], &[1, n, TOKEN_FEATURES], &[1, 1, n], &[1, h, n], &[1, n]]),
            (
                SPECTRUM,
                &[
                    &[1, HOPS_PER_STEP * (h + POSITION_FEATURES), s],
                    &[1, 1, s],
                    &[1, b, HOPS_PER_STEP * s],
                ],
            ),
            (SOUND, &[&[1, b, t], &[1, rows, t], &[1, rows, t], &[1, t, hop]]),
            (SPELL, &[&[1, l], &[1, 1, l], &[1, 2 * l, columns]]),
        ];
        for ((method, expected), found) in contract.into_iter().zip(shapes) {
            if found.as_slice() != expected {
                return Err(format!(
                    "method {method} has tensors of shapes {found:?}, but expected {expected:?}"
                ));
            }
        }
        if n.min(s).min(t) <= 2 * CONTEXT_LEN {
            return Err(format!("windows must be longer than {}", 2 * CONTEXT_LEN));
        }
        if b <= 2 || l == 0 || columns == 0 {
            return Err(
                "bands must be greater than 2, letters and columns greater than 0".to_owned()
            );
        }
        Ok(Self {
            rate,
            hop,
            tokens: n,
            hidden: h,
            steps: s,
            bands: b,
            hops: t,
            letters: l,
            columns,
        })
    }
}

/// Checks the contract of the program and returns its sizes.
fn read_sizes(model: &Model) -> Result<Sizes, String> {
    let number = |name: &str| {
        let value = model.file().metadata_int(name);
        value
            .and_then(|v| u32::try_from(v).ok())
            .ok_or_else(|| format!("the program has no metadata {name}"))
    };
    let (forward, spectrum) = (shapes(model, FORWARD)?, shapes(model, SPECTRUM)?);
    let (sound, spell) = (shapes(model, SOUND)?, shapes(model, SPELL)?);
    let shapes = [forward, spectrum, sound, spell];
    Sizes::from_shapes(&shapes, number("sample_rate")?, number("hop_size")?)
}

/// Shapes of the inputs, then the outputs, of a method.
fn shapes(model: &Model, method: &str) -> Result<Vec<Vec<usize>>, String> {
    let plan = model.file().method(method).map_err(|error| error.to_string())?;
    let shape = |id: u32| match plan.value(id as usize) {
        Value::Tensor(meta) if meta.dynamism == Dynamism::Static => {
            Ok(meta.layout.sizes.iter().collect::<Vec<usize>>())
        }
        _ => Err(format!(
            "method {method} has an input or output that is not a tensor of fixed size"
        )),
    };
    plan.inputs().iter().chain(plan.outputs().iter()).map(shape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Valid shapes for a hop of 160 samples.
    fn valid() -> [Vec<Vec<usize>>; 4] {
        [
            vec![
                vec![1, 40],
                vec![1, 40, TOKEN_FEATURES],
                vec![1, 1, 40],
                vec![1, 8, 40],
                vec![1, 40],
            ],
            vec![vec![1, 24, 48], vec![1, 1, 48], vec![1, 10, 96]],
            vec![vec![1, 10, 64], vec![1, 482, 64], vec![1, 482, 64], vec![1, 64, 160]],
            vec![vec![1, 20], vec![1, 1, 20], vec![1, 40, 50]],
        ]
    }

    #[test]
    fn shapes_must_match_the_contract() {
        let sizes = Sizes::from_shapes(&valid(), 16_000, 160).unwrap();
        assert_eq!((sizes.tokens, sizes.hidden, sizes.steps, sizes.bands), (40, 8, 48, 10));
        assert_eq!((sizes.hops, sizes.letters, sizes.columns), (64, 20, 50));
        let check = |change: fn(&mut [Vec<Vec<usize>>; 4]), expected: &str| {
            let mut shapes = valid();
            change(&mut shapes);
            let reason = Sizes::from_shapes(&shapes, 16_000, 160).unwrap_err();
            assert!(reason.contains(expected), "{reason}");
        };
        check(|shapes| shapes[0][4][1] = 39, "method forward");
        check(|shapes| shapes[1][2][2] = 95, "method spectrum");
        check(|shapes| shapes[1][2][1] = 9, "method sound");
        check(|shapes| shapes[2][3][1] = 63, "method sound");
        check(|shapes| shapes[3].truncate(2), "method spell");
        check(|shapes| shapes[3][2][2] = 0, "bands must be greater than 2");
        check(
            |shapes| shapes[3] = vec![vec![1, 0], vec![1, 1, 0], vec![1, 0, 50]],
            "bands must be greater than 2",
        );
        check(
            |shapes| shapes[1] = vec![vec![1, 24, 32], vec![1, 1, 32], vec![1, 10, 64]],
            "windows must be longer than 32",
        );
    }

    #[test]
    fn hop_length_is_limited() {
        for (rate, hop) in [(0, 160), (16_000, 0), (16_000, 15), (100, 101), (u32::MAX, 160)] {
            let reason = Sizes::from_shapes(&valid(), rate, hop).unwrap_err();
            assert!(reason.contains("a hop must last 1 ms to 1 s"), "{rate}, {hop}: {reason}");
        }
    }
}
