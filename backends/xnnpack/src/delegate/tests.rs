//! Plans and runs of small subgraphs.

use std::cell::RefCell;

use afferent_core::{Arg, Argument, BlobEntry, Call, Delegate, Error, Kernel, ScalarType, Tensor};

use super::XnnpackDelegate;
use crate::{
    conv2d_params::{Conv2dKind, Conv2dParams},
    error::{MEMORY_LIMIT, TENSOR_TOO_LARGE},
    memory::MemoryBudget,
    plan::{Plan, fusion},
    shape::Shape,
    subgraph::{
        BinaryOperator, Datatype, Node, NodeKind, Quantization, Role, Subgraph, UNCLAMPED,
        UnaryOperator, Value,
    },
    testing::valid_window,
};

const TEST_TYPE: &str = "XNNTest";

fn value(datatype: Datatype, sizes: &[usize], role: Role) -> Value<'static> {
    let quantization = match datatype {
        Datatype::Qint8 => Quantization::PerTensor { scale: 1.0, zero_point: 0 },
        Datatype::Qdint8 => Quantization::Dynamic { dims: 1 },
        _ => Quantization::None,
    };
    let shape = Shape::new(sizes).unwrap();
    let is_dynamically_quantized = false;
    Value { datatype, shape, data: None, quantization, role, is_dynamically_quantized }
}

fn internal(datatype: Datatype, sizes: &[usize]) -> Value<'static> {
    value(datatype, sizes, Role::Internal)
}

fn constant<'a>(datatype: Datatype, sizes: &[usize], data: &'a [u8]) -> Value<'a> {
    Value { data: Some(data), ..internal(datatype, sizes) }
}

fn input(sizes: &[usize]) -> Value<'static> {
    value(Datatype::Fp32, sizes, Role::Input(0))
}

fn output(sizes: &[usize]) -> Value<'static> {
    value(Datatype::Fp32, sizes, Role::Output(1))
}

fn node(index: u32, kind: NodeKind, inputs: &[usize], output: usize) -> Node {
    Node {
        index,
        type_name: TEST_TYPE,
        kind,
        inputs: inputs.to_vec(),
        output,
        index_output: None,
        clamp: UNCLAMPED,
        hardswish: false,
    }
}

const FULLY_CONNECTED: NodeKind = NodeKind::FullyConnected { transposed: false };

/// Loads a subgraph with a limit of `bytes` for packed weights.
fn load(values: Vec<Value<'_>>, nodes: Vec<Node>, bytes: usize) -> Result<(), Error> {
    let subgraph = Subgraph { values, nodes, inputs: 1 };
    let plan = Plan::compile(&subgraph, None, MemoryBudget::new(bytes))?;
    XnnpackDelegate::new(plan, usize::MAX).map(|_| ())
}

fn invalid(index: u32, reason: &'static str) -> Result<(), Error> {
    Err(Error::InvalidBlob { entry: BlobEntry::Node, index, field: TEST_TYPE, reason })
}

#[test]
fn empty_filter_is_rejected() {
    let x = Value { is_dynamically_quantized: true, ..input(&[0, 0]) };
    let filter = constant(Datatype::Qint8, &[u32::MAX as usize, 0], &[]);
    let values = vec![x, filter, output(&[0, 0])];
    let found = load(values, vec![node(7, FULLY_CONNECTED, &[0, 1], 2)], 1 << 20);
    assert_eq!(found, invalid(7, "has an empty filter"));
}

