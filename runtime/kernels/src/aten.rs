//! The operators of the namespace `aten`.

use afferent_core::Kernel;

mod abs;
mod acos;
mod acosh;
mod add;
mod asin;
mod asinh;
mod atan;
mod atan2;
mod atanh;
mod bitwise_and;
mod bitwise_left_shift;
mod bitwise_not;
mod bitwise_or;
mod bitwise_right_shift;
mod bitwise_xor;
mod ceil;
mod clamp;
mod conj_physical;
mod cos;
mod cosh;
mod div;
mod elu;
mod eq;
mod erf;
mod exp;
mod exp2;
mod expm1;
mod fill;
mod floor;
mod floor_divide;
mod fmod;
mod ge;
mod gelu;
mod glu;
mod gt;
mod hardtanh;
mod hypot;
mod isinf;
mod isnan;
mod le;
mod leaky_relu;
mod log;
mod log10;
mod log1p;
mod log2;
mod logical_and;
mod logical_not;
mod logical_or;
mod logical_xor;
mod logit;
mod lt;
mod masked_fill;
mod maximum;
mod minimum;
mod mul;
mod native_dropout;
mod ne;
mod neg;
mod pow;
mod reciprocal;
mod relu;
mod remainder;
mod round;
mod rsqrt;
mod rsub;
mod sigmoid;
mod sign;
mod sin;
mod sinh;
mod sqrt;
mod sub;
mod tan;
mod tanh;
mod trunc;
mod where_self;

/// One slice a file, alphabetical.
pub(crate) const KERNELS: &[&[Kernel]] = &[
    abs::KERNELS,
    acos::KERNELS,
    acosh::KERNELS,
    add::KERNELS,
    asin::KERNELS,
    asinh::KERNELS,
    atan::KERNELS,
    atan2::KERNELS,
    atanh::KERNELS,
    bitwise_and::KERNELS,
    bitwise_left_shift::KERNELS,
    bitwise_not::KERNELS,
    bitwise_or::KERNELS,
    bitwise_right_shift::KERNELS,
    bitwise_xor::KERNELS,
    ceil::KERNELS,
    clamp::KERNELS,
    conj_physical::KERNELS,
    cos::KERNELS,
    cosh::KERNELS,
    div::KERNELS,
    elu::KERNELS,
    eq::KERNELS,
    erf::KERNELS,
    exp::KERNELS,
    exp2::KERNELS,
    expm1::KERNELS,
    fill::KERNELS,
    floor::KERNELS,
    floor_divide::KERNELS,
    fmod::KERNELS,
    ge::KERNELS,
    gelu::KERNELS,
    glu::KERNELS,
    gt::KERNELS,
    hardtanh::KERNELS,
    hypot::KERNELS,
    isinf::KERNELS,
    isnan::KERNELS,
    le::KERNELS,
    leaky_relu::KERNELS,
    log::KERNELS,
    log10::KERNELS,
    log1p::KERNELS,
    log2::KERNELS,
    logical_and::KERNELS,
    logical_not::KERNELS,
    logical_or::KERNELS,
    logical_xor::KERNELS,
    logit::KERNELS,
    lt::KERNELS,
    masked_fill::KERNELS,
    maximum::KERNELS,
    minimum::KERNELS,
    mul::KERNELS,
    native_dropout::KERNELS,
    ne::KERNELS,
    neg::KERNELS,
    pow::KERNELS,
    reciprocal::KERNELS,
    relu::KERNELS,
    remainder::KERNELS,
    round::KERNELS,
    rsqrt::KERNELS,
    rsub::KERNELS,
    sigmoid::KERNELS,
    sign::KERNELS,
    sin::KERNELS,
    sinh::KERNELS,
    sqrt::KERNELS,
    sub::KERNELS,
    tan::KERNELS,
    tanh::KERNELS,
    trunc::KERNELS,
    where_self::KERNELS,
];
