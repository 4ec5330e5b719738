//! The one place where kernels, backends and nodes are put together.
fn main() {}
