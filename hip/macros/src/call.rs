//! Calls: of device functions, which are translated for the types they are called with, and of what the prelude `hip::kernel` offers.

use crate::body::{Body, Class, Value};
use crate::prelude::{Of, ATOMICS, METHODS, PLACES};
use crate::types::{Kind, Prim, Ty};
use proc_macro2::Span;
use std::collections::HashMap;
use syn::spanned::Spanned;
use syn::{Error, Expr, Result};

fn count(call: &str, expected: usize, given: usize, span: Span) -> Result<()> {
    if expected == given {
        return Ok(());
    }
    Err(Error::new(
        span,
        format!("`{call}` takes {expected} argument{}, not {given}", if expected == 1 { "" } else { "s" }),
    ))
}

impl Body<'_> {
    pub fn call(&mut self, call: &syn::ExprCall) -> Result<Value> {
        let span = call.span();
        let Expr::Path(path) = &*call.func else {
            return Err(Error::new(call.func.span(), "only functions can be called, by their name"));
        };
        let segments: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let name = segments[segments.len() - 1].as_str();
        if let Some(owner) = &path.qself {
            let ty = self.ty(&owner.ty)?;
            let Ty::Prim(prim) = ty else {
                return Err(Error::new(span, format!("kernels do not know functions of `{ty}`")));
            };
            return self.associated_call(prim, name, call);
        }
        if let [.., owner, _] = &segments[..] {
            if owner == "Shared" {
                return Err(Error::new(
                    span,
                    "shared memory needs a `let` of its own: `let mut tile = Shared::<[f32; 256]>::new();`",
                ));
            }
            if let Some(prim) = self.prim_named(owner) {
                return self.associated_call(prim, name, call);
            }
        }
        if let Some(at) = self.unit.function(name) {
            return self.device_call(at, path, call);
        }
        if self.unit.others.iter().any(|other| other == name) {
            return Err(Error::new(
                call.func.span(),
                format!("`{name}` is a function of the host: mark it `#[device]` to call it from a kernel"),
            ));
        }
        self.intrinsic(name, call)
    }

    fn intrinsic(&mut self, name: &str, call: &syn::ExprCall) -> Result<Value> {
        let (span, given) = (call.span(), call.args.len());
        if let Some((_, code)) = PLACES.iter().find(|(known, _)| *known == name) {
            count(name, 0, given, span)?;
            let ty = if name == "active_lanes" { Prim::U64 } else { Prim::Usize };
            let value =
                Value::new(ty, format!("{}({code})", if name == "active_lanes" { "rs::u64" } else { "rs::usize" }));
            return Ok(if name == "active_lanes" { self.spill(value, span) } else { Value { stable: true, ..value } });
        }
        if let Some(code) = match name {
            "barrier" => Some("__syncthreads()"),
            "fence" => Some("__threadfence()"),
            "block_fence" => Some("__threadfence_block()"),
            _ => None,
        } {
            count(name, 0, given, span)?;
            self.out.push_str(code);
            self.out.push_str("; ");
            return Ok(Value::unit());
        }
        let shuffle = match name {
            "shuffle" => Some("__shfl"),
            "shuffle_xor" => Some("__shfl_xor"),
            "shuffle_up" => Some("__shfl_up"),
            "shuffle_down" => Some("__shfl_down"),
            _ => None,
        };
        if let Some(function) = shuffle {
            count(name, 2, given, span)?;
            let values = self.exprs(&call.args)?;
            self.coerce(&values[1], &Prim::Usize.into(), call.args[1].span())?;
            self.demand(&values[0].ty, Class::Number, &format!("`{name}`"), call.args[0].span());
            let ty = self.mark_type(&values[0].ty, span);
            // Written out here: the embedded device tells wave operations apart by where they stand in the text.
            let code =
                format!("rs::unpack<{ty}>({function}(rs::pack<{ty}>({}), (int){}))", values[0].code, values[1].code);
            return Ok(self.spill(Value { ty: values[0].ty.clone(), code, stable: false }, span));
        }
        let vote = match name {
            "ballot" => Some((Prim::U64, "rs::u64(__ballot(", "))")),
            "any" => Some((Prim::Bool, "(__ballot(", ") != 0)")),
            "all" => Some((Prim::Bool, "(__ballot(!", ") == 0)")),
            _ => None,
        };
        if let Some((ty, before, behind)) = vote {
            count(name, 1, given, span)?;
            let values = self.exprs(&call.args)?;
            self.coerce(&values[0], &Prim::Bool.into(), call.args[0].span())?;
            return Ok(self.spill(Value::new(ty, format!("{before}{}{behind}", values[0].code)), span));
        }
        Err(Error::new(
            call.func.span(),
            format!(
                "kernels do not know the function `{name}`: mark it `#[device]` in the same `#[hip::kernels]` module"
            ),
        ))
    }

    /// `f32::from_bits(x)`, `f16::from_f32(x)`, `f32::max(a, b)`.
    fn associated_call(&mut self, prim: Prim, name: &str, call: &syn::ExprCall) -> Result<Value> {
        let span = call.span();
        let from = match name {
            "from_bits" if prim.is_float() => Some(Of::Bits.ty(prim)),
            "from_f32" => Some(Prim::F32.into()),
            _ => None,
        };
        let ty = format!("rs::{}", prim.name());
        if let Some(from) = from {
            count(name, 1, call.args.len(), span)?;
            let values = self.exprs(&call.args)?;
            self.coerce(&values[0], &from, call.args[0].span())?;
            let code = if name == "from_bits" {
                format!("rs::from_bits<{ty}>({})", values[0].code)
            } else {
                format!("rs::cast<{ty}>({})", values[0].code)
            };
            return Ok(Value { ty: prim.into(), code, stable: values[0].stable });
        }
        if name == "from" {
            count(name, 1, call.args.len(), span)?;
            let values = self.exprs(&call.args)?;
            let Ty::Prim(source) = self.types.shallow(&values[0].ty) else {
                return Err(Error::new(
                    call.args[0].span(),
                    "the type of this is not known yet: write it down where it gets its name",
                ));
            };
            if !converts(source, prim) {
                return Err(Error::new(
                    span,
                    format!("not every {} is a {}: convert with `as`", source.name(), prim.name()),
                ));
            }
            return Ok(Value {
                ty: prim.into(),
                code: format!("rs::cast<{ty}>({})", values[0].code),
                stable: values[0].stable,
            });
        }
        let values = self.exprs(&call.args)?;
        let Some(receiver) = values.first() else {
            return Err(Error::new(span, format!("kernels do not know `{}::{name}`", prim.name())));
        };
        self.coerce(receiver, &prim.into(), call.args[0].span())?;
        let spans: Vec<Span> = call.args.iter().map(|arg| arg.span()).collect();
        self.number_method(prim, name, &values, &spans, span)
    }

    /// The first value's method.
    fn number_method(&mut self, prim: Prim, name: &str, values: &[Value], spans: &[Span], span: Span) -> Result<Value> {
        let known = METHODS.iter().find(|(known, on, _, _)| *known == name && on.has(prim));
        let Some((_, _, takes, gives)) = known else {
            let elsewhere = METHODS.iter().any(|(known, _, _, _)| *known == name);
            let half = matches!(prim, Prim::F16 | Prim::Bf16);
            let hint = match (elsewhere, half) {
                (true, true) => ": compute in f32, with `x.to_f32()` and `from_f32`".to_owned(),
                _ if name.starts_with("checked_") || name.starts_with("overflowing_") => {
                    ": there is no `Option` here".to_owned()
                }
                _ => String::new(),
            };
            return Err(Error::new(span, format!("`{}` has no method `{name}` in kernels{hint}", prim.name())));
        };
        count(name, takes.len(), values.len() - 1, span)?;
        for ((value, takes), span) in values[1..].iter().zip(*takes).zip(&spans[1..]) {
            self.coerce(value, &takes.ty(prim), *span)?;
        }
        let list: Vec<&str> = values.iter().map(|value| value.code.as_str()).collect();
        let stable = values.iter().all(|value| value.stable);
        let code = format!("rs::{name}<rs::{}>({})", prim.name(), list.join(", "));
        Ok(Value { ty: gives.ty(prim), code, stable })
    }

    pub fn method_call(&mut self, call: &syn::ExprMethodCall) -> Result<Value> {
        let span = call.span();
        let name = call.method.to_string();
        if let Some(place) = self.place(&call.receiver)? {
            match self.types.shallow(&place.ty) {
                Ty::Slice { .. } | Ty::Array(..) => return self.memory_method(place, &name, call),
                _ => {
                    let receiver = self.load(place, call.receiver.span())?;
                    return self.value_method(receiver, &name, call);
                }
            }
        }
        let receiver = self.expr(&call.receiver)?;
        match self.types.shallow(&receiver.ty) {
            Ty::Array(..) => {
                let place = self.value_place(receiver, call.receiver.span());
                self.memory_method(place, &name, call)
            }
            Ty::Prim(_) | Ty::Var(_) => self.value_method(receiver, &name, call),
            other => Err(Error::new(span, format!("`{}` has no method `{name}` in kernels", self.types.known(&other)))),
        }
    }

    fn value_method(&mut self, receiver: Value, name: &str, call: &syn::ExprMethodCall) -> Result<Value> {
        let span = call.method.span();
        let prim = match self.types.shallow(&receiver.ty) {
            Ty::Prim(prim) => prim,
            Ty::Var(_) => {
                return Err(Error::new(
                    call.receiver.span(),
                    format!("the type of this is not known yet, so neither is its `{name}`: write it down, as in `1.0f32` or `let x: f32 = ..`"),
                ))
            }
            other => return Err(Error::new(span, format!("`{}` has no method `{name}` in kernels", self.types.known(&other)))),
        };
        let at = self.out.len();
        let rest = self.exprs(&call.args)?;
        let receiver = self.settle(receiver, at, call.receiver.span());
        let values: Vec<Value> = std::iter::once(receiver).chain(rest).collect();
        let spans: Vec<Span> =
            std::iter::once(call.receiver.span()).chain(call.args.iter().map(|arg| arg.span())).collect();
        self.number_method(prim, name, &values, &spans, span)
    }

    /// Methods of slices, arrays and shared memory.
    fn memory_method(&mut self, place: crate::place::Place, name: &str, call: &syn::ExprMethodCall) -> Result<Value> {
        let span = call.method.span();
        let (of, len, slice) = match self.types.shallow(&place.ty) {
            Ty::Slice { of, writable } => (*of, format!("{}.len", place.code), Some(writable)),
            Ty::Array(of, len) => (*of, format!("rs::u64({len})"), None),
            other => return Err(Error::new(span, format!("`{other}` has no method `{name}` in kernels"))),
        };
        let given = call.args.len();
        match (name, slice) {
            ("len", _) => {
                count(name, 0, given, span)?;
                return Ok(Value { ty: Prim::Usize.into(), code: len, stable: true });
            }
            ("is_empty", _) => {
                count(name, 0, given, span)?;
                return Ok(Value { ty: Prim::Bool.into(), code: format!("({len} == 0)"), stable: true });
            }
            ("get", Some(true)) => {
                count(name, 1, given, span)?;
                let values = self.exprs(&call.args)?;
                let place = self.index(place, values[0].clone(), &call.receiver, call.args[0].span())?;
                return self.load(place, span);
            }
            ("set", Some(true)) => {
                count(name, 2, given, span)?;
                let values = self.exprs(&call.args)?;
                let value = self.spill(values[1].clone(), call.args[1].span());
                let place = self.index(place, values[0].clone(), &call.receiver, call.args[0].span())?;
                self.coerce(&value, &place.ty, call.args[1].span())?;
                self.store(&place, &value.code, span)?;
                return Ok(Value::unit());
            }
            ("get", Some(false)) => return Err(Error::new(
                span,
                "there is no `Option` here: index with `x[i]`, which gives zero and reports when `i` is out of range",
            )),
            ("iter" | "iter_mut" | "chunks" | "windows", _) => {
                return Err(Error::new(span, "kernels have no iterators: loop over `0..x.len()`"))
            }
            _ => {}
        }
        let Some((_, takes, floats)) = ATOMICS.iter().find(|(known, _, _)| *known == name) else {
            return Err(Error::new(
                span,
                format!("`{}` has no method `{name}` in kernels", self.types.known(&place.ty)),
            ));
        };
        if slice.is_none() && !place.shared {
            return Err(Error::new(span, "an array belongs to one thread, which needs nothing atomic"));
        }
        count(name, takes + 1, given, span)?;
        let values = self.exprs(&call.args)?;
        let mut codes = Vec::new();
        for (value, arg) in values[1..].iter().zip(call.args.iter().skip(1)) {
            self.coerce(value, &of, arg.span())?;
            codes.push(self.spill(value.clone(), arg.span()).code);
        }
        match self.types.shallow(&of) {
            Ty::Prim(prim) if prim.bits() >= 32 && (prim.is_int() || (*floats && prim.is_wide_float())) => {}
            other => {
                return Err(Error::new(
                    span,
                    format!(
                        "`{name}` is not there for `{other}`: it takes integers of 32 and 64 bits{}",
                        if *floats { ", f32 and f64" } else { "" }
                    ),
                ))
            }
        }
        let place = self.index(place, values[0].clone(), &call.receiver, call.args[0].span())?;
        if !place.writable {
            return Err(Error::new(span, "this cannot be written: it needs `mut`, or `&mut GlobalMut<T>` for a slice"));
        }
        let ty = self.mark_type(&of, span);
        let code =
            format!("({}) ? rs::{name}<{ty}>(&{}, {}) : {ty}{{}}", place.condition(), place.code, codes.join(", "));
        Ok(self.spill(Value { ty: of, code, stable: false }, span))
    }

    fn device_call(&mut self, at: usize, path: &syn::ExprPath, call: &syn::ExprCall) -> Result<Value> {
        let span = call.span();
        let function = &self.unit.functions[at];
        let name = function.name.to_string();
        if function.kernel {
            return Err(Error::new(
                span,
                format!("`{name}` is a kernel, which the host launches: mark what both need `#[device]`"),
            ));
        }
        count(&name, function.params.len(), call.args.len(), span)?;
        let vars: Vec<Ty> = function.generics.iter().map(|_| self.types.fresh(Kind::Any)).collect();
        let generics: HashMap<String, Ty> =
            function.generics.iter().map(|name| name.to_string()).zip(vars.iter().cloned()).collect();
        if let Some(last) = path.path.segments.last() {
            if let syn::PathArguments::AngleBracketed(arguments) = &last.arguments {
                count(&name, vars.len(), arguments.args.len(), last.span())?;
                for (argument, var) in arguments.args.iter().zip(&vars) {
                    let syn::GenericArgument::Type(ty) = argument else {
                        return Err(Error::new(argument.span(), "this is no type"));
                    };
                    let ty = self.ty(ty)?;
                    self.types.unify(var, &ty, argument.span())?;
                }
            }
        }
        let (params, ret) = self.signature(at, generics)?;
        let mut values: Vec<Value> = Vec::new();
        for ((arg, ty), param) in call.args.iter().zip(&params).zip(&function.params) {
            let start = self.out.len();
            let value = self.argument(arg, ty, &param.name.to_string())?;
            if self.out.len() > start {
                let behind = self.out.split_off(start);
                for earlier in &mut values {
                    *earlier = self.spill(earlier.clone(), span);
                }
                self.out.push_str(&behind);
            }
            values.push(value);
        }
        let name = self.mark_call(at, vars, span);
        let list: Vec<String> = values.into_iter().map(|value| value.code).chain(["cx".to_owned()]).collect();
        let code = format!("{name}({})", list.join(", "));
        match ret {
            Ty::Unit | Ty::Never => {
                self.out.push_str(&code);
                self.out.push_str("; ");
                Ok(Value { ty: ret, ..Value::unit() })
            }
            ty => Ok(self.spill(Value { ty, code, stable: false }, span)),
        }
    }

    fn argument(&mut self, arg: &Expr, ty: &Ty, name: &str) -> Result<Value> {
        let span = arg.span();
        let reference = |writable: bool| if writable { "`&mut`" } else { "`&`" };
        let (target, mutable) = match arg {
            Expr::Reference(reference) => (&*reference.expr, Some(reference.mutability.is_some())),
            other => (other, None),
        };
        match ty {
            Ty::Ref { of, writable } => {
                let Some(place) = self.place(target)? else {
                    return Err(Error::new(
                        span,
                        format!("`{name}` is a reference: give it {} and a variable", reference(*writable)),
                    ));
                };
                let passed_on = mutable.is_none() && matches!(target, Expr::Path(_)) && self.is_reference(target);
                if mutable != Some(*writable) && !passed_on {
                    return Err(Error::new(
                        span,
                        format!("`{name}` is a reference: write {} before it", reference(*writable)),
                    ));
                }
                if !place.checks.is_empty() {
                    return Err(Error::new(
                        span,
                        "a reference to an element is not known here: pass the memory and the index",
                    ));
                }
                if *writable && !place.writable {
                    return Err(Error::new(span, "this cannot be written: it needs `mut`"));
                }
                let given = if place.shared { Ty::Shared(Box::new(place.ty.clone())) } else { place.ty.clone() };
                self.types.unify(of, &given, span)?;
                Ok(Value { ty: ty.clone(), code: place.code, stable: true })
            }
            Ty::Slice { of, writable } => {
                if let Some(place) = self.place(target)? {
                    if let (Ty::Array(given, len), false) = (self.types.shallow(&place.ty), *writable) {
                        if mutable != Some(false) || place.shared || !place.checks.is_empty() {
                            return Err(Error::new(span, format!("`{name}` is a slice: give it `&` and an array, or a slice of the kernel's parameters")));
                        }
                        self.types.unify(of, &given, span)?;
                        let cpp = self.mark_type(ty, span);
                        return Ok(Value {
                            ty: ty.clone(),
                            code: format!("{cpp}{{{}.data, {len}}}", place.code),
                            stable: true,
                        });
                    }
                }
                if mutable.is_some() {
                    return Err(Error::new(span, format!("`{name}` is a slice already: pass it by its name")));
                }
                let value = self.expr(arg)?;
                self.coerce(&value, ty, span)?;
                Ok(value)
            }
            _ => {
                if mutable.is_some() {
                    return Err(Error::new(span, format!("`{name}` takes a value, not a reference")));
                }
                let value = self.expr(arg)?;
                self.coerce(&value, ty, span)?;
                Ok(value)
            }
        }
    }

    fn is_reference(&self, expr: &Expr) -> bool {
        let Expr::Path(path) = expr else { return false };
        let local = path.path.get_ident().and_then(|name| self.local(&name.to_string()));
        local.is_some_and(|local| matches!(local.ty, Ty::Ref { .. }))
    }
}

/// Whether `To::from` takes the type: every value of it has to fit.
fn converts(from: Prim, to: Prim) -> bool {
    let (exact, target) = (from.bits(), to.bits());
    let size = |prim| matches!(prim, Prim::Usize | Prim::Isize);
    if from == to {
        return true;
    }
    match (from, to) {
        (Prim::Bool, to) => to.is_int(),
        (_, Prim::Bool) => false,
        (Prim::F16 | Prim::Bf16, to) => to.is_wide_float(),
        (Prim::F32, to) => to == Prim::F64,
        (Prim::F64, _) | (_, Prim::F16 | Prim::Bf16) => false,
        (from, to) if to.is_float() => exact * 2 <= target && !size(from),
        (from, Prim::Usize) => matches!(from, Prim::U8 | Prim::U16),
        (from, Prim::Isize) => matches!(from, Prim::U8 | Prim::I8 | Prim::I16),
        (from, _) if size(from) => false,
        (from, to) => exact < target && (!from.is_signed() || to.is_signed()),
    }
}
