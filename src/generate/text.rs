//! Tokens to text as they come: a token may be part of a character, and a tokenizer may write a token differently after
//! another one, so each piece is the difference between two decodings.

use tokenizers::Tokenizer;

/// Decodes a growing list of tokens piece by piece.
pub struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    tokens: Vec<u32>,
    // Tokens before `start` are printed and no longer matter; those up to `printed` give context to the rest.
    start: usize,
    printed: usize,
}

impl<'a> TextStream<'a> {
    /// A stream that continues after `prompt`.
    pub fn after(tokenizer: &'a Tokenizer, prompt: &[u32]) -> Self {
        let tokens = prompt.to_vec();
        // A few tokens of context are enough for any tokenizer's rules about neighbours.
        let start = tokens.len().saturating_sub(4);
        Self { tokenizer, printed: tokens.len(), start, tokens }
    }

    fn decode(&self, range: std::ops::Range<usize>) -> String {
        self.tokenizer.decode(&self.tokens[range], true).unwrap_or_default()
    }

    /// The text that `token` adds; empty while a character is incomplete.
    pub fn push(&mut self, token: u32) -> String {
        let before = self.decode(self.start..self.printed);
        self.tokens.push(token);
        let after = self.decode(self.start..self.tokens.len());
        if after.ends_with('\u{fffd}') {
            return String::new();
        }
        let piece = after.strip_prefix(before.as_str()).unwrap_or(&after[before.len().min(after.len())..]).to_string();
        self.start = self.printed;
        self.printed = self.tokens.len();
        piece
    }

    /// What is left when no more tokens come.
    pub fn finish(&self) -> String {
        let before = self.decode(self.start..self.printed);
        let after = self.decode(self.start..self.tokens.len());
        after.strip_prefix(before.as_str()).unwrap_or_default().to_string()
    }
}
