//! What the translation refuses, with which words and at which line; and the C++ of what it accepts. That the C++ computes what the Rust
//! says is tested where it can run, in `hip/runtime/tests/kernels_in_rust.rs`.

use crate::output::{read_items, translate, Translated};
use syn::{Error, Result};

fn translated(source: &str) -> Result<Translated> {
    let (unit, _) = read_items(syn::parse_str::<syn::File>(source)?.items)?;
    translate(&unit)
}

/// The words and the line of the first error.
fn refused(source: &str) -> Option<(String, usize)> {
    let error: Error = translated(source).err()?;
    let first = error.into_iter().next()?;
    Some((first.to_string(), first.span().start().line))
}

/// A kernel with `x: &[f32]`, `y: &mut GlobalMut<f32>`, `n: u32` around statements, which start in line 3.
fn kernel(body: &str) -> String {
    format!("#[kernel]\nfn k(x: &[f32], y: &mut GlobalMut<f32>, n: u32) {{\n{body}\n}}")
}

/// Bodies of kernels: the statements, the line of the error in them, and what it says.
const BODIES: &[(&str, usize, &str)] = &[
    // Types.
    ("let a = 1u32;\nlet b = a + 1u64;", 2, "expected `u32`, found `u64`: convert with `as u32`"),
    ("y[0] = n;", 1, "expected `f32`, found `u32`: convert with `as f32`"),
    ("y[n] = 1.0;", 1, "an index is a usize, not `u32`: convert with `as usize`"),
    ("y[0.5] = 1.0;", 1, "an index is a usize"),
    ("let a: f32 = 1;", 1, "expected `f32`, found an integer"),
    ("let a: u32 = 1.5;", 1, "expected `u32`, found a floating-point number"),
    ("let a = x[0] + 1;", 1, "expected `f32`, found an integer"),
    ("let a: bool = n;", 1, "expected `bool`, found `u32`"),
    ("if n { y[0] = 1.0; }", 1, "expected `bool`, found `u32`"),
    ("let a = 300u8;", 1, "300 is out of range for u8"),
    ("let a: i8 = 0;\nlet b = a + 200;", 2, "200 is out of range for i8"),
    ("let a = 1u128;", 1, "integers of the type `u128`"),
    ("let a: u128 = 1;", 1, "the largest integers are i64 and u64"),
    ("let a = true + false;", 1, "`+` is not defined for `bool`"),
    ("let a = -n;", 1, "a minus sign is not defined for `u32`"),
    ("let a = !x[0];", 1, "`!` is not defined for `f32`"),
    ("let a = x[0] & 1.0;", 1, "`&` is not defined for `f32`"),
    ("let a = x[0] << 1;", 1, "`<<` is not defined for `f32`"),
    ("let a;", 1, "the type of this is not known here"),
    ("let a = 1.0;\nlet b = a.sqrt();", 2, "the type of this is not known yet"),
    ("let a = x[0] as f16;", 1, "write `f16::from_f32(x)`"),
    ("let a = n as bool;", 1, "compare it with 0"),
    ("let a = true as f32;", 1, "go by way of `u32`"),
    ("let a: char = n;", 1, "kernels have no `char`"),
    ("let a: Vec<f32> = n;", 1, "kernels have no `Vec`"),
    ("let a: Thing = n;", 1, "kernels do not know the type `Thing`"),
    ("let a: &f32 = n;", 1, "references are for parameters only"),
    ("let a = f64::from(n) + f32::from(n);", 1, "not every u32 is a f32"),
    // Names.
    ("y[0] = K;", 1, "kernels do not know the name `K`: pass the value as a parameter"),
    ("let a = helper(1.0);", 1, "kernels do not know the function `helper`: mark it `#[device]`"),
    ("k(x, y, n);", 1, "`k` is a kernel, which the host launches"),
    ("let a = x[0].sqrrt();", 1, "`f32` has no method `sqrrt`"),
    ("let a = n.checked_add(1);", 1, "there is no `Option` here"),
    ("let a = x.iter();", 1, "kernels have no iterators: loop over `0..x.len()`"),
    ("let a = x.get(0);", 1, "there is no `Option` here: index with `x[i]`"),
    ("let a = n.field;", 1, "`u32` has no fields"),
    ("let a = x[0].max(1.0, 2.0);", 1, "`max` takes 1 argument, not 2"),
    ("barrier(1);", 1, "`barrier` takes 0 arguments, not 1"),
    // Writing.
    ("x[0] = 1.0;", 1, "this cannot be written"),
    ("let a = 1.0f32;\na = 2.0;", 2, "this cannot be written: it needs `mut`"),
    ("n += 1;", 1, "this cannot be written"),
    ("1 = 2;", 1, "this cannot be assigned to"),
    ("x = x;", 1, "this cannot be written"),
    // Constructs.
    ("println!(\"{}\", n);", 1, "kernels cannot call the macro `println!`: there is nothing to print to"),
    ("let a = vec![0; 4];", 1, "there is no allocator"),
    ("assert!(n > 0);", 1, "a thread cannot panic"),
    ("let f = |a: f32| a;", 1, "kernels have no closures"),
    ("unsafe { y[0] = 1.0; }", 1, "kernels have nothing that needs `unsafe`"),
    ("for v in x { y[0] = 1.0; }", 1, "a `for` loop runs over a range"),
    ("for i in 0..=9.5 { y[0] = 1.0; }", 1, "expected an integer, found a floating-point number"),
    ("for i in (0..9).map(n) { y[0] = 1.0; }", 1, "a `for` loop runs over a range"),
    ("if let 1 = n { y[0] = 1.0; }", 1, "kernels have no `if let`"),
    ("match x[0] { _ => {} }", 1, "a `match` here is on integers and bool, not on `f32`"),
    ("match n { Some(1) => {}\n_ => {} }", 1, "a pattern here is"),
    ("break;", 1, "there is no such loop around this"),
    ("'a: loop { break 'b; }", 1, "there is no such loop around this"),
    ("while n > 0 { break 1; }", 1, "only `loop` has a value"),
    ("let s = \"text\";", 1, "kernels have no text"),
    ("let a = &x[1..2];", 1, "a reference can only be taken for an argument"),
    ("let a = x[1..2];", 1, "a part of a slice cannot be named"),
    ("fn inner() {}", 1, "only constants can be defined inside"),
    ("let a = n?;", 1, "kernels have no `?`"),
    ("let (a, b, c, d, e) = n;", 1, "tuples have two to four parts"),
    ("return 1;", 1, "expected `()`, found an integer"),
    // Memory.
    ("let a = Shared::<f32>::new();", 1, "shared memory is an array"),
    ("let a = Shared::new();", 1, "say what it holds"),
    ("loop { let mut a = Shared::<[f32; 4]>::new(); }", 1, "make it before the loop"),
    ("let a = [0.0f32; 4];\nlet b = a.atomic_add(0, 1.0);", 2, "needs nothing atomic"),
    ("let a = y.atomic_max(0, 1.0);", 1, "`atomic_max` is not there for `f32`"),
    ("let a = [0.0f32; n];", 1, "the length of an array is made of literals"),
    ("let a = [0.0f32; 0];", 1, "an array has at least one element"),
    ("let mut a = [0; 4];\na[9u32] = 1;", 2, "an index is a usize"),
];

