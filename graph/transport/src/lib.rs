//! Edges across processes.
pub mod frame;
pub mod link;
#[cfg(target_os = "linux")]
pub mod local;
pub mod window;
