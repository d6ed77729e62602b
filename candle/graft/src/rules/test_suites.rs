//! Rules for Candle's own tests. `test_device!` makes one test per device; the graft teaches it to make one for ROCm as well,
//! which puts the whole suite on the ROCm device. Where a test makes an exception for CUDA (`if device.is_cuda()`),
//! ROCm gets no exception: it has to meet the demand made of every device.

use super::{any_ident, Rules};
use crate::naming::renamed;
use crate::report::Rule;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{ExprMethodCall, Macro};

impl Rules<'_, '_, '_> {
    pub(super) fn test_condition(&mut self, call: &ExprMethodCall) -> bool {
        let exception = call.method == "is_cuda" && !self.in_source();
        if exception {
            self.patch.keep(call.span().byte_range(), "an exception that a test makes for CUDA");
        }
        exception
    }

    /// Whether a macro's definition hands names on to a test macro.
    pub(super) fn wraps_test_macro(&self, definition: &Macro) -> bool {
        definition.path.is_ident("macro_rules")
            && any_ident(definition.tokens.clone(), &|name| self.test_macros.contains(name))
    }

    pub(super) fn test_macro(&mut self, call: &Macro) {
        let range = call.tokens.span().byte_range();
        if call.path.is_ident("macro_rules") {
            return self.test_macro_definition(range.start, self.patch.slice(&range));
        }
        let name = call.path.get_ident().map(|name| name.to_string());
        if name.is_some_and(|name| self.test_macros.contains(&name)) {
            // The names of CUDA's tests; ROCm's tests live in modules of those names.
            self.patch.claim(range);
        } else if let Ok(nested) =
            call.parse_body_with(syn::punctuated::Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated)
        {
            // The arguments of assert!, matches! and the like are ordinary expressions.
            nested.iter().for_each(|argument| self.visit_expr(argument));
        }
    }

    /// Callers keep passing three names: the ROCm test becomes `mod $test_cuda { fn rocm() }`, and a module
    /// cannot collide with the function of the same name.
    fn test_macro_definition(&mut self, start: usize, definition: &str) {
        let Some(first) = definition.find("#[cfg(feature = \"cuda\")]") else { return };
        let Some(length) = definition[first..].find("#[cfg(feature = \"metal\")]") else { return };
        let cuda_test = &definition[first..first + length];
        if !cuda_test.contains("fn $test_cuda()") {
            return;
        }
        let (gate, function) = cuda_test.split_once('\n').unwrap_or((cuda_test, ""));
        let (gate, function) = (renamed(gate), renamed(function));
        let function = function.replace("$test_rocm", "rocm").replace("$fn_name", "super::$fn_name");
        let indent = self.patch.indent(start + first);
        let module = format!(
            "{gate}\n{indent}mod $test_cuda {{\n{indent}use super::*;\n{}\n{indent}}}\n\n{indent}",
            function.trim_end()
        );
        self.patch.insert(start + first + length, module, Rule::TestMacro, start);
        self.patch.claim(start..start + definition.len());
    }
}
