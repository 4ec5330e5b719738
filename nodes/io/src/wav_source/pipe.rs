//! Audio from a pipe, read by a thread, since reading waits for the writer.

use std::{
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use afferent_graph::NodeError;
use afferent_messages::SampleRate;

use crate::{
    output::file_error,
    sound_file::{RawFormat, SoundFile},
};

/// Time for which a call waits for the next block.
const WAIT: Duration = Duration::from_millis(20);

/// Blocks that are read ahead; then the writer of the pipe waits.
const MAX_QUEUED_BLOCKS: usize = 8;

/// Blocks of a pipe.
pub(super) struct Pipe {
    blocks: Receiver<Result<PipeBlock, NodeError>>,
    /// Block that was received too early.
    early: Option<PipeBlock>,
    /// Samples per channel that were sent.
    pub(super) position: usize,
}

/// Interleaved samples with their format.
pub(super) struct PipeBlock {
    pub(super) rate: SampleRate,
    pub(super) channels: usize,
    pub(super) samples: Vec<f32>,
}

/// Result of waiting for a block.
pub(super) enum Received {
    Block(PipeBlock),
    /// No block has arrived yet.
    Nothing,
    /// The writer has closed the pipe.
    End,
}

impl Pipe {
    /// Starts the thread that opens and reads `path`. It ends with the pipe, with this value, or
    /// with the process.
    pub(super) fn open(
        path: &Path,
        raw: Option<RawFormat>,
        block: Duration,
    ) -> Result<Self, NodeError> {
        let (sender, blocks) = sync_channel(MAX_QUEUED_BLOCKS);
        let name = path.to_owned();
        let read = move || read(&name, raw, block, &sender);
        let thread = thread::Builder::new().name("wav_source".to_owned()).spawn(read);
        thread.map_err(|error| file_error(path, error))?;
        Ok(Self { blocks, early: None, position: 0 })
    }

    pub(super) fn receive(&mut self) -> Result<Received, NodeError> {
        if let Some(block) = self.early.take() {
            return Ok(Received::Block(block));
        }
        match self.blocks.recv_timeout(WAIT) {
            Ok(block) => block.map(Received::Block),
            Err(RecvTimeoutError::Timeout) => Ok(Received::Nothing),
            Err(RecvTimeoutError::Disconnected) => Ok(Received::End),
        }
    }

    /// Returns a block that was received too early.
    pub(super) fn put_back(&mut self, block: PipeBlock) {
        self.early = Some(block);
    }
}

/// Reads `path` to its end, or until the receiver is dropped.
fn read(
    path: &Path,
    raw: Option<RawFormat>,
    block: Duration,
    sender: &SyncSender<Result<PipeBlock, NodeError>>,
) {
    let mut file = match SoundFile::open(path, raw) {
        Ok(file) => file,
        Err(error) => return drop(sender.send(Err(error))),
    };
    let len = file.rate().samples(block).max(1);
    while file.remaining() > 0 {
        let error = file.read(len).err();
        let (rate, channels, samples) = (file.rate(), file.channels(), file.samples().to_vec());
        let is_received =
            samples.is_empty() || sender.send(Ok(PipeBlock { rate, channels, samples })).is_ok();
        if let Some(error) = error {
            return drop(sender.send(Err(error)));
        }
        if !is_received {
            return;
        }
    }
}
