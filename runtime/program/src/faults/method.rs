//! The checks of a method.

use super::*;

fn every(path: &[Step], spot: Spot, new: [u8; 4], message: &str) {
    check(EVERY_FIELD, path, spot, new, message);
}

fn byte(path: &[Step], spot: Spot, new: u8, message: &str) {
    check(EVERY_FIELD, path, spot, [new], message);
}

fn absent(path: &[Step], field: Field, message: &str) {
    without(EVERY_FIELD, path, field, message);
}

#[test]
fn its_tables() {
    for (field, message) in [
        (PLAN_NAME, "method 0: ExecutionPlan.name is missing"),
        (PLAN_VALUES, "method 0: ExecutionPlan.values is missing"),
        (PLAN_INPUTS, "method 0: ExecutionPlan.inputs is missing"),
        (PLAN_OUTPUTS, "method 0: ExecutionPlan.outputs is missing"),
        (PLAN_CHAINS, "method 0: ExecutionPlan.chains is missing"),
        (PLAN_BUFFER_SIZES, "method 0: ExecutionPlan.non_const_buffer_sizes is missing"),
    ] {
        absent(&plan(&[]), field, message);
    }
    let chain = plan(&[Entry(PLAN_CHAINS, 0)]);
    absent(&chain, CHAIN_INSTRUCTIONS, "method 0: Chain.instructions is missing");
    every(
        &plan(&[]),
        Len(PLAN_CHAINS),
        le(0),
        "method 0: ExecutionPlan.chains holds no chain of instructions",
    );
    every(
        &plan(&[]),
        Len(PLAN_CHAINS),
        le(2),
        "method 0: ExecutionPlan.chains is not supported: more than one chain of instructions",
    );
    every(
        &plan(&[]),
        Item(PLAN_INPUTS, 0, 4),
        le(-1),
        "method 0: ExecutionPlan.inputs is -1, but there are 18 entries",
    );
    every(
        &plan(&[]),
        Item(PLAN_INPUTS, 0, 4),
        le(1),
        "method 0: ExecutionPlan.inputs names value 1, which is not a tensor that a caller may set",
    );
    every(
        &plan(&[]),
        Item(PLAN_OUTPUTS, 1, 4),
        le(18),
        "method 0: ExecutionPlan.outputs is 18, but there are 18 entries",
    );
    check(
        EVERY_FIELD,
        &plan(&[]),
        Item(PLAN_BUFFER_SIZES, 2, 8),
        [0xff; 8],
        "method 0: ExecutionPlan.non_const_buffer_sizes is negative",
    );
    byte(
        &plan(&[Entry(PLAN_BUFFER_DEVICE, 1)]),
        field(BUFFER_DEVICE_TYPE),
        1,
        "method 0: NonConstBufferDevice.device_type is not supported: planned memory on another \
         device than the CPU",
    );
    let container = plan(&[To(PLAN_CONTAINER_META_TYPE)]);
    let encoded = Item(CONTAINER_ENCODED_OUT_STR, 1, 1);
    byte(&container, encoded, 0xff, "method 0: ContainerMetadata.encoded_out_str is not UTF-8");
}

#[test]
fn names_of_two_methods() {
    let path = [Entry(PROGRAM_EXECUTION_PLAN, 1)];
    let reference = position(EVERY_FIELD, &path, field(PLAN_NAME));
    let name = position(EVERY_FIELD, &plan(&[]), Len(PLAN_NAME));
    let message = "method 1: ExecutionPlan.name is the name of another method, too";
    every(&path, field(PLAN_NAME), le((name - reference) as i32), message);
}

/// A program of methods that have these names and nothing else.
fn methods(names: &[String]) -> Vec<u8> {
    // Tables of the root, of a method and of a chain: lengths, and places of the fields.
    let root = [8, 8, 0, 4_u16];
    let plan = [22_u16, 28, 4, 0, 8, 12, 16, 20, 0, 0, 24];
    let chain = [10, 8, 0, 0, 4_u16];
    let (root_at, plan_at, chain_at, list) = (16, 24, 46, 56);
    let plans = list + 4 + 4 * names.len();
    let texts = plans + 28 * names.len();
    let chains = texts + names.iter().map(|name| 4 + name.len()).sum::<usize>();
    let nothing = chains + 16;

    let short = |numbers: &[u16]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
    let mut file = [&le(root_at)[..], b"ET12", &short(&root)].concat();
    let word = |file: &mut Vec<u8>, word: usize| file.extend(le(word as i32));
    let refer = |file: &mut Vec<u8>, to: usize| file.extend(le((to - file.len()) as i32));
    word(&mut file, 8);
    refer(&mut file, list);
    file.extend(short(&plan).into_iter().chain(short(&chain)));
    word(&mut file, names.len());
    (0..names.len()).for_each(|at| refer(&mut file, plans + 28 * at));
    let mut text = texts;
    for name in names {
        let start = file.len();
        word(&mut file, start - plan_at);
        for to in [text, nothing, nothing, nothing, chains, nothing] {
            refer(&mut file, to);
        }
        text += 4 + name.len();
    }
    for name in names {
        word(&mut file, name.len());
        file.extend(name.as_bytes());
    }
    for number in [1, 4, chains + 8 - chain_at, 4, 0] {
        word(&mut file, number);
    }
    file
}

