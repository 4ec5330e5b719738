//! Mutable buffers with initial values: their contents after another method is loaded, and after a
//! reset.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, KernelLists};
use afferent_runtime::{Model, ModelFile, ModelOptions};
use afferent_tests_hostile::{edit::Edit, schema::PROGRAM};

const EVERY_FIELD: &[u8] = include_bytes!("../../../runtime/program/tests/data/every_field.pte");

const KERNELS: KernelLists<'static> = &[&[&[Kernel::new("aten::add.out", &[Arg::InOut], add_one)]]];

fn add_one(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    args.out(0)?.bytes_mut()?.iter_mut().for_each(|byte| *byte += 1);
    Ok(())
}

/// Program with two methods, `forward` and `encode`, that add one to the bytes of their state and
/// return it. The state is in planned buffer `memory`; its initial value is named data.
fn program(memory: i64) -> Edit {
    let mut file = Edit::new(EVERY_FIELD, &PROGRAM);
    for plan in ["execution_plan[0]", "execution_plan[1]"] {
        let chain = format!("{plan}.chains[0].instructions");
        file.set_tables(&chain, &[0]).set_tables(&format!("{plan}.delegates"), &[]);
        file.set_items(&format!("{chain}[0].instr_args.args"), &[6]);
        file.set_items(&format!("{plan}.inputs"), &[]).set_items(&format!("{plan}.outputs"), &[6]);
        // Byte tensors with initial values from named data: 5 never changes, 6 is the state.
        for (value, name, len) in [(5, b'b', 6), (6, b'a', 5)] {
            let tensor = format!("{plan}.values[{value}].val");
            file.set(&format!("{tensor}.scalar_type"), 0).set(&format!("{tensor}.sizes[0]"), len);
            let key = format!("{tensor}.extra_tensor_info.fully_qualified_name");
            file.set_items(&key, &[name.into()]);
        }
        // The other tensor with an initial value is in the other buffer.
        for (value, memory) in [(6, memory), (2, 3 - memory)] {
            let memory_id = format!("{plan}.values[{value}].val.allocation_info.memory_id");
            file.set(&memory_id, memory);
        }
    }
    file
}

fn model(memory: i64) -> Model {
    let file = ModelFile::from_bytes("state.pte", program(memory).bytes());
    Model::new(file.expect("the file can be read"), ModelOptions::new(KERNELS))
}

/// Runs a method and asserts that it returns `state`.
#[track_caller]
fn expect(model: &mut Model, method: &str, state: &str) {
    let outputs = model.run(method, &[]).expect("the method runs");
    let state_now = outputs.tensor(0).expect("the output is the state").bytes();
    assert_eq!(String::from_utf8_lossy(state_now), state, "{method}");
}

#[test]
fn separate_buffers_are_per_method() {
    let mut model = model(1);
    expect(&mut model, "forward", "gjstu");
    expect(&mut model, "forward", "hktuv");
    expect(&mut model, "encode", "gjstu");
    model.reset();
    expect(&mut model, "forward", "gjstu");
    expect(&mut model, "encode", "gjstu");
}

#[test]
fn a_shared_buffer_is_common_to_all_methods() {
    let mut model = model(2);
    expect(&mut model, "forward", "gjstu");
    // Loading the second method does not reset the state.
    expect(&mut model, "encode", "hktuv");
    expect(&mut model, "forward", "iluvw");
    model.reset();
    expect(&mut model, "encode", "gjstu");
    expect(&mut model, "forward", "hktuv");
}
