//! The kernels of one device, ready to launch. The operations themselves are in the files named for their modules, each an
//! `impl Kernels`; here is what they share: finding a function, and the checks every launch makes.

use crate::dtype::DType;
use crate::fault::Faults;
use crate::name::Name;
use crate::profile::{Planning, Profile};
use crate::registry::Id;
use crate::store::ModuleStore;
use crate::tensor::Operand;
use hip::{Device, Error, Function, Result, Stream};
use std::sync::Arc;

/// The kernels of one device. Made once for a device and shared by all threads that use it.
#[derive(Debug)]
pub struct Kernels {
    store: Arc<ModuleStore>,
    pub(crate) faults: Arc<Faults>,
    profile: Profile,
}

impl Kernels {
    /// The kernels of the stream's device; the modules are loaded as they are needed.
    pub fn new(stream: &Stream) -> Result<Self> {
        Ok(Self {
            store: Arc::new(ModuleStore::new(stream.device())),
            faults: Arc::new(Faults::new(stream)?),
            profile: Profile::of(stream.device()),
        })
    }

    /// The same kernels with other plans, for tests that want to see kernels which the device would not choose.
    #[doc(hidden)]
    pub fn planned(&self, planning: Planning) -> Self {
        Self { store: self.store.clone(), faults: self.faults.clone(), profile: self.profile.planned(planning) }
    }

    /// What launches on the device are planned with.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.store.device()
    }

    /// The modules of the device.
    pub fn store(&self) -> &ModuleStore {
        &self.store
    }

    /// Reports bad input that a kernel met (an index out of range, an integer divided by zero) since the last call.
    /// To be called where the host waits for the device in any case: before memory is read back, or on a synchronisation.
    pub fn check(&self, stream: &Stream) -> Result<()> {
        self.faults.check(stream)
    }

    /// The kernel `root_dtypes_variant`, or an error that names operation and dtype.
    #[inline]
    pub(crate) fn function(&self, id: Id, root: &str, dtypes: &[DType], variant: &str) -> Result<&Function> {
        let name = Name::new(root, dtypes).push(variant);
        self.store.function(id, name)?.ok_or_else(|| undefined(id, root, dtypes))
    }
}

#[cold]
fn undefined(id: Id, root: &str, dtypes: &[DType]) -> Error {
    let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.suffix()).collect();
    Error::refused(format!(
        "operation {root} of module {} is not defined for dtype {}; convert the tensor first",
        id.module().name,
        names.join(" and ")
    ))
}

/// Everything a launch touches must belong to its stream: memory of another one may be given away before the kernel
/// has read it.
pub(crate) fn one_stream(stream: &Stream, inputs: &[&Operand<'_>]) -> Result<()> {
    for input in inputs {
        if input.stream().handle() != stream.handle() {
            return Err(Error::refused(
                "an operand belongs to another stream than the result; copy it to that stream first (Buffer::to_stream)",
            ));
        }
    }
    Ok(())
}

/// All inputs have the shape of the first.
pub(crate) fn same_dims(root: &str, inputs: &[&Operand<'_>]) -> Result<()> {
    for input in inputs {
        if input.dims() != inputs[0].dims() {
            return Err(Error::refused(format!(
                "{root}: the operands have shapes {:?} and {:?}; broadcast them to one shape first",
                inputs[0].dims(),
                input.dims()
            )));
        }
    }
    Ok(())
}

/// An output has the number of elements and the dtype of what goes into it.
pub(crate) fn fits(root: &str, what: &str, count: usize, expected: usize, dtype: DType, wanted: DType) -> Result<()> {
    if count == expected && dtype == wanted {
        return Ok(());
    }
    Err(Error::refused(format!("{root}: {what} has {count} elements of {dtype}, but must have {expected} of {wanted}")))
}
