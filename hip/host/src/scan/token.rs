//! Cuts preprocessed C++ into tokens: just enough to tell names, literals and brackets apart. White space is
//! whatever lies between two tokens, and a line that starts with `#` is one token.

/// What a token is. Brackets and other signs are `Sign`, one character each, but for `::`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Number,
    /// A string or character literal, prefix and raw forms included.
    Text,
    Sign,
    /// A line marker or a pragma.
    Directive,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    /// Byte offset in the source.
    pub start: usize,
}

impl Token<'_> {
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub fn is(&self, text: &str) -> bool {
        self.text == text && self.kind != Kind::Text
    }
}

/// Never fails: a literal that does not end runs to the end of the text, and the compiler will say so.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(source.len() / 4);
    let mut at = 0;
    let mut line_start = true;
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        let kind = match byte {
            b'\n' => {
                line_start = true;
                at += 1;
                continue;
            }
            b' ' | b'\t' | b'\r' | 0x0b | 0x0c => {
                at += 1;
                continue;
            }
            b'#' if line_start => {
                at = find(bytes, at, |b| b == b'\n');
                Kind::Directive
            }
            b'"' | b'\'' => {
                at = end_of_quoted(bytes, at);
                Kind::Text
            }
            b'0'..=b'9' => {
                at = end_of_number(bytes, at);
                Kind::Number
            }
            b'.' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                at = end_of_number(bytes, at);
                Kind::Number
            }
            _ if is_word(byte) => {
                at = find(bytes, at, |b| !is_word(b));
                match (bytes.get(at), &source[start..at]) {
                    (Some(b'"'), "R" | "u8R" | "uR" | "UR" | "LR") => {
                        at = end_of_raw(bytes, at);
                        Kind::Text
                    }
                    (Some(b'"' | b'\''), "u8" | "u" | "U" | "L") => {
                        at = end_of_quoted(bytes, at);
                        Kind::Text
                    }
                    _ => Kind::Word,
                }
            }
            b':' if bytes.get(at + 1) == Some(&b':') => {
                at += 2;
                Kind::Sign
            }
            _ => {
                at += 1;
                Kind::Sign
            }
        };
        line_start = false;
        out.push(Token { kind, text: &source[start..at], start });
    }
    out
}

/// Bytes above ASCII are parts of a name, which keeps every cut on a character's boundary.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

fn find(bytes: &[u8], from: usize, wanted: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|&b| wanted(b)).map_or(bytes.len(), |n| from + n)
}

fn end_of_quoted(bytes: &[u8], quote_at: usize) -> usize {
    let quote = bytes[quote_at];
    let mut at = quote_at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b if b == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// From the quote of `R"mark( … )mark"`.
fn end_of_raw(bytes: &[u8], quote_at: usize) -> usize {
    let open = find(bytes, quote_at, |b| b == b'(');
    let mut close = vec![b')'];
    close.extend_from_slice(&bytes[(quote_at + 1).min(open)..open]);
    close.push(b'"');
    bytes[open..].windows(close.len()).position(|w| w == close).map_or(bytes.len(), |n| open + n + close.len())
}

/// Numbers may hold a separator (`1'000`) and a signed exponent (`1e-3`, `0x1p+2`).
fn end_of_number(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() {
        let next_is_word = bytes.get(at + 1).is_some_and(|&b| is_word(b));
        match bytes[at] {
            b'+' | b'-' if matches!(bytes[at - 1], b'e' | b'E' | b'p' | b'P') => at += 1,
            b'\'' if next_is_word => at += 1,
            b'.' => at += 1,
            b if is_word(b) => at += 1,
            _ => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).iter().map(|t| t.text).collect()
    }

    #[test]
    fn signs_names_and_numbers() {
        assert_eq!(texts("a::b+=1'000.5e-3f;"), ["a", "::", "b", "+", "=", "1'000.5e-3f", ";"]);
        assert_eq!(texts("0x1p+2+.5"), ["0x1p+2", "+", ".5"]);
    }

    #[test]
    fn literals_hide_what_they_hold() {
        assert_eq!(
            texts(r#"f("__global__ \" {", '\'', u8"}")"#),
            ["f", "(", r#""__global__ \" {""#, ",", r"'\''", ",", "u8\"}\"", ")"]
        );
        assert_eq!(texts("R\"x(a)\" { )x\" b"), ["R\"x(a)\" { )x\"", "b"]);
    }

    #[test]
    fn a_line_marker_is_one_token() {
        let all = tokens("# 1 \"a { b.h\" 2\nint x;\n  #pragma unroll\n");
        assert_eq!(all[0].kind, Kind::Directive);
        assert_eq!(all.last().map(|t| (t.kind, t.text)), Some((Kind::Directive, "#pragma unroll")));
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_text() {
        assert_eq!(texts("\"abc"), ["\"abc"]);
        assert_eq!(texts("'\\"), ["'\\"]);
        assert_eq!(texts("R\"x(abc"), ["R\"x(abc"]);
        assert_eq!(texts("R\"x"), ["R\"x"]);
    }
}
