//! How the two devices are compared: operands with the same values on both, in layouts made by the same chain of views, and
//! a tolerance for each dtype. What the CPU backend refuses is not compared; what it answers, ROCm must answer too.

use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device, Result, Tensor, Var};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Every dtype that has kernels, but for F8E4M3: its conversion to f64 on the CPU, with which results are compared here, calls
/// itself without end. The tests of the kernels have it.
pub const ALL: [DType; 9] =
    [DType::U8, DType::U32, DType::I16, DType::I32, DType::I64, DType::BF16, DType::F16, DType::F32, DType::F64];
/// The block formats of GGUF files...
pub const QUANTIZED: [GgmlDType; 12] = [
    GgmlDType::Q4_0,
    GgmlDType::Q4_1,
    GgmlDType::Q5_0,
    GgmlDType::Q5_1,
    GgmlDType::Q8_0,
    GgmlDType::Q8_1,
    GgmlDType::Q2K,
    GgmlDType::Q3K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
    GgmlDType::Q8K,
];
/// ...and the plain ones.
pub const PLAIN: [GgmlDType; 3] = [GgmlDType::F32, GgmlDType::F16, GgmlDType::BF16];
const FLOATS: [DType; 4] = [DType::BF16, DType::F16, DType::F32, DType::F64];

/// Which dtypes an operation is tried with.
#[derive(Clone, Copy)]
pub enum Dtypes {
    All,
    Floats,
    /// Floats in which the CPU's sums lose nothing to speak of: it adds short ones in their own dtype.
    Wide,
}

/// Where the operands' values lie.
#[derive(Clone, Copy)]
pub enum Range {
    /// Both signs, up to a hundred.
    Any,
    /// Away from zero.
    Positive,
    /// Whole numbers of both signs, so small that sums and products are exact in every dtype.
    Small,
}

/// What is compared.
pub struct Case {
    pub name: &'static str,
    pub dtypes: Dtypes,
    pub range: Range,
    pub operands: usize,
}

const SHAPES: [&[usize]; 8] = [&[1], &[7], &[3, 5], &[32, 33], &[2, 3, 4], &[1, 6, 1], &[2, 3, 4, 5], &[70, 64]];

/// The fixed shapes, and a few random ones that differ from case to case.
fn shapes(name: &str) -> Vec<Vec<usize>> {
    let mut rng =
        StdRng::seed_from_u64(name.bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into())));
    let mut random = || (0..rng.random_range(1..5)).map(|_| rng.random_range(1..12)).collect::<Vec<usize>>();
    SHAPES.iter().map(|shape| shape.to_vec()).chain((0..4).map(|_| random())).collect()
}

/// Tries a case in every dtype and shape, and in a random layout each; returns what differed.
#[must_use]
pub fn check(case: Case, op: impl Fn(&[Tensor]) -> Result<Tensor>) -> Vec<String> {
    let device = Device::new_rocm(0).expect("a ROCm device");
    let dtypes: &[DType] = match case.dtypes {
        Dtypes::All => &ALL,
        Dtypes::Floats => &FLOATS,
        Dtypes::Wide => &[DType::F32, DType::F64],
    };
    let mut complaints = Vec::new();
    for &dtype in dtypes {
        for (seed, shape) in shapes(case.name).iter().enumerate() {
            let mut rng = StdRng::seed_from_u64(seed as u64);
            let operands: Vec<_> = (0..case.operands).map(|_| random(shape, dtype, case.range, &mut rng)).collect();
            let views = View::random_chain(shape, &mut rng);
            let on = |device: &Device| -> Result<Tensor> {
                let moved = operands.iter().map(|tensor| View::apply(&views, &tensor.to_device(device)?));
                op(&moved.collect::<Result<Vec<_>>>()?)
            };
            // What the CPU cannot do there is nothing to compare with.
            let Ok(expected) = on(&Device::Cpu) else { continue };
            let what = format!("{} on {dtype:?} {shape:?} {views:?}", case.name);
            let complaint = match on(&device) {
                Ok(got) if got.dtype() != expected.dtype() => Some(format!("{what}: a result of {:?}", got.dtype())),
                Ok(got) => difference(&what, &expected, &got, tolerance(dtype)),
                Err(error) => Some(format!("{what}: {error}")),
            };
            if let Some(complaint) = complaint {
                // One shape is enough to find the fault.
                complaints.push(complaint);
                break;
            }
        }
    }
    complaints
}

