//! Rules for what arrives through `include!`. The package's own `src/lib.rs` includes the grafted crate root, so that root
//! may not begin with inner attributes, and its exported macros may not be named by an absolute path within the crate
//! (rustc's `macro_expanded_macro_exports_accessed_by_absolute_paths`). An exported macro therefore gets a private
//! name and is re-exported as an ordinary item, module by module, up to the root: `crate::bail!` keeps working
//! everywhere, whatever the order of the modules, and nobody's build carries a future-incompatibility note.

use crate::error::{Error, Result};
use crate::patch::Patch;
use crate::report::Rule;
use crate::survey::is_exported;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::{Attribute, Item, ItemMacro, Meta};

/// Attributes that change no meaning when they are dropped.
const LINT_LEVELS: [&str; 5] = ["allow", "warn", "deny", "forbid", "expect"];

/// Takes the inner attributes off a crate root and returns its documentation as Markdown.
pub fn strip_inner_attributes(patch: &mut Patch, attributes: &[Attribute]) -> Result<String> {
    let mut documentation = String::new();
    for attribute in attributes {
        let range = attribute.span().byte_range();
        match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("doc") => {
                if let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(line), .. }) = &pair.value {
                    let line = line.value();
                    documentation.push_str(line.strip_prefix(' ').unwrap_or(&line));
                    documentation.push('\n');
                }
            }
            meta if LINT_LEVELS.iter().any(|level| meta.path().is_ident(level)) => {}
            _ => {
                let attribute = patch.slice(&range).to_string();
                return Err(Error::CrateAttribute { file: patch.file.to_string(), attribute });
            }
        }
        patch.replace(range, String::new());
    }
    if !attributes.is_empty() {
        patch.insert(0, String::new(), Rule::CrateRoot, 0);
    }
    Ok(documentation)
}

/// Takes the lint levels off a test file, so that a test program can include several. A file's `cfg` stays: such a file is
/// not for every build, and whoever includes it has to know.
pub fn strip_lint_levels(patch: &mut Patch, attributes: &[Attribute]) {
    for attribute in attributes {
        if LINT_LEVELS.iter().any(|level| attribute.path().is_ident(level)) {
            let range = attribute.span().byte_range();
            patch.insert(range.start, String::new(), Rule::CrateRoot, range.start);
            patch.replace(range, String::new());
        }
    }
}

/// Gives the exported macros of a file names that can be re-exported, and passes on those of its submodules.
pub fn route_macros(patch: &mut Patch, items: &[Item], passing: &[(String, String)]) -> Result<()> {
    for item in items {
        match item {
            Item::Macro(definition) if is_exported(&definition.attrs) => route_definition(patch, definition)?,
            Item::Mod(module) if module.content.is_none() => {
                let range = module.span().byte_range();
                for (_, name) in passing.iter().filter(|(passing, _)| module.ident == passing) {
                    let gates = gates(patch, &module.attrs);
                    let text = format!("\n{gates}pub use {}::{name};", module.ident);
                    patch.insert(range.end, text, Rule::MacroExport, range.start);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn route_definition(patch: &mut Patch, definition: &ItemMacro) -> Result<()> {
    let Some(ident) = &definition.ident else { return Ok(()) };
    let name = ident.to_string();
    if super::any_ident(definition.mac.tokens.clone(), &|word| word == name) {
        return Err(Error::RecursiveMacro { file: patch.file.to_string(), name });
    }
    let range = definition.span().byte_range();
    let gates = gates(patch, &definition.attrs);
    patch.replace(range.start..range.start, "#[doc(hidden)]\n".to_string());
    patch.replace(ident.span().byte_range(), format!("__{name}"));
    patch.insert(range.end, format!("\n{gates}pub use __{name} as {name};"), Rule::MacroExport, range.start);
    Ok(())
}

/// The `cfg` attributes of an item, one per line.
fn gates(patch: &Patch, attributes: &[Attribute]) -> String {
    let gates = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    gates.map(|gate| format!("{}\n", patch.slice(&range_of(gate)))).collect()
}

fn range_of(attribute: &Attribute) -> Range<usize> {
    attribute.span().byte_range()
}
