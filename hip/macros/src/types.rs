//! The types of the subset, and how they are found where the source leaves them out: every literal and every `let` without an annotation
//! gets a variable, and using it binds the variable, as rustc does. What is still unknown at the end of a function is an error there.

use proc_macro2::Span;
use std::fmt;
use syn::{Error, Result};

/// A type of one value that fits into a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prim {
    Bool,
    I8,
    I16,
    I32,
    I64,
    Isize,
    U8,
    U16,
    U32,
    U64,
    Usize,
    F16,
    Bf16,
    F32,
    F64,
}

/// All of them, by the names that Rust has for them.
const PRIMS: [(&str, Prim); 15] = [
    ("bool", Prim::Bool),
    ("i8", Prim::I8),
    ("i16", Prim::I16),
    ("i32", Prim::I32),
    ("i64", Prim::I64),
    ("isize", Prim::Isize),
    ("u8", Prim::U8),
    ("u16", Prim::U16),
    ("u32", Prim::U32),
    ("u64", Prim::U64),
    ("usize", Prim::Usize),
    ("f16", Prim::F16),
    ("bf16", Prim::Bf16),
    ("f32", Prim::F32),
    ("f64", Prim::F64),
];

impl Prim {
    pub fn named(name: &str) -> Option<Self> {
        PRIMS.iter().find(|(known, _)| *known == name).map(|(_, prim)| *prim)
    }

    pub fn name(self) -> &'static str {
        PRIMS.iter().find(|(_, prim)| *prim == self).map_or("?", |(name, _)| name)
    }

    pub fn is_int(self) -> bool {
        !matches!(self, Self::Bool) && !self.is_float()
    }

    /// f32 or f64, which have literals and Rust's methods.
    pub fn is_wide_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::Isize)
    }

    pub fn bits(self) -> u32 {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 8,
            Self::I16 | Self::U16 | Self::F16 | Self::Bf16 => 16,
            Self::I32 | Self::U32 | Self::F32 => 32,
            Self::I64 | Self::U64 | Self::Isize | Self::Usize | Self::F64 => 64,
        }
    }

    /// The largest value of an integer.
    pub fn max(self) -> u128 {
        (1u128 << (self.bits() - u32::from(self.is_signed()))) - 1
    }
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    Unit,
    /// Of what does not come back: `return`, `break`, `continue`, a `loop` without `break`.
    Never,
    Prim(Prim),
    /// `&[T]` of device memory, and `&mut GlobalMut<T>`.
    Slice {
        of: Box<Ty>,
        writable: bool,
    },
    Array(Box<Ty>, usize),
    /// Shared memory of a block.
    Shared(Box<Ty>),
    Struct(String),
    Tuple(Vec<Ty>),
    /// `&T` and `&mut T`, of parameters only.
    Ref {
        of: Box<Ty>,
        writable: bool,
    },
    Var(usize),
}

impl From<Prim> for Ty {
    fn from(prim: Prim) -> Self {
        Self::Prim(prim)
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit => f.write_str("()"),
            Self::Never => f.write_str("!"),
            Self::Prim(prim) => f.write_str(prim.name()),
            Self::Slice { of, writable: false } => write!(f, "&[{of}]"),
            Self::Slice { of, writable: true } => write!(f, "&mut GlobalMut<{of}>"),
            Self::Array(of, len) => write!(f, "[{of}; {len}]"),
            Self::Shared(of) => write!(f, "Shared<{of}>"),
            Self::Struct(name) => f.write_str(name),
            Self::Tuple(of) => {
                let names: Vec<String> = of.iter().map(Ty::to_string).collect();
                write!(f, "({})", names.join(", "))
            }
            Self::Ref { of, writable } => write!(f, "&{}{of}", if *writable { "mut " } else { "" }),
            Self::Var(_) => f.write_str("_"),
        }
    }
}

/// What a variable may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Any,
    /// An integer literal: i32 where nothing else is said.
    Int,
    /// A literal with a point: f64 where nothing else is said.
    Float,
}

#[derive(Clone, Debug)]
enum Var {
    Open(Kind),
    Bound(Ty),
}

/// The variables of a function.
#[derive(Default)]
pub struct Types {
    vars: Vec<Var>,
}

impl Types {
    pub fn fresh(&mut self, kind: Kind) -> Ty {
        self.vars.push(Var::Open(kind));
        Ty::Var(self.vars.len() - 1)
    }

    /// The type as far as it is known on the outside.
    pub fn shallow(&self, ty: &Ty) -> Ty {
        let mut ty = ty.clone();
        while let Ty::Var(n) = ty {
            match &self.vars[n] {
                Var::Bound(bound) => ty = bound.clone(),
                Var::Open(_) => break,
            }
        }
        ty
    }

