//! Places: what can be read and written. An index is checked wherever it is used: a read out of range gives zero, a write is left out, and
//! both are reported. So a place is C++ that names it, and the checks under which it is there.

use crate::body::{Body, Local, Value};
use crate::expr::member_name;
use crate::types::{Kind, Prim, Ty};
use proc_macro2::Span;
use quote::ToTokens;
use std::fmt::Write;
use syn::spanned::Spanned;
use syn::{Error, Expr, Pat, Result, UnOp};

pub struct Place {
    pub ty: Ty,
    pub code: String,
    pub checks: Vec<String>,
    pub writable: bool,
    /// Nobody writes there.
    pub stable: bool,
    pub shared: bool,
}

impl Place {
    fn new(ty: Ty, code: String) -> Self {
        Self { ty, code, checks: Vec::new(), writable: false, stable: true, shared: false }
    }

    /// The condition under which the place is there.
    pub fn condition(&self) -> String {
        self.checks.join(" && ")
    }
}

impl Body<'_> {
    /// The place that an expression names, if it names one.
    pub fn place(&mut self, expr: &Expr) -> Result<Option<Place>> {
        let span = expr.span();
        match expr {
            Expr::Paren(inner) => self.place(&inner.expr),
            Expr::Group(inner) => self.place(&inner.expr),
            Expr::Path(path) => {
                let Some(local) = path.path.get_ident().and_then(|name| self.local(&name.to_string())).cloned() else {
                    return Ok(None);
                };
                Ok(Some(self.local_place(local)))
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => {
                let is_reference = match unary.expr.as_ref() {
                    Expr::Path(path) => path.path.get_ident().and_then(|name| self.local(&name.to_string())),
                    _ => None,
                };
                if !is_reference.is_some_and(|local| matches!(local.ty, Ty::Ref { .. })) {
                    return Err(Error::new(span, "`*` is for a parameter of the type `&T` or `&mut T`"));
                }
                self.place(&unary.expr)
            }
            Expr::Field(field) => {
                let base = self.base(&field.base)?;
                let name = member_name(&field.member);
                let known = self.types.shallow(&base.ty);
                let (ty, code) = match &known {
                    Ty::Struct(of) => {
                        let fields = self.fields(of)?;
                        let Some((_, ty)) = fields.into_iter().find(|(field, _)| *field == name) else {
                            return Err(Error::new(field.member.span(), format!("`{of}` has no field `{name}`")));
                        };
                        (ty, format!("{}.f_{name}", base.code))
                    }
                    Ty::Tuple(parts) => {
                        let Some(ty) = name.parse::<usize>().ok().and_then(|n| parts.get(n)) else {
                            return Err(Error::new(
                                field.member.span(),
                                format!("`{}` has no part `{name}`", self.types.known(&known)),
                            ));
                        };
                        (ty.clone(), format!("{}.m{name}", base.code))
                    }
                    Ty::Var(_) => {
                        return Err(Error::new(
                            field.base.span(),
                            "the type of this is not known yet: write it down where it gets its name",
                        ))
                    }
                    other => return Err(Error::new(field.member.span(), format!("`{other}` has no fields"))),
                };
                Ok(Some(Place { ty, code, ..base }))
            }
            Expr::Index(index) => {
                if let Expr::Range(range) = &*index.index {
                    return Err(Error::new(range.span(), "a part of a slice cannot be named: index with an offset, or pass a view of the part from the host"));
                }
                let base = self.base(&index.expr)?;
                let value = self.expr(&index.index)?;
                self.index(base, value, &index.expr, index.index.span()).map(Some)
            }
            _ => Ok(None),
        }
    }

    pub fn local_place(&mut self, local: Local) -> Place {
        let mut place = Place::new(self.types.shallow(&local.ty), local.code);
        place.writable = local.mutable;
        place.stable = !local.mutable;
        if let Ty::Ref { of, writable } = place.ty {
            (place.ty, place.writable, place.stable) = (self.types.shallow(&of), writable, false);
        }
        if let Ty::Shared(of) = place.ty {
            (place.ty, place.shared, place.stable) = (*of, true, false);
        }
        place
    }

    /// What is indexed or has fields: a place, or a value that gets a temporary.
    pub fn base(&mut self, expr: &Expr) -> Result<Place> {
        if let Some(place) = self.place(expr)? {
            return Ok(place);
        }
        let value = self.expr(expr)?;
        Ok(self.value_place(value, expr.span()))
    }

    /// A temporary for a value.
    pub fn value_place(&mut self, value: Value, span: Span) -> Place {
        let value = self.spill(Value { stable: false, ..value }, span);
        Place::new(self.types.shallow(&value.ty), value.code)
    }

    /// The element of a place.
    pub fn index(&mut self, base: Place, index: Value, named: &Expr, span: Span) -> Result<Place> {
        if self.types.try_index(&index.ty).is_err() {
            return Err(Error::new(
                span,
                format!("an index is a usize, not `{}`: convert with `as usize`", self.types.known(&index.ty)),
            ));
        }
        let known = self.types.shallow(&base.ty);
        let text: String = named.to_token_stream().to_string().replace(' ', "");
        let (ty, len, stable) = match known {
            Ty::Slice { of, writable } => {
                let place = Place { writable, stable: false, ..base };
                let len = format!("{}.len", place.code);
                return Ok(self.checked(place, *of, index, len, &text, span));
            }
            Ty::Array(of, len) => (*of, len, base.stable),
            Ty::Var(_) => {
                return Err(Error::new(
                    named.span(),
                    "the type of this is not known yet: write it down where it gets its name",
                ))
            }
            other => return Err(Error::new(named.span(), format!("`{other}` cannot be indexed"))),
        };
        let len = format!("rs::u64({len})");
        Ok(self.checked(Place { stable, ..base }, ty, index, len, &text, span))
    }

    fn checked(&mut self, base: Place, ty: Ty, index: Value, len: String, named: &str, span: Span) -> Place {
        let index = self.spill(index, span);
        let site = self.site(span, format!("`{named}`"));
        let mut checks = base.checks;
        checks.push(format!("rs::inside({}, {len}, cx, {site})", index.code));
        Place { ty, code: format!("{}.data[{}]", base.code, index.code), checks, ..base }
    }

    /// What is there now.
    pub fn load(&mut self, place: Place, span: Span) -> Result<Value> {
        if let Ty::Slice { .. } = place.ty {
            return Ok(Value { ty: place.ty, code: place.code, stable: true });
        }
        if place.checks.is_empty() {
            return Ok(Value { ty: place.ty, code: place.code, stable: place.stable });
        }
        let zero = self.mark_type(&place.ty, span);
        let code = format!("({}) ? {zero}({}) : {zero}{{}}", place.condition(), place.code);
        Ok(self.spill(Value { ty: place.ty, code, stable: false }, span))
    }

    pub fn store(&mut self, place: &Place, code: &str, span: Span) -> Result<()> {
        if !place.writable {
            return Err(Error::new(span, "this cannot be written: it needs `mut`, or `&mut GlobalMut<T>` for a slice"));
        }
        if let Ty::Slice { .. } = place.ty {
            return Err(Error::new(span, "a slice stays what it is: its elements can be written"));
        }
        if place.checks.is_empty() {
            let _ = write!(self.out, "{} = {code}; ", place.code);
        } else {
            let _ = write!(self.out, "if ({}) {} = {code}; ", place.condition(), place.code);
        }
        Ok(())
    }

    /// `let mut tile = Shared::<[f32; 256]>::new();`, if it is that.
    pub fn shared_memory(&mut self, pat: &Pat, init: &Expr, written: Option<&Ty>) -> Result<Option<()>> {
        let Expr::Call(call) = init else { return Ok(None) };
        let Expr::Path(path) = &*call.func else { return Ok(None) };
        let segments: Vec<&syn::PathSegment> = path.path.segments.iter().collect();
        let [.., owner, new] = &segments[..] else { return Ok(None) };
        if owner.ident != "Shared" || new.ident != "new" {
            return Ok(None);
        }
        let span = init.span();
        if !self.function.kernel {
            return Err(Error::new(span, "shared memory is made in the kernel: pass it on as `&mut Shared<..>`"));
        }
        if !self.frames.is_empty() {
            return Err(Error::new(span, "shared memory is there once for a block: make it before the loop"));
        }
        let Pat::Ident(name) = pat else { return Err(Error::new(pat.span(), "give shared memory a name")) };
        let written = match &owner.arguments {
            syn::PathArguments::None => written.cloned(),
            _ => {
                let mut path = path.path.clone();
                path.segments.pop();
                // What stood before the last name ends in `::` still.
                path.segments = path.segments.into_iter().collect();
                Some(self.ty(&syn::Type::Path(syn::TypePath { qself: None, path }))?)
            }
        };
        let Some(ty @ Ty::Shared(_)) = written else {
            return Err(Error::new(span, "say what it holds: `Shared::<[f32; 256]>::new()`"));
        };
        let code = self.name(&name.ident.to_string());
        let cpp = self.mark_type(&ty, span);
        let _ = write!(self.out, "__shared__ {cpp} {code}; ");
        self.declare(&name.ident.to_string(), Local { ty, code, mutable: name.mutability.is_some() });
        Ok(Some(()))
    }
}

impl crate::types::Types {
    fn try_index(&mut self, ty: &Ty) -> Result<()> {
        match self.kind(ty) {
            Some(Kind::Float) => Err(Error::new(Span::call_site(), "")),
            _ => self.unify(&Prim::Usize.into(), ty, Span::call_site()),
        }
    }
}
