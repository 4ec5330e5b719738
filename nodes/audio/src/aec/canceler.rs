//! The echo canceller of WebRTC, by blocks of 4 ms.

use sonora_aec3::{
    block::Block, block_processor::BlockProcessor, common::BLOCK_SIZE, config::EchoCanceller3Config,
};

use super::RATE;

/// Samples of a block; also how much later a sample comes out than it went in.
pub(super) const BLOCK: usize = BLOCK_SIZE;

/// Blocks of a silent reference behind which no echo is left: half a minute, so that the noise of
/// the room is known from then when the loudspeaker sounds again.
const IDLE: usize = 30 * RATE.0 as usize / BLOCK;

/// Blocks of noise that it hears before the first sound, and their least and greatest level: -66 and
/// -36 dBFS.
const PRIMING: usize = 250;
const PRIMED: (f32, f32) = (5e-4, 1.6e-2);

/// Full scale of the canceller.
const FULL_SCALE: f32 = 32_768.0;

/// From here on a sample of the microphone may be clipped.
const CLIPPED: f32 = 0.998;

/// Removes from the sound of a microphone what a loudspeaker plays.
pub(super) struct Canceller {
    processor: BlockProcessor,
    render: Block,
    capture: Block,
    /// Blocks since the reference last sounded.
    silent: usize,
    /// The block before, as it came in.
    last: [f32; BLOCK],
}

impl Canceller {
    pub(super) fn new() -> Self {
        let config = EchoCanceller3Config::default();
        Self {
            processor: BlockProcessor::new(&config, RATE.0 as usize, 1, 1),
            render: Block::new(1, 1),
            capture: Block::new(1, 1),
            silent: 0,
            last: [0.0; BLOCK],
        }
    }

    /// Lets it hear noise of the level of `sound`, the first that there is, so that what it puts in
    /// the place of an echo is not much louder or softer than the room.
    pub(super) fn prime(&mut self, sound: &[f32]) {
        let power = |block: &[f32; BLOCK]| block.iter().map(|x| x * x).sum::<f32>() / BLOCK as f32;
        let quietest = sound.as_chunks().0.iter().map(power).fold(f32::INFINITY, f32::min);
        let level = quietest.sqrt().clamp(PRIMED.0, PRIMED.1) * 3.0_f32.sqrt();
        let mut seed = 1_u32;
        for _ in 0..PRIMING {
            let noise = &mut [0.0; BLOCK];
            for sample in noise.iter_mut() {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *sample = level * (seed as f32 / 2_147_483_648.0 - 1.0);
            }
            self.run(noise, &[0.0; BLOCK]);
        }
    }

    /// Replaces `sound` by the block before it without its echo. `reference` is what the
    /// loudspeaker played meanwhile; `None` for silence.
    ///
    /// While the loudspeaker has been silent for a while, blocks pass as they are, at no cost.
    pub(super) fn process(&mut self, sound: &mut [f32; BLOCK], reference: Option<&[f32; BLOCK]>) {
        let before = std::mem::replace(&mut self.last, *sound);
        let was_idle = self.silent >= IDLE;
        self.silent = if reference.is_some() { 0 } else { self.silent.saturating_add(1) };
        if self.silent >= IDLE {
            *sound = before;
            return;
        }
        if was_idle {
            // The first block that comes out overlaps with the one before.
            self.run(&mut before.clone(), &[0.0; BLOCK]);
        }
        self.run(sound, reference.unwrap_or(&[0.0; BLOCK]));
    }

    fn run(&mut self, sound: &mut [f32; BLOCK], reference: &[f32; BLOCK]) {
        let scaled = |to: &mut [f32], from: &[f32; BLOCK]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = from * FULL_SCALE);
        };
        scaled(self.render.view_mut(0, 0), reference);
        scaled(self.capture.view_mut(0, 0), sound);
        let is_clipped = sound.iter().any(|sample| sample.abs() >= CLIPPED);
        self.processor.buffer_render(&self.render);
        self.processor.process_capture(false, is_clipped, None, &mut self.capture);
        let samples = sound.iter_mut().zip(self.capture.view(0, 0));
        samples.for_each(|(to, from)| *to = from / FULL_SCALE);
    }
}
