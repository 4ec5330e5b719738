//! Sortformer: rows of embeddings of audio, and probabilities of speakers.

use std::time::Duration;

use afferent_core::{TensorView, read_floats, tensor_of};
use afferent_graph::NodeError;
use afferent_messages::SampleRate;
use afferent_runtime::{Input, ModelFile, ModelOutputs};

use super::context::Context;
use crate::{
    mel::NemoMel,
    programs::{Programs, Step},
};

/// Name of the contract in `model.yaml`.
const CONTRACT: &str = "sortformer";
/// Least samples that the preprocessor takes.
const MIN_SAMPLES: usize = 1600;
/// Columns of features at an edge of the audio that the edge changes.
const EDGE_COLUMNS: usize = 2;
/// Least rows that `encode` takes.
const MIN_ROWS: usize = 2;

/// The model, and the context of a stream.
pub(super) struct Sortformer {
    programs: Programs,
    methods: Methods,
    mel: NemoMel,
    pub(super) sizes: Sizes,
    context: Context,
    features: Vec<f32>,
    probabilities: Vec<f32>,
}

/// Methods of the program.
struct Methods {
    preprocessor: Option<Step>,
    pre_encode: Step,
    encode: Step,
}

/// Sizes of the model, by its constants and signatures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) rate: SampleRate,
    pub(super) speakers: usize,
    /// Samples from column to column of the features.
    hop: usize,
    /// Columns of a row.
    columns_per_row: usize,
    bands: usize,
    /// Values of a row of embeddings.
    width: usize,
    /// Columns that `pre_encode` takes.
    max_columns: usize,
    /// Rows that `encode` takes.
    max_rows: usize,
    /// Rows of the speaker cache.
    cache: usize,
}

impl Methods {
    fn find(programs: &[(&str, &ModelFile)]) -> Option<Self> {
        let find = |name: &str, forms: &[&str]| {
            Step::find(programs, &[name]).filter(|step| step.has_inputs(forms))
        };
        Some(Self {
            preprocessor: find("preprocessor", &["f1", "i1"]),
            pre_encode: find("pre_encode", &["f3", "i1"])?,
            encode: find("encode", &["f3", "i1"])?,
        })
    }
}

/// Contract of the programs, if they are a Sortformer.
pub(crate) fn contract(programs: &[(&str, &ModelFile)]) -> Option<&'static str> {
    Methods::find(programs).map(|_| CONTRACT)
}

impl Sizes {
    fn read(programs: &Programs, methods: &Methods) -> Result<Self, NodeError> {
        let (&[_, max_columns, bands], &[_, max_rows, width], &[_, _, speakers]) = (
            methods.pre_encode.input_sizes(0),
            methods.encode.input_sizes(0),
            methods.encode.output_sizes(0),
        ) else {
            return Err(programs.error("encode does not return [1, rows, speakers]"));
        };
        let rate = programs.size("sample_rate").unwrap_or(16_000);
        let stride = programs.float("window_stride").unwrap_or(0.01);
        // The cast saturates.
        let hop = (stride * rate as f64).round() as usize;
        let sizes = Self {
            rate: SampleRate(u32::try_from(rate).unwrap_or(u32::MAX)),
            speakers,
            hop,
            columns_per_row: programs.size("subsampling_factor").unwrap_or(8),
            bands,
            width,
            max_columns,
            max_rows,
            cache: programs.size("spkcache_len").unwrap_or(188),
        };
        let row = hop.saturating_mul(sizes.columns_per_row);
        if !(1..=rate).contains(&row) || [speakers, bands, width].contains(&0) {
            return Err(programs.error(format!(
                "the program has a window_stride of {stride} s, a subsampling_factor of {}, {bands} bands, \
                 {width} values of a row and {speakers} speakers; each must be above zero, and a row at most \
                 1 s",
                sizes.columns_per_row
            )));
        }
        Ok(sizes)
    }

    /// Samples of a row.
    pub(super) fn row(&self) -> usize {
        self.hop * self.columns_per_row
    }

    /// Length of a row.
    pub(super) fn row_time(&self) -> Duration {
        self.rate.duration(self.row())
    }

    /// Samples before a chunk that its first row needs.
    pub(super) fn lead(&self) -> usize {
        (self.columns_per_row + EDGE_COLUMNS) * self.hop
    }

    /// Samples after a chunk that its last row needs.
    pub(super) fn lookahead(&self) -> usize {
        EDGE_COLUMNS * self.hop
    }
}

