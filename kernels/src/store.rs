//! The modules of one device: each is found or compiled, and loaded, once, by whichever thread asks first; its functions
//! are looked up once. After that, a launch costs a binary search among the names of a module.

use crate::cache::Cache;
use crate::registry::{Id, Module, ALL_IDS};
use hip::{Compiler, Device, Error, Function, Program, Result};
use std::borrow::Cow;
use std::sync::{Mutex, OnceLock, PoisonError};

struct Loaded {
    module: hip::Module,
    functions: Box<[OnceLock<Function>]>,
}

#[derive(Default)]
struct Slot {
    loaded: OnceLock<Loaded>,
    // Held while a module is being made, so that a second thread waits and does not make it again.
    making: Mutex<()>,
}

/// The modules of one device.
pub struct ModuleStore {
    device: Device,
    slots: Box<[Slot]>,
}

impl ModuleStore {
    /// No module is loaded until a kernel of it is asked for.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), slots: ALL_IDS.iter().map(|_| Slot::default()).collect() }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The kernel `name` of a module. `None` when the module has no such kernel, which is how an operation that is not
    /// defined for a dtype shows.
    #[inline]
    pub fn function(&self, id: Id, name: &str) -> Result<Option<&Function>> {
        let Some(position) = id.module().position(name) else { return Ok(None) };
        let slot = &self.slots[id.module().index];
        let loaded = match slot.loaded.get() {
            Some(loaded) => loaded,
            None => self.make(id.module(), slot)?,
        };
        if let Some(function) = loaded.functions[position].get() {
            return Ok(Some(function));
        }
        let function = loaded.module.function(name)?;
        // A second thread may have been faster; its function is as good.
        Ok(Some(loaded.functions[position].get_or_init(|| function)))
    }

    /// The kernels of a module that have been asked for so far.
    pub fn used(&self, id: Id) -> Vec<&'static str> {
        let Some(loaded) = self.slots[id.module().index].loaded.get() else { return Vec::new() };
        let looked_up = |(_, function): &(&&'static str, &OnceLock<Function>)| function.get().is_some();
        id.module().kernels.iter().zip(&loaded.functions).filter(looked_up).map(|(name, _)| *name).collect()
    }

    /// Loads a module now, so that its first launch finds it ready.
    pub fn load(&self, id: Id) -> Result<()> {
        let slot = &self.slots[id.module().index];
        match slot.loaded.get() {
            Some(_) => Ok(()),
            None => self.make(id.module(), slot).map(|_| ()),
        }
    }

    #[cold]
    fn make<'a>(&self, module: &Module, slot: &'a Slot) -> Result<&'a Loaded> {
        // What the lock protects is in `loaded`, which a panic cannot leave half done.
        let _making = slot.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = slot.loaded.get() {
            return Ok(loaded);
        }
        let image = object_for(&self.device, module)
            .map_err(|error| error.with_detail(format!("while loading the kernels of module {}", module.name)))?;
        let loaded = Loaded {
            module: hip::Module::load(&self.device, image)?,
            functions: module.kernels.iter().map(|_| OnceLock::new()).collect(),
        };
        Ok(slot.loaded.get_or_init(|| loaded))
    }
}

impl std::fmt::Debug for ModuleStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let loaded = ALL_IDS.iter().filter(|id| self.slots[id.module().index].loaded.get().is_some());
        f.debug_struct("ModuleStore")
            .field("device", &self.device.ordinal())
            .field("loaded", &loaded.map(|id| id.module().name).collect::<Vec<_>>())
            .finish()
    }
}

/// The code object of a module for a device: built ahead of time, kept from an earlier start, or compiled now.
fn object_for(device: &Device, module: &Module) -> Result<Cow<'static, [u8]>> {
    // A checked device needs objects with checks in them, which are not built ahead of time.
    if !device.is_checked() {
        if let Some(image) = module.image(device.base_arch()) {
            return Ok(Cow::Borrowed(image));
        }
    }
    let platform = device.platform();
    let version = platform.runtime_version().map(|version| format!("{version:?}")).unwrap_or_default();
    let parts = [module.source, device.arch(), platform.name(), &version, compiler_key(device)];
    static CACHE: OnceLock<Option<Cache>> = OnceLock::new();
    let make = || {
        log::info!("compiling the kernels of module {} for {}", module.name, device.arch());
        let mut program = Program::new(format!("{}.hip", module.name), module.source)
            .option("-std=c++17")
            .option("-DNDEBUG")
            .option("-DHIP_HOST_SMALL_GRIDS")
            .for_device(device);
        if device.is_checked() {
            // Checks cost more than optimisation saves, and compile three times faster without.
            program = program.option("-O1");
        }
        let object = Compiler::new(platform)?.compile(&program)?;
        if object.is_empty() {
            return Err(Error::refused(format!("the compiler for {} returned an empty object", device.arch())));
        }
        Ok(object)
    };
    match CACHE.get_or_init(Cache::open) {
        Some(cache) => cache.get_or_make(module.name, &parts, make),
        None => make(),
    }
    .map(Cow::Owned)
}

/// What the embedded device's compiler was when this crate was built; it is part of the program, with no version of its own.
fn compiler_key(device: &Device) -> &'static str {
    if device.base_arch() == "host" {
        env!("HOST_COMPILER_KEY")
    } else {
        ""
    }
}