#[test]
fn names_are_compared_as_long_as_the_file_pays() {
    let parse = |count: usize, len: usize| {
        let names: Vec<_> = (0..count).map(|name| format!("{name:0len$}")).collect();
        parse(&methods(&names)).map_err(|error| error.to_string())
    };
    assert_eq!(parse(12, 30), Ok(()));
    let message = "method 9: ExecutionPlan.name is referred to more often than the size of the \
                   file allows";
    assert_eq!(parse(12, 1000), Err(message.to_owned()));
}

#[test]
fn operators_and_delegates() {
    absent(
        &plan(&[Entry(PLAN_OPERATORS, 0)]),
        OPERATOR_NAME,
        "method 0, operator 0: Operator.name is missing",
    );
    let delegate = plan(&[Entry(PLAN_DELEGATES, 0)]);
    absent(&delegate, DELEGATE_ID, "method 0, delegate 0: BackendDelegate.id is missing");
    let message = "method 0, delegate 0: BackendDelegate.processed is missing";
    absent(&delegate, DELEGATE_PROCESSED, message);
    let spec = plan(&[Entry(PLAN_DELEGATES, 0), Entry(DELEGATE_COMPILE_SPECS, 0)]);
    absent(&spec, COMPILE_SPEC_KEY, "method 0, delegate 0: CompileSpec.key is missing");
    let reference = plan(&[Entry(PLAN_DELEGATES, 0), To(DELEGATE_PROCESSED)]);
    byte(
        &reference,
        field(DATA_REFERENCE_LOCATION),
        2,
        "method 0, delegate 0: BackendDelegateDataReference.location has the unknown code 2",
    );
    let message =
        "method 0, delegate 0: BackendDelegateDataReference.index is 6, but there are 6 entries";
    every(&reference, field(DATA_REFERENCE_INDEX), le(6), message);
    let message = "method 0, delegate 0: BackendDelegateInlineData.data is missing";
    let blob = [Entry(PROGRAM_BACKEND_DELEGATE_DATA, 0)];
    without(INLINE_BLOB, &blob, INLINE_DATA_DATA, message);
    let message =
        "method 0, delegate 0: BackendDelegateDataReference.index is 0, but there are 0 entries";
    check(INLINE_BLOB, &[], Len(PROGRAM_BACKEND_DELEGATE_DATA), le(0), message);
}

#[test]
fn instructions() {
    let (call, jump, delegate) = (instruction(0), instruction(1), instruction(3));
    let (move_, free) = (instruction(4), instruction(5));
    let message = "method 0, instruction 0: KernelCall.op_index is 1, but there are 1 entries";
    every(&call, field(KERNEL_CALL_OP_INDEX), le(1), message);
    let message = "method 0, instruction 0: KernelCall.op_index is -1, but there are 1 entries";
    every(&call, field(KERNEL_CALL_OP_INDEX), le(-1), message);
    let message = "method 0, instruction 0: KernelCall.args is 18, but there are 18 entries";
    every(&call, Item(KERNEL_CALL_ARGS, 2, 4), le(18), message);
    let message = "method 0, instruction 0: KernelCall.args is missing";
    absent(&call, KERNEL_CALL_ARGS, message);
    let message =
        "method 0, instruction 3: DelegateCall.delegate_index is 2, but there are 2 entries";
    every(&delegate, field(DELEGATE_CALL_DELEGATE_INDEX), le(2), message);
    let message = "method 0, instruction 3: DelegateCall.args is 18, but there are 18 entries";
    every(&delegate, Item(DELEGATE_CALL_ARGS, 0, 4), le(18), message);
    let message = "method 0, instruction 4: MoveCall.move_from is -1, but there are 18 entries";
    every(&move_, field(MOVE_CALL_FROM), le(-1), message);
    let message = "method 0, instruction 4: MoveCall.move_to is 18, but there are 18 entries";
    every(&move_, field(MOVE_CALL_TO), le(18), message);
    let message = "method 0, instruction 4: MoveCall.move_to names value 9, which is not of the \
                   kind of the value that replaces it";
    every(&move_, field(MOVE_CALL_TO), le(9), message);
    let message = "method 0, instruction 1: JumpFalseCall.destination_instruction is 7, but there are 7 entries";
    every(&jump, field(JUMP_FALSE_DESTINATION), le(7), message);
    let message = "method 0, instruction 1: JumpFalseCall.cond_value_index names value 0, which is \
                   not a bool or a tensor of bools";
    every(&jump, field(JUMP_FALSE_CONDITION), le(0), message);
    let message =
        "method 0, instruction 5: FreeCall.value_index names value 9, which is not a tensor";
    every(&free, field(FREE_CALL_VALUE), le(9), message);
    let chain = plan(&[Entry(PLAN_CHAINS, 0), Entry(CHAIN_INSTRUCTIONS, 5)]);
    let message = "method 0, instruction 5: Instruction.instr_args_type has the unknown code 6";
    byte(&chain, field(INSTRUCTION_TYPE), 6, message);
    absent(&chain, INSTRUCTION_ARGS, "method 0, instruction 5: Instruction.instr_args is missing");
}
