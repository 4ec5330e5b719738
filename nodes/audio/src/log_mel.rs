//! Audio features, computed by a model package.

use std::path::{Path, PathBuf};

use afferent_core::{Dynamism, ScalarType, TensorView};
use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{AudioBlock, Features, SampleRate};
use afferent_package::ModelPackage;
use afferent_runtime::{
    Input, Model,
    program::{MethodPlan, Value, Vector},
};

use crate::denoise::MONO_HINT;

params! {
    /// Settings of [`LogMel`].
    pub struct LogMelParams {
        /// Path of the model package or program that computes the features.
        pub model: PathBuf;
    }
}

/// Computes feature rows, such as log-mel energies, with a model package.
///
/// Use the feature program with which the downstream models were trained, so that training and
/// inference see the same features. Contract of the program: `forward(x f32[1, context_size +
/// window_size]) -> features f32[1, rows, bins]`, with the metadata integers `sample_rate`,
/// `window_size` (new samples per run), `context_size` (samples before them, repeated from the
/// previous run), and `hop_size`; `rows · hop_size = window_size`.
///
/// A row covers `context_size + hop_size` samples. The timestamp of a packet is that of the first
/// sample of its first row, `context_size` before the new samples. The context of the first run is
/// silence, so its timestamp may be negative. A gap of more than half a hop in the timestamps
/// starts a new stream. An incomplete window at the end is dropped.
///
/// Latency: one window of the model. The node is light: a run takes less time than waking a thread.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Timestamp};
/// use afferent_messages::{AudioBlock, Features, SampleRate};
/// use afferent_nodes_audio::{LogMel, LogMelParams};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/log_mel").into();
/// let cx = OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
/// let mut bench = NodeBench::new(LogMel::open(LogMelParams { model }, &cx)?);
///
/// let mut silence = AudioBlock::default();
/// silence.reshape(SampleRate(16_000), 1, 1000)?.fill(0.0);
/// let sent = bench.call(LogMel::AUDIO, Timestamp::ZERO, silence)?;
/// assert_eq!(sent[0].1.get::<Features>().unwrap().values.sizes(), [4, 40]);
/// assert_eq!(sent[0].1.header.at, Timestamp(-15_000_000));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct LogMel {
    path: PathBuf,
    model: Model,
    contract: Contract,
    /// Context and the samples of the next window.
    pending: Vec<f32>,
    /// Expected timestamp of the next sample; `None` before the first block.
    next_at: Option<Timestamp>,
}

/// Sizes and rates from the metadata of the program.
#[derive(Debug, Clone, PartialEq)]
struct Contract {
    rate: SampleRate,
    window: usize,
    context: usize,
    hop: usize,
    rows: usize,
    bins: usize,
}

ports! {
    impl LogMel {
        /// Audio, one channel, at the sample rate of the model, full scale ±1, blocks of any
        /// length.
        in AUDIO: AudioBlock;
        /// Feature rows in the unit of the model, one packet per window.
        out FEATURES: Features;
    }
}

impl LogMel {
    /// Starts a new stream with a silent context.
    fn restart(&mut self) {
        self.pending.clear();
        self.pending.resize(self.contract.context, 0.0);
    }

    /// Runs the model on the first window and sends the rows with the timestamp `at`.
    fn send_window(&mut self, cx: &mut Cx<'_>, at: Timestamp) -> Result<(), NodeError> {
        let Contract { rate, window, context, hop, rows, bins } = self.contract;
        let (model, path) = (&mut self.model, &self.path);
        let sizes = [1, context + window];
        let input = Input::Tensor(TensorView::new(&sizes, &self.pending[..context + window])?);
        let outputs = cx.time_model(|| model.run("forward", &[input]));
        let outputs = outputs.map_err(|error| model_error(path, error))?;
        let mut features = cx.loan(Self::FEATURES);
        (features.hop, features.window) = (rate.duration(hop), rate.duration(context + hop));
        features.values.resize(&[rows, bins])?;
        let (to, from) = (features.values.data_mut::<f32>()?, outputs.tensor(0)?.data::<f32>()?);
        if to.len() != from.len() {
            return Err(model_error(
                path,
                "the features have another size than the program declares",
            ));
        }
        to.copy_from_slice(from);
        cx.send_at(Self::FEATURES, at, features);
        Ok(())
    }

    fn check_input(&self, block: &AudioBlock) -> Result<(), NodeError> {
        let (rate, needed) = (block.rate.0, self.contract.rate.0);
        let reason = if rate != needed {
            format!(
                "the audio has {rate} Hz, but the model needs {needed} Hz; insert a resample node \
                 with rate: {needed}"
            )
        } else if block.channels() != 1 {
            let channels = block.channels();
            format!("the audio has {channels} channels, but the model needs one; {MONO_HINT}")
        } else {
            return Ok(());
        };
        Err(NodeError::InvalidInput { port: Self::AUDIO.name().into(), reason })
    }
}

