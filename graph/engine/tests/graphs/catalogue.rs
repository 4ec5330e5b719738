//! A small list of nodes that can be checked but not run.

use std::path::Path;

use afferent_engine::{Checked, Diagnostics, LoadOptions, check, parse};
use afferent_graph::{
    AudioBlock, Features, In, KeywordEvent, NodeDef, NodeError, OpenCx, Out, Param, ParamValue,
    ParamValues, Params, Port, SpeechEvent, Weight, choices, params,
};

choices! {
    /// How fast a file is read.
    pub(crate) enum Pace {
        /// As recorded.
        Realtime = "realtime",
        /// As fast as possible.
        Max = "max",
    }
}

params! {
    /// Of a source.
    pub(crate) struct FileParams {
        /// The sound.
        pub path: std::path::PathBuf;
        /// How fast.
        pub pace: Pace = "max";
        /// How loud.
        pub gain_db: f32 = "0", range -60.0..=20.0, unit "dB";
    }
}

params! {
    /// Of a detector.
    pub(crate) struct VadParams {
        /// What is speech.
        pub threshold: f32 = "0.5", range 0.0..=1.0;
        /// When speech has ended.
        pub min_silence: std::time::Duration = "200ms", range 0.02..=5.0;
        /// The model.
        pub model: std::path::PathBuf = "models/vad";
        /// Most events.
        pub limit: Option<u32>;
    }
}

params! {
    /// Of a recogniser.
    pub(crate) struct AsrParams {
        /// The language, two letters.
        pub language: String;
    }
}

const AUDIO_IN: Port = In::<AudioBlock>::new("audio").port();
const AUDIO: Port = Out::<AudioBlock>::new("audio").port();

const fn def(name: &'static str, ports: &'static [Port], params: &'static [Param]) -> NodeDef {
    NodeDef {
        name,
        summary: "",
        ports,
        params,
        weight: Weight::Light,
        timed: false,
        latency: "none",
        check: |_, _| Ok(()),
        open: |_, _| Err(NodeError::Device { name: String::new(), reason: String::new() }),
    }
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
    Err(NodeError::InvalidParam { name: "language", reason })
}

/// All nodes.
pub(crate) const NODES: &[NodeDef] = &[
    NodeDef { check: file_must_exist, ..def("wav_source", &[AUDIO], FileParams::PARAMS) },
    def("microphone", &[AUDIO], &[]),
    def("vad", &[AUDIO_IN, AUDIO, Out::<SpeechEvent>::new("events").port()], VadParams::PARAMS),
    def("log_mel", &[AUDIO_IN, Out::<Features>::new("features").port()], &[]),
    NodeDef {
        check: language_must_be_short,
        ..def(
            "asr",
            &[
                In::<Features>::new("features").port(),
                In::<SpeechEvent>::new("events").port().optional(),
                Out::<KeywordEvent>::new("words").port(),
            ],
            AsrParams::PARAMS,
        )
    },
    def("mix", &[AUDIO_IN.many(), AUDIO], &[]),
    def("print", &[Port::any("in").many()], &[]),
    def("wav_sink", &[AUDIO_IN], FileParams::PARAMS),
    def("idle", &[Port::any("in").optional()], &[]),
];

/// Checks the text of a graph file `graphs/g.yaml`.
pub(crate) fn check_text(text: &str, options: &LoadOptions) -> Result<Checked, Diagnostics> {
    let loaded = parse(text, Path::new("graphs/g.yaml"), options);
    check(&loaded, &[NODES], &OpenCx::default())
}
