//! Embeddings of tokens and images, for programs whose decoder takes embeddings.

use std::{ops::Range, sync::Arc};

use afferent_core::{Error, ScalarType, Tensor, TensorView, read_floats, tensor_of};
use afferent_runtime::{
    Input, Model, ModelFile, ModelOutputs, RunOptions, Signature, TensorSpec as Spec,
};

use crate::TextError;

/// Name of the method that embeds tokens.
pub(crate) const EMBEDDING: &str = "token_embedding";

/// Name of the method that computes logits of embeddings.
pub(crate) const DECODER: &str = "text_decoder";

/// Rows of an encoder, such as that of images: each takes one position of the context.
///
/// Clones share the values. A context that holds the same rows as an earlier one, and not only equal
/// ones, reuses the KV cache.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingRows {
    values: Arc<[f32]>,
    width: usize,
}

impl EmbeddingRows {
    /// Rows of `width` values each.
    ///
    /// # Errors
    /// [`TextError::Embedding`] if there is no whole number of rows.
    pub fn new(values: &[f32], width: usize) -> Result<Self, TextError> {
        if width == 0 || values.is_empty() || !values.len().is_multiple_of(width) {
            let reason = format!("{} values are not rows of {width} values", values.len());
            return Err(TextError::Embedding { reason });
        }
        Ok(Self { values: values.into(), width })
    }

    /// Copies the output 0 of an encoder, which lies in its memory: `[rows, width]`, or
    /// `[parts, rows, width]` of an image in several parts, in f32, f16 or bf16.
    ///
    /// # Errors
    /// [`TextError::Embedding`] for another type.
    pub fn of_output(outputs: &ModelOutputs<'_>) -> Result<Self, TextError> {
        let failed = |error: Error| TextError::Embedding { reason: error.to_string() };
        let tensor = outputs.tensor(0).map_err(failed)?;
        let mut values = Vec::new();
        read_floats(&tensor, &mut values).map_err(failed)?;
        Self::new(&values, tensor.sizes().last().copied().unwrap_or(0))
    }

    /// Number of rows, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one row")]
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Number of values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Values of all rows.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// True if both share their values.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.values, &other.values)
    }
}

/// Part of a context.
#[derive(Debug, Clone, PartialEq)]
pub enum Segment {
    /// Tokens.
    Tokens(Vec<u32>),
    /// Rows of an encoder, each at a position of the token `placeholder`.
    Rows {
        /// Token that [`Generator::tokens`](crate::Generator::tokens) has for each row. It need not be
        /// in the vocabulary.
        placeholder: u32,
        /// Rows.
        rows: EmbeddingRows,
    },
}

impl Segment {
    /// Number of positions in the context.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Tokens(tokens) => tokens.len(),
            Self::Rows { rows, .. } => rows.len(),
        }
    }
}

/// Embedding of a program with the methods `token_embedding(i64 [1, S]) -> [1, S, D]` and
/// `text_decoder(embeddings [1, S, D], positions)`.
///
/// With embeddings of each layer, `token_embedding` also returns `[1, S, L, P]`, and the decoder takes
/// it before the positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenEmbedding {
    /// Number of values of an embedding.
    pub width: usize,
    /// Maximum number of tokens in one run of `token_embedding`.
    pub max_tokens: usize,
    /// Type of the embeddings that the decoder takes: f32, f16 or bf16.
    pub dtype: ScalarType,
    /// Embeddings of each layer: numbers of layers and values, and the type that the decoder takes.
    pub layers: Option<([usize; 2], ScalarType)>,
}

