//! No bytes make the reader panic or break what it promises.

use afferent_program::{ExternalData, List, MethodPlan, Program, TensorData, TensorLayout, Value};

const FILES: [(&str, &[u8]); 8] = [
    ("add.pte", include_bytes!("data/add.pte")),
    ("cond.pte", include_bytes!("data/cond.pte")),
    ("constant_buffer.pte", include_bytes!("data/constant_buffer.pte")),
    ("counter_initialized.pte", include_bytes!("data/counter_initialized.pte")),
    ("every_field.pte", include_bytes!("data/every_field.pte")),
    ("external.pte", include_bytes!("data/external.pte")),
    ("external.ptd", include_bytes!("data/external.ptd")),
    ("xnnpack_inline.pte", include_bytes!("data/xnnpack_inline.pte")),
];

/// Reads everything that a file gives; says whether it was accepted.
fn read(name: &str, bytes: &[u8]) -> bool {
    let result = if name.ends_with(".ptd") {
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

/// Checks the promises of a method, and counts the entries that were read.
fn walk_plan(plan: &MethodPlan<'_>) -> usize {
    assert!(plan.program().method(plan.name()).is_some());
    let mut entries = 0;
    let mut numbers = |list: List<'_, u32>, absent: bool| {
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
        use afferent_program::Instruction as I;
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
    let numel = afferent_core::numel(&sizes).expect("a number of elements");
    assert_eq!(numel * layout.dtype.size(), layout.nbytes);
    let mut order = layout.dim_order.to_vec();
    order.sort_unstable();
    assert!(order.iter().map(|&dim| usize::from(dim)).eq(0..sizes.len()));
}

fn check_data(plan: &MethodPlan<'_>, data: &TensorData<'_>, nbytes: usize) {
    let placement = match *data {
        TensorData::Constant(bytes) => {
            assert_eq!(bytes.len(), nbytes);
            None
        }
        TensorData::Planned { placement, initial } => {
            assert!(initial.is_none_or(|bytes| bytes.len() == nbytes));
            Some(placement)
        }
        TensorData::External { name, placement } => {
            assert!(!name.is_empty());
            placement
        }
        TensorData::Unplanned => None,
    };
    if let Some(placement) = placement {
        let size = plan.planned_buffer_sizes().get(placement.memory_id);
        let end = placement.offset.checked_add(nbytes);
        assert!(end.is_some() && end <= size);
    }
}

/// A small generator, the same numbers in each run (Marsaglia, xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn a_part_of_a_file_is_refused_or_read() {
    for (name, file) in FILES {
        assert!(read(name, file), "{name}");
        for len in 0..file.len() {
            read(name, &file[..len]);
        }
        // Half of a file always lacks something.
        assert!(!read(name, &file[..file.len() / 2]), "{name}");
    }
}

#[test]
fn files_with_wrong_bytes_are_refused_or_read() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut accepted, mut refused) = (0, 0);
    for (name, file) in FILES {
        for _ in 0..20_000 {
            let mut changed = file.to_vec();
            for _ in 0..=random.below(4) {
                let at = random.below(file.len());
                changed[at] ^= (1 + random.below(255)) as u8;
            }
            if read(name, &changed) { accepted += 1 } else { refused += 1 }
        }
    }
    assert!(accepted > 10_000 && refused > 10_000, "{accepted} accepted, {refused} refused");
}
