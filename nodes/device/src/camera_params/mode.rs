//! Choice of the format that a camera delivers.

use afferent_messages::PixelFormat;

use crate::CameraMode;

/// Form of the images of a camera.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Pixels as they are.
    Pixels(PixelFormat),
    /// JPEG images, which are decoded.
    Jpeg,
}

/// Luminance of 8 bits.
pub(crate) const MONO8: [u8; 4] = 0x5945_5247_u32.to_le_bytes();

/// Forms by their four characters. Of those that reach the rate, the first one is chosen: fewer bytes
/// and no decoding.
const FORMS: [([u8; 4], Form); 10] = [
    (*b"NV12", Form::Pixels(PixelFormat::Nv12)),
    (*b"YU12", Form::Pixels(PixelFormat::I420)),
    (*b"YUYV", Form::Pixels(PixelFormat::Yuyv)),
    (*b"UYVY", Form::Pixels(PixelFormat::Uyvy)),
    (*b"RGB3", Form::Pixels(PixelFormat::Rgb8)),
    (*b"BGR3", Form::Pixels(PixelFormat::Bgr8)),
    (MONO8, Form::Pixels(PixelFormat::Mono8)),
    (*b"Z16 ", Form::Pixels(PixelFormat::Depth16)),
    (*b"MJPG", Form::Jpeg),
    (*b"JPEG", Form::Jpeg),
];

/// Form with these four characters.
pub(crate) fn form(fourcc: [u8; 4]) -> Option<Form> {
    FORMS.iter().find(|(known, _)| *known == fourcc).map(|(_, form)| *form)
}

/// What the parameters of the node ask for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Any if absent.
    pub(crate) form: Option<Form>,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) fps: f64,
}

impl Wanted {
    fn accepts(&self, form: Form) -> bool {
        self.form.is_none_or(|wanted| wanted == form)
    }

    /// True if `mode` has the size, or is the largest of a range that includes it.
    fn has_size(&self, mode: &CameraMode) -> bool {
        match mode.is_limit {
            true => self.width <= mode.width && self.height <= mode.height,
            false => (self.width, self.height) == (mode.width, mode.height),
        }
    }
}

/// Rates below the wanted one by less than this part are the wanted one: 29.97 of 30.
const RATE_TOLERANCE: f64 = 0.05;

/// Four characters of the format to choose among `modes`.
///
/// # Errors
/// Formats that the camera offers, for an error message.
pub(crate) fn choose(modes: &[CameraMode], wanted: &Wanted) -> Result<[u8; 4], String> {
    let known = |mode: &&CameraMode| form(mode.fourcc).is_some_and(|form| wanted.accepts(form));
    let fitting: Vec<&CameraMode> =
        modes.iter().filter(known).filter(|m| wanted.has_size(m)).collect();
    // A driver that says nothing of rates is believed.
    let rate = |mode: &CameraMode| if mode.fps == 0.0 { f64::INFINITY } else { mode.fps };
    let is_fast = |mode: &&&CameraMode| rate(mode) >= wanted.fps * (1.0 - RATE_TOLERANCE);
    let rank = |mode: &&CameraMode| FORMS.iter().position(|(known, _)| *known == mode.fourcc);
    let fast = fitting.iter().filter(is_fast).min_by_key(|mode| rank(mode));
    let fastest = || fitting.iter().max_by(|one, other| rate(one).total_cmp(&rate(other)));
    match fast.or_else(fastest) {
        Some(mode) => Ok(mode.fourcc),
        None => Err(refusal(modes, wanted)),
    }
}

/// Says that no mode fits, and which ones there are.
fn refusal(modes: &[CameraMode], wanted: &Wanted) -> String {
    let Wanted { width, height, .. } = wanted;
    let mut offered: Vec<String> = modes
        .iter()
        .map(|mode| {
            let name = mode.name();
            let known = if form(mode.fourcc).is_some() { "" } else { " (not supported)" };
            format!("{name} {}x{}{known}", mode.width, mode.height)
        })
        .collect();
    offered.dedup();
    let more = offered.len().saturating_sub(12);
    offered.truncate(12);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let offered = if offered.is_empty() { "nothing".to_owned() } else { offered.join(", ") };
    format!("it has no images of {width}x{height} in that format; it offers {offered}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(fourcc: &[u8; 4], width: u32, height: u32, fps: f64) -> CameraMode {
        CameraMode { fourcc: *fourcc, width, height, fps, is_limit: false }
    }

    fn wanted(width: u32, height: u32, fps: f64) -> Wanted {
        Wanted { form: None, width, height, fps }
    }

    #[test]
    fn pixels_are_preferred_if_they_are_fast_enough() {
        // A webcam on USB 2.
        let modes = [
            mode(b"MJPG", 1280, 720, 30.0),
            mode(b"YUYV", 1280, 720, 10.0),
            mode(b"YUYV", 640, 480, 29.97),
            mode(b"MJPG", 640, 480, 30.0),
            mode(b"H264", 1280, 720, 60.0),
        ];
        assert_eq!(choose(&modes, &wanted(1280, 720, 30.0)), Ok(*b"MJPG"));
        assert_eq!(choose(&modes, &wanted(1280, 720, 10.0)), Ok(*b"YUYV"));
        assert_eq!(choose(&modes, &wanted(640, 480, 30.0)), Ok(*b"YUYV"));
        assert_eq!(choose(&modes, &wanted(1280, 720, 60.0)), Ok(*b"MJPG"), "the fastest");
        let form = Some(Form::Pixels(PixelFormat::Yuyv));
        assert_eq!(choose(&modes, &Wanted { form, ..wanted(1280, 720, 30.0) }), Ok(*b"YUYV"));
    }

    #[test]
    fn sizes_that_are_not_offered_are_refused_with_those_that_are() {
        let modes = [mode(b"YUYV", 640, 480, 30.0), mode(b"H264", 1920, 1080, 30.0)];
        let told = choose(&modes, &wanted(1920, 1080, 30.0)).unwrap_err();
        assert!(told.contains("1920x1080") && told.contains("YUYV 640x480"), "{told}");
        assert!(told.contains("H264 1920x1080 (not supported)"), "{told}");
        assert!(choose(&[], &wanted(640, 480, 30.0)).unwrap_err().contains("nothing"));
        let range = CameraMode { is_limit: true, ..mode(b"NV12", 1920, 1080, 0.0) };
        assert_eq!(choose(&[range], &wanted(800, 600, 30.0)), Ok(*b"NV12"));
    }
}
