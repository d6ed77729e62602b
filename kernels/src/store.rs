//! The modules of one device: each is found or compiled, and loaded, once, by whichever thread asks first; its functions
//! are looked up once. After that, a launch costs a look into a table of names.

use crate::lookup::Lookup;
use crate::objects;
use crate::registry::{Id, Module, ALL_IDS};
use hip::{Device, Error, Function, Result};
use std::sync::{Mutex, OnceLock, PoisonError};

struct Loaded {
    module: hip::Module,
    functions: Box<[OnceLock<Function>]>,
}

#[derive(Default)]
struct Slot {
    names: OnceLock<Lookup>,
    loaded: OnceLock<Loaded>,
    // Held while a module is being made, so that a second thread waits and does not make it again. Holds why nobody can make
    // the code object: compilers are asked once, not at every operation.
    making: Mutex<Option<Error>>,
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
    pub fn function(&self, id: Id, name: impl AsRef<[u8]>) -> Result<Option<&Function>> {
        let slot = &self.slots[id.module().index];
        let names = slot.names.get_or_init(|| Lookup::of(id.module().kernels));
        let Some(position) = names.position(name.as_ref()) else { return Ok(None) };
        let loaded = match slot.loaded.get() {
            Some(loaded) => loaded,
            None => self.make(id.module(), slot)?,
        };
        if let Some(function) = loaded.functions[position].get() {
            return Ok(Some(function));
        }
        let function = loaded.module.function(id.module().kernels[position])?;
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
        // What the lock protects, a panic cannot leave half done.
        let mut no_object = slot.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = slot.loaded.get() {
            return Ok(loaded);
        }
        if let Some(error) = &*no_object {
            return Err(error.clone());
        }
        let object = objects::for_device(&self.device, module)
            .map_err(|error| error.with_detail(format!("while loading the kernels of module {}", module.name)))
            .inspect_err(|error| {
                // Memory may come back; a compiler that is not there does not.
                if !error.is_out_of_memory() {
                    *no_object = Some(error.clone());
                }
            })?;
        let loaded = Loaded {
            // SAFETY: a compiler made it of the project's own source, now or for the cache.
            module: unsafe { hip::Module::load(&self.device, object.bytes) }?,
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
