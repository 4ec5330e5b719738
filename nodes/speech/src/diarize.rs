//! Speaker diarization: turns of the speakers in audio.

mod context;
pub(crate) mod sortformer;
mod turns;

use std::{path::PathBuf, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{AudioBlock, SpeakerTurns};

use self::{sortformer::Sortformer, turns::TurnTracker};
use crate::{programs::Programs, vad::expect_format};

params! {
    /// Settings of [`Diarize`].
    pub struct DiarizeParams {
        /// Path of the model package or program.
        pub model: PathBuf;
        /// Probability of a speaker above which it talks.
        pub threshold: f32 = "0.5", range 0.0..=1.0;
        /// Audio of a run of the model. Shorter chunks have less latency and more runs.
        pub chunk: Duration = "9.92s", range 0.01..=60.0;
        /// Audio before the chunk that a run reads again. From older audio, the model gets the rows of the
        /// speaker cache.
        pub queue: Duration = "9.92s", range 0.0..=60.0;
    }
}

/// Finds the turns of speakers with a model such as Sortformer. Speakers are numbered; several may talk at once.
///
/// Contract of the model, that of ExecuTorch's export of Sortformer: `preprocessor(sound f32[n], i64[1]) ->
/// (features f32[1, bands, columns], i64[1])`, `pre_encode(f32[1, columns, bands], i64[1]) -> (rows f32[1,
/// rows, width], i64[1])`, `encode(f32[1, rows, width], i64[1]) -> f32[1, rows, speakers]`; constants
/// `sample_rate`, `window_stride`, `subsampling_factor` and `spkcache_len`. Without `preprocessor`, the
/// features are computed here. A row is 80 ms.
///
/// Each run reads the speaker cache, the queue and the chunk. A row that leaves the queue enters the cache,
/// which keeps the rows with the highest probability of a speaker, so that numbers last. The cache stays after
/// gaps in the audio.
///
/// Latency: `chunk`, and 20 ms.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{AudioBlock, SampleRate, SpeakerTurns};
/// use afferent_nodes_speech::{Diarize, DiarizeParams};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/sortformer/sortformer.pte");
/// let values = [("model".to_owned(), ParamValue::Path(model.into()))].into();
/// let params = DiarizeParams::from_values(&values).unwrap();
/// let models = afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS);
/// let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
/// let mut diarize = NodeBench::new(Diarize::open(params, &cx)?);
///
/// let mut silence = AudioBlock::default();
/// silence.reshape(SampleRate(16_000), 1, 160_000)?.fill(0.0);
/// let sent = diarize.call(Diarize::AUDIO, Timestamp(0), silence)?;
/// assert!(sent[0].1.get::<SpeakerTurns>().unwrap().turns.is_empty());
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Diarize {
    model: Sortformer,
    turns: TurnTracker,
    /// Audio from the lead of the next chunk on.
    pending: Vec<f32>,
    /// Samples of `pending` before the next chunk.
    lead: usize,
    /// Start of the next chunk.
    chunk_at: Timestamp,
    /// Expected timestamp of the next sample; `None` before the first block.
    next_at: Option<Timestamp>,
}

ports! {
    impl Diarize {
        /// Audio, one channel, at the sample rate of the model, full scale ±1, blocks of any length.
        in AUDIO: AudioBlock;
        /// Turns of each chunk, timestamped with its end; also without any turn.
        out TURNS: SpeakerTurns;
    }
}

impl Diarize {
    /// Runs the model on the whole chunks of `pending`.
    fn run_chunks(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let chunk = self.model.chunk() * self.model.sizes.row();
        let lookahead = self.model.sizes.lookahead();
        loop {
            let needed = self.lead + chunk + lookahead;
            if self.pending.len() < needed {
                return Ok(());
            }
            self.run_chunk(cx, needed, chunk, false, Timestamp(i64::MAX))?;
        }
    }

    /// Runs the model on the first `len` samples of `pending`, whose chunk has `chunk` samples, and sends its
    /// turns, not after `limit`.
    fn run_chunk(
        &mut self,
        cx: &mut Cx<'_>,
        len: usize,
        chunk: usize,
        is_last: bool,
        limit: Timestamp,
    ) -> Result<(), NodeError> {
        let (model, pending, lead) = (&mut self.model, &self.pending, self.lead);
        let (row, most_lead) = (model.sizes.row_time(), model.sizes.lead());
        let (at, end) = (self.chunk_at, self.chunk_at + model.sizes.rate.duration(chunk));
        let probabilities = cx.time_model(|| model.run(&pending[..len], lead))?;
        let mut sent = cx.loan(Self::TURNS);
        self.turns.update(probabilities, at, row, end, is_last, &mut sent.turns);
        cx.send_at(Self::TURNS, end.min(limit), sent);
        self.lead = (lead + chunk).min(most_lead);
        self.pending.drain(..lead + chunk - self.lead);
        self.chunk_at = end;
        Ok(())
    }

    /// Runs the model on the rest of the audio, and ends all turns. If the next audio begins earlier, at `next`,
    /// time has restarted; the turns then have the timestamp `next`, since timestamps must not decrease.
    fn end_stream(&mut self, cx: &mut Cx<'_>, next: Timestamp) -> Result<(), NodeError> {
        let whole = self.model.chunk() * self.model.sizes.row();
        loop {
            let rest = self.pending.len().saturating_sub(self.lead);
            if rest == 0 {
                break;
            }
            self.run_chunk(cx, self.pending.len(), rest.min(whole), rest <= whole, next)?;
        }
        self.pending.clear();
        self.lead = 0;
        Ok(())
    }
}

impl Node for Diarize {
    type Params = DiarizeParams;

    const NAME: &'static str = "diarize";
    const SUMMARY: &'static str = "Finds the turns of speakers with a model.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "chunk, and 20 ms";

    fn check(params: &DiarizeParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(|_| ())
    }

    fn open(params: DiarizeParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let programs = Programs::open(&params.model, "speaker_diarization", cx)?;
        let model = Sortformer::open(programs, params.chunk, params.queue)?;
        Ok(Self {
            turns: TurnTracker::new(params.threshold, model.sizes.speakers),
            model,
            pending: Vec::new(),
            lead: 0,
            chunk_at: Timestamp::ZERO,
            next_at: None,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // Cloning the packet allows sending while the block is borrowed.
        let Some(packet) = cx.packet().cloned() else { return Ok(()) };
        let Some(block) = packet.get::<AudioBlock>() else { return Ok(()) };
        expect_format(Self::AUDIO, block, self.model.sizes.rate)?;
        let at = cx.at();
        // Jitter up to half a row is ignored: time is counted in samples.
        let tolerance = self.model.sizes.row_time() / 2;
        let is_gap = |next: Timestamp| at.since(next) > tolerance || next.since(at) > tolerance;
        if self.next_at.is_none_or(is_gap) {
            self.end_stream(cx, at)?;
            self.chunk_at = at;
        }
        self.next_at = Some(at + block.duration());
        self.pending.extend(block.channel(0)?.iter().map(|sample| AudioBlock::sanitized(*sample)));
        self.run_chunks(cx)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.end_stream(cx, Timestamp(i64::MAX))
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.pending.clear();
        self.turns.restart();
        (self.lead, self.next_at) = (0, None);
        Ok(())
    }
}
