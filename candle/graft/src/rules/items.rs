//! Rules for imports and modules. A gated module file is CUDA's implementation: ROCm's, from the overlay, stands in its place
//! and answers to both names. What CUDA's code imports for itself is left out with it.

use super::Rules;
use crate::gate::{gate, Gate};
use crate::naming::{mentions_cuda, renamed};
use crate::report::Rule;
use proc_macro2::Ident;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::{ItemMod, ItemUse, UseTree, Visibility};

impl Rules<'_, '_, '_> {
    pub(super) fn import(&mut self, item: &ItemUse) {
        if !self.in_source() {
            return;
        }
        let public = !matches!(item.vis, Visibility::Inherited);
        match gate(&item.attrs) {
            Gate::Library => self.leave_out(item.span().byte_range()),
            Gate::Cuda if !public => self.leave_out(item.span().byte_range()),
            _ if public => self.exported_names(&item.tree, false),
            _ => {}
        }
    }

    /// What is exported under a name of CUDA's is exported under ROCm's as well.
    fn exported_names(&mut self, tree: &UseTree, in_group: bool) {
        match tree {
            UseTree::Path(path) => self.exported_names(&path.tree, false),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.exported_names(item, true)),
            UseTree::Name(name) => self.second_name(tree.span().byte_range(), &name.ident, &name.ident, in_group),
            UseTree::Rename(alias) => self.second_name(tree.span().byte_range(), &alias.ident, &alias.rename, in_group),
            UseTree::Glob(_) => {}
        }
    }

    fn second_name(&mut self, range: Range<usize>, item: &Ident, name: &Ident, in_group: bool) {
        if !mentions_cuda(&name.to_string()) {
            return;
        }
        let (open, close) = if in_group { ("", "") } else { ("{", "}") };
        let copy = format!(", {item} as {}{close}", renamed(&name.to_string()));
        self.patch.replace(range.start..range.start, open.to_string());
        self.patch.insert(range.end, copy, Rule::Name, range.start);
    }

    /// Returns false when the module is to be walked like any other.
    pub(super) fn module(&mut self, item: &ItemMod) -> bool {
        let range = item.span().byte_range();
        let name = item.ident.to_string();
        match (gate(&item.attrs), &item.content) {
            (Gate::Library, _) => self.leave_out(range),
            (Gate::Cuda, None) if mentions_cuda(&name) => {
                let visibility = match item.vis {
                    Visibility::Inherited => String::new(),
                    _ => format!("{} ", self.patch.slice(&item.vis.span().byte_range())),
                };
                let rocm = renamed(&name);
                if let Some(attributes) = self.mount(&rocm) {
                    let text = format!(
                        "\n{attributes}{visibility}mod {rocm};\n#[cfg(feature = \"cuda\")]\n{visibility}use {rocm} as {name};"
                    );
                    self.patch.insert(range.end, text, Rule::Mount, range.start);
                }
                self.leave_out(range);
            }
            // Parts of CUDA's implementation that ROCm's does without.
            (Gate::Cuda, None) => self.leave_out(range),
            (Gate::Cuda, Some(_)) if self.patch.slice(&range).contains("cudarc") => self.leave_out(range),
            _ => return false,
        }
        true
    }
}
