//! Programs of which one row is wanted: how many rows are computed on the way.

use std::cell::Cell;

use afferent_core::{
    Arg, Args, Error, Kernel, KernelContext, KernelLists, OpPattern, Tensor, find_kernel,
};
use afferent_kernels::KERNELS;
use afferent_runtime::{Input, Output};

use crate::{data, program::Verdict, programs::read};

thread_local! {
    /// Rows that `sigmoid` has seen since it was asked.
    static SEEN: Cell<usize> = const { Cell::new(0) };
    /// Whether its next call fails.
    static FAILS: Cell<bool> = const { Cell::new(false) };
}

/// A `sigmoid` that counts rows, before all other kernels.
const COUNTING: KernelLists<'static> = &[
    &[&[Kernel::new("aten::sigmoid.out", &[Arg::Tensor, Arg::Out], counting)
        .with_pattern(OpPattern::Elementwise)]],
    KERNELS[0],
];

fn counting(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    SEEN.set(SEEN.get() + args.tensor(0)?.sizes()[1]);
    if FAILS.take() {
        return Err(Error::Canceled);
    }
    (find_kernel(KERNELS, "aten::sigmoid", "out").unwrap().run)(cx, args)
}

#[test]
fn rows_that_nobody_reads_are_not_computed() {
    // Cases have 9, 1 and 4 rows; those of the first row 5 and 5, those of the second 9, 2 and 4.
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
        let Verdict::Ran(2.., faults) = read(&folder).check(&folder, COUNTING) else {
            panic!("{name} runs");
        };
        assert!(faults.is_empty(), "{name}: {faults:?}");
        assert_eq!(SEEN.take(), rows, "{name}");
    }
}

#[test]
fn all_rows_are_there_again_after_an_error() {
    let folder = data().join("programs/last_row");
    let mut model = read(&folder).open(&folder, COUNTING).unwrap();
    let numbers: Vec<f32> = (0..24_u8).map(|at| (f32::from(at) * 0.7).sin()).collect();
    let x = Tensor::new(&[1, 6, 4], &numbers).unwrap();
    let mut run = |fails| {
        FAILS.set(fails);
        let outputs = model.run("forward", &[Input::Tensor(x.view())]).ok()?;
        let Ok(Output::Tensor(y)) = outputs.get(0) else { panic!("a tensor") };
        Some(y.data::<f32>().unwrap().to_vec())
    };
    let expected = run(false);
    assert!(expected.is_some());
    assert_eq!(run(true), None);
    assert_eq!(run(false), expected);
    assert_eq!(SEEN.take(), 3);
}
