//! Test images without a camera.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{Image, PixelFormat};

/// Generates images of moving color bars that darken towards the bottom, and of a white square that
/// moves along the diagonal.
///
/// An image depends only on its number and the parameters, so every run on the virtual clock sends
/// the same images. The timestamp of image `n` is `n / fps` seconds after the start of the session.
/// If the graph is slow, images are sent late; none is dropped.
///
/// `mono8` and `mono16` contain the luma of the colors (ITU-R BT.601). `rgba8` is opaque. `16UC1`
/// is a depth map: a plane from 500 mm at the top to 4000 mm at the bottom, each bar 10 mm farther
/// than the one before, and unknown depth (0) within the square. `32FC1` is the same in meters, with
/// NaN for unknown depth. YUV formats have the colors in limited range (ITU-R BT.601), with the
/// chroma of the top left pixel of each group; width and height must be even where pixels share
/// their chroma.
///
/// Latency: none.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Params, Timestamp};
/// use afferent_messages::{Image, PixelFormat};
/// use afferent_nodes_io::{TestPattern, TestPatternParams};
///
/// let params = TestPatternParams::from_values(&Default::default())?;
/// let mut bench = NodeBench::new(TestPattern::open(params, &OpenCx::default())?);
/// let (sent, _) = bench.poll(Timestamp::ZERO)?;
/// let image = sent[0].1.get::<Image>().unwrap();
/// assert_eq!((image.width(), image.height(), image.format()), (640, 480, PixelFormat::Rgb8));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct TestPattern {
    params: TestPatternParams,
    /// Number of the next image.
    next: u32,
}

params! {
    /// Settings of [`TestPattern`].
    pub struct TestPatternParams {
        /// Width of the images.
        pub width: u32 = "640", range 1.0..=16384.0, unit "px";
        /// Height of the images.
        pub height: u32 = "480", range 1.0..=16384.0, unit "px";
        /// Images per second.
        pub fps: f64 = "30", range 0.01..=1000.0, unit "Hz";
        /// Pixel format of the images.
        pub format: PixelFormat = "rgb8";
        /// Number of images, after which the stream ends; unlimited if absent.
        pub count: Option<u32>;
        /// Coordinate frame of the images.
        pub frame_id: String = "camera";
    }
}

/// Colors of the bars: white, yellow, cyan, green, magenta, red, blue, black.
const BAR_COLORS: [[u8; 3]; 8] = [
    [255, 255, 255],
    [255, 255, 0],
    [0, 255, 255],
    [0, 255, 0],
    [255, 0, 255],
    [255, 0, 0],
    [0, 0, 255],
    [0, 0, 0],
];

/// Distance that the bars and the square move per image, in pixels.
const PIXELS_PER_IMAGE: u64 = 4;

ports! {
    impl TestPattern {
        /// Images of the moving pattern, `fps` per second, in the size and pixel format of the
        /// parameters.
        out IMAGES: Image;
    }
}

impl TestPattern {
    /// Timestamp of image `number`.
    fn timestamp(&self, number: u32) -> Timestamp {
        Timestamp((f64::from(number) * 1e9 / self.params.fps).round() as i64)
    }
}

/// The pattern in one image.
struct Pattern {
    width: u64,
    height: u64,
    number: u64,
}

impl Pattern {
    /// Index of the bar at column `x`.
    fn bar(&self, x: u64) -> usize {
        let bars = BAR_COLORS.len() as u64;
        ((x + self.number * PIXELS_PER_IMAGE) * bars / self.width % bars) as usize
    }

    /// True if the pixel belongs to the white square.
    fn is_in_square(&self, x: u64, y: u64) -> bool {
        let side = (self.width.min(self.height) / 8).max(1);
        let corner = |size: u64| self.number * PIXELS_PER_IMAGE % (size.saturating_sub(side) + 1);
        let within = |at: u64, corner: u64| (corner..corner + side).contains(&at);
        within(x, corner(self.width)) && within(y, corner(self.height))
    }

    /// Red, green, and blue, 16 bits each.
    fn color(&self, x: u64, y: u64) -> [u16; 3] {
        if self.is_in_square(x, y) {
            return [u16::MAX; 3];
        }
        // The last row is half as bright as the first.
        let light = 65_535 - 32_768 * y / self.height;
        BAR_COLORS[self.bar(x)].map(|value| (u64::from(value) * light / 255) as u16)
    }

    /// Luma by ITU-R BT.601, 16 bits.
    fn luma(&self, x: u64, y: u64) -> u16 {
        let [red, green, blue] = self.color(x, y).map(u32::from);
        ((299 * red + 587 * green + 114 * blue) / 1000) as u16
    }

    /// Depth in millimeters; 0 is unknown.
    fn depth(&self, x: u64, y: u64) -> u16 {
        if self.is_in_square(x, y) {
            return 0;
        }
        (500 + 3500 * y / self.height + 10 * self.bar(x) as u64) as u16
    }

