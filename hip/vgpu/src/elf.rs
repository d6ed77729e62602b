//! The ELF container of a code object: segments, symbols, notes, relocations. Input may be damaged: every read is checked,
//! and nothing here panics or reads outside the bytes it was given.

/// A part of the file that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub offset: usize,
    pub file_bytes: usize,
    pub address: u64,
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
    pub symbol: u64,
    pub addend: i64,
}

/// What is needed of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Elf {
    pub flags: u32,
    pub segments: Vec<Segment>,
    pub symbols: Vec<Symbol>,
    pub relocations: Vec<Relocation>,
    /// Ranges of the file that hold notes.
    pub notes: Vec<(usize, usize)>,
}

/// An integer of `size` bytes, least significant first.
pub(crate) fn little(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// More entries than any real file has: damage must not make this run for minutes.
const MOST_SYMBOLS: usize = 1 << 20;

impl Elf {
    /// Reads the tables. The error is a sentence.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.get(..4) != Some(b"\x7fELF") {
            return Err("this is not an ELF file".into());
        }
        if bytes.get(4..6) != Some(&[2, 1]) {
            return Err("this is not a little-endian 64-bit ELF file".into());
        }
        let machine = little(bytes, 18, 2).ok_or("the ELF header is cut short")?;
        if machine != 224 {
            return Err(format!("this ELF file is for machine {machine}, not for AMD GPUs (224)"));
        }
        let mut elf =
            Self { flags: little(bytes, 48, 4).ok_or("the ELF header is cut short")? as u32, ..Self::default() };
        elf.program_headers(bytes).ok_or("the program headers are damaged")?;
        elf.section_headers(bytes).ok_or("the section headers are damaged")?;
        Ok(elf)
    }

    fn program_headers(&mut self, bytes: &[u8]) -> Option<()> {
        let (table, entry, count) = (little(bytes, 32, 8)?, little(bytes, 54, 2)?, little(bytes, 56, 2)?);
        for i in 0..count {
            let header = usize::try_from(table.checked_add(i * entry)?).ok()?;
            let field = |at: usize, size| little(bytes, header.checked_add(at)?, size);
            let (kind, flags) = (field(0, 4)?, field(4, 4)?);
            let (offset, file_bytes) = (usize::try_from(field(8, 8)?).ok()?, usize::try_from(field(32, 8)?).ok()?);
            let (address, memory_bytes) = (field(16, 8)?, field(40, 8)?);
            match kind {
                1 => {
                    bytes.get(offset..offset.checked_add(file_bytes)?)?;
                    address.checked_add(memory_bytes)?;
                    if memory_bytes < file_bytes as u64 {
                        return None;
                    }
                    let writable = flags & 2 != 0;
                    self.segments.push(Segment { offset, file_bytes, address, memory_bytes, writable });
                }
                4 => {
                    bytes.get(offset..offset.checked_add(file_bytes)?)?;
                    self.notes.push((offset, file_bytes));
                }
                _ => {}
            }
        }
        Some(())
    }

    fn section_headers(&mut self, bytes: &[u8]) -> Option<()> {
        let (table, entry, count) = (little(bytes, 40, 8)?, little(bytes, 58, 2)?, little(bytes, 60, 2)?);
        if table == 0 {
            return Some(());
        }
        let section = |i: u64| -> Option<(u64, usize, usize, u64, u64)> {
            let header = usize::try_from(table.checked_add(i.checked_mul(entry)?)?).ok()?;
            let field = |at: usize, size| little(bytes, header.checked_add(at)?, size);
            let offset = usize::try_from(field(24, 8)?).ok()?;
            let size = usize::try_from(field(32, 8)?).ok()?;
            Some((field(4, 4)?, offset, size, field(40, 4)?, field(8, 8)?))
        };
        for i in 0..count {
            let (kind, offset, size, link, flags) = section(i)?;
            if kind == 11 {
                let (_, strings, strings_bytes, _, _) = section(link)?;
                let strings = bytes.get(strings..strings.checked_add(strings_bytes)?)?;
                let symbols = bytes.get(offset..offset.checked_add(size)?)?;
                for symbol in symbols.chunks_exact(24).take(MOST_SYMBOLS) {
                    self.symbols.push(read_symbol(symbol, strings)?);
                }
            }
            if kind == 4 && flags & 2 != 0 {
                let relocations = bytes.get(offset..offset.checked_add(size)?)?;
                for relocation in relocations.chunks_exact(24).take(MOST_SYMBOLS) {
                    self.relocations.push(Relocation {
                        address: little(relocation, 0, 8)?,
                        kind: little(relocation, 8, 4)? as u32,
                        symbol: little(relocation, 12, 4)?,
                        addend: little(relocation, 16, 8)? as i64,
                    });
                }
            }
        }
        Some(())
    }
}

fn read_symbol(symbol: &[u8], strings: &[u8]) -> Option<Symbol> {
    let name = strings.get(little(symbol, 0, 4)? as usize..)?;
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    Some(Symbol {
        name: String::from_utf8_lossy(name).into_owned(),
        address: little(symbol, 8, 8)?,
        bytes: little(symbol, 16, 8)?,
        is_object: symbol.get(4)? & 15 == 1,
    })
}
