//! Statements: blocks, `let`, and the names that it gives to the parts of a value.

use crate::body::{Body, Local, Value};
use crate::types::{Kind, Ty};
use proc_macro2::Span;
use std::fmt::Write;
use syn::spanned::Spanned;
use syn::{Block, Error, Pat, Result, Stmt};

impl Body<'_> {
    /// The statements of a block, in the scope that the caller's braces make, and its value.
    pub fn block(&mut self, block: &Block) -> Result<Value> {
        self.enter();
        let mut value = Value::unit();
        let mut ended = false;
        // A constant is known in the whole block, before its line too.
        for stmt in &block.stmts {
            if let (Stmt::Item(syn::Item::Const(item)), Some(scope)) = (stmt, self.consts.last_mut()) {
                scope.insert(item.ident.to_string(), ((*item.ty).clone(), (*item.expr).clone()));
            }
        }
        for (n, stmt) in block.stmts.iter().enumerate() {
            self.line(stmt.span());
            value = Value::unit();
            match stmt {
                Stmt::Local(local) => self.let_(local)?,
                Stmt::Expr(expr, semi) => {
                    value = self.expr(expr)?;
                    ended |= self.types.shallow(&value.ty) == Ty::Never;
                    if semi.is_some() || n + 1 < block.stmts.len() {
                        if semi.is_none() {
                            self.coerce(&value, &Ty::Unit, expr.span())?;
                        }
                        self.discard(&value);
                        value = Value::unit();
                    }
                }
                Stmt::Item(syn::Item::Const(_) | syn::Item::Use(_)) => {}
                Stmt::Item(item) => {
                    return Err(Error::new(
                        item.span(),
                        "only constants can be defined inside: put functions and structures beside the kernel",
                    ))
                }
                Stmt::Macro(call) => return Err(crate::expr::no_macro(&call.mac)),
            }
        }
        self.leave();
        if ended && value.ty == Ty::Unit {
            value = Value::never();
        }
        Ok(value)
    }

    fn let_(&mut self, local: &syn::Local) -> Result<()> {
        let (pat, written) = match &local.pat {
            Pat::Type(typed) => (&*typed.pat, Some(self.ty(&typed.ty)?)),
            pat => (pat, None),
        };
        if let Some(init) = &local.init {
            if let Some((word, _)) = &init.diverge {
                return Err(Error::new(word.span(), "kernels have no `let .. else`"));
            }
            if let Some(shared) = self.shared_memory(pat, &init.expr, written.as_ref())? {
                return Ok(shared);
            }
            let value = self.expr(&init.expr)?;
            if let Some(ty) = &written {
                self.coerce(&value, ty, init.expr.span())?;
            }
            if value.ty == Ty::Never {
                // Nothing behind it runs, but it has to be C++.
                let ty = written.unwrap_or(Ty::Unit);
                let code = if ty == Ty::Unit { "" } else { "{}" };
                return self.bind(pat, Value { ty, code: code.into(), stable: false }, init.expr.span());
            }
            let ty = written.unwrap_or(value.ty.clone());
            return self.bind(pat, Value { ty, ..value }, init.expr.span());
        }
        let Pat::Ident(name) = pat else { return Err(Error::new(pat.span(), "give it a value here, or a name")) };
        let ty = written.unwrap_or_else(|| self.types.fresh(Kind::Any));
        if matches!(ty, Ty::Shared(_)) {
            return Err(Error::new(pat.span(), "shared memory is made by `Shared::new()`"));
        }
        let code = self.name(&name.ident.to_string());
        let cpp = self.mark_type(&ty, name.span());
        let _ = write!(self.out, "{cpp} {code}; ");
        // Given its value later: that is an assignment, even without `mut`.
        self.declare(&name.ident.to_string(), Local { ty, code, mutable: true });
        Ok(())
    }

    /// Names the parts of a value.
    pub fn bind(&mut self, pat: &Pat, value: Value, span: Span) -> Result<()> {
        match pat {
            Pat::Wild(_) => {
                self.discard(&value);
                Ok(())
            }
            Pat::Paren(inner) => self.bind(&inner.pat, value, span),
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                let mutable = name.mutability.is_some();
                let known = self.types.shallow(&value.ty);
                if let Ty::Ref { .. } | Ty::Shared(_) = known {
                    return Err(Error::new(span, "references are for arguments of functions only: use what it names"));
                }
                if known == Ty::Unit || known == Ty::Never {
                    self.discard(&value);
                    self.declare(&name.ident.to_string(), Local { ty: known, code: String::new(), mutable });
                    return Ok(());
                }
                let code = self.name(&name.ident.to_string());
                let ty = self.mark_type(&value.ty, span);
                let _ = write!(self.out, "{}{ty} {code} = {}; ", if mutable { "" } else { "const " }, value.code);
                self.declare(&name.ident.to_string(), Local { ty: value.ty, code, mutable });
                Ok(())
            }
            Pat::Tuple(tuple) => {
                let parts: Vec<Ty> = tuple.elems.iter().map(|_| self.types.fresh(Kind::Any)).collect();
                if !(2..=4).contains(&parts.len()) {
                    return Err(Error::new(tuple.span(), "tuples have two to four parts here"));
                }
                self.coerce(&value, &Ty::Tuple(parts.clone()), span)?;
                let value = self.spill(value, span);
                for (n, (pat, ty)) in tuple.elems.iter().zip(parts).enumerate() {
                    let part = Value { ty, code: format!("{}.m{n}", value.code), stable: true };
                    self.bind(pat, part, span)?;
                }
                Ok(())
            }
            other => Err(Error::new(other.span(), "a `let` here has a name, or a tuple of names")),
        }
    }
}
