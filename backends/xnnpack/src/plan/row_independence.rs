//! Row independence: whether each output row depends only on the same input row. The runtime uses
//! it for last-token slicing.

use crate::subgraph::{NodeKind, Quantization, Role, Subgraph, Value};

/// Dimensions along which the rows of all outputs are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowIndependence {
    /// Rank of all computed values.
    rank: usize,
    /// Number of trailing dimensions whose elements depend on each other.
    mixed_dims: usize,
}

impl RowIndependence {
    /// True if outputs of rank `rank` are independent along `dim`.
    pub(crate) fn holds(self, rank: usize, dim: usize) -> bool {
        rank == self.rank && dim + self.mixed_dims < rank
    }

    /// Analyzes a subgraph; `None` if rows depend on each other or the analysis cannot tell.
    pub(crate) fn of(subgraph: &Subgraph<'_>) -> Option<Self> {
        let rank = subgraph.values[subgraph.nodes.first()?.output].shape.len();
        let mut mixed_dims = 1;
        for node in &subgraph.nodes {
            let operands = match node.kind {
                NodeKind::Unary(_)
                | NodeKind::Binary(_)
                | NodeKind::Convert
                | NodeKind::Softmax => &node.inputs[..],
                NodeKind::FullyConnected { .. } => {
                    let (x, weights) = node.inputs.split_first()?;
                    let is_constant = |value: &usize| subgraph.values[*value].data.is_some();
                    let is_row_wise =
                        weights.iter().all(is_constant) && subgraph.values[*x].shape.len() == rank;
                    is_row_wise.then_some(&node.inputs[..1])?
                }
                _ => return None,
            };
            let output = &subgraph.values[node.output];
            if let Quantization::Dynamic { dims } = output.quantization {
                mixed_dims = mixed_dims.max(dims);
            }
            let is_row_wise = |value: &usize| is_row_wise(&subgraph.values[*value], rank);
            if output.shape.len() != rank || !operands.iter().all(is_row_wise) {
                return None;
            }
        }
        let is_written = |value: usize| subgraph.nodes.iter().any(|node| node.output == value);
        let mut values = subgraph.values.iter().enumerate();
        let has_unwritten_output =
            values.any(|(at, value)| matches!(value.role, Role::Output(_)) && !is_written(at));
        (!has_unwritten_output).then_some(Self { rank, mixed_dims })
    }
}

/// True if an operand has its own rows, or is broadcast to all rows.
fn is_row_wise(value: &Value<'_>, rank: usize) -> bool {
    let (_, outer) = value.shape.split_last().unwrap_or((&1, &[]));
    match value.data {
        Some(_) => value.shape.len() <= rank && outer.iter().all(|size| *size == 1),
        None => value.shape.len() <= rank,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        shape::Shape,
        subgraph::{BinaryOperator, Datatype, Node, UNCLAMPED, UnaryOperator},
    };

    fn value<'a>(sizes: &[usize], role: Role, data: Option<&'a [u8]>) -> Value<'a> {
        Value {
            datatype: Datatype::Fp32,
            shape: Shape::new(sizes).unwrap(),
            data,
            quantization: Quantization::None,
            role,
            is_dynamically_quantized: false,
        }
    }

    fn subgraph<'a>(kind: NodeKind, operands: Vec<Value<'a>>, output: Value<'a>) -> Subgraph<'a> {
        let inputs = (0..operands.len()).collect();
        let mut values = operands;
        values.push(output);
        let node = Node {
            index: 0,
            type_name: "XNNTest",
            kind,
            inputs,
            output: values.len() - 1,
            index_output: None,
            clamp: UNCLAMPED,
            hardswish: false,
        };
        Subgraph { values, nodes: vec![node], inputs: 1 }
    }

    #[test]
    fn rows_are_independent_except_along_the_last_dimension() {
        let x = || value(&[1, 9, 4], Role::Input(0), None);
        let out = || value(&[1, 9, 4], Role::Output(1), None);
        let constant = |sizes: &[usize]| value(sizes, Role::Internal, Some(&[0; 144]));
        let layer = NodeKind::FullyConnected { transposed: false };
        let add = NodeKind::Binary(BinaryOperator::Add);
        for (kind, operands, independent) in [
            (NodeKind::Unary(UnaryOperator::Exp), vec![x()], true),
            (NodeKind::Softmax, vec![x()], true),
            (add.clone(), vec![x(), x()], true),
            (add.clone(), vec![x(), constant(&[4])], true),
            (add.clone(), vec![x(), constant(&[1, 1, 4])], true),
            (add.clone(), vec![x(), constant(&[9, 4])], false),
            (add, vec![x(), constant(&[1, 9, 1])], false),
            (layer.clone(), vec![x(), constant(&[4, 4]), constant(&[4])], true),
            (layer.clone(), vec![x(), value(&[4, 4], Role::Input(2), None)], false),
            (layer, vec![value(&[9, 4], Role::Input(0), None), constant(&[4, 4])], false),
            (NodeKind::StaticTranspose(vec![0, 2, 1]), vec![x()], false),
            (NodeKind::BatchMatrixMultiply { transposed: false }, vec![x(), x()], false),
        ] {
            let name = format!("{kind:?}");
            let rows = RowIndependence::of(&subgraph(kind, operands, out()));
            assert_eq!(rows.is_some_and(|rows| rows.holds(3, 1)), independent, "{name}");
            assert!(!rows.is_some_and(|rows| rows.holds(3, 2) || rows.holds(2, 0)));
        }
    }

    #[test]
    fn dynamic_quantization_mixes_its_dimensions() {
        let x = value(&[3, 9, 4], Role::Input(0), None);
        for (dims, independent) in [(1, [true, true]), (2, [true, false]), (3, [false, false])] {
            let mut quantized = value(&[3, 9, 4], Role::Internal, None);
            quantized.datatype = Datatype::Qdint8;
            quantized.quantization = Quantization::Dynamic { dims };
            let x = Value { shape: x.shape, quantization: Quantization::None, ..x };
            let subgraph = subgraph(NodeKind::Convert, vec![x], quantized);
            let rows = RowIndependence::of(&subgraph).unwrap();
            assert_eq!([0, 1].map(|dim| rows.holds(3, dim)), independent);
        }
    }
}
