"""The operator cases, by family."""

from . import compare, binary, convolution, create, image, index, llama, matrix, norm, pool, reduce, shape, unary

FAMILIES = [unary, binary, compare, matrix, convolution, pool, reduce, norm, index, shape, create, image, llama]
