//! Our C declarations against the vendor's own headers, for the tests of whoever declares a table.
//!
//! [`Assertions`] turns tables and constants into a C++ file of static assertions (the type of every function, the value
//! of every constant, sizes and places of fields) and lets the compiler say whether they are true. Nothing here knows a
//! particular library, and nothing but tests needs it: it is behind the feature `headers`.

use crate::Function;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A C++ file of static assertions in the making.
#[derive(Clone, Debug)]
pub struct Assertions {
    text: String,
    header: String,
}

impl Assertions {
    /// Starts with `prelude`, the definitions and includes. `header` is the text of the headers, to tell which optional
    /// functions this release of them has.
    pub fn new(prelude: &str, header: impl Into<String>) -> Self {
        let text = format!("#include <cstddef>\n#include <cstdint>\n{prelude}\n");
        Self { text, header: header.into() }
    }

    /// Adds a condition in C++.
    pub fn condition(&mut self, condition: &str, message: &str) -> &mut Self {
        writeln!(self.text, "static_assert({condition}, \"{message}\");").expect("writing to a string");
        self
    }

    /// Adds the values of constants.
    pub fn constants<'a>(&mut self, named: impl IntoIterator<Item = &'a (&'a str, i64)>) -> &mut Self {
        for (name, value) in named {
            self.condition(&format!("static_cast<long>({name}) == {value}L"), name);
        }
        self
    }

    /// Adds the types of functions. An optional one that the headers do not mention is passed over.
    pub fn functions<'a>(&mut self, functions: impl IntoIterator<Item = &'a Function>) -> &mut Self {
        for function in functions {
            if function.optional && !self.header.contains(&format!("{}(", function.name)) {
                continue;
            }
            let arguments: Vec<String> = function.arguments.iter().map(|(_, rust)| c_type(rust)).collect();
            let pointer = format!("{}(*)({})", c_type(function.returns), arguments.join(", "));
            // `static_cast` picks the C function where the header adds C++ overloads beside it.
            let condition = format!("static_cast<{pointer}>(&{}) != nullptr || true", function.name);
            self.condition(&condition, &format!("signature of {}", function.name));
        }
        self
    }

    /// Compiles the file with these include folders and options, and panics with the compiler's words where an assertion is false.
    /// Each of `wrong` replaces a text by another, which must make the compiler refuse: a check that cannot fail is none.
    pub fn check(&self, includes: &[PathBuf], options: &[&str], wrong: &[(&str, &str)]) {
        let place = || includes.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        if let Err(words) = compile(includes, options, &self.text) {
            panic!("{} disagrees with our tables:\n{words}", place());
        }
        eprintln!("{}: {} assertions hold", place(), self.text.matches("static_assert").count());
        for (ours, other) in wrong {
            let text = self.text.replace(ours, other);
            assert_ne!(text, self.text, "`{ours}` is not among the assertions");
            assert!(compile(includes, options, &text).is_err(), "`{other}` in place of `{ours}` went unnoticed");
        }
    }
}

/// The C spelling of a Rust type of the tables. What is not known keeps its name, which is the C one.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(inner) = rust.strip_prefix("*mut ") {
        return format!("{}*", c_type(inner));
    }
    if let Some(inner) = rust.strip_prefix("*const ") {
        return format!("{} const*", c_type(inner));
    }
    let c = match rust {
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "c_ulonglong" => "unsigned long long",
        "c_longlong" => "long long",
        "c_char" => "char",
        "c_void" => "void",
        "usize" => "size_t",
        "u8" => "unsigned char",
        "u16" => "unsigned short",
        "i32" => "int32_t",
        "u32" => "uint32_t",
        "i64" => "int64_t",
        "u64" => "uint64_t",
        "f32" => "float",
        "f64" => "double",
        other => other,
    };
    c.to_string()
}

/// The include folders that have `marker` in them: those in `always`, then those that the variable lists, separated by
/// colons.
pub fn folders(always: &[&str], variable: &str, marker: &str) -> Vec<PathBuf> {
    let listed: OsString = std::env::var_os(variable).unwrap_or_default();
    let always = always.iter().map(PathBuf::from);
    always.chain(std::env::split_paths(&listed)).filter(|folder| folder.join(marker).exists()).collect()
}

/// The text of some headers below an include folder, one after the other. A missing one is empty.
pub fn read(include: &Path, names: &[&str]) -> String {
    names.iter().map(|name| std::fs::read_to_string(include.join(name)).unwrap_or_default()).collect()
}

fn compile(includes: &[PathBuf], options: &[&str], text: &str) -> Result<(), String> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let unique = format!("header-assertions-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let file = std::env::temp_dir().join(format!("{unique}.cpp"));
    std::fs::write(&file, text).expect("a temporary file");
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-fsyntax-only", "-w"]).args(options);
    for include in includes {
        compiler.arg("-I").arg(include);
    }
    let output = compiler.arg(&file).output().expect("a C++ compiler");
    std::fs::remove_file(&file).expect("the temporary file goes");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
