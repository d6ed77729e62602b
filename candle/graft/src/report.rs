//! What a graft did, as data: every site it changed and by which rule, what it mounted, hooked and left out.
//! Tests and build logs read it; nothing here touches a file.

use std::collections::BTreeMap;
use std::fmt;

/// The reasons for which the graft changes a source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A module of the overlay stands in the place of CUDA's implementation.
    Mount,
    /// Code that only CUDA can run is out of every build.
    LeftOut,
    /// An operation keeps its signature and calls the overlay.
    OpHook,
    /// A free function that only CUDA implements is taken from the overlay.
    FunctionSwitch,
    /// A function sends tensors of the ROCm device to the overlay.
    DeviceBranch,
    /// What is named for CUDA can be called by ROCm's name too.
    Name,
    /// A test makes no exception for the ROCm device.
    NoException,
    /// A fault that lies before any device is known was fixed.
    UpstreamFix,
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

/// A function that calls the overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Where the function is defined, relative to the crate.
    pub file: String,
    /// The overlay's function.
    pub function: String,
    /// The signature the overlay has to satisfy.
    pub signature: String,
}

/// What a graft did to one crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Every change, in file order.
    pub sites: Vec<Site>,
    /// Modules of the overlay.
    pub mounts: Vec<Mount>,
    /// Functions that call the overlay.
    pub hooks: Vec<Hook>,
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
        for waiver in &self.waivers {
            writeln!(f, "waived {waiver}")?;
        }
        Ok(())
    }
}
