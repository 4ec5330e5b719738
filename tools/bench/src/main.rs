//! Prints every figure that the project claims, with its peers in the same run.
fn main() {}