#[test]
fn packed_copies_of_one_constant_are_limited() {
    const CHANNELS: usize = 256;
    let conv = |kind| {
        NodeKind::Conv2d(Conv2dParams {
            kind,
            window: valid_window([1; 2]),
            groups: CHANNELS,
            group_input_channels: 1,
            group_output_channels: 1,
        })
    };
    let data = [0; 4 * CHANNELS];
    let image = [1, 1, 1, CHANNELS];
    for (kind, filter, datatype) in [
        (conv(Conv2dKind::Depthwise), &image[..], Datatype::Fp32),
        (conv(Conv2dKind::Depthwise), &image[..], Datatype::Qint8),
        (conv(Conv2dKind::Standard), &[CHANNELS, 1, 1, 1][..], Datatype::Fp32),
        (conv(Conv2dKind::Standard), &[CHANNELS, 1, 1, 1][..], Datatype::Qint8),
    ] {
        let subgraph = |nodes: u32| {
            let of = |sizes: &[usize], role| value(datatype, sizes, role);
            let mut values = vec![of(&image, Role::Input(0)), constant(datatype, filter, &data)];
            values.extend((1..nodes).map(|_| of(&image, Role::Internal)));
            values.push(of(&image, Role::Output(1)));
            let node = |index: u32| node(index, kind.clone(), &[0, 1], index as usize + 2);
            (values, (0..nodes).map(node).collect::<Vec<_>>())
        };
        let load = |nodes| {
            let (values, nodes) = subgraph(nodes);
            load(values, nodes, 1 << 18)
        };
        assert_eq!(load(1), Ok(()), "{kind:?} {datatype:?}");
        assert_eq!(load(200), Err(MEMORY_LIMIT), "{kind:?} {datatype:?}");
    }
}

#[test]
fn only_a_conversion_of_floats_quantizes_dynamically() {
    let filter = |cols| constant(Datatype::Qint8, &[4, cols], &[1; 12]);
    let convert = |from: Value<'static>| {
        let values = vec![from, internal(Datatype::Qdint8, &[2, 3]), filter(3), output(&[2, 4])];
        let nodes = vec![node(0, NodeKind::Convert, &[0], 1), node(1, FULLY_CONNECTED, &[1, 2], 3)];
        load(values, nodes, 1 << 20)
    };
    let unsupported = |index| {
        let what = "with a qdint8 output; only XNNConvert of a floating-point value may have one";
        Err(Error::UnsupportedBlob { entry: BlobEntry::Node, index, field: TEST_TYPE, what })
    };
    assert_eq!(convert(input(&[2, 3])), Ok(()));
    assert_eq!(convert(value(Datatype::Qint8, &[2, 3], Role::Input(0))), unsupported(0));
    let values =
        vec![input(&[2, 3]), internal(Datatype::Qdint8, &[3, 2]), filter(2), output(&[3, 4])];
    let transpose = node(5, NodeKind::StaticTranspose(vec![1, 0]), &[0], 1);
    assert_eq!(
        load(values, vec![transpose, node(6, FULLY_CONNECTED, &[1, 2], 3)], 1 << 20),
        unsupported(5)
    );
    let values =
        vec![input(&[2, 3]), filter(3), internal(Datatype::Qdint8, &[2, 4]), output(&[2, 4])];
    let nodes = vec![node(8, FULLY_CONNECTED, &[0, 1], 2), node(9, FULLY_CONNECTED, &[2, 1], 3)];
    assert_eq!(load(values, nodes, 1 << 20), unsupported(8));
}

#[test]
fn shape_mismatch_names_its_node() {
    let data = [0; 32];
    let values = vec![input(&[2, 3]), constant(Datatype::Fp32, &[4, 2], &data), output(&[2, 4])];
    let found = load(values, vec![node(3, FULLY_CONNECTED, &[0, 1], 2)], 1 << 20);
    assert_eq!(
        found,
        invalid(3, "has inputs whose shapes do not match; use the shapes of the export")
    );
}

#[test]
fn computed_filter_is_output_channels_by_input_channels() {
    for (transposed, right) in [(false, [4, 2]), (true, [2, 4])] {
        let right = value(Datatype::Fp32, &right, Role::Input(1));
        let out = value(Datatype::Fp32, &[3, 4], Role::Output(2));
        let values = vec![input(&[3, 2]), right, out];
        let connected = node(0, NodeKind::FullyConnected { transposed }, &[0, 1], 2);
        assert_eq!(load(values, vec![connected], 1 << 20), Ok(()), "{transposed}");
    }
}

