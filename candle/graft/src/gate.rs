//! What a `#[cfg(...)]` says about CUDA. The predicate is evaluated twice, with the feature `cuda` on and off; atoms
//! that have nothing to do with CUDA stay unknown, so that `any(feature = "cuda", feature = "metal")` is not mistaken
//! for CUDA's own code.

use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, LitStr, Token};

/// Features that stand for NVIDIA libraries on top of CUDA. What they gate has no ROCm counterpart to be cloned.
const LIBRARY_FEATURES: [&str; 4] = ["cudnn", "cutile", "nccl", "flash-attn"];

/// What the attributes of a piece of code say about CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Compiled whether or not CUDA is on.
    Open,
    /// Compiled only with the feature `cuda`.
    Cuda,
    /// Compiled only without the feature `cuda`.
    WithoutCuda,
    /// Compiled only with an NVIDIA library's feature.
    Library,
}

/// Reads the gate off a list of attributes; several `cfg`s must all hold.
pub fn gate(attributes: &[Attribute]) -> Gate {
    let (mut with_cuda, mut without_cuda) = (Truth::True, Truth::True);
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")) {
        let Ok(predicate) = attribute.parse_args::<Predicate>() else { continue };
        with_cuda = with_cuda.and(predicate.evaluate(true));
        without_cuda = without_cuda.and(predicate.evaluate(false));
    }
    match (with_cuda, without_cuda) {
        (Truth::False, Truth::False) => Gate::Library,
        (Truth::False, _) => Gate::WithoutCuda,
        (_, Truth::False) => Gate::Cuda,
        _ => Gate::Open,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    fn and(self, other: Truth) -> Truth {
        match (self, other) {
            (Truth::False, _) | (_, Truth::False) => Truth::False,
            (Truth::True, Truth::True) => Truth::True,
            _ => Truth::Unknown,
        }
    }
    fn not(self) -> Truth {
        match self {
            Truth::True => Truth::False,
            Truth::False => Truth::True,
            Truth::Unknown => Truth::Unknown,
        }
    }
    fn or(self, other: Truth) -> Truth {
        self.not().and(other.not()).not()
    }
}

enum Predicate {
    All(Vec<Predicate>),
    Any(Vec<Predicate>),
    Not(Box<Predicate>),
    Feature(String),
    Other,
}

impl Parse for Predicate {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let name: Ident = input.call(syn::ext::IdentExt::parse_any)?;
        if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            let value: LitStr = input.parse()?;
            return Ok(if name == "feature" { Predicate::Feature(value.value()) } else { Predicate::Other });
        }
        if !input.peek(syn::token::Paren) {
            return Ok(Predicate::Other);
        }
        let inner;
        syn::parenthesized!(inner in input);
        match name.to_string().as_str() {
            "all" => Ok(Predicate::All(list(&inner)?)),
            "any" => Ok(Predicate::Any(list(&inner)?)),
            "not" => Ok(Predicate::Not(Box::new(inner.parse()?))),
            _ => {
                inner.parse::<TokenStream>()?;
                Ok(Predicate::Other)
            }
        }
    }
}

fn list(input: ParseStream) -> syn::Result<Vec<Predicate>> {
    Ok(Punctuated::<Predicate, Token![,]>::parse_terminated(input)?.into_iter().collect())
}

impl Predicate {
    fn evaluate(&self, cuda: bool) -> Truth {
        match self {
            Predicate::All(parts) => parts.iter().fold(Truth::True, |truth, part| truth.and(part.evaluate(cuda))),
            Predicate::Any(parts) => parts.iter().fold(Truth::False, |truth, part| truth.or(part.evaluate(cuda))),
            Predicate::Not(part) => part.evaluate(cuda).not(),
            Predicate::Feature(name) if name == "cuda" && cuda => Truth::True,
            Predicate::Feature(name) if name == "cuda" => Truth::False,
            Predicate::Feature(name) if LIBRARY_FEATURES.contains(&name.as_str()) => Truth::False,
            Predicate::Feature(_) | Predicate::Other => Truth::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn gates_are_read_by_what_they_mean() {
        for (predicate, expected) in [
            (r#"feature = "cuda""#, Gate::Cuda),
            (r#"not(feature = "cuda")"#, Gate::WithoutCuda),
            (r#"all(feature = "cuda", target_os = "linux")"#, Gate::Cuda),
            (r#"any(feature = "cuda", feature = "metal")"#, Gate::Open),
            (r#"not(any(feature = "cuda", feature = "metal"))"#, Gate::WithoutCuda),
            (r#"feature = "cudnn""#, Gate::Library),
            (r#"not(feature = "cudnn")"#, Gate::Open),
            (r#"all(feature = "cuda", feature = "cutile")"#, Gate::Library),
            (r#"test"#, Gate::Open),
        ] {
            let tokens: TokenStream = predicate.parse().expect("tokens");
            assert_eq!(gate(&[parse_quote!(#[cfg(#tokens)])]), expected, "{predicate}");
        }
    }

    #[test]
    fn several_cfgs_must_all_hold() {
        let attributes: [Attribute; 2] =
            [parse_quote!(#[cfg(feature = "cuda")]), parse_quote!(#[cfg(feature = "nccl")])];
        assert_eq!(gate(&attributes), Gate::Library);
    }
}
