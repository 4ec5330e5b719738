//! Programs that the parser accepts and that are hostile at load or at run time.

use std::time::Instant;

use afferent_core::{
    Args, Backend, Delegate, DelegateHandle, DelegateSource, Error, KernelContext, ScalarType,
    Tensor,
};
use afferent_kernels::KERNELS;
use afferent_runtime::{
    Input, Model, ModelError, ModelFile, ModelOptions, RunError, program::Value,
};
use afferent_tests_hostile::{edit::Edit, schema::PROGRAM, seeds::seed};

const FORWARD: &str = "forward";
const CHAIN: &str = "execution_plan[0].chains[0].instructions";

fn valid(name: &str) -> Edit {
    Edit::new(&seed(name), &PROGRAM)
}

fn model(file: &Edit, options: ModelOptions) -> Model {
    let file = ModelFile::from_bytes("hostile.pte", file.bytes());
    Model::new(file.expect("the parser accepts the file"), options)
}

fn load_error(file: &Edit, options: ModelOptions) -> ModelError {
    model(file, options).load_method(FORWARD).expect_err("the method is rejected")
}

/// A jump to itself.
#[test]
fn endless_loop_stops_at_the_instruction_limit() {
    let mut file = valid("cond");
    // Instruction 5 jumps to the end, because value 17 is false.
    let jump = format!("{CHAIN}[5].instr_args");
    assert_eq!(file.get(&format!("{CHAIN}[5].instr_args_type")), 4);
    assert_eq!((file.get(&format!("{jump}.first")), file.get(&format!("{jump}.second"))), (17, 10));
    assert_eq!(file.get("execution_plan[0].values[17].val_type"), 3);
    assert!(!file.has("execution_plan[0].values[17].val.value"), "an absent value is false");
    file.set(&format!("{jump}.second"), 5);
    let options = ModelOptions { instruction_limit: 100_000, ..ModelOptions::new(KERNELS) };
    let mut model = model(&file, options);
    let plan = model.file().method(FORWARD).unwrap();
    let Value::Tensor(meta) = plan.value(0) else { panic!("value 0 is the input") };
    let sizes: Vec<usize> = meta.layout.sizes.iter().collect();
    let ends = [1.0_f32, -1.0].map(|fill| {
        let input = Tensor::new(&sizes, &vec![fill; sizes.iter().product()]).unwrap();
        model.run(FORWARD, &[Input::Tensor(input.view())]).map(|_| ()).err()
    });
    let limit = 100_000;
    assert!(
        ends.iter().any(|end| matches!(
            end,
            Some(ModelError::Run { error: RunError::InstructionLimit { limit: found }, .. })
                if *found == limit
        )),
        "{ends:?}"
    );
}

/// A plan for more memory than the machine has.
#[test]
fn planned_memory_beyond_the_limit_is_rejected() {
    let mut file = valid("add");
    let size = "execution_plan[0].non_const_buffer_sizes[1]";
    file.set(size, 1 << 50).set("execution_plan[0].values[0].val.sizes[0]", i64::from(i32::MAX));
    let error = load_error(&file, ModelOptions::new(KERNELS)).to_string();
    assert!(error.contains("plans 8589934620 bytes of memory, more than the limit"), "{error}");
    // Memory that no tensor uses is not allocated.
    let mut file = valid("add");
    file.set(size, i64::MAX);
    model(&file, ModelOptions::new(KERNELS)).load_method(FORWARD).unwrap();
    let options = ModelOptions { memory_limit: 8, ..ModelOptions::new(KERNELS) };
    let error = load_error(&file, options).to_string();
    assert!(error.contains("more than the limit of 8; raise the limit"), "{error}");
}

/// Two tensors overlap in planned memory: CVE-2025-30405, too.
#[test]
fn overlapping_planned_memory_is_rejected() {
    let mut file = valid("mlp");
    // Instruction 13 reads 96 bytes at offset 1024 and writes after them.
    let [read, written] = [1, 5].map(|arg| {
        let value = file.get(&format!("{CHAIN}[13].instr_args.args[{arg}]"));
        format!("execution_plan[0].values[{value}].val.allocation_info.memory_offset_low")
    });
    assert_eq!([file.get(&read), file.get(&written)], [1024, 1216]);
    model(&file, ModelOptions::new(KERNELS)).load_method(FORWARD).unwrap();
    file.set(&written, 1024 + 80);
    let error = load_error(&file, ModelOptions::new(KERNELS)).to_string();
    assert!(error.contains("argument 5 overlaps another argument"), "{error}");
}

