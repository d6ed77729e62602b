//! The ELF container of a code object: segments, symbols, the metadata note, relocations, line tables. Input may be damaged, which is
//! an error.

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::LittleEndian;

/// A part of the file that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    pub bytes: &'a [u8],
    pub address: u64,
    /// At least as many as there are bytes in the file.
    pub memory_bytes: u64,
    pub writable: bool,
}

/// A name and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub name: String,
    pub address: u64,
    pub bytes: u64,
    pub is_object: bool,
}

/// A word to be written once the object's place is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relocation {
    pub address: u64,
    pub kind: u32,
    pub symbol: usize,
    pub addend: i64,
}

/// What is needed of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Elf<'a> {
    pub flags: u32,
    pub segments: Vec<Segment<'a>>,
    pub symbols: Vec<Symbol>,
    pub relocations: Vec<Relocation>,
    /// What the compiler says about the kernels: MessagePack.
    pub metadata: Option<&'a [u8]>,
    /// Sections that say which line of the source an instruction came from.
    pub debug: Vec<(&'static str, &'a [u8])>,
}

/// More entries than any real file has: damage must not make this run for minutes.
const MOST_SYMBOLS: usize = 1 << 20;

/// The type of the note that AMD's compiler writes.
const NT_AMDGPU_METADATA: u32 = 32;

/// The sections that line tables need.
const DEBUG_SECTIONS: [&str; 11] = [
    ".debug_abbrev",
    ".debug_addr",
    ".debug_aranges",
    ".debug_info",
    ".debug_line",
    ".debug_line_str",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_str",
    ".debug_str_offsets",
    ".debug_types",
];

/// An integer of `size` bytes, least significant first.
pub(crate) fn little(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

fn damaged(why: impl std::fmt::Display) -> String {
    format!("the code object is damaged: {why}")
}

impl<'a> Elf<'a> {
    /// Reads the tables. The error is a sentence.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        if !bytes.starts_with(&elf::ELFMAG) {
            return Err("this is not an ELF file".into());
        }
        if bytes.get(4..6) != Some(&[elf::ELFCLASS64, elf::ELFDATA2LSB]) {
            return Err("this is not a little-endian 64-bit ELF file".into());
        }
        let header = FileHeader64::<LittleEndian>::parse(bytes).map_err(damaged)?;
        let machine = header.e_machine(LittleEndian);
        if machine != elf::EM_AMDGPU {
            let wanted = elf::EM_AMDGPU;
            return Err(format!("this ELF file is for machine {machine}, not for AMD GPUs ({wanted})"));
        }
        let mut found = Self { flags: header.e_flags(LittleEndian), ..Self::default() };
        found.read_segments(header, bytes)?;
        found.read_sections(header, bytes).map_err(damaged)?;
        Ok(found)
    }

    fn read_segments(&mut self, header: &FileHeader64<LittleEndian>, bytes: &'a [u8]) -> Result<(), String> {
        for segment in header.program_headers(LittleEndian, bytes).map_err(damaged)? {
            if segment.p_type(LittleEndian) == elf::PT_LOAD {
                let data = segment.data(LittleEndian, bytes);
                let data = data.map_err(|()| damaged("a segment lies outside of the file"))?;
                let (address, memory_bytes) = (segment.p_vaddr(LittleEndian), segment.p_memsz(LittleEndian));
                if memory_bytes < data.len() as u64 || address.checked_add(memory_bytes).is_none() {
                    return Err(damaged("a segment has an impossible size"));
                }
                let writable = segment.p_flags(LittleEndian) & elf::PF_W != 0;
                self.segments.push(Segment { bytes: data, address, memory_bytes, writable });
            }
            let Some(mut notes) = segment.notes(LittleEndian, bytes).map_err(damaged)? else { continue };
            while let Some(note) = notes.next().map_err(damaged)? {
                if note.n_type(LittleEndian) == NT_AMDGPU_METADATA && note.name() == b"AMDGPU" {
                    self.metadata = self.metadata.or(Some(note.desc()));
                }
            }
        }
        Ok(())
    }

    fn read_sections(&mut self, header: &FileHeader64<LittleEndian>, bytes: &'a [u8]) -> object::read::Result<()> {
        let sections = header.sections(LittleEndian, bytes)?;
        let symbols = sections.symbols(LittleEndian, bytes, elf::SHT_DYNSYM)?;
        for symbol in symbols.iter().take(MOST_SYMBOLS) {
            let name = symbol.name(LittleEndian, symbols.strings())?;
            self.symbols.push(Symbol {
                name: String::from_utf8_lossy(name).into_owned(),
                address: symbol.st_value(LittleEndian),
                bytes: symbol.st_size(LittleEndian),
                is_object: symbol.st_type() == elf::STT_OBJECT,
            });
        }
        for section in sections.iter() {
            if section.sh_flags(LittleEndian) & u64::from(elf::SHF_ALLOC) != 0 {
                let Some((entries, _)) = section.rela(LittleEndian, bytes)? else { continue };
                self.relocations.extend(entries.iter().take(MOST_SYMBOLS).map(|entry| Relocation {
                    address: entry.r_offset.get(LittleEndian),
                    kind: entry.r_type(LittleEndian, false),
                    symbol: entry.r_sym(LittleEndian, false) as usize,
                    addend: entry.r_addend.get(LittleEndian),
                }));
                continue;
            }
            let name = sections.section_name(LittleEndian, section)?;
            if let Some(name) = DEBUG_SECTIONS.iter().find(|debug| debug.as_bytes() == name) {
                self.debug.push((name, section.data(LittleEndian, bytes)?));
            }
        }
        Ok(())
    }
}
