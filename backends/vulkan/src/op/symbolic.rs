//! Integers that are known when the delegate runs: sizes, arithmetic, elements of inputs.

use super::{ANY, Operator};
use crate::{
    graph::Call,
    recorder::{OpResult, Recorder},
    shape::{strides, wrap_dim},
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("sym_size.int", 3, size),
    Operator::new("aten.sym_size.int", 3, size),
    Operator::new("add", 3, |r, call| arithmetic(r, call, i64::wrapping_add)),
    Operator::new("sub", 3, |r, call| arithmetic(r, call, i64::wrapping_sub)),
    Operator::new("mul", 3, |r, call| arithmetic(r, call, i64::wrapping_mul)),
    Operator::new("floordiv", 3, |r, call| arithmetic(r, call, floor_div)),
    Operator::new("lt", 3, |r, call| arithmetic(r, call, |a, b| (a < b).into())),
    Operator::new("gt", 3, |r, call| arithmetic(r, call, |a, b| (a > b).into())),
    Operator::new("ge", 3, |r, call| arithmetic(r, call, |a, b| (a >= b).into())),
    Operator::new("le", 3, |r, call| arithmetic(r, call, |a, b| (a <= b).into())),
    Operator::new("eq", 3, |r, call| arithmetic(r, call, |a, b| (a == b).into())),
    Operator::new("et_vk.select_as_symint.default", 4, select),
    Operator::new("aten._assert_scalar.default", ANY, |_, _| Ok(())),
    Operator::new("aten.sym_constrain_range_for_size.default", ANY, |_, _| Ok(())),
    Operator::new("_assert_scalar.default", ANY, |_, _| Ok(())),
    Operator::new("sym_constrain_range_for_size.default", ANY, |_, _| Ok(())),
];

fn floor_div(a: i64, b: i64) -> i64 {
    // At load, a divisor that an input holds is 0.
    if b == 0 { 0 } else { a.wrapping_div_euclid(b).wrapping_sub(i64::from(b < 0 && a % b != 0)) }
}

fn arithmetic(
    recorder: &mut Recorder<'_, '_>,
    call: &Call,
    combine: fn(i64, i64) -> i64,
) -> OpResult {
    let value = combine(recorder.int(call, 0)?, recorder.int(call, 1)?);
    recorder.set_int(call.args[2], value)
}

fn size(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let sizes = recorder.sizes(recorder.tensor(call, 0)?)?;
    let dim = wrap_dim(recorder.int(call, 1)?, sizes.len())?;
    recorder.set_int(call.args[2], sizes.get(dim).map_or(1, |size| *size as i64))
}

/// Element of an input: args tensor, dim, index, out. Other dimensions are read at index 0.
fn select(recorder: &mut Recorder<'_, '_>, call: &Call) -> OpResult {
    let tensor = recorder.tensor(call, 0)?;
    let sizes = recorder.sizes(tensor)?;
    let dim = wrap_dim(recorder.int(call, 1)?, sizes.len())?;
    let index = wrap_dim(recorder.int(call, 2)?, sizes.get(dim).copied().unwrap_or(1))?;
    if !recorder.graph.inputs.contains(&tensor) {
        return Err("reads a tensor that is no input on the host");
    }
    let at = index * strides(&sizes).get(dim).copied().unwrap_or(1);
    // At load the elements are unknown.
    let elements = recorder.host.get(&tensor);
    let value = elements.map_or(Some(0), |elements| elements.get(at).copied());
    recorder.set_int(call.args[3], value.ok_or("reads past the end of an input")?)
}

#[cfg(test)]
mod tests {
    use super::floor_div;

    #[test]
    fn division_rounds_down() {
        for (a, b, expected) in
            [(7, 2, 3), (-7, 2, -4), (7, -2, -4), (-7, -2, 3), (6, -2, -3), (1, 0, 0)]
        {
            assert_eq!(floor_div(a, b), expected, "{a} / {b}");
        }
    }
}
