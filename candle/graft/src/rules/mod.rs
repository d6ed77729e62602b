//! The rules that put ROCm in CUDA's place, as one walk over a file's syntax tree. This file holds the walk and the small
//! vocabulary the rules share; each neighbour holds the rules for one kind of code.

mod functions;
mod items;
mod names;
pub mod root;
mod test_suites;

use crate::error::{Error, Mention, Result};
use crate::overlay::{Overlay, HOOK_MODULE};
use crate::patch::Patch;
use crate::report::{Hook, Mount, Rule};
use crate::tree::module_folder;
use crate::waivers::Waivers;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::ops::Range;
use syn::visit::{self, Visit};

/// What the rules found out about a file besides its edits.
#[derive(Default)]
pub struct Findings {
    /// Overlay modules mounted in the file.
    pub mounts: Vec<Mount>,
    /// Functions that call the overlay.
    pub hooks: Vec<Hook>,
    /// Operations that need a hook the overlay does not have.
    pub missing: Vec<Mention>,
}

/// The walk over one file.
pub struct Rules<'w, 'a, 'v> {
    patch: &'w mut Patch<'a>,
    overlay: &'w Overlay,
    waivers: &'w mut Waivers<'v>,
    folder: String,
    hooks: BTreeSet<String>,
    findings: Findings,
    failure: Option<Error>,
}

/// Applies all rules to a file.
pub fn apply(
    patch: &mut Patch<'_>,
    syntax: &syn::File,
    overlay: &Overlay,
    waivers: &mut Waivers<'_>,
) -> Result<Findings> {
    let folder = module_folder(patch.file);
    let hooks = overlay.hooks(&folder)?;
    let mut rules = Rules { patch, overlay, waivers, folder, hooks, findings: Findings::default(), failure: None };
    rules.visit_file(syntax);
    rules.mount_hooks();
    match rules.failure {
        Some(failure) => Err(failure),
        None => Ok(rules.findings),
    }
}

impl Rules<'_, '_, '_> {
    /// Whether the file belongs to the library, and not to its tests or benchmarks.
    fn in_source(&self) -> bool {
        self.patch.file.starts_with("src/")
    }

    /// Takes an item out of every build; its text stays.
    fn leave_out(&mut self, range: Range<usize>) {
        let indent = self.patch.indent(range.start);
        self.patch.insert(range.start, format!("#[cfg(any())]\n{indent}"), Rule::LeftOut, range.start);
    }

    /// Where an overlay's module lies, or a note that it is missing.
    fn mount(&mut self, name: &str) -> Option<String> {
        let Some(overlay) = self.overlay.module(&self.folder, name) else {
            self.failure = Some(Error::MissingMount(format!("{}/{name}", self.folder).trim_start_matches('/').into()));
            return None;
        };
        let path = self.overlay.path(&overlay);
        let file = self.patch.file.to_string();
        self.findings.mounts.push(Mount { file, module: name.to_string(), overlay });
        // `{:?}` writes the path as a Rust string literal, backslashes of Windows included.
        Some(format!("#[cfg(feature = \"cuda\")]\n#[path = {path:?}]\n"))
    }

    fn mount_hooks(&mut self) {
        if self.findings.hooks.is_empty() {
            return;
        }
        if let Some(attributes) = self.mount(HOOK_MODULE) {
            let end = self.patch.text.len();
            self.patch.insert(end, format!("\n{attributes}mod {HOOK_MODULE};\n"), Rule::Mount, end);
        }
    }
}

impl<'ast> Visit<'ast> for Rules<'_, '_, '_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(item)
    }
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !self.module(item) {
            visit::visit_item_mod(self, item)
        }
    }
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !self.free_function(item) {
            visit::visit_item_fn(self, item)
        }
    }
    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.trait_functions(item)
    }
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.impl_items(item)
    }
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.test_exception(call);
        visit::visit_expr_method_call(self, call)
    }
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.test_macro(call)
    }
}

/// Whether any identifier in the tokens satisfies the test.
fn any_ident(tokens: TokenStream, test: &dyn Fn(&str) -> bool) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => any_ident(group.stream(), test),
        TokenTree::Ident(ident) => test(&ident.to_string()),
        _ => false,
    })
}
