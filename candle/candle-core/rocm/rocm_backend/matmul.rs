//! Matrix products.

use super::{RocmError, RocmStorage};
use crate::{Layout, Result};

pub(super) fn matmul(_: &RocmStorage, _: &RocmStorage, _: (usize, usize, usize, usize), _: &Layout, _: &Layout) -> Result<RocmStorage> {
    Err(RocmError::NotThereYet { op: "matmul" }.into())
}