/// Tries an operation on contiguous operands of given shapes in every float dtype.
pub fn check_shapes(name: &str, shapes: &[Vec<usize>], short: f64, op: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let device = Device::new_rocm(0).expect("a ROCm device");
    for dtype in FLOATS {
        let mut rng = StdRng::seed_from_u64(7);
        let operands: Vec<_> = shapes.iter().map(|shape| random(shape, dtype, Range::Small, &mut rng)).collect();
        let on = |device: &Device| op(&operands.iter().map(|t| t.to_device(device)).collect::<Result<Vec<_>>>()?);
        // The CPU's short floats are rounded along the way: its f32 answer is the better yardstick.
        let exact =
            || -> Result<Tensor> { op(&operands.iter().map(|t| t.to_dtype(DType::F64)).collect::<Result<Vec<_>>>()?) };
        let Ok(expected) = exact() else { continue };
        let what = format!("{name} on {dtype:?} {shapes:?}");
        let got = on(&device).unwrap_or_else(|error| panic!("{what}: {error}"));
        let tolerance = if dtype == DType::F16 || dtype == DType::BF16 { short } else { tolerance(dtype) };
        assert_close(&what, &expected, &got, tolerance);
    }
}

/// Compares the gradients of an operation on two operands of one shape, for each of the fixed shapes.
pub fn check_gradients(name: &str, range: Range, op: impl Fn(&[Tensor]) -> Result<Tensor>) {
    for shape in SHAPES {
        check_gradients_of(name, &[shape.to_vec(), shape.to_vec()], range, &op);
    }
}

/// Compares the gradients of the sum of an operation's results, squared so that they depend on them.
pub fn check_gradients_of(name: &str, shapes: &[Vec<usize>], range: Range, op: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let device = Device::new_rocm(0).expect("a ROCm device");
    let mut rng = StdRng::seed_from_u64(shapes[0].len() as u64);
    let operands: Vec<_> = shapes.iter().map(|shape| random(shape, DType::F32, range, &mut rng)).collect();
    let on = |device: &Device| -> Result<Vec<Tensor>> {
        let moved = operands.iter().map(|tensor| Var::from_tensor(&tensor.to_device(device)?));
        let variables = moved.collect::<Result<Vec<_>>>()?;
        let inputs: Vec<_> = variables.iter().map(|variable| variable.as_tensor().clone()).collect();
        let result = op(&inputs)?;
        let gradients = result.affine(0.5, 0.25)?.sqr()?.sum_all()?.backward()?;
        Ok(variables.iter().filter_map(|variable| gradients.get(variable).cloned()).collect())
    };
    let what = format!("gradient of {name} on {shapes:?}");
    // Some operations refuse some shapes; then both devices must.
    let expected = match on(&Device::Cpu) {
        Ok(expected) => expected,
        Err(error) => {
            assert!(on(&device).is_err(), "{what}: the CPU refuses ({error})");
            return;
        }
    };
    let got = on(&device).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(!expected.is_empty() && expected.len() == got.len(), "{what}: as many gradients");
    for (expected, got) in expected.iter().zip(&got) {
        // A sum of many terms is judged by the size of its largest.
        let largest = expected.abs().and_then(|x| x.max_all()?.to_scalar::<f32>()).expect("a number");
        let scale = f64::from(largest.max(1.)).recip();
        let scaled = |tensor: &Tensor| tensor.affine(scale, 0.).expect("a scaled tensor");
        assert_close(&what, &scaled(expected), &scaled(got), 1e-5);
    }
}

/// Relative to the larger magnitude, or absolute below one.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-10,
        DType::F32 => 1e-5,
        DType::F16 => 4e-3,
        DType::BF16 => 3e-2,
        _ => 0.,
    }
}