/// An input with another dim order was read with the dim order of the method.
#[test]
fn input_with_another_dim_order_is_rejected() {
    let mut file = valid("linear");
    let input = file.get("execution_plan[0].inputs[0]");
    let order = [0, 1].map(|dim| format!("execution_plan[0].values[{input}].val.dim_order[{dim}]"));
    assert_eq!(order.each_ref().map(|path| file.get(path)), [0, 1]);
    file.set(&order[0], 1).set(&order[1], 0);
    let mut model = model(&file, ModelOptions::new(KERNELS));
    let tensor = Tensor::new(&[3, 6], &[1.0_f32; 18]).unwrap();
    let error = model.run(FORWARD, &[Input::Tensor(tensor.view())]).map(|_| ()).unwrap_err();
    let message = "its dim order differs from the method's";
    assert!(error.to_string().contains(message), "{error}");
}

struct OneInput;

impl Backend for OneInput {
    fn name(&self) -> &'static str {
        "XnnpackBackend"
    }

    fn is_available(&self) -> bool {
        true
    }

    fn init<'a>(&self, _: &DelegateSource<'a, '_>) -> Result<DelegateHandle<'a>, Error> {
        Ok(DelegateHandle::Owned(Box::new(Self)))
    }
}

impl Delegate for OneInput {
    fn num_inputs(&self) -> usize {
        1
    }

    fn execute(&mut self, _: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
        args.tensor(0)?;
        args.out(1).map(|_| ())
    }
}

/// The arguments of a delegate call were read past their end, and values of other types were read
/// as tensors.
#[test]
fn delegate_calls_with_wrong_arguments_are_rejected() {
    let options = || ModelOptions::new(KERNELS).with_backend(OneInput);
    let args = format!("{CHAIN}[0].instr_args.args");
    let mut file = valid("xnnpack_inline");
    assert_eq!(file.get(&format!("{args}#")), 2);
    model(&file, options()).load_method(FORWARD).unwrap();
    file.set_items(&args, &[]);
    assert_eq!(file.get(&format!("{args}#")), 0);
    let error = load_error(&file, options()).to_string();
    assert!(error.contains("0 arguments, but the operator takes 1"), "{error}");
    // Input and output are the same value.
    file.set_items(&args, &[0, 0]);
    let error = load_error(&file, options()).to_string();
    assert!(error.contains("argument 1 overlaps another argument"), "{error}");
    // A call without output loads: only the delegate can reject it, when it runs.
    file.set_items(&args, &[0]);
    let mut model = model(&file, options());
    model.load_method(FORWARD).unwrap();
}

/// Instructions that share their tables: a check of all pairs would take hours.
#[test]
fn load_time_is_bounded_by_the_file_size() {
    let start = Instant::now();
    let mut file = valid("add");
    let count = 50_000;
    let values: Vec<usize> = (0..count).map(|value| if value < 4 { value } else { 0 }).collect();
    file.set_tables("execution_plan[0].values", &values);
    file.set_tables(CHAIN, &vec![0; count]);
    let inputs: Vec<i64> = (0..count as i64).filter(|&value| value != 3).collect();
    file.set_items("execution_plan[0].inputs", &inputs);
    assert_eq!(file.get(&format!("{CHAIN}#")), count as u64);
    let file = ModelFile::from_bytes("hostile.pte", file.bytes());
    let error = Model::new(file.unwrap(), ModelOptions::new(KERNELS)).load_method(FORWARD);
    let message = "the parts of the method refer to each other too often to be checked";
    assert!(error.unwrap_err().to_string().contains(message));
    println!("{count} values, inputs and instructions: {:.1} s", start.elapsed().as_secs_f64());
}

