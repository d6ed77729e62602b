//! Control flow: blocks, branches, loops, matches, and the ways out of them. A match becomes a row of `if`s, so that `break` in an arm
//! leaves the loop around it; what leaves more than one loop is a `goto`.

use crate::body::{Body, Frame, Local, Value};
use crate::types::{Kind, Prim, Ty};
use std::fmt::Write;
use syn::spanned::Spanned;
use syn::{Error, Expr, Pat, RangeLimits, Result};

/// What a `for` loop runs over.
struct Steps<'e> {
    from: &'e Expr,
    to: &'e Expr,
    inclusive: bool,
    step: Option<&'e Expr>,
    reversed: bool,
}

fn steps(expr: &Expr) -> Result<Steps<'_>> {
    const WHAT: &str = "a `for` loop runs over a range: `0..n`, `a..=b`, `(0..n).rev()`, `(0..n).step_by(k)`";
    match expr {
        Expr::Paren(inner) => steps(&inner.expr),
        Expr::Group(inner) => steps(&inner.expr),
        Expr::Range(range) => {
            let (Some(from), Some(to)) = (&range.start, &range.end) else { return Err(Error::new(range.span(), WHAT)) };
            let inclusive = matches!(range.limits, RangeLimits::Closed(_));
            Ok(Steps { from, to, inclusive, step: None, reversed: false })
        }
        Expr::MethodCall(call) => {
            let inner = steps(&call.receiver)?;
            match (call.method.to_string().as_str(), call.args.len()) {
                ("rev", 0) if inner.step.is_none() => Ok(Steps { reversed: !inner.reversed, ..inner }),
                ("step_by", 1) if inner.step.is_none() && !inner.reversed => {
                    Ok(Steps { step: call.args.first(), ..inner })
                }
                _ => Err(Error::new(call.method.span(), WHAT)),
            }
        }
        other => Err(Error::new(other.span(), WHAT)),
    }
}

