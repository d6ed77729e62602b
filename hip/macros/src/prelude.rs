//! What the prelude `hip::kernel::prelude` and the numbers of Rust offer to kernels, as tables.

use crate::types::{Prim, Ty};

/// Functions without arguments: the name, and the C++.
pub const PLACES: [(&str, &str); 19] = [
    ("thread_x", "threadIdx.x"),
    ("thread_y", "threadIdx.y"),
    ("thread_z", "threadIdx.z"),
    ("block_x", "blockIdx.x"),
    ("block_y", "blockIdx.y"),
    ("block_z", "blockIdx.z"),
    ("block_dim_x", "blockDim.x"),
    ("block_dim_y", "blockDim.y"),
    ("block_dim_z", "blockDim.z"),
    ("grid_dim_x", "gridDim.x"),
    ("grid_dim_y", "gridDim.y"),
    ("grid_dim_z", "gridDim.z"),
    ("global_x", "rs::u64(blockIdx.x) * blockDim.x + threadIdx.x"),
    ("global_y", "rs::u64(blockIdx.y) * blockDim.y + threadIdx.y"),
    ("global_z", "rs::u64(blockIdx.z) * blockDim.z + threadIdx.z"),
    ("threads_x", "rs::u64(gridDim.x) * blockDim.x"),
    ("wave_size", "(unsigned)warpSize"),
    ("lane", "rs::lane()"),
    ("active_lanes", "__ballot(1)"),
];

/// What functions take and give, in the words of the tables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The receiver's own type.
    Same,
    U32,
    Bool,
    /// The bits of a float, or the unsigned type of the same size.
    Bits,
    F32,
    F64,
}

/// The numbers that have a method.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum On {
    Number,
    Int,
    Signed,
    Unsigned,
    Float,
    Half,
    Wide,
}

/// Methods of numbers: the name, on what, what they take, what they give. The C++ is `rs::name`.
pub const METHODS: &[(&str, On, &[Of], Of)] = &[
    ("min", On::Number, &[Of::Same], Of::Same),
    ("max", On::Number, &[Of::Same], Of::Same),
    ("clamp", On::Number, &[Of::Same, Of::Same], Of::Same),
    ("abs", On::Signed, &[], Of::Same),
    ("signum", On::Signed, &[], Of::Same),
    ("wrapping_add", On::Int, &[Of::Same], Of::Same),
    ("wrapping_sub", On::Int, &[Of::Same], Of::Same),
    ("wrapping_mul", On::Int, &[Of::Same], Of::Same),
    ("wrapping_neg", On::Int, &[], Of::Same),
    ("saturating_add", On::Int, &[Of::Same], Of::Same),
    ("saturating_sub", On::Int, &[Of::Same], Of::Same),
    ("abs_diff", On::Int, &[Of::Same], Of::Bits),
    ("pow", On::Int, &[Of::U32], Of::Same),
    ("count_ones", On::Int, &[], Of::U32),
    ("count_zeros", On::Int, &[], Of::U32),
    ("leading_zeros", On::Int, &[], Of::U32),
    ("trailing_zeros", On::Int, &[], Of::U32),
    ("rotate_left", On::Int, &[Of::U32], Of::Same),
    ("rotate_right", On::Int, &[Of::U32], Of::Same),
    ("is_power_of_two", On::Unsigned, &[], Of::Bool),
    ("to_f32", On::Number, &[], Of::F32),
    ("to_f64", On::Half, &[], Of::F64),
    ("to_bits", On::Float, &[], Of::Bits),
    ("is_nan", On::Float, &[], Of::Bool),
    ("is_finite", On::Float, &[], Of::Bool),
    ("is_infinite", On::Float, &[], Of::Bool),
    ("sqrt", On::Wide, &[], Of::Same),
    ("recip", On::Wide, &[], Of::Same),
    ("floor", On::Wide, &[], Of::Same),
    ("ceil", On::Wide, &[], Of::Same),
    ("round", On::Wide, &[], Of::Same),
    ("round_ties_even", On::Wide, &[], Of::Same),
    ("trunc", On::Wide, &[], Of::Same),
    ("fract", On::Wide, &[], Of::Same),
    ("mul_add", On::Wide, &[Of::Same, Of::Same], Of::Same),
    ("copysign", On::Wide, &[Of::Same], Of::Same),
    ("exp", On::Wide, &[], Of::Same),
    ("exp2", On::Wide, &[], Of::Same),
    ("exp_m1", On::Wide, &[], Of::Same),
    ("ln", On::Wide, &[], Of::Same),
    ("ln_1p", On::Wide, &[], Of::Same),
    ("log2", On::Wide, &[], Of::Same),
    ("log10", On::Wide, &[], Of::Same),
    ("powf", On::Wide, &[Of::Same], Of::Same),
    ("sin", On::Wide, &[], Of::Same),
    ("cos", On::Wide, &[], Of::Same),
    ("tan", On::Wide, &[], Of::Same),
    ("tanh", On::Wide, &[], Of::Same),
    ("sinh", On::Wide, &[], Of::Same),
    ("cosh", On::Wide, &[], Of::Same),
    ("asin", On::Wide, &[], Of::Same),
    ("acos", On::Wide, &[], Of::Same),
    ("atan", On::Wide, &[], Of::Same),
    ("atan2", On::Wide, &[Of::Same], Of::Same),
    ("hypot", On::Wide, &[Of::Same], Of::Same),
];

/// Atomic operations on an element, each giving what was there: the name, how many values it takes, whether floats have it.
pub const ATOMICS: [(&str, usize, bool); 9] = [
    ("atomic_add", 1, true),
    ("atomic_sub", 1, true),
    ("atomic_min", 1, false),
    ("atomic_max", 1, false),
    ("atomic_and", 1, false),
    ("atomic_or", 1, false),
    ("atomic_xor", 1, false),
    ("atomic_exchange", 1, true),
    ("atomic_compare_exchange", 2, false),
];

impl On {
    pub fn has(self, prim: Prim) -> bool {
        match self {
            Self::Number => prim != Prim::Bool,
            Self::Int => prim.is_int(),
            Self::Signed => prim.is_signed() || prim.is_wide_float(),
            Self::Unsigned => prim.is_int() && !prim.is_signed(),
            Self::Float => prim.is_float(),
            Self::Half => prim.is_float() && !prim.is_wide_float(),
            Self::Wide => prim.is_wide_float(),
        }
    }
}

impl Of {
    pub fn ty(self, prim: Prim) -> Ty {
        let prim = match self {
            Self::Same => prim,
            Self::U32 => Prim::U32,
            Self::Bool => Prim::Bool,
            Self::F32 => Prim::F32,
            Self::F64 => Prim::F64,
            Self::Bits => match (prim, prim.bits()) {
                (Prim::Isize | Prim::Usize, _) => Prim::Usize,
                (_, 8) => Prim::U8,
                (_, 16) => Prim::U16,
                (_, 32) => Prim::U32,
                _ => Prim::U64,
            },
        };
        prim.into()
    }
}
