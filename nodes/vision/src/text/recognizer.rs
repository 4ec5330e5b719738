//! Model that reads a line of text.

use std::path::Path;

use afferent_graph::{NodeError, OpenCx};
use afferent_messages::{Affine, Image};
use afferent_package::{Color, ImageInput, Pad, Resize};

use super::regions::{Point, Quad, distance};
use crate::{
    model_image::{InputShape, StripEnd},
    vision_model::{VisionModel, are_probabilities, argmax, values},
};

/// Ratio of height and width from which on a line is vertical.
const VERTICAL: f64 = 1.5;

/// Drift of a line over its length, relative to its height, that is ignored: without rotation,
/// resampling is better.
const MAX_DRIFT: f64 = 0.15;

/// Part of the width of the input in which a long line may be cut.
const CUT_RANGE: f64 = 0.35;

/// Width of a gap between words, relative to the height of the line.
const WORD_GAP: f64 = 0.12;

/// Most parts of a line.
const MAX_PARTS: usize = 16;

/// Text of a line and its confidence: the mean probability of its characters.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Reading {
    pub(crate) text: String,
    pub(crate) confidence: f32,
}

/// Least ratio of width and height of a method for lines; narrower ones are for single characters.
const MIN_RATIO: usize = 2;

/// Confidence of a line below which it is also read upside down.
const MIN_UPRIGHT: f32 = 0.3;

/// A text recognizer.
pub(crate) struct TextRecognizer {
    /// Methods for lines of different lengths, the shortest first.
    models: Vec<VisionModel>,
    /// Text of each index of the output; that of the blank is empty.
    characters: Vec<String>,
    form: Form,
}

/// Form of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One method, as PaddleOCR has it.
    Single,
    /// Methods by width, as the CRNN of react-native-executorch.
    Crnn,
}

/// An upright or turned rectangle of a line.
#[derive(Debug, Clone, Copy)]
struct Line {
    origin: Point,
    /// Vectors of the upper side and of the left side.
    along: Point,
    down: Point,
}

impl Line {
    /// The line of a box; vertical ones are turned counterclockwise, as PaddleOCR does.
    fn of(quad: &Quad) -> Self {
        let [a, b, c, d] = quad.corners;
        let is_vertical = distance(a, d) >= VERTICAL * distance(a, b);
        let [origin, right, _, below] = if is_vertical { [b, c, d, a] } else { [a, b, c, d] };
        let along = [right[0] - origin[0], right[1] - origin[1]];
        let down = [below[0] - origin[0], below[1] - origin[1]];
        Self { origin, along, down }.leveled()
    }

    /// The line without a rotation that hardly shows.
    fn leveled(self) -> Self {
        let (width, height) = (self.width(), self.height());
        for (axis, other) in [(0, 1), (1, 0)] {
            if self.along[other].abs() <= MAX_DRIFT * height && width > height {
                let center = [0, 1]
                    .map(|axis| self.origin[axis] + (self.along[axis] + self.down[axis]) / 2.0);
                let (mut along, mut down) = ([0.0; 2], [0.0; 2]);
                along[axis] = width.copysign(self.along[axis]);
                down[other] = height.copysign(self.down[other]);
                let origin = [0, 1].map(|axis| center[axis] - (along[axis] + down[axis]) / 2.0);
                return Self { origin, along, down };
            }
        }
        self
    }

    fn width(&self) -> f64 {
        self.along[0].hypot(self.along[1])
    }

    fn height(&self) -> f64 {
        self.down[0].hypot(self.down[1])
    }

    /// The same line upside down.
    fn turned(&self) -> Self {
        let origin = [0, 1].map(|axis| self.origin[axis] + self.along[axis] + self.down[axis]);
        Self { origin, along: self.along.map(|v| -v), down: self.down.map(|v| -v) }
    }

    /// The part between two fractions of the width.
    fn part(&self, from: f64, to: f64) -> Self {
        let origin = [0, 1].map(|axis| self.origin[axis] + from * self.along[axis]);
        Self { origin, along: self.along.map(|value| value * (to - from)), ..*self }
    }

    /// Map from pixels of a strip of this size to those of the image.
    fn image_from_strip(&self, width: f64, height: f64) -> Affine {
        let (along, down) = (self.along.map(|v| v / width), self.down.map(|v| v / height));
        Affine([[along[0], down[0], self.origin[0]], [along[1], down[1], self.origin[1]]])
    }
}