    /// Luma and chroma in limited range by ITU-R BT.601: Y, U, V.
    fn yuv(&self, x: u64, y: u64) -> [u8; 3] {
        let [red, green, blue] = self.color(x, y).map(|value| i64::from(value >> 8));
        // Coefficients in units of 1/65536, for values of 8 bits; 32768 rounds.
        let sum = |r: i64, g: i64, b: i64, offset: i64| {
            ((r * red + g * green + b * blue + 32_768) >> 16) + offset
        };
        let luma = sum(16_829, 33_039, 6_416, 16);
        let u = sum(-9_714, -19_071, 28_784, 128);
        let v = sum(28_784, -24_103, -4_681, 128);
        [luma, u, v].map(|value| value as u8)
    }

    /// Writes the pixels row by row, without padding.
    fn draw(&self, format: PixelFormat, bytes: &mut [u8]) {
        let size = (self.width * self.height) as usize * format.pixel_bytes();
        let (first, chroma) = bytes.split_at_mut(size);
        let mut pixels = (0..self.height).flat_map(|y| (0..self.width).map(move |x| (x, y)));
        for (pixel, (x, y)) in first.chunks_exact_mut(format.pixel_bytes()).zip(&mut pixels) {
            self.draw_pixel(format, x, y, pixel);
        }
        let groups = (0..self.height / 2).flat_map(|y| (0..self.width / 2).map(move |x| (x, y)));
        let len = chroma.len() / 2;
        for (at, (x, y)) in groups.enumerate().take(len) {
            let [_, u, v] = self.yuv(2 * x, 2 * y);
            let pair =
                if format == PixelFormat::Nv12 { [2 * at, 2 * at + 1] } else { [at, len + at] };
            (chroma[pair[0]], chroma[pair[1]]) = (u, v);
        }
    }

    /// Writes a pixel of the first plane.
    fn draw_pixel(&self, format: PixelFormat, x: u64, y: u64, pixel: &mut [u8]) {
        let high = |value: u16| (value >> 8) as u8;
        match format {
            PixelFormat::Mono8 => pixel[0] = high(self.luma(x, y)),
            PixelFormat::Mono16 => pixel.copy_from_slice(&self.luma(x, y).to_ne_bytes()),
            PixelFormat::Depth16 => pixel.copy_from_slice(&self.depth(x, y).to_ne_bytes()),
            PixelFormat::Depth32 => {
                let depth = self.depth(x, y);
                let meters = if depth == 0 { f32::NAN } else { f32::from(depth) / 1000.0 };
                pixel.copy_from_slice(&meters.to_ne_bytes());
            }
            PixelFormat::Rgb8 | PixelFormat::Bgr8 | PixelFormat::Rgba8 => {
                let [red, green, blue] = self.color(x, y).map(high);
                let bgr = format == PixelFormat::Bgr8;
                let color = if bgr { [blue, green, red, 255] } else { [red, green, blue, 255] };
                pixel.copy_from_slice(&color[..pixel.len()]);
            }
            PixelFormat::Yuyv | PixelFormat::Uyvy => {
                let luma = self.yuv(x, y)[0];
                let chroma = self.yuv(x & !1, y)[1 + (x & 1) as usize];
                let yuyv = format == PixelFormat::Yuyv;
                pixel.copy_from_slice(&if yuyv { [luma, chroma] } else { [chroma, luma] });
            }
            PixelFormat::Nv12 | PixelFormat::I420 => pixel[0] = self.yuv(x, y)[0],
        }
    }
}

impl Node for TestPattern {
    type Params = TestPatternParams;