impl TokenEmbedding {
    /// Reads the methods of `file`.
    pub(crate) fn read(file: &ModelFile) -> Result<Self, String> {
        let signature =
            |name: &str| file.signature(name).map_err(|error| format!("{name}: {error}"));
        let (embedding, decoder) = (signature(EMBEDDING)?, signature(DECODER)?);
        let wrong = |name: &str, signature: &Signature, expected: &str| {
            format!("{name} has {}; expected is {expected}", describe(signature))
        };
        let take = |values: &[Option<Spec>], index: usize| values.get(index).cloned().flatten();
        let tokens = take(&embedding.inputs, 0)
            .filter(|tokens| tokens.dtype == ScalarType::Long && embedding.inputs.len() == 1);
        let max_tokens = tokens.as_ref().and_then(|tokens| match *tokens.sizes {
            [1, max] if max == 1 || max > 1 && !tokens.is_static => Some(max),
            _ => None,
        });
        let width = take(&embedding.outputs, 0).and_then(|rows| match *rows.sizes {
            [1, _, width] if is_float(rows.dtype) && width > 0 => Some(width),
            _ => None,
        });
        let (Some(max_tokens), Some(width)) = (max_tokens, width) else {
            let expected = "token_embedding(i64[1, S]) -> [1, S, D], with a dynamic S or 1";
            return Err(wrong(EMBEDDING, &embedding, expected));
        };
        let taken = take(&decoder.inputs, 0).filter(|rows| is_float(rows.dtype));
        let Some(rows) = taken.filter(|rows| matches!(*rows.sizes, [1, _, d] if d == width)) else {
            let expected = format!("text_decoder(embeddings [1, S, {width}], i64 positions)");
            return Err(wrong(DECODER, &decoder, &expected));
        };
        let layers = take(&decoder.inputs, 1).filter(|layers| is_float(layers.dtype));
        let layers = match (layers, take(&embedding.outputs, 1)) {
            (None, _) => None,
            (Some(taken), Some(given)) => match (&*taken.sizes, &*given.sizes) {
                (&[1, _, layers, values], &[1, _, same, size])
                    if layers == same && values == size && is_float(given.dtype) =>
                {
                    Some(([layers, values], taken.dtype))
                }
                _ => return Err(wrong(DECODER, &decoder, "the output 1 of token_embedding")),
            },
            (Some(_), None) => {
                let expected = "a second output, the embeddings of each layer for text_decoder";
                return Err(wrong(EMBEDDING, &embedding, expected));
            }
        };
        Ok(Self { width, max_tokens, dtype: rows.dtype, layers })
    }

    /// Index of the position input of the decoder.
    pub(crate) fn position_input(&self) -> usize {
        1 + usize::from(self.layers.is_some())
    }
}

/// Rows in a context, and the embeddings of a run.
#[derive(Debug, Default)]
pub(crate) struct Embedder {
    /// Rows in the order of the context.
    held: Vec<Held>,
    /// Input buffers.
    tokens: Vec<i64>,
    values: Vec<f32>,
    layers: Vec<f32>,
}

/// Rows in the context from `start` on.
#[derive(Debug)]
struct Held {
    start: usize,
    /// Number of rows that are in the context, the first ones.
    len: usize,
    rows: EmbeddingRows,
}

impl Held {
    fn end(&self) -> usize {
        self.start + self.len
    }
}

impl Embedder {
    /// Appends rows at the end of the context, the position `start`.
    pub(crate) fn push(&mut self, start: usize, rows: EmbeddingRows) {
        self.held.push(Held { start, len: rows.len(), rows });
    }

    /// True if the context has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Removes the rows from `position` on.
    pub(crate) fn truncate(&mut self, position: usize) {
        self.held.retain_mut(|held| {
            held.len = held.len.min(position.saturating_sub(held.start));
            held.len > 0
        });
    }

    /// Number of positions from `start` on that have `segment`, in a context of `tokens`.
    pub(crate) fn count_same(&self, tokens: &[u32], start: usize, segment: &Segment) -> usize {
        match segment {
            Segment::Tokens(new) => {
                let rows = self.held.iter().map(|held| held.start).find(|&at| at >= start);
                let end = rows.unwrap_or(tokens.len()).max(start);
                tokens[start..end].iter().zip(new).take_while(|(a, b)| a == b).count()
            }
            Segment::Rows { rows, .. } => {
                let held = self.held.iter().find(|held| held.start == start);
                let is_same = |held: &&Held| held.rows.is_same(rows) && held.len == rows.len();
                held.filter(is_same).map_or(0, |held| held.len)
            }
        }
    }

