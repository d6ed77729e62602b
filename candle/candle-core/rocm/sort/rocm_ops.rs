//! `arg_sort` on the ROCm device.

use super::ArgSort;
use crate::rocm_backend::RocmError;
use crate::{Layout, Result, RocmStorage, Shape};

pub fn arg_sort(_: &ArgSort, _: &RocmStorage, _: &Layout) -> Result<(RocmStorage, Shape)> {
    Err(RocmError::NotThereYet { op: "arg_sort" }.into())
}