impl Node for LogMel {
    type Params = LogMelParams;

    const NAME: &'static str = "log_mel";
    const SUMMARY: &'static str =
        "Computes feature rows, such as log-mel energies, with a model package.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "one window of the model";

    fn check(params: &LogMelParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(drop)
    }

    fn open(params: LogMelParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let path = params.model;
        let package = ModelPackage::open(&path).map_err(|error| model_error(&path, error))?;
        package.expect_task("features").map_err(|error| model_error(&path, error))?;
        let model = package.load(cx.services.need::<afferent_runtime::ModelOptions>()?);
        let model = model.map_err(|error| model_error(&path, error))?;
        let contract = Contract::of(&model).map_err(|reason| model_error(&path, reason))?;
        let mut node = Self { path, model, contract, pending: Vec::new(), next_at: None };
        node.restart();
        Ok(node)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(block) = cx.get(Self::AUDIO) else { return Ok(()) };
        self.check_input(block)?;
        let Contract { rate, window, context, hop, .. } = self.contract;
        let at = cx.at();
        let tolerance = rate.duration(hop) / 2;
        let is_gap = |next: Timestamp| at.since(next) > tolerance || next.since(at) > tolerance;
        if self.next_at.is_none_or(is_gap) {
            self.restart();
        }
        // Timestamp of the first pending sample, including the context.
        let first = at - rate.duration(self.pending.len());
        self.next_at = Some(at + block.duration());
        self.pending.extend_from_slice(block.channel(0)?);
        let mut done = 0;
        while self.pending.len() >= context + window {
            self.send_window(cx, first + rate.duration(done))?;
            self.pending.drain(..window);
            done += window;
        }
        Ok(())
    }
}

impl Contract {
    /// Reads and checks the contract of `model`.
    fn of(model: &Model) -> Result<Self, String> {
        let file = model.file();
        let plan = file.method("forward").map_err(|error| error.to_string())?;
        let number = |name: &str| {
            let value = file.metadata_int(name);
            let value =
                value.ok_or_else(|| format!("the program has no metadata method {name}"))?;
            let fit = u32::try_from(value).ok().filter(|value| *value <= 1 << 24);
            fit.ok_or_else(|| format!("{name} of the program is {value}; expected 0 to 16777216"))
        };
        let rate = SampleRate(number("sample_rate")?);
        let [window, context, hop] =
            [number("window_size")?, number("context_size")?, number("hop_size")?]
                .map(|size| size as usize);
        let shapes =
            (single_tensor_sizes(&plan, plan.inputs()), single_tensor_sizes(&plan, plan.outputs()));
        let (Some(input), Some(output)) = shapes else {
            return Err(
                "forward must have one input and one output, both f32 tensors of fixed size"
                    .to_owned(),
            );
        };
        if input != [1, context + window] {
            return Err(format!(
                "input {input:?} of forward is not [1, context_size + window_size] = [1, {context} \
                 + {window}]"
            ));
        }
        let &[1, rows, bins] = output.as_slice() else {
            return Err(format!("output {output:?} of forward is not [1, rows, bins]"));
        };
        if rate.0 == 0 || rows * bins == 0 || rows.checked_mul(hop) != Some(window) || hop == 0 {
            return Err(format!(
                "{rows} rows of {bins} bins with a hop of {hop} samples do not match a window of \
                 {window} samples at {} Hz",
                rate.0
            ));
        }
        Ok(Self { rate, window, context, hop, rows, bins })
    }
}

/// Sizes of the only value in `values`; `None` unless it is an `f32` tensor of fixed size.
fn single_tensor_sizes(plan: &MethodPlan<'_>, values: Vector<'_, u32>) -> Option<Vec<usize>> {
    match plan.value(values.get(0).filter(|_| values.len() == 1)? as usize) {
        Value::Tensor(meta)
            if meta.layout.dtype == ScalarType::Float && meta.dynamism == Dynamism::Static =>
        {
            Some(meta.layout.sizes.iter().collect())
        }
        _ => None,
    }
}