    /// Computes the embeddings of `range` of the context of `tokens`.
    pub(crate) fn embed(
        &mut self,
        model: &mut Model,
        embedding: &TokenEmbedding,
        tokens: &[u32],
        range: Range<usize>,
        options: &RunOptions<'_>,
    ) -> Result<(), TextError> {
        let failed = |error: Error| TextError::Embedding { reason: error.to_string() };
        let width = embedding.width;
        self.tokens.clear();
        self.tokens.extend(tokens[range.clone()].iter().map(|&token| i64::from(token)));
        let held: Vec<_> = self
            .held
            .iter()
            .filter(|held| held.start < range.end && held.end() > range.start)
            .collect();
        let mut row_count = 0;
        for held in &held {
            let positions = held.start.max(range.start)..held.end().min(range.end);
            row_count += positions.len();
            // The placeholder may not be in the vocabulary.
            self.tokens[positions.start - range.start..positions.end - range.start].fill(0);
        }
        self.values.clear();
        self.values.resize(range.len() * width, 0.0);
        // Without tokens, there is nothing to embed.
        if row_count < range.len() || embedding.layers.is_some() {
            let sizes = [1, self.tokens.len()];
            let input = TensorView::new(&sizes, &self.tokens).map_err(failed)?;
            let outputs = model.run_with(EMBEDDING, &[Input::Tensor(input)], options)?;
            let read = |index: usize, to: &mut Vec<f32>, width: usize| {
                let tensor = outputs.tensor(index).map_err(failed)?;
                read_floats(&tensor, to).map_err(failed)?;
                match to.len() == range.len() * width {
                    true => Ok(()),
                    false => Err(TextError::Embedding {
                        reason: format!(
                            "{EMBEDDING} returned {:?} for {} tokens of {width} values",
                            tensor.sizes(),
                            range.len()
                        ),
                    }),
                }
            };
            read(0, &mut self.values, width)?;
            if let Some(([layers, values], _)) = embedding.layers {
                read(1, &mut self.layers, layers * values)?;
            }
        }
        for held in held {
            let positions = held.start.max(range.start)..held.end().min(range.end);
            let from = (positions.start - held.start) * width..(positions.end - held.start) * width;
            let to = (positions.start - range.start) * width..(positions.end - range.start) * width;
            self.values[to].copy_from_slice(&held.rows.values()[from]);
        }
        Ok(())
    }

    /// Inputs of the decoder before the positions.
    pub(crate) fn inputs(&self, embedding: &TokenEmbedding) -> Result<Vec<Tensor>, Error> {
        let count = self.tokens.len();
        let mut inputs =
            vec![tensor_of(&self.values, &[1, count, embedding.width], embedding.dtype)?];
        if let Some(([layers, values], dtype)) = embedding.layers {
            inputs.push(tensor_of(&self.layers, &[1, count, layers, values], dtype)?);
        }
        Ok(inputs)
    }
}

fn is_float(dtype: ScalarType) -> bool {
    matches!(dtype, ScalarType::Float | ScalarType::Half | ScalarType::BFloat16)
}

/// Inputs and outputs, such as `(i64[1, 16]) -> (f32[1, 16, 64])`.
fn describe(signature: &Signature) -> String {
    let list = |values: &[Option<Spec>]| {
        let values = values.iter().map(|value| match value {
            Some(tensor) => format!("{}{:?}", tensor.dtype.name(), tensor.sizes),
            None => "scalar".to_owned(),
        });
        values.collect::<Vec<_>>().join(", ")
    };
    format!("({}) -> ({})", list(&signature.inputs), list(&signature.outputs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_beginning_is_counted() {
        let rows = |count: usize| EmbeddingRows::new(&vec![1.0; count], 1).expect("rows");
        let (image, other) = (rows(3), rows(3));
        let mut embedder = Embedder::default();
        let tokens = [5, 9, 9, 9, 6, 7];
        embedder.push(1, image.clone());
        let of_tokens = |list: &[u32]| Segment::Tokens(list.to_vec());
        let of_rows = |rows: &EmbeddingRows| Segment::Rows { placeholder: 9, rows: rows.clone() };
        let check = |embedder: &Embedder, start: usize, segment: &Segment, expected: usize| {
            let found = embedder.count_same(&tokens, start, segment);
            assert_eq!(found, expected, "{segment:?} at {start}");
        };
        // A token is not the same as the row at its position.
        check(&embedder, 0, &of_tokens(&[5, 9, 9]), 1);
        check(&embedder, 0, &of_tokens(&[4]), 0);
        check(&embedder, 1, &of_rows(&image), 3);
        check(&embedder, 1, &of_rows(&other), 0);
        check(&embedder, 0, &of_rows(&image), 0);
        check(&embedder, 4, &of_tokens(&[6, 8]), 1);
        check(&embedder, 6, &of_tokens(&[6]), 0);
        embedder.truncate(3);
        check(&embedder, 1, &of_rows(&image), 0);
        embedder.truncate(1);
        assert!(embedder.held.is_empty());
    }
}
