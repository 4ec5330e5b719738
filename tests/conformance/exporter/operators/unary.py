"""Cases of unary elementwise operators."""

from .data import ALL, BF16, CHANNELS_LAST, F16, F32, F64, FLOATS, I32, INTS, SPECIAL, channels_last, limits

FLOAT_RESULT = ["exp", "log", "log2", "log10", "log1p", "expm1", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan", "tanh", "sigmoid", "erf",
                "acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh"]
SAME_RESULT = ["neg", "abs", "floor", "ceil", "round", "trunc", "sign", "relu"]
BOOL_RESULT = ["isnan", "isinf", "logical_not"]
LIMITED = ("tan", "sin", "cos")


def special(name):
    """Special values, without huge angles."""
    return SPECIAL[SPECIAL.abs() < 1e30] if name in LIMITED else SPECIAL


def collect(c):
    """All operators with all dtypes, then activations with parameters."""
    for name in FLOAT_RESULT + SAME_RESULT + BOOL_RESULT:
        op = name + ".out"
        for shape in [(2, 3), (), (0, 3), (33,)]:
            c(op, c.random(shape), loose=shape == (2, 3))
        c(op, special(name), note="special values")
        c.attempt(op, special(name).to(F64))
        c(op, channels_last(c.random((1, 3, 2, 2))), order=CHANNELS_LAST)
        for dtype in [F64, F16, BF16, *INTS, ALL[-1]]:
            c.attempt(op, c.random((7,), dtype))
        c.attempt(op, limits(I32))
    for dtype in [*INTS, ALL[-1]]:
        c("bitwise_not.out", c.random((2, 5), dtype))
    c("bitwise_not.out", c.random((), I32))
    c("round.out", SPECIAL.new_tensor([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997]), note="halves go to even")
    activations(c)


def activations(c):
    """gelu, leaky_relu, elu, hardtanh, clamp, glu."""
    for op, options in [
        ("gelu.out", [{}, {"approximate": "tanh"}]),
        ("leaky_relu.out", [{}, {"negative_slope": 0.2}, {"negative_slope": 0}]),
        ("elu.out", [{}, {"alpha": 0.5}, {"alpha": 1.5, "scale": 2.0, "input_scale": 0.5}]),
        ("hardtanh.out", [{}, {"min_val": 0, "max_val": 6}, {"min_val": -0.5, "max_val": 0.5}]),
    ]:
        for option in options:
            for dtype in FLOATS:
                c(op, c.random((2, 5), dtype), **option)
            c(op, SPECIAL[SPECIAL.abs() < 1e30] if op == "gelu.out" else SPECIAL, **option, note="special values")
            c(op, c.random((0, 2)), **option)
            c(op, c.random(()), **option)
            c(op, channels_last(c.random((1, 3, 2, 2))), **option, order=CHANNELS_LAST)
    for dtype in INTS:
        c.attempt("hardtanh.out", c.random((6,), dtype), min_val=-3, max_val=9)
    for eps in (None, 0.1, 0.0):
        for dtype in FLOATS:
            c("logit.out", c.random((7,), dtype, low=-0.2, high=1.2), eps, **({"atol": 2e-3} if dtype == F16 else {}))  # PyTorch rounds intermediate results
        c("logit.out", SPECIAL, eps, note="special values")
    c.attempt("logit.out", c.random((4,), I32))
    for bounds in [(-1.0, 1.0), (None, 0.5), (0, None), (-1, 2), (2.0, -2.0)]:
        c("clamp.out", c.random((2, 5)), *bounds)
        c("clamp.out", SPECIAL, *bounds, note="special values")
        c("clamp.out", c.random((4,), I32), *bounds)
        c.attempt("clamp.out", c.random((4,), F16), *bounds)
    for dtype in INTS + [BF16, F64]:
        c("clamp.out", c.random((5,), dtype), 1, 20)
    c("clamp.Tensor_out", c.random((2, 3)), c.random((3,), high=0.0), c.random((2, 1), low=0.0))
    c("clamp.Tensor_out", c.random((2, 3)), None, c.random(()))
    c("clamp.Tensor_out", c.random((2, 3)), c.random((2, 3)), None)
    c("clamp.Tensor_out", SPECIAL, c.random(()), SPECIAL.flip(0), note="special values")
    c("clamp.Tensor_out", c.random((4,), I32), c.random((4,)), None, note="promotes to f32")
    c("clamp.Tensor_out", c.random((4,), I32), c.random((4,), I32), c.random((1,), ALL[5]))
    for dim in (0, 1, -1):
        for dtype in (F32, F64, F16, BF16):
            c("glu.out", c.random((4, 6), dtype), dim)
