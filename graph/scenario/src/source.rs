//! What runs in the place of sources: the sound of the user, and packets of the scenario.

use std::{collections::VecDeque, sync::Arc};

use afferent_engine::InterruptHandle;
use afferent_graph::{
    Cx, DynBench, DynNode, Header, NodeDef, NodeError, NodeSpec, Out, Packet, Payload, Port,
    PortId, Timestamp,
};
use afferent_messages::AudioBlock;

use crate::{
    payload::{Fields, Sendable},
    sound::{Noise, SoundNodes, amplitude},
    spec::Echo,
    stage::{Action, Stage, State},
};

/// Sends what the user says, and silence or noise between, block by block when it has been heard.
pub(crate) struct Hearing {
    stage: Arc<Stage>,
    out: Out<AudioBlock>,
    noise: Noise,
    /// Samples that were sent.
    sent: usize,
    echo: Option<Heard>,
    interrupts: Interrupts,
}

/// The sound of the graph on its way to the microphone.
struct Heard {
    resample: DynBench,
    gain: f32,
    /// Samples between the time of a sound and when it is heard.
    delay: std::time::Duration,
    /// Sound at the rate of the source, with the time of its first sample.
    waiting: VecDeque<(Timestamp, Vec<f32>)>,
}

impl Hearing {
    /// Sends by the output `port`.
    pub(crate) fn new(
        stage: Arc<Stage>,
        port: PortId,
        noise_dbfs: Option<f64>,
        echo: Option<&Echo>,
        interrupts: Interrupts,
        sounds: &SoundNodes,
    ) -> Result<Self, NodeError> {
        let rate = stage.script.rate.0;
        let heard = |echo: &Echo| {
            let resample = sounds.resampler(rate, "medium")?;
            let gain = amplitude(echo.level_db) as f32;
            Ok::<_, NodeError>(Heard {
                resample,
                gain,
                delay: echo.delay,
                waiting: VecDeque::new(),
            })
        };
        let echo = echo.map(heard).transpose()?;
        let noise = Noise::new(noise_dbfs.map_or(0.0, amplitude), 2);
        Ok(Self { stage, out: Out::at(port.index(), ""), noise, sent: 0, echo, interrupts })
    }

    /// Time of the sample that is `samples` after the next one.
    fn time_after(&self, samples: usize) -> Timestamp {
        Timestamp::ZERO + self.stage.script.rate.duration(self.sent + samples)
    }
}

/// Adds `sound`, which begins at `begin`, to `block`, which begins at `from`.
fn mix(block: &mut [f32], from: Timestamp, rate: u32, sound: &[f32], begin: Timestamp, gain: f32) {
    let apart = (begin.0 - from.0) as f64 * f64::from(rate) / 1e9;
    // Samples of the block before the sound, or of the sound before the block.
    let apart = apart.round() as i64;
    let skip = |apart: i64| usize::try_from(apart).unwrap_or(0);
    let block = block.iter_mut().skip(skip(apart));
    let sound = sound.iter().skip(skip(-apart));
    block.zip(sound).for_each(|(to, from)| *to += from * gain);
}

impl Heard {
    /// Takes in what the graph sent.
    fn hear(&mut self, packets: impl Iterator<Item = Packet>) -> Result<(), NodeError> {
        for packet in packets {
            let Some(block) = packet.get::<AudioBlock>() else { continue };
            let mut mono = AudioBlock::default();
            let samples = mono.reshape(block.rate, 1, block.len())?;
            for channel in 0..block.channels() {
                let share = 1.0 / block.channels() as f32;
                let channel = block.channel(channel)?;
                samples.iter_mut().zip(channel).for_each(|(to, from)| *to += from * share);
            }
            let mono = Packet::new(mono, Header { at: packet.header.at, ..Header::default() });
            for (_, packet) in self.resample.call(PortId::at(0), mono)? {
                let Some(block) = packet.get::<AudioBlock>() else { continue };
                let at = packet.header.at + self.delay;
                self.waiting.push_back((at, block.channel(0)?.to_vec()));
            }
        }
        Ok(())
    }
}

