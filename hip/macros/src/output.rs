//! What comes out: the C++ of a module, and the Rust that takes the place of its source. That is the source itself, so that rustc checks it
//! (kernels inside a constant where nobody can call them, device functions as they are), and for each kernel a function that launches it.

use crate::body::{Body, Found, Site};
use crate::types::{Prim, Ty};
use crate::unit::{instance_name, Function, Instances, Role, Unit};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{Error, Item, ItemFn, ItemMod, Result, Type};

/// The C++ of a module, and the places in it that can report.
pub struct Translated {
    pub source: String,
    pub sites: Vec<Site>,
}

/// What a launch can pass: the tuples of `hip::KernelArgs` end there, and one is ours.
const MOST_ARGUMENTS: usize = 19;

/// Translates all kernels of a module, and the device functions that they call.
pub fn translate(unit: &Unit) -> Result<Translated> {
    let mut found = Found::default();
    let (mut declarations, mut definitions) = (String::new(), String::new());
    let mut errors: Option<Error> = None;
    let mut refuse = |error: Error| match &mut errors {
        Some(errors) => errors.combine(error),
        None => errors = Some(error),
    };
    let mut open: Vec<(usize, Vec<Ty>)> = Vec::new();
    for (at, function) in unit.functions.iter().enumerate() {
        for instance in &function.instances {
            open.push((at, instance.iter().map(|prim| Ty::Prim(*prim)).collect()));
        }
        if !function.kernel && function.generics.is_empty() {
            // Also where no kernel calls it yet: its mistakes are shown.
            open.push((at, Vec::new()));
        }
    }
    let mut done: Vec<(usize, Vec<Ty>)> = Vec::new();
    let mut edges: Vec<(usize, usize, Span)> = Vec::new();
    let mut failed: Vec<usize> = Vec::new();
    while let Some(next) = open.pop() {
        if done.contains(&next) || failed.contains(&next.0) {
            continue;
        }
        match Body::translate(unit, &unit.functions[next.0], &next.1, &mut found) {
            Ok((declaration, definition)) => {
                declarations.push_str(&declaration);
                definitions.push_str(&definition);
            }
            Err(error) => {
                refuse(error);
                // Its other instances would say the same.
                failed.push(next.0);
            }
        }
        for (called, types, span) in std::mem::take(&mut found.calls) {
            edges.push((next.0, called, span));
            open.push((called, types));
        }
        done.push(next);
        if let Some((_, called, span)) = edges.iter().find(|(from, to, _)| reaches(&edges, *to, *from)) {
            let name = &unit.functions[*called].name;
            refuse(Error::new(
                *span,
                format!("`{name}` would call itself: a thread has no stack to speak of; write a loop"),
            ));
            break;
        }
    }
    if let Some(errors) = errors {
        return Err(errors);
    }
    let mut source = String::from("// Made from Rust.\n#include \"hip_rust.h\"\n");
    found.structs.iter().for_each(|(_, text)| source.push_str(text));
    source.push_str(&declarations);
    source.push_str(&definitions);
    Ok(Translated { source, sites: found.sites })
}

/// Whether calls lead from one function to the other.
fn reaches(edges: &[(usize, usize, Span)], from: usize, to: usize) -> bool {
    let mut seen = vec![from];
    let mut at = 0;
    while at < seen.len() {
        if seen[at] == to {
            return true;
        }
        for (caller, called, _) in edges {
            if *caller == seen[at] && !seen.contains(called) {
                seen.push(*called);
            }
        }
        at += 1;
    }
    false
}

/// What stands in the brackets of our attributes.
struct Arguments {
    hip: TokenStream,
    instances: Instances,
}