impl Sortformer {
    /// Checks the methods and constants of `programs`. A run has `chunk` rows after `queue` rows and those of
    /// the speaker cache.
    pub(super) fn open(
        mut programs: Programs,
        chunk: Duration,
        queue: Duration,
    ) -> Result<Self, NodeError> {
        let Some(methods) = Methods::find(&programs.files()) else {
            return Err(programs.error(format!(
                "Sortformer needs pre_encode(f32[1, columns, bands], i64[1]), encode(f32[1, rows, width], \
                 i64[1]) and may have preprocessor(f32[n], i64[1]); the package has {}",
                programs.methods()
            )));
        };
        programs.expect_contract(CONTRACT)?;
        let sizes = Sizes::read(&programs, &methods)?;
        if methods.preprocessor.is_none() && (sizes.rate.0, sizes.hop) != (16_000, 160) {
            return Err(programs.error(format!(
                "without a method preprocessor, the features are those of 16000 Hz every 160 samples, but \
                 the program has {} Hz and {} samples",
                sizes.rate.0, sizes.hop
            )));
        }
        let rows = |length: Duration| sizes.rate.samples(length).div_ceil(sizes.row());
        let (chunk, queue) = (rows(chunk).max(1), rows(queue));
        Self::check_lengths(&methods, &sizes, chunk, queue)?;
        for step in methods.preprocessor.iter().chain([&methods.pre_encode, &methods.encode]) {
            programs.load(step)?;
        }
        Ok(Self {
            mel: NemoMel::new(sizes.bands),
            context: Context::new(sizes.width, sizes.speakers, sizes.cache, queue, chunk),
            programs,
            methods,
            sizes,
            features: Vec::new(),
            probabilities: Vec::new(),
        })
    }

    /// Checks that the methods take a chunk of `chunk` rows.
    fn check_lengths(
        methods: &Methods,
        sizes: &Sizes,
        chunk: usize,
        queue: usize,
    ) -> Result<(), NodeError> {
        let invalid = |name: &'static str, rows: usize| {
            let most = sizes.row_time() * u32::try_from(rows).unwrap_or(u32::MAX);
            let reason = format!("must be at most {most:?} with this model");
            Err(NodeError::InvalidParam { name: name.into(), reason })
        };
        let mut most = (sizes.max_columns / sizes.columns_per_row.max(1)).saturating_sub(1);
        if let Some(step) = &methods.preprocessor {
            let samples = step.input_sizes(0).first().copied().unwrap_or(0);
            let edges = sizes.lead() + sizes.lookahead();
            most = most.min(samples.saturating_sub(edges) / sizes.row());
        }
        most = most.min(sizes.max_rows.saturating_sub(sizes.cache));
        if chunk > most {
            return invalid("chunk", most);
        }
        match sizes.max_rows - sizes.cache - chunk {
            most if queue > most => invalid("queue", most),
            _ => Ok(()),
        }
    }

    /// Rows of a chunk.
    pub(super) fn chunk(&self) -> usize {
        self.context.chunk
    }

    /// Computes the probabilities `[rows, speakers]` of the next chunk, which begins after `lead` of the
    /// samples: [`Sizes::lead`], or as many as the stream has. They go on to the lookahead after a whole
    /// chunk, or to the end of the stream.
    pub(super) fn run(&mut self, samples: &[f32], lead: usize) -> Result<&[f32], NodeError> {
        let columns = lead / self.sizes.hop;
        let skip_rows = usize::from(columns >= self.sizes.columns_per_row);
        let skip = columns - skip_rows * self.sizes.columns_per_row;
        let rows = self.rows(samples, skip, skip_rows)?;
        let total = self.context.push(rows);
        self.probabilities.clear();
        if total == 0 {
            return Ok(&self.probabilities);
        }
        let len = [i64::try_from(total).unwrap_or(i64::MAX)];
        let (sizes, values) = self.context.input(total.max(MIN_ROWS));
        let input = tensor_of(values, &sizes, self.methods.encode.input_dtype(0))?;
        let inputs = [Input::Tensor(input.view()), Input::Tensor(TensorView::new(&[1], &len)?)];
        let outputs = self.programs.run(&self.methods.encode, &inputs)?;
        read_floats(&outputs.tensor(0)?, &mut self.probabilities)?;
        let expected = total * self.sizes.speakers;
        if self.probabilities.len() < expected {
            let found = self.probabilities.len();
            let reason = format!("encode returned {found} values for {total} rows");
            return Err(self.programs.error(reason));
        }
        self.probabilities.truncate(expected);
        let first = self.context.update(&self.probabilities);
        Ok(&self.probabilities[first * self.sizes.speakers..])
    }

    /// Rows of embeddings of a chunk, after `skip` columns that the edge changes and `skip_rows` rows before
    /// the chunk.
    fn rows(
        &mut self,
        samples: &[f32],
        skip: usize,
        skip_rows: usize,
    ) -> Result<Vec<f32>, NodeError> {
        self.compute_features(samples)?;
        let Sizes { bands, columns_per_row, max_columns, width, .. } = self.sizes;
        let columns = (self.features.len() / bands).saturating_sub(skip);
        let columns = columns.min((self.context.chunk + skip_rows) * columns_per_row);
        if columns <= skip_rows * columns_per_row {
            return Ok(Vec::new());
        }
        let mut input = self.features[skip * bands..(skip + columns) * bands].to_vec();
        let step = &self.methods.pre_encode;
        let is_fixed = step.inputs().is_some_and(|all| all[0].2);
        let len = if is_fixed { max_columns } else { columns };
        input.resize(len * bands, 0.0);
        let input = tensor_of(&input, &[1, len, bands], step.input_dtype(0))?;
        let count = [i64::try_from(columns).unwrap_or(i64::MAX)];
        let inputs = [Input::Tensor(input.view()), Input::Tensor(TensorView::new(&[1], &count)?)];
        let outputs = self.programs.run(step, &inputs)?;
        let mut rows = Vec::new();
        read_floats(&outputs.tensor(0)?, &mut rows)?;
        let valid = length(&outputs)?.min(rows.len() / width);
        rows.truncate(valid.min(self.context.chunk + skip_rows) * width);
        rows.drain(..(skip_rows * width).min(rows.len()));
        Ok(rows)
    }

    /// Writes the features `[columns, bands]` of `samples` to `features`.
    fn compute_features(&mut self, samples: &[f32]) -> Result<(), NodeError> {
        let Some(step) = &self.methods.preprocessor else {
            self.mel.compute(samples, &mut self.features);
            return Ok(());
        };
        let len = [i64::try_from(samples.len()).unwrap_or(i64::MAX)];
        let mut samples = samples.to_vec();
        samples.resize(samples.len().max(MIN_SAMPLES), 0.0);
        let audio = tensor_of(&samples, &[samples.len()], step.input_dtype(0))?;
        let inputs = [Input::Tensor(audio.view()), Input::Tensor(TensorView::new(&[1], &len)?)];
        let outputs = self.programs.run(step, &inputs)?;
        let (mel, valid) = (outputs.tensor(0)?, length(&outputs)?);
        let &[_, bands, columns] = mel.sizes() else {
            let reason =
                format!("preprocessor returned {:?}, not [1, bands, columns]", mel.sizes());
            return Err(self.programs.error(reason));
        };
        if bands != self.sizes.bands {
            let reason = format!(
                "preprocessor returns {bands} bands, pre_encode takes {}",
                self.sizes.bands
            );
            return Err(self.programs.error(reason));
        }
        let mut by_band = Vec::new();
        read_floats(&mel, &mut by_band)?;
        self.features.clear();
        for column in 0..columns.min(valid) {
            self.features.extend((0..bands).map(|band| by_band[band * columns + column]));
        }
        Ok(())
    }
}

