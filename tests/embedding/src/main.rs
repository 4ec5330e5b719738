//! Adds a node, a payload type and a backend, then runs, watches and stops a graph.

use std::{thread::sleep, time::Duration};

use afferent::{App, core::*, engine::RunOptions, graph::*, messages::AudioBlock};

/// Level of a block of audio.
#[derive(Clone, Default)]
struct Level {
    dbfs: f32,
}

impl Payload for Level {
    const TYPE: &'static str = "meter/Level";

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![("dbfs", Field::Number(self.dbfs.into()))]
    }
}

/// Measures the level of each block.
struct Meter;

ports! {
    impl Meter {
        /// Audio, full scale ±1, any rate.
        in AUDIO: AudioBlock;
        /// Level of each block, in dBFS.
        out LEVEL: Level, in_step, optional;
    }
}

impl Node for Meter {
    type Params = ();
    const NAME: &'static str = "meter";
    const SUMMARY: &'static str = "Measures the level of audio";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(block) = cx.get(Self::AUDIO) else { return Ok(()) };
        let samples = block.channel(0)?;
        let power = samples.iter().map(|x| x * x).sum::<f32>() / samples.len().max(1) as f32;
        cx.send(Self::LEVEL, Level { dbfs: 10.0 * power.max(1e-12).log10() });
        Ok(())
    }
}

/// A backend that refuses every delegate: enough to be registered.
struct Npu;

impl Backend for Npu {
    fn name(&self) -> &'static str {
        "ExampleNpuBackend"
    }

    fn is_available(&self) -> bool {
        true
    }

    fn init<'a>(&self, _: &DelegateSource<'a, '_>) -> Result<DelegateHandle<'a>, Error> {
        Err(Error::DelegateInvalidCompatibility { reason: "the blob is not for this NPU" })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: embedding GRAPH.yaml")?;
    let app = App::new().node(Typed::<Meter>::NEW).payload(PayloadType::of::<Level>()).backend(Npu);
    let graph = app.load(path)?;
    let session = app.start(&graph, RunOptions::default())?;
    sleep(Duration::from_millis(500));
    let watched = session.watch_handle().read(Duration::from_millis(100));
    session.stop_handle().stop();
    println!("metered {} blocks, then {:?}", watched.nodes[1].calls, session.wait()?.end);
    Ok(())
}
