//! The command line with a node of one's own: a graph can use `volume` like any other.
//!
//! ```text
//! cargo run --example custom_node -- nodes volume
//! cargo run --example custom_node -- run launch/examples/custom_node.yaml
//! ```

use std::process::ExitCode;

use afferent::App;
use afferent_graph::{Cx, In, Node, NodeDef, NodeEntry, NodeError, OpenCx, Out, Port, params};
use afferent_messages::AudioBlock;

params! {
    /// Settings of [`Volume`].
    pub struct VolumeParams {
        /// How much louder sound becomes; negative numbers make it quieter.
        pub gain: f32 = "0", range -60.0..=60.0, unit "dB";
    }
}

/// Makes sound louder or quieter.
struct Volume {
    factor: f32,
}

impl Volume {
    const IN: In<AudioBlock> = In::new("audio");
    const OUT: Out<AudioBlock> = Out::new("audio");
}

impl Node for Volume {
    type Params = VolumeParams;
    const NAME: &'static str = "volume";
    const SUMMARY: &'static str = "Makes sound louder or quieter";
    const PORTS: &'static [Port] = &[
        Self::IN.port().help("full scale ±1, any rate"),
        Self::OUT.port().help("of the rate and channels of the input").in_step(),
    ];
    const LATENCY: &'static str = "none";

    fn open(params: VolumeParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { factor: 10.0_f32.powf(params.gain / 20.0) })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // In place when nobody else holds the block, otherwise in a copy.
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
