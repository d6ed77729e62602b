//! Rules for Candle's own tests. `test_device!` makes one test per device, and CUDA's runs on the ROCm device. Where a test
//! makes an exception for CUDA (`if device.is_cuda()`), ROCm gets none: it has to meet the demand made of every device.

use super::Rules;
use crate::report::Rule;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Expr, ExprMethodCall, Macro, Token};

impl Rules<'_, '_, '_> {
    pub(super) fn test_exception(&mut self, call: &ExprMethodCall) {
        if call.method == "is_cuda" && !self.in_source() {
            let start = call.span().byte_range().start;
            self.patch.insert(start, "false && ".into(), Rule::NoException, start);
        }
    }

    /// The arguments of assert!, matches! and the like are ordinary expressions.
    pub(super) fn test_macro(&mut self, call: &Macro) {
        if let Ok(arguments) = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated) {
            arguments.iter().for_each(|argument| self.visit_expr(argument));
        }
    }
}
