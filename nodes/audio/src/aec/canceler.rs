//! The WebRTC echo canceler, in blocks of 4 ms.

use sonora_aec3::{
    block::Block, block_processor::BlockProcessor, common::BLOCK_SIZE, config::EchoCanceller3Config,
};

use super::RATE;

/// Samples of a block, and also the delay of the output.
pub(super) const BLOCK_SAMPLES: usize = BLOCK_SIZE;

/// Blocks of silent reference after which the canceler is bypassed: half a minute. By then the
/// canceler knows the noise of the room for the next time that the loudspeaker plays.
const IDLE_BLOCKS: usize = 30 * RATE.0 as usize / BLOCK_SAMPLES;

/// Blocks of noise that prime the canceler before the first block.
const PRIMING_BLOCKS: usize = 250;

/// Least and greatest RMS level of that noise: -66 and -36 dBFS.
const PRIMING_LEVELS: (f32, f32) = (5e-4, 1.6e-2);

/// Full scale of the WebRTC canceler.
const FULL_SCALE: f32 = 32_768.0;

/// Amplitude from which on a microphone sample counts as clipped.
const CLIPPING_LEVEL: f32 = 0.998;

/// Echo canceler for one microphone and one loudspeaker channel.
pub(super) struct Canceler {
    processor: BlockProcessor,
    render: Block,
    capture: Block,
    /// Blocks since the reference was last audible.
    silent_blocks: usize,
    /// Input of the previous block.
    previous: [f32; BLOCK_SAMPLES],
}

impl Canceler {
    pub(super) fn new() -> Self {
        let config = EchoCanceller3Config::default();
        Self {
            processor: BlockProcessor::new(&config, RATE.0 as usize, 1, 1),
            render: Block::new(1, 1),
            capture: Block::new(1, 1),
            silent_blocks: 0,
            previous: [0.0; BLOCK_SAMPLES],
        }
    }

    /// Feeds noise at the level of `audio`, the first audio of the microphone, so that the comfort
    /// noise has about the level of the room.
    pub(super) fn prime(&mut self, audio: &[f32]) {
        let power = |block: &[f32; BLOCK_SAMPLES]| {
            block.iter().map(|x| x * x).sum::<f32>() / BLOCK_SAMPLES as f32
        };
        let quietest = audio.as_chunks().0.iter().map(power).fold(f32::INFINITY, f32::min);
        let level = quietest.sqrt().clamp(PRIMING_LEVELS.0, PRIMING_LEVELS.1) * 3.0_f32.sqrt();
        let mut seed = 1_u32;
        for _ in 0..PRIMING_BLOCKS {
            let noise = &mut [0.0; BLOCK_SAMPLES];
            for sample in noise.iter_mut() {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *sample = level * (seed as f32 / 2_147_483_648.0 - 1.0);
            }
            self.run(noise, &[0.0; BLOCK_SAMPLES]);
        }
    }

    /// Replaces `audio` by the previous block without its echo. `reference` is the loudspeaker
    /// audio of the current block; `None` for silence.
    ///
    /// After [`IDLE_BLOCKS`] of silence, blocks pass unchanged, at no cost.
    pub(super) fn process(
        &mut self,
        audio: &mut [f32; BLOCK_SAMPLES],
        reference: Option<&[f32; BLOCK_SAMPLES]>,
    ) {
        let previous = std::mem::replace(&mut self.previous, *audio);
        let was_idle = self.silent_blocks >= IDLE_BLOCKS;
        self.silent_blocks =
            if reference.is_some() { 0 } else { self.silent_blocks.saturating_add(1) };
        if self.silent_blocks >= IDLE_BLOCKS {
            *audio = previous;
            return;
        }
        if was_idle {
            // The first output block overlaps with the block before it.
            self.run(&mut previous.clone(), &[0.0; BLOCK_SAMPLES]);
        }
        self.run(audio, reference.unwrap_or(&[0.0; BLOCK_SAMPLES]));
    }

    fn run(&mut self, audio: &mut [f32; BLOCK_SAMPLES], reference: &[f32; BLOCK_SAMPLES]) {
        let scaled = |to: &mut [f32], from: &[f32; BLOCK_SAMPLES]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = from * FULL_SCALE);
        };
        scaled(self.render.view_mut(0, 0), reference);
        scaled(self.capture.view_mut(0, 0), audio);
        let is_clipped = audio.iter().any(|sample| sample.abs() >= CLIPPING_LEVEL);
        self.processor.buffer_render(&self.render);
        self.processor.process_capture(false, is_clipped, None, &mut self.capture);
        let samples = audio.iter_mut().zip(self.capture.view(0, 0));
        samples.for_each(|(to, from)| *to = from / FULL_SCALE);
    }
}
