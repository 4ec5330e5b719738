//! Feature vectors of a signal, such as log-mel energies.

use std::time::Duration;

use afferent_core::{ScalarType, Tensor};

use crate::{Cdr, CdrMessage};
use afferent_graph::{Field, Payload, RecordCodec};

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

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let size = |dim| self.values.sizes().get(dim).copied().unwrap_or(0);
        let int = |n: usize| Field::Int(i64::try_from(n).unwrap_or(i64::MAX));
        vec![("rows", int(size(0))), ("bins", int(size(1)))]
    }

    fn bulk_bytes(&self) -> usize {
        self.values.view().bytes().len()
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