fn model_error(path: &Path, reason: impl ToString) -> NodeError {
    NodeError::Model { path: path.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use std::f32::consts::TAU;

    use afferent_graph::{NodeBench, Packet};

    use super::*;

    fn try_open(model: &str) -> Result<LogMel, NodeError> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models");
        let params = LogMelParams { model: Path::new(folder).join(model) };
        let cx =
            OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
        LogMel::open(params, &cx)
    }

    fn open() -> NodeBench<LogMel> {
        NodeBench::new(try_open("log_mel").unwrap())
    }

    fn block(channels: usize, samples: &[f32]) -> AudioBlock {
        let mut block = AudioBlock::default();
        let len = samples.len() / channels;
        let to = block.reshape(SampleRate(16_000), channels, len).unwrap();
        to.copy_from_slice(samples);
        block
    }

    fn tone(hz: f32, len: usize) -> Vec<f32> {
        (0..len).map(|n| 0.5 * (TAU * hz * n as f32 / 16_000.0).sin()).collect()
    }

    /// Packets sent for `sound`, which starts at `at`, in blocks of `len` samples.
    fn run(bench: &mut NodeBench<LogMel>, at: i64, sound: &[f32], len: usize) -> Vec<Packet> {
        let mut packets = Vec::new();
        for (number, samples) in sound.chunks(len).enumerate() {
            let at = Timestamp(at) + SampleRate(16_000).duration(number * len);
            let sent = bench.call(LogMel::AUDIO, at, block(1, samples)).unwrap();
            packets.extend(sent.into_iter().map(|(_, packet)| packet));
        }
        packets
    }

    fn rows(packets: &[Packet]) -> Vec<Vec<f32>> {
        let values = packets.iter().map(|packet| &packet.get::<Features>().unwrap().values);
        let rows = values.map(|values| values.data::<f32>().unwrap().chunks(40));
        rows.flatten().map(<[f32]>::to_vec).collect()
    }

    #[test]
    fn block_lengths_do_not_matter() {
        let sound = tone(1000.0, 6400);
        let whole = run(&mut open(), 0, &sound, 6400);
        assert_eq!(whole.len(), 10);
        for len in [160, 333, 640, 1000] {
            let packets = run(&mut open(), 0, &sound, len);
            assert_eq!(rows(&packets), rows(&whole), "blocks of {len}");
            let times = |packets: &[Packet]| packets.iter().map(|p| p.header.at.0).collect();
            let (times, expected): (Vec<i64>, Vec<i64>) = (times(&packets), times(&whole));
            let near = |(a, b): (&i64, &i64)| a.abs_diff(*b) <= 2;
            assert!(times.iter().zip(&expected).all(near), "{times:?} are not {expected:?}");
        }
    }

    #[test]
    fn a_tone_is_loudest_in_its_bin() {
        let loudest = |hz| {
            let rows = rows(&run(&mut open(), 0, &tone(hz, 3200), 320));
            let steady = rows[4..].iter().map(|row| {
                let loudest = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
                loudest.unwrap().0
            });
            let bins: Vec<_> = steady.collect();
            assert!(bins.windows(2).all(|pair| pair[0] == pair[1]), "{hz} Hz: {bins:?}");
            bins[0]
        };
        let bins = [300.0, 1000.0, 3000.0, 6000.0].map(loudest);
        assert!(bins.is_sorted_by(|a, b| a < b), "{bins:?}");
    }

    #[test]
    fn a_gap_starts_a_new_stream() {
        let (mut bench, sound) = (open(), tone(700.0, 1600));
        let first = run(&mut bench, 0, &sound, 320);
        let second = run(&mut bench, 500_000_000, &sound, 320);
        assert_eq!(rows(&first), rows(&second));
        let times: Vec<_> = second.iter().map(|packet| packet.header.at.0 / 1_000_000).collect();
        assert_eq!(times, [485, 525]);
        let features = second[0].get::<Features>().unwrap();
        assert_eq!((features.hop.as_millis(), features.window.as_millis()), (10, 25));
    }

    #[test]
    fn other_formats_are_rejected_with_advice() {
        let mut other = block(1, &[0.0]);
        other.rate = SampleRate(48_000);
        let error = open().call(LogMel::AUDIO, Timestamp::ZERO, other).unwrap_err().to_string();
        assert!(error.ends_with("insert a resample node with rate: 16000"), "{error}");
        let stereo = block(2, &[0.0; 2]);
        let error = open().call(LogMel::AUDIO, Timestamp::ZERO, stereo).unwrap_err().to_string();
        assert!(error.contains("2 channels, but the model needs one; set mix: mono"), "{error}");
    }

    #[test]
    fn other_models_are_rejected() {
        let check = |model: &str, expected: &str| {
            let error = try_open(model).err().unwrap().to_string();
            assert!(error.contains(model) && error.contains(expected), "{error}");
        };
        check("none", "No such file");
        check("vad", "`task` is voice_activity, but this node needs a model for features");
        check("vad/vad_portable.pte", "the program has no metadata method hop_size");
    }
}
