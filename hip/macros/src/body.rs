//! The translation of one function: its names, its temporaries, its statements. Rust evaluates from left to right and C++ in any order, so
//! whatever has an effect, or could see one, goes into a temporary in Rust's order; what remains are expressions whose order nobody can tell.
//!
//! The C++ is text with marks in it, for types and literals that are known only at the end of the function.

use crate::types::{Prim, Ty, Types};
use crate::unit::{instance_name, Function, Unit};
use crate::written::cpp;
use proc_macro2::Span;
use std::collections::HashMap;
use std::fmt::Write;
use syn::spanned::Spanned;
use syn::{Error, Expr, Result, Type};

/// A place in the Rust source that can report.
pub struct Site {
    pub file: String,
    pub line: usize,
    pub text: String,
}

/// What translating a function adds to its module.
#[derive(Default)]
pub struct Found {
    pub sites: Vec<Site>,
    /// Instances of device functions that were called.
    pub calls: Vec<(usize, Vec<Ty>, Span)>,
    /// Structures in the order in which C++ must see them.
    pub structs: Vec<(String, String)>,
}

/// An expression of C++.
#[derive(Clone, Debug)]
pub struct Value {
    pub ty: Ty,
    pub code: String,
    /// Nothing that runs later changes what it says.
    pub stable: bool,
}

impl Value {
    pub fn unit() -> Self {
        Self { ty: Ty::Unit, code: String::new(), stable: true }
    }

    pub fn never() -> Self {
        Self { ty: Ty::Never, code: String::new(), stable: true }
    }

    pub fn new(ty: impl Into<Ty>, code: impl Into<String>) -> Self {
        Self { ty: ty.into(), code: code.into(), stable: false }
    }
}

#[derive(Clone)]
pub struct Local {
    pub ty: Ty,
    pub code: String,
    pub mutable: bool,
}

/// A loop around what is being translated.
pub struct Frame {
    pub label: Option<String>,
    pub number: String,
    pub takes_values: bool,
    pub result: Join,
    pub broken: bool,
    pub goes_on: bool,
    pub goes_out: bool,
}

/// The value of something with several ends: branches, arms, breaks.
pub struct Join {
    pub ty: Option<Ty>,
    temp: String,
    at: usize,
}

enum Mark {
    Type(Ty, Span),
    Int(u128, Ty, Span),
    Float(String, Ty, Span),
    /// The name of a device function's instance.
    Call(usize, Vec<Ty>, Span),
}

/// What a type must be in the end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Number,
    Int,
    Ordered,
    Signed,
}

const OPEN: char = '\u{1}';
const CLOSE: char = '\u{2}';

pub struct Body<'a> {
    pub unit: &'a Unit,
    pub function: &'a Function,
    pub types: Types,
    pub out: String,
    pub found: &'a mut Found,
    pub ret: Ty,
    pub frames: Vec<Frame>,
    pub generics: HashMap<String, Ty>,
    scopes: Vec<HashMap<String, Local>>,
    pub consts: Vec<HashMap<String, (Type, Expr)>>,
    marks: Vec<Mark>,
    demands: Vec<(Ty, Class, String, Span)>,
    numbers: usize,
    /// Constants being looked into, so that one that needs itself is found.
    pub inside_const: Vec<String>,
}

impl<'a> Body<'a> {
    /// The C++ of an instance: its declaration, and its definition.
    pub fn translate(
        unit: &'a Unit,
        function: &'a Function,
        instance: &[Ty],
        found: &'a mut Found,
    ) -> Result<(String, String)> {
        let generics = function.generics.iter().map(|name| name.to_string()).zip(instance.iter().cloned()).collect();
        let mut body = Self {
            unit,
            function,
            types: Types::default(),
            out: String::new(),
            found,
            ret: Ty::Unit,
            frames: Vec::new(),
            generics,
            scopes: vec![HashMap::new()],
            consts: vec![HashMap::new()],
            marks: Vec::new(),
            demands: Vec::new(),
            numbers: 0,
            inside_const: Vec::new(),
        };
        if let Some(ret) = &function.ret {
            body.ret = body.ty(ret)?;
            if matches!(body.ret, Ty::Slice { .. } | Ty::Ref { .. } | Ty::Shared(_)) {
                return Err(Error::new(ret.span(), "a device function returns values, not references"));
            }
        }
        let parameters = body.parameters()?;
        let value = body.block(&function.block)?;
        let ret = body.ret.clone();
        let end = function.block.stmts.last().map_or(function.block.span(), |last| last.span());
        body.coerce(&value, &ret, end)?;
        if ret == Ty::Unit || value.ty == Ty::Never {
            body.discard(&value);
        } else {
            let _ = write!(body.out, "return {}; ", value.code);
        }
        let returned = body.mark_type(&ret, end);
        let name = instance_name(function, instance);
        let head = if function.kernel {
            format!("extern \"C\" __global__ void {name}({parameters})")
        } else {
            format!("static __device__ {returned} {name}({parameters})")
        };
        let text = format!("{} {{ {}}}", head, body.out);
        let (head, text) = (body.finish(&head)?, body.finish(&text)?);
        body.check_demands()?;
        let declared = if function.kernel { String::new() } else { format!("{head};\n") };
        Ok((declared, text + "\n"))
    }

