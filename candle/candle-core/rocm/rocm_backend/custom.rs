//! Kernels of a user's own: HIP source, compiled on first use for the device at hand, loaded once under the name the user
//! gives it and launched on Candle's stream.

use super::{kernels, RocmDevice, RocmError, WrapErr};
use crate::Result;
use cudarc::driver::LaunchArgs;
use hip::{Compiler, Function, KernelArgs, LaunchConfig, Module, Program, Stream};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A kernel, ready to be launched on the stream of the device it was asked of.
#[derive(Clone, Debug)]
pub struct RocmFunc {
    function: Function,
    stream: Stream,
}

impl std::ops::Deref for RocmFunc {
    type Target = Function;

    fn deref(&self) -> &Function {
        &self.function
    }
}

impl RocmFunc {
    pub(super) fn new(function: Function, stream: Stream) -> Self {
        Self { function, stream }
    }

    /// The function, without the stream.
    pub fn into_function(self) -> Function {
        self.function
    }

    /// The same under CUDA's name.
    pub fn into_cuda_function(self) -> Function {
        self.function
    }

    /// A launch to which arguments are added one by one.
    pub fn builder(&self) -> LaunchArgs<'_> {
        LaunchArgs::new(&self.stream, &self.function)
    }

    /// Launches the kernel. It returns when the work is submitted, not when it is done.
    ///
    /// # Safety
    /// As for [`Function::launch`]: the arguments must be the kernel's, and what it touches must stay valid.
    pub unsafe fn launch(&self, config: LaunchConfig, args: &impl KernelArgs) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.function.launch(&self.stream, config, args) }.w()
    }
}

/// Adds values to a launch in the making, one by one, as Candle's macro for CUDA does.
#[doc(hidden)]
#[macro_export]
macro_rules! __builder_arg {
    ($launch:ident, $($argument:expr),*) => {
        $(
            let argument = $argument;
            $launch.arg(&argument);
        )*
    };
}
pub use __builder_arg as builder_arg;

/// Modules of users, by the names they gave.
#[derive(Debug, Default)]
pub(super) struct CustomModules(Mutex<HashMap<String, Module>>);

impl RocmDevice {
    /// The kernel `name` of one of Candle's own modules, such as `kernels::registry::UNARY`.
    pub fn get_or_load_func(&self, name: &str, module: &kernels::Module) -> Result<RocmFunc> {
        let id = kernels::ALL_IDS.get(module.index).copied();
        let found = id.map(|id| self.kernels().store().function(id, name)).transpose().w()?.flatten();
        let Some(function) = found else {
            return Err(RocmError::Refused(format!("module {} has no kernel named {name}", module.name)).into());
        };
        Ok(RocmFunc::new(function.clone(), self.stream().clone()))
    }

    /// The kernel `name` of a module that is compiled from HIP (or CUDA) `source` the first time `module` is asked for. Later calls
    /// find it by the module's name, whatever `source` says.
    pub fn get_or_load_custom_func(&self, name: &str, module: &str, source: &str) -> Result<RocmFunc> {
        // Held while compiling: a second thread that wants the module waits instead of compiling it again.
        let mut modules = self.custom_modules().0.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = match modules.get(module) {
            Some(loaded) => loaded.clone(),
            None => {
                let loaded = self.compile(module, source)?;
                modules.insert(module.to_string(), loaded.clone());
                loaded
            }
        };
        drop(modules);
        Ok(RocmFunc::new(loaded.function(name).w()?, self.stream().clone()))
    }

    fn compile(&self, name: &str, source: &str) -> Result<Module> {
        if source.trim().is_empty() {
            return Err(RocmError::Refused(format!("module {name} has no source to compile")).into());
        }
        if is_ptx(source) {
            return Err(RocmError::Refused(format!(
                "module {name} is PTX, NVIDIA's machine language, which no AMD GPU can run; hand over the kernels' source instead: HIP takes CUDA's C++"
            ))
            .into());
        }
        let device = self.hip_device();
        let program = Program::new(format!("{name}.hip"), source).for_device(device);
        let object = Compiler::new(device.platform()).w()?.compile(&program).w()?;
        // SAFETY: the compiler has just made it of the caller's source.
        unsafe { Module::load(device, object) }.w()
    }
}

/// Whether a text is what nvcc makes of kernels.
fn is_ptx(source: &str) -> bool {
    source.lines().any(|line| line.starts_with(".target sm_"))
}
