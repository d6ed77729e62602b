//! Rules for items that only declare: enum variants, imports and modules. A gated module file is CUDA's implementation, and
//! ROCm's is mounted beside it from the overlay; an ungated one is a stand-in, and its sibling is derived by renaming.

use super::Rules;
use crate::gate::{gate, Gate};
use crate::naming::{mentions_cuda, renamed};
use crate::report::Rule;
use syn::spanned::Spanned;
use syn::{ItemEnum, ItemMod, ItemUse, UseTree, Visibility};

impl Rules<'_, '_, '_> {
    pub(super) fn variants(&mut self, item: &ItemEnum) {
        for variant in item.variants.iter().filter(|variant| mentions_cuda(&variant.ident.to_string())) {
            let range = variant.span().byte_range();
            // The comma belongs to the list, not to the variant; only white space may stand before it.
            let rest = &self.patch.text[range.end..];
            let comma =
                rest.trim_start().starts_with(',').then(|| range.end + rest.len() - rest.trim_start().len() + 1);
            let copy = format!("\n{}{},", self.patch.indent(range.start), renamed(self.patch.slice(&range)));
            let (position, copy) = match comma {
                Some(after_comma) => (after_comma, copy),
                None => (range.end, format!(",{copy}")),
            };
            self.patch.insert(position, copy, Rule::Variant, range.start);
            self.patch.claim(range);
        }
    }

    pub(super) fn import(&mut self, item: &ItemUse) {
        let range = item.span().byte_range();
        if !mentions_cuda(self.patch.slice(&range)) {
            return;
        }
        let public = !matches!(item.vis, Visibility::Inherited);
        match (gate(&item.attrs), public) {
            (Gate::Library, _) | (Gate::Cuda, false) => self.patch.keep(range, "CUDA's own import"),
            (Gate::Cuda | Gate::WithoutCuda, _) => self.clone_after(range, "\n", Rule::UseItem),
            (Gate::Open, _) => match &item.tree {
                UseTree::Path(path) if mentions_cuda(&path.ident.to_string()) => {
                    self.clone_after(range, "\n", Rule::UseItem)
                }
                tree => self.imported_names(tree),
            },
        }
    }

    fn imported_names(&mut self, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => self.imported_names(&path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.imported_names(item)),
            UseTree::Name(name) if mentions_cuda(&name.ident.to_string()) => {
                let range = name.span().byte_range();
                self.patch.insert(
                    range.end,
                    format!(", {}", renamed(&name.ident.to_string())),
                    Rule::UseName,
                    range.start,
                );
                self.patch.claim(range);
            }
            _ => {}
        }
    }

    /// Returns false when the module is to be walked like any other.
    pub(super) fn module(&mut self, item: &ItemMod) -> bool {
        let range = item.span().byte_range();
        let name = item.ident.to_string();
        let gate = gate(&item.attrs);
        if !mentions_cuda(&name) {
            let gated = matches!(gate, Gate::Cuda | Gate::Library);
            if gated {
                self.patch.keep(range, format!("CUDA's own module {name}"));
            }
            return gated;
        }
        match (gate, &item.content) {
            (Gate::Library, _) | (Gate::Cuda, Some(_)) => self.patch.keep(range, format!("CUDA's own module {name}")),
            (Gate::Cuda, None) => {
                let visibility = match item.vis {
                    Visibility::Inherited => "",
                    _ => "pub ",
                };
                if let Some(declaration) = self.mount(&renamed(&name), visibility) {
                    self.patch.insert(range.end, format!("\n{declaration}"), Rule::Mount, range.start);
                }
                self.patch.claim(range);
            }
            (Gate::Open | Gate::WithoutCuda, content) => {
                if content.is_none() {
                    self.findings.derived.push(name);
                }
                self.clone_after(range, "\n", Rule::Module);
            }
        }
        true
    }
}
