//! Reads a whole file and checks the guarantees of the parser.

use afferent_runtime::program::{
    BundledProgram, ExternalData, MethodPlan, Program, TensorData, TensorLayout, TestValue, Value,
    Vector,
};

/// Reads all entries of a program or a data file. Returns true if the parser accepts the file.
///
/// # Panics
/// If a guarantee of the parser does not hold.
pub fn check_file(bytes: &[u8]) -> bool {
    let result = if bytes.get(4..6) == Some(b"FT") {
        ExternalData::parse(bytes).map(|data| walk_data(&data))
    } else {
        Program::parse(bytes).map(|program| walk_program(&program, bytes.len()))
    };
    result.inspect_err(|error| assert!(error.code() > 0 && !error.to_string().is_empty())).is_ok()
}

fn walk_data(data: &ExternalData<'_>) {
    for key in data.keys() {
        assert!(data.get(key).is_some());
        if let Some((layout, bytes)) = data.tensor(key) {
            check_layout(&layout);
            assert_eq!(bytes.len(), layout.nbytes);
        }
    }
}

fn walk_program(program: &Program<'_>, len: usize) {
    assert_eq!(program.methods().count(), program.num_methods());
    for key in program.named_data_keys() {
        assert!(program.named_data(key).is_some());
    }
    let entries: usize = program.methods().map(|plan| walk_plan(&plan)).sum();
    assert!(entries <= 4 * len, "{entries} entries in {len} bytes");
}

/// Checks the entries of a method and returns their number.
fn walk_plan(plan: &MethodPlan<'_>) -> usize {
    assert!(plan.program().method(plan.name()).is_some());
    let mut entries = 0;
    let mut numbers = |list: Vector<'_, u32>, absent: bool| {
        entries += list.len();
        for number in list {
            let exists = (number as usize) < plan.num_values();
            assert!(exists || (absent && number == u32::MAX));
        }
    };
    numbers(plan.inputs(), false);
    numbers(plan.outputs(), false);
    for value in plan.values() {
        match value {
            Value::IntList(items) | Value::TensorList(items) => numbers(items, false),
            Value::OptionalTensorList(items) => numbers(items, true),
            Value::DoubleList(items) => assert_eq!(items.iter().count(), items.len()),
            Value::Tensor(tensor) => {
                check_layout(&tensor.layout);
                check_data(plan, &tensor.data, tensor.layout.nbytes);
            }
            _ => {}
        }
    }
    assert_eq!(plan.instructions().count(), plan.num_instructions());
    for instruction in plan.instructions() {
        use afferent_runtime::program::Instruction as I;
        match instruction {
            I::Kernel { operator, args } => {
                assert!(plan.operator(operator as usize).is_some());
                numbers(args, false);
            }
            I::Delegate { delegate, args } => {
                assert!(plan.delegate(delegate as usize).is_some());
                numbers(args, false);
            }
            I::Move { from, to } => assert!((from.max(to) as usize) < plan.num_values()),
            I::JumpFalse { condition, destination } => {
                assert!((condition as usize) < plan.num_values());
                assert!(destination as usize <= plan.num_instructions());
            }
            I::Free { value } => assert!(matches!(plan.value(value as usize), Value::Tensor(_))),
        }
    }
    assert_eq!(plan.operators().count(), plan.num_operators());
    assert_eq!(plan.delegates().count(), plan.num_delegates());
    for delegate in plan.delegates() {
        assert_eq!(delegate.compile_specs().count(), delegate.num_compile_specs());
    }
    let _ = (plan.encoded_inp_str(), plan.encoded_out_str());
    entries + plan.num_values() + plan.num_instructions()
}

fn check_layout(layout: &TensorLayout<'_>) {
    let sizes: Vec<usize> = layout.sizes.iter().collect();
    let numel = afferent_core::numel(&sizes).expect("the sizes do not overflow");
    assert_eq!(numel * layout.dtype.size(), layout.nbytes);
    let mut order = layout.dim_order.to_vec();
    order.sort_unstable();
    assert!(order.iter().map(|&dim| usize::from(dim)).eq(0..sizes.len()));
}

fn check_data(plan: &MethodPlan<'_>, data: &TensorData<'_>, nbytes: usize) {
    let allocation = match *data {
        TensorData::Constant(bytes) => {
            assert_eq!(bytes.len(), nbytes);
            None
        }
        TensorData::Planned { allocation, initial } => {
            assert!(initial.is_none_or(|bytes| bytes.len() == nbytes));
            Some(allocation)
        }
        TensorData::External { name, allocation } => {
            assert!(!name.is_empty());
            allocation
        }
        TensorData::Unplanned => None,
    };
    if let Some(allocation) = allocation {
        let size = plan.planned_buffer_sizes().get(allocation.buffer_index);
        let end = allocation.offset.checked_add(nbytes);
        assert!(end.is_some() && end <= size);
    }
}

/// Looks up all keys of a program or a data file, and an unknown one.
///
/// # Panics
/// If a guarantee of the parser does not hold.
pub fn check_named_data(bytes: &[u8]) {
    const UNKNOWN: &str = "no such key";
    if let Ok(program) = Program::parse(bytes) {
        let keys: Vec<&str> = program.named_data_keys().take(256).collect();
        for (at, key) in keys.iter().enumerate() {
            let data = program.named_data(key).expect("each key has data");
            let first = keys.iter().position(|other| other == key);
            assert!(
                first.is_some_and(|first| first <= at),
                "the first of several equal keys is found"
            );
            assert!(data.len() <= bytes.len());
        }
        assert!(
            keys.contains(&UNKNOWN) || keys.len() == 256 || program.named_data(UNKNOWN).is_none()
        );
    }
    if let Ok(data) = ExternalData::parse(bytes) {
        for key in data.keys().take(256) {
            let found = data.get(key).expect("each key has data");
            if let Some((layout, tensor)) = data.tensor(key) {
                assert_eq!(tensor.len(), layout.nbytes);
                assert!(found.starts_with(tensor));
            }
        }
    }
}

/// Reads all test cases of a bundled program, and its program. Returns true if the parser accepts
/// the file.
///
/// # Panics
/// If a guarantee of the parser does not hold.
pub fn check_bundled(bytes: &[u8]) -> bool {
    let Ok(bundled) = BundledProgram::parse(bytes) else { return false };
    let (mut copied, mut values) = (0, 0);
    for case in bundled.suites().flat_map(|suite| suite.cases()) {
        for value in case.inputs().chain(case.expected()) {
            values += 1;
            if let TestValue::Tensor(layout, data) = value {
                check_layout(&layout);
                assert_eq!(data.len(), layout.nbytes);
                copied += data.len();
            }
        }
    }
    assert!(copied + values <= 4 * bytes.len(), "{copied} bytes in {values} values");
    check_file(bundled.program());
    true
}
