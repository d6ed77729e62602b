//! Pooling and resampling.

use super::{RocmError, RocmStorage};
use crate::{Layout, Result};

/// How a window is summed up.
pub(super) enum Pool {
    /// By its mean.
    Average,
    /// By its largest element.
    Max,
}

pub(super) fn pool2d(_: &RocmStorage, _: &Layout, _: Pool, _: (usize, usize), _: (usize, usize)) -> Result<RocmStorage> {
    Err(RocmError::NotThereYet { op: "pool2d" }.into())
}

pub(super) fn upsample_nearest1d(_: &RocmStorage, _: &Layout, _: usize) -> Result<RocmStorage> {
    Err(RocmError::NotThereYet { op: "upsample_nearest1d" }.into())
}

pub(super) fn upsample_nearest2d(_: &RocmStorage, _: &Layout, _: usize, _: usize) -> Result<RocmStorage> {
    Err(RocmError::NotThereYet { op: "upsample_nearest2d" }.into())
}

pub(super) fn upsample_bilinear2d(_: &RocmStorage, _: &Layout, _: (usize, usize), _: bool, _: (Option<f64>, Option<f64>)) -> Result<RocmStorage> {
    Err(RocmError::NotThereYet { op: "upsample_bilinear2d" }.into())
}

