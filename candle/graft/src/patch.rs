//! A source file and what is to be done to it: insertions and replacements by byte range. The text is edited, never pretty-printed from a syntax tree, so that upstream's formatting, comments
//! and line structure survive.

use crate::report::{Rule, Site};
use std::ops::Range;

/// A file on its way through the rules.
pub struct Patch<'a> {
    /// Path relative to the crate, with forward slashes.
    pub file: &'a str,
    /// Upstream's text.
    pub text: &'a str,
    edits: Vec<Edit>,
}

struct Edit {
    at: Range<usize>,
    text: String,
    site: Option<Site>,
}

impl<'a> Patch<'a> {
    /// A file with nothing to be done to it yet.
    pub fn new(file: &'a str, text: &'a str) -> Self {
        Patch { file, text, edits: Vec::new() }
    }

    /// The source text of a range.
    pub fn slice(&self, range: &Range<usize>) -> &'a str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    /// The white space before a position's line.
    pub fn indent(&self, position: usize) -> &'a str {
        let line_start = self.text[..position].rfind('\n').map_or(0, |newline| newline + 1);
        let line = &self.text[line_start..position];
        &line[..line.len() - line.trim_start().len()]
    }

    /// The line of a position, counted from one.
    pub fn line(&self, position: usize) -> usize {
        self.text[..position].matches('\n').count() + 1
    }

    /// Inserts text at a position for the sake of `site`.
    pub fn insert(&mut self, position: usize, text: String, rule: Rule, site: usize) {
        let site = Site { file: self.file.to_string(), line: self.line(site), rule };
        self.edits.push(Edit { at: position..position, text, site: Some(site) });
    }

    /// Replaces a range, as a part of a change already counted.
    pub fn replace(&mut self, range: Range<usize>, text: String) {
        self.edits.push(Edit { at: range, text, site: None });
    }

    /// The patched text, and the sites in order.
    pub fn finish(mut self) -> (String, Vec<Site>) {
        // Stable: several insertions at one position stay in the order in which the rules made them.
        self.edits.sort_by_key(|edit| edit.at.start);
        let mut text = String::with_capacity(self.text.len() + 4096);
        let mut sites = Vec::new();
        let mut position = 0;
        for edit in self.edits {
            text.push_str(self.text.get(position..edit.at.start).unwrap_or_default());
            text.push_str(&edit.text);
            position = position.max(edit.at.end);
            sites.extend(edit.site);
        }
        text.push_str(&self.text[position..]);
        (text, sites)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_apply_in_text_order_whatever_order_they_came_in() {
        let mut patch = Patch::new("x.rs", "one two three");
        patch.insert(13, "!".into(), Rule::Name, 0);
        patch.replace(4..7, "2".into());
        patch.insert(3, ",".into(), Rule::Name, 0);
        let (text, sites) = patch.finish();
        assert_eq!(text, "one, 2 three!");
        assert_eq!(sites.len(), 2);
    }
}
