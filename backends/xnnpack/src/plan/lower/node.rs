//! The node that is lowered, with its values.

use std::{borrow::Cow, cell::RefCell};

use afferent_core::{BlobEntry, Error, WeightCache};

use crate::{
    conv2d_params::Conv2dParams,
    memory::MemoryBudget,
    pack::{constant::dequantize, weight_cache::WeightPacker},
    plan::value::{ComputeType, is_same_encoding},
    quantization::QuantizationParams,
    subgraph::{Node, NodeKind, Quantization, Subgraph, Value},
};

pub(super) struct NodeContext<'g, 'a> {
    pub(super) subgraph: &'g Subgraph<'a>,
    pub(super) node: &'g Node,
    pub(super) weight_cache: Option<&'g dyn WeightCache>,
    pub(super) budget: &'g RefCell<MemoryBudget>,
}

impl<'a> NodeContext<'_, 'a> {
    /// Packer of the filter, which is the second input.
    pub(super) fn packer(&self) -> WeightPacker<'_> {
        WeightPacker::new(self.weight_cache, self.input(1), self.budget)
    }

    /// Error for a feature of the node: "`XNNConv2d` `what`".
    pub(super) fn unsupported(&self, what: &'static str) -> Error {
        let (entry, field) = (BlobEntry::Node, self.node.type_name);
        Error::UnsupportedBlob { entry, index: self.node.index, field, what }
    }

    /// Error for an invalid node: "`XNNConv2d` `reason`".
    pub(super) fn invalid(&self, reason: &'static str) -> Error {
        let (entry, field) = (BlobEntry::Node, self.node.type_name);
        Error::InvalidBlob { entry, index: self.node.index, field, reason }
    }

    pub(super) fn input(&self, at: usize) -> &Value<'a> {
        &self.subgraph.values[self.node.inputs[at]]
    }

    pub(super) fn inputs(&self) -> impl Iterator<Item = &Value<'a>> {
        self.node.inputs.iter().map(|input| &self.subgraph.values[*input])
    }

    pub(super) fn output(&self) -> &Value<'a> {
        &self.subgraph.values[self.node.output]
    }

    pub(super) fn input_type(&self, at: usize) -> ComputeType {
        ComputeType::of(self.input(at))
    }

    pub(super) fn output_type(&self) -> ComputeType {
        ComputeType::of(self.output())
    }

    /// Parameters of a convolution. The filter has their shape.
    pub(super) fn conv2d_params(&self) -> Result<Conv2dParams, Error> {
        let NodeKind::Conv2d(params) = self.node.kind else {
            return Err(Error::Internal { reason: "the node is not a convolution" });
        };
        if params.filter_shape() != Some(self.input(1).shape) {
            let reason = "has a filter whose shape does not match its kernel, groups and channels";
            return Err(self.invalid(reason));
        }
        Ok(params)
    }

    /// True if the elements of all inputs are encoded like those of the output.
    pub(super) fn is_same_encoding(&self) -> bool {
        self.inputs().all(|input| is_same_encoding(input, self.output()))
    }

    /// Per-tensor quantization of a value.
    pub(super) fn quantization_params(
        &self,
        value: &Value<'_>,
    ) -> Result<QuantizationParams, Error> {
        let what = match value.quantization {
            Quantization::PerChannel { .. } => {
                "with per-channel quantization of an activation; quantize it per tensor"
            }
            _ => "with this combination of datatypes",
        };
        QuantizationParams::of(value).ok_or(self.unsupported(what))
    }

    pub(super) fn expect_f32(&self) -> Result<(), Error> {
        if self.input_type(0) != ComputeType::F32 || self.output_type() != ComputeType::F32 {
            return Err(self.unsupported("with this combination of datatypes"));
        }
        Ok(())
    }

    /// Bias as f32; `None` if the node has none.
    pub(super) fn bias(&self, output_channels: usize) -> Result<Option<Cow<'a, [f32]>>, Error> {
        let Some(bias) = self.node.inputs.get(2) else { return Ok(None) };
        let bias = &self.subgraph.values[*bias];
        if bias.data.is_none() {
            return Err(self.unsupported("with a bias that is not a constant"));
        }
        let bias = dequantize(bias)?;
        if bias.len() != output_channels {
            return Err(self.invalid("needs a bias with one element per output channel"));
        }
        Ok(Some(bias))
    }
}
