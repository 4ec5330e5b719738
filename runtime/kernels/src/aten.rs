//! Operators of the namespace `aten`, one file per operator.
//!
//! Each file begins with the overloads that it implements, their arguments, the formula, the
//! tolerance against PyTorch, the errors and the source. The headers use these terms:
//!
//! - *Real tensor*: a tensor of an integer, floating-point or `bool` dtype. *Half types*: `f16` and
//!   `bf16`. *Scalar*, *int* and *double*: arguments that are not tensors.
//! - *Common dtype*: result of type promotion, `torch.result_type`. *Castable from*: as in
//!   `torch.can_cast`, a floating-point result needs a floating-point output.
//! - *As `x`*: the dtype of `x` in the column "type", its sizes in the column "shape".
//! - *Scratch*: memory that the kernel requests from its context.
//!
//! Inputs and outputs may have any dim order unless stated. A kernel resizes its outputs. Error
//! indices are positions in the argument list of the schema.

use afferent_core::Kernel;

mod abs;
mod acos;
mod acosh;
mod adaptive_avg_pool1d;
mod adaptive_avg_pool2d;
mod adaptive_avg_pool3d;
mod adaptive_max_pool2d;
mod adaptive_max_pool3d;
mod add;
mod addmm;
mod amax;
mod amin;
mod any;
mod arange;
mod argmax;
mod argmin;
mod as_strided_copy;
mod asin;
mod asinh;
mod atan;
mod atan2;
mod atanh;
mod avg_pool1d;
mod avg_pool2d;
mod avg_pool3d;
mod bitwise_and;
mod bitwise_left_shift;
mod bitwise_not;
mod bitwise_or;
mod bitwise_right_shift;
mod bitwise_xor;
mod bmm;
mod bucketize;
mod cat;
mod cdist_forward;
mod ceil;
mod clamp;
mod clone;
mod complex;
mod conj_physical;
mod constant_pad_nd;
mod convolution;
mod convolution_backward;
mod copy;
mod cos;
mod cosh;
mod cummax;
mod cumprod;
mod cumsum;
mod diagonal_copy;
mod div;
mod elu;
mod embedding;
mod embedding_bag;
mod empty;
mod eq;
mod erf;
mod erfinv;
mod exp;
mod exp2;
mod expand_copy;
mod expm1;
mod fft_c2c;
mod fft_c2r;
mod fft_r2c;
mod fill;
mod flip;
mod floor;
mod floor_divide;
mod fmod;
mod full;
mod gather;
mod ge;
mod gelu;
mod glu;
mod grid_sampler_2d;
mod gt;
mod hardtanh;
mod histc;
mod hypot;
mod index;
mod index_put;
mod index_select;
mod isinf;
mod isnan;
mod kthvalue;
mod le;
mod leaky_relu;
mod lgamma;
mod linalg_det;
mod linear;
mod log;
mod log10;
mod log1p;
mod log2;
mod log_softmax;
mod logical_and;
mod logical_not;
mod logical_or;
mod logical_xor;
mod logit;
mod lt;
mod masked_fill;
mod masked_scatter;
mod masked_select;
mod max;
mod max_pool2d_with_indices;
mod max_pool2d_with_indices_backward;
mod max_pool3d_with_indices;
mod maximum;
mod mean;
mod median;
mod min;
mod minimum;
mod mm;
mod mode;
mod mul;
mod narrow_copy;
mod native_batch_norm_legit;
mod native_batch_norm_legit_no_training;
mod native_dropout;
mod native_group_norm;
mod native_layer_norm;
mod ne;
mod neg;
mod nonzero;
mod pdist_forward;
mod permute_copy;
mod pixel_shuffle;
mod pixel_unshuffle;
mod pow;
mod prod;
mod rand;
mod reciprocal;
mod reflection_pad;
mod relu;
mod remainder;
mod repeat;
mod repeat_interleave;
mod replication_pad;
mod roll;
mod round;
mod rsqrt;
mod rsub;
mod scalar_tensor;
mod scatter;
mod scatter_add;
mod scatter_reduce;
mod searchsorted;
mod select_copy;
mod select_scatter;
mod sigmoid;
mod sign;
mod sin;
mod sinh;
mod slice_copy;
mod slice_scatter;
mod softmax;
mod sort;
mod split_copy;
mod split_with_sizes_copy;
mod sqrt;
mod squeeze_copy;
mod stack;
mod sub;
mod sum;
mod t_copy;
mod tan;
mod tanh;
mod to_copy;
mod topk;
mod transpose_copy;
mod tril;
mod tril_indices;
mod trunc;
mod unbind_copy;
mod unfold_copy;
mod unique2;
mod unsqueeze_copy;
mod upsample_bilinear2d;
mod upsample_bilinear2d_aa;
mod upsample_nearest2d;
mod var;
mod view_as_complex_copy;
mod view_as_real_copy;
mod view_copy;
mod where_self;
mod zeros;