/// A tensor list that many instructions write: the check visited all pairs even after it exceeded
/// its limit.
#[test]
fn load_stops_at_its_work_limit() {
    let mut file = valid("lists");
    // Instruction 0 writes the list of value 11.
    assert_eq!(file.get(&format!("{CHAIN}[0].instr_args.args[3]")), 11);
    let items = "execution_plan[0].values[11].val.items";
    file.set_items(items, &[29; 10_000]).set_tables(CHAIN, &[0; 10_000]);
    let pairs = file.get(&format!("{items}#")).pow(2) * file.get(&format!("{CHAIN}#"));
    assert_eq!(pairs, 1_000_000_000_000);
    let error = load_error(&file, ModelOptions::new(KERNELS)).to_string();
    let message = "the parts of the method refer to each other too often to be checked";
    assert!(error.contains(message), "{error}");
}

/// A view must not keep memory of an earlier run: a program that reads the view before it creates
/// it would read a freed input.
#[test]
fn a_view_does_not_outlive_the_inputs_of_its_run() {
    let mut file = valid("view_dynamic");
    // Instruction 1 makes value 7 a view of the input; instruction 3 reads it.
    let reads = format!("{CHAIN}[3].instr_args.args[0]");
    let (view, source) =
        (format!("{CHAIN}[1].instr_args.args[2]"), format!("{CHAIN}[1].instr_args.args[0]"));
    assert_eq!((file.get(&reads), file.get(&view)), (7, 7));
    assert_eq!(file.get(&source), file.get("execution_plan[0].inputs[0]"));
    file.set_tables(CHAIN, &[2, 3, 1]);
    let mut model = model(&file, ModelOptions::new(KERNELS));
    for _ in 0..2 {
        let tensor = Tensor::zeros(ScalarType::Float, &[6, 4]);
        let error = model.run(FORWARD, &[Input::Tensor(tensor.view())]).map(|_| ()).unwrap_err();
        let expected = "argument 0: expected a tensor with memory";
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Arguments are checked at load with the lists in the file. A move that replaces a list would
/// bypass the check.
#[test]
fn moves_of_tensor_lists_are_rejected() {
    let mut file = valid("lists");
    // Instruction 0 writes the list of value 11; value 53 is a list as well.
    assert_eq!(file.get(&format!("{CHAIN}[0].instr_args.args[3]")), 11);
    let kinds =
        [11, 53].map(|value| file.get(&format!("execution_plan[0].values[{value}].val_type")));
    assert_eq!(kinds, [10, 10]);
    model(&file, ModelOptions::new(KERNELS)).load_method(FORWARD).unwrap();
    let instruction = format!("{CHAIN}[1].instr_args");
    file.set(&format!("{instruction}_type"), 3);
    file.set(&format!("{instruction}.first"), 53).set(&format!("{instruction}.second"), 11);
    let error = load_error(&file, ModelOptions::new(KERNELS)).to_string();
    assert!(error.contains("value 11: only a tensor can be moved to a tensor"), "{error}");
}

/// Planned memory within the limit but beyond the memory of the system.
#[test]
fn failed_allocation_is_an_error() {
    let mut file = valid("linear");
    let input = file.get("execution_plan[0].inputs[0]");
    let tensor = format!("execution_plan[0].values[{input}].val");
    assert!(file.has(&format!("{tensor}.allocation_info")));
    file.set("execution_plan[0].non_const_buffer_sizes[1]", i64::MAX);
    file.set(&format!("{tensor}.sizes[0]"), 1 << 30).set(&format!("{tensor}.sizes[1]"), 1 << 28);
    let options = ModelOptions { memory_limit: usize::MAX, ..ModelOptions::new(KERNELS) };
    let error = load_error(&file, options);
    assert!(matches!(error, ModelError::NoMemory { needed, .. } if needed >= 1 << 60), "{error}");
}

/// The error names the dimension and the accepted size.
#[test]
fn inputs_of_other_sizes_are_rejected() {
    let check = |name: &str, sizes: &[usize], message: &str| {
        let mut model = model(&valid(name), ModelOptions::new(KERNELS));
        let tensor = Tensor::zeros(ScalarType::Float, sizes);
        let error = model.run(FORWARD, &[Input::Tensor(tensor.view())]).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), format!("method \"forward\": input 0 has {message}"));
    };
    check("linear", &[3, 5], "size 5 in dimension 1, but the method takes 6");
    check("linear", &[18], "1 dimensions, but the method takes 2");
    check("dynamic_shape", &[9, 4], "size 9 in dimension 0, but the method takes at most 8");
}
