//! The camera of a browser.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::Image;
use serde_json::json;

use crate::{
    device::Kind,
    web::{Offered, Web},
    web_microphone::POLL,
};

params! {
    /// Settings of [`WebCamera`].
    pub struct WebCameraParams {
        /// Wanted width; the browser takes the nearest mode of the camera.
        pub width: u32 = "640", range 16.0..=4096.0, unit "px";
        /// Wanted height.
        pub height: u32 = "480", range 16.0..=4096.0, unit "px";
        /// Images per second.
        pub fps: f64 = "15", range 0.1..=60.0, unit "Hz";
        /// Quality of the JPEG images that the browser sends.
        pub quality: u32 = "80", range 1.0..=100.0;
        /// The camera that faces the user, of a phone; otherwise the one on its back.
        pub front: bool = "false";
        /// Coordinate frame of the images.
        pub frame_id: String = "camera";
    }
}

/// Captures the camera of a browser: of a user that opens the page of the program, and presses
/// the button. See `web_microphone` for what browsers demand.
///
/// Images that arrive faster than they are taken are dropped: only the newest is sent. One that is no
/// JPEG is skipped with a warning.
///
/// Latency: that of the browser and the network.
pub struct WebCamera {
    offered: Offered,
    frame_id: String,
    last: Timestamp,
    /// Images that could not be read.
    damaged: u64,
}

ports! {
    impl WebCamera {
        /// Images in color.
        out IMAGES: Image;
    }
}

impl Node for WebCamera {
    type Params = WebCameraParams;

    const NAME: &'static str = "web_camera";
    const SUMMARY: &'static str = "Captures the camera of a browser.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "that of the browser and the network";

    fn open(params: WebCameraParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let settings = json!({
            "width": params.width,
            "height": params.height,
            "fps": params.fps,
            "quality": f64::from(params.quality) / 100.0,
            "front": params.front,
        });
        let offered = cx.services.need::<Web>()?.offer(&cx.name, Kind::Camera, settings)?;
        let frame_id = params.frame_id;
        Ok(Self { offered, frame_id, last: Timestamp(i64::MIN), damaged: 0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(jpeg) = self.offered.arrivals.try_iter().last() {
            let mut image = cx.loan(Self::IMAGES);
            match image.read_jpeg(None, &jpeg) {
                Ok(()) => {
                    image.frame_id.clone_from(&self.frame_id);
                    self.last = cx.now().max(self.last);
                    cx.send_at(Self::IMAGES, self.last, image);
                }
                Err(error) => {
                    self.damaged += 1;
                    if self.damaged.is_power_of_two() {
                        let damaged = self.damaged;
                        tracing::warn!("{damaged} images of a browser could not be read: {error}");
                    }
                }
            }
        }
        cx.resume_at(cx.now() + POLL);
        Ok(())
    }
}