    fn parameters(&mut self) -> Result<String> {
        let mut list = Vec::new();
        for param in &self.function.params {
            let ty = self.parameter_ty(&param.ty, self.function.kernel)?;
            let span = param.ty.span();
            let name = self.name(&param.name.to_string());
            match &ty {
                Ty::Slice { of, writable } if self.function.kernel => {
                    let of = self.mark_type(of, span);
                    let constant = if *writable { "" } else { "const " };
                    list.push(format!("{constant}{of} *__restrict__ {name}_data, rs::u64 {name}_len"));
                    let _ = write!(self.out, "const rs::Slice<{constant}{of}> {name}{{{name}_data, {name}_len}}; ");
                }
                Ty::Ref { of, writable } => {
                    let of = self.mark_type(of, span);
                    list.push(format!("{}{of} &{name}", if *writable { "" } else { "const " }));
                }
                _ => {
                    let ty = self.mark_type(&ty, span);
                    list.push(format!("{ty} {name}"));
                }
            }
            self.declare(&param.name.to_string(), Local { ty, code: name, mutable: param.mutable });
        }
        list.push("rs::Context cx".into());
        Ok(list.join(", "))
    }

    /// A new name, which no other has.
    pub fn name(&mut self, stem: &str) -> String {
        self.numbers += 1;
        format!("{}_{}", stem.trim_start_matches("r#"), self.numbers)
    }

