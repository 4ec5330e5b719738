//! Text in images.

use std::{path::PathBuf, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{
    Image, Text,
    vision::{TextRegion, TextRegions},
};

use crate::{
    rate_limit::RateLimit,
    text::{DetectorSettings, TextDetector, TextRecognizer, sort_for_reading},
};

params! {
    /// Settings of [`Ocr`].
    pub struct OcrParams {
        /// Path of the package or program that finds text.
        pub detector: PathBuf;
        /// Path of the package or program that reads a line.
        pub recognizer: PathBuf;
        /// Value above which a pixel is text. Default: 0.3, with CRAFT 0.4.
        pub thresh: Option<f32>, range 0.0..=1.0;
        /// Least score of a line: the mean probability of its box, with CRAFT the greatest value of a word.
        /// Default: 0.5, with CRAFT 0.7.
        pub r#box: Option<f32>, range 0.0..=1.0;
        /// Growth of each side of a box, not with CRAFT: this factor times its area, divided by its
        /// perimeter. Default: 1.6.
        pub unclip: Option<f64>, range 0.0..=10.0;
        /// Least confidence of the text of a line. Default: 0.6, with CRNN 0.3.
        pub min_conf: Option<f32>, range 0.0..=1.0;
        /// Most images per second that are read; the others are skipped.
        pub max_rate: f64 = "5", range 0.01..=1000.0, unit "Hz";
        /// Time in which text that is read again is not sent again on `text`.
        pub dedupe: Duration = "2s", range 0.0..=86400.0;
    }
}

/// Reads the text in images with two models.
///
/// The first model finds lines, the second one reads each of them. Lines come in reading order. If
/// `trigger` is connected, only the next image after each packet of it is read.
///
/// `regions` has all lines of each image that is read. `text` has the lines that were not read within
/// `dedupe` before, in one [`Text`] with a line for each; a line that differs from a known one in less than
/// a fifth of its characters is the same.
///
/// | model | contract |
/// |---|---|
/// | detector DBNet, as in PaddleOCR | `forward(image) -> f32[1, 1, height, width]`, the probability that a pixel belongs to a line. Regions of pixels above `thresh` become the rotated boxes of least area, and grow by `unclip`. BGR values from -1 to 1 |
/// | detector CRAFT, of react-native-executorch up to 0.9 | `forward_SIZE(image f32[1, 3, SIZE, SIZE])`: values of text and link for each second row and column. The method of 800 is taken if there is one. Words whose links are above 0.4 are joined to lines. BGR values with mean and deviation of ImageNet |
/// | recognizer of PaddleOCR | `forward(line) -> f32[1, steps, characters + 1]`, probabilities or logits, the blank of CTC first. BGR values from -1 to 1 |
/// | recognizer CRNN, of react-native-executorch up to 0.9 | `forward_WIDTH(line f32[1, 1, 64, WIDTH])`, the same output; the shortest one that holds a line is taken. Gray values from -1 to 1. A line with a confidence below 0.3 is also read upside down |
///
/// The characters are `labels` or `charset` in `model.yaml`, or a file `charset.txt` beside the program; the
/// space at the end may be left out. Lines longer than the input are cut at gaps and read in parts;
/// vertical ones are turned. `image` in `model.yaml` changes the preparation.
///
/// The packages have the tasks `text_detection` and `text_recognition`.
///
/// Latency: a run of the detector, and one of the recognizer for each line.
pub struct Ocr {
    params: OcrParams,
    detector: TextDetector,
    recognizer: TextRecognizer,
    rate: RateLimit,
    has_trigger: bool,
    is_triggered: bool,
    /// Lines that were read, and when last.
    known: Vec<(String, Timestamp)>,
}

/// Part of the characters in which two readings of a line may differ.
const MAX_DIFFERENCE: f64 = 0.2;

ports! {
    impl Ocr {
        /// Images of any size, in color or `mono8`.
        in IMAGES: Image;
        /// Requests to read the next image.
        in TRIGGER: any, optional;
        /// Lines of each image that is read.
        out REGIONS: TextRegions, in_step;
        /// New lines.
        out TEXT: Text, in_step;
    }
}

impl Ocr {
    fn read(&mut self, image: &Image) -> Result<Vec<TextRegion>, NodeError> {
        let min_conf = self.params.min_conf.unwrap_or(self.recognizer.min_confidence());
        let mut regions = Vec::new();
        for quad in self.detector.find(image)? {
            let reading = self.recognizer.read(image, &quad)?;
            if reading.text.trim().is_empty() || reading.confidence < min_conf {
                continue;
            }
            let corners =
                quad.corners.map(|corner| image.to_source.apply(corner).map(|value| value as f32));
            let (text, confidence) = (reading.text, reading.confidence);
            regions.push(TextRegion { corners, score: quad.score, text, confidence });
        }
        sort_for_reading(&mut regions);
        Ok(regions)
    }

    /// The lines that were not read within `dedupe`.
    fn new_lines(&mut self, regions: &[TextRegion], at: Timestamp) -> Vec<String> {
        let dedupe = self.params.dedupe;
        self.known.retain(|(_, last)| at.since(*last) < dedupe);
        let mut new = Vec::new();
        for region in regions {
            let known = self.known.iter_mut().find(|(text, _)| is_same(text, &region.text));
            match known {
                Some((text, last)) => (*text, *last) = (region.text.clone(), at),
                None => {
                    self.known.push((region.text.clone(), at));
                    new.push(region.text.clone());
                }
            }
        }
        new
    }
}

/// True if two texts are readings of the same line.
fn is_same(one: &str, other: &str) -> bool {
    1.0 - strsim::normalized_levenshtein(one, other) < MAX_DIFFERENCE
}

impl Node for Ocr {
    type Params = OcrParams;

    const NAME: &'static str = "ocr";
    const SUMMARY: &'static str = "Reads the text in images with two models.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "a run of the detector, and one of the recognizer for each line";

    fn open(params: OcrParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let OcrParams { thresh: threshold, r#box: score, unclip, .. } = params;
        let settings = DetectorSettings { threshold, score, unclip };
        let detector = TextDetector::open(&params.detector, &settings, cx)?;
        let recognizer = TextRecognizer::open(&params.recognizer, cx)?;
        let has_trigger = cx.is_connected(Self::TRIGGER.name());
        let (known, rate) = (Vec::new(), RateLimit::new(params.max_rate));
        Ok(Self { params, rate, detector, recognizer, has_trigger, is_triggered: false, known })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if cx.restarted() {
            (self.is_triggered, self.known) = (false, Vec::new());
            self.rate.restart();
        }
        if cx.port() == Some(Self::TRIGGER.name()) {
            self.is_triggered = true;
            return Ok(());
        }
        let packet = cx.packet().cloned();
        let Some(image) = packet.as_ref().and_then(|packet| packet.get::<Image>()) else {
            return Ok(());
        };
        let is_due = match self.has_trigger {
            true => std::mem::take(&mut self.is_triggered),
            false => self.rate.is_due(cx.at()),
        };
        if !is_due {
            return Ok(());
        }
        let regions = cx.time_model(|| self.read(image))?;
        let new = self.new_lines(&regions, cx.at());
        cx.send(Self::REGIONS, TextRegions { frame_id: image.frame_id.clone(), regions });
        if !new.is_empty() {
            cx.send(Self::TEXT, Text::from(new.join("\n").as_str()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_a_line_may_differ_a_little() {
        assert!(is_same("Fire extinguisher", "Fire extinguisner"));
        assert!(!is_same("Bus 42", "Bus 43 A"));
        assert!(!is_same("EXIT", "Room 204"));
    }
}
