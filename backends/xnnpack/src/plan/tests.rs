//! Plans of small graphs.

use afferent_core::{Arg, Argument, Call, Delegate, Kernel, ScalarType, Tensor};

use super::*;
use crate::{
    delegate::Runner,
    graph::{Binary, ConvKind, Node, OPEN, Quant},
    shape::{NO_ROOM, TOO_LARGE, Window},
};

fn value(dtype: Dtype, sizes: &[usize], role: Role) -> Value<'static> {
    let quant = match dtype {
        Dtype::I8 => Quant::Tensor { scale: 1.0, zero_point: 0 },
        Dtype::Dynamic => Quant::Dynamic { dims: 1 },
        _ => Quant::None,
    };
    let shape = Shape::new(sizes).unwrap();
    Value { dtype, shape, data: None, quant, role, quantised: false }
}

fn inner(dtype: Dtype, sizes: &[usize]) -> Value<'static> {
    value(dtype, sizes, Role::Inner)
}

fn constant<'a>(dtype: Dtype, sizes: &[usize], data: &'a [u8]) -> Value<'a> {
    Value { data: Some(data), ..inner(dtype, sizes) }
}

fn input(sizes: &[usize]) -> Value<'static> {
    value(Dtype::F32, sizes, Role::Input(0))
}

fn output(sizes: &[usize]) -> Value<'static> {
    value(Dtype::F32, sizes, Role::Output(1))
}

fn node(index: u32, kind: Kind, inputs: &[usize], output: usize) -> Node {
    let (inputs, clamp) = (inputs.to_vec(), OPEN);
    Node { index, kind, inputs, output, positions: None, clamp, hardswish: false }
}

const CONNECTED: Kind = Kind::FullyConnected { transposed: false };

/// Loads a graph with so many bytes for what is made of constants.
fn load(values: Vec<Value<'_>>, nodes: Vec<Node>, bytes: usize) -> Result<(), Error> {
    let graph = Graph { values, nodes, inputs: 1 };
    let plan = Plan::new(&graph, None, Room::of(bytes))?;
    Runner::new(plan, usize::MAX).map(|_| ())
}

fn invalid(index: u32, field: &'static str, reason: &'static str) -> Result<(), Error> {
    Err(Error::InvalidBlob { entry: BlobEntry::Node, index, field, reason })
}

#[test]
fn empty_filters_are_refused() {
    let x = Value { quantised: true, ..input(&[0, 0]) };
    let filter = constant(Dtype::I8, &[u32::MAX as usize, 0], &[]);
    let values = vec![x, filter, output(&[0, 0])];
    let found = load(values, vec![node(7, CONNECTED, &[0, 1], 2)], 1 << 20);
    assert_eq!(found, invalid(7, "filter_id", "is empty"));
}

#[test]
fn what_many_nodes_make_of_one_constant_is_bounded() {
    const CHANNELS: usize = 256;
    let window =
        Window { kernel: [1; 2], stride: [1; 2], dilation: [1; 2], before: [0; 2], after: [0; 2] };
    let conv = |kind| {
        let (groups, inputs, outputs) = (CHANNELS, 1, 1);
        Kind::Conv { kind, window, groups, inputs, outputs }
    };
    let data = [0; 4 * CHANNELS];
    let picture = [1, 1, 1, CHANNELS];
    for (kind, filter, dtype) in [
        (conv(ConvKind::Depthwise), &picture[..], Dtype::F32),
        (conv(ConvKind::Depthwise), &picture[..], Dtype::I8),
        (conv(ConvKind::Plain), &[CHANNELS, 1, 1, 1][..], Dtype::F32),
        (conv(ConvKind::Plain), &[CHANNELS, 1, 1, 1][..], Dtype::I8),
    ] {
        let graph = |nodes: u32| {
            let of = |sizes: &[usize], role| value(dtype, sizes, role);
            let mut values = vec![of(&picture, Role::Input(0)), constant(dtype, filter, &data)];
            values.extend((1..nodes).map(|_| of(&picture, Role::Inner)));
            values.push(of(&picture, Role::Output(1)));
            let node = |index: u32| node(index, kind.clone(), &[0, 1], index as usize + 2);
            (values, (0..nodes).map(node).collect::<Vec<_>>())
        };
        let load = |nodes| {
            let (values, nodes) = graph(nodes);
            load(values, nodes, 1 << 18)
        };
        assert_eq!(load(1), Ok(()), "{kind:?} {dtype:?}");
        assert_eq!(load(200), Err(NO_ROOM), "{kind:?} {dtype:?}");
    }
}

#[test]
fn only_conversions_of_numbers_quantise_dynamically() {
    let filter = |cols| constant(Dtype::I8, &[4, cols], &[1; 12]);
    let convert = |from: Value<'static>| {
        let values = vec![from, inner(Dtype::Dynamic, &[2, 3]), filter(3), output(&[2, 4])];
        let nodes = vec![node(0, Kind::Convert, &[0], 1), node(1, CONNECTED, &[1, 2], 3)];
        load(values, nodes, 1 << 20)
    };
    let refused = |index| {
        let what = "dynamic quantisation of anything but numbers";
        Err(Error::UnsupportedBlob { entry: BlobEntry::Node, index, what })
    };
    assert_eq!(convert(input(&[2, 3])), Ok(()));
    assert_eq!(convert(value(Dtype::I8, &[2, 3], Role::Input(0))), refused(0));
    let values = vec![input(&[2, 3]), inner(Dtype::Dynamic, &[3, 2]), filter(2), output(&[3, 4])];
    let transpose = node(5, Kind::Transpose(vec![1, 0]), &[0], 1);
    assert_eq!(load(values, vec![transpose, node(6, CONNECTED, &[1, 2], 3)], 1 << 20), refused(5));
    let values = vec![input(&[2, 3]), filter(3), inner(Dtype::Dynamic, &[2, 4]), output(&[2, 4])];
    let nodes = vec![node(8, CONNECTED, &[0, 1], 2), node(9, CONNECTED, &[2, 1], 3)];
    assert_eq!(load(values, nodes, 1 << 20), refused(8));
}