/// Asserts that two tensors have one shape and nearly one value.
pub fn assert_close(what: &str, expected: &Tensor, got: &Tensor, tolerance: f64) {
    if let Some(complaint) = difference(what, expected, got, tolerance) {
        panic!("{complaint}");
    }
}

fn difference(what: &str, expected: &Tensor, got: &Tensor, tolerance: f64) -> Option<String> {
    if expected.shape() != got.shape() {
        return Some(format!("{what}: {got:?}, the CPU says {expected:?}"));
    }
    let values = |tensor: &Tensor| -> Result<Vec<f64>> {
        tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
    };
    let (expected, got) = (values(expected).expect("values"), values(got).expect("values"));
    for (index, (expected, got)) in expected.iter().zip(&got).enumerate() {
        let bound = tolerance * expected.abs().max(1.);
        let close = (expected - got).abs() <= bound || (expected.is_nan() && got.is_nan()) || expected == got;
        if !close {
            return Some(format!("{what}: element {index} is {got}, the CPU says {expected}, tolerance {bound:e}"));
        }
    }
    None
}

fn random(shape: &[usize], dtype: DType, range: Range, rng: &mut StdRng) -> Tensor {
    let signed = !matches!(dtype, DType::U8 | DType::U32);
    let (low, high) = match range {
        Range::Any => (if signed { -100. } else { 0. }, 100.),
        Range::Positive => (1., 9.),
        Range::Small => (if signed { -3. } else { 0. }, 3.),
    };
    let whole = matches!(range, Range::Small);
    let mut value = || -> f64 { rng.random_range(low..high) };
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| if whole { value().round() } else { value() }).collect();
    let tensor = Tensor::from_vec(values, shape, &Device::Cpu).expect("a tensor");
    tensor.to_dtype(dtype).expect("a dtype of the CPU's")
}

/// One step of a chain of views.
#[derive(Clone, Debug)]
enum View {
    Transpose(usize, usize),
    Permute(Vec<usize>),
    Narrow(usize, usize, usize),
    Broadcast(usize),
    /// Two neighbouring dimensions as one: a copy, unless the layout allows a view.
    Merge(usize),
}

impl View {
    /// A chain that makes sense for a shape. Extents stay above zero.
    fn random_chain(shape: &[usize], rng: &mut StdRng) -> Vec<View> {
        let mut shape = shape.to_vec();
        let mut chain = Vec::new();
        for _ in 0..rng.random_range(0..5) {
            let (one, other) = (rng.random_range(0..shape.len()), rng.random_range(0..shape.len()));
            match rng.random_range(0..5) {
                0 => {
                    shape.swap(one, other);
                    chain.push(View::Transpose(one, other));
                }
                1 => {
                    let mut order: Vec<usize> = (0..shape.len()).collect();
                    order.rotate_left(one);
                    shape = order.iter().map(|&dim| shape[dim]).collect();
                    chain.push(View::Permute(order));
                }
                2 if shape[one] > 1 => {
                    let start = rng.random_range(0..shape[one] - 1);
                    let length = rng.random_range(1..=shape[one] - start);
                    shape[one] = length;
                    chain.push(View::Narrow(one, start, length));
                }
                3 if shape.len() < 5 => {
                    shape.insert(0, 3);
                    chain.push(View::Broadcast(3));
                }
                4 if one + 1 < shape.len() => {
                    shape[one] *= shape.remove(one + 1);
                    chain.push(View::Merge(one));
                }
                _ => {}
            }
        }
        chain
    }

    fn apply(chain: &[View], tensor: &Tensor) -> Result<Tensor> {
        chain.iter().try_fold(tensor.clone(), |tensor, view| match view {
            View::Transpose(one, other) => tensor.transpose(*one, *other),
            View::Permute(order) => tensor.permute(order.as_slice()),
            View::Narrow(dim, start, length) => tensor.narrow(*dim, *start, *length),
            View::Broadcast(extent) => tensor.broadcast_left(*extent),
            View::Merge(dim) => tensor.flatten(*dim, dim + 1),
        })
    }
}
