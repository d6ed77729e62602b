//! What is translated as a whole: the kernels, device functions, structures and constants of one module, read from Rust's syntax. One kernel
//! by itself is a module of one.

use crate::types::{Prim, Ty};
use proc_macro2::{Ident, Span};
use std::collections::HashMap;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, FnArg, Item, ItemFn, Pat, Result, ReturnType, Type};

/// A structure by value, with the layout that C++ gives it too.
pub struct Struct {
    pub fields: Vec<(Ident, Type)>,
    /// Why kernels cannot use it, if they cannot.
    pub refused: Option<Error>,
}

pub struct Param {
    pub name: Ident,
    pub mutable: bool,
    pub ty: Type,
}

/// A kernel or a device function.
pub struct Function {
    pub name: Ident,
    pub generics: Vec<Ident>,
    pub params: Vec<Param>,
    pub ret: Option<Type>,
    pub block: syn::Block,
    pub kernel: bool,
    /// The types that a kernel's generics stand for, one list for each instance.
    pub instances: Vec<Vec<Prim>>,
    /// As it was written, without our attribute.
    pub item: ItemFn,
}

#[derive(Default)]
pub struct Unit {
    pub structs: HashMap<String, Struct>,
    pub consts: HashMap<String, (Type, Expr)>,
    pub functions: Vec<Function>,
    /// Functions of the module that are the host's alone.
    pub others: Vec<String>,
}

/// Which of our attributes it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Kernel,
    Device,
}

/// Takes our attribute from a function.
pub fn role(attrs: &mut Vec<Attribute>) -> Option<(Role, Attribute)> {
    let role_of = |attr: &Attribute| {
        let name = attr.path().segments.last()?.ident.to_string();
        let ours = attr.path().segments.len() == 1 || attr.path().segments[0].ident == "hip";
        match name.as_str() {
            "kernel" if ours => Some(Role::Kernel),
            "device" if ours => Some(Role::Device),
            _ => None,
        }
    };
    let at = attrs.iter().position(|attr| role_of(attr).is_some())?;
    let attr = attrs.remove(at);
    role_of(&attr).map(|role| (role, attr))
}

/// The lists of `#[kernel(T = [f32, f64])]`.
pub struct Instances(pub Vec<(Ident, Vec<Prim>)>);

impl syn::parse::Parse for Instances {
    fn parse(input: syn::parse::ParseStream) -> Result<Self> {
        let mut lists = Vec::new();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            input.parse::<syn::Token![=]>()?;
            let content;
            syn::bracketed!(content in input);
            let types = content.parse_terminated(<Ident as syn::parse::Parse>::parse, syn::Token![,])?;
            let mut prims: Vec<Prim> = Vec::new();
            for ty in types {
                match Prim::named(&ty.to_string()) {
                    Some(prim) if prim != Prim::Bool && !prims.contains(&prim) => prims.push(prim),
                    Some(Prim::Bool) | None => {
                        return Err(Error::new(
                            ty.span(),
                            format!(
                                "`{ty}` is not a number: instances are i8 to u64, isize, usize, f16, bf16, f32 and f64"
                            ),
                        ))
                    }
                    Some(_) => return Err(Error::new(ty.span(), format!("`{ty}` is listed twice"))),
                }
            }
            if prims.is_empty() {
                return Err(Error::new(
                    name.span(),
                    format!("list the types that `{name}` stands for, as in `{name} = [f32, f64]`"),
                ));
            }
            lists.push((name, prims));
            if !input.is_empty() {
                input.parse::<syn::Token![,]>()?;
            }
        }
        Ok(Self(lists))
    }
}

impl Unit {
    /// Takes up an item of a module; its attribute of ours is removed. Others than ours are left to Rust.
    pub fn add(&mut self, item: &mut Item) -> Result<Option<Role>> {
        match item {
            Item::Fn(function) => {
                let name = function.sig.ident.unraw().to_string();
                let Some((role, attr)) = role(&mut function.attrs) else {
                    self.others.push(name);
                    return Ok(None);
                };
                if self.function(&name).is_some() {
                    return Err(Error::new(
                        function.sig.ident.span(),
                        format!("there are two functions `{name}`: kernels do not know which of them `cfg` takes"),
                    ));
                }
                let instances = match &attr.meta {
                    syn::Meta::Path(_) => Instances(Vec::new()),
                    meta => meta.require_list()?.parse_args::<Instances>()?,
                };
                self.functions.push(read_function(function, role, instances)?);
                return Ok(Some(role));
            }
            Item::Const(item) => {
                self.consts.insert(item.ident.to_string(), ((*item.ty).clone(), (*item.expr).clone()));
            }
            Item::Struct(item) => {
                self.structs.insert(item.ident.to_string(), read_struct(item));
            }
            _ => {}
        }
        Ok(None)
    }

    pub fn function(&self, name: &str) -> Option<usize> {
        self.functions.iter().position(|function| function.name == name)
    }
}

