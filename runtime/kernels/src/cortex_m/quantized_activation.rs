//! `cortex_m::quantized_activation.out`: activation by a table.
//!
//! | argument | type      | shape        |
//! |----------|-----------|--------------|
//! | `input`  | i8 tensor | any          |
//! | `lut`    | i8 tensor | 256 elements |
//! | `out`    | i8 tensor | as `input`   |
//!
//! `lut[x + 128]`. The exporter computes the table of a sigmoid, a hyperbolic tangent and so on.
//! Exact.
//! Errors: another length of the table, other dtypes or memory orders.
//! Source: ExecuTorch `op_quantized_activation.cpp` of the Cortex-M backend.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::int8::arguments::{check_int8, elements, invalid, same_order};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "cortex_m::quantized_activation.out",
    &[Arg::Tensor, Arg::Tensor, Arg::Out],
    activation,
)];

fn activation(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let data = elements(input, 0)?;
    let table: &[i8; 256] = match elements(args.tensor(1)?, 1)?.try_into() {
        Ok(table) => table,
        Err(_) => return Err(invalid(1, "256 elements")),
    };
    let mut out = args.out(2)?;
    check_int8(&out, 2)?;
    if !same_order(input.sizes(), input.dim_order(), out.dim_order()) {
        return Err(invalid(2, "the dim order of the input"));
    }
    out.resize(input.sizes())?;
    for (out, &x) in out.data_mut::<i8>()?.iter_mut().zip(data) {
        *out = table[usize::from((x as u8) ^ 0x80)];
    }
    Ok(())
}
