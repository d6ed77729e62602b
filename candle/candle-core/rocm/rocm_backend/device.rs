//! A ROCm device as Candle sees it: a stream, the modules loaded for it, and the state of its random numbers. All handles
//! made by `Device::new_rocm` for one GPU share one stream, so that their tensors may be mixed freely; only
//! `new_rocm_with_stream` makes a stream of its own. Where there is no GPU it is the embedded device, unless `CANDLE_ROCM_PLATFORM=amd`
//! refuses that.

use super::custom::CustomModules;
use super::kernels::Kernels;
use super::libraries::Libraries;
use super::{RocmStorage, RocmStorageSlice, WrapErr};
use crate::backend::BackendDevice;
use crate::{CpuStorage, CpuStorageRef, DType, DeviceLocation, Result, Shape};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, HostSlice, ValidAsZeroBits};
use hip::Stream;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tells handles of devices apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId(usize);

impl DeviceId {
    fn new() -> Self {
        static COUNTER: AtomicUsize = AtomicUsize::new(1);
        Self(COUNTER.fetch_add(1, Ordering::Relaxed))
    }
}

/// A handle to a ROCm device. Cloning is cheap, and every tensor has a clone.
#[derive(Clone)]
pub struct RocmDevice(Arc<Handle>);

struct Handle {
    id: DeviceId,
    stream: Stream,
    kernels: Arc<Kernels>,
    libraries: Arc<Libraries>,
    custom_modules: CustomModules,
    random: Mutex<Random>,
    fusing: AtomicBool,
}

/// The seed, and how many numbers have been drawn since it was set.
pub(super) struct Random {
    pub(super) seed: u64,
    pub(super) drawn: u64,
}

/// `CANDLE_ROCM_FUSE=0` turns off that operations are put off until what they are part of is known.
const FUSE_VARIABLE: &str = "CANDLE_ROCM_FUSE";

/// The seed of a fresh device, as on CUDA.
const FIRST_SEED: u64 = 299792458;

impl std::fmt::Debug for RocmDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RocmDevice({:?}, {:?})", self.id(), self.hip_device())
    }
}

impl RocmDevice {
    fn on(stream: Stream, libraries: Arc<Libraries>, kernels: Arc<Kernels>) -> Self {
        let random = Mutex::new(Random { seed: FIRST_SEED, drawn: 0 });
        let custom_modules = CustomModules::default();
        let fusing = AtomicBool::new(std::env::var(FUSE_VARIABLE).map_or(true, |value| value.trim() != "0"));
        Self(Arc::new(Handle { id: DeviceId::new(), stream, libraries, kernels, custom_modules, random, fusing }))
    }

    /// A device with a stream of its own, which runs beside the others. Tensors of two streams may meet in an operation:
    /// what comes from the other stream is copied first.
    pub fn new_with_stream(ordinal: usize) -> Result<Self> {
        let Shared { stream, kernels, .. } = shared_by_ordinal(ordinal)?;
        Ok(Self::on(stream.device().new_stream().w()?, Arc::default(), kernels))
    }

    /// The same stream with kernels that are planned for in another way.
    #[cfg(test)]
    pub(crate) fn planned(&self, planning: super::kernels::Planning) -> Self {
        let kernels = Arc::new(self.kernels().planned(planning));
        Self::on(self.raw_stream().clone(), self.0.libraries.clone(), kernels)
    }

    /// Tells this handle apart from others, of the same GPU too.
    pub fn id(&self) -> DeviceId {
        self.0.id
    }

    /// The stream on which everything is submitted. What was put off is submitted before.
    pub fn stream(&self) -> &Stream {
        if !self.0.stream.is_captured_elsewhere() {
            self.hip_device().defer(self.0.stream.settle());
        }
        &self.0.stream
    }

    /// The stream, for work in its order with what was put off.
    pub(crate) fn raw_stream(&self) -> &Stream {
        &self.0.stream
    }

    /// Whether operations may be put off until it is known what they are part of, such as attention, and then be submitted with it as one
    /// launch.
    pub fn is_fusing(&self) -> bool {
        self.0.fusing.load(Ordering::Relaxed)
    }

