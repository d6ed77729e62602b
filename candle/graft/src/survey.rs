//! A first look at the whole crate, before any file is changed: which files are CUDA's implementation (reached only
//! through a gated `mod`), which stand in for it without the feature, and which macros are exported from where.

use crate::error::{Error, Result};
use crate::gate::{gate, Gate};
use crate::naming::mentions_cuda;
use crate::tree;
use std::collections::BTreeMap;
use std::path::Path;
use syn::{Attribute, Item, ItemMacro};

/// What the whole crate says about its files.
#[derive(Default)]
pub struct Survey {
    implementation_stems: Vec<String>,
    stand_in_stems: Vec<String>,
    /// For each file, the macros to re-export where it declares a module: (module, macro).
    pub reexports: BTreeMap<String, Vec<(String, String)>>,
}

impl Survey {
    /// Reads every Rust file of a crate.
    pub fn of(root: &Path, files: &[String]) -> Result<Self> {
        let mut survey = Survey::default();
        for file in files.iter().filter(|file| file.ends_with(".rs") && file.starts_with("src/")) {
            let parsed = parse(file, &tree::read(root, file)?)?;
            for item in &parsed.items {
                match item {
                    Item::Mod(module) if module.content.is_none() => {
                        let stem = tree::module_stem(file, &module.ident.to_string());
                        match gate(&module.attrs) {
                            Gate::Cuda | Gate::Library => survey.implementation_stems.push(stem),
                            _ if mentions_cuda(&module.ident.to_string()) => survey.stand_in_stems.push(stem),
                            _ => {}
                        }
                    }
                    Item::Macro(item) if is_exported(&item.attrs) => survey.trace_to_root(file, files, item),
                    _ => {}
                }
            }
        }
        Ok(survey)
    }

    /// Whether a file is CUDA's implementation, which nothing needs any more.
    pub fn is_implementation(&self, file: &str) -> bool {
        lies_below(&self.implementation_stems, file)
    }

    /// Whether a file stands in for the implementation in builds without the feature: copied as it is.
    pub fn is_stand_in(&self, file: &str) -> bool {
        lies_below(&self.stand_in_stems, file)
    }

    /// Notes at every module on the way to the crate root that the macro passes through there.
    fn trace_to_root(&mut self, file: &str, files: &[String], item: &ItemMacro) {
        let Some(name) = &item.ident else { return };
        let mut file = file.to_string();
        while let Some((parent, module)) = tree::parent(&file, files) {
            self.reexports.entry(parent.clone()).or_default().push((module, name.to_string()));
            file = parent;
        }
    }
}

fn lies_below(stems: &[String], file: &str) -> bool {
    let rest = |stem: &String| file.strip_prefix(stem.as_str());
    stems.iter().filter_map(rest).any(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// Parses a source file; the error names file and line.
pub fn parse(file: &str, text: &str) -> Result<syn::File> {
    syn::parse_file(text).map_err(|error| Error::Parse {
        file: file.to_string(),
        line: error.span().start().line,
        reason: error.to_string(),
    })
}

/// Whether a macro definition is exported from its crate.
pub fn is_exported(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("macro_export"))
}