impl TextRecognizer {
    /// Loads the package or program at `path`.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    pub(crate) fn open(path: &Path, cx: &OpenCx) -> Result<Self, NodeError> {
        let (single, several) = (
            ImageInput {
                resize: Some(Resize::Letterbox),
                pad: Some(Pad::Value(127.5)),
                color: Some(Color::Bgr),
                mean: Some([0.5; 3]),
                std: Some([0.5; 3]),
                ..ImageInput::default()
            },
            ImageInput { mean: Some([0.5; 3]), std: Some([0.5; 3]), ..ImageInput::default() },
        );
        let task = "text_recognition";
        let sizes = VisionModel::method_sizes(path, cx)?;
        let (mut models, form) = match sizes.as_slice() {
            [] => (vec![VisionModel::open(path, task, cx, |_| single)?], Form::Single),
            sizes => {
                let open = |size: &usize| {
                    let method = format!("forward_{size}");
                    VisionModel::open_method(path, &method, task, cx, |_| several.clone())
                };
                (sizes.iter().map(open).collect::<Result<Vec<_>, _>>()?, Form::Crnn)
            }
        };
        let ratio =
            |model: &VisionModel| model.image().shape().width / model.image().shape().height;
        if models.iter().any(|model| ratio(model) >= MIN_RATIO) {
            models.retain(|model| ratio(model) >= MIN_RATIO);
        }
        models.sort_by_key(|model| model.image().shape().width);
        let characters = characters(&models)?;
        Ok(Self { models, characters, form })
    }

    /// Least confidence of the text of a line, unless the graph says otherwise.
    pub(crate) fn min_confidence(&self) -> f32 {
        match self.form {
            Form::Single => 0.6,
            // That of a line is nearly the product of those of its characters.
            Form::Crnn => MIN_UPRIGHT,
        }
    }

    /// Shape of the longest line.
    fn longest(&self) -> InputShape {
        *self.models[self.models.len() - 1].image().shape()
    }

    /// Reads the line in a box of `image`.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    pub(crate) fn read(&mut self, image: &Image, quad: &Quad) -> Result<Reading, NodeError> {
        let line = Line::of(quad);
        let reading = self.read_line(image, &line)?;
        if self.form == Form::Single || reading.confidence >= MIN_UPRIGHT {
            return Ok(reading);
        }
        let turned = self.read_line(image, &line.turned())?;
        Ok(if turned.confidence > reading.confidence { turned } else { reading })
    }

    fn read_line(&mut self, image: &Image, line: &Line) -> Result<Reading, NodeError> {
        let shape = self.longest();
        let ratio = line.width() / line.height();
        let longest = shape.width as f64 / shape.height as f64;
        if !ratio.is_finite() || ratio <= longest {
            return self.read_part(image, line);
        }
        let mut readings: Vec<Reading> = Vec::new();
        let mut from = 0.0;
        while from < 1.0 && readings.len() < MAX_PARTS {
            let (to, is_word_end) = match longest / ratio {
                step if from + step >= 1.0 => (1.0, false),
                step => self.cut(image, line, from, from + step)?,
            };
            let mut reading = self.read_part(image, &line.part(from, to))?;
            if is_word_end {
                reading.text.push(' ');
            }
            readings.push(reading);
            from = to;
        }
        let text: String = readings.iter().map(|reading| reading.text.as_str()).collect();
        let sum: f32 = readings.iter().map(|reading| reading.confidence).sum();
        Ok(Reading { text: text.trim().to_owned(), confidence: sum / readings.len() as f32 })
    }

    /// The position before `limit` at which a long line is cut: the middle of the widest gap, and whether
    /// it is one between words. Positions are fractions of the line.
    fn cut(
        &mut self,
        image: &Image,
        line: &Line,
        from: f64,
        limit: f64,
    ) -> Result<(f64, bool), NodeError> {
        let shape = self.longest();
        let first = limit - (limit - from) * CUT_RANGE;
        let strip = line.part(first, limit);
        let columns = (shape.width as f64 * CUT_RANGE).round().max(1.0);
        let to_image = strip.image_from_strip(columns, shape.height as f64);
        let columns = columns as usize;
        let step = if shape.is_interleaved { shape.channels } else { 1 };
        let last = self.models.len() - 1;
        let contrast = self.models[last].prepared(image, &to_image, |input| {
            // The first channel is enough. Inputs of other types are cut at the limit.
            let pixels = input.input();
            values(&pixels)
                .map(|pixels| contrasts(pixels, [shape.width, shape.height], columns, step))
        })?;
        let Ok(contrast) = contrast else { return Ok((limit, false)) };
        let (start, len) = widest_gap(&contrast);
        let middle = (start as f64 + len as f64 / 2.0) / columns as f64;
        let position = first + (limit - first) * middle;
        Ok((position, len as f64 >= WORD_GAP * shape.height as f64))
    }

    fn read_part(&mut self, image: &Image, line: &Line) -> Result<Reading, NodeError> {
        let shape = self.longest();
        let height = shape.height as f64;
        let width = (height * line.width() / line.height()).ceil().clamp(1.0, shape.width as f64);
        let to_image = line.image_from_strip(width, height);
        let (columns, last) = (width as usize, self.models.len() - 1);
        // The shortest input that holds the line.
        let holds = |model: &VisionModel| model.image().shape().width >= columns;
        let model = self.models.iter().position(holds).unwrap_or(last);
        let (characters, form) = (&self.characters, self.form);
        let end = match form {
            Form::Single => StripEnd::Border,
            // The models are trained so.
            Form::Crnn => StripEnd::LastColumn,
        };
        self.models[model].run_strip(image, &to_image, columns, end, |_, outputs| {
            let tensor = outputs.tensor(0).map_err(|error| error.to_string())?;
            Ok(decode(values(&tensor)?, characters, form))
        })
    }
}

