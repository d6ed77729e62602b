//! The rules that grow ROCm's siblings, as one walk over a file's syntax tree. This file holds the walk and the small
//! vocabulary the rules share; each neighbour holds the rules for one kind of code.

mod arms;
mod functions;
mod items;
pub mod root;
mod test_suites;

use crate::audit::Waivers;
use crate::error::{Error, Mention, Result};
use crate::gate::{gate, Gate};
use crate::naming::renamed;
use crate::overlay::{Overlay, HOOK_MODULE};
use crate::patch::Patch;
use crate::report::{Hook, Mount, Rule};
use crate::tree::module_folder;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Arm, Attribute, Expr, Stmt};

/// What the rules found out about a file besides its edits.
#[derive(Default)]
pub struct Findings {
    /// Overlay modules mounted in the file.
    pub mounts: Vec<Mount>,
    /// Operations that call the overlay.
    pub hooks: Vec<Hook>,
    /// Stand-in modules of which a renamed copy is wanted.
    pub derived: Vec<String>,
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
    test_macros: BTreeSet<String>,
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
    let test_macros = BTreeSet::from(["test_device".to_string()]);
    let findings = Findings::default();
    let mut rules = Rules { patch, overlay, waivers, folder, hooks, test_macros, findings, failure: None };
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

    /// Puts a renamed copy of a node behind it.
    fn clone_after(&mut self, range: Range<usize>, separator: &str, rule: Rule) {
        let copy = format!("{separator}{}{}", self.patch.indent(range.start), renamed(self.patch.slice(&range)));
        self.patch.insert(range.end, copy, rule, range.start);
        self.patch.claim(range);
    }

    /// The `#[path]` declaration of an overlay module, or a note that it is missing.
    fn mount(&mut self, name: &str, visibility: &str) -> Option<String> {
        let Some(overlay) = self.overlay.module(&self.folder, name) else {
            self.failure = Some(Error::MissingMount(format!("{}/{name}", self.folder).trim_start_matches('/').into()));
            return None;
        };
        let path = self.overlay.path(&overlay);
        let file = self.patch.file.to_string();
        self.findings.mounts.push(Mount { file, module: name.to_string(), overlay });
        // `{:?}` writes the path as a Rust string literal, backslashes of Windows included.
        Some(format!("#[cfg(feature = \"rocm\")]\n#[path = {path:?}]\n{visibility}mod {name};"))
    }

    fn mount_hooks(&mut self) {
        if self.findings.hooks.is_empty() {
            return;
        }
        if let Some(declaration) = self.mount(HOOK_MODULE, "") {
            let end = self.patch.text.len();
            self.patch.insert(end, format!("\n{declaration}\n"), Rule::Mount, end);
        }
    }
}

impl<'ast> Visit<'ast> for Rules<'_, '_, '_> {
    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.variants(item)
    }
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
    fn visit_arm(&mut self, arm: &'ast Arm) {
        if !self.arm(arm) {
            visit::visit_arm(self, arm)
        }
    }
    fn visit_expr_if(&mut self, condition: &'ast syn::ExprIf) {
        if !self.if_cfg(condition) {
            visit::visit_expr_if(self, condition)
        }
    }
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if !self.test_condition(call) {
            visit::visit_expr_method_call(self, call)
        }
    }
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.test_macro(call)
    }
    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if let (Some(name), true) = (&item.ident, self.wraps_test_macro(&item.mac)) {
            self.test_macros.insert(name.to_string());
            self.patch.claim(item.span().byte_range());
        }
        visit::visit_item_macro(self, item)
    }
    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !self.keep_gated(&field.attrs, field.span().byte_range(), "field") {
            visit::visit_field(self, field)
        }
    }
    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if !self.keep_gated(statement_attributes(statement), statement.span().byte_range(), "statement") {
            visit::visit_stmt(self, statement)
        }
    }
}

impl Rules<'_, '_, '_> {
    /// A field or statement that upstream compiles only with, or only without, CUDA stays CUDA's business.
    fn keep_gated(&mut self, attributes: &[Attribute], range: Range<usize>, kind: &str) -> bool {
        let gated = match gate(attributes) {
            Gate::Open => return false,
            Gate::Cuda => "CUDA's own",
            Gate::WithoutCuda => "CUDA's absent",
            Gate::Library => "an NVIDIA library's",
        };
        self.patch.keep(range, format!("{gated} {kind}"));
        true
    }
}

fn statement_attributes(statement: &Stmt) -> &[Attribute] {
    match statement {
        Stmt::Local(local) => &local.attrs,
        Stmt::Macro(call) => &call.attrs,
        Stmt::Expr(Expr::Block(block), _) => &block.attrs,
        Stmt::Expr(Expr::Macro(call), _) => &call.attrs,
        Stmt::Expr(Expr::Call(call), _) => &call.attrs,
        Stmt::Expr(Expr::MethodCall(call), _) => &call.attrs,
        Stmt::Expr(Expr::If(condition), _) => &condition.attrs,
        Stmt::Expr(Expr::Match(choice), _) => &choice.attrs,
        // Items have rules of their own.
        _ => &[],
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
