//! Last-token slicing: programs that return one row compute only the rows that they need.

use std::cell::Cell;

use afferent_core::{
    Arg, Args, Error, Kernel, KernelContext, KernelLists, OpPattern, Tensor, find_kernel,
};
use afferent_kernels::KERNELS;
use afferent_runtime::{Input, Output};

use crate::{data, program::Verdict, programs::read};

thread_local! {
    /// Rows that `sigmoid` computed since the last reset.
    static COMPUTED_ROWS: Cell<usize> = const { Cell::new(0) };
    /// True if the next call of `sigmoid` fails.
    static FAILS_NEXT: Cell<bool> = const { Cell::new(false) };
}

/// Kernels with a `sigmoid` that counts rows.
const COUNTING: KernelLists<'static> = &[
    &[&[Kernel::new("aten::sigmoid.out", &[Arg::Tensor, Arg::Out], counting_sigmoid)
        .with_pattern(OpPattern::Elementwise)]],
    KERNELS[0],
];

/// Counts the rows of its input and calls the portable `sigmoid`.
fn counting_sigmoid(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    COMPUTED_ROWS.set(COMPUTED_ROWS.get() + args.tensor(0)?.sizes()[1]);
    if FAILS_NEXT.take() {
        return Err(Error::Canceled);
    }
    (find_kernel(KERNELS, "aten::sigmoid", "out").unwrap().run)(cx, args)
}

#[test]
fn unused_rows_are_not_computed() {
    // Rows of the cases: 9, 1 and 4; for `first_row` 5 and 5; for `second_row` 9, 2 and 4.
    for (name, rows) in [
        ("last_row", 3),
        ("last_row_and_inner", 14),
        ("last_row_and_all", 14),
        ("last_row_of_two", 14),
        ("last_row_mixed", 14),
        ("first_row", 2),
        ("second_row", 15),
    ] {
        let folder = data().join("programs").join(name);
        let Verdict::Ran(2.., failures) = read(&folder).check(&folder, COUNTING) else {
            panic!("{name} lacks a kernel or cases");
        };
        assert!(failures.is_empty(), "{name}: {failures:?}");
        assert_eq!(COMPUTED_ROWS.take(), rows, "{name}");
    }
}

#[test]
fn an_error_does_not_affect_the_next_run() {
    let folder = data().join("programs/last_row");
    let mut model = read(&folder).open(&folder, COUNTING).unwrap();
    let numbers: Vec<f32> = (0..24_u8).map(|at| (f32::from(at) * 0.7).sin()).collect();
    let x = Tensor::new(&[1, 6, 4], &numbers).unwrap();
    let mut run = |fails| {
        FAILS_NEXT.set(fails);
        let outputs = model.run("forward", &[Input::Tensor(x.view())]).ok()?;
        let Ok(Output::Tensor(y)) = outputs.get(0) else { panic!("the output is not a tensor") };
        Some(y.data::<f32>().unwrap().to_vec())
    };
    let expected = run(false);
    assert!(expected.is_some());
    assert_eq!(run(true), None);
    assert_eq!(run(false), expected);
    assert_eq!(COMPUTED_ROWS.take(), 3);
}