impl Body<'_> {
    pub fn flow(&mut self, expr: &Expr) -> Result<Value> {
        let span = expr.span();
        match expr {
            Expr::Block(block) => {
                if let Some(label) = &block.label {
                    return Err(Error::new(label.span(), "only loops have labels here"));
                }
                let mut join = self.join();
                self.out.push_str("{ ");
                let value = self.block(&block.block)?;
                self.end(&mut join, &value, span)?;
                self.out.push_str("} ");
                Ok(self.joined(join, span))
            }
            Expr::If(branch) => self.branch(branch),
            Expr::Match(expr) => self.match_(expr),
            Expr::While(expr) => {
                self.open(expr.label.as_ref(), false);
                self.out.push_str("for (;;) { ");
                self.enter();
                let condition = self.expr(&expr.cond)?;
                self.coerce(&condition, &Prim::Bool.into(), expr.cond.span())?;
                let _ = write!(self.out, "if (!({})) break; ", condition.code);
                self.repeated(&expr.body)?;
                self.leave();
                self.out.push_str("} ");
                self.close(span)?;
                Ok(Value::unit())
            }
            Expr::Loop(expr) => {
                self.open(expr.label.as_ref(), true);
                self.out.push_str("for (;;) { ");
                self.repeated(&expr.body)?;
                self.out.push_str("} ");
                self.close(span)
            }
            Expr::ForLoop(expr) => self.for_(expr),
            Expr::Break(expr) => self.break_(expr),
            Expr::Continue(expr) => {
                let at = self.target(expr.label.as_ref(), expr.span())?;
                let inner = at + 1 == self.frames.len();
                let frame = &mut self.frames[at];
                frame.goes_on |= !inner;
                let way = if inner { "continue; ".to_owned() } else { format!("goto next_{}; ", frame.number) };
                self.out.push_str(&way);
                Ok(Value::never())
            }
            Expr::Return(expr) => {
                let value = match &expr.expr {
                    Some(value) => self.expr(value)?,
                    None => Value::unit(),
                };
                let ret = self.ret.clone();
                self.coerce(&value, &ret, expr.span())?;
                if ret == Ty::Unit {
                    self.discard(&value);
                    self.out.push_str("return; ");
                } else if value.ty != Ty::Never {
                    let _ = write!(self.out, "return {}; ", value.code);
                }
                Ok(Value::never())
            }
            other => Err(Error::new(other.span(), "kernels do not know this kind of expression")),
        }
    }

    fn branch(&mut self, branch: &syn::ExprIf) -> Result<Value> {
        let condition = self.expr(&branch.cond)?;
        self.coerce(&condition, &Prim::Bool.into(), branch.cond.span())?;
        let mut join = self.join();
        let _ = write!(self.out, "if ({}) {{ ", condition.code);
        let value = self.block(&branch.then_branch)?;
        let end = branch.then_branch.stmts.last().map_or(branch.then_branch.span(), |last| last.span());
        self.end(&mut join, &value, end)?;
        self.out.push_str("} ");
        match &branch.else_branch {
            Some((_, otherwise)) => {
                self.out.push_str("else { ");
                let value = self.expr(otherwise)?;
                self.end(&mut join, &value, otherwise.span())?;
                self.out.push_str("} ");
            }
            None => self.end(&mut join, &Value::unit(), branch.span())?,
        }
        Ok(self.joined(join, branch.span()))
    }

    fn open(&mut self, label: Option<&syn::Label>, takes_values: bool) {
        let number = self.name("loop");
        let result = self.join();
        self.frames.push(Frame {
            label: label.map(|label| label.name.ident.to_string()),
            number,
            takes_values,
            result,
            broken: false,
            goes_on: false,
            goes_out: false,
        });
    }

    /// The body of a loop.
    fn repeated(&mut self, block: &syn::Block) -> Result<()> {
        self.out.push_str("{ ");
        let value = self.block(block)?;
        self.coerce(&value, &Ty::Unit, block.span())?;
        self.discard(&value);
        self.out.push_str("} ");
        if let Some(frame) = self.frames.last().filter(|frame| frame.goes_on) {
            let _ = write!(self.out, "next_{}:; ", frame.number);
        }
        Ok(())
    }

    fn close(&mut self, span: proc_macro2::Span) -> Result<Value> {
        let Some(frame) = self.frames.pop() else { return Ok(Value::unit()) };
        if frame.goes_out {
            let _ = write!(self.out, "out_{}:; ", frame.number);
        }
        Ok(match (frame.takes_values, frame.broken) {
            (true, false) => Value::never(),
            (true, true) => self.joined(frame.result, span),
            (false, _) => Value::unit(),
        })
    }

    /// The loop that a `break` or `continue` means.
    fn target(&self, label: Option<&syn::Lifetime>, span: proc_macro2::Span) -> Result<usize> {
        let found = match label {
            Some(label) => {
                let name = label.ident.to_string();
                self.frames.iter().rposition(|frame| frame.label.as_ref() == Some(&name))
            }
            None => self.frames.len().checked_sub(1),
        };
        found.ok_or_else(|| Error::new(span, "there is no such loop around this"))
    }

    fn break_(&mut self, expr: &syn::ExprBreak) -> Result<Value> {
        let at = self.target(expr.label.as_ref(), expr.span())?;
        let value = match &expr.expr {
            Some(value) if !self.frames[at].takes_values => {
                return Err(Error::new(value.span(), "only `loop` has a value that `break` gives it"));
            }
            Some(value) => self.expr(value)?,
            None => Value::unit(),
        };
        if self.frames[at].takes_values {
            let empty = self.join();
            let mut result = std::mem::replace(&mut self.frames[at].result, empty);
            self.end(&mut result, &value, expr.span())?;
            self.frames[at].result = result;
        }
        let inner = at + 1 == self.frames.len();
        let frame = &mut self.frames[at];
        frame.broken = true;
        frame.goes_out |= !inner;
        let way = if inner { "break; ".to_owned() } else { format!("goto out_{}; ", frame.number) };
        self.out.push_str(&way);
        Ok(Value::never())
    }

    fn for_(&mut self, expr: &syn::ExprForLoop) -> Result<Value> {
        let span = expr.span();
        let Steps { from, to, inclusive, step, reversed } = steps(&expr.expr)?;
        let name = match &*expr.pat {
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => Some(name),
            Pat::Wild(_) => None,
            other => return Err(Error::new(other.span(), "the loop's variable is a name")),
        };
        let values = self.exprs([from, to].into_iter().chain(step))?;
        let ty = values[0].ty.clone();
        self.coerce(&values[1], &ty, to.span())?;
        if let (Ty::Prim(prim), _) | (_, Ty::Prim(prim)) = (self.types.shallow(&ty), self.types.shallow(&values[1].ty))
        {
            if !prim.is_int() {
                return Err(Error::new(
                    expr.expr.span(),
                    format!("a range of `{}` cannot be run over: take integers", prim.name()),
                ));
            }
        }
        self.demand(&ty, crate::body::Class::Int, "a range to run over", expr.expr.span());
        let cpp = self.mark_type(&ty, span);
        let [first, last, next] = [self.name("first"), self.name("last"), self.name("i")];
        let _ = write!(self.out, "const {cpp} {first} = {}; const {cpp} {last} = {}; ", values[0].code, values[1].code);
        let step = match values.get(2) {
            Some(value) => {
                self.coerce(value, &Prim::Usize.into(), expr.expr.span())?;
                let site = self.site(expr.expr.span(), "a step of zero");
                let name = self.name("step");
                let _ = write!(self.out, "const rs::u64 {name} = rs::step({}, cx, {site}); ", value.code);
                name
            }
            None => "rs::u64(1)".to_owned(),
        };
        self.open(expr.label.as_ref(), false);
        let head = if !inclusive && reversed {
            format!("for ({cpp} {next} = {last}; {next} > {first};) {{ {next} = rs::back({next}, {step}); ")
        } else if !inclusive {
            format!("for ({cpp} {next} = {first}; {next} < {last}; {next} = rs::stride({next}, {last}, {step})) {{ ")
        } else {
            // The variable stops before it would overflow: `more` says whether there is another one.
            let more = self.name("more");
            let (begin, left, change) = match reversed {
                true => (&last, format!("rs::between({first}, {next})"), "back"),
                false => (&first, format!("rs::between({next}, {last})"), "ahead"),
            };
            format!(
                "{cpp} {next} = {begin}; bool {more} = {first} <= {last}; \
                 for (; {more}; {more} = {left} >= {step}, {next} = {more} ? rs::{change}({next}, {step}) : {next}) {{ "
            )
        };
        self.out.push_str(&head);
        self.enter();
        if let Some(name) = name {
            let code = self.name(&name.ident.to_string());
            let mutable = name.mutability.is_some();
            let _ = write!(self.out, "{}{cpp} {code} = {next}; ", if mutable { "" } else { "const " });
            self.declare(&name.ident.to_string(), Local { ty, code, mutable });
        }
        self.repeated(&expr.body)?;
        self.leave();
        self.out.push_str("} ");
        self.close(span)?;
        Ok(Value::unit())
    }

    fn match_(&mut self, expr: &syn::ExprMatch) -> Result<Value> {
        let span = expr.span();
        let value = self.expr(&expr.expr)?;
        let known = self.types.shallow(&value.ty);
        if !(self.types.is_int(&known) || known == Ty::Prim(Prim::Bool) || self.types.kind(&known) == Some(Kind::Any)) {
            return Err(Error::new(
                expr.expr.span(),
                format!("a `match` here is on integers and bool, not on `{}`", self.types.known(&known)),
            ));
        }
        let mut join = self.join();
        self.out.push_str("{ ");
        let value = self.spill(Value { stable: false, ..value }, expr.expr.span());
        let number = self.name("matched");
        for arm in &expr.arms {
            let (condition, binding) = self.pattern(&arm.pat, &value)?;
            let _ = write!(self.out, "if ({condition}) {{ ");
            self.enter();
            if let Some(name) = binding {
                self.declare(&name, Local { ty: value.ty.clone(), code: value.code.clone(), mutable: false });
            }
            if let Some((_, guard)) = &arm.guard {
                let guarded = self.expr(guard)?;
                self.coerce(&guarded, &Prim::Bool.into(), guard.span())?;
                let _ = write!(self.out, "if ({}) {{ ", guarded.code);
            }
            self.line(arm.body.span());
            let body = self.expr(&arm.body)?;
            self.end(&mut join, &body, arm.body.span())?;
            let _ = write!(self.out, "goto {number}; {}}} ", if arm.guard.is_some() { "} " } else { "" });
            self.leave();
        }
        let _ = write!(self.out, "}} {number}:; ");
        Ok(self.joined(join, span))
    }

    /// When a pattern fits, and the name that it gives.
    fn pattern(&mut self, pat: &Pat, value: &Value) -> Result<(String, Option<String>)> {
        match pat {
            Pat::Wild(_) => Ok(("true".into(), None)),
            Pat::Paren(inner) => self.pattern(&inner.pat, value),
            Pat::Ident(name) if name.by_ref.is_none() => {
                let written = name.ident.to_string();
                if let (Some(_), None) = (self.constant(&written), &name.subpat) {
                    let path = syn::parse_str::<Expr>(&written)?;
                    return Ok((self.equals(&path, value)?, None));
                }
                let condition = match &name.subpat {
                    Some((_, inner)) => self.pattern(inner, value)?.0,
                    None => "true".into(),
                };
                Ok((condition, Some(written)))
            }
            Pat::Lit(lit) => Ok((self.equals(&Expr::Lit(lit.clone()), value)?, None)),
            Pat::Path(path) => Ok((self.equals(&Expr::Path(path.clone()), value)?, None)),
            Pat::Or(or) => {
                let mut all = Vec::new();
                for case in &or.cases {
                    match self.pattern(case, value)? {
                        (condition, None) => all.push(condition),
                        (_, Some(_)) => {
                            return Err(Error::new(case.span(), "give the name before the alternatives: `n @ (1 | 2)`"))
                        }
                    }
                }
                Ok((format!("({})", all.join(" || ")), None))
            }
            Pat::Range(range) => {
                let mut all = Vec::new();
                for (end, sign) in [
                    (&range.start, ">="),
                    (&range.end, if matches!(range.limits, RangeLimits::Closed(_)) { "<=" } else { "<" }),
                ] {
                    if let Some(end) = end {
                        let bound = self.expr(end)?;
                        self.coerce(&bound, &value.ty, end.span())?;
                        all.push(format!("{} {sign} {}", value.code, bound.code));
                    }
                }
                Ok((if all.is_empty() { "true".into() } else { format!("({})", all.join(" && ")) }, None))
            }
            other => {
                Err(Error::new(other.span(), "a pattern here is an integer, a range, a name, `_`, or several with `|`"))
            }
        }
    }

    fn equals(&mut self, expr: &Expr, value: &Value) -> Result<String> {
        let other = self.expr(expr)?;
        self.coerce(&other, &value.ty, expr.span())?;
        Ok(format!("{} == {}", value.code, other.code))
    }
}
