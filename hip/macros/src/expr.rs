//! Expressions: literals, names, operators, casts, and values put together. Operators become calls of templates of the header `hip_rust.h`,
//! which give them Rust's meaning; what C++ would leave undefined never reaches it.

use crate::body::{Body, Class, Value};
use crate::types::{Kind, Prim, Ty};
use std::fmt::Write;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{BinOp, Error, Expr, Lit, Result, UnOp};

/// What every macro gets for an answer.
pub fn no_macro(call: &syn::Macro) -> Error {
    let name = call.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
    let instead = match name.as_str() {
        "assert" | "assert_eq" | "assert_ne" | "debug_assert" | "panic" | "unreachable" | "todo" => {
            "a thread cannot panic; write what went wrong into memory"
        }
        "println" | "print" | "eprintln" | "dbg" => {
            "there is nothing to print to; write into memory and look at it on the host"
        }
        "vec" | "format" => "there is no allocator; use an array or shared memory",
        _ => "write out what it stands for",
    };
    Error::new(call.path.span(), format!("kernels cannot call the macro `{name}!`: {instead}"))
}

/// The function of `hip_rust.h` for an operator, and of which types it is.
fn operator(op: &BinOp) -> Option<(&'static str, Class, &'static str)> {
    Some(match op {
        BinOp::Add(_) | BinOp::AddAssign(_) => ("add", Class::Number, "`+`"),
        BinOp::Sub(_) | BinOp::SubAssign(_) => ("sub", Class::Number, "`-`"),
        BinOp::Mul(_) | BinOp::MulAssign(_) => ("mul", Class::Number, "`*`"),
        BinOp::Div(_) | BinOp::DivAssign(_) => ("div", Class::Number, "`/`"),
        BinOp::Rem(_) | BinOp::RemAssign(_) => ("rem", Class::Number, "`%`"),
        BinOp::BitAnd(_) | BinOp::BitAndAssign(_) => ("bit_and", Class::Ordered, "`&`"),
        BinOp::BitOr(_) | BinOp::BitOrAssign(_) => ("bit_or", Class::Ordered, "`|`"),
        BinOp::BitXor(_) | BinOp::BitXorAssign(_) => ("bit_xor", Class::Ordered, "`^`"),
        BinOp::Shl(_) | BinOp::ShlAssign(_) => ("shl", Class::Int, "`<<`"),
        BinOp::Shr(_) | BinOp::ShrAssign(_) => ("shr", Class::Int, "`>>`"),
        _ => return None,
    })
}

