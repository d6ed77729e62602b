//! Which line of the source an instruction came from. Objects say so when they were compiled with `-gline-tables-only` (or `-g`), which
//! does not change their code. The tables are read when a report needs them.

use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use addr2line::{Context, LookupResult};
use std::fmt;

/// A line of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The file, as the compiler was told.
    pub file: String,
    /// The line, from 1 on.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.file, self.line)
    }
}

/// The line tables of an object.
pub(crate) struct Lines {
    sections: Vec<(&'static str, Box<[u8]>)>,
}

impl Lines {
    /// Keeps the sections, if there are line tables among them.
    pub fn new(sections: &[(&'static str, &[u8])]) -> Option<Self> {
        sections
            .iter()
            .any(|(name, _)| *name == ".debug_line")
            .then(|| Self { sections: sections.iter().map(|&(name, bytes)| (name, bytes.into())).collect() })
    }

    /// The line of the instruction at an address, and the lines that the functions around it were inlined at. Empty where the tables do
    /// not say, or are damaged.
    pub fn find(&self, address: u64) -> Vec<SourceLine> {
        self.try_find(address).unwrap_or_default()
    }

    fn try_find(&self, address: u64) -> Result<Vec<SourceLine>, addr2line::gimli::Error> {
        let section = |id: SectionId| {
            let found = self.sections.iter().find(|(name, _)| *name == id.name());
            Ok::<_, addr2line::gimli::Error>(EndianSlice::new(found.map_or(&[][..], |(_, bytes)| bytes), LittleEndian))
        };
        let context = Context::from_dwarf(Dwarf::load(section)?)?;
        // Nothing is split into other files here.
        let LookupResult::Output(frames) = context.find_frames(address) else { return Ok(Vec::new()) };
        let mut frames = frames?;
        let mut lines = Vec::new();
        while let Some(frame) = frames.next()? {
            let Some(place) = frame.location else { continue };
            if let (Some(file), Some(line @ 1..)) = (place.file, place.line) {
                lines.push(SourceLine { file: file.trim_start_matches("./").to_owned(), line });
            }
        }
        Ok(lines)
    }
}