#[test]
fn sizes_that_do_not_fit_name_their_node() {
    let data = [0; 32];
    let values = vec![input(&[2, 3]), constant(Dtype::F32, &[4, 2], &data), output(&[2, 4])];
    let found = load(values, vec![node(3, CONNECTED, &[0, 1], 2)], 1 << 20);
    assert_eq!(found, invalid(3, "its inputs", "have sizes that do not fit each other"));
}

#[test]
fn computed_weights_are_outputs_by_inputs() {
    for (transposed, right) in [(false, [4, 2]), (true, [2, 4])] {
        let right = value(Dtype::F32, &right, Role::Input(1));
        let out = value(Dtype::F32, &[3, 4], Role::Output(2));
        let values = vec![input(&[3, 2]), right, out];
        let connected = node(0, Kind::FullyConnected { transposed }, &[0, 1], 2);
        assert_eq!(load(values, vec![connected], 1 << 20), Ok(()), "{transposed}");
    }
}

#[test]
fn a_number_and_its_sigmoid_are_gates() {
    let of = |role| value(Dtype::F32, &[2, 3], role);
    let (sigmoid, product) = (Kind::Unary(Unary::Sigmoid), Kind::Binary(Binary::Multiply));
    // x · sigmoid(x), whatever comes first, times y.
    for [first, second] in [[[0, 2], [3, 1]], [[2, 0], [1, 3]]] {
        let kinds = |seen: Role| {
            let values = vec![
                of(Role::Input(0)),
                of(Role::Input(1)),
                of(seen),
                of(Role::Inner),
                output(&[2, 3]),
            ];
            let nodes = vec![
                node(0, sigmoid.clone(), &[0], 2),
                node(1, product.clone(), &first, 3),
                node(2, product.clone(), &second, 4),
            ];
            let mut graph = Graph { values, nodes, inputs: 2 };
            fuse::nodes(&mut graph);
            let kinds = graph.nodes.iter().map(|node| (node.kind.clone(), node.inputs.clone()));
            kinds.collect::<Vec<_>>()
        };
        assert_eq!(kinds(Role::Inner), [(Kind::Binary(Binary::Gate), vec![0, 1])]);
        // What others read stays.
        assert_eq!(kinds(Role::Output(2)).len(), 3);
    }
}

/// Loads a graph with two inputs and an output of these sizes, and runs it on inputs of each of
/// `runs`.
fn call(graph: &Graph<'static>, runs: &[[&[usize]; 2]], sizes: &[usize]) -> Vec<Result<(), Error>> {
    thread_local! {
        static RUNNER: RefCell<Option<Runner<'static>>> = const { RefCell::new(None) };
    }
    const KERNEL: Kernel =
        Kernel::new("test::delegate", &[Arg::Tensor, Arg::Tensor, Arg::Out], |cx, args| {
            RUNNER.with_borrow_mut(|runner| runner.as_mut().unwrap().execute(cx, args))
        });
    let plan = Plan::new(graph, None, Room::of(1 << 20)).unwrap();
    RUNNER.set(Some(Runner::new(plan, usize::MAX).unwrap()));
    let mut call = Call::new(&KERNEL);
    let run = |inputs: &[&[usize]; 2]| {
        let [a, b] = inputs.map(|sizes| Tensor::zeros(ScalarType::Float, sizes));
        let mut out = Tensor::zeros(ScalarType::Float, sizes);
        let out = Argument::Out(&mut out);
        call.run(&mut [Argument::Tensor(&a), Argument::Tensor(&b), out])
    };
    runs.iter().map(run).collect()
}

#[test]
fn shapes_are_found_anew_after_some_that_are_refused() {
    let values = vec![
        input(&[4]),
        value(Dtype::F32, &[2, 2, 2], Role::Input(1)),
        value(Dtype::F32, &[4], Role::Output(2)),
    ];
    let nodes = vec![node(0, Kind::Unary(Unary::Clamp), &[0], 2)];
    let graph = Graph { values, nodes, inputs: 2 };
    let runs: [[&[usize]; 2]; 2] = [[&[2], &[0, 1 << 20, 1 << 20]], [&[2], &[2, 2, 2]]];
    assert_eq!(call(&graph, &runs, &[4]), [Err(TOO_LARGE), Ok(())]);
}

#[test]
fn what_is_made_of_constants_is_bounded() {
    let data = [0; 2048];
    let load = |nodes: u32, bytes| {
        let mut values = vec![input(&[1024]), constant(Dtype::F16, &[1024], &data)];
        values.extend((0..nodes).map(|_| inner(Dtype::F32, &[1024])));
        values.push(output(&[1024]));
        let shape = Shape::of([1024]);
        let reshape = |index: u32| node(index, Kind::Reshape(shape), &[1], index as usize + 2);
        let mut all: Vec<Node> = (0..nodes).map(reshape).collect();
        let last = nodes as usize + 1;
        all.push(node(nodes, Kind::Binary(Binary::Add), &[0, last], last + 1));
        load(values, all, bytes)
    };
    // One copy as numbers, whatever reads it.
    assert_eq!(load(1, 4096), Ok(()));
    assert_eq!(load(200, 4096), Ok(()));
    assert_eq!(load(1, 4095), Err(NO_ROOM));
}
