//! Pictures without a camera.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{Image, PixelFormat};

/// Sends coloured bars that move, darker from the top to the bottom, with a white square that runs
/// along the diagonal.
///
/// Latency: none. A picture follows from its number and the settings alone, so that every run on
/// the virtual clock sends the same. Its time is its number by `fps`, from the start of the session
/// on; what a slow graph holds up is sent late and not left out.
///
/// `mono8` and `mono16` have the brightness of the colours (ITU-R BT.601), `rgba8` is opaque.
/// `16UC1` is a depth picture: a plane from 500 mm at the top to 4000 mm at the bottom, the bars up
/// to 70 mm behind each other, and nothing known (0) within the square.
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
    /// Number of the next picture.
    next: u32,
}

params! {
    /// Settings of [`TestPattern`].
    pub struct TestPatternParams {
        /// Width of a picture.
        pub width: u32 = "640", range 1.0..=16384.0, unit "px";
        /// Height of a picture.
        pub height: u32 = "480", range 1.0..=16384.0, unit "px";
        /// How many pictures there are in a second.
        pub fps: f64 = "30", range 0.01..=1000.0, unit "Hz";
        /// What a pixel is.
        pub format: PixelFormat = "rgb8";
        /// How many pictures there are; without it, they do not end.
        pub count: Option<u32>;
        /// The coordinate frame of the pictures.
        pub frame_id: String = "camera";
    }
}

/// White, yellow, cyan, green, magenta, red, blue, black.
const BARS: [[u8; 3]; 8] = [
    [255, 255, 255],
    [255, 255, 0],
    [0, 255, 255],
    [0, 255, 0],
    [255, 0, 255],
    [255, 0, 0],
    [0, 0, 255],
    [0, 0, 0],
];

/// Pixels that the bars and the square move from one picture to the next.
const STEP: u64 = 4;

ports! {
    impl TestPattern {
        /// Images of the moving pattern, `fps` per second, in the size and pixel format of the
        /// parameters.
        out IMAGES: Image;
    }
}

impl TestPattern {
    /// Time of a picture.
    fn time_of(&self, number: u32) -> Timestamp {
        Timestamp((f64::from(number) * 1e9 / self.params.fps).round() as i64)
    }
}

/// A pattern at one moment.
struct Moment {
    width: u64,
    height: u64,
    number: u64,
}

impl Moment {
    /// Number of the bar at column `x`.
    fn bar(&self, x: u64) -> usize {
        let bars = BARS.len() as u64;
        ((x + self.number * STEP) * bars / self.width % bars) as usize
    }

    /// Whether the white square lies there.
    fn is_square(&self, x: u64, y: u64) -> bool {
        let side = (self.width.min(self.height) / 8).max(1);
        let corner = |size: u64| self.number * STEP % (size.saturating_sub(side) + 1);
        let within = |at: u64, corner: u64| (corner..corner + side).contains(&at);
        within(x, corner(self.width)) && within(y, corner(self.height))
    }

    /// Red, green and blue, 16 bits each.
    fn color(&self, x: u64, y: u64) -> [u16; 3] {
        if self.is_square(x, y) {
            return [u16::MAX; 3];
        }
        // The last row has half of the light of the first.
        let light = 65_535 - 32_768 * y / self.height;
        BARS[self.bar(x)].map(|value| (u64::from(value) * light / 255) as u16)
    }

    fn brightness(&self, x: u64, y: u64) -> u16 {
        let [red, green, blue] = self.color(x, y).map(u32::from);
        ((299 * red + 587 * green + 114 * blue) / 1000) as u16
    }

    /// In millimetres.
    fn depth(&self, x: u64, y: u64) -> u16 {
        if self.is_square(x, y) {
            return 0;
        }
        (500 + 3500 * y / self.height + 10 * self.bar(x) as u64) as u16
    }

    /// Writes the picture row by row, without gaps.
    fn draw(&self, format: PixelFormat, bytes: &mut [u8]) {
        let high = |value: u16| (value >> 8) as u8;
        let mut places = (0..self.height).flat_map(|y| (0..self.width).map(move |x| (x, y)));
        for (pixel, (x, y)) in bytes.chunks_exact_mut(format.pixel_bytes()).zip(&mut places) {
            match format {
                PixelFormat::Mono8 => pixel[0] = high(self.brightness(x, y)),
                PixelFormat::Mono16 => {
                    pixel.copy_from_slice(&self.brightness(x, y).to_ne_bytes());
                }
                PixelFormat::Depth16 => pixel.copy_from_slice(&self.depth(x, y).to_ne_bytes()),
                PixelFormat::Rgb8 | PixelFormat::Bgr8 | PixelFormat::Rgba8 => {
                    let [red, green, blue] = self.color(x, y).map(high);
                    let bgr = format == PixelFormat::Bgr8;
                    let color = if bgr { [blue, green, red, 255] } else { [red, green, blue, 255] };
                    pixel.copy_from_slice(&color[..pixel.len()]);
                }
            }
        }
    }
}

