//! The `afferent` command line with a custom node: graphs use `volume` like any built-in node.
//!
//! ```text
//! cargo run --example custom_node -- nodes volume
//! cargo run --example custom_node -- run launch/examples/custom_node.yaml
//! ```

use std::process::ExitCode;

use afferent::App;
use afferent_graph::{Cx, Node, NodeDef, NodeEntry, NodeError, OpenCx, Port, params, ports};
use afferent_messages::AudioBlock;

params! {
    /// Settings of [`Volume`].
    pub struct VolumeParams {
        /// Gain; negative values make the audio quieter.
        pub gain: f32 = "0", range -60.0..=60.0, unit "dB";
    }
}

/// Applies a gain to audio.
struct Volume {
    factor: f32,
}

ports! {
    impl Volume {
        /// Audio, full scale ±1, any sample rate and channels.
        in IN = "audio": AudioBlock;
        /// The scaled audio, with the sample rate and channels of the input.
        out OUT = "audio": AudioBlock, in_step;
    }
}

impl Node for Volume {
    type Params = VolumeParams;
    const NAME: &'static str = "volume";
    const SUMMARY: &'static str = "Applies a gain to audio.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open(params: VolumeParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { factor: 10.0_f32.powf(params.gain / 20.0) })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // In place if this is the only reference to the block, otherwise in a copy.
        if let Some(mut block) = cx.take(Self::IN) {
            block.samples.data_mut::<f32>()?.iter_mut().for_each(|sample| *sample *= self.factor);
            cx.send(Self::OUT, block);
        }
        Ok(())
    }
}

/// The nodes of this program.
const NODES: &[NodeEntry] = &[NodeDef::of::<Volume>];

fn main() -> ExitCode {
    App::new().nodes(NODES).main()
}
