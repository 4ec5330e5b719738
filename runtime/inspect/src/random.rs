//! Random inputs of a method.

use afferent_core::{Bool, Dynamism, Element, Error, ScalarType, Tensor, bf16, f16};
use afferent_runtime::program::{MethodPlan, TensorMeta, Value};

use crate::{InspectError, OwnedValue};

/// Maximum size of a random input in bytes.
const MAX_INPUT_BYTES: usize = 1 << 30;

/// Generates random inputs of the shapes in the program. The same seed gives the same inputs.
///
/// Floats are in [-1, 1), bytes take any value, and other integers are in 0..=3, which is a valid
/// index into most tables of a model. Bounded dimensions have their maximum size. Scalars have
/// their values in the program.
///
/// # Errors
/// [`InspectError::RandomInput`] if an input is unbounded, too large, or of a dtype without random
/// values.
pub fn random_inputs(plan: &MethodPlan<'_>, seed: u64) -> Result<Vec<OwnedValue>, InspectError> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let inputs = plan.inputs().iter().enumerate();
    let random = inputs.map(|(index, value)| match plan.value(value as usize) {
        Value::Tensor(meta) => {
            let tensor = random_tensor(&meta, &mut rng).map(OwnedValue::Tensor);
            tensor.map_err(|reason| {
                let method = plan.name().to_owned();
                InspectError::RandomInput { method, index, reason }
            })
        }
        Value::Int(value) => Ok(OwnedValue::Int(value)),
        Value::Double(value) => Ok(OwnedValue::Double(value)),
        Value::Bool(value) => Ok(OwnedValue::Bool(value)),
        _ => Ok(OwnedValue::None),
    });
    random.collect()
}

fn random_tensor(meta: &TensorMeta<'_>, rng: &mut fastrand::Rng) -> Result<Tensor, String> {
    if meta.dynamism == Dynamism::Unbounded {
        return Err("its sizes are unbounded".to_owned());
    }
    if meta.layout.nbytes > MAX_INPUT_BYTES {
        return Err(format!("it has {} bytes", meta.layout.nbytes));
    }
    let sizes: Vec<usize> = meta.layout.sizes.iter().collect();
    let zeros = Tensor::try_zeros(meta.layout.dtype, &sizes);
    let mut tensor = zeros.map_err(|error| error.to_string())?;
    tensor.set_dim_order(meta.layout.dim_order).map_err(|error| error.to_string())?;
    fn fill<T: Element>(tensor: &mut Tensor, mut next: impl FnMut() -> T) -> Result<(), Error> {
        tensor.data_mut::<T>()?.fill_with(&mut next);
        Ok(())
    }
    let mut float = || rng.f32() * 2.0 - 1.0;
    let filled = match meta.layout.dtype {
        ScalarType::Half => fill(&mut tensor, || f16::from_f32(float())),
        ScalarType::BFloat16 => fill(&mut tensor, || bf16::from_f32(float())),
        ScalarType::Float => fill(&mut tensor, float),
        ScalarType::Double => fill(&mut tensor, || f64::from(float())),
        ScalarType::Byte => fill(&mut tensor, || rng.u8(..)),
        ScalarType::Char => fill(&mut tensor, || rng.i8(..)),
        ScalarType::Bool => fill(&mut tensor, || Bool::from(rng.bool())),
        ScalarType::Short => fill(&mut tensor, || rng.i16(0..4)),
        ScalarType::Int => fill(&mut tensor, || rng.i32(0..4)),
        ScalarType::Long => fill(&mut tensor, || rng.i64(0..4)),
        ScalarType::UInt16 => fill(&mut tensor, || rng.u16(0..4)),
        ScalarType::UInt32 => fill(&mut tensor, || rng.u32(0..4)),
        ScalarType::UInt64 => fill(&mut tensor, || rng.u64(0..4)),
        other => return Err(format!("{other} has no random values")),
    };
    filled.map_err(|error| error.to_string())?;
    Ok(tensor)
}

#[cfg(test)]
mod tests {
    use afferent_runtime::ModelFile;

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/data/programs");
        let file = ModelFile::open(format!("{folder}/mlp/model.pte"), &[]).unwrap();
        let plan = file.method("forward").unwrap();
        let bytes = |seed| match &random_inputs(&plan, seed).unwrap()[0] {
            OwnedValue::Tensor(tensor) => tensor.view().bytes().to_vec(),
            other => panic!("{other:?} is not a tensor"),
        };
        assert_eq!(bytes(7), bytes(7));
        assert_ne!(bytes(7), bytes(8));
    }
}