/// Text of each index of the outputs.
fn characters(models: &[VisionModel]) -> Result<Vec<String>, NodeError> {
    let model = &models[0];
    let classes_of = |model: &VisionModel| match model.outputs() {
        [sizes] => match *sizes.as_slice() {
            [1, steps, classes] if steps > 0 && classes > 1 => Some(classes),
            _ => None,
        },
        _ => None,
    };
    let height = model.image().shape().height;
    let is_same = |other: &VisionModel| {
        classes_of(other) == classes_of(model) && other.image().shape().height == height
    };
    let Some(classes) = classes_of(model).filter(|_| models.iter().all(is_same)) else {
        let found: Vec<_> = models.iter().map(VisionModel::outputs).collect();
        return Err(model.error(format!(
            "its outputs {found:?} are not those of a text recognizer: [1, steps, characters + 1], the same \
             characters and height for each method"
        )));
    };
    let mut characters = vec![String::new()];
    characters.extend(model.labels().iter().cloned());
    // The dictionaries of PaddleOCR leave out the space at the end.
    if characters.len() + 1 == classes {
        characters.push(" ".to_owned());
    }
    if characters.len() != classes {
        let reason = format!(
            "it has {} characters (and the blank), but {} labels are given; list the characters in this \
             order as charset or labels in model.yaml, or in a charset.txt beside the program",
            classes - 1,
            model.labels().len()
        );
        return Err(model.error(reason));
    }
    Ok(characters)
}

/// Range of the values of each of the first `columns` of an image, whose pixels are `step` values
/// apart.
fn contrasts(pixels: &[f32], [width, height]: [usize; 2], columns: usize, step: usize) -> Vec<f32> {
    let range = |column: usize| {
        let values = (0..height).map(|row| pixels[(row * width + column) * step]);
        let (least, most) = values
            .fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), value| {
                (least.min(value), most.max(value))
            });
        most - least
    };
    (0..columns).map(range).collect()
}

/// Start and length of the longest run of columns with low contrast, the last one of equal ones.
fn widest_gap(contrast: &[f32]) -> (usize, usize) {
    let most = contrast.iter().copied().fold(0.0, f32::max);
    let least = contrast.iter().copied().fold(f32::INFINITY, f32::min);
    let limit = least + (most - least) * 0.25;
    let (mut best, mut start) = ((contrast.len(), 0), 0);
    for index in 0..=contrast.len() {
        if contrast.get(index).is_some_and(|value| *value <= limit) {
            continue;
        }
        if index - start >= best.1.max(1) {
            best = (start, index - start);
        }
        start = index + 1;
    }
    best
}