    /// Turns that on, as it is in the beginning but with `CANDLE_ROCM_FUSE=0`, or off: then each operation is submitted when it is asked for.
    /// It holds for this device and its clones.
    pub fn set_fusing(&self, fusing: bool) -> Result<()> {
        self.0.fusing.store(fusing, Ordering::Relaxed);
        self.0.stream.settle().w()
    }

    /// The device of the HIP runtime.
    pub fn hip_device(&self) -> &hip::Device {
        self.0.stream.device()
    }

    /// The kernels of this device.
    pub fn kernels(&self) -> &Kernels {
        &self.0.kernels
    }

    pub(super) fn libraries(&self) -> &Libraries {
        &self.0.libraries
    }

    /// Reports bad input that a kernel has met since the last time, such as an id out of range.
    pub(super) fn check(&self) -> Result<()> {
        self.0.kernels.check(&self.0.stream).w()
    }

    /// What the memory pool holds and has done.
    pub fn memory_stats(&self) -> hip::PoolStats {
        self.0.stream.pool_stats()
    }

    /// The stream as CUDA's programs ask for it.
    pub fn cuda_stream(&self) -> Arc<CudaStream> {
        Arc::new(self.stream().clone().into())
    }

    /// Memory whose contents are whatever was there before.
    ///
    /// # Safety
    /// The elements must be written before they are read.
    pub unsafe fn alloc<T: DeviceRepr>(&self, count: usize) -> Result<CudaSlice<T>> {
        self.0.stream.alloc(count).map(CudaSlice::from).w()
    }

    /// Memory of zeros.
    pub fn alloc_zeros<T: DeviceRepr + ValidAsZeroBits>(&self, count: usize) -> Result<CudaSlice<T>> {
        self.0.stream.zeros(count).map(CudaSlice::from).w()
    }

    /// Memory with a copy of the host's.
    pub fn clone_htod<T: DeviceRepr, S: HostSlice<T> + ?Sized>(&self, source: &S) -> Result<CudaSlice<T>> {
        CudaStream::of(&self.0.stream).clone_htod(source).w()
    }

    /// Copies the host's memory into the beginning of the device's.
    pub fn memcpy_htod<T, S, D>(&self, source: &S, target: &mut D) -> Result<()>
    where
        T: DeviceRepr,
        S: HostSlice<T> + ?Sized,
        D: DevicePtrMut<T>,
    {
        CudaStream::of(&self.0.stream).memcpy_htod(source, target).w()
    }

    /// A copy in the host's memory.
    pub fn clone_dtoh<T: DeviceRepr, S: DevicePtr<T>>(&self, source: &S) -> Result<Vec<T>> {
        CudaStream::of(&self.0.stream).clone_dtoh(source).w()
    }

    /// Copies the device's memory into the beginning of the host's.
    pub fn memcpy_dtoh<T, S, D>(&self, source: &S, target: &mut D) -> Result<()>
    where
        T: DeviceRepr,
        S: DevicePtr<T>,
        D: HostSlice<T> + ?Sized,
    {
        CudaStream::of(&self.0.stream).memcpy_dtoh(source, target).w()
    }

    /// Copies memory into the beginning of other memory.
    pub fn memcpy_dtod<T, S, D>(&self, source: &S, target: &mut D) -> Result<()>
    where
        T: DeviceRepr,
        S: DevicePtr<T>,
        D: DevicePtrMut<T>,
    {
        CudaStream::of(&self.0.stream).memcpy_dtod(source, target).w()
    }

    /// There for programs written for CUDA. Memory belongs to its stream here, and events are recorded only where another stream uses
    /// it, so there is nothing to turn off.
    ///
    /// # Safety
    /// None is needed; it is `unsafe` as Candle's own is.
    pub unsafe fn disable_event_tracking(&self) {}

    /// Whether events of its own order the use of each piece of memory: they do not, streams do.
    pub fn is_event_tracking(&self) -> bool {
        false
    }

