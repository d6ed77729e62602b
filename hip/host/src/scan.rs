//! Reads preprocessed HIP and makes C++ of it: finds the kernels, and replaces what C++ does not know (`__global__`,
//! `__device__`, `__shared__`, dynamic shared memory). Works on tokens and brackets; everything else is left to the compiler,
//! lines included, so that its diagnostics point into the text as it was written.

mod token;

use token::{tokens, Kind, Token};

/// What to make of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    /// The compiler is g++, which spells some pragmas differently.
    pub gcc: bool,
    /// Let kernels take large structs by reference (see `Parameter` in entry.h).
    pub by_reference: bool,
    /// A folder whose name is dropped from the line markers.
    pub header_folder: &'a str,
}

/// A kernel that can be launched by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// The name a launch asks for: plain for `extern "C"`, qualified by its namespaces otherwise.
    pub name: String,
    /// How C++ names it from anywhere.
    pub path: String,
}

/// The text as C++, and what was found in it.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub text: String,
    pub kernels: Vec<Kernel>,
}

pub(crate) fn scan(source: &str, rules: Rules) -> Scanned {
    let mut scanner = Scanner {
        source,
        tokens: tokens(source),
        rules,
        edits: Vec::new(),
        scopes: Vec::new(),
        found: Vec::new(),
        globals: Vec::new(),
        device_words: Vec::new(),
    };
    scanner.directives();
    scanner.device_words = (0..scanner.tokens.len()).filter(|&at| scanner.is(at, "__device__")).collect();
    scanner.declarations();
    scanner.finish()
}

enum Scope<'a> {
    Namespace(Option<&'a str>),
    /// `extern "C" { … }`
    Linkage,
    Class,
}

/// A declaration with `__global__`, seen once or more.
struct Found {
    kernel: Kernel,
    definitions: usize,
}

/// Dynamic shared memory declared outside of functions: the type, the name, the dimensions.
struct Dynamic<'a> {
    name: &'a str,
    declaration: String,
}

struct Scanner<'a> {
    source: &'a str,
    tokens: Vec<Token<'a>>,
    rules: Rules<'a>,
    /// (start, end, replacement) in the source.
    edits: Vec<(usize, usize, String)>,
    scopes: Vec<Scope<'a>>,
    found: Vec<Found>,
    globals: Vec<Dynamic<'a>>,
    /// Every `__device__` that says nothing here and is dropped.
    device_words: Vec<usize>,
}

