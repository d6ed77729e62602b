//! Rules for functions. What CUDA implements behind its feature is left out, and a function of the same signature calls the
//! overlay; an operation without that hook is an error, because it could only fail when somebody runs it. What is merely
//! named for CUDA gets a second name.

use super::Rules;
use crate::error::Mention;
use crate::gate::{gate, Gate};
use crate::naming::{mentions_cuda, renamed, snake_case};
use crate::overlay::HOOK_MODULE;
use crate::report::{Hook, Rule};
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Attribute, Block, FnArg, ImplItem, ItemFn, ItemImpl, ItemTrait, Pat, Signature, TraitItem, Type};

/// A function as the rules see it, wherever it stands.
pub(super) struct Function<'s> {
    attributes: &'s [Attribute],
    pub(super) signature: &'s Signature,
    pub(super) body: Option<&'s Block>,
    pub(super) range: Range<usize>,
    place: Place<'s>,
}

impl Function<'_> {
    pub(super) fn is_documented(&self) -> bool {
        self.attributes.iter().any(|attribute| attribute.path().is_ident("doc"))
    }
}

/// Where a function stands.
#[derive(Clone, Copy)]
enum Place<'s> {
    Free,
    Trait(&'s ItemTrait),
    /// Among the named type's own functions.
    Inherent(&'s str),
    /// In the implementation of a trait for the named type.
    Operation(&'s str),
}

impl Rules<'_, '_, '_> {
    pub(super) fn free_function(&mut self, item: &ItemFn) -> bool {
        self.function(Function {
            attributes: &item.attrs,
            signature: &item.sig,
            body: Some(&item.block),
            range: item.span().byte_range(),
            place: Place::Free,
        })
    }

    pub(super) fn trait_functions(&mut self, item: &ItemTrait) {
        for member in &item.items {
            let TraitItem::Fn(function) = member else {
                self.visit_trait_item(member);
                continue;
            };
            let dealt_with = self.function(Function {
                attributes: &function.attrs,
                signature: &function.sig,
                body: function.default.as_ref(),
                range: function.span().byte_range(),
                place: Place::Trait(item),
            });
            if !dealt_with {
                self.visit_trait_item(member);
            }
        }
    }

    pub(super) fn impl_items(&mut self, item: &ItemImpl) {
        let type_name = match &*item.self_ty {
            Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        let type_name = type_name.unwrap_or_default();
        let place = match &item.trait_ {
            Some(_) => Place::Operation(&type_name),
            None => Place::Inherent(&type_name),
        };
        for member in &item.items {
            let dealt_with = match member {
                ImplItem::Fn(function) => self.function(Function {
                    attributes: &function.attrs,
                    signature: &function.sig,
                    body: Some(&function.block),
                    range: function.span().byte_range(),
                    place,
                }),
                _ => false,
            };
            if !dealt_with {
                self.visit_impl_item(member);
            }
        }
    }

    /// Returns false when the function is to be walked like any other code.
    fn function(&mut self, function: Function) -> bool {
        let name = function.signature.ident.to_string();
        let named = mentions_cuda(&name) && self.in_source();
        match (gate(function.attributes), function.place) {
            (Gate::Library, _) => self.leave_out(function.range),
            (Gate::Cuda, Place::Operation(type_name)) if named => self.hook_operation(&function, type_name),
            (Gate::Cuda, Place::Free) if self.hooks.contains(&name) => self.take_from_overlay(&function, &name),
            (Gate::Open, Place::Free) if named && self.hooks.contains(&renamed(&name)) => {
                self.answer_from_overlay(&function, &renamed(&name))
            }
            (Gate::Open, Place::Trait(definition)) if named && function.body.is_some() => {
                self.trait_function(&function, definition)
            }
            (Gate::Open, Place::Free | Place::Inherent(_)) if named => self.second_function(&function, ""),
            (Gate::Open, Place::Free) if self.hooks.contains(&format!("rocm_{name}")) => {
                self.branch_into_overlay(&function, &format!("rocm_{name}"))
            }
            (Gate::Open, Place::Inherent(type_name)) if self.hooks.contains(&method_hook(type_name, &name)) => {
                self.branch_into_overlay(&function, &method_hook(type_name, &name))
            }
            _ => return false,
        }
        true
    }

    /// An operation's `cuda_fwd`: same signature, the body calls the hook named for the type.
    fn hook_operation(&mut self, function: &Function, type_name: &str) {
        let range = function.range.clone();
        let hook = snake_case(type_name);
        let what = format!("{type_name}::{}", function.signature.ident);
        let (Some(body), Some(arguments), true) =
            (function.body, arguments(function.signature), self.hooks.contains(&hook))
        else {
            return self.hook_is_missing(range, what);
        };
        let head = self.patch.slice(&(range.start..body.span().byte_range().start)).trim_end();
        let indent = self.patch.indent(range.start);
        let text = format!("\n\n{indent}{head} {{\n{indent}    {HOOK_MODULE}::{hook}({arguments})\n{indent}}}");
        self.record_hook(&hook, function.signature);
        self.patch.insert(range.end, text, Rule::OpHook, range.start);
        self.leave_out(range);
    }

    /// A free function that CUDA implements, and that bails out without: the overlay's takes the place of CUDA's.
    fn take_from_overlay(&mut self, function: &Function, name: &str) {
        let range = function.range.clone();
        let indent = self.patch.indent(range.start);
        let text = format!("\n\n{indent}#[cfg(feature = \"cuda\")]\n{indent}pub use {HOOK_MODULE}::{name};");
        self.record_hook(name, function.signature);
        self.patch.insert(range.end, text, Rule::FunctionSwitch, range.start);
        self.leave_out(range);
    }

    /// A function named for CUDA to which the overlay has a better answer than upstream, once there is a backend.
    fn answer_from_overlay(&mut self, function: &Function, hook: &str) {
        let range = function.range.clone();
        let indent = self.patch.indent(range.start);
        let name = &function.signature.ident;
        let without = format!("{indent}#[cfg(not(feature = \"cuda\"))]\n");
        self.patch.replace(range.start..range.start, format!("{}{indent}", without.trim_start()));
        let text = format!(
            "\n\n{indent}#[cfg(feature = \"cuda\")]\n{indent}pub use {HOOK_MODULE}::{{{hook}, {hook} as {name}}};"
        );
        self.record_hook(hook, function.signature);
        self.patch.insert(range.end, text, Rule::FunctionSwitch, range.start);
        self.second_function(function, &without);
    }

    /// A function that knows nothing of CUDA, but for which the overlay has an answer: the ROCm device, or tensors on it,
    /// go to `rocm_name` (`rocm_type_name` for a type's own function), all others take upstream's way.
    fn branch_into_overlay(&mut self, function: &Function, hook: &str) {
        let range = function.range.clone();
        let (Some(body), Some(arguments), Some(condition)) =
            (function.body, arguments(function.signature), self.device_condition(function.signature))
        else {
            return self.hook_is_missing(range, format!("{hook} (the function has no named arguments)"));
        };
        let start = body.span().byte_range().start + 1;
        let indent = self.patch.indent(range.start);
        let text = format!(
            "\n{indent}    #[cfg(feature = \"cuda\")]\n{indent}    if {condition} {{\n{indent}        return {HOOK_MODULE}::{hook}({arguments});\n{indent}    }}"
        );
        self.record_hook(hook, function.signature);
        self.patch.insert(start, text, Rule::DeviceBranch, range.start);
        self.visit_block(body);
    }

    /// Whether a function works on the ROCm device: an argument says so that is a device, or else the first tensor, alone or of several.
    fn device_condition(&self, signature: &Signature) -> Option<String> {
        let inputs = || signature.inputs.iter().map(|input| self.patch.slice(&input.span().byte_range()));
        let name = |input: &str| input.split(':').next().unwrap_or_default().trim_start_matches('&').to_string();
        if let Some(device) = inputs().find(|input| input.ends_with("Device")) {
            return Some(format!("{}.is_cuda()", name(device)));
        }
        inputs().next().map(|first| match first.contains(": &[") {
            true => format!("{}.first().is_some_and(|first| first.as_ref().device().is_cuda())", name(first)),
            false => format!("{}.device().is_cuda()", name(first)),
        })
    }

    fn record_hook(&mut self, function: &str, signature: &Signature) {
        let signature = self.patch.slice(&signature.span().byte_range());
        let signature = signature.split_whitespace().collect::<Vec<_>>().join(" ");
        let file = self.patch.file.to_string();
        self.findings.hooks.push(Hook { file, function: function.to_string(), signature });
    }

    /// An operation that only CUDA has is left out if somebody said so, and an error otherwise.
    fn hook_is_missing(&mut self, range: Range<usize>, what: String) {
        if self.waivers.excuse(self.patch.file, &what) {
            return self.leave_out(range);
        }
        let (file, line) = (self.patch.file.to_string(), self.patch.line(range.start));
        let what = format!("{what} has no hook in the overlay's {}/{HOOK_MODULE}.rs", self.folder);
        self.findings.missing.push(Mention { file, line, what });
    }
}

/// The arguments to pass on, or `None` when one has no name.
fn arguments(signature: &Signature) -> Option<String> {
    let names = signature.inputs.iter().map(|input| match input {
        FnArg::Receiver(_) => Some("self".to_string()),
        FnArg::Typed(typed) => match &*typed.pat {
            Pat::Ident(name) => Some(name.ident.to_string()),
            _ => None,
        },
    });
    names.collect::<Option<Vec<_>>>().map(|names| names.join(", "))
}

/// `Content::tensor` -> `rocm_content_tensor`.
fn method_hook(type_name: &str, function: &str) -> String {
    format!("rocm_{}_{function}", snake_case(type_name))
}