/// Kernels of the namespace, one slice per file, in alphabetical order.
pub(crate) const KERNELS: &[&[Kernel]] = &[
    abs::KERNELS,
    acos::KERNELS,
    acosh::KERNELS,
    adaptive_avg_pool1d::KERNELS,
    adaptive_avg_pool2d::KERNELS,
    adaptive_avg_pool3d::KERNELS,
    adaptive_max_pool2d::KERNELS,
    adaptive_max_pool3d::KERNELS,
    add::KERNELS,
    addmm::KERNELS,
    amax::KERNELS,
    amin::KERNELS,
    any::KERNELS,
    arange::KERNELS,
    argmax::KERNELS,
    argmin::KERNELS,
    as_strided_copy::KERNELS,
    asin::KERNELS,
    asinh::KERNELS,
    atan::KERNELS,
    atan2::KERNELS,
    atanh::KERNELS,
    avg_pool1d::KERNELS,
    avg_pool2d::KERNELS,
    avg_pool3d::KERNELS,
    bitwise_and::KERNELS,
    bitwise_left_shift::KERNELS,
    bitwise_not::KERNELS,
    bitwise_or::KERNELS,
    bitwise_right_shift::KERNELS,
    bitwise_xor::KERNELS,
    bmm::KERNELS,
    bucketize::KERNELS,
    cat::KERNELS,
    cdist_forward::KERNELS,
    ceil::KERNELS,
    clamp::KERNELS,
    clone::KERNELS,
    complex::KERNELS,
    conj_physical::KERNELS,
    constant_pad_nd::KERNELS,
    convolution::KERNELS,
    convolution_backward::KERNELS,
    copy::KERNELS,
    cos::KERNELS,
    cosh::KERNELS,
    cummax::KERNELS,
    cumprod::KERNELS,
    cumsum::KERNELS,
    diagonal_copy::KERNELS,
    div::KERNELS,
    elu::KERNELS,
    embedding::KERNELS,
    embedding_bag::KERNELS,
    empty::KERNELS,
    eq::KERNELS,
    erf::KERNELS,
    erfinv::KERNELS,
    exp::KERNELS,
    exp2::KERNELS,
    expand_copy::KERNELS,
    expm1::KERNELS,
    fft_c2c::KERNELS,
    fft_c2r::KERNELS,
    fft_r2c::KERNELS,
    fill::KERNELS,
    flip::KERNELS,
    floor::KERNELS,
    floor_divide::KERNELS,
    fmod::KERNELS,
    full::KERNELS,
    gather::KERNELS,
    ge::KERNELS,
    gelu::KERNELS,
    glu::KERNELS,
    grid_sampler_2d::KERNELS,
    gt::KERNELS,
    hardtanh::KERNELS,
    histc::KERNELS,
    hypot::KERNELS,
    index::KERNELS,
    index_put::KERNELS,
    index_select::KERNELS,
    isinf::KERNELS,
    isnan::KERNELS,
    kthvalue::KERNELS,
    le::KERNELS,
    leaky_relu::KERNELS,
    lgamma::KERNELS,
    linalg_det::KERNELS,
    linear::KERNELS,
    log::KERNELS,
    log10::KERNELS,
    log1p::KERNELS,
    log2::KERNELS,
    log_softmax::KERNELS,
    logical_and::KERNELS,
    logical_not::KERNELS,
    logical_or::KERNELS,
    logical_xor::KERNELS,
    logit::KERNELS,
    lt::KERNELS,
    masked_fill::KERNELS,
    masked_scatter::KERNELS,
    masked_select::KERNELS,
    max::KERNELS,
    max_pool2d_with_indices::KERNELS,
    max_pool2d_with_indices_backward::KERNELS,
    max_pool3d_with_indices::KERNELS,
    maximum::KERNELS,
    mean::KERNELS,
    median::KERNELS,
    min::KERNELS,
    minimum::KERNELS,
    mm::KERNELS,
    mode::KERNELS,
    mul::KERNELS,
    narrow_copy::KERNELS,
    native_batch_norm_legit::KERNELS,
    native_batch_norm_legit_no_training::KERNELS,
    native_dropout::KERNELS,
    native_group_norm::KERNELS,
    native_layer_norm::KERNELS,
    ne::KERNELS,
    neg::KERNELS,
    nonzero::KERNELS,
    pdist_forward::KERNELS,
    permute_copy::KERNELS,
    pixel_shuffle::KERNELS,
    pixel_unshuffle::KERNELS,
    pow::KERNELS,
    prod::KERNELS,
    rand::KERNELS,
    reciprocal::KERNELS,
    reflection_pad::KERNELS,
    relu::KERNELS,
    remainder::KERNELS,
    repeat::KERNELS,
    repeat_interleave::KERNELS,
    replication_pad::KERNELS,
    roll::KERNELS,
    round::KERNELS,
    rsqrt::KERNELS,
    rsub::KERNELS,
    scalar_tensor::KERNELS,
    scatter::KERNELS,
    scatter_add::KERNELS,
    scatter_reduce::KERNELS,
    searchsorted::KERNELS,
    select_copy::KERNELS,
    select_scatter::KERNELS,
    sigmoid::KERNELS,
    sign::KERNELS,
    sin::KERNELS,
    sinh::KERNELS,
    slice_copy::KERNELS,
    slice_scatter::KERNELS,
    softmax::KERNELS,
    sort::KERNELS,
    split_copy::KERNELS,
    split_with_sizes_copy::KERNELS,
    sqrt::KERNELS,
    squeeze_copy::KERNELS,
    stack::KERNELS,
    sub::KERNELS,
    sum::KERNELS,
    t_copy::KERNELS,
    tan::KERNELS,
    tanh::KERNELS,
    to_copy::KERNELS,
    topk::KERNELS,
    transpose_copy::KERNELS,
    tril::KERNELS,
    tril_indices::KERNELS,
    trunc::KERNELS,
    unbind_copy::KERNELS,
    unfold_copy::KERNELS,
    unique2::KERNELS,
    unsqueeze_copy::KERNELS,
    upsample_bilinear2d::KERNELS,
    upsample_bilinear2d_aa::KERNELS,
    upsample_nearest2d::KERNELS,
    var::KERNELS,
    view_as_complex_copy::KERNELS,
    view_as_real_copy::KERNELS,
    view_copy::KERNELS,
    where_self::KERNELS,
    zeros::KERNELS,
];
