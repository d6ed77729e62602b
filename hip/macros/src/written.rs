//! Types as they are written: in parameters, behind `let` and `as`, in structures; and what C++ calls them.

use crate::body::Body;
use crate::types::{Kind, Prim, Ty};
use std::collections::HashMap;
use std::fmt::Write;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Result, Type};

impl Body<'_> {
    /// The type of a parameter: a value, or a reference.
    pub fn parameter_ty(&mut self, written: &Type, kernel: bool) -> Result<Ty> {
        if let Type::Reference(reference) = written {
            if let Some(lifetime) = &reference.lifetime {
                return Err(Error::new(
                    lifetime.span(),
                    "leave the lifetime out: a reference lives as long as the call",
                ));
            }
            let writable = reference.mutability.is_some();
            match &*reference.elem {
                Type::Slice(slice) if !writable => {
                    return Ok(Ty::Slice { of: Box::new(self.element_ty(&slice.elem)?), writable: false })
                }
                Type::Slice(slice) => {
                    return Err(Error::new(
                        slice.span(),
                        "`&mut [T]` promises that nobody else writes there, and every thread has it: take `&mut GlobalMut<T>`",
                    ))
                }
                Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "GlobalMut") => {
                    let of = self.element_ty(one_argument(&path.path)?)?;
                    if !writable {
                        return Err(Error::new(written.span(), "take `&[T]` to read and `&mut GlobalMut<T>` to write"));
                    }
                    return Ok(Ty::Slice { of: Box::new(of), writable: true });
                }
                inner if !kernel => return Ok(Ty::Ref { of: Box::new(self.ty(inner)?), writable }),
                inner => {
                    return Err(Error::new(
                        inner.span(),
                        "a kernel takes values, `&[T]` to read and `&mut GlobalMut<T>` to write",
                    ))
                }
            }
        }
        let ty = self.ty(written)?;
        match &ty {
            Ty::Prim(Prim::Bool) if kernel => Err(Error::new(
                written.span(),
                "a `bool` cannot be passed to a kernel: pass a `u32` and compare it with 0",
            )),
            Ty::Tuple(_) | Ty::Shared(_) if kernel => {
                Err(Error::new(written.span(), "a kernel takes numbers, arrays and `#[repr(C)]` structures by value"))
            }
            Ty::Shared(_) => Err(Error::new(written.span(), "take shared memory by reference: `&mut Shared<..>`")),
            _ => Ok(ty),
        }
    }

    /// What a device function takes and gives, with these types for its generics.
    pub fn signature(&mut self, at: usize, generics: HashMap<String, Ty>) -> Result<(Vec<Ty>, Ty)> {
        let function = &self.unit.functions[at];
        let own = std::mem::replace(&mut self.generics, generics);
        let params =
            function.params.iter().map(|param| self.parameter_ty(&param.ty, false)).collect::<Result<Vec<_>>>();
        let ret = function.ret.as_ref().map_or(Ok(Ty::Unit), |ret| self.ty(ret));
        self.generics = own;
        Ok((params?, ret?))
    }

    fn element_ty(&mut self, written: &Type) -> Result<Ty> {
        match self.ty(written)? {
            ty @ (Ty::Prim(_) | Ty::Struct(_) | Ty::Array(..) | Ty::Var(_)) if ty != Ty::Prim(Prim::Bool) => Ok(ty),
            ty => Err(Error::new(
                written.span(),
                format!("device memory holds numbers, arrays and `#[repr(C)]` structures, not `{ty}`"),
            )),
        }
    }

    /// A type as it is written.
    pub fn ty(&mut self, written: &Type) -> Result<Ty> {
        match written {
            Type::Paren(inner) => self.ty(&inner.elem),
            Type::Group(inner) => self.ty(&inner.elem),
            Type::Infer(_) => Ok(self.types.fresh(Kind::Any)),
            Type::Never(_) => Ok(Ty::Never),
            Type::Tuple(tuple) if tuple.elems.is_empty() => Ok(Ty::Unit),
            Type::Tuple(tuple) if (2..=4).contains(&tuple.elems.len()) => {
                Ok(Ty::Tuple(tuple.elems.iter().map(|ty| self.ty(ty)).collect::<Result<_>>()?))
            }
            Type::Tuple(tuple) => Err(Error::new(tuple.span(), "tuples have two to four parts here")),
            Type::Array(array) => {
                let of = self.ty(&array.elem)?;
                let len = self.length(&array.len)?;
                if len == 0 {
                    return Err(Error::new(array.len.span(), "an array has at least one element here"));
                }
                Ok(Ty::Array(Box::new(of), len))
            }
            Type::Path(path) if path.qself.is_none() => self.path_ty(&path.path),
            Type::Reference(_) => {
                Err(Error::new(written.span(), "references are for parameters only: name the element by its index"))
            }
            other => Err(Error::new(
                other.span(),
                "kernels know numbers, bool, arrays, tuples, `#[repr(C)]` structures, `&[T]` and `&mut GlobalMut<T>`",
            )),
        }
    }

    fn path_ty(&mut self, path: &syn::Path) -> Result<Ty> {
        let Some(last) = path.segments.last() else { return Err(Error::new(path.span(), "this names no type")) };
        let name = last.ident.to_string();
        if let (1, Some(ty)) = (path.segments.len(), self.generics.get(&name)) {
            return Ok(ty.clone());
        }
        if let Some(prim) = Prim::named(&name) {
            return Ok(prim.into());
        }
        if self.unit.structs.contains_key(&name) {
            self.use_struct(&name)?;
            return Ok(Ty::Struct(name));
        }
        match name.as_str() {
            "Shared" => match self.ty(one_argument(path)?)? {
                array @ Ty::Array(..) => Ok(Ty::Shared(Box::new(array))),
                _ => Err(Error::new(path.span(), "shared memory is an array: `Shared<[f32; 256]>`")),
            },
            "GlobalMut" => Err(Error::new(path.span(), "device memory is taken by reference: `&mut GlobalMut<T>`")),
            "i128" | "u128" => Err(Error::new(path.span(), format!("kernels have no {name}: the largest integers are i64 and u64"))),
            "char" | "String" | "Vec" | "Box" | "Option" | "Result" => {
                Err(Error::new(path.span(), format!("kernels have no `{name}`: they know numbers, bool, arrays, tuples and structures")))
            }
            _ => Err(Error::new(
                path.span(),
                format!("kernels do not know the type `{name}`: define the structure in the same `#[hip::kernels]` module, with `#[repr(C)]`"),
            )),
        }
    }

    /// The C++ of a structure is written where it is first used, behind those it holds.
    fn use_struct(&mut self, name: &str) -> Result<()> {
        if self.found.structs.iter().any(|(known, _)| known == name) {
            return Ok(());
        }
        let Some(found) = self.unit.structs.get(name) else { return Ok(()) };
        if let Some(refused) = &found.refused {
            return Err(refused.clone());
        }
        let mut text = format!("struct S_{name} {{ ");
        for (field, written) in &found.fields {
            let ty = self.element_ty(written)?;
            let ty = cpp(&ty);
            let _ = write!(text, "{ty} f_{}; ", field.unraw());
        }
        text.push_str("};\n");
        self.found.structs.push((name.to_owned(), text));
        Ok(())
    }

    /// The fields of a structure with their types.
    pub fn fields(&mut self, name: &str) -> Result<Vec<(String, Ty)>> {
        let Some(found) = self.unit.structs.get(name) else { return Ok(Vec::new()) };
        found.fields.iter().map(|(field, ty)| Ok((field.unraw().to_string(), self.ty(ty)?))).collect()
    }
}