impl DynNode for Hearing {
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let stage = self.stage.clone();
        let (script, now) = (&stage.script, cx.now());
        let mut state = stage.advance(now);
        if state.over.is_some() {
            cx.end();
            return Ok(());
        }
        self.interrupts.act(&stage, &mut state, now);
        let heard = self.time_after(script.block);
        if now >= heard {
            let from = self.time_after(0);
            let mut block = cx.loan(self.out);
            let samples = block.reshape(script.rate, 1, script.block)?;
            samples.iter_mut().for_each(|sample| *sample = self.noise.next());
            for (turn, times) in script.turns.iter().zip(&state.times) {
                if let (Action::Sound(sound), Some((begin, end))) = (&turn.action, times)
                    && *end >= from
                {
                    mix(samples, from, script.rate.0, sound, *begin, 1.0);
                }
            }
            if let Some(echo) = &mut self.echo {
                echo.hear(state.echo.drain(..))?;
                for (at, sound) in &echo.waiting {
                    mix(samples, from, script.rate.0, sound, *at, echo.gain);
                }
                let is_over = |(at, sound): &(Timestamp, Vec<f32>)| {
                    *at + script.rate.duration(sound.len()) < heard
                };
                while echo.waiting.front().is_some_and(is_over) {
                    echo.waiting.pop_front();
                }
            }
            cx.send_at(self.out, from, block);
            self.sent += script.block;
        }
        let due = self.interrupts.next(&state, now);
        let heard = self.time_after(script.block);
        cx.resume_at(due.map_or(heard, |due| due.min(heard)));
        Ok(())
    }

    fn finish(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }
}

/// The turns that interrupt, for the one source that sees to them.
#[derive(Clone, Default)]
pub(crate) struct Interrupts {
    /// Turns that have not interrupted yet.
    pub(crate) turns: Vec<usize>,
}

impl Interrupts {
    /// Interrupts where it is time.
    fn act(&mut self, stage: &Stage, state: &mut State, now: Timestamp) {
        self.turns.retain(|turn| {
            let is_due = state.times[*turn].is_some_and(|(begin, _)| begin <= now);
            if is_due {
                state.note_interrupt(&stage.script, now);
                interrupt(stage);
            }
            !is_due
        });
    }

    /// When it is time again, as far as that is known.
    fn next(&self, state: &State, now: Timestamp) -> Option<Timestamp> {
        next(&self.turns, state, now)
    }
}

/// The first of these turns after `now`.
fn next(turns: &[usize], state: &State, now: Timestamp) -> Option<Timestamp> {
    let begins = turns.iter().filter_map(|turn| state.times[*turn].map(|(begin, _)| begin));
    begins.filter(|begin| *begin > now).min()
}

fn interrupt(stage: &Stage) {
    // It is there as soon as the graph has started.
    InterruptHandle::interrupt(stage.interrupt.wait());
}

/// Sends the packets of turns.
pub(crate) struct Sender {
    pub(crate) stage: Arc<Stage>,
    pub(crate) packets: Vec<Sent>,
    pub(crate) interrupts: Interrupts,
}

/// A packet that a turn sends.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) turn: usize,
    /// The output of the source.
    pub(crate) port: PortId,
    pub(crate) payload: &'static Sendable,
    pub(crate) fields: Vec<(String, String)>,
    /// Whether it leaves by the output that interrupts.
    pub(crate) interrupts: bool,
}

impl DynNode for Sender {
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let (stage, now) = (self.stage.clone(), cx.now());
        let mut state = stage.advance(now);
        if state.over.is_some() {
            cx.end();
            return Ok(());
        }
        self.interrupts.act(&stage, &mut state, now);
        let begun = |times: &[Option<(Timestamp, Timestamp)>], turn: usize| {
            times[turn].is_some_and(|(begin, _)| begin <= now)
        };
        let (due, later): (Vec<_>, Vec<_>) =
            self.packets.drain(..).partition(|sent| begun(&state.times, sent.turn));
        self.packets = later;
        for sent in due {
            let made = (sent.payload.make)(&Fields(&sent.fields), now);
            let packet =
                made.map_err(|reason| NodeError::InvalidInput { port: "packets".into(), reason })?;
            cx.send_packet(sent.port, packet);
            if sent.interrupts {
                state.note_interrupt(&stage.script, now);
                interrupt(&stage);
            }
        }
        let turns: Vec<_> = self.packets.iter().map(|sent| sent.turn).collect();
        let due = [next(&turns, &state, now), self.interrupts.next(&state, now)];
        let tick = stage.block_after(now);
        cx.resume_at(due.into_iter().flatten().min().map_or(tick, |due| due.min(tick)));
        Ok(())
    }

    fn finish(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }
}

/// The contract of a source that sends `T` by the output [`PACKETS`]; a [`Sender`] runs in its place.
pub(crate) fn sender<T: Payload>() -> NodeDef {
    let ports = [Port::output::<T>("packets")];
    let spec = NodeSpec {
        summary: "Sends packets of a scenario".into(),
        ..NodeSpec::new("scenario", &ports)
    };
    NodeDef::from_fn(spec, |cx| {
        let reason = "the sender of a scenario runs only within it".to_owned();
        Err(NodeError::Device { name: cx.name.clone(), reason })
    })
}

/// The output of [`sender`].
pub(crate) const PACKETS: PortId = PortId::at(0);