impl Node for TestPattern {
    type Params = TestPatternParams;

    const NAME: &'static str = "test_pattern";
    const SUMMARY: &'static str = "Sends pictures of a moving pattern, the same in every run.";
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
        let at = self.time_of(self.next);
        if cx.now() < at {
            cx.resume_at(at);
            return Ok(());
        }
        let TestPatternParams { width, height, format, ref frame_id, .. } = self.params;
        let mut image = cx.loan(Self::IMAGES);
        image.frame_id.clone_from(frame_id);
        let bytes = image.reshape(format, width as usize, height as usize)?;
        let (width, height, number) = (width.into(), height.into(), self.next.into());
        Moment { width, height, number }.draw(format, bytes);
        cx.send_at(Self::IMAGES, at, image);
        self.next = self.next.saturating_add(1);
        if self.params.count != Some(self.next) {
            cx.resume_at(self.time_of(self.next));
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

    fn pictures(settings: &[(&str, &str)]) -> Vec<(i64, Image)> {
        let (mut bench, mut now, mut pictures) = (bench(settings), Timestamp::ZERO, Vec::new());
        loop {
            let (sent, resume) = bench.poll(now).unwrap();
            let image = |packet: &afferent_graph::Packet| packet.get::<Image>().unwrap().clone();
            pictures.extend(sent.iter().map(|(_, packet)| (packet.header.at.0, image(packet))));
            match resume {
                Resume::At(at) => now = at,
                Resume::Now => {}
                Resume::Done => return pictures,
            }
        }
    }

    #[test]
    fn every_run_sends_the_same_moving_pictures() {
        for word in PixelFormat::WORDS {
            let settings = [("width", "48"), ("height", "32"), ("format", word), ("count", "3")];
            let run = pictures(&settings);
            assert_eq!(run, pictures(&settings));
            let times: Vec<_> = run.iter().map(|(at, _)| *at).collect();
            assert_eq!(times, [0, 33_333_333, 66_666_667]);
            assert_ne!(run[0].1, run[1].1, "{word} moves");
            assert_eq!((run[0].1.format().name(), &*run[0].1.frame_id), (*word, "camera"));
        }
    }

    #[test]
    fn colours_are_those_of_the_format() {
        let first = |format| {
            let settings = [("width", "80"), ("height", "8"), ("format", format), ("count", "1")];
            let image = pictures(&settings).remove(0).1;
            // Within the second bar, which is yellow.
            let size = image.format().pixel_bytes();
            image.bytes()[15 * size..][..size].to_vec()
        };
        assert_eq!(first("rgb8"), [255, 255, 0]);
        assert_eq!(first("bgr8"), [0, 255, 255]);
        assert_eq!(first("rgba8"), [255, 255, 0, 255]);
        assert_eq!(first("mono8"), [226], "0.886 of the light");
        assert_eq!(first("16UC1"), 510_u16.to_ne_bytes());
    }

    #[test]
    fn the_smallest_picture_is_one_pixel() {
        for word in PixelFormat::WORDS {
            let settings = [("width", "1"), ("height", "1"), ("format", word), ("count", "2")];
            assert_eq!(pictures(&settings).len(), 2);
        }
        assert!(pictures(&[("count", "0")]).is_empty());
    }

    #[test]
    fn pictures_have_their_time() {
        let mut bench = bench(&[("fps", "10"), ("width", "8"), ("height", "8")]);
        let ms = |ms: i64| Timestamp(ms * 1_000_000);
        assert_eq!(bench.poll(ms(0)).unwrap().1, Resume::At(ms(100)));
        assert!(bench.poll(ms(99)).unwrap().0.is_empty(), "not before its time");
        // A node after it was slow: none is left out.
        let (sent, resume) = bench.poll(ms(250)).unwrap();
        assert_eq!((sent[0].1.header.at, resume), (ms(100), Resume::At(ms(200))));
    }
}
