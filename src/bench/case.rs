//! What a benchmark case is: a family, a name that says dtype and shape, the work it must do at least, and a closure that
//! prepares its operands on a device. The tables of cases are in `cases/`; how a case is timed is in `clock.rs`.

use candle_core::{DType, Device, Result, Shape, Tensor};

/// One turn of a prepared case.
pub type Body = Box<dyn FnMut() -> Result<()>>;

/// Prepares the operands on a device and returns what is timed.
pub type Setup = Box<dyn Fn(&Device) -> Result<Body>>;

/// How large the operands are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Size {
    /// For the embedded device and the CPU: everything in about a minute.
    Small,
    /// For a GPU: operands beyond its caches.
    Full,
    /// For `inspect`, which counts on an emulated GPU of eight compute units: rows as long as the full ones, but fewer of them.
    #[value(skip)]
    Counted,
}

impl Size {
    /// The extent for this size, where there is nothing to count or the small one will do for it.
    pub fn pick<T>(self, full: T, small: T) -> T {
        match self {
            Size::Full => full,
            Size::Small | Size::Counted => small,
        }
    }

    /// The extent for this size.
    pub fn choose<T>(self, full: T, small: T, counted: T) -> T {
        match self {
            Size::Full => full,
            Size::Small => small,
            Size::Counted => counted,
        }
    }
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Many turns between two synchronisations: what the device needs for one.
    Stream,
    /// Many turns until the last is submitted: what the host needs for one.
    Submit,
    /// Every turn ends with a synchronisation, or is one: latencies, transfers, models.
    Alone,
}

/// The least a case has to do, whoever does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes of operands read once and of results written once.
    pub bytes: u64,
    /// Arithmetic operations.
    pub flops: u64,
    /// What it goes over, one by one: elements of the larger of operand and result, multiply-adds of products and convolutions. 0
    /// where there is nothing to count.
    pub elements: u64,
}

impl Work {
    /// So many bytes moved, and so many operations done on them.
    pub fn new(bytes: usize, flops: usize) -> Self {
        Self { bytes: bytes as u64, flops: flops as u64, elements: 0 }
    }

    /// The same work, which goes over so many elements.
    pub fn over(self, elements: usize) -> Self {
        Self { elements: elements as u64, ..self }
    }
}

/// A benchmark case.
pub struct Case {
    /// What it belongs to: `elementwise`, `reduce`, ...
    pub family: &'static str,
    /// Operation, dtype, shape. Files of results are matched by it.
    pub name: String,
    /// What it has to do.
    pub work: Work,
    /// What is timed.
    pub timing: Timing,
    /// Makes it ready.
    pub setup: Setup,
}

impl Case {
    /// Whether `pattern` is part of the family or the name, in any case of letters. A comma separates alternatives.
    pub fn matches(&self, pattern: &str) -> bool {
        let name = format!("{} {}", self.family, self.name).to_lowercase();
        pattern.to_lowercase().split(',').any(|part| name.contains(part.trim()))
    }
}

/// The table while it is being written.
pub struct Cases {
    /// For which size.
    pub size: Size,
    /// The rows so far.
    pub list: Vec<Case>,
}

impl Cases {
    /// A row whose turns make a tensor, timed on the stream.
    pub fn op<F>(
        &mut self,
        family: &'static str,
        name: impl Into<String>,
        work: Work,
        setup: impl Fn(&Device) -> Result<F> + 'static,
    ) where
        F: FnMut() -> Result<Tensor> + 'static,
    {
        self.timed(family, name, work, Timing::Stream, setup);
    }

    /// A row, with what is timed.
    pub fn timed<T, F>(
        &mut self,
        family: &'static str,
        name: impl Into<String>,
        work: Work,
        timing: Timing,
        setup: impl Fn(&Device) -> Result<F> + 'static,
    ) where
        F: FnMut() -> Result<T> + 'static,
    {
        let setup: Setup = Box::new(move |device| {
            let mut body = setup(device)?;
            Ok(Box::new(move || body().map(drop)))
        });
        self.list.push(Case { family, name: name.into(), work, timing, setup });
    }
}

/// Random operands: normal for floats, 0 to 100 for integers. Never zeros, which can run faster than real data.
pub fn random(device: &Device, dtype: DType, shape: impl Into<Shape>) -> Result<Tensor> {
    let shape = shape.into();
    if dtype.is_float() {
        Tensor::randn(0f32, 1f32, shape, device)?.to_dtype(dtype)
    } else {
        Tensor::rand(0f32, 100f32, shape, device)?.to_dtype(dtype)
    }
}

/// Random ids below `bound`.
pub fn ids(device: &Device, shape: impl Into<Shape>, bound: usize) -> Result<Tensor> {
    let below = Tensor::rand(0f32, bound as f32, shape, device)?.to_dtype(DType::U32)?;
    // Rounding may reach the bound itself.
    below.minimum(bound as u32 - 1)
}

/// A count as people say it: 64M, 256K, 4096 stays 4096.
pub fn amount(count: usize) -> String {
    match count {
        n if n >= 1 << 20 && n % (1 << 20) == 0 => format!("{}M", n >> 20),
        n if n >= 1 << 15 && n % (1 << 10) == 0 => format!("{}K", n >> 10),
        n => n.to_string(),
    }
}

/// `f32 4096x4096`.
pub fn label(dtype: DType, dims: &[usize]) -> String {
    let dims: Vec<String> = dims.iter().map(|&dim| amount(dim)).collect();
    format!("{} {}", dtype.as_str(), dims.join("x"))
}