/// Greedy decoding of CTC: the best index of each step, without repetitions and blanks.
fn decode(scores: &[f32], characters: &[String], form: Form) -> Reading {
    let (mut reading, mut last) = (Reading::default(), 0);
    let (mut sum, mut count) = (0.0, 0_u16);
    // Product and number of the steps that are no blanks.
    let (mut product, mut steps) = (1.0_f32, 0_u16);
    for step in scores.chunks_exact(characters.len()) {
        let (best, most) = argmax(step);
        if best != 0 {
            let probability = probability(step, most);
            (product, steps) = (product * probability, steps.saturating_add(1));
            if best != last {
                reading.text.push_str(&characters[best]);
                (sum, count) = (sum + probability, count.saturating_add(1));
            }
        }
        last = best;
    }
    reading.confidence = match form {
        _ if count == 0 => 0.0,
        Form::Single => sum / f32::from(count),
        Form::Crnn => product.powf(2.0 / f32::from(steps).sqrt()),
    };
    reading
}

/// Probability of the score `most`, which is the highest of a step of probabilities or logits.
fn probability(step: &[f32], most: f32) -> f32 {
    match are_probabilities(step) {
        true => most,
        false => 1.0 / step.iter().map(|score| (score - most).exp()).sum::<f32>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quad(corners: [Point; 4]) -> Quad {
        Quad { corners, score: 1.0 }
    }

    #[test]
    fn repetitions_and_blanks_are_removed() {
        let characters: Vec<String> = ["", "a", "b"].map(str::to_owned).to_vec();
        let row = |best: usize| [0, 1, 2].map(|index| if index == best { 0.8 } else { 0.1 });
        let scores: Vec<f32> = [1, 1, 0, 1, 2, 2, 0].into_iter().flat_map(row).collect();
        let found = decode(&scores, &characters, Form::Single);
        assert_eq!(found.text, "aab");
        assert!((found.confidence - 0.8).abs() < 1e-6);
        // Five steps of 0.8, two of them repetitions.
        let product = decode(&scores, &characters, Form::Crnn).confidence;
        assert!((product - 0.8_f32.powf(5.0 * 2.0 / 5.0_f32.sqrt())).abs() < 1e-6, "{product}");
        let logits: Vec<f32> = scores.iter().map(|score| score.ln() + 3.0).collect();
        assert!((decode(&logits, &characters, Form::Single).confidence - 0.8).abs() < 1e-5);
        assert_eq!(decode(&[0.9, 0.05, 0.05], &characters, Form::Crnn), Reading::default());
    }

    #[test]
    fn lines_are_turned_and_leveled() {
        let upright = Line::of(&quad([[10.0, 20.0], [110.0, 21.0], [110.0, 41.0], [10.0, 40.0]]));
        assert_eq!(upright.along[1], 0.0, "a drift of one pixel is ignored");
        let map = upright.image_from_strip(320.0, 32.0);
        let [x, y] = map.apply([160.0, 16.0]);
        assert!((x - 60.0).abs() < 1e-9 && (y - 30.5).abs() < 1e-9);
        let turned = Line::of(&quad([[10.0, 20.0], [110.0, 60.0], [102.0, 80.0], [2.0, 40.0]]));
        assert_eq!(turned.along, [100.0, 40.0]);
        // The right side of a vertical box is the upper side of its line.
        let vertical = Line::of(&quad([[0.0, 0.0], [10.0, 0.0], [10.0, 50.0], [0.0, 50.0]]));
        assert_eq!(vertical.image_from_strip(50.0, 10.0).apply([0.0, 0.0]), [10.0, 0.0]);
        assert_eq!(vertical.image_from_strip(50.0, 10.0).apply([50.0, 10.0]), [0.0, 50.0]);
    }

    #[test]
    fn long_lines_are_cut_at_the_widest_gap() {
        let mut contrast = vec![1.0; 60];
        contrast[10..14].fill(0.1);
        contrast[30..40].fill(0.1);
        contrast[50..55].fill(0.2);
        assert_eq!(widest_gap(&contrast), (30, 10));
        assert_eq!(widest_gap(&[1.0, 0.0]), (1, 1));
        let pixels = [0.0, 0.0, 9.0, 1.0, 0.5, 9.0];
        assert_eq!(contrasts(&pixels, [3, 2], 2, 1), [1.0, 0.5]);
    }
}
