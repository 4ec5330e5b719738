//! Stub of [`audio_device`](crate::audio_device) for builds without the feature: every call fails.

use afferent_graph::NodeError;

use crate::{AudioDevice, Direction, StreamRequest};

/// A capture stream; never constructed.
pub(crate) enum Capture {}

/// A playback stream; never constructed.
pub(crate) enum Playback {}

pub(crate) fn check(device: &str, _: Direction) -> Result<(), NodeError> {
    Err(no_devices(device))
}

pub(crate) fn list() -> Result<Vec<AudioDevice>, String> {
    Err(NO_DEVICES.to_owned())
}

/// Reason of every error.
const NO_DEVICES: &str = "this build has no audio devices; build with --features audio-device";

fn no_devices(device: &str) -> NodeError {
    NodeError::Device { name: device.to_owned(), reason: NO_DEVICES.to_owned() }
}

impl Capture {
    pub(crate) fn open(request: &StreamRequest<'_>) -> Result<Self, NodeError> {
        Err(no_devices(request.device))
    }

    pub(crate) fn start(&mut self) -> Result<(), NodeError> {
        match *self {}
    }

    pub(crate) fn health(&self) -> Result<(), NodeError> {
        match *self {}
    }

    pub(crate) fn available(&self) -> usize {
        match *self {}
    }

    pub(crate) fn lost(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn read(&mut self, _: &mut [f32]) {
        match *self {}
    }
}

impl Playback {
    pub(crate) fn open(request: &StreamRequest<'_>) -> Result<Self, NodeError> {
        Err(no_devices(request.device))
    }

    pub(crate) fn start(&mut self) -> Result<(), NodeError> {
        match *self {}
    }

    pub(crate) fn health(&self) -> Result<(), NodeError> {
        match *self {}
    }

    pub(crate) fn queued(&self) -> usize {
        match *self {}
    }

    pub(crate) fn write(&mut self, _: &[f32]) -> usize {
        match *self {}
    }
}