    pub fn declare(&mut self, name: &str, local: Local) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), local);
        }
    }

    pub fn local(&self, name: &str) -> Option<&Local> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    pub fn constant(&self, name: &str) -> Option<(Type, Expr)> {
        let local = self.consts.iter().rev().find_map(|scope| scope.get(name));
        local.or_else(|| self.unit.consts.get(name)).cloned()
    }

    pub fn enter(&mut self) {
        self.scopes.push(HashMap::new());
        self.consts.push(HashMap::new());
    }

    pub fn leave(&mut self) {
        self.scopes.pop();
        self.consts.pop();
    }

    pub fn mark_type(&mut self, ty: &Ty, span: Span) -> String {
        self.mark(Mark::Type(ty.clone(), span))
    }

    pub fn mark_int(&mut self, value: u128, ty: &Ty, span: Span) -> String {
        self.mark(Mark::Int(value, ty.clone(), span))
    }

    pub fn mark_float(&mut self, digits: String, ty: &Ty, span: Span) -> String {
        self.mark(Mark::Float(digits, ty.clone(), span))
    }

    pub fn mark_call(&mut self, function: usize, types: Vec<Ty>, span: Span) -> String {
        self.mark(Mark::Call(function, types, span))
    }

    fn mark(&mut self, mark: Mark) -> String {
        self.marks.push(mark);
        format!("{OPEN}{}{CLOSE}", self.marks.len() - 1)
    }

    /// Asks that the type be of that class in the end.
    pub fn demand(&mut self, ty: &Ty, class: Class, what: &str, span: Span) {
        self.demands.push((ty.clone(), class, what.to_owned(), span));
    }

    fn check_demands(&self) -> Result<()> {
        for (ty, class, what, span) in &self.demands {
            let last = self.types.last(ty, *span)?;
            let fits = match (&last, class) {
                (Ty::Never, _) => true,
                (Ty::Prim(prim), Class::Number) => *prim != Prim::Bool,
                (Ty::Prim(prim), Class::Int) => prim.is_int(),
                (Ty::Prim(prim), Class::Signed) => prim.is_float() || prim.is_signed(),
                (Ty::Prim(_), Class::Ordered) => true,
                _ => false,
            };
            if !fits {
                return Err(Error::new(*span, format!("{what} is not defined for `{last}`")));
            }
        }
        Ok(())
    }

    /// Replaces the marks, now that all types are known.
    fn finish(&mut self, text: &str) -> Result<String> {
        let mut done = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(open) = rest.find(OPEN) {
            done.push_str(&rest[..open]);
            let Some(close) = rest.find(CLOSE) else { break };
            let number: usize = rest[open + 1..close].parse().unwrap_or_default();
            rest = &rest[close + 1..];
            match &self.marks[number] {
                Mark::Type(ty, span) => done.push_str(&cpp(&self.types.last(ty, *span)?)),
                Mark::Int(value, ty, span) => match self.types.last(ty, *span)? {
                    Ty::Prim(prim) if prim.is_int() => {
                        // One more than the largest is what a minus sign makes the smallest.
                        let most = prim.max() + u128::from(prim.is_signed());
                        if *value > most {
                            return Err(Error::new(*span, format!("{value} is out of range for {}", prim.name())));
                        }
                        let _ = write!(done, "rs::{}({value}ull)", prim.name());
                    }
                    other => return Err(Error::new(*span, format!("an integer cannot be a `{other}`"))),
                },
                Mark::Float(digits, ty, span) => {
                    let bad = |_| Error::new(*span, format!("{digits} is not a number that kernels understand"));
                    match self.types.last(ty, *span)? {
                        // With the fewest digits that give this number and no other.
                        Ty::Prim(Prim::F32) => {
                            let _ = write!(done, "{:?}f", digits.parse::<f32>().map_err(bad)?);
                        }
                        Ty::Prim(Prim::F64) => {
                            let _ = write!(done, "{:?}", digits.parse::<f64>().map_err(bad)?);
                        }
                        other => return Err(Error::new(*span, format!("{digits} cannot be a `{other}`"))),
                    }
                }
                Mark::Call(function, types, span) => {
                    let types = types.iter().map(|ty| self.types.last(ty, *span)).collect::<Result<Vec<_>>>()?;
                    done.push_str(&instance_name(&self.unit.functions[*function], &types));
                    let call = (*function, types, *span);
                    if !self.found.calls.iter().any(|(number, types, _)| (*number, types) == (call.0, &call.1)) {
                        self.found.calls.push(call);
                    }
                }
            }
        }
        done.push_str(rest);
        Ok(done)
    }

    /// The number of a place that can report.
    pub fn site(&mut self, span: Span, text: impl Into<String>) -> usize {
        let (file, line) = position(span);
        self.found.sites.push(Site { file, line, text: text.into() });
        self.found.sites.len() - 1
    }

    /// Lets the C++ compiler's messages name the line.
    pub fn line(&mut self, span: Span) {
        let (file, line) = position(span);
        if line > 0 {
            let _ = write!(self.out, "\n#line {line} {file:?}\n");
        }
    }

    /// The value in a temporary that is made here.
    pub fn spill(&mut self, value: Value, span: Span) -> Value {
        let at = self.out.len();
        self.spill_at(value, at, span)
    }

    fn spill_at(&mut self, value: Value, at: usize, span: Span) -> Value {
        if value.stable || matches!(value.ty, Ty::Unit | Ty::Never) {
            return value;
        }
        let name = self.name("t");
        let ty = self.mark_type(&value.ty, span);
        self.out.insert_str(at, &format!("const {ty} {name} = {}; ", value.code));
        Value { ty: value.ty, code: name, stable: true }
    }

    /// Expressions from left to right.
    pub fn exprs<'e>(&mut self, list: impl IntoIterator<Item = &'e Expr>) -> Result<Vec<Value>> {
        let mut values: Vec<(Value, Span)> = Vec::new();
        for expr in list {
            let mut at = self.out.len();
            let value = self.expr(expr)?;
            if self.out.len() > at {
                // It has statements: what stands before it is evaluated before them.
                for (earlier, span) in &mut values {
                    let before = self.out.len();
                    *earlier = self.spill_at(earlier.clone(), at, *span);
                    at += self.out.len() - before;
                }
            }
            values.push((value, expr.span()));
        }
        Ok(values.into_iter().map(|(value, _)| value).collect())
    }

    /// The value as one of that type.
    pub fn coerce(&mut self, value: &Value, ty: &Ty, span: Span) -> Result<()> {
        match value.ty {
            Ty::Never => Ok(()),
            _ => self.types.unify(ty, &value.ty, span),
        }
    }

    /// For its effect alone.
    pub fn discard(&mut self, value: &Value) {
        if !value.code.is_empty() && !value.stable {
            let _ = write!(self.out, "(void)({}); ", value.code);
        }
    }

    /// The value of something with several ends, whose temporary is made here.
    pub fn join(&mut self) -> Join {
        Join { ty: None, temp: self.name("t"), at: self.out.len() }
    }

    /// One of the ends.
    pub fn end(&mut self, join: &mut Join, value: &Value, span: Span) -> Result<()> {
        if self.types.shallow(&value.ty) == Ty::Never {
            return Ok(());
        }
        match &join.ty {
            Some(ty) => self.types.unify(&ty.clone(), &value.ty, span)?,
            None => join.ty = Some(value.ty.clone()),
        }
        if self.types.shallow(&value.ty) == Ty::Unit {
            self.discard(value);
        } else {
            let _ = write!(self.out, "{} = {}; ", join.temp, value.code);
        }
        Ok(())
    }

    /// What came of them.
    pub fn joined(&mut self, join: Join, span: Span) -> Value {
        match join.ty {
            None => Value::never(),
            Some(ty) if self.types.shallow(&ty) == Ty::Unit => Value::unit(),
            Some(ty) => {
                let name = self.mark_type(&ty, span);
                self.out.insert_str(join.at, &format!("{name} {}; ", join.temp));
                Value { ty, code: join.temp, stable: true }
            }
        }
    }
}

/// Where it is in the source, if that is known.
fn position(span: Span) -> (String, usize) {
    (span.file(), span.start().line)
}
