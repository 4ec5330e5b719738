//! Feature vectors of a signal, such as log-mel energies.

use std::time::Duration;

use afferent_core::{ForeignBytes, ScalarType, Tensor};

use crate::{
    Cdr, CdrMessage, Wire, WireMessage,
    wire::{Matrix, WireDuration, from_duration, to_duration},
};
use afferent_graph::{Field, Payload, RecordCodec, WireCodec};

/// Consecutive feature rows: a tensor `[rows, bins]` of `f32`.
///
/// The timestamp of the packet is that of the first sample in the window of the first row.
#[derive(Debug, Clone)]
pub struct Features {
    /// The feature rows.
    pub values: Tensor,
    /// Time from one row to the next.
    pub hop: Duration,
    /// Duration of signal that one row covers.
    pub window: Duration,
}

impl Default for Features {
    fn default() -> Self {
        let values = Tensor::zeros(ScalarType::Float, &[0, 0]);
        Self { values, hop: Duration::ZERO, window: Duration::ZERO }
    }
}

impl Payload for Features {
    const TYPE: &'static str = "signal/Features";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Wire::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let size = |dim| self.values.sizes().get(dim).copied().unwrap_or(0);
        let int = |n: usize| Field::Int(i64::try_from(n).unwrap_or(i64::MAX));
        vec![("rows", int(size(0))), ("bins", int(size(1)))]
    }

    fn bulk_bytes(&self) -> usize {
        self.values.byte_len()
    }

    fn release_foreign(&mut self) {
        self.values.release_foreign();
    }
}

impl CdrMessage for Features {
    const MESSAGE: &'static str = "afferent_msgs/msg/Features";
    const SCHEMA: &'static str = "# Consecutive rows of features, row after row.
uint64 hop_ns
uint64 window_ns
uint32 rows
uint32 bins
float32[] values
";
    type Wire = (u64, u64, u32, u32, Vec<f32>);

    fn to_wire(&self) -> Self::Wire {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let size = |dim| self.values.sizes().get(dim).copied().unwrap_or(0);
        let [rows, bins] = [0, 1].map(|dim| u32::try_from(size(dim)).unwrap_or(u32::MAX));
        let values = self.values.data().map(<[f32]>::to_vec).unwrap_or_default();
        (nanos(self.hop), nanos(self.window), rows, bins, values)
    }

    fn from_wire((hop, window, rows, bins, values): Self::Wire) -> Result<Self, String> {
        let sizes = [rows as usize, bins as usize];
        let values = Tensor::new(&sizes, &values)
            .map_err(|_| format!("{} values are not {rows} rows of {bins}", values.len()))?;
        let (hop, window) = (Duration::from_nanos(hop), Duration::from_nanos(window));
        Ok(Self { values, hop, window })
    }
}

impl WireMessage for Features {
    const LAYOUT: &'static str = "uint64 hop_s
uint32 hop_ns
uint64 window_s
uint32 window_ns
uint64[2] sizes # rows, bins
uint8[2] dim_order
bulk float32[] values
";
    type Meta = (WireDuration, WireDuration, Matrix);

    fn to_parts(&self) -> Result<(Self::Meta, &[u8]), String> {
        let (matrix, bulk) = Matrix::of(&self.values)?;
        Ok(((from_duration(self.hop), from_duration(self.window), matrix), bulk))
    }

    fn from_parts((hop, window, matrix): Self::Meta, bulk: ForeignBytes) -> Result<Self, String> {
        Ok(Self {
            hop: to_duration("hop", hop)?,
            window: to_duration("window", window)?,
            values: matrix.into_tensor(bulk)?,
        })
    }
}
