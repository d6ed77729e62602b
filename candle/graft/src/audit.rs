//! The audit: every identifier and every literal that speaks of CUDA must lie in a range that some rule has accounted for,
//! or be waived by name. This is what makes a new release of Candle safe to graft: what the rules do not know is found
//! and named instead of being silently left without ROCm.

use crate::error::Mention;
use crate::naming::mentions_cuda;
use crate::patch::Patch;
use crate::waivers::Waiver;
use proc_macro2::{TokenStream, TokenTree};

/// The waivers in force, and which of them have been needed so far.
pub struct Waivers<'a> {
    version: &'a str,
    entries: Vec<(&'a Waiver, bool)>,
}

impl<'a> Waivers<'a> {
    /// All waivers may excuse; those written for `version` must.
    pub fn new(waivers: &'a [Waiver], version: &'a str) -> Self {
        Waivers { version, entries: waivers.iter().map(|waiver| (waiver, false)).collect() }
    }

    /// Whether a mention is excused; remembers that the waiver was needed.
    pub fn excuse(&mut self, file: &str, what: &str) -> bool {
        let entry = self.entries.iter_mut().find(|(waiver, _)| waiver.file == file && waiver.what == what);
        entry.is_some_and(|(_, needed)| {
            *needed = true;
            true
        })
    }

    /// Waivers that were needed, as "file: what".
    pub fn needed(&self) -> Vec<String> {
        self.named(|_, needed| needed)
    }

    /// Waivers written for this release that excused nothing.
    pub fn stale(&self) -> Vec<String> {
        self.named(|waiver, needed| !needed && waiver.releases.contains(&self.version))
    }

    fn named(&self, wanted: impl Fn(&Waiver, bool) -> bool) -> Vec<String> {
        let chosen = self.entries.iter().filter(|(waiver, needed)| wanted(waiver, *needed));
        chosen.map(|(waiver, _)| format!("{}: {}", waiver.file, waiver.what)).collect()
    }
}

/// Mentions in a file that neither a rule nor a waiver accounts for.
pub fn unclaimed(patch: &Patch, tokens: TokenStream, waivers: &mut Waivers) -> Vec<Mention> {
    let mut mentions = Vec::new();
    collect(patch, tokens, waivers, &mut mentions);
    mentions
}

fn collect(patch: &Patch, tokens: TokenStream, waivers: &mut Waivers, mentions: &mut Vec<Mention>) {
    for token in tokens {
        let (what, span) = match token {
            TokenTree::Group(group) => {
                collect(patch, group.stream(), waivers, mentions);
                continue;
            }
            TokenTree::Ident(ident) => (ident.to_string(), ident.span()),
            TokenTree::Literal(literal) => (literal.to_string(), literal.span()),
            TokenTree::Punct(_) => continue,
        };
        let range = span.byte_range();
        // A doc comment reaches the token stream as a string literal; prose needs no sibling.
        let comment = patch.slice(&range).starts_with('/');
        if mentions_cuda(&what) && !comment && !patch.is_claimed(&range) && !waivers.excuse(patch.file, &what) {
            mentions.push(Mention { file: patch.file.to_string(), line: span.start().line, what });
        }
    }
}
