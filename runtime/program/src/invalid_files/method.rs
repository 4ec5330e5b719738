//! Checks of methods, operators, delegates and instructions.

use super::*;

fn check_i32(path: &[Step], target: Target, new: [u8; 4], message: &str) {
    check(EVERY_FIELD, path, target, new, message);
}

fn check_byte(path: &[Step], target: Target, new: u8, message: &str) {
    check(EVERY_FIELD, path, target, [new], message);
}

fn check_absent(path: &[Step], field: Field, message: &str) {
    check_without(EVERY_FIELD, path, field, message);
}

#[test]
fn method_fields() {
    for (field, message) in [
        (PLAN_NAME, "method 0: ExecutionPlan.name is missing"),
        (PLAN_VALUES, "method 0: ExecutionPlan.values is missing"),
        (PLAN_INPUTS, "method 0: ExecutionPlan.inputs is missing"),
        (PLAN_OUTPUTS, "method 0: ExecutionPlan.outputs is missing"),
        (PLAN_CHAINS, "method 0: ExecutionPlan.chains is missing"),
        (PLAN_BUFFER_SIZES, "method 0: ExecutionPlan.non_const_buffer_sizes is missing"),
    ] {
        check_absent(&plan(&[]), field, message);
    }
    let chain = plan(&[Entry(PLAN_CHAINS, 0)]);
    check_absent(&chain, CHAIN_INSTRUCTIONS, "method 0: Chain.instructions is missing");
    check_i32(
        &plan(&[]),
        Length(PLAN_CHAINS),
        le(0),
        "method 0: ExecutionPlan.chains is empty, but a method needs one chain",
    );
    check_i32(
        &plan(&[]),
        Length(PLAN_CHAINS),
        le(2),
        "method 0: ExecutionPlan.chains is not supported: more than one chain",
    );
    check_i32(
        &plan(&[]),
        Element(PLAN_INPUTS, 0, 4),
        le(-1),
        "method 0: ExecutionPlan.inputs is -1, out of range for 18 entries",
    );
    check_i32(
        &plan(&[]),
        Element(PLAN_INPUTS, 0, 4),
        le(1),
        "method 0: ExecutionPlan.inputs refers to value 1, which is not a mutable tensor",
    );
    check_i32(
        &plan(&[]),
        Element(PLAN_OUTPUTS, 1, 4),
        le(18),
        "method 0: ExecutionPlan.outputs is 18, out of range for 18 entries",
    );
    check(
        EVERY_FIELD,
        &plan(&[]),
        Element(PLAN_BUFFER_SIZES, 2, 8),
        [0xff; 8],
        "method 0: ExecutionPlan.non_const_buffer_sizes is negative",
    );
    check_byte(
        &plan(&[Entry(PLAN_BUFFER_DEVICE, 1)]),
        field(BUFFER_DEVICE_TYPE),
        2,
        "method 0: NonConstBufferDevice.device_type has the unknown code 2",
    );
    let container = plan(&[Child(PLAN_CONTAINER_META_TYPE)]);
    let encoded = Element(CONTAINER_ENCODED_OUT_STR, 1, 1);
    check_byte(
        &container,
        encoded,
        0xff,
        "method 0: ContainerMetadata.encoded_out_str is not valid UTF-8",
    );
}

#[test]
fn method_names_must_be_unique() {
    let path = [Entry(PROGRAM_EXECUTION_PLAN, 1)];
    let reference = position(EVERY_FIELD, &path, field(PLAN_NAME));
    let name = position(EVERY_FIELD, &plan(&[]), Length(PLAN_NAME));
    let message =
        "method 1: ExecutionPlan.name is the name of an earlier method; names must be unique";
    check_i32(&path, field(PLAN_NAME), le((name - reference) as i32), message);
}

/// Program of empty methods with these names.
fn program_with_methods(names: &[String]) -> Vec<u8> {
    // Vtables of the root, a method and a chain: sizes, then field offsets.
    let root = [8, 8, 0, 4_u16];
    let plan = [22_u16, 28, 4, 0, 8, 12, 16, 20, 0, 0, 24];
    let chain = [10, 8, 0, 0, 4_u16];
    let (root_at, plan_at, chain_at, vector) = (16, 24, 46, 56);
    let plans = vector + 4 + 4 * names.len();
    let texts = plans + 28 * names.len();
    let chains = texts + names.iter().map(|name| 4 + name.len()).sum::<usize>();
    let empty = chains + 16;

    let u16s = |numbers: &[u16]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
    let mut file = [&le(root_at)[..], b"ET12", &u16s(&root)].concat();
    let push = |file: &mut Vec<u8>, value: usize| file.extend(le(value as i32));
    let push_offset = |file: &mut Vec<u8>, to: usize| file.extend(le((to - file.len()) as i32));
    push(&mut file, 8);
    push_offset(&mut file, vector);
    file.extend(u16s(&plan).into_iter().chain(u16s(&chain)));
    push(&mut file, names.len());
    (0..names.len()).for_each(|at| push_offset(&mut file, plans + 28 * at));
    let mut text = texts;
    for name in names {
        let start = file.len();
        push(&mut file, start - plan_at);
        for to in [text, empty, empty, empty, chains, empty] {
            push_offset(&mut file, to);
        }
        text += 4 + name.len();
    }
    for name in names {
        push(&mut file, name.len());
        file.extend(name.as_bytes());
    }
    for number in [1, 4, chains + 8 - chain_at, 4, 0] {
        push(&mut file, number);
    }
    file
}

