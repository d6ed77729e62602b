//! Rules for code that chooses by device: match arms, or-patterns, `if cfg!(...)`, and the arms that CUDA's own code needs
//! once ROCm is one of the other devices.

use super::Rules;
use crate::naming::renamed;
use crate::patch::Patch;
use crate::report::Rule;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Arm, Block, Expr, ExprIf, ExprMatch, Pat, PatIdent};

impl Rules<'_, '_, '_> {
    /// Returns false when the arm does not choose CUDA.
    pub(super) fn arm(&mut self, arm: &Arm) -> bool {
        if !names_variant(&arm.pat, "Cuda") {
            return false;
        }
        if let Pat::Or(alternatives) = &arm.pat {
            for case in alternatives.cases.iter().filter(|case| names_variant(case, "Cuda")) {
                let range = case.span().byte_range();
                let copy = format!(" | {}", renamed(self.patch.slice(&range)));
                self.patch.insert(range.end, copy, Rule::OrPattern, range.start);
                self.patch.claim(range);
            }
            self.visit_expr(&arm.body);
            return true;
        }
        let rule = if matches!(arm.pat, Pat::Tuple(_)) { Rule::TupleArm } else { Rule::Arm };
        self.clone_after(arm.span().byte_range(), &format!("{}\n", missing_comma(arm)), rule);
        true
    }

    /// `if cfg!(feature = "cuda") { X } else ...` gains `else if cfg!(feature = "rocm") { X' }`.
    pub(super) fn if_cfg(&mut self, condition: &ExprIf) -> bool {
        let Expr::Macro(call) = &*condition.cond else { return false };
        let mut predicate = call.mac.tokens.to_string();
        predicate.retain(|letter| letter != ' ');
        if !call.mac.path.is_ident("cfg") || predicate != "feature=\"cuda\"" {
            return false;
        }
        let range = call.span().byte_range().start..condition.then_branch.span().byte_range().end;
        let copy = format!(" else if {}", renamed(self.patch.slice(&range)));
        self.patch.insert(range.end, copy, Rule::IfCfg, range.start);
        self.patch.claim(range);
        if let Some((_, otherwise)) = &condition.else_branch {
            self.visit_expr(otherwise);
        }
        true
    }

    /// Gives CUDA's own code the arms in which ROCm is a foreign device.
    pub(super) fn add_foreign_arms(&mut self, block: &Block) {
        for arm in foreign_arms(self.patch, block) {
            self.patch.insert(arm.position, arm.text("Rocm"), Rule::ForeignArm, arm.position);
        }
    }
}

/// An arm that an exhaustive match needs for one more foreign device, modelled on its arm for Metal.
pub(super) struct ForeignArm {
    /// Where it belongs.
    pub position: usize,
    model: String,
}

impl ForeignArm {
    /// The arm for a device.
    pub fn text(&self, device: &str) -> String {
        self.model.replace("Metal", device)
    }
}

/// The foreign arms missing from a block of CUDA's own code.
pub(super) fn foreign_arms(patch: &Patch, block: &Block) -> Vec<ForeignArm> {
    let mut search = ForeignArms { patch, found: Vec::new() };
    search.visit_block(block);
    search.found
}

struct ForeignArms<'w, 'a> {
    patch: &'w Patch<'a>,
    found: Vec<ForeignArm>,
}

impl<'ast> Visit<'ast> for ForeignArms<'_, '_> {
    fn visit_expr_match(&mut self, choice: &'ast ExprMatch) {
        let by_device = choice.arms.iter().any(|arm| names_variant(&arm.pat, "Cuda"));
        if by_device && !choice.arms.iter().any(is_catch_all) {
            for arm in choice.arms.iter().filter(|arm| names_variant(&arm.pat, "Metal")) {
                self.model_on(arm);
            }
        }
        visit::visit_expr_match(self, choice)
    }
}

impl ForeignArms<'_, '_> {
    fn model_on(&mut self, arm: &Arm) {
        if let Pat::Or(alternatives) = &arm.pat {
            for case in alternatives.cases.iter().filter(|case| names_variant(case, "Metal")) {
                let range = case.span().byte_range();
                let model = format!(" | {}", self.patch.slice(&range));
                self.found.push(ForeignArm { position: range.end, model });
            }
            return;
        }
        let range = arm.span().byte_range();
        let indent = self.patch.indent(range.start);
        let model = format!("{}\n{indent}{}", missing_comma(arm), self.patch.slice(&range));
        self.found.push(ForeignArm { position: range.end, model });
    }
}

/// The comma that the last arm of a match may lack.
fn missing_comma(arm: &Arm) -> &'static str {
    if arm.comma.is_none() && !matches!(&*arm.body, Expr::Block(_)) {
        ","
    } else {
        ""
    }
}

/// Whether a pattern names an enum's variant, as in `Device::Cuda(_)`.
fn names_variant(pattern: &Pat, variant: &str) -> bool {
    struct Search<'v>(&'v str, bool);
    impl<'ast> Visit<'ast> for Search<'_> {
        fn visit_path(&mut self, path: &'ast syn::Path) {
            self.1 |= path.segments.len() > 1 && path.segments.last().is_some_and(|last| last.ident == self.0);
        }
    }
    let mut search = Search(variant, false);
    search.visit_pat(pattern);
    search.1
}

fn is_catch_all(arm: &Arm) -> bool {
    arm.guard.is_none() && matches!(&arm.pat, Pat::Wild(_) | Pat::Ident(PatIdent { subpat: None, .. }))
}