    /// The type as far as it is known.
    pub fn known(&self, ty: &Ty) -> Ty {
        match self.shallow(ty) {
            Ty::Array(of, len) => Ty::Array(Box::new(self.known(&of)), len),
            Ty::Slice { of, writable } => Ty::Slice { of: Box::new(self.known(&of)), writable },
            Ty::Shared(of) => Ty::Shared(Box::new(self.known(&of))),
            Ty::Ref { of, writable } => Ty::Ref { of: Box::new(self.known(&of)), writable },
            Ty::Tuple(of) => Ty::Tuple(of.iter().map(|ty| self.known(ty)).collect()),
            ty => ty,
        }
    }

    /// What an open variable may become.
    pub fn kind(&self, ty: &Ty) -> Option<Kind> {
        match self.shallow(ty) {
            Ty::Var(n) => match self.vars[n] {
                Var::Open(kind) => Some(kind),
                Var::Bound(_) => None,
            },
            _ => None,
        }
    }

    /// Whether it is an integer, for certain.
    pub fn is_int(&self, ty: &Ty) -> bool {
        matches!(self.shallow(ty), Ty::Prim(prim) if prim.is_int()) || self.kind(ty) == Some(Kind::Int)
    }

    /// The type at the end of a function, where literals take their defaults.
    pub fn last(&self, ty: &Ty, span: Span) -> Result<Ty> {
        let each = |of: Vec<Ty>| of.iter().map(|ty| self.last(ty, span)).collect::<Result<Vec<_>>>();
        let inner = |of: Box<Ty>| Ok::<_, Error>(Box::new(self.last(&of, span)?));
        Ok(match self.shallow(ty) {
            Ty::Var(n) => match self.vars[n] {
                Var::Open(Kind::Int) => Prim::I32.into(),
                Var::Open(Kind::Float) => Prim::F64.into(),
                _ => {
                    return Err(Error::new(
                        span,
                        "the type of this is not known here: write it down, as in `let x: u32 = ..`",
                    ))
                }
            },
            Ty::Array(of, len) => Ty::Array(inner(of)?, len),
            Ty::Slice { of, writable } => Ty::Slice { of: inner(of)?, writable },
            Ty::Shared(of) => Ty::Shared(inner(of)?),
            Ty::Ref { of, writable } => Ty::Ref { of: inner(of)?, writable },
            Ty::Tuple(of) => Ty::Tuple(each(of)?),
            ty => ty,
        })
    }

    /// Makes both the same type, or says at `span` that they are not.
    pub fn unify(&mut self, expected: &Ty, found: &Ty, span: Span) -> Result<()> {
        if self.try_unify(expected, found) {
            return Ok(());
        }
        let (expected, found) = (self.known(expected), self.known(found));
        let name = |types: &Self, ty: &Ty| match types.kind(ty) {
            Some(Kind::Int) => "an integer".to_owned(),
            Some(Kind::Float) => "a floating-point number".to_owned(),
            _ => format!("`{ty}`"),
        };
        let hint = match (&expected, &found) {
            (Ty::Prim(to), Ty::Prim(_)) if *to != Prim::Bool => format!(": convert with `as {}`", to.name()),
            (Ty::Prim(Prim::F16 | Prim::Bf16), _) | (_, Ty::Prim(Prim::F16 | Prim::Bf16)) => {
                ": half precision has no literals; write `f16::from_f32(1.0)`".to_owned()
            }
            _ => String::new(),
        };
        Err(Error::new(span, format!("expected {}, found {}{hint}", name(self, &expected), name(self, &found))))
    }

    fn try_unify(&mut self, a: &Ty, b: &Ty) -> bool {
        let (a, b) = (self.shallow(a), self.shallow(b));
        match (&a, &b) {
            (Ty::Var(m), Ty::Var(n)) if m == n => true,
            (Ty::Var(m), other) | (other, Ty::Var(m)) => {
                let Var::Open(kind) = self.vars[*m] else { return false };
                let fits = match (kind, other) {
                    (Kind::Any, _) => true,
                    (kind, Ty::Var(n)) => match self.vars[*n] {
                        // The variable that says more stays open.
                        Var::Open(Kind::Any) => {
                            self.vars[*n] = Var::Bound(Ty::Var(*m));
                            return true;
                        }
                        Var::Open(other) => kind == other,
                        Var::Bound(_) => false,
                    },
                    (Kind::Int, Ty::Prim(prim)) => prim.is_int(),
                    (Kind::Float, Ty::Prim(prim)) => prim.is_wide_float(),
                    _ => false,
                };
                if fits {
                    self.vars[*m] = Var::Bound(other.clone());
                }
                fits
            }
            (Ty::Array(a, m), Ty::Array(b, n)) => m == n && self.try_unify(a, b),
            (Ty::Slice { of: a, writable: v }, Ty::Slice { of: b, writable: w }) => v == w && self.try_unify(a, b),
            (Ty::Ref { of: a, writable: v }, Ty::Ref { of: b, writable: w }) => v == w && self.try_unify(a, b),
            (Ty::Shared(a), Ty::Shared(b)) => self.try_unify(a, b),
            (Ty::Tuple(a), Ty::Tuple(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.try_unify(a, b)),
            (a, b) => a == b,
        }
    }
}