/// The only type argument of a path.
fn one_argument(path: &syn::Path) -> Result<&Type> {
    let last = path.segments.last().map(|last| &last.arguments);
    if let Some(syn::PathArguments::AngleBracketed(arguments)) = last {
        if let (1, Some(syn::GenericArgument::Type(ty))) = (arguments.args.len(), arguments.args.first()) {
            return Ok(ty);
        }
    }
    Err(Error::new(path.span(), "say of what type, as in `GlobalMut<f32>` or `Shared<[f32; 256]>`"))
}

/// A type in C++.
pub fn cpp(ty: &Ty) -> String {
    match ty {
        Ty::Unit | Ty::Never | Ty::Var(_) => "void".into(),
        Ty::Prim(Prim::Bool) => "bool".into(),
        Ty::Prim(prim) => format!("rs::{}", prim.name()),
        Ty::Slice { of, writable } => format!("rs::Slice<{}{}>", if *writable { "" } else { "const " }, cpp(of)),
        Ty::Array(of, len) => format!("rs::Array<{}, {len}>", cpp(of)),
        Ty::Shared(of) | Ty::Ref { of, .. } => cpp(of),
        Ty::Struct(name) => format!("S_{name}"),
        Ty::Tuple(of) => format!("rs::Tuple{}<{}>", of.len(), of.iter().map(cpp).collect::<Vec<_>>().join(", ")),
    }
}