impl<'a> Scanner<'a> {
    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|t| t.is(text))
    }

    fn kind(&self, at: usize) -> Option<Kind> {
        self.tokens.get(at).map(|t| t.kind)
    }

    /// The token after the bracket that closes the one at `open`.
    fn after_bracket(&self, open: usize) -> usize {
        let (left, right) = match self.tokens[open].text {
            "(" => ("(", ")"),
            "[" => ("[", "]"),
            _ => ("{", "}"),
        };
        let mut depth = 0;
        for at in open..self.tokens.len() {
            if self.is(at, left) {
                depth += 1;
            } else if self.is(at, right) {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
        }
        self.tokens.len()
    }

    /// The token after `< … >`; brackets inside may hold comparisons.
    fn after_angles(&self, open: usize) -> usize {
        let mut depth = 0;
        let mut at = open;
        while at < self.tokens.len() {
            if self.is(at, "(") || self.is(at, "[") || self.is(at, "{") {
                at = self.after_bracket(at);
                continue;
            }
            if self.is(at, "<") {
                depth += 1;
            } else if self.is(at, ">") {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            } else if self.is(at, ";") {
                break;
            }
            at += 1;
        }
        at
    }

    /// Steps over an attribute such as `__attribute__((…))`, `alignas(…)` or `[[…]]`.
    fn after_attribute(&self, at: usize) -> Option<usize> {
        let word = self.tokens[at];
        if word.is("[") && self.is(at + 1, "[") {
            return Some(self.after_bracket(at));
        }
        let takes_brackets =
            ["__attribute__", "__attribute", "alignas", "_Alignas", "__declspec", "decltype", "__typeof__"];
        (takes_brackets.iter().any(|name| word.is(name)) && self.is(at + 1, "(")).then(|| self.after_bracket(at + 1))
    }

    fn replace(&mut self, at: usize, text: &str) {
        let token = self.tokens[at];
        self.edits.push((token.start, token.end(), text.to_owned()));
    }

    /// Replaces the tokens `first..end`, keeping the number of lines.
    fn replace_span(&mut self, first: usize, end: usize, mut text: String) {
        let (start, end) = (self.tokens[first].start, self.tokens[end - 1].end());
        let lines = self.source[start..end].matches('\n').count();
        text.extend(std::iter::repeat_n('\n', lines));
        self.edits.push((start, end, text));
    }

    fn directives(&mut self) {
        let prefix = format!("\"{}/", self.rules.header_folder);
        for at in 0..self.tokens.len() {
            let token = self.tokens[at];
            if token.kind != Kind::Directive {
                continue;
            }
            let words: Vec<&str> = token.text[1..].split_whitespace().collect();
            match words[..] {
                ["pragma", "unroll" | "nounroll", ..] if self.rules.gcc => {
                    let count = match words[1..] {
                        ["nounroll"] => Some(1),
                        ["unroll"] => Some(16),
                        ["unroll", count] => count.trim_matches(['(', ')']).parse::<u16>().ok().filter(|n| *n > 0),
                        _ => None,
                    };
                    // g++ wants a number here; without one the loop is left to its judgement.
                    let text = count.map_or(String::new(), |n| format!("#pragma GCC unroll {n}"));
                    self.edits.push((token.start, token.end(), text));
                }
                [number, ..] if number.parse::<u32>().is_ok() && token.text.contains(&prefix) => {
                    self.edits.push((token.start, token.end(), token.text.replacen(&prefix, "\"", 1)));
                }
                _ => {}
            }
        }
    }

    /// Walks the declarations of namespaces and classes; bodies of functions are looked at as a whole.
    fn declarations(&mut self) {
        let mut at = 0;
        let mut start = 0;
        while at < self.tokens.len() {
            let token = self.tokens[at];
            let next = match token.text {
                _ if token.kind == Kind::Directive && start == at => {
                    start = at + 1;
                    at + 1
                }
                "(" | "[" if token.kind == Kind::Sign => self.after_bracket(at),
                "template" if self.is(at + 1, "<") => self.after_angles(at + 1),
                ";" => {
                    self.declaration(start, at, false);
                    start = at + 1;
                    at + 1
                }
                "}" => {
                    self.scopes.pop();
                    start = at + 1;
                    at + 1
                }
                ":" if start + 1 == at && ["public", "private", "protected"].contains(&self.tokens[start].text) => {
                    start = at + 1;
                    at + 1
                }
                "{" => match self.opened(start, at) {
                    Opened::Scope(scope) => {
                        self.scopes.push(scope);
                        start = at + 1;
                        at + 1
                    }
                    Opened::Function => {
                        let end = self.after_bracket(at);
                        self.declaration(start, at, true);
                        self.shared_in(at, end);
                        self.bring_dynamic_into(start, at, end);
                        start = end;
                        end
                    }
                    Opened::Value => self.after_bracket(at),
                },
                _ => at + 1,
            };
            at = next.max(at + 1);
        }
    }

    /// What the brace at `brace` begins, judged by the declaration before it.
    fn opened(&self, start: usize, brace: usize) -> Opened<'a> {
        let mut at = start;
        let (mut class, mut function, mut operator) = (false, false, false);
        while at < brace {
            let token = self.tokens[at];
            if let Some(next) = self.after_attribute(at) {
                at = next;
                continue;
            }
            match token.text {
                "template" if self.is(at + 1, "<") => {
                    at = self.after_angles(at + 1);
                    continue;
                }
                "namespace" => {
                    let name = (at + 1..brace).filter(|&i| self.kind(i) == Some(Kind::Word)).map(|i| self.tokens[i]);
                    let name: Vec<_> = name.filter(|word| !word.is("inline")).collect();
                    return Opened::Scope(Scope::Namespace(match (name.first(), name.last()) {
                        (Some(first), Some(last)) => Some(&self.source[first.start..last.end()]),
                        _ => None,
                    }));
                }
                "extern" if self.kind(at + 1) == Some(Kind::Text) && at + 2 == brace => {
                    return Opened::Scope(Scope::Linkage);
                }
                "enum" => return Opened::Value,
                "class" | "struct" | "union" if !function => class = true,
                "operator" => operator = true,
                // A value's initialiser, unless it is part of an operator's name.
                "=" if !function && !operator => return Opened::Value,
                "(" => {
                    function = true;
                    at = self.after_bracket(at);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        match (function, class) {
            (true, _) => Opened::Function,
            (false, true) => Opened::Scope(Scope::Class),
            (false, false) => Opened::Value,
        }
    }

    /// A declaration in the tokens `start..end`, before its `;` or the brace of its body.
    fn declaration(&mut self, start: usize, end: usize, defined: bool) {
        if start >= end {
            return;
        }
        let explicit_instantiation = self.is(start, "template") && !self.is(start + 1, "<");
        let mut at = start;
        let (mut global, mut shared, mut device) = (None, None, None);
        let (mut inline, mut template, mut external, mut function, mut value) = (false, false, false, false, false);
        let mut parameters = None;
        while at < end {
            if let Some(next) = self.after_attribute(at) {
                at = next;
                continue;
            }
            match self.tokens[at].text {
                "template" if self.is(at + 1, "<") => {
                    template = true;
                    at = self.after_angles(at + 1);
                    continue;
                }
                "__global__" => global = Some(at),
                "__shared__" => shared = Some(at),
                "__device__" if !value => device = Some(at),
                "inline" => inline = true,
                "=" | "{" => value = true,
                // Neither of these declares a variable.
                "using" | "typedef" | "friend" | "operator" | "class" | "struct" | "union" | "enum" => function = true,
                "extern" if self.kind(at + 1) == Some(Kind::Text) => external = true,
                "(" => {
                    parameters.get_or_insert(at);
                    function |= !value;
                    at = self.after_bracket(at);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        if let Some(shared) = shared {
            self.shared(start, shared, end, true);
        }
        if let Some(device) = device.filter(|_| !function) {
            // A variable of the device: visible, so that hipModuleGetGlobal finds it.
            self.device_words.retain(|&at| at != device);
            self.replace(device, "__attribute__((visibility(\"default\"), unused))");
        }
        let Some(global) = global else { return };
        // `inline`, because the only copy that is wanted is the one in the loop over threads.
        self.replace(global, if inline || explicit_instantiation { "" } else { "inline" });
        let Some(open) = parameters.filter(|&open| open > start && self.kind(open - 1) == Some(Kind::Word)) else {
            return;
        };
        if template || explicit_instantiation || self.scopes.iter().any(|scope| matches!(scope, Scope::Class)) {
            return;
        }
        let simple = self.tokens[open - 1].text;
        let external = external || self.scopes.iter().any(|scope| matches!(scope, Scope::Linkage));
        let mut path = String::from("::");
        for scope in &self.scopes {
            if let Scope::Namespace(Some(name)) = scope {
                path.push_str(name);
                path.push_str("::");
            }
        }
        path.push_str(simple);
        let name = if external { simple.to_owned() } else { path[2..].to_owned() };
        let kernel = Kernel { name, path };
        match self.found.iter_mut().find(|found| found.kernel == kernel) {
            Some(found) => found.definitions += usize::from(defined),
            None => self.found.push(Found { kernel, definitions: usize::from(defined) }),
        }
        if self.rules.by_reference {
            self.parameters(open);
        }
    }

    /// Wraps the type of each parameter that could be a struct: `Type name` becomes `hip_host::Parameter<Type> name`.
    fn parameters(&mut self, open: usize) {
        let close = self.after_bracket(open) - 1;
        let mut first = open + 1;
        let mut at = first;
        let (mut plain, mut last) = (true, None);
        while at <= close {
            if at == close || self.is(at, ",") {
                let last = last.take().unwrap_or(at);
                // The name is the last word, and something that can end a type stands before it.
                let named = last >= first + 2
                    && self.kind(last - 1) == Some(Kind::Word)
                    && (self.is(last - 2, ">") || self.kind(last - 2) == Some(Kind::Word))
                    && !ENDS_A_TYPE.contains(&self.tokens[last - 1].text);
                if plain && named {
                    let start = self.tokens[first].start;
                    let end = self.tokens[last - 2].end();
                    self.edits.push((start, start, "hip_host::Parameter<".to_owned()));
                    self.edits.push((end, end, ">".to_owned()));
                }
                first = at + 1;
                plain = true;
            } else if self.is(at, "=") {
                last.get_or_insert(at);
            } else if self.is(at, "<") && last.is_none() {
                at = self.after_angles(at);
                continue;
            } else if self.is(at, "(") || self.is(at, "[") || self.is(at, "{") {
                plain &= last.is_some();
                at = self.after_bracket(at);
                continue;
            } else if (self.is(at, "*") || self.is(at, "&") || self.is(at, ".")) && last.is_none() {
                plain = false;
            }
            at += 1;
        }
    }

    /// Every `__shared__` in a function's body.
    fn shared_in(&mut self, open: usize, end: usize) {
        let mut start = open + 1;
        for at in open + 1..end {
            match self.tokens[at].text {
                ";" | "{" | "}" => start = at + 1,
                _ if self.kind(at) == Some(Kind::Directive) => start = at + 1,
                "__shared__" => {
                    let end = (at..end).find(|&i| self.is(i, ";")).unwrap_or(end);
                    self.shared(start, at, end, false);
                }
                _ => {}
            }
        }
    }

    /// One declaration of shared memory, in the tokens `start..end`, before its `;`.
    fn shared(&mut self, start: usize, shared: usize, end: usize, namespace: bool) {
        let has = |word: &str| (start..end).any(|at| self.is(at, word));
        if !has("extern") {
            let text = if has("static") { "thread_local" } else { "static thread_local" };
            return self.replace(shared, text);
        }
        let mut kept = Vec::new();
        let mut at = start;
        while at < end {
            match self.after_attribute(at).filter(|_| !self.is(at, "decltype")) {
                Some(next) => at = next,
                None => {
                    if !["extern", "__shared__", "static", "thread_local"].iter().any(|word| self.is(at, word)) {
                        kept.push(at);
                    }
                    at += 1;
                }
            }
        }
        let dims = kept.iter().position(|&at| self.is(at, "[")).unwrap_or(kept.len());
        if dims < 2 {
            return; // no type and name: the compiler will say so
        }
        let text = |at: &[usize]| at.iter().map(|&at| self.tokens[at].text).collect::<Vec<_>>().join(" ");
        let (kind, name, dims) = (text(&kept[..dims - 1]), self.tokens[kept[dims - 1]].text, text(&kept[dims..]));
        let declaration =
            format!("{kind} (&{name}){dims} = *reinterpret_cast<{kind} (*){dims}>(hip_host::dynamic_shared)");
        if namespace {
            self.globals.push(Dynamic { name, declaration });
            self.replace_span(start, end, String::new());
        } else {
            self.replace_span(start, end, declaration);
        }
    }

    /// Dynamic shared memory that was declared outside: functions that mention it declare it for themselves, one block
    /// further out than their body, so that their own names still come first. A parameter of that name hides it.
    fn bring_dynamic_into(&mut self, start: usize, open: usize, end: usize) {
        let within = |name: &str, first: usize, end: usize| (first..end).any(|at| self.is(at, name));
        let mentioned = |dynamic: &&Dynamic| within(dynamic.name, open, end) && !within(dynamic.name, start, open);
        let declarations: Vec<&str> =
            self.globals.iter().filter(mentioned).map(|dynamic| dynamic.declaration.as_str()).collect();
        if declarations.is_empty() {
            return;
        }
        let text = format!("{{ {}; {{", declarations.join("; "));
        self.replace(open, &text);
        self.replace(end - 1, "}}");
    }

    fn finish(mut self) -> Scanned {
        for at in std::mem::take(&mut self.device_words) {
            self.replace(at, "");
        }
        // Stable: two insertions at one place stay in the order they were made.
        self.edits.sort_by_key(|edit| edit.0);
        let mut text = String::with_capacity(self.source.len() + 4096);
        let mut at = 0;
        for (start, end, replacement) in &self.edits {
            // An edit inside an earlier one (a marker within a replaced declaration) has been taken care of.
            if *start < at {
                continue;
            }
            text.push_str(&self.source[at..*start]);
            text.push_str(replacement);
            at = *end;
        }
        text.push_str(&self.source[at..]);
        // Two definitions of a name are overloads: only a name expression can say which one is meant.
        let kernels = self.found.into_iter().filter(|found| found.definitions == 1).map(|found| found.kernel).collect();
        Scanned { text, kernels }
    }
}

enum Opened<'a> {
    Scope(Scope<'a>),
    Function,
    /// An initialiser, an enumeration: nothing inside concerns us.
    Value,
}

/// Words that are a type by themselves, so that what they end is a parameter without a name.
const ENDS_A_TYPE: &[&str] =
    &["int", "unsigned", "signed", "long", "short", "char", "float", "double", "bool", "const", "volatile", "void"];

#[cfg(test)]
mod tests;
