"""Operator cases, by family."""

from . import compare, binary, convolution, create, image, index, llama, matrix, norm, pad, pool, reduce, select, shape, sweep, unary

FAMILIES = [unary, binary, compare, matrix, convolution, pool, reduce, norm, index, shape, create, image, select, pad, sweep, llama]
