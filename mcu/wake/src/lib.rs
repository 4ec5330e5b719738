//! Parts of a listening device that firmware and nodes share: features, network, decisions.
//!
//! | module | holds |
//! |---|---|
//! | `log_mel` | log-mel features in fixed-point arithmetic: `i16` samples to `i8` rows |
//! | `detector` | detection of phrases from scores: smoothing, thresholds, refractory time |
//! | `speech_gate` | starts and ends of speech from probabilities |
//! | `listener` | all of them around a network: samples to detected phrases |
//! | `host_network` | the network on a host (feature `std`) |
//! | `numbers` | functions of numbers at compile time, for tables |
//!
//! Begin with `listener`. The code does no input or output, allocates nothing (without `std`), and
//! gives the same bits on every processor.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

mod detector;
#[cfg(feature = "std")]
mod host_network;
mod listener;
mod log_mel;
mod numbers;
mod speech_gate;

pub use detector::{Detected, Detector, Label, ScoreCountError};
#[cfg(feature = "std")]
pub use host_network::HostNetwork;
pub use listener::{Listener, Network, Step};
pub use log_mel::{LogMel, Row};
pub use speech_gate::{SpeechChange, SpeechGate, Thresholds};
