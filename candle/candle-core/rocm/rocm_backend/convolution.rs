//! Convolutions.

use super::{RocmError, RocmStorage};
use crate::conv::{ParamsConv1D, ParamsConv2D, ParamsConvTranspose1D, ParamsConvTranspose2D};
use crate::{Layout, Result};

pub(super) fn conv1d(_: &RocmStorage, _: &Layout, _: &RocmStorage, _: &Layout, _: &ParamsConv1D) -> Result<RocmStorage> {
    Err(RocmError::NotThereYet { op: "conv1d" }.into())
}

pub(super) fn conv2d(_: &RocmStorage, _: &Layout, _: &RocmStorage, _: &Layout, _: &ParamsConv2D) -> Result<RocmStorage> {
    Err(RocmError::NotThereYet { op: "conv2d" }.into())
}

pub(super) fn conv_transpose1d(_: &RocmStorage, _: &Layout, _: &RocmStorage, _: &Layout, _: &ParamsConvTranspose1D) -> Result<RocmStorage> {
    Err(RocmError::NotThereYet { op: "conv_transpose1d" }.into())
}

pub(super) fn conv_transpose2d(_: &RocmStorage, _: &Layout, _: &RocmStorage, _: &Layout, _: &ParamsConvTranspose2D) -> Result<RocmStorage> {
    Err(RocmError::NotThereYet { op: "conv_transpose2d" }.into())
}

