//! Sound: one node per file.
//!
//! To add one: write `src/<node>.rs` and add its lines below.

mod aec;
mod agc;
mod audio_mixer;
mod denoise;
mod log_mel;
mod polyphase;
mod resample;
#[cfg(test)]
mod sample;
mod timeline;

use afferent_graph::{NodeDef, NodeEntry};

pub use aec::{Aec, AecParams};
pub use agc::{Agc, AgcParams};
pub use audio_mixer::{AudioMixer, AudioMixerParams};
pub use denoise::{Denoise, DenoiseParams, NoiseLevel};
pub use log_mel::{LogMel, LogMelParams};
pub use resample::{Quality, Resample, ResampleParams};

/// Every node of this crate, alphabetical.
pub const NODES: &[NodeEntry] = &[
    NodeDef::of::<Aec>,
    NodeDef::of::<Agc>,
    NodeDef::of::<AudioMixer>,
    NodeDef::of::<Denoise>,
    NodeDef::of::<LogMel>,
    NodeDef::of::<Resample>,
];
