//! ROCm's names for what is named for CUDA. They mean the same thing: `Device::new_rocm` is `new_cuda`. A trait's `cuda_fwd`
//! answers with its `rocm_fwd` unless a type says otherwise, so that an operation may be written under either name.

use super::functions::Function;
use super::Rules;
use crate::naming::renamed;
use crate::report::Rule;
use proc_macro2::{TokenStream, TokenTree};
use std::ops::Range;
use syn::spanned::Spanned;
use syn::{FnArg, GenericParam, ItemTrait, Signature};

impl Rules<'_, '_, '_> {
    /// A copy under ROCm's name, whose messages and documentation speak of ROCm.
    pub(super) fn second_function(&mut self, function: &Function, gate: &str) {
        let range = function.range.clone();
        let indent = self.patch.indent(range.start);
        let copy = reworded(self.patch.slice(&range), &function.signature.ident.to_string());
        let copy = match function.body {
            Some(body) if function.signature.ident.to_string().starts_with("new_") => {
                // ROCm's names are as long as CUDA's.
                let head = body.span().byte_range().start - range.start + 1;
                let about = if function.is_documented() { String::new() } else { about_devices(indent) };
                format!("{about}{}\n{indent}    {WITHOUT_THE_FEATURE}{}", &copy[..head], &copy[head..])
            }
            _ => copy,
        };
        self.patch.insert(range.end, format!("\n\n{gate}{indent}{copy}"), Rule::Name, range.start);
    }

    /// The default of a trait's `cuda_fwd` becomes the default of `rocm_fwd`, which `cuda_fwd` then calls.
    pub(super) fn trait_function(&mut self, function: &Function, definition: &ItemTrait) {
        let range = function.range.clone();
        let name = function.signature.ident.to_string();
        let indent = self.patch.indent(range.start);
        let asked = self.with_plain_arguments(function.signature);
        let arguments: String = (0..function.signature.inputs.len() - 1).map(|index| format!(", a{index}")).collect();
        let generics: Vec<_> = definition.generics.params.iter().map(parameter_name).collect();
        let generics = if generics.is_empty() { String::new() } else { format!("<{}>", generics.join(", ")) };
        let answer = format!("<Self as {}{generics}>::{}(self{arguments})", definition.ident, renamed(&name));
        let copy = reworded(self.patch.slice(&range), &name);
        let text = format!("\n\n{indent}{asked} {{\n{indent}    {answer}\n{indent}}}\n\n{indent}{copy}");
        self.patch.insert(range.end, text, Rule::Name, range.start);
        self.leave_out(range);
    }

    /// The signature with its arguments named `a0`, `a1` and so on: a default may leave them without names.
    fn with_plain_arguments(&self, signature: &Signature) -> String {
        let whole = signature.span().byte_range();
        let mut text = String::new();
        let mut position = whole.start;
        let typed = signature.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(typed) => Some(typed.pat.span().byte_range()),
            FnArg::Receiver(_) => None,
        });
        for (index, pattern) in typed.enumerate() {
            text.push_str(self.patch.slice(&(position..pattern.start)));
            text.push_str(&format!("a{index}"));
            position = pattern.end;
        }
        text.push_str(self.patch.slice(&(position..whole.end)));
        text
    }
}

/// What `new_rocm` and its like say of themselves where upstream's function says nothing.
fn about_devices(indent: &str) -> String {
    format!(
        "/// The AMD GPU of this ordinal. Where there is none, the embedded device, which runs the same kernels on the CPU, and one\n\
         {indent}/// warning; `CANDLE_ROCM_PLATFORM=amd` makes that an error.\n{indent}"
    )
}

/// What `new_rocm` answers in a build without the feature, where only stand-ins are there.
const WITHOUT_THE_FEATURE: &str = "if !cfg!(feature = \"cuda\") {\n        \
    crate::bail!(\"Candle was built without its GPU backend; build it with the feature `rocm` (or `cuda`, which is the same here)\")\n    }";

/// A function's text with another name, and with ROCm in its messages and documentation.
fn reworded(text: &str, name: &str) -> String {
    let mut edits = Vec::new();
    collect(text.parse().unwrap_or_default(), name, &mut edits);
    let mut result = String::with_capacity(text.len());
    let mut position = 0;
    for edit in edits {
        // A doc comment comes as several tokens of one place.
        if edit.start < position {
            continue;
        }
        result.push_str(&text[position..edit.start]);
        result.push_str(&renamed(&text[edit.clone()]));
        position = edit.end;
    }
    result.push_str(&text[position..]);
    result
}

fn collect(tokens: TokenStream, name: &str, edits: &mut Vec<Range<usize>>) {
    let mut after_fn = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect(group.stream(), name, edits),
            TokenTree::Ident(ident) if after_fn && ident == name => edits.push(ident.span().byte_range()),
            TokenTree::Ident(ident) => {
                after_fn = ident == "fn";
                continue;
            }
            // `feature = "cuda"` is no message.
            TokenTree::Literal(literal) if literal.to_string() != "\"cuda\"" => edits.push(literal.span().byte_range()),
            _ => {}
        }
        after_fn = false;
    }
}

fn parameter_name(parameter: &GenericParam) -> String {
    match parameter {
        GenericParam::Type(parameter) => parameter.ident.to_string(),
        GenericParam::Const(parameter) => parameter.ident.to_string(),
        GenericParam::Lifetime(parameter) => parameter.lifetime.to_string(),
    }
}
