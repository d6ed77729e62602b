//! The modules: their names, their sources and their code objects, in the shape of Candle's own kernels crate.
//! What a module contains is read from its compiled object by the build script; nothing is listed twice.

/// A code object for one target.
#[derive(Clone, Copy)]
pub struct Image {
    /// The target, as a device reports it without features: `host`, `gfx1100`, ...
    pub target: &'static str,
    /// What the device loads.
    pub bytes: &'static [u8],
}

/// One translation unit of kernels.
#[derive(Clone, Copy)]
pub struct Module {
    /// Position in [`ALL_IDS`].
    pub index: usize,
    /// Its name, such as `binary`.
    pub name: &'static str,
    /// Its source, complete: it includes nothing.
    pub source: &'static str,
    /// Code objects that were built ahead of time.
    pub images: &'static [Image],
    /// The names of its kernels, sorted.
    pub kernels: &'static [&'static str],
}

impl Module {
    /// The position of a kernel in [`Module::kernels`].
    pub fn position(&self, kernel: &str) -> Option<usize> {
        self.kernels.binary_search(&kernel).ok()
    }

    /// The code object built ahead of time for `target`.
    pub fn image(&self, target: &str) -> Option<&'static [u8]> {
        self.images.iter().find(|image| image.target == target).map(|image| image.bytes)
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Module({}, {} kernels)", self.name, self.kernels.len())
    }
}

macro_rules! modules {
    ($($id:ident $constant:ident $name:literal $what:literal,)*) => {
        /// Which module.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Id {
            $(#[doc = $what] $id,)*
        }

        /// All modules, in the order of their `index`.
        pub const ALL_IDS: &[Id] = &[$(Id::$id),*];

        impl Id {
            /// The module.
            pub const fn module(self) -> &'static Module {
                match self {
                    $(Id::$id => &$constant,)*
                }
            }
        }

        $(
            #[doc = $what]
            pub static $constant: Module = Module {
                index: Id::$id as usize,
                name: $name,
                source: include_str!(concat!(env!("OUT_DIR"), "/", $name, ".hip")),
                images: &[Image { target: "host", bytes: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".host")) }],
                kernels: include!(concat!(env!("OUT_DIR"), "/", $name, ".kernels.rs")),
            };
        )*
    };
}

modules! {
    Affine AFFINE "affine" "`x * mul + add`.",
    Binary BINARY "binary" "Arithmetic and comparisons of two tensors.",
    Cast CAST "cast" "Conversions between all pairs of dtypes.",
    Conv CONV "conv" "Convolutions, transposed ones, pooling and resampling.",
    Fill FILL "fill" "Constants, and copies of rows.",
    Indexing INDEXING "indexing" "Reads and writes through a tensor of ids.",
    Quantized QUANTIZED "quantized" "Block-quantized formats and the products over them.",
    Reduce REDUCE "reduce" "Sums, extrema and their positions.",
    Sort SORT "sort" "Sorting, of rows and of positions.",
    Ternary TERNARY "ternary" "Choice by a condition.",
    Unary UNARY "unary" "Functions of one tensor, and strided copies.",
    Gemm GEMM "gemm" "Matrix products, for devices without a library of them.",
    Norms NORMS "norms" "RMS and layer normalisation.",
    Random RANDOM "random" "Uniform and normal numbers from a counter.",
    Rope ROPE "rope" "Rotary position embeddings.",
    Softmax SOFTMAX "softmax" "Softmax and its logarithm.",
}