#[test]
fn sigmoid_and_multiply_become_silu_multiply() {
    let of = |role| value(Datatype::Fp32, &[2, 3], role);
    let (sigmoid, product) =
        (NodeKind::Unary(UnaryOperator::Sigmoid), NodeKind::Binary(BinaryOperator::Multiply));
    // x * sigmoid(x) * y, in both orders of the operands.
    for [first, second] in [[[0, 2], [3, 1]], [[2, 0], [1, 3]]] {
        let kinds = |sigmoid_role: Role| {
            let values = vec![
                of(Role::Input(0)),
                of(Role::Input(1)),
                of(sigmoid_role),
                of(Role::Internal),
                output(&[2, 3]),
            ];
            let nodes = vec![
                node(0, sigmoid.clone(), &[0], 2),
                node(1, product.clone(), &first, 3),
                node(2, product.clone(), &second, 4),
            ];
            let mut subgraph = Subgraph { values, nodes, inputs: 2 };
            fusion::run(&mut subgraph);
            let kinds = subgraph.nodes.iter().map(|node| (node.kind.clone(), node.inputs.clone()));
            kinds.collect::<Vec<_>>()
        };
        assert_eq!(
            kinds(Role::Internal),
            [(NodeKind::Binary(BinaryOperator::SiluMultiply), vec![0, 1])]
        );
        // A sigmoid that is an output is not fused.
        assert_eq!(kinds(Role::Output(2)).len(), 3);
    }
}

/// Loads a subgraph with two inputs and an output of shape `sizes`, and runs it once for each pair
/// of input shapes.
fn call(
    subgraph: &Subgraph<'static>,
    runs: &[[&[usize]; 2]],
    sizes: &[usize],
) -> Vec<Result<(), Error>> {
    thread_local! {
        static DELEGATE: RefCell<Option<XnnpackDelegate<'static>>> = const { RefCell::new(None) };
    }
    const KERNEL: Kernel =
        Kernel::new("test::delegate", &[Arg::Tensor, Arg::Tensor, Arg::Out], |cx, args| {
            DELEGATE.with_borrow_mut(|delegate| delegate.as_mut().unwrap().execute(cx, args))
        });
    let plan = Plan::compile(subgraph, None, MemoryBudget::new(1 << 20)).unwrap();
    DELEGATE.set(Some(XnnpackDelegate::new(plan, usize::MAX).unwrap()));
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
fn reshape_recovers_after_a_rejected_shape() {
    let values = vec![
        input(&[4]),
        value(Datatype::Fp32, &[2, 2, 2], Role::Input(1)),
        value(Datatype::Fp32, &[4], Role::Output(2)),
    ];
    let nodes = vec![node(0, NodeKind::Unary(UnaryOperator::Clamp), &[0], 2)];
    let subgraph = Subgraph { values, nodes, inputs: 2 };
    let runs: [[&[usize]; 2]; 2] = [[&[2], &[0, 1 << 20, 1 << 20]], [&[2], &[2, 2, 2]]];
    assert_eq!(call(&subgraph, &runs, &[4]), [Err(TENSOR_TOO_LARGE), Ok(())]);
}

#[test]
fn converted_constants_are_limited() {
    let data = [0; 2048];
    let load = |nodes: u32, bytes| {
        let mut values = vec![input(&[1024]), constant(Datatype::Fp16, &[1024], &data)];
        values.extend((0..nodes).map(|_| internal(Datatype::Fp32, &[1024])));
        values.push(output(&[1024]));
        let shape = Shape::of([1024]);
        let reshape =
            |index: u32| node(index, NodeKind::StaticReshape(shape), &[1], index as usize + 2);
        let mut all: Vec<Node> = (0..nodes).map(reshape).collect();
        let last = nodes as usize + 1;
        all.push(node(nodes, NodeKind::Binary(BinaryOperator::Add), &[0, last], last + 1));
        load(values, all, bytes)
    };
    // One f32 copy, however many nodes read it.
    assert_eq!(load(1, 4096), Ok(()));
    assert_eq!(load(200, 4096), Ok(()));
    assert_eq!(load(1, 4095), Err(MEMORY_LIMIT));
}
