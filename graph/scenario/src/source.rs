//! Replacement sources: the sound of the simulated user, and packets of the scenario.

use std::{collections::VecDeque, sync::Arc};

use afferent_engine::InterruptHandle;
use afferent_graph::{Cx, DynBench, DynNode, Header, NodeError, Out, Packet, PortId, Timestamp};
use afferent_messages::AudioBlock;

use crate::{
    payload::{Fields, Sendable},
    sound::{Noise, SoundNodes, amplitude},
    spec::Echo,
    stage::Stage,
    state::{Action, State},
};

/// Audio source of the simulated user. Sends speech, with silence or noise in between, as each
/// block becomes complete.
pub(crate) struct UserSource {
    stage: Arc<Stage>,
    out: Out<AudioBlock>,
    noise: Noise,
    /// Number of samples sent.
    sent: usize,
    echo: Option<EchoPath>,
    interrupts: Interrupts,
}

/// Echo of the graph's own audio in the microphone.
struct EchoPath {
    resample: DynBench,
    gain: f32,
    /// Delay of the echo.
    delay: std::time::Duration,
    /// Audio at the rate of the source, with the timestamp of its first sample.
    waiting: VecDeque<(Timestamp, Vec<f32>)>,
}

impl UserSource {
    /// Creates the source, which sends on output `port`.
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
            Ok::<_, NodeError>(EchoPath {
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

    /// Timestamp of the sample `samples` after the next one.
    fn time_after(&self, samples: usize) -> Timestamp {
        Timestamp::ZERO + self.stage.script.rate.duration(self.sent + samples)
    }
}

/// Adds `sound`, which starts at `begin`, to `block`, which starts at `from`.
fn mix(block: &mut [f32], from: Timestamp, rate: u32, sound: &[f32], begin: Timestamp, gain: f32) {
    let apart = (begin.0 - from.0) as f64 * f64::from(rate) / 1e9;
    // Offset of the sound in the block; negative if the sound starts earlier.
    let apart = apart.round() as i64;
    let skip = |apart: i64| usize::try_from(apart).unwrap_or(0);
    let block = block.iter_mut().skip(skip(apart));
    let sound = sound.iter().skip(skip(-apart));
    block.zip(sound).for_each(|(to, from)| *to += from * gain);
}

impl EchoPath {
    /// Accepts audio that the graph sent.
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

impl DynNode for UserSource {
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
}

/// Turns that interrupt the graph. One source triggers them.
#[derive(Clone, Default)]
pub(crate) struct Interrupts {
    /// Turns that have not interrupted yet.
    pub(crate) turns: Vec<usize>,
}

impl Interrupts {
    /// Triggers the interrupts that are due.
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

    /// Time of the next interrupt, if known.
    fn next(&self, state: &State, now: Timestamp) -> Option<Timestamp> {
        next(&self.turns, state, now)
    }
}

/// Earliest start of these turns after `now`.
fn next(turns: &[usize], state: &State, now: Timestamp) -> Option<Timestamp> {
    let begins = turns.iter().filter_map(|turn| state.times[*turn].map(|(begin, _)| begin));
    begins.filter(|begin| *begin > now).min()
}

fn interrupt(stage: &Stage) {
    // The handle is set as soon as the graph has started.
    InterruptHandle::interrupt(stage.interrupt.wait());
}

/// Source that sends the packets of turns.
pub(crate) struct Sender {
    pub(crate) stage: Arc<Stage>,
    pub(crate) packets: Vec<Sent>,
    pub(crate) interrupts: Interrupts,
}

/// A packet that a turn sends.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) turn: usize,
    /// Output of the source.
    pub(crate) port: PortId,
    pub(crate) payload: &'static Sendable,
    pub(crate) fields: Vec<(String, String)>,
    /// True if it is sent on the output that interrupts the graph.
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
}
