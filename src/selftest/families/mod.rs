//! The kernels, family by family: each operation is a name and a function that compares the device with the oracle on random shapes,
//! dtypes and strides. What one row of a list holds, `--only` can repeat alone.

mod attention;
mod elementwise;
mod image;
mod indexing;
mod matrix;
mod quantized;
mod rows;

use super::compare::Comparison;
use candle_rocm_kernels::DType;

/// An operation of the kernels.
pub struct Operation {
    /// Family and name, as in `unary/uexp`.
    pub name: String,
    /// Compares.
    pub run: Box<dyn Fn(&mut Comparison<'_>)>,
}

/// The list while it is being written.
struct Operations(Vec<Operation>);

impl Operations {
    fn add(&mut self, name: impl Into<String>, run: impl Fn(&mut Comparison<'_>) + 'static) {
        self.0.push(Operation { name: name.into(), run: Box::new(run) });
    }
}

/// All of them.
pub fn all() -> Vec<Operation> {
    let mut list = Operations(Vec::new());
    elementwise::add(&mut list);
    rows::add(&mut list);
    indexing::add(&mut list);
    matrix::add(&mut list);
    image::add(&mut list);
    quantized::add(&mut list);
    attention::add(&mut list);
    list.0
}

const FLOATS: [DType; 5] = [DType::F32, DType::F16, DType::BF16, DType::F64, DType::F8E4M3];
/// Those that models compute with.
const MODEL_FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

#[cfg(test)]
mod tests {
    use super::super::number::Random;
    use super::super::operand::Side;
    use super::*;
    use hip::Platform;

    /// Every operation agrees with itself, and a spoiled result is found in every one of them.
    #[test]
    fn every_operation_compares_something_and_finds_a_fault() {
        let device = Platform::named("host").unwrap().device(0).unwrap();
        let (side, oracle) = (Side::new(&device, true).unwrap(), Side::new(&device, false).unwrap());
        let all = all();
        let mut names: Vec<&str> = all.iter().map(|operation| operation.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() == all.len() && all.len() > 60, "{} names of {}", names.len(), all.len());
        for operation in all {
            for spoil in [false, true] {
                let random = Random::of(3, &operation.name);
                let mut comparison = Comparison { spoil, ..Comparison::new(&side, &oracle, random, 1) };
                (operation.run)(&mut comparison);
                let sentences = &comparison.sentences;
                assert!(comparison.trials > 0, "{} compares nothing", operation.name);
                assert_eq!(comparison.failed > 0, spoil, "{}: {sentences:?}", operation.name);
            }
        }
    }
}