#[test]
fn comparing_names_counts_as_work() {
    let parse = |count: usize, len: usize| {
        let names: Vec<_> = (0..count).map(|name| format!("{name:0len$}")).collect();
        parse(&program_with_methods(&names)).map_err(|error| error.to_string())
    };
    assert_eq!(parse(12, 30), Ok(()));
    let message = "method 9: ExecutionPlan.name is referenced more often than the size of the \
                   file allows";
    assert_eq!(parse(12, 1000), Err(message.to_owned()));
}

#[test]
fn operators_and_delegates() {
    check_absent(
        &plan(&[Entry(PLAN_OPERATORS, 0)]),
        OPERATOR_NAME,
        "method 0, operator 0: Operator.name is missing",
    );
    let delegate = plan(&[Entry(PLAN_DELEGATES, 0)]);
    check_absent(&delegate, DELEGATE_ID, "method 0, delegate 0: BackendDelegate.id is missing");
    let message = "method 0, delegate 0: BackendDelegate.processed is missing";
    check_absent(&delegate, DELEGATE_PROCESSED, message);
    let spec = plan(&[Entry(PLAN_DELEGATES, 0), Entry(DELEGATE_COMPILE_SPECS, 0)]);
    check_absent(&spec, COMPILE_SPEC_KEY, "method 0, delegate 0: CompileSpec.key is missing");
    let reference = plan(&[Entry(PLAN_DELEGATES, 0), Child(DELEGATE_PROCESSED)]);
    check_byte(
        &reference,
        field(DATA_REFERENCE_LOCATION),
        2,
        "method 0, delegate 0: BackendDelegateDataReference.location has the unknown code 2",
    );
    let message =
        "method 0, delegate 0: BackendDelegateDataReference.index is 6, out of range for 6 entries";
    check_i32(&reference, field(DATA_REFERENCE_INDEX), le(6), message);
    let message = "method 0, delegate 0: BackendDelegateInlineData.data is missing";
    let blob = [Entry(PROGRAM_BACKEND_DELEGATE_DATA, 0)];
    check_without(INLINE_BLOB, &blob, INLINE_DATA_DATA, message);
    let message =
        "method 0, delegate 0: BackendDelegateDataReference.index is 0, out of range for 0 entries";
    check(INLINE_BLOB, &[], Length(PROGRAM_BACKEND_DELEGATE_DATA), le(0), message);
}

#[test]
fn instructions() {
    let (call, jump, delegate) = (instruction(0), instruction(1), instruction(3));
    let (move_, free) = (instruction(4), instruction(5));
    let message = "method 0, instruction 0: KernelCall.op_index is 1, out of range for 1 entries";
    check_i32(&call, field(KERNEL_CALL_OP_INDEX), le(1), message);
    let message = "method 0, instruction 0: KernelCall.op_index is -1, out of range for 1 entries";
    check_i32(&call, field(KERNEL_CALL_OP_INDEX), le(-1), message);
    let message = "method 0, instruction 0: KernelCall.args is 18, out of range for 18 entries";
    check_i32(&call, Element(KERNEL_CALL_ARGS, 2, 4), le(18), message);
    let message = "method 0, instruction 0: KernelCall.args is missing";
    check_absent(&call, KERNEL_CALL_ARGS, message);
    let message =
        "method 0, instruction 3: DelegateCall.delegate_index is 2, out of range for 2 entries";
    check_i32(&delegate, field(DELEGATE_CALL_DELEGATE_INDEX), le(2), message);
    let message = "method 0, instruction 3: DelegateCall.args is 18, out of range for 18 entries";
    check_i32(&delegate, Element(DELEGATE_CALL_ARGS, 0, 4), le(18), message);
    let message = "method 0, instruction 4: MoveCall.move_from is -1, out of range for 18 entries";
    check_i32(&move_, field(MOVE_CALL_FROM), le(-1), message);
    let message = "method 0, instruction 4: MoveCall.move_to is 18, out of range for 18 entries";
    check_i32(&move_, field(MOVE_CALL_TO), le(18), message);
    let message = "method 0, instruction 4: MoveCall.move_to refers to value 9, which is not of the \
                   type of the source value";
    check_i32(&move_, field(MOVE_CALL_TO), le(9), message);
    let message = "method 0, instruction 1: JumpFalseCall.destination_instruction is 7, out of range for 7 entries";
    check_i32(&jump, field(JUMP_FALSE_DESTINATION), le(7), message);
    let message = "method 0, instruction 1: JumpFalseCall.cond_value_index refers to value 0, which is \
                   not a scalar or a tensor of bools";
    check_i32(&jump, field(JUMP_FALSE_CONDITION), le(0), message);
    let message =
        "method 0, instruction 5: FreeCall.value_index refers to value 9, which is not a tensor";
    check_i32(&free, field(FREE_CALL_VALUE), le(9), message);
    let chain = plan(&[Entry(PLAN_CHAINS, 0), Entry(CHAIN_INSTRUCTIONS, 5)]);
    let message = "method 0, instruction 5: Instruction.instr_args_type has the unknown code 6";
    check_byte(&chain, field(INSTRUCTION_TYPE), 6, message);
    check_absent(
        &chain,
        INSTRUCTION_ARGS,
        "method 0, instruction 5: Instruction.instr_args is missing",
    );
}