impl Arguments {
    fn read(tokens: TokenStream) -> Result<Self> {
        let parser = |input: syn::parse::ParseStream| {
            let mut hip = quote!(::hip);
            if input.peek(syn::Token![crate]) {
                input.parse::<syn::Token![crate]>()?;
                input.parse::<syn::Token![=]>()?;
                let path = input.call(syn::Path::parse_mod_style)?;
                hip = quote!(#path);
                if !input.is_empty() {
                    input.parse::<syn::Token![,]>()?;
                }
            }
            Ok(Self { hip, instances: input.parse()? })
        };
        parser.parse2(tokens)
    }
}

/// `#[hip::kernel]` on a function by itself.
pub fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let made = || {
        let Arguments { hip, instances } = Arguments::read(arguments)?;
        let function: ItemFn = syn::parse2(item)?;
        let mut unit = Unit::default();
        unit.functions.push(crate::unit::read_function(&function, Role::Kernel, instances)?);
        let name = &function.sig.ident;
        let module = format_ident!("__HIP_{}", name.to_string().to_uppercase());
        let (statics, error) = statics(&unit, &hip, &module);
        let checked = checked(&unit.functions[0], &hip);
        let launch = launch(&unit, &unit.functions[0], &hip, &module)?;
        Ok(quote!(#error #checked #statics #launch))
    };
    made().unwrap_or_else(|error: Error| error.to_compile_error())
}

/// `#[hip::kernels]` on a module.
pub fn kernels(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let made = || {
        let Arguments { hip, instances } = Arguments::read(arguments)?;
        if let Some((name, _)) = instances.0.first() {
            return Err(Error::new(name.span(), "types are listed at the kernel: `#[kernel(T = [f32, f64])]`"));
        }
        let mut module: ItemMod = syn::parse2(item)?;
        let Some((_, items)) = &mut module.content else {
            return Err(Error::new(
                module.span(),
                "the kernels of a module are written where it is: `mod name { .. }`",
            ));
        };
        let (unit, rest) = read_items(std::mem::take(items))?;
        if !unit.functions.iter().any(|function| function.kernel) {
            return Err(Error::new(module.ident.span(), "the module has no kernel: mark a function with `#[kernel]`"));
        }
        let name = format_ident!("__HIP_MODULE");
        let (statics, error) = statics(&unit, &hip, &name);
        let mut functions = TokenStream::new();
        for function in &unit.functions {
            if function.kernel {
                functions.extend(checked(function, &hip));
                functions.extend(launch(&unit, function, &hip, &name)?);
            } else {
                let item = &function.item;
                functions.extend(quote!(#[allow(dead_code, unused_mut, clippy::all)] #item));
            }
        }
        let ItemMod { attrs, vis, ident, .. } = &module;
        Ok(quote! {
            #(#attrs)* #vis mod #ident {
                #[allow(unused_imports)]
                use #hip::kernel::prelude::*;
                #(#rest)*
                #error
                #functions
                #statics
            }
        })
    };
    made().unwrap_or_else(|error: Error| error.to_compile_error())
}

/// The kernels and what they use, and everything else of the module, which stays.
pub fn read_items(items: Vec<Item>) -> Result<(Unit, Vec<Item>)> {
    let mut unit = Unit::default();
    let mut rest = Vec::new();
    for mut item in items {
        if unit.add(&mut item)?.is_none() {
            rest.push(item);
        }
    }
    Ok((unit, rest))
}

/// `#[hip::device]` where no module translates it.
pub fn stray_device(item: TokenStream) -> TokenStream {
    let span = item.clone().into_iter().next().map_or_else(Span::call_site, |first| first.span());
    let error =
        Error::new(span, "a device function goes with the kernels that call it into a module with `#[hip::kernels]`")
            .to_compile_error();
    quote!(#error #item)
}

/// The C++ and its places in the source, and the error if there is none.
fn statics(unit: &Unit, hip: &TokenStream, name: &syn::Ident) -> (TokenStream, Option<TokenStream>) {
    let (translated, error) = match translate(unit) {
        Ok(translated) => (translated, None),
        Err(error) => (Translated { source: String::new(), sites: Vec::new() }, Some(error.to_compile_error())),
    };
    let source = &translated.source;
    let sites = translated.sites.iter().map(|site| {
        let (file, line, text) = (&site.file, site.line as u32, &site.text);
        quote!(#hip::kernel::Site { file: #file, line: #line, text: #text })
    });
    let statics = quote! {
        #[doc(hidden)]
        static #name: #hip::kernel::KernelModule =
            #hip::kernel::KernelModule::new(::core::module_path!(), #source, &[#(#sites),*]);
    };
    (statics, error)
}

/// The kernel as Rust, where rustc checks it and nobody can call it.
fn checked(function: &Function, hip: &TokenStream) -> TokenStream {
    let mut item = function.item.clone();
    item.vis = syn::Visibility::Inherited;
    item.attrs.retain(|attr| attr.path().is_ident("allow") || attr.path().is_ident("cfg"));
    quote! {
        const _: () = {
            #[allow(unused_imports)]
            use #hip::kernel::prelude::*;
            #[allow(dead_code, unused_mut, clippy::all)]
            #item
        };
    }
}

/// A type of the kernel's signature where the prelude is not in scope.
fn outside(ty: &Type, hip: &TokenStream) -> TokenStream {
    match ty {
        Type::Path(path) if path.path.is_ident("f16") || path.path.is_ident("bf16") => {
            quote!(#hip::kernel::prelude::#path)
        }
        Type::Array(array) => {
            let (of, len) = (outside(&array.elem, hip), &array.len);
            quote!([#of; #len])
        }
        other => quote!(#other),
    }
}

/// The function that launches the kernel.
fn launch(unit: &Unit, function: &Function, hip: &TokenStream, module: &syn::Ident) -> Result<TokenStream> {
    let ItemFn { vis, sig, attrs, .. } = &function.item;
    let name = &sig.ident;
    let docs = attrs.iter().filter(|attr| {
        ["doc", "cfg", "allow", "deprecated", "must_use"].iter().any(|known| attr.path().is_ident(known))
    });
    let (mut params, mut before, mut passed) = (Vec::new(), Vec::new(), Vec::new());
    for param in &function.params {
        let (name, span) = (&param.name, param.ty.span());
        let Type::Reference(reference) = &param.ty else {
            let ty = outside(&param.ty, hip);
            params.push(quote_spanned!(span=> #name: #ty));
            passed.push(quote!(#name));
            continue;
        };
        let (view, of) = match &*reference.elem {
            Type::Slice(slice) => (quote!(View), outside(&slice.elem, hip)),
            other => (quote!(ViewMut), last_argument(other, hip)),
        };
        params.push(quote_spanned!(span=> #name: impl ::core::convert::Into<#hip::#view<'hip, #of>>));
        let uses = if reference.mutability.is_some() { quote!(#name.as_view()) } else { quote!(#name) };
        before.push(quote! {
            let #name: #hip::#view<'hip, #of> = #name.into();
            stream.uses(#uses)?;
        });
        passed.push(quote!(#name.ptr()));
        passed.push(quote!(#name.len() as u64));
    }
    if passed.len() > MOST_ARGUMENTS {
        return Err(Error::new(
            sig.inputs.span(),
            format!(
                "a kernel takes {MOST_ARGUMENTS} arguments, where a slice counts as two: put numbers into a structure"
            ),
        ));
    }
    let index = unit.functions.iter().position(|other| other.name == function.name && other.kernel).unwrap_or_default();
    let function = &unit.functions[index];
    let (kernel, instances) = instances(function, hip);
    let generics = &sig.generics.params;
    let bounds = sig
        .generics
        .where_clause
        .as_ref()
        .map(|clause| clause.predicates.iter().collect::<Vec<_>>())
        .unwrap_or_default();
    let more = instance_bounds(function, hip);
    let note = format!(
        "Launches the kernel `{name}` on `stream`; the memory must belong to it. Returns when it is submitted."
    );
    Ok(quote! {
        #instances
        #(#docs)*
        #[doc = #note]
        #[allow(clippy::too_many_arguments, clippy::multiple_bound_locations)]
        #vis fn #name<'hip, #generics>(stream: &#hip::Stream, config: #hip::LaunchConfig, #(#params),*) -> #hip::Result<()>
        where #(#bounds,)* #more
        {
            #(#before)*
            // SAFETY: the arguments are those that the kernel was translated with; the memory belongs to the stream, and the kernel checks
            // every index.
            #[allow(unsafe_code)]
            unsafe { #module.launch(stream, config, #kernel, |context| (#(#passed,)* context,)) }
        }
    })
}

fn last_argument(ty: &Type, hip: &TokenStream) -> TokenStream {
    if let Type::Path(path) = ty {
        if let Some(syn::PathArguments::AngleBracketed(arguments)) =
            path.path.segments.last().map(|last| &last.arguments)
        {
            if let Some(syn::GenericArgument::Type(of)) = arguments.args.first() {
                return outside(of, hip);
            }
        }
    }
    quote!(())
}

/// The kernel's name, and what finds the one for the types of a launch.
fn instances(function: &Function, hip: &TokenStream) -> (TokenStream, TokenStream) {
    if function.generics.is_empty() {
        let name = instance_name(function, &[]);
        return (quote!(#name), TokenStream::new());
    }
    let generics = &function.generics;
    let (module, name) = (format_ident!("__hip_{}", function.name), function.name.to_string());
    let impls = function.instances.iter().map(|instance| {
        let types: Vec<Ty> = instance.iter().map(|prim| Ty::Prim(*prim)).collect();
        let kernel = instance_name(function, &types);
        let types = instance.iter().map(|prim| {
            let name = format_ident!("{}", prim.name());
            if matches!(prim, Prim::F16 | Prim::Bf16) {
                quote!(#hip::kernel::prelude::#name)
            } else {
                quote!(#name)
            }
        });
        quote!(impl Instance for (#(#types,)*) { const KERNEL: &'static str = #kernel; })
    });
    let message = format!("the kernel `{name}` was not made for these types");
    let label = format!("list them at the kernel, as in `#[kernel({} = [f32, f64])]`", generics[0]);
    let made = quote! {
        #[doc(hidden)]
        pub mod #module {
            #[diagnostic::on_unimplemented(message = #message, label = #label)]
            pub trait Instance { const KERNEL: &'static str; }
            #(#impls)*
        }
    };
    (quote!(<(#(#generics,)*) as #module::Instance>::KERNEL), made)
}

fn instance_bounds(function: &Function, hip: &TokenStream) -> TokenStream {
    if function.generics.is_empty() {
        return TokenStream::new();
    }
    let generics = &function.generics;
    let module = format_ident!("__hip_{}", function.name);
    quote!((#(#generics,)*): #module::Instance, #(#generics: #hip::DeviceCopy,)*)
}
