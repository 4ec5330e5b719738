//! Tests with files written by ExecuTorch.

use afferent_program::{
    Allocation, Dynamism, ExternalData, Instruction, Program, ScalarType, TensorData, TensorMeta,
    Value,
};

const COND: &[u8] = include_bytes!("data/cond.pte");
const COUNTER: &[u8] = include_bytes!("data/counter_initialized.pte");
const CONSTANT_BUFFER: &[u8] = include_bytes!("data/constant_buffer.pte");
const EVERY_FIELD: &[u8] = include_bytes!("data/every_field.pte");
const EXTERNAL: &[u8] = include_bytes!("data/external.pte");
const EXTERNAL_DATA: &[u8] = include_bytes!("data/external.ptd");
const XNNPACK: &[u8] = include_bytes!("data/xnnpack_inline.pte");

fn tensor<'a>(program: &Program<'a>, value: usize) -> TensorMeta<'a> {
    let plan = program.methods().next().expect("the program has a method");
    let Value::Tensor(tensor) = plan.value(value) else { panic!("value {value} is not a tensor") };
    tensor
}

#[test]
fn method_with_branches() {
    let program = Program::parse(COND).unwrap();
    assert_eq!(program.method_names().collect::<Vec<_>>(), ["forward"]);
    assert!(program.method("backward").is_none());
    let plan = program.method("forward").unwrap();
    assert_eq!(plan.num_values(), 18);
    assert_eq!(plan.inputs().iter().collect::<Vec<_>>(), [0]);
    assert_eq!(plan.outputs().iter().collect::<Vec<_>>(), [7]);
    assert_eq!(plan.planned_buffer_sizes().iter().collect::<Vec<_>>(), [96]);
    assert_eq!(plan.value(4), Value::None);
    assert_eq!(plan.value(9), Value::Int(1));
    assert_eq!(plan.value(99), Value::None);
    let Some(Instruction::Kernel { operator, args }) = plan.instruction(1) else { panic!() };
    let operator = plan.operator(operator as usize).unwrap();
    assert_eq!((operator.name, operator.overload), ("aten::gt", "Scalar_out"));
    assert_eq!(args.iter().collect::<Vec<_>>(), [1, 6, 5, 5]);
    let jump = Instruction::JumpFalse { condition: 5, destination: 6 };
    assert_eq!(plan.instruction(2), Some(jump));
    let end = Instruction::JumpFalse { condition: 17, destination: 10 };
    assert_eq!((plan.instruction(5), plan.num_instructions()), (Some(end), 10));
    assert_eq!(plan.instruction(9), Some(Instruction::Move { from: 15, to: 7 }));
    assert_eq!(plan.instruction(10), None);
    let allocation = Allocation { buffer_index: 0, offset: 80 };
    assert_eq!(tensor(&program, 0).data, TensorData::Planned { allocation, initial: None });
    let one = tensor(&program, 11);
    assert_eq!((one.layout.dtype, one.layout.nbytes), (ScalarType::Long, 8));
    assert_eq!(one.data, TensorData::Constant(&[1, 0, 0, 0, 0, 0, 0, 0]));
}

#[test]
fn values_of_every_type() {
    let program = Program::parse(EVERY_FIELD).unwrap();
    let plan = program.method("encode").unwrap();
    assert_eq!(plan.value(8), Value::None);
    assert_eq!(plan.value(9), Value::Int(7));
    assert_eq!(plan.value(10), Value::Bool(true));
    assert_eq!(plan.value(11), Value::Double(0.5));
    assert_eq!(plan.value(12), Value::Str("tanh"));
    let Value::IntList(items) = plan.value(13) else { panic!() };
    assert_eq!(items.iter().collect::<Vec<_>>(), [9, 10, 8]);
    let Value::DoubleList(items) = plan.value(14) else { panic!() };
    assert_eq!(items.iter().collect::<Vec<_>>(), [0.25, -1.0]);
    assert_eq!(plan.value(15), Value::BoolList(&[1, 0]));
    let Value::TensorList(items) = plan.value(16) else { panic!() };
    assert_eq!(items.iter().collect::<Vec<_>>(), [0, 3]);
    let Value::OptionalTensorList(items) = plan.value(17) else { panic!() };
    assert_eq!(items.iter().collect::<Vec<_>>(), [u32::MAX, 0, 8]);
    let dynamism = |value| tensor(&program, value).dynamism;
    assert_eq!(dynamism(0), Dynamism::Static);
    assert_eq!(dynamism(3), Dynamism::Bounded);
    assert_eq!(dynamism(7), Dynamism::Unbounded);
    assert_eq!(tensor(&program, 7).data, TensorData::Unplanned);
    let allocation = Allocation { buffer_index: 0, offset: 0 };
    let data = TensorData::External { name: "bias", allocation: Some(allocation) };
    assert_eq!(tensor(&program, 6).data, data);
    assert_eq!(plan.instruction(5), Some(Instruction::Free { value: 7 }));
    assert_eq!((plan.encoded_inp_str(), plan.encoded_out_str()), (Some("in"), Some("out")));
    assert_eq!(program.named_data("b"), Some(&b"second"[..]));
    assert_eq!(program.named_data("c"), None);
    let delegate = plan.delegate(0).unwrap();
    assert_eq!((delegate.id, delegate.blob), ("First", &b"blob 0"[..]));
    let spec = delegate.compile_spec(0).unwrap();
    assert_eq!((spec.key, spec.value), ("level", &[2][..]));
}

#[test]
fn tensor_storage() {
    let program = Program::parse(COUNTER).unwrap();
    let TensorData::Planned { initial: Some(initial), .. } = tensor(&program, 0).data else {
        panic!()
    };
    assert_eq!(initial.len(), 12);
    let program = Program::parse(CONSTANT_BUFFER).unwrap();
    let TensorData::Constant(bytes) = tensor(&program, 0).data else { panic!() };
    assert_eq!(bytes.len(), 6 * 4 * 4);
    let program = Program::parse(EXTERNAL).unwrap();
    let data = TensorData::External { name: "0.weight", allocation: None };
    assert_eq!(tensor(&program, 0).data, data);
    assert!(tensor(&program, 0).is_constant());
}

#[test]
fn external_data() {
    let data = ExternalData::parse(EXTERNAL_DATA).unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["0.weight", "0.bias", "2.weight", "2.bias"]);
    let (layout, bytes) = data.tensor("2.weight").unwrap();
    assert_eq!(layout.sizes.iter().collect::<Vec<_>>(), [2, 6]);
    assert_eq!((layout.dtype, layout.dim_order), (ScalarType::Float, &[0, 1][..]));
    assert_eq!((bytes.len(), data.get("2.weight")), (48, Some(bytes)));
    assert!(data.tensor("2.weights").is_none());
}

#[test]
fn delegate_blob_in_the_flatbuffer() {
    let program = Program::parse(XNNPACK).unwrap();
    let plan = program.method("forward").unwrap();
    let delegate = plan.delegate(0).unwrap();
    assert_eq!((delegate.id, delegate.num_compile_specs()), ("XnnpackBackend", 0));
    assert_eq!(&delegate.blob[4..8], b"XH00");
    let Some(Instruction::Delegate { delegate: 0, args }) = plan.instruction(0) else { panic!() };
    assert_eq!(args.iter().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(program.named_data_keys().count(), 4);
    assert!(program.named_data_keys().all(|key| key.len() == 64));
}
