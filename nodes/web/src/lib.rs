//! The browser as a device: microphone, speaker and camera of a user with an open page, on this
//! machine or on a phone.
//!
//! | node | purpose |
//! |---|---|
//! | [`WebCamera`] | images of a browser's camera |
//! | [`WebMicrophone`] | sound of a browser's microphone |
//! | [`WebSpeaker`] | sound that a browser plays |
//!
//! Begin with `web_microphone.rs`. `web.rs` has [`Web`], the page that all nodes of a program share;
//! `device.rs` connects a node with its client. The page is `page/index.html` with its script and style.

mod device;
mod web;
mod web_camera;
mod web_microphone;
mod web_speaker;

pub use web::{LiveView, Web, WebOptions};
pub use web_camera::{WebCamera, WebCameraParams};
pub use web_microphone::{WebMicrophone, WebMicrophoneParams};
pub use web_speaker::{WebSpeaker, WebSpeakerParams};

/// The nodes of this crate.
pub const NODES: &[afferent_graph::NodeEntry] = &[
    afferent_graph::NodeDef::of::<WebCamera>,
    afferent_graph::NodeDef::of::<WebMicrophone>,
    afferent_graph::NodeDef::of::<WebSpeaker>,
];
