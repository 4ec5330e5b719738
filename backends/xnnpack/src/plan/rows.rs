//! Whether each row of the results comes from the same row of the inputs, so that whoever wants one row
//! need not have the others computed.

use crate::graph::{Graph, Kind, Quant, Role, Value};

/// What is known of the rows of a graph's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Dimensions of everything that is computed.
    rank: usize,
    /// So many of the last dimensions are mixed.
    mixed: usize,
}

impl Rows {
    /// Whether rows along dimension `dim` of results with `rank` dimensions stay apart.
    pub(crate) fn are_apart(self, rank: usize, dim: usize) -> bool {
        rank == self.rank && dim + self.mixed < rank
    }

    /// `None` where rows are mixed, or it is not known whether they are.
    pub(crate) fn of(graph: &Graph<'_>) -> Option<Self> {
        let rank = graph.values[graph.nodes.first()?.output].shape.len();
        let mut mixed = 1;
        for node in &graph.nodes {
            let operands = match node.kind {
                Kind::Unary(_) | Kind::Binary(_) | Kind::Convert | Kind::Softmax => {
                    &node.inputs[..]
                }
                Kind::FullyConnected { .. } => {
                    let (x, constants) = node.inputs.split_first()?;
                    let whole = constants.iter().all(|value| graph.values[*value].data.is_some());
                    (whole && graph.values[*x].shape.len() == rank).then_some(&node.inputs[..1])?
                }
                _ => return None,
            };
            let output = &graph.values[node.output];
            if let Quant::Dynamic { dims } = output.quant {
                mixed = mixed.max(dims);
            }
            let fits = |value: &usize| repeats(&graph.values[*value], rank);
            if output.shape.len() != rank || !operands.iter().all(fits) {
                return None;
            }
        }
        let written = |value: usize| graph.nodes.iter().any(|node| node.output == value);
        let mut values = graph.values.iter().enumerate();
        let passed =
            values.any(|(at, value)| matches!(value.role, Role::Output(_)) && !written(at));
        (!passed).then_some(Self { rank, mixed })
    }
}

/// Whether an operand has its rows, or the same numbers for all of them.
fn repeats(value: &Value<'_>, rank: usize) -> bool {
    let (_, before) = value.shape.split_last().unwrap_or((&1, &[]));
    match value.data {
        Some(_) => value.shape.len() <= rank && before.iter().all(|size| *size == 1),
        None => value.shape.len() <= rank,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        graph::{Binary, Dtype, Node, OPEN, Unary},
        shape::Shape,
    };

    fn value<'a>(sizes: &[usize], role: Role, data: Option<&'a [u8]>) -> Value<'a> {
        let shape = Shape::new(sizes).unwrap();
        Value { dtype: Dtype::F32, shape, data, quant: Quant::None, role, quantised: false }
    }

    fn graph<'a>(kind: Kind, operands: Vec<Value<'a>>, output: Value<'a>) -> Graph<'a> {
        let inputs = (0..operands.len()).collect();
        let mut values = operands;
        values.push(output);
        let (index, output) = (0, values.len() - 1);
        let node =
            Node { index, kind, inputs, output, positions: None, clamp: OPEN, hardswish: false };
        Graph { values, nodes: vec![node], inputs: 1 }
    }

    #[test]
    fn rows_are_apart_but_along_the_last_dimension() {
        let x = || value(&[1, 9, 4], Role::Input(0), None);
        let out = || value(&[1, 9, 4], Role::Output(1), None);
        let constant = |sizes: &[usize]| value(sizes, Role::Inner, Some(&[0; 144]));
        let layer = Kind::FullyConnected { transposed: false };
        let add = Kind::Binary(Binary::Add);
        for (kind, operands, apart) in [
            (Kind::Unary(Unary::Exp), vec![x()], true),
            (Kind::Softmax, vec![x()], true),
            (add.clone(), vec![x(), x()], true),
            (add.clone(), vec![x(), constant(&[4])], true),
            (add.clone(), vec![x(), constant(&[1, 1, 4])], true),
            (add.clone(), vec![x(), constant(&[9, 4])], false),
            (add, vec![x(), constant(&[1, 9, 1])], false),
            (layer.clone(), vec![x(), constant(&[4, 4]), constant(&[4])], true),
            (layer.clone(), vec![x(), value(&[4, 4], Role::Input(2), None)], false),
            (layer, vec![value(&[9, 4], Role::Input(0), None), constant(&[4, 4])], false),
            (Kind::Transpose(vec![0, 2, 1]), vec![x()], false),
            (Kind::MatrixMultiply { transposed: false }, vec![x(), x()], false),
        ] {
            let name = format!("{kind:?}");
            let rows = Rows::of(&graph(kind, operands, out()));
            assert_eq!(rows.is_some_and(|rows| rows.are_apart(3, 1)), apart, "{name}");
            assert!(!rows.is_some_and(|rows| rows.are_apart(3, 2) || rows.are_apart(2, 0)));
        }
    }

    #[test]
    fn scales_of_several_dimensions_mix_them() {
        let x = value(&[3, 9, 4], Role::Input(0), None);
        for (dims, apart) in [(1, [true, true]), (2, [true, false]), (3, [false, false])] {
            let mut scaled = value(&[3, 9, 4], Role::Inner, None);
            (scaled.dtype, scaled.quant) = (Dtype::Dynamic, Quant::Dynamic { dims });
            let x = Value { shape: x.shape, quant: Quant::None, ..x };
            let rows = Rows::of(&graph(Kind::Convert, vec![x], scaled)).unwrap();
            assert_eq!([0, 1].map(|dim| rows.are_apart(3, dim)), apart);
        }
    }
}