fn is_assignment(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

impl Body<'_> {
    pub fn expr(&mut self, expr: &Expr) -> Result<Value> {
        let span = expr.span();
        match expr {
            Expr::Paren(inner) => self.expr(&inner.expr),
            Expr::Group(inner) => self.expr(&inner.expr),
            Expr::Lit(lit) => self.literal(&lit.lit),
            Expr::Path(path) => self.named(path),
            Expr::Unary(unary) => self.unary(unary),
            Expr::Binary(binary) if is_assignment(&binary.op) => self.assign_with(binary),
            Expr::Binary(binary) => self.binary(binary),
            Expr::Assign(assign) => self.assign(assign),
            Expr::Cast(cast) => self.cast(cast),
            Expr::Index(_) | Expr::Field(_) => match self.place(expr)? {
                Some(place) => self.load(place, span),
                None => Err(Error::new(span, "this cannot be read")),
            },
            Expr::Array(array) => {
                let of = self.types.fresh(Kind::Any);
                let values = self.exprs(&array.elems)?;
                for (value, elem) in values.iter().zip(&array.elems) {
                    self.coerce(value, &of, elem.span())?;
                }
                if values.is_empty() {
                    return Err(Error::new(span, "an array has at least one element here"));
                }
                let ty = Ty::Array(Box::new(of), values.len());
                Ok(self.together(ty, &values, true, span))
            }
            Expr::Repeat(repeat) => {
                let len = self.length(&repeat.len)?;
                if len == 0 {
                    return Err(Error::new(repeat.len.span(), "an array has at least one element here"));
                }
                let value = self.expr(&repeat.expr)?;
                let ty = Ty::Array(Box::new(value.ty.clone()), len);
                let name = self.mark_type(&ty, span);
                Ok(Value::new(ty, format!("{name}::filled({})", value.code)))
            }
            Expr::Tuple(tuple) if tuple.elems.is_empty() => Ok(Value::unit()),
            Expr::Tuple(tuple) if (2..=4).contains(&tuple.elems.len()) => {
                let values = self.exprs(&tuple.elems)?;
                let ty = Ty::Tuple(values.iter().map(|value| value.ty.clone()).collect());
                Ok(self.together(ty, &values, false, span))
            }
            Expr::Struct(literal) => self.structure(literal),
            Expr::Call(call) => self.call(call),
            Expr::MethodCall(call) => self.method_call(call),
            Expr::Macro(call) => Err(no_macro(&call.mac)),
            Expr::Reference(_) => {
                Err(Error::new(span, "a reference can only be taken for an argument of a device function"))
            }
            Expr::Unsafe(block) => Err(Error::new(
                block.unsafe_token.span,
                "kernels have nothing that needs `unsafe`: every access is checked",
            )),
            Expr::Closure(_) => Err(Error::new(span, "kernels have no closures: write a device function")),
            Expr::Try(_) => Err(Error::new(span, "kernels have no `?`: there is nobody to return an error to")),
            Expr::Await(_) | Expr::Async(_) => Err(Error::new(span, "kernels have no async code")),
            Expr::Range(_) => Err(Error::new(span, "a range can only be what a `for` loop runs over, or a pattern")),
            Expr::Let(_) => Err(Error::new(span, "kernels have no `if let` and `while let`: there are no enums")),
            _ => self.flow(expr),
        }
    }

    fn literal(&mut self, lit: &Lit) -> Result<Value> {
        let span = lit.span();
        let stable = |ty, code| Ok(Value { ty, code, stable: true });
        match lit {
            Lit::Bool(lit) => stable(Prim::Bool.into(), lit.value.to_string()),
            Lit::Int(int) if matches!(int.suffix(), "f32" | "f64") => {
                self.float(int.base10_digits().to_owned(), int.suffix(), span)
            }
            Lit::Int(int) => {
                let ty = match int.suffix() {
                    "" => self.types.fresh(Kind::Int),
                    suffix => match Prim::named(suffix).filter(|prim| prim.is_int()) {
                        Some(prim) => prim.into(),
                        None => {
                            return Err(Error::new(
                                span,
                                format!("kernels do not know integers of the type `{suffix}`"),
                            ))
                        }
                    },
                };
                // A pattern's literal has its minus sign inside.
                let negative = int.base10_digits().starts_with('-');
                let digits = int.base10_digits().trim_start_matches('-');
                let value = digits.parse::<u128>().map_err(|_| Error::new(span, "this is no integer of kernels"))?;
                if value > u128::from(u64::MAX) {
                    return Err(Error::new(span, format!("{value} is larger than any integer of kernels")));
                }
                let mut code = self.mark_int(value, &ty, span);
                if negative {
                    let name = self.mark_type(&ty, span);
                    code = format!("rs::neg<{name}>({code})");
                }
                stable(ty, code)
            }
            Lit::Byte(byte) => {
                let code = self.mark_int(byte.value().into(), &Prim::U8.into(), span);
                stable(Prim::U8.into(), code)
            }
            Lit::Float(float) => self.float(float.base10_digits().to_owned(), float.suffix(), span),
            _ => Err(Error::new(span, "kernels have no text: their literals are numbers, `true` and `false`")),
        }
    }

    fn float(&mut self, digits: String, suffix: &str, span: proc_macro2::Span) -> Result<Value> {
        let ty = match Prim::named(suffix) {
            Some(prim) => prim.into(),
            None => self.types.fresh(Kind::Float),
        };
        let code = self.mark_float(digits, &ty, span);
        Ok(Value { ty, code, stable: true })
    }

    /// Several values as one: an array, a tuple.
    fn together(&mut self, ty: Ty, values: &[Value], array: bool, span: proc_macro2::Span) -> Value {
        let name = self.mark_type(&ty, span);
        let list: Vec<&str> = values.iter().map(|value| value.code.as_str()).collect();
        let list = list.join(", ");
        Value::new(ty, if array { format!("{name}{{{{{list}}}}}") } else { format!("{name}{{{list}}}") })
    }

    fn structure(&mut self, literal: &syn::ExprStruct) -> Result<Value> {
        let span = literal.span();
        if let Some(rest) = &literal.rest {
            return Err(Error::new(rest.span(), "name every field: `..` is not known here"));
        }
        let path = syn::Type::Path(syn::TypePath { qself: None, path: literal.path.clone() });
        let ty = self.ty(&path)?;
        let Ty::Struct(name) = &ty else {
            return Err(Error::new(span, format!("`{ty}` is no structure")));
        };
        let fields = self.fields(name)?;
        let values = self.exprs(literal.fields.iter().map(|field| &field.expr))?;
        let mut ordered = Vec::new();
        for (field, field_ty) in &fields {
            let given = literal.fields.iter().zip(&values).find(|(given, _)| member_name(&given.member) == *field);
            let Some((given, value)) = given else {
                return Err(Error::new(span, format!("the field `{field}` of `{name}` is missing")));
            };
            self.coerce(value, field_ty, given.span())?;
            ordered.push(value.clone());
        }
        if let Some(more) =
            literal.fields.iter().find(|given| !fields.iter().any(|(field, _)| *field == member_name(&given.member)))
        {
            return Err(Error::new(more.span(), format!("`{name}` has no field `{}`", member_name(&more.member))));
        }
        Ok(self.together(ty, &ordered, false, span))
    }

    fn named(&mut self, path: &syn::ExprPath) -> Result<Value> {
        let span = path.span();
        if let Some(owner) = &path.qself {
            let (name, ty) = (path.path.segments.last().map(|last| last.ident.to_string()), self.ty(&owner.ty)?);
            if let (Some(name), Ty::Prim(prim)) = (name, ty) {
                if let Some(value) = self.associated(prim, &name, false, span)? {
                    return Ok(value);
                }
            }
            return Err(Error::new(span, "kernels do not know this constant"));
        }
        let segments: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let [name] = &segments[..] {
            if let Some(local) = self.local(name).cloned() {
                if matches!(self.types.shallow(&local.ty), Ty::Unit) {
                    return Ok(Value::unit());
                }
                return Ok(Value { ty: local.ty, code: local.code, stable: !local.mutable });
            }
        }
        let last = &segments[segments.len() - 1];
        if let Some((ty, init)) = self.constant(last) {
            if self.inside_const.contains(last) {
                return Err(Error::new(span, format!("the constant `{last}` needs itself")));
            }
            self.inside_const.push(last.clone());
            let ty = self.ty(&ty)?;
            let value = self.expr(&init)?;
            self.coerce(&value, &ty, init.span())?;
            self.inside_const.pop();
            return Ok(Value { ty, code: format!("({})", value.code), stable: value.stable });
        }
        if segments.len() >= 2 {
            let consts = segments[segments.len() - 2] == "consts";
            let owner = segments.len().checked_sub(if consts { 3 } else { 2 }).map_or("", |at| segments[at].as_str());
            if let Some(prim) = self.prim_named(owner) {
                if let Some(value) = self.associated(prim, last, consts, span)? {
                    return Ok(value);
                }
            }
        }
        if segments.len() == 1 && self.unit.function(last).is_some() {
            return Err(Error::new(span, format!("`{last}` is a function: call it")));
        }
        Err(Error::new(
            span,
            format!("kernels do not know the name `{last}`: pass the value as a parameter, or define the constant in the same `#[hip::kernels]` module"),
        ))
    }

    /// `f32::MAX`, `T::ZERO`, `std::f32::consts::PI`.
    fn associated(&mut self, prim: Prim, name: &str, consts: bool, span: proc_macro2::Span) -> Result<Option<Value>> {
        let ty = Ty::Prim(prim);
        let stable = |code: String| Ok(Some(Value { ty: Ty::Prim(prim), code, stable: true }));
        if consts {
            let value = match name {
                "PI" => std::f64::consts::PI,
                "TAU" => std::f64::consts::TAU,
                "E" => std::f64::consts::E,
                "LN_2" => std::f64::consts::LN_2,
                "LN_10" => std::f64::consts::LN_10,
                "LOG2_E" => std::f64::consts::LOG2_E,
                "SQRT_2" => std::f64::consts::SQRT_2,
                "FRAC_1_SQRT_2" => std::f64::consts::FRAC_1_SQRT_2,
                "FRAC_2_SQRT_PI" => std::f64::consts::FRAC_2_SQRT_PI,
                "FRAC_PI_2" => std::f64::consts::FRAC_PI_2,
                "FRAC_PI_4" => std::f64::consts::FRAC_PI_4,
                _ => return Ok(None),
            };
            let code = self.mark_float(format!("{value:?}"), &ty, span);
            return stable(code);
        }
        if prim.is_int() {
            let code = match name {
                "MAX" => self.mark_int(prim.max(), &ty, span),
                "MIN" if prim.is_signed() => self.mark_int(prim.max() + 1, &ty, span),
                "MIN" | "ZERO" => self.mark_int(0, &ty, span),
                "ONE" => self.mark_int(1, &ty, span),
                "BITS" => {
                    let code = self.mark_int(prim.bits().into(), &Prim::U32.into(), span);
                    return Ok(Some(Value { ty: Prim::U32.into(), code, stable: true }));
                }
                _ => return Ok(None),
            };
            return stable(code);
        }
        let limits = ["MAX", "MIN", "INFINITY", "NEG_INFINITY", "NAN", "EPSILON", "ZERO", "ONE", "MIN_POSITIVE"];
        if prim.is_float() && limits.contains(&name) {
            return stable(format!("rs::Limits<rs::{}>::{}()", prim.name(), name.to_lowercase()));
        }
        Ok(None)
    }

    /// A number's type by its name, or by the name of a type parameter.
    pub fn prim_named(&mut self, name: &str) -> Option<Prim> {
        let ident = syn::parse_str::<syn::Type>(name).ok()?;
        match self.ty(&ident) {
            Ok(Ty::Prim(prim)) => Some(prim),
            _ => None,
        }
    }

    fn unary(&mut self, unary: &syn::ExprUnary) -> Result<Value> {
        let span = unary.span();
        match unary.op {
            UnOp::Deref(_) => match self.place(&Expr::Unary(unary.clone()))? {
                Some(place) => self.load(place, span),
                None => Err(Error::new(span, "this is no reference")),
            },
            UnOp::Neg(_) => {
                let value = self.expr(&unary.expr)?;
                self.demand(&value.ty, Class::Signed, "a minus sign", span);
                let ty = self.mark_type(&value.ty, span);
                Ok(Value { code: format!("rs::neg<{ty}>({})", value.code), ..value })
            }
            UnOp::Not(_) => {
                let value = self.expr(&unary.expr)?;
                self.demand_bits(&value.ty, "`!`", span);
                let ty = self.mark_type(&value.ty, span);
                Ok(Value { code: format!("rs::bit_not<{ty}>({})", value.code), ..value })
            }
            _ => Err(Error::new(span, "kernels do not know this operator")),
        }
    }

    /// Integers and bool have bits.
    fn demand_bits(&mut self, ty: &Ty, what: &str, span: proc_macro2::Span) {
        if self.types.shallow(ty) != Ty::Prim(Prim::Bool) {
            self.demand(ty, Class::Int, what, span);
        }
    }

    fn binary(&mut self, binary: &syn::ExprBinary) -> Result<Value> {
        if matches!(binary.op, BinOp::And(_) | BinOp::Or(_)) {
            return self.lazy(binary);
        }
        let values = self.exprs([&*binary.left, &*binary.right])?;
        let [left, right] = &values[..] else { return Err(Error::new(binary.span(), "an operator has two sides")) };
        if let Some((name, _, _)) = operator(&binary.op) {
            return self.operate(&binary.op, name, left, right, binary.span(), binary.right.span());
        }
        let sign = match binary.op {
            BinOp::Eq(_) => "==",
            BinOp::Ne(_) => "!=",
            BinOp::Lt(_) => "<",
            BinOp::Le(_) => "<=",
            BinOp::Gt(_) => ">",
            BinOp::Ge(_) => ">=",
            _ => return Err(Error::new(binary.op.span(), "kernels do not know this operator")),
        };
        self.coerce(right, &left.ty, binary.right.span())?;
        self.demand(&left.ty, Class::Ordered, &format!("`{sign}`"), binary.span());
        let code = format!("({} {sign} {})", left.code, right.code);
        Ok(Value { ty: Prim::Bool.into(), code, stable: left.stable && right.stable })
    }

    /// Both sides with an operator between them; which may report.
    fn operate(
        &mut self,
        op: &BinOp,
        name: &str,
        left: &Value,
        right: &Value,
        span: proc_macro2::Span,
        right_span: proc_macro2::Span,
    ) -> Result<Value> {
        let Some((_, class, what)) = operator(op) else {
            return Err(Error::new(span, "this is no operator of numbers"));
        };
        let shift = matches!(name, "shl" | "shr");
        if shift {
            self.demand(&right.ty, Class::Int, "the distance of a shift", right_span);
        } else {
            self.coerce(right, &left.ty, right_span)?;
        }
        match class {
            Class::Ordered => self.demand_bits(&left.ty, what, span),
            _ => self.demand(&left.ty, class, what, span),
        }
        let ty = self.mark_type(&left.ty, span);
        let code = if shift {
            let distance = self.mark_type(&right.ty, span);
            format!("rs::{name}<{ty}>({}, rs::cast<rs::u32>({distance}({})))", left.code, right.code)
        } else if matches!(name, "div" | "rem") && !self.is_float(&left.ty) {
            let site = self.site(span, "a division by zero");
            format!("rs::{name}<{ty}>({}, {}, cx, {site})", left.code, right.code)
        } else {
            format!("rs::{name}<{ty}>({}, {})", left.code, right.code)
        };
        Ok(Value { ty: left.ty.clone(), code, stable: left.stable && right.stable })
    }

    fn is_float(&self, ty: &Ty) -> bool {
        matches!(self.types.shallow(ty), Ty::Prim(prim) if prim.is_float()) || self.types.kind(ty) == Some(Kind::Float)
    }

    /// `&&` and `||`: the right side runs only if it has to.
    fn lazy(&mut self, binary: &syn::ExprBinary) -> Result<Value> {
        let and = matches!(binary.op, BinOp::And(_));
        let bool = Ty::Prim(Prim::Bool);
        let left = self.expr(&binary.left)?;
        self.coerce(&left, &bool, binary.left.span())?;
        let at = self.out.len();
        let right = self.expr(&binary.right)?;
        self.coerce(&right, &bool, binary.right.span())?;
        if right.ty == Ty::Never {
            return Err(Error::new(binary.right.span(), "the right side never has a value: write an `if`"));
        }
        let stable = left.stable && right.stable;
        if self.out.len() == at {
            let sign = if and { "&&" } else { "||" };
            return Ok(Value { ty: bool, code: format!("({} {sign} {})", left.code, right.code), stable });
        }
        let name = self.name("t");
        let not = if and { "" } else { "!" };
        self.out.insert_str(at, &format!("bool {name} = {}; if ({not}{name}) {{ ", left.code));
        let _ = write!(self.out, "{name} = {}; }} ", right.code);
        Ok(Value { ty: bool, code: name, stable: true })
    }

    fn assign(&mut self, assign: &syn::ExprAssign) -> Result<Value> {
        if matches!(*assign.left, Expr::Infer(_)) {
            let value = self.expr(&assign.right)?;
            self.discard(&value);
            return Ok(Value::unit());
        }
        let value = self.expr(&assign.right)?;
        if let Expr::Tuple(tuple) = &*assign.left {
            let parts: Vec<Ty> = tuple.elems.iter().map(|_| self.types.fresh(Kind::Any)).collect();
            self.coerce(&value, &Ty::Tuple(parts.clone()), assign.right.span())?;
            let value = self.spill(Value { stable: false, ..value }, assign.right.span());
            for (n, (target, ty)) in tuple.elems.iter().zip(parts).enumerate() {
                if !matches!(target, Expr::Infer(_)) {
                    let part = Value { ty, code: format!("{}.m{n}", value.code), stable: true };
                    self.assign_to(target, part)?;
                }
            }
            return Ok(Value::unit());
        }
        self.assign_to(&assign.left, value)?;
        Ok(Value::unit())
    }

    fn assign_to(&mut self, target: &Expr, value: Value) -> Result<()> {
        let at = self.out.len();
        let Some(place) = self.place(target)? else {
            return Err(Error::new(target.span(), "this cannot be assigned to"));
        };
        let value = self.settle(value, at, target.span());
        self.coerce(&value, &place.ty, target.span())?;
        if value.ty == Ty::Never {
            return Ok(());
        }
        self.store(&place, &value.code, target.span())
    }

    fn assign_with(&mut self, binary: &syn::ExprBinary) -> Result<Value> {
        let value = self.expr(&binary.right)?;
        let at = self.out.len();
        let Some(place) = self.place(&binary.left)? else {
            return Err(Error::new(binary.left.span(), "this cannot be assigned to"));
        };
        let value = self.settle(value, at, binary.right.span());
        let Some((name, _, _)) = operator(&binary.op) else { return Ok(Value::unit()) };
        let old = Value { ty: place.ty.clone(), code: place.code.clone(), stable: false };
        let new = self.operate(&binary.op, name, &old, &value, binary.span(), binary.right.span())?;
        self.store(&place, &new.code, binary.left.span())?;
        Ok(Value::unit())
    }

    /// Lets a value that was evaluated before `at` not see what was written behind it.
    pub fn settle(&mut self, value: Value, at: usize, span: proc_macro2::Span) -> Value {
        if self.out.len() == at {
            return value;
        }
        let behind = self.out.split_off(at);
        let value = self.spill(value, span);
        self.out.push_str(&behind);
        value
    }

    fn cast(&mut self, cast: &syn::ExprCast) -> Result<Value> {
        let span = cast.span();
        let value = self.expr(&cast.expr)?;
        let to = self.ty(&cast.ty)?;
        let (Ty::Prim(target), kind) = (&to, self.types.kind(&value.ty)) else {
            return Err(Error::new(cast.ty.span(), format!("`as` converts to numbers, not to `{to}`")));
        };
        match kind {
            // A literal simply is of that type.
            Some(Kind::Int) if target.is_int() => self.types.unify(&to, &value.ty, span)?,
            Some(Kind::Float) if target.is_wide_float() => self.types.unify(&to, &value.ty, span)?,
            Some(Kind::Any) => {
                return Err(Error::new(
                    cast.expr.span(),
                    "the type of this is not known yet: write it down where it gets its name",
                ))
            }
            _ => {}
        }
        let half = |prim: &Prim| matches!(prim, Prim::F16 | Prim::Bf16);
        let from = self.types.shallow(&value.ty);
        match from {
            Ty::Prim(from) if half(&from) || half(target) => {
                let how =
                    if half(target) { format!("`{}::from_f32(x)`", target.name()) } else { "`x.to_f32()`".to_owned() };
                return Err(Error::new(span, format!("`as` does not know half precision: write {how}")));
            }
            Ty::Prim(Prim::Bool) if target.is_float() => {
                return Err(Error::new(span, "`as` makes integers of bool, not floats: go by way of `u32`"))
            }
            Ty::Prim(from) if *target == Prim::Bool && from != Prim::Bool => {
                return Err(Error::new(span, "`as` makes no bool of a number: compare it with 0"))
            }
            Ty::Prim(_) | Ty::Var(_) => {}
            other => return Err(Error::new(span, format!("`as` converts numbers, not `{other}`"))),
        }
        let (to_name, from_name) = (self.mark_type(&to, span), self.mark_type(&value.ty, span));
        Ok(Value { ty: to, code: format!("rs::cast<{to_name}>({from_name}({}))", value.code), stable: value.stable })
    }

    /// The length of an array: a literal, a constant, or arithmetic with them.
    pub fn length(&mut self, expr: &Expr) -> Result<usize> {
        let wrong =
            || Error::new(expr.span(), "the length of an array is made of literals and constants of the same module");
        let value = match expr {
            Expr::Paren(inner) => self.length(&inner.expr)?,
            Expr::Group(inner) => self.length(&inner.expr)?,
            Expr::Lit(syn::ExprLit { lit: Lit::Int(int), .. }) => int.base10_parse()?,
            Expr::Path(path) => {
                let name = path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
                let Some((_, init)) = self.constant(&name).filter(|_| !self.inside_const.contains(&name)) else {
                    return Err(wrong());
                };
                self.inside_const.push(name);
                let value = self.length(&init);
                self.inside_const.pop();
                value?
            }
            Expr::Cast(cast) => self.length(&cast.expr)?,
            Expr::Binary(binary) => {
                let (left, right) = (self.length(&binary.left)?, self.length(&binary.right)?);
                let value = match binary.op {
                    BinOp::Add(_) => left.checked_add(right),
                    BinOp::Sub(_) => left.checked_sub(right),
                    BinOp::Mul(_) => left.checked_mul(right),
                    BinOp::Div(_) => left.checked_div(right),
                    BinOp::Rem(_) => left.checked_rem(right),
                    BinOp::Shl(_) => u32::try_from(right).ok().and_then(|by| left.checked_shl(by)),
                    _ => None,
                };
                value.ok_or_else(wrong)?
            }
            _ => return Err(wrong()),
        };
        if value > 1 << 24 {
            return Err(Error::new(expr.span(), format!("an array of {value} elements is too large for a kernel")));
        }
        Ok(value)
    }
}

pub fn member_name(member: &syn::Member) -> String {
    match member {
        syn::Member::Named(name) => name.unraw().to_string(),
        syn::Member::Unnamed(index) => index.index.to_string(),
    }
}