    pub(super) fn custom_modules(&self) -> &CustomModules {
        &self.0.custom_modules
    }

    pub(super) fn random(&self) -> MutexGuard<'_, Random> {
        self.0.random.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What all plain handles of a GPU share: the stream, the libraries bound to it, and the kernels, loaded once.
#[derive(Clone)]
struct Shared {
    stream: Stream,
    libraries: Arc<Libraries>,
    kernels: Arc<Kernels>,
}

fn shared_by_ordinal(ordinal: usize) -> Result<Shared> {
    static SHARED: Mutex<BTreeMap<usize, Shared>> = Mutex::new(BTreeMap::new());
    let mut known = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(shared) = known.get(&ordinal) {
        return Ok(shared.clone());
    }
    let stream = hip::Device::new(ordinal).w()?.new_stream().w()?;
    let kernels = Arc::new(Kernels::new(&stream).w()?);
    let shared = Shared { stream, libraries: Arc::default(), kernels };
    known.insert(ordinal, shared.clone());
    Ok(shared)
}

impl BackendDevice for RocmDevice {
    type Storage = RocmStorage;

    fn new(ordinal: usize) -> Result<Self> {
        let Shared { stream, libraries, kernels } = shared_by_ordinal(ordinal)?;
        Ok(Self::on(stream, libraries, kernels))
    }

    fn location(&self) -> DeviceLocation {
        DeviceLocation::Cuda { gpu_id: self.hip_device().ordinal() }
    }

    fn same_device(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }

    fn zeros_impl(&self, shape: &Shape, dtype: DType) -> Result<RocmStorage> {
        let slice = RocmStorageSlice::zeros(self, packed_is_unsupported(dtype, "zeros")?, shape.elem_count())?;
        Ok(RocmStorage { slice, device: self.clone() })
    }

    unsafe fn alloc_uninit(&self, shape: &Shape, dtype: DType) -> Result<RocmStorage> {
        super::put_off::memory(self, packed_is_unsupported(dtype, "alloc_uninit")?, shape.elem_count())
    }

    fn storage_from_slice<T: crate::WithDType>(&self, data: &[T]) -> Result<RocmStorage> {
        RocmStorage::upload(self, T::cpu_storage_ref(data))
    }

    fn storage_from_cpu_storage(&self, storage: &CpuStorage) -> Result<RocmStorage> {
        RocmStorage::upload(self, storage_ref(storage))
    }

    fn storage_from_cpu_storage_owned(&self, storage: CpuStorage) -> Result<RocmStorage> {
        self.storage_from_cpu_storage(&storage)
    }

    fn rand_uniform(&self, shape: &Shape, dtype: DType, low: f64, high: f64) -> Result<RocmStorage> {
        super::random::uniform(self, shape.elem_count(), dtype, low, high)
    }

    fn rand_normal(&self, shape: &Shape, dtype: DType, mean: f64, deviation: f64) -> Result<RocmStorage> {
        super::random::normal(self, shape.elem_count(), dtype, mean, deviation)
    }

    fn set_seed(&self, seed: u64) -> Result<()> {
        *self.random() = Random { seed, drawn: 0 };
        Ok(())
    }

    fn get_current_seed(&self) -> Result<u64> {
        Ok(self.random().seed)
    }

    fn synchronize(&self) -> Result<()> {
        self.0.stream.synchronize().w()?;
        self.check()
    }
}

/// A packed dtype has fewer bytes than elements; only a file's loader, which knows how many, may make such a storage.
fn packed_is_unsupported(dtype: DType, op: &'static str) -> Result<DType> {
    super::kernel_dtype(dtype, op).map(|_| dtype)
}

fn storage_ref(storage: &CpuStorage) -> CpuStorageRef<'_> {
    macro_rules! storage_ref {
        ($($variant:ident),*) => {
            match storage { $(CpuStorage::$variant(data) => CpuStorageRef::$variant(data),)* }
        };
    }
    storage_ref!(U8, U32, I16, I32, I64, BF16, F16, F32, F64, F8E4M3, F6E2M3, F6E3M2, F4, F8E8M0)
}
