//! Files that may contain `unsafe`, with reasons.

use crate::{
    code::{code, has_word},
    tree,
};

/// Files with `unsafe`, and the reason.
const LISTED: &[(&str, &str)] = &[
    ("graph/core/src/packet/cell.rs", "counts references to a type-erased value"),
    ("graph/engine/src/sys/time_slice.rs", "makes two system calls that no library offers"),
    ("graph/engine/tests/allocation.rs", "counts what a running graph allocates"),
    ("tools/bench/peers/src/iceoryx_process.rs", "sends memory that it has not written whole"),
    ("tests/conformance/src/trusted.rs", "loads a trusted program"),
    ("graph/transport/src/local.rs", "maps memory that another process writes"),
    ("nodes/device/src/camera/abi.rs", "calls the driver of a camera"),
    ("nodes/device/src/camera/v4l2.rs", "maps memory of the driver of a camera"),
    ("mcu/firmware/nrf52840/src/main.rs", "loads the program of the image"),
    ("mcu/firmware/qemu/src/main.rs", "loads the program of the image"),
    ("mcu/firmware/qemu/src/sound_file.rs", "calls the debugger of the emulator"),
    ("mcu/firmware/qemu/src/uart.rs", "writes registers"),
    ("mcu/device/src/flash_network.rs", "loads the program of a signed image"),
    ("mcu/device/tests/decisions.rs", "loads a trusted program"),
    ("runtime/core/src/args.rs", "lends several tensors of one table at a time"),
    ("runtime/core/src/call.rs", "builds the tables that `Args` reads"),
    ("runtime/core/src/kernel.rs", "`Workers` is an unsafe trait: kernels rely on its contract"),
    ("runtime/core/src/slot.rs", "accesses planned memory through pointers checked at load"),
    ("runtime/executor/src/arena.rs", "turns bytes of the caller into slices of other types"),
    ("runtime/executor/src/heap.rs", "methods keep addresses of memory that a heap owns"),
    ("runtime/executor/src/input.rs", "tensors borrow memory of the caller during a run"),
    ("runtime/executor/src/input_alias.rs", "reads the tensors of a method that does not run yet"),
    ("runtime/executor/src/last_token_slicing.rs", "changes tensors between instructions"),
    ("runtime/executor/src/load.rs", "assigns planned memory to tensors"),
    ("runtime/executor/src/method.rs", "lends the tensors of one table to kernels and callers"),
    ("runtime/executor/src/model/file_bytes.rs", "maps files, which must not change"),
    ("runtime/executor/src/model/huge_pages.rs", "splits a mapping into blocks"),
    ("runtime/executor/src/model/shared_buffers.rs", "methods of one model share planned memory"),
    ("runtime/executor/src/planned_buffer.rs", "tensors of a method share its buffers"),
    ("runtime/executor/src/residence.rs", "changes the tensors of a method that does not run"),
    ("runtime/executor/src/resolve.rs", "reads the tensors of a method that does not run yet"),
    ("runtime/executor/src/trusted.rs", "lends the tensors of one table to kernels and callers"),
    ("runtime/executor/src/trusted/file.rs", "reads a trusted file through pointers"),
    ("runtime/executor/src/trusted/load.rs", "builds tables in memory of the caller"),
    ("runtime/executor/src/views.rs", "reads and clears the tensors of a method between its runs"),
    ("runtime/gpu/src/pipeline_file.rs", "gives the driver the shaders that it has compiled"),
    ("runtime/kernels/src/shared/int8/depthwise.rs", "reads channels through checked offsets"),
    ("runtime/kernels/src/shared/int8/dsp.rs", "calls instructions that only some processors have"),
    ("runtime/kernels/src/shared/int8/mve.rs", "calls instructions that only some processors have"),
    ("runtime/kernels/src/shared/int8/product/mve.rs", "reads rows through checked pointers"),
    (
        "runtime/kernels/src/shared/int8/sum/mve.rs",
        "calls instructions that only some processors have",
    ),
    ("runtime/simd/src/conv/depthwise_nchw.rs", "loads through pointers checked per row"),
    ("runtime/simd/src/conv/depthwise_nhwc.rs", "loads through pointers checked per image"),
    ("runtime/simd/src/conv/depthwise_nhwc_q8.rs", "reads channels through checked offsets"),
    ("runtime/simd/src/conv/winograd/conv_f32.rs", "reads and writes tiles by checked pointers"),
    ("runtime/simd/src/conv/winograd/conv_q8.rs", "reads and writes tiles by checked pointers"),
    ("runtime/simd/src/conv/winograd/strip.rs", "writes tiles of an image from several threads"),
    ("runtime/simd/src/epilogue.rs", "stores through pointers that the kernel has bounds-checked"),
    ("runtime/simd/src/fft/batch.rs", "scratch memory is used as vectors"),
    ("runtime/simd/src/gemm/tile.rs", "loads and stores through checked pointers"),
    ("runtime/simd/src/igemm/gemv.rs", "loads operands through checked pointers"),
    ("runtime/simd/src/igemm/tile.rs", "loads and stores through checked pointers"),
    ("runtime/simd/src/igemm/weights.rs", "loads weights through checked pointers"),
    ("runtime/simd/src/image/bilinear.rs", "loads windows of rows at checked offsets"),
    ("runtime/simd/src/image/gather.rs", "loads windows of planes at checked offsets"),
    ("runtime/simd/src/isa/avx2.rs", "calls instructions that only some processors have"),
    ("runtime/simd/src/isa/avx512.rs", "calls instructions that only some processors have"),
    ("runtime/simd/src/isa/neon.rs", "loads and stores through pointers"),
    ("runtime/simd/src/isa/scalar.rs", "loads and stores through pointers"),
    ("runtime/simd/src/parallel.rs", "gives each task its own part of a slice"),
    ("runtime/simd/src/pool.rs", "lends the work of a call to other threads until it returns"),
    ("runtime/simd/src/qgemm/q4.rs", "loads and stores through checked pointers"),
    ("runtime/simd/src/qgemm/q8/tile.rs", "loads and stores through checked pointers"),
    ("runtime/simd/src/qgemm/requantize.rs", "stores through bounds-checked pointers"),
    ("runtime/simd/src/transpose.rs", "loads and stores through pointers checked per matrix"),
    ("runtime/simd/src/vector.rs", "declares loads and stores through pointers"),
    ("tests/mcu/src/int8.rs", "names the section of a large program"),
    ("tests/mcu/src/marks.rs", "names two functions for an emulator"),
    ("tests/mcu/src/network.rs", "trusts a program of the image"),
    ("tools/bench/src/allocations.rs", "counts what a measured run allocates"),
];

#[test]
fn unsafe_code_is_listed() {
    let files = tree::texts(".rs").filter_map(|(path, text)| fault(path, text));
    let absent = LISTED.iter().filter(|(listed, _)| !tree::paths().any(|path| path == *listed));
    let absent = absent.map(|(path, _)| format!("{path}: listed in {}, but absent", file!()));
    tree::expect_none(files.chain(absent));
}

fn fault(path: &str, text: &str) -> Option<String> {
    let listed = LISTED.iter().any(|(listed, _)| *listed == path);
    match (listed, has_word(&code(text), "unsafe")) {
        (false, true) => Some(format!("{path}: has `unsafe`, but is not listed in {}", file!())),
        (true, false) => Some(format!("{path}: listed in {}, but has no `unsafe`", file!())),
        _ => None,
    }
}

#[test]
fn unlisted_and_outdated_files_are_found() {
    assert!(fault("a.rs", "fn f() { unsafe { g() } }").is_some());
    assert_eq!(fault("a.rs", "#![forbid(unsafe_code)] // no unsafe here"), None);
    assert!(fault(LISTED[0].0, "fn f() {}").is_some());
    assert_eq!(fault(LISTED[0].0, "unsafe fn f() {}"), None);
}