#[test]
fn bodies_are_refused_with_a_sentence_at_the_line() {
    let mut wrong = Vec::new();
    for (body, line, sentence) in BODIES {
        match refused(&kernel(body)) {
            Some((said, at)) if said.contains(sentence) && at == line + 2 => {}
            other => wrong.push(format!("{body:?}\n  expected {sentence:?} in line {line}\n  got {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whole modules, and what is said about them.
const MODULES: &[(&str, &str)] = &[
    ("#[kernel] fn k() -> f32 { 1.0 }", "a kernel cannot return anything: write the result into a `&mut GlobalMut`"),
    ("#[kernel] unsafe fn k() {}", "a kernel cannot be unsafe"),
    ("#[kernel] async fn k() {}", "a kernel cannot be async"),
    ("#[kernel] fn k<'a>(x: &'a [f32]) {}", "leave them out"),
    ("#[kernel] fn k<const N: usize>() {}", "generic over constants"),
    ("#[kernel] fn k<T: Number>(x: &[T]) {}", "list the types that `T` stands for: `#[kernel(T = [f32, f64])]`"),
    ("#[kernel(U = [f32])] fn k(x: &[f32]) {}", "the kernel has no type parameter `U`"),
    ("#[kernel(T = [f32, f32])] fn k<T: Number>(x: &[T]) {}", "`f32` is listed twice"),
    ("#[kernel(T = [String])] fn k<T: Number>(x: &[T]) {}", "`String` is not a number"),
    ("#[kernel(T = [])] fn k<T: Number>(x: &[T]) {}", "list the types that `T` stands for, as in"),
    ("#[device(T = [f32])] fn k<T: Number>(x: T) {}", "only kernels list them"),
    ("#[kernel] fn k(x: &mut [f32]) {}", "take `&mut GlobalMut<T>`"),
    ("#[kernel] fn k(x: &GlobalMut<f32>) {}", "take `&[T]` to read"),
    ("#[kernel] fn k(x: GlobalMut<f32>) {}", "device memory is taken by reference"),
    ("#[kernel] fn k(x: &f32) {}", "a kernel takes values, `&[T]` to read"),
    ("#[kernel] fn k(x: bool) {}", "pass a `u32`"),
    ("#[kernel] fn k(x: &[bool]) {}", "not `bool`"),
    ("#[kernel] fn k(x: (f32, f32)) {}", "a kernel takes numbers, arrays"),
    ("#[kernel] fn k((a, b): (f32, f32)) {}", "give it a name"),
    ("struct P { a: f32 } #[kernel] fn k(p: P) {}", "needs `#[repr(C)]`"),
    ("#[repr(C)] struct P(f32); #[kernel] fn k(p: P) {}", "needs fields with names"),
    ("#[repr(C)] struct P<T> { a: T } #[kernel] fn k(p: P<f32>) {}", "cannot be generic"),
    ("#[repr(C)] struct P { a: f32 } #[kernel] fn k() { let p = P { b: 1.0 }; }", "the field `a` of `P` is missing"),
    ("#[repr(C)] struct P { a: f32 } #[kernel] fn k(p: P) { let q = p.b; }", "`P` has no field `b`"),
    ("#[device] fn f(n: u32) -> u32 { f(n) } #[kernel] fn k() {}", "`f` would call itself"),
    ("#[device] fn f() { g() } #[device] fn g() { f() } #[kernel] fn k() {}", "would call itself"),
    (
        "#[device] fn f(a: &mut f32) {} #[kernel] fn k(y: &mut GlobalMut<f32>) { f(&mut y[0]); }",
        "pass the memory and the index",
    ),
    ("#[device] fn f(a: &mut f32) {} #[kernel] fn k() { let mut a = 1.0; f(a); }", "write `&mut` before it"),
    ("#[device] fn f(a: &mut f32) {} #[kernel] fn k() { let a = 1.0; f(&mut a); }", "it needs `mut`"),
    ("#[device] fn f(a: f32) {} #[kernel] fn k() { f(&1.0); }", "takes a value, not a reference"),
    ("#[device] fn f(a: f32) {} #[kernel] fn k() { f(1.0, 2.0); }", "`f` takes 1 argument, not 2"),
    ("#[device] fn f() { let mut a = Shared::<[f32; 4]>::new(); } #[kernel] fn k() { f(); }", "made in the kernel"),
    ("#[device] fn f() -> f32 { 1 } #[kernel] fn k() {}", "expected `f32`, found an integer"),
    ("#[device] fn f() -> &[f32] { 1 } #[kernel] fn k() {}", "references are for parameters only"),
    ("fn barrier() {} #[kernel] fn k() { barrier(); }", "`barrier` is a function of the host: mark it `#[device]`"),
    ("#[kernel] fn k() {} #[kernel] fn k() {}", "there are two functions `k`"),
    ("const A: u32 = B; const B: u32 = A; #[kernel] fn k() { let a = A; }", "needs itself"),
    (
        "#[kernel(T = [f32, u32])] fn k<T: Number>(y: &mut GlobalMut<T>) { y[0] = -T::ONE; }",
        "a minus sign is not defined for `u32`",
    ),
];

#[test]
fn modules_are_refused_with_a_sentence() {
    let mut wrong = Vec::new();
    for (source, sentence) in MODULES {
        match refused(source) {
            Some((said, _)) if said.contains(sentence) => {}
            other => wrong.push(format!("{source:?}\n  expected {sentence:?}\n  got {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_mistake_is_told_not_only_the_first() {
    let error = translated("#[kernel] fn a() { b(); } #[kernel] fn c() { d(); }").err();
    assert_eq!(error.map(|error| error.into_iter().count()), Some(2));
}

#[test]
fn literals_take_their_type_from_where_they_are_used() -> Result<()> {
    let source = translated(&kernel("let mut a = 0;\nlet c = 0.1;\na += n;\ny[0] = c;\nlet b = 7;"))?.source;
    assert!(source.contains("rs::u32 a_"), "{source}");
    assert!(source.contains("0.1f"), "{source}");
    assert!(source.contains("const rs::i32 b_"), "{source}");
    Ok(())
}

#[test]
fn what_runs_first_in_rust_runs_first_in_cpp() -> Result<()> {
    let source = "#[device] fn f(n: u32) -> u32 { n } #[kernel] fn k(y: &mut GlobalMut<u32>) { y[0] = f(1) - f(2); }";
    let source = translated(source)?.source;
    let (first, second) = (source.find("device_f(rs::u32(1ull)"), source.find("device_f(rs::u32(2ull)"));
    assert!(first.is_some() && first < second, "{source}");
    assert!(!source.contains("device_f(rs::u32(1ull), cx), "), "each call has a statement of its own: {source}");
    Ok(())
}

#[test]
fn the_compiler_is_told_the_lines_of_the_rust() -> Result<()> {
    let Translated { source, sites } = translated(&kernel("y[0] = 1.0;\n\ny[1] = 2.0;"))?;
    assert!(source.contains("#line 3 ") && source.contains("#line 5 "), "{source}");
    assert_eq!(sites.iter().map(|site| (site.line, site.text.as_str())).collect::<Vec<_>>(), [(3, "`y`"), (5, "`y`")]);
    Ok(())
}

#[test]
fn a_device_function_is_made_once_for_each_type() -> Result<()> {
    let source = "#[device] fn twice<T: Number>(a: T) -> T { a + a }
        #[kernel] fn k(y: &mut GlobalMut<f32>, z: &mut GlobalMut<u32>) { y[0] = twice(1.5) + twice(y[0]); z[0] = twice(1); }";
    let source = translated(source)?.source;
    let count = |text: &str| source.matches(text).count();
    assert_eq!((count("device_twice_f32(rs::f32 a"), count("device_twice_u32(rs::u32 a")), (2, 2), "{source}");
    Ok(())
}
