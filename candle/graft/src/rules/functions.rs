//! Rules for functions. One that is named for CUDA and open to all builds is cloned. One that CUDA implements behind its
//! feature cannot be: its signature is kept and its body calls the overlay, and an overlay without that hook is an
//! error, because the operation would otherwise fail only when somebody runs it.

use super::arms::foreign_arms;
use super::{any_ident, Rules};
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
struct Function<'s> {
    attributes: &'s [Attribute],
    signature: &'s Signature,
    body: Option<&'s Block>,
    range: Range<usize>,
    place: Place<'s>,
}

/// Where a function stands.
#[derive(Clone, Copy)]
enum Place<'s> {
    Free,
    Trait,
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
                place: Place::Trait,
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
                ImplItem::Macro(call) if any_ident(call.mac.tokens.clone(), &mentions_cuda) => {
                    self.clone_after(call.span().byte_range(), "\n", Rule::ImplMacro);
                    true
                }
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
        let named = mentions_cuda(&name);
        if self.waivers.excuse(self.patch.file, &format!("fn {name}")) {
            self.patch.keep(function.range, format!("waived function {name}"));
            return true;
        }
        match (gate(function.attributes), function.place) {
            (Gate::Library, _) => self.patch.keep(function.range, format!("an NVIDIA library's function {name}")),
            (Gate::WithoutCuda, Place::Free) if self.in_source() => self.switch_function(&function, &name),
            (Gate::WithoutCuda, _) => self.patch.keep(function.range, format!("CUDA's absent function {name}")),
            (Gate::Cuda, Place::Operation(type_name)) if named => {
                self.hook_operation(&function, type_name);
                function.body.into_iter().for_each(|body| self.add_foreign_arms(body));
            }
            (Gate::Cuda, _) => {
                self.patch.keep(function.range.clone(), format!("CUDA's own function {name}"));
                function.body.into_iter().for_each(|body| self.add_foreign_arms(body));
            }
            (Gate::Open, Place::Free) if named && self.hooks.contains(&renamed(&name)) => {
                self.clone_or_take_from_overlay(&function, &renamed(&name))
            }
            (Gate::Open, _) if named => self.clone_function(&function),
            (Gate::Open, Place::Free) if self.hooks.contains(&format!("rocm_{name}")) => {
                self.branch_into_overlay(&function, &format!("rocm_{name}"))
            }
            (Gate::Open, Place::Inherent(type_name)) if self.hooks.contains(&method_hook(type_name, &name)) => {
                self.branch_into_overlay(&function, &method_hook(type_name, &name))
            }
            (Gate::Open, _) => return false,
        }
        true
    }

    /// A renamed copy, in which CUDA is a foreign device as ROCm is one in the original.
    fn clone_function(&mut self, function: &Function) {
        let range = function.range.clone();
        let mut copy = String::new();
        let mut position = range.start;
        if let Some(body) = function.body {
            for arm in foreign_arms(self.patch, body) {
                copy.push_str(&renamed(self.patch.slice(&(position..arm.position))));
                copy.push_str(&arm_in_copy(&arm.text("Cuda")));
                position = arm.position;
            }
            self.add_foreign_arms(body);
        }
        copy.push_str(&renamed(self.patch.slice(&(position..range.end))));
        let copy = format!("\n\n{}{copy}", self.patch.indent(range.start));
        self.patch.insert(range.end, copy, Rule::Function, range.start);
        self.patch.claim(range);
    }

    /// The overlay has a better word than the renamed copy once ROCm is compiled in.
    fn clone_or_take_from_overlay(&mut self, function: &Function, hook: &str) {
        let range = function.range.clone();
        let indent = self.patch.indent(range.start);
        let copy = renamed(self.patch.slice(&range));
        let text = format!(
            "\n\n{indent}#[cfg(not(feature = \"rocm\"))]\n{indent}{copy}\n\n{indent}#[cfg(feature = \"rocm\")]\n{indent}pub use {HOOK_MODULE}::{hook};"
        );
        self.record_hook(hook, function.signature);
        self.patch.insert(range.end, text, Rule::FunctionSwitch, range.start);
        self.patch.claim(range);
    }

    /// A free function with a CUDA body elsewhere and this bailing one: with ROCm, the overlay's takes its place.
    fn switch_function(&mut self, function: &Function, name: &str) {
        let range = function.range.clone();
        if !self.hooks.contains(name) {
            return self.hook_is_missing(range, format!("fn {name}"));
        }
        let indent = self.patch.indent(range.start);
        self.patch.replace(range.start..range.start, format!("#[cfg(not(feature = \"rocm\"))]\n{indent}"));
        let text = format!(
            "\n\n{indent}#[cfg(all(feature = \"rocm\", not(feature = \"cuda\")))]\n{indent}pub use {HOOK_MODULE}::{name};"
        );
        self.record_hook(name, function.signature);
        self.patch.insert(range.end, text, Rule::FunctionSwitch, range.start);
        self.patch.claim(range);
    }

    /// A function that knows nothing of CUDA, but for which the overlay has an answer: the ROCm device, or tensors on it,
    /// go to `rocm_name` (`rocm_type_name` for a type's own function), all others take upstream's way.
    fn branch_into_overlay(&mut self, function: &Function, hook: &str) {
        let range = function.range.clone();
        let (Some(body), Some(arguments), Some(condition)) =
            (function.body, self.arguments(function.signature), self.device_condition(function.signature))
        else {
            return self.hook_is_missing(range, format!("{hook} (the function has no named arguments)"));
        };
        let start = body.span().byte_range().start + 1;
        let indent = self.patch.indent(range.start);
        let text = format!(
            "\n{indent}    #[cfg(feature = \"rocm\")]\n{indent}    if {condition} {{\n{indent}        return {HOOK_MODULE}::{hook}({arguments});\n{indent}    }}"
        );
        self.record_hook(hook, function.signature);
        self.patch.insert(start, text, Rule::DeviceBranch, range.start);
        self.visit_block(body);
    }

    /// An operation's `cuda_fwd`: same signature, the body calls the hook named for the type.
    fn hook_operation(&mut self, function: &Function, type_name: &str) {
        let range = function.range.clone();
        let hook = snake_case(type_name);
        let (Some(body), true) = (function.body, self.hooks.contains(&hook)) else {
            return self.hook_is_missing(range, format!("{type_name}::{}", function.signature.ident));
        };
        let Some(arguments) = self.arguments(function.signature) else {
            return self
                .hook_is_missing(range, format!("{type_name}::{} (unnamed argument)", function.signature.ident));
        };
        let head = renamed(self.patch.slice(&(range.start..body.span().byte_range().start)));
        let indent = self.patch.indent(range.start);
        let text = format!("\n\n{indent}{head}{{\n{indent}    {HOOK_MODULE}::{hook}({arguments})\n{indent}}}");
        self.record_hook(&hook, function.signature);
        self.patch.insert(range.end, text, Rule::OpHook, range.start);
        self.patch.claim(range);
    }

    /// Whether a function works on the ROCm device: an argument says so that is a device, or else the first tensor, alone or of several.
    fn device_condition(&self, signature: &Signature) -> Option<String> {
        let inputs = || signature.inputs.iter().map(|input| self.patch.slice(&input.span().byte_range()));
        let name = |input: &str| input.split(':').next().unwrap_or_default().trim_start_matches('&').to_string();
        if let Some(device) = inputs().find(|input| input.ends_with("Device")) {
            return Some(format!("{}.is_rocm()", name(device)));
        }
        inputs().next().map(|first| match first.contains(": &[") {
            true => format!("{}.first().is_some_and(|first| first.as_ref().device().is_rocm())", name(first)),
            false => format!("{}.device().is_rocm()", name(first)),
        })
    }

    fn arguments(&self, signature: &Signature) -> Option<String> {
        let names = signature.inputs.iter().map(|input| match input {
            FnArg::Receiver(_) => Some("self".to_string()),
            FnArg::Typed(typed) => match &*typed.pat {
                Pat::Ident(name) => Some(renamed(&name.ident.to_string())),
                _ => None,
            },
        });
        names.collect::<Option<Vec<_>>>().map(|names| names.join(", "))
    }

    fn record_hook(&mut self, function: &str, signature: &Signature) {
        let signature = renamed(self.patch.slice(&signature.span().byte_range()));
        let signature = signature.split_whitespace().collect::<Vec<_>>().join(" ");
        let file = self.patch.file.to_string();
        self.findings.hooks.push(Hook { file, function: function.to_string(), signature });
    }

    fn hook_is_missing(&mut self, range: Range<usize>, what: String) {
        if !self.waivers.excuse(self.patch.file, &what) {
            let (file, line) = (self.patch.file.to_string(), self.patch.line(range.start));
            let what = format!("{what} has no hook in the overlay's {}/{HOOK_MODULE}.rs", self.folder);
            self.findings.missing.push(Mention { file, line, what });
        }
        self.patch.claim(range);
    }
}

/// `Content::tensor` -> `rocm_content_tensor`.
fn method_hook(type_name: &str, function: &str) -> String {
    format!("rocm_{}_{function}", snake_case(type_name))
}

/// A foreign arm in a renamed copy: its pattern names CUDA, its message speaks of the copy's own device.
fn arm_in_copy(arm: &str) -> String {
    match arm.split_once("=>") {
        Some((pattern, body)) => format!("{pattern}=>{}", body.replace("cuda", "rocm")),
        None => arm.to_string(),
    }
}
