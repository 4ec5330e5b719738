//! Stands for sound devices in a build without them: all that can be had is an error.

use afferent_graph::NodeError;

use crate::{Direction, Request};

/// A source of sound; there is none.
pub(crate) enum Capture {}

/// A sink of sound; there is none.
pub(crate) enum Playback {}

pub(crate) fn check(device: &str, _: Direction) -> Result<(), NodeError> {
    let reason = "this build has no sound devices; build with --features audio-device".to_owned();
    Err(NodeError::Device { name: device.to_owned(), reason })
}

impl Capture {
    pub(crate) fn open(request: &Request<'_>) -> Result<Self, NodeError> {
        check(request.device, request.direction)?;
        unreachable!("the check fails")
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
    pub(crate) fn open(request: &Request<'_>) -> Result<Self, NodeError> {
        check(request.device, request.direction)?;
        unreachable!("the check fails")
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
