//! What instructions do. `lanes` turns an operation on one lane into a handler for a wave; the other files say the operations.

// Lanes are numbers here: loops over several rows at once are by index. Bit expressions follow the manuals.
#![allow(
    clippy::needless_range_loop,
    clippy::precedence,
    clippy::double_comparisons,
    clippy::neg_cmp_op_on_partial_ord
)]

pub(crate) mod atomic;
pub(crate) mod compare;
pub(crate) mod cross;
pub(crate) mod elem;
pub(crate) mod float;
pub(crate) mod forms;
pub(crate) mod lanes;
pub(crate) mod lds;
pub(crate) mod machine;
pub(crate) mod matrix;
pub(crate) mod packed;
pub(crate) mod places;
pub(crate) mod salu;
pub(crate) mod smem;
pub(crate) mod trans;
pub(crate) mod valu;
pub(crate) mod vmem;
