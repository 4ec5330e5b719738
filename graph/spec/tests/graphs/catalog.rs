//! A small list of nodes that can be checked but not run.

use std::path::Path;

use afferent_graph::{
    Catalog, DynNode, NodeDef, NodeError, NodeFactory, NodeSpec, OpenCx, Param, ParamSpec,
    ParamValue, ParamValues, Params, Payload, Port, choices, params,
};
use afferent_messages::{AudioBlock, Features, Image, KeywordEvent, SpeechEvent};
use afferent_spec::{Checked, Diagnostics, LoadOptions, check, parse};

choices! {
    /// Pace of reading a file.
    pub(crate) enum Pace {
        /// As recorded.
        Realtime = "realtime",
        /// As fast as possible.
        Max = "max",
    }
}

params! {
    /// Parameters of a source.
    pub(crate) struct FileParams {
        /// The sound.
        pub path: std::path::PathBuf;
        /// Pace.
        pub pace: Pace = "max";
        /// Gain.
        pub gain_db: f32 = "0", range -60.0..=20.0, unit "dB";
    }
}

params! {
    /// Parameters of a camera.
    pub(crate) struct CameraParams {
        /// Width.
        pub width: u32 = "640";
        /// Height.
        pub height: u32 = "480";
        /// Images per second.
        pub fps: f64 = "30";
        /// Pixel format.
        pub format: String = "rgb8";
    }
}

params! {
    /// Parameters of a detector.
    pub(crate) struct VadParams {
        /// Threshold of speech.
        pub threshold: f32 = "0.5", range 0.0..=1.0;
        /// Silence that ends speech.
        pub min_silence: std::time::Duration = "200ms", range 0.02..=5.0;
        /// The model.
        pub model: std::path::PathBuf = "models/vad";
        /// Most events.
        pub limit: Option<u32>;
    }
}

params! {
    /// Parameters of a recognizer.
    pub(crate) struct AsrParams {
        /// The language, two letters.
        pub language: String;
    }
}

/// A payload type that stays in its process.
#[derive(Clone, Default)]
struct Secret;

impl Payload for Secret {
    const TYPE: &'static str = "test/Secret";
}

const AUDIO_IN: Port = Port::input::<AudioBlock>("audio");
const AUDIO: Port = Port::output::<AudioBlock>("audio");

/// A node that can be checked but not run.
struct Contract {
    spec: NodeSpec,
    check: fn(&ParamValues, &OpenCx) -> Result<(), NodeError>,
}

impl NodeFactory for Contract {
    fn spec(&self) -> NodeSpec {
        self.spec.clone()
    }

    fn check(&self, params: &ParamValues, cx: &OpenCx) -> Result<(), NodeError> {
        (self.check)(params, cx)
    }

    fn open(&self, _: &ParamValues, _: &OpenCx) -> Result<Box<dyn DynNode>, NodeError> {
        Err(NodeError::Device { name: String::new(), reason: String::new() })
    }
}

fn def(name: &str, ports: &[Port], params: &[Param]) -> NodeDef {
    checked(name, ports, params, |_, _| Ok(()))
}

fn checked(
    name: &str,
    ports: &[Port],
    params: &[Param],
    check: fn(&ParamValues, &OpenCx) -> Result<(), NodeError>,
) -> NodeDef {
    let params = params.iter().map(ParamSpec::from).collect();
    NodeDef::new(Contract { spec: NodeSpec { params, ..NodeSpec::new(name, ports) }, check })
}

fn file_must_exist(values: &ParamValues, _: &OpenCx) -> Result<(), NodeError> {
    match values.get("path") {
        Some(ParamValue::Path(path)) if path.ends_with("absent.wav") => {
            Err(NodeError::File { path: path.clone(), reason: "no such file".to_owned() })
        }
        _ => Ok(()),
    }
}

fn language_must_be_short(values: &ParamValues, cx: &OpenCx) -> Result<(), NodeError> {
    let params = AsrParams::from_values(values)?;
    if params.language.len() == 2 {
        return Ok(());
    }
    let reason = format!("{:?} is not two letters (in {})", params.language, cx.name);
    Err(NodeError::InvalidParam { name: "language".into(), reason })
}

/// All nodes.
pub(crate) fn catalog() -> Catalog {
    [
        checked("wav_source", &[AUDIO], FileParams::PARAMS, file_must_exist),
        def("microphone", &[AUDIO], &[]),
        def("secret", &[Port::output::<Secret>("out")], &[]),
        def("camera", &[Port::output::<Image>("images")], CameraParams::PARAMS),
        def("vad", &[AUDIO_IN, AUDIO, Port::output::<SpeechEvent>("events")], VadParams::PARAMS),
        def("log_mel", &[AUDIO_IN, Port::output::<Features>("features")], &[]),
        checked(
            "asr",
            &[
                Port::input::<Features>("features"),
                Port::input::<SpeechEvent>("events").optional(),
                Port::output::<KeywordEvent>("words"),
            ],
            AsrParams::PARAMS,
            language_must_be_short,
        ),
        def("mix", &[AUDIO_IN.many(), AUDIO], &[]),
        def("print", &[Port::any("in").many()], &[]),
        def("wav_sink", &[AUDIO_IN], FileParams::PARAMS),
        def("idle", &[Port::any("in").optional()], &[]),
    ]
    .into_iter()
    .collect()
}

/// Checks the text of a graph file `graphs/g.yaml`.
pub(crate) fn check_text(text: &str, options: &LoadOptions) -> Result<Checked, Diagnostics> {
    let loaded = parse(text, Path::new("graphs/g.yaml"), options);
    check(&loaded, &catalog(), &OpenCx::default())
}
