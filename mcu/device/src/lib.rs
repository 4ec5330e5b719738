//! A microcontroller that listens for a wake word, without its hardware.
//!
//! | module | holds |
//! |---|---|
//! | `device` | [`Device`]: samples in, messages out |
//! | `flash_network` | the network, run from flash in fixed memory |
//! | `movement` | small kernels of two operators |
//! | `recent` | the last samples, for the sound before a detection |
//!
//! A board brings a [`Microphone`] and a [`Line`], and calls [`Device::run`], or [`Device::hear`]
//! for each block of its own driver. `mcu/firmware` has boards. Nothing is allocated, and no sound
//! makes the code panic.

#![cfg_attr(not(test), no_std)]

mod device;
mod flash_network;
mod movement;
mod recent;

pub use device::{BLOCK, Battery, Block, Device, Line, Microphone};
pub use flash_network::{FlashNetwork, Memory};
