//! What a graft did, as data: every site it changed and by which rule, what it mounted, hooked, derived and left alone.
//! Tests and build logs read it; nothing here touches a file.

use std::collections::BTreeMap;
use std::fmt;

/// The reasons for which the graft changes a source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A match arm on `Cuda` gained a sibling on `Rocm`.
    Arm,
    /// A match arm on a tuple of `Cuda`s gained a sibling.
    TupleArm,
    /// An alternative of an or-pattern gained a sibling.
    OrPattern,
    /// CUDA's own code gained an arm in which ROCm is one of the other devices.
    ForeignArm,
    /// An enum variant gained a sibling.
    Variant,
    /// A function named for CUDA gained a sibling.
    Function,
    /// An item macro call inside an `impl` gained a sibling.
    ImplMacro,
    /// A whole `use` gained a sibling.
    UseItem,
    /// A name inside a `use` gained a sibling.
    UseName,
    /// A module gained a sibling.
    Module,
    /// A module of the overlay stands beside CUDA's implementation.
    Mount,
    /// `if cfg!(feature = "cuda")` gained an `else if` for ROCm.
    IfCfg,
    /// An operation keeps its signature and calls the overlay.
    OpHook,
    /// A free function that only CUDA implements is taken from the overlay.
    FunctionSwitch,
    /// A function sends tensors of the ROCm device to the overlay.
    DeviceBranch,
    /// A fault that lies before any device is known was fixed.
    UpstreamFix,
    /// `test_device!` also makes a test for ROCm.
    TestMacro,
    /// An exported macro was made reachable by path from an included crate root.
    MacroExport,
    /// The crate root lost what an included file cannot carry.
    CrateRoot,
}

/// One place in the source that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The file, relative to the crate.
    pub file: String,
    /// The line in upstream's file, counted from one.
    pub line: usize,
    /// Why it was changed.
    pub rule: Rule,
}

/// A file of the overlay that stands in the grafted tree as a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where the module is declared, relative to the crate.
    pub file: String,
    /// The module's name.
    pub module: String,
    /// The overlay's file, relative to the overlay.
    pub overlay: String,
}

/// An operation that calls the overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Where the operation is defined, relative to the crate.
    pub file: String,
    /// The overlay's function.
    pub function: String,
    /// The signature the overlay has to satisfy.
    pub signature: String,
}

/// A file that was made by renaming another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// Upstream's file, relative to the crate.
    pub from: String,
    /// The new file.
    pub to: String,
}

/// CUDA's own code, left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The file, relative to the crate.
    pub file: String,
    /// The first line.
    pub line: usize,
    /// What it is.
    pub what: String,
}

/// What a graft did to one crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Every change, in file order.
    pub sites: Vec<Site>,
    /// Modules of the overlay.
    pub mounts: Vec<Mount>,
    /// Operations that call the overlay.
    pub hooks: Vec<Hook>,
    /// Files made by renaming.
    pub derived: Vec<Derived>,
    /// CUDA's own code.
    pub kept: Vec<Kept>,
    /// Waivers that were needed, as "file: what".
    pub waivers: Vec<String>,
    /// Every file of the grafted tree, relative to it.
    pub files: Vec<String>,
}

impl Report {
    /// How many sites each rule changed.
    pub fn sites_by_rule(&self) -> BTreeMap<Rule, usize> {
        let mut counts = BTreeMap::new();
        for site in &self.sites {
            *counts.entry(site.rule).or_default() += 1;
        }
        counts
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} sites: {:?}", self.sites.len(), self.sites_by_rule())?;
        for mount in &self.mounts {
            writeln!(f, "mounted {} in {} as {}", mount.overlay, mount.file, mount.module)?;
        }
        for hook in &self.hooks {
            writeln!(f, "hooked {} ({})", hook.function, hook.file)?;
        }
        for derived in &self.derived {
            writeln!(f, "derived {} from {}", derived.to, derived.from)?;
        }
        for kept in &self.kept {
            writeln!(f, "kept {}:{}: {}", kept.file, kept.line, kept.what)?;
        }
        for waiver in &self.waivers {
            writeln!(f, "waived {waiver}")?;
        }
        Ok(())
    }
}