fn read_struct(item: &syn::ItemStruct) -> Struct {
    let refuse = |span: Span, why: &str| Struct { fields: Vec::new(), refused: Some(Error::new(span, why)) };
    let repr_c = item
        .attrs
        .iter()
        .any(|attr| attr.path().is_ident("repr") && attr.parse_args::<Ident>().is_ok_and(|what| what == "C"));
    if !repr_c {
        return refuse(
            item.ident.span(),
            "a structure that kernels use needs `#[repr(C)]`, which is the layout that C++ gives it",
        );
    }
    if !item.generics.params.is_empty() {
        return refuse(item.ident.span(), "a structure that kernels use cannot be generic");
    }
    let syn::Fields::Named(fields) = &item.fields else {
        return refuse(item.ident.span(), "a structure that kernels use needs fields with names");
    };
    let fields = fields.named.iter().filter_map(|field| Some((field.ident.clone()?, field.ty.clone())));
    Struct { fields: fields.collect(), refused: None }
}

pub fn read_function(item: &ItemFn, role: Role, instances: Instances) -> Result<Function> {
    let signature = &item.sig;
    let kernel = role == Role::Kernel;
    let what = if kernel { "a kernel" } else { "a device function" };
    let refuse = |span: Span, why: &str| Err(Error::new(span, format!("{what} cannot {why}")));
    if let Some(word) = &signature.asyncness {
        return refuse(word.span(), "be async");
    }
    if let Some(word) = &signature.unsafety {
        return refuse(word.span(), "be unsafe: it has nothing that needs it, every access is checked");
    }
    if let Some(word) = &signature.constness {
        return refuse(word.span(), "be const");
    }
    if let Some(abi) = &signature.abi {
        return refuse(abi.span(), "have an ABI of its own");
    }
    if let Some(dots) = &signature.variadic {
        return refuse(dots.span(), "take any number of arguments");
    }
    let mut generics = Vec::new();
    for param in &signature.generics.params {
        match param {
            syn::GenericParam::Type(param) => generics.push(param.ident.clone()),
            syn::GenericParam::Lifetime(param) => {
                return refuse(param.span(), "have lifetimes: leave them out, its references live as long as the call")
            }
            syn::GenericParam::Const(param) => {
                return refuse(param.span(), "be generic over constants: use a constant of the module")
            }
        }
    }
    let mut params = Vec::new();
    for input in &signature.inputs {
        let FnArg::Typed(input) = input else {
            return refuse(input.span(), "take `self`: name the parameter and its type");
        };
        let Pat::Ident(pat) = &*input.pat else {
            return refuse(input.pat.span(), "take a parameter apart: give it a name and do that inside");
        };
        if pat.by_ref.is_some() || pat.subpat.is_some() {
            return refuse(pat.span(), "take a parameter apart: give it a name and do that inside");
        }
        params.push(Param { name: pat.ident.clone(), mutable: pat.mutability.is_some(), ty: (*input.ty).clone() });
    }
    let ret = match &signature.output {
        ReturnType::Default => None,
        ReturnType::Type(_, ty) => Some((**ty).clone()),
    };
    if let (true, Some(ty)) = (kernel, &ret) {
        if !matches!(ty, Type::Tuple(tuple) if tuple.elems.is_empty()) {
            return refuse(ty.span(), "return anything: write the result into a `&mut GlobalMut`");
        }
    }
    Ok(Function {
        name: signature.ident.clone(),
        instances: combinations(&generics, &instances, kernel, signature.ident.span())?,
        generics,
        params,
        ret,
        block: (*item.block).clone(),
        kernel,
        item: item.clone(),
    })
}

/// Every combination of the listed types, in the order of the generics.
fn combinations(generics: &[Ident], lists: &Instances, kernel: bool, span: Span) -> Result<Vec<Vec<Prim>>> {
    if !kernel {
        if let Some((name, _)) = lists.0.first() {
            return Err(Error::new(
                name.span(),
                "a device function is made for the types it is called with: only kernels list them",
            ));
        }
        return Ok(Vec::new());
    }
    if let Some((name, _)) = lists.0.iter().find(|(name, _)| !generics.contains(name)) {
        return Err(Error::new(name.span(), format!("the kernel has no type parameter `{name}`")));
    }
    let mut all = vec![Vec::new()];
    for name in generics {
        let Some((_, prims)) = lists.0.iter().find(|(listed, _)| listed == name) else {
            return Err(Error::new(
                span,
                format!("list the types that `{name}` stands for: `#[kernel({name} = [f32, f64])]`"),
            ));
        };
        all = all
            .into_iter()
            .flat_map(|before| prims.iter().map(move |prim| [before.clone(), vec![*prim]].concat()))
            .collect();
    }
    Ok(all)
}

/// The C++ name of an instance of a function.
pub fn instance_name(function: &Function, types: &[Ty]) -> String {
    let mut name = format!("{}_{}", if function.kernel { "kernel" } else { "device" }, function.name.unraw());
    for ty in types {
        name.push('_');
        name.extend(ty.to_string().chars().filter(|c| c.is_ascii_alphanumeric()));
    }
    name
}
