//! Time to prepare an image for a model, compared with OpenCV.

use std::path::{Path, PathBuf};

use afferent_simd::{
    Isa,
    image::{Channels, Format, Order, Plan, Plane, Sampling, Source, Target, Yuv},
};
use anyhow::{Result, ensure};

use crate::{
    peer,
    table::{Table, format_number},
    timing,
};

/// Time to prepare an image of 1280 × 720 pixels for a model, on one thread.
///
/// The image is scaled to 640 × 360, padded to 640 × 640, converted to RGB, divided by 255 and
/// written channel after channel as `f32`. The peer `tools/bench/opencv_image.py` does the same with
/// `cvtColor`, `resize` and `copyMakeBorder` of OpenCV and the faster one of NumPy and
/// `blobFromImage`, in the same rounds.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Python with `numpy` and `opencv-python-headless` in its environment.
    #[arg(long, value_name = "PYTHON")]
    opencv: Option<PathBuf>,
    /// Number of rounds; the result is their median.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Images per round.
    #[arg(long, default_value_t = 100)]
    repeat: usize,
}

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/opencv_image.py");
const FORMATS: [(&str, Format); 3] =
    [("yuyv", Format::Yuyv), ("nv12", Format::Nv12), ("rgb8", Format::Rgb8)];
const WIDTH: usize = 1280;
const HEIGHT: usize = 720;
const SIZE: usize = 640;
/// Maximum difference of the means of both outputs: OpenCV rounds to integers after each step, and
/// limits the colors of noise before it interpolates.
const TOLERANCE: f64 = 0.02;

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let columns = ["image", "afferent us", "OpenCV us", "afferent / OpenCV"];
    let title =
        format!("image to tensor, one thread, {:?}, {} rounds", Isa::best(), options.rounds);
    let mut table = Table::new(title, &columns);
    for (name, format) in FORMATS {
        table.row(measure(name, format, options)?);
    }
    if options.opencv.is_none() {
        table.note("OpenCV: skipped (pass --opencv PYTHON)");
    }
    Ok(vec![table])
}

fn measure(name: &str, format: Format, options: &Options) -> Result<[String; 4]> {
    let bytes = image(format);
    let (luma, chroma) = bytes.split_at(bytes.len().min(match format {
        Format::Nv12 => WIDTH * HEIGHT,
        _ => usize::MAX,
    }));
    let row_stride = if format == Format::Nv12 { WIDTH } else { luma.len() / HEIGHT };
    let planes = [luma, chroma].map(|bytes| Plane { bytes, row_stride });
    let planes = &planes[..format.planes()];
    let (mut plan, mut out) = (letterbox(format)?, vec![0.0_f32; 3 * SIZE * SIZE]);
    let (mut own, mut ratios, mut peers) = (vec![], vec![], vec![]);
    for _ in 0..options.rounds {
        let times = timing::each(options.repeat, || plan.run(Isa::best(), planes, &mut out))?;
        let time = timing::median(times);
        own.push(time);
        let Some(python) = &options.opencv else { continue };
        let peer = run_peer(python, name, options.repeat, &out)?;
        peers.push(peer);
        ratios.push(time / peer);
    }
    let [own, peers, ratio] =
        [own, peers, ratios].map(|values| format_number(timing::median(values)));
    Ok([name.to_owned(), own, peers, ratio])
}

/// Runs the peer and returns its time in microseconds.
///
/// # Errors
/// If its output differs from `out`.
fn run_peer(python: &Path, name: &str, repeat: usize, out: &[f32]) -> Result<f64> {
    let repeat = repeat.to_string();
    let command = [&python.display().to_string(), PEER, name, &repeat].map(str::to_owned);
    let mean = peer::read_number(&command, "mean")?;
    let own = out.iter().map(|value| f64::from(*value)).sum::<f64>() / out.len() as f64;
    ensure!((own - mean).abs() <= TOLERANCE, "the mean is {own}, that of OpenCV {mean}");
    peer::read_number(&command, "median_us")
}

fn letterbox(format: Format) -> Result<Plan> {
    let source = Source { format, width: WIDTH, height: HEIGHT, yuv: Yuv::BT601 };
    let target = Target {
        width: SIZE,
        height: SIZE,
        channels: Channels::Rgb,
        order: Order::Nchw,
        pad: 114.0,
        scale: 1.0 / 255.0,
        mean: [0.0; 3],
        std: [1.0; 3],
    };
    let border = ((SIZE - SIZE * HEIGHT / WIDTH) / 2) as f64;
    let to_source = [[2.0, 0.0, 0.0], [0.0, 2.0, -2.0 * border]];
    Ok(Plan::new(source, target, to_source, Sampling::Bilinear)?)
}

/// Noise, the same as that of the peer.
fn image(format: Format) -> Vec<u8> {
    let len = match format {
        Format::Nv12 => WIDTH * HEIGHT * 3 / 2,
        Format::Yuyv => WIDTH * HEIGHT * 2,
        _ => WIDTH * HEIGHT * 3,
    };
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_prepared_without_the_peer() {
        let options = Options { opencv: None, rounds: 1, repeat: 1 };
        let text = run(&options).unwrap()[0].to_string();
        assert!(text.contains("nv12") && text.contains("skipped"), "{text}");
    }
}
