//! The modules: their names, their sources and their code objects, in the shape of Candle's own kernels crate.
//! What a module contains is read from its compiled object by the build script; nothing is listed twice.

use crate::arch::{Arch, GENERIC_SINCE};
use std::borrow::Cow;
use std::io::Read;

/// A code object for one target.
#[derive(Clone, Copy)]
pub struct Image {
    /// The target: `host`, `gfx1100`, `gfx90a:xnack-`, `gfx11-generic`, ...
    pub target: &'static str,
    /// The object, as it lies in the program.
    pub bytes: &'static [u8],
    /// Compressed as an LZMA file. AMD's objects are: their kernels repeat each other, far apart, and become ten times
    /// smaller, where deflate with its short window manages five. Clang's own compressed bundles are no way
    /// out: HIP 5 does not load them.
    pub packed: bool,
}

impl Image {
    /// What the device loads. The error is a sentence.
    pub fn object(&self) -> Result<Cow<'static, [u8]>, String> {
        if !self.packed {
            return Ok(Cow::Borrowed(self.bytes));
        }
        let mut object = Vec::new();
        lzma_rust2::LzmaReader::new_mem_limit(self.bytes, 64 << 10, None)
            .and_then(|mut reader| reader.read_to_end(&mut object))
            .map_err(|error| {
                format!("the code object for {} inside the program is damaged ({error}); build it again", self.target)
            })?;
        Ok(Cow::Owned(object))
    }
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

    /// The code object built ahead of time for exactly `target`.
    pub fn image(&self, target: &str) -> Option<&'static Image> {
        self.images.iter().find(|image| image.target == target)
    }

    /// The best of the code objects built ahead of time that run on this GPU below this HIP release.
    pub fn image_for(&self, gpu: &Arch, hip: (u32, u32)) -> Option<&'static Image> {
        best(self.images, gpu, hip)
    }
}

fn best<'a>(images: &'a [Image], gpu: &Arch, hip: (u32, u32)) -> Option<&'a Image> {
    let suits = |image: &&'a Image| {
        let target = Arch::parse(image.target).ok().filter(|target| !target.is_generic() || hip >= GENERIC_SINCE)?;
        target.suits(gpu)
    };
    images.iter().filter(|image| suits(image).is_some()).max_by_key(suits)
}

/// The targets that this program has code objects for, built ahead of time; `host` is the embedded device.
pub fn targets() -> Vec<&'static str> {
    ALL_IDS.first().map_or_else(Vec::new, |id| id.module().images.iter().map(|image| image.target).collect())
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
                images: include!(concat!(env!("OUT_DIR"), "/", $name, ".images.rs")),
                kernels: include!(concat!(env!("OUT_DIR"), "/", $name, ".kernels.rs")),
            };
        )*
    };
}

modules! {
    Affine AFFINE "affine" "`x * mul + add`.",
    Attention ATTENTION "attention" "Scaled dot product attention.",
    Binary BINARY "binary" "Arithmetic and comparisons of two tensors.",
    Cast CAST "cast" "Conversions between all pairs of dtypes.",
    Conv CONV "conv" "Convolutions, transposed ones, pooling and resampling.",
    Fill FILL "fill" "Constants, and copies of rows.",
    Gated GATED "gated" "Gated linear units: an activation of one tensor times another.",
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn named(target: &'static str) -> Image {
        Image { target, bytes: b"", packed: false }
    }

    #[test]
    fn the_best_object_that_runs_is_chosen() {
        let images = ["host", "gfx11-generic", "gfx1100", "gfx90a:xnack+", "gfx90a"].map(named);
        let choose = |gpu: &str, hip| best(&images, &Arch::parse(gpu).unwrap(), hip).map(|image| image.target);
        assert_eq!(choose("gfx1100", (6, 4)), Some("gfx1100"));
        assert_eq!(choose("gfx1151", (7, 0)), Some("gfx11-generic"));
        assert_eq!(choose("gfx1151", (6, 2)), None, "that loader does not take generic objects");
        assert_eq!(choose("gfx90a:sramecc+:xnack+", (5, 2)), Some("gfx90a:xnack+"));
        assert_eq!(choose("gfx90a:sramecc+:xnack-", (5, 2)), Some("gfx90a"));
        assert_eq!(choose("gfx1030", (7, 0)), None);
    }

    #[test]
    fn a_packed_object_comes_out_whole_or_not_at_all() {
        let object: Vec<u8> = (0..100_000u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
        let options = lzma_rust2::LzmaOptions::with_preset(6);
        let mut writer =
            lzma_rust2::LzmaWriter::new_use_header(Vec::new(), &options, Some(object.len() as u64)).unwrap();
        writer.write_all(&object).unwrap();
        let packed: &'static [u8] = writer.finish().unwrap().leak();
        assert!(packed.len() < object.len() / 4);
        let image = |bytes| Image { target: "gfx1030", bytes, packed: true };
        assert_eq!(image(packed).object().unwrap(), object);
        assert!(image(&packed[..packed.len() / 2]).object().unwrap_err().contains("damaged"));
        assert!(image(b"no such thing").object().is_err());
    }

    /// Whoever forgets it has a kernel that on some GPUs runs before its input is there.
    #[test]
    fn every_kernel_begins_with_enter() {
        for id in ALL_IDS {
            let source = id.module().source;
            let entries = source.match_indices("KERNEL(").filter(|(at, _)| {
                let line = source[..*at].rsplit('\n').next().unwrap_or_default();
                !line.contains("#define") && !line.starts_with("//")
            });
            let mut count = 0;
            for (at, _) in entries {
                let (head, body) = source[at..].split_once('{').expect("a kernel has a body");
                // MmaTiles ask for their weights first; a test of theirs would not notice if they never entered.
                let late = body.starts_with(" enter_later();") && head.contains("mma_tiles_");
                assert!(late || body.starts_with(" enter();"), "module {}: {head}", id.module().name);
                count += 1;
            }
            assert!(count > 0, "module {} has no kernels, or this test does not see them", id.module().name);
        }
    }
}