/// Output 1, a tensor with a length.
fn length(outputs: &ModelOutputs<'_>) -> Result<usize, afferent_core::Error> {
    let length = outputs.tensor(1)?.data::<i64>()?.first().copied().unwrap_or(0);
    Ok(usize::try_from(length).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use afferent_graph::OpenCx;
    use afferent_runtime::ModelOptions;
    use serde_json::Value;

    use super::*;

    const ROW: Duration = Duration::from_millis(80);

    /// Audio of a case, as the script of the stand-in makes it.
    fn sound(parts: &Value) -> Vec<f32> {
        let tones = [400.0, 1200.0, 2600.0, 5600.0];
        let mut samples = Vec::new();
        for part in parts.as_array().unwrap() {
            let len = part[1].as_i64().unwrap() * 16;
            for n in 0..len {
                let fade = (n.min(len - 1 - n) as f64 / 320.0).min(1.0);
                let tone = |voice: &Value| {
                    let hz = tones[usize::try_from(voice[0].as_u64().unwrap()).unwrap()];
                    let phase = std::f64::consts::TAU * hz * n as f64 / 16_000.0;
                    voice[1].as_f64().unwrap() * phase.sin() * fade
                };
                samples.push(part[0].as_array().unwrap().iter().map(tone).sum::<f64>() as f32);
            }
        }
        samples
    }

    #[test]
    fn probabilities_are_those_of_the_reference_loop() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sortformer");
        let cases = fs::read_to_string(folder.join("cases.json")).unwrap();
        let cases: Vec<Value> = serde_json::from_str(&cases).unwrap();
        let models = ModelOptions::new(afferent_kernels::KERNELS);
        let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
        for (program, case) in ["sortformer.pte", "no_preprocessor.pte"]
            .iter()
            .flat_map(|program| cases.iter().map(move |case| (program, case)))
        {
            let rows = |name: &str| ROW * u32::try_from(case[name].as_u64().unwrap()).unwrap();
            let path = folder.join(program);
            let programs = Programs::open(&path, "speaker_diarization", &cx).unwrap();
            let mut model = Sortformer::open(programs, rows("chunk"), rows("queue")).unwrap();
            let (samples, chunk) = (sound(&case["sound"]), model.chunk() * model.sizes.row());
            let mut found = Vec::new();
            for start in (0..samples.len()).step_by(chunk) {
                let lead = model.sizes.lead().min(start);
                let end = (start + chunk + model.sizes.lookahead()).min(samples.len());
                found.extend(model.run(&samples[start - lead..end], lead).unwrap().to_vec());
            }
            let expected = case["probabilities"].as_array().unwrap();
            let expected = expected.iter().flat_map(|row| row.as_array().unwrap());
            let expected: Vec<f64> = expected.filter_map(Value::as_f64).collect();
            assert_eq!(found.len(), expected.len(), "{program}");
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let error = (f64::from(*found) - expected).abs();
                assert!(error < 1e-3, "{program}, row {}: {found}, {expected}", index / 4);
            }
        }
    }
}