    const NAME: &'static str = "test_pattern";
    const SUMMARY: &'static str = "Generates images of a moving pattern, the same in every run.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open(params: TestPatternParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { params, next: 0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if self.params.count.is_some_and(|count| self.next >= count) {
            cx.end();
            return Ok(());
        }
        let at = self.timestamp(self.next);
        if cx.now() < at {
            cx.resume_at(at);
            return Ok(());
        }
        let TestPatternParams { width, height, format, ref frame_id, .. } = self.params;
        let mut image = cx.loan(Self::IMAGES);
        image.frame_id.clone_from(frame_id);
        let bytes = image.reshape(format, width as usize, height as usize)?;
        let (width, height, number) = (width.into(), height.into(), self.next.into());
        Pattern { width, height, number }.draw(format, bytes);
        cx.send_at(Self::IMAGES, at, image);
        self.next = self.next.saturating_add(1);
        if self.params.count != Some(self.next) {
            cx.resume_at(self.timestamp(self.next));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{Choice, NodeBench, Params, Resume};

    use super::*;

    fn bench(settings: &[(&str, &str)]) -> NodeBench<TestPattern> {
        let values = settings.iter().map(|(name, text)| {
            let param = TestPatternParams::PARAMS.iter().find(|param| param.name == *name);
            ((*name).to_owned(), param.unwrap().parse(text).unwrap())
        });
        let params = TestPatternParams::from_values(&values.collect()).unwrap();
        NodeBench::new(TestPattern::open(params, &OpenCx::default()).unwrap())
    }

    fn images(settings: &[(&str, &str)]) -> Vec<(i64, Image)> {
        let (mut bench, mut now, mut images) = (bench(settings), Timestamp::ZERO, Vec::new());
        loop {
            let (sent, resume) = bench.poll(now).unwrap();
            let image = |packet: &afferent_graph::Packet| packet.get::<Image>().unwrap().clone();
            images.extend(sent.iter().map(|(_, packet)| (packet.header.at.0, image(packet))));
            match resume {
                Resume::At(at) => now = at,
                Resume::Now => {}
                Resume::Done => return images,
            }
        }
    }

    #[test]
    fn every_run_sends_the_same_moving_images() {
        for word in PixelFormat::WORDS {
            let settings = [("width", "48"), ("height", "32"), ("format", word), ("count", "3")];
            let run = images(&settings);
            let bytes = |run: &[(i64, Image)]| -> Vec<u8> {
                run.iter().flat_map(|(_, image)| image.bytes().to_vec()).collect()
            };
            assert_eq!(bytes(&run), bytes(&images(&settings)));
            let times: Vec<_> = run.iter().map(|(at, _)| *at).collect();
            assert_eq!(times, [0, 33_333_333, 66_666_667]);
            assert_ne!(run[0].1, run[1].1, "{word} must move");
            assert_eq!((run[0].1.format().name(), &*run[0].1.frame_id), (*word, "camera"));
        }
    }

    #[test]
    fn pixels_have_the_bytes_of_the_format() {
        let first = |format| {
            let settings = [("width", "80"), ("height", "8"), ("format", format), ("count", "1")];
            let image = images(&settings).remove(0).1;
            // A pixel of the second bar, which is yellow.
            let size = image.format().pixel_bytes();
            image.bytes()[15 * size..][..size].to_vec()
        };
        assert_eq!(first("rgb8"), [255, 255, 0]);
        assert_eq!(first("bgr8"), [0, 255, 255]);
        assert_eq!(first("rgba8"), [255, 255, 0, 255]);
        assert_eq!(first("mono8"), [226], "luma of yellow is 0.886");
        assert_eq!(first("16UC1"), 510_u16.to_ne_bytes());
        assert_eq!(first("32FC1"), 0.51_f32.to_ne_bytes());
        // Yellow of BT.601 is Y 210, U 16, V 146; the second bar starts at an even column.
        assert_eq!(first("yuyv"), [210, 146]);
        assert_eq!(first("uyvy"), [146, 210]);
        assert_eq!(first("nv12"), [210]);
        assert_eq!(first("i420"), [210]);
    }

    #[test]
    fn planes_of_chroma_hold_both_values() {
        let settings =
            |format| [("width", "16"), ("height", "2"), ("format", format), ("count", "1")];
        let planes = |format| -> Vec<Vec<u8>> {
            images(&settings(format))[0].1.planes().map(|plane| plane.bytes.to_vec()).collect()
        };
        let (semi, planar) = (planes("nv12"), planes("i420"));
        assert_eq!((semi.len(), planar.len()), (2, 3));
        assert_eq!(semi[0], planar[0]);
        // Yellow is the second pair of columns.
        assert_eq!((semi[1][2], semi[1][3]), (16, 146));
        let split = |at: usize| semi[1].iter().skip(at).step_by(2).copied().collect::<Vec<_>>();
        assert_eq!([split(0), split(1)], planar[1..]);
    }

    #[test]
    fn odd_sizes_of_subsampled_formats_are_refused() {
        let mut bench = bench(&[("width", "3"), ("height", "2"), ("format", "nv12")]);
        let error = bench.poll(Timestamp::ZERO).unwrap_err().to_string();
        assert!(error.contains("the width must be a multiple of 2"), "{error}");
    }

    #[test]
    fn the_smallest_image_has_one_pixel() {
        for &format in PixelFormat::VALUES {
            let [width, height] = format.subsampling().map(|size| size.to_string());
            let settings = [
                ("width", &*width),
                ("height", &*height),
                ("format", format.name()),
                ("count", "2"),
            ];
            assert_eq!(images(&settings).len(), 2);
        }
        assert!(images(&[("count", "0")]).is_empty());
    }

    #[test]
    fn images_are_sent_at_their_timestamps() {
        let mut bench = bench(&[("fps", "10"), ("width", "8"), ("height", "8")]);
        let ms = |ms: i64| Timestamp(ms * 1_000_000);
        assert_eq!(bench.poll(ms(0)).unwrap().1, Resume::At(ms(100)));
        assert!(bench.poll(ms(99)).unwrap().0.is_empty(), "an image must not be sent early");
        // After a slow downstream node, no image is dropped.
        let (sent, resume) = bench.poll(ms(250)).unwrap();
        assert_eq!((sent[0].1.header.at, resume), (ms(100), Resume::At(ms(200))));
    }
}
