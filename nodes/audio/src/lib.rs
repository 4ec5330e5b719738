//! Audio signal processing nodes.
//!
//! | node | purpose |
//! |---|---|
//! | [`Resample`] | changes the sample rate |
//! | [`Aec`] | removes the echo of the loudspeaker from the microphone |
//! | [`Denoise`] | suppresses stationary noise |
//! | [`Agc`] | brings speech to a target level |
//! | [`AudioMixer`] | sums several streams by their timestamps |
//! | [`LogMel`] | computes log-mel features with a model package |
//!
//! Begin with `agc.rs`, the simplest node, then `resample.rs`. `timeline.rs` maps timestamps to
//! sample indices; `polyphase.rs` is the resampling filter of `resample` and of the echo reference.
//!
//! To add a node, write `src/<node>.rs` and add its lines below.

mod aec;
mod agc;
mod audio_mixer;
mod denoise;
mod log_mel;
mod polyphase;
mod resample;
#[cfg(test)]
mod testing;
mod timeline;

use afferent_graph::{NodeDef, NodeEntry};

pub use aec::{Aec, AecParams};
pub use agc::{Agc, AgcParams};
pub use audio_mixer::{AudioMixer, AudioMixerParams};
pub use denoise::{Denoise, DenoiseParams, NoiseLevel};
pub use log_mel::{LogMel, LogMelParams};
pub use resample::{Quality, Resample, ResampleParams};

/// All nodes of this crate, in alphabetical order.
pub const NODES: &[NodeEntry] = &[
    NodeDef::of::<Aec>,
    NodeDef::of::<Agc>,
    NodeDef::of::<AudioMixer>,
    NodeDef::of::<Denoise>,
    NodeDef::of::<LogMel>,
    NodeDef::of::<Resample>,
];
