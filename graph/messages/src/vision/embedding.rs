//! Embeddings of images and texts.

use afferent_core::{ForeignBytes, ScalarType, Tensor};

use super::count;
use crate::{Cdr, CdrMessage, Wire, WireMessage, wire::Matrix};
use afferent_graph::{Field, OnFull, Payload, RecordCodec, WireCodec};

/// Vectors that stand for an image or a text: a tensor `[vectors, dimensions]` of `f32`.
///
/// Models with late interaction give a vector for each token; others give one.
#[derive(Debug, Clone)]
pub struct Embedding {
    /// Name of the space: only vectors of the same space can be compared. Encoders of images and of
    /// texts may share one.
    pub space: String,
    /// The vectors, not necessarily of length 1.
    pub vectors: Tensor,
}

impl Default for Embedding {
    fn default() -> Self {
        let vectors = Tensor::zeros(ScalarType::Float, &[0, 0]);
        Self { space: String::new(), vectors }
    }
}

impl Embedding {
    /// Cosine of the angle between the first vectors, or `None` if the spaces or the dimensions
    /// differ, or if a vector has no direction.
    pub fn cosine(&self, other: &Self) -> Option<f32> {
        let (a, b) = (self.first()?, other.first()?);
        if self.space != other.space {
            return None;
        }
        cosine(a, b)
    }

    /// The first vector.
    pub fn first(&self) -> Option<&[f32]> {
        let [_, dimensions] = *self.vectors.sizes() else { return None };
        self.vectors.data::<f32>().ok()?.get(..dimensions).filter(|vector| !vector.is_empty())
    }

    fn size(&self, dim: usize) -> usize {
        self.vectors.sizes().get(dim).copied().unwrap_or(0)
    }

    fn check(vectors: &Tensor) -> Result<(), String> {
        if vectors.dim_order() != [0, 1] {
            return Err("the values of a vector must be adjacent".to_owned());
        }
        Ok(())
    }
}

/// Cosine of the angle between two vectors, or `None` if their dimensions differ or one has no
/// direction.
pub fn cosine(a: &[f32], b: &[f32]) -> Option<f32> {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    Some(cosine).filter(|cosine| a.len() == b.len() && cosine.is_finite())
}

impl Payload for Embedding {
    const TYPE: &'static str = "vision/Embedding";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Wire::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::Latest;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![
            ("space", Field::Text(self.space.clone())),
            ("vectors", count(self.size(0))),
            ("dimensions", count(self.size(1))),
        ]
    }

    fn bulk_bytes(&self) -> usize {
        self.vectors.byte_len()
    }

    fn release_foreign(&mut self) {
        self.vectors.release_foreign();
    }
}

impl CdrMessage for Embedding {
    const MESSAGE: &'static str = "afferent_msgs/msg/Embedding";
    const SCHEMA: &'static str = "string space
uint32 vectors
uint32 dimensions
float32[] values # vector after vector
";
    type Wire = (String, u32, u32, Vec<f32>);

    fn to_wire(&self) -> Self::Wire {
        let [vectors, dimensions] =
            [0, 1].map(|dim| u32::try_from(self.size(dim)).unwrap_or(u32::MAX));
        let values = self.vectors.data().map(<[f32]>::to_vec).unwrap_or_default();
        (self.space.clone(), vectors, dimensions, values)
    }

    fn from_wire((space, vectors, dimensions, values): Self::Wire) -> Result<Self, String> {
        let tensor = Tensor::new(&[vectors as usize, dimensions as usize], &values);
        let vectors = tensor.map_err(|_| {
            let found = values.len();
            format!("{found} values are not {vectors} vectors of {dimensions}")
        })?;
        Ok(Self { space, vectors })
    }
}

impl WireMessage for Embedding {
    const LAYOUT: &'static str = "string space
uint64[2] sizes # vectors, dimensions
uint8[2] dim_order
bulk float32[] values
";
    type Meta = (String, Matrix);

    fn to_parts(&self) -> Result<(Self::Meta, &[u8]), String> {
        Self::check(&self.vectors)?;
        let (matrix, bulk) = Matrix::of(&self.vectors)?;
        Ok(((self.space.clone(), matrix), bulk))
    }

    fn from_parts((space, matrix): Self::Meta, bulk: ForeignBytes) -> Result<Self, String> {
        let vectors = matrix.into_tensor(bulk)?;
        Self::check(&vectors)?;
        Ok(Self { space, vectors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embedding(space: &str, values: &[f32]) -> Embedding {
        let vectors = Tensor::new(&[1, values.len()], values).unwrap();
        Embedding { space: space.to_owned(), vectors }
    }

    #[test]
    fn only_vectors_of_one_space_are_compared() {
        let clip = embedding("clip", &[3.0, 4.0]);
        assert_eq!(clip.cosine(&embedding("clip", &[4.0, 3.0])), Some(0.96));
        assert_eq!(clip.cosine(&embedding("dino", &[4.0, 3.0])), None);
        assert_eq!(clip.cosine(&embedding("clip", &[4.0])), None);
        assert_eq!(clip.cosine(&embedding("clip", &[0.0, 0.0])), None);
        assert_eq!(clip.cosine(&Embedding::default()), None);
    }

    #[test]
    fn recorded_sizes_must_match() {
        let wire = ("clip".to_owned(), 2, 3, vec![0.0; 5]);
        let error = Embedding::from_wire(wire).unwrap_err();
        assert_eq!(error, "5 values are not 2 vectors of 3");
    }
}
