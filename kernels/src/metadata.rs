//! What AMD's compiler says about the kernels of a code object: registers, spills, memory, arguments. The notes of the ELF
//! file hold it as MessagePack, of which this reads what occurs there. Input may be damaged: every read is checked.

/// One argument of a kernel, hidden ones included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Bytes from the start of the argument block.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// `by_value`, `global_buffer`, `hidden_block_count_x`, ...
    pub kind: String,
}

impl Argument {
    /// True when the runtime fills it in, and not the caller.
    pub fn is_hidden(&self) -> bool {
        self.kind.starts_with("hidden")
    }
}

/// What the compiler made of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelInfo {
    /// Its name.
    pub name: String,
    /// Vector registers of a thread.
    pub vgprs: u64,
    /// Scalar registers of a wave.
    pub sgprs: u64,
    /// Vector registers that did not fit and went to memory.
    pub vgpr_spills: u64,
    /// Scalar registers that did not fit and went to memory or to vector registers.
    pub sgpr_spills: u64,
    /// Private memory of a thread, in bytes: spills, and arrays that are indexed at run time.
    pub private_bytes: u64,
    /// Static shared memory of a block, in bytes.
    pub shared_bytes: u64,
    /// Lanes of a wave.
    pub wave_size: u64,
    /// Threads that a block may have.
    pub max_threads: u64,
    /// The arguments in order.
    pub arguments: Vec<Argument>,
}

/// What a code object's kernels need at the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many there are.
    pub kernels: usize,
    /// The most vector registers of a thread.
    pub most_vgprs: u64,
    /// The most static shared memory of a block, in bytes.
    pub most_shared_bytes: u64,
    /// Registers, of either kind, that did not fit, over all kernels.
    pub spills: u64,
}

impl Summary {
    /// Of these kernels.
    pub fn of(kernels: &[KernelInfo]) -> Self {
        Self {
            kernels: kernels.len(),
            most_vgprs: kernels.iter().map(|kernel| kernel.vgprs).max().unwrap_or(0),
            most_shared_bytes: kernels.iter().map(|kernel| kernel.shared_bytes).max().unwrap_or(0),
            spills: kernels.iter().map(|kernel| kernel.vgpr_spills + kernel.sgpr_spills).sum(),
        }
    }
}

/// The kernels of a code object: an ELF file for amdgcn. The error is a sentence.
pub fn kernels(object: &[u8]) -> Result<Vec<KernelInfo>, String> {
    let note = find_note(object).ok_or("no AMDGPU metadata: this is not a code object for amdgcn, or it is damaged")?;
    let mut reader = Reader { bytes: note };
    let root = reader.value(0).ok_or("the AMDGPU metadata is damaged")?;
    let Some(Value::Array(list)) = root.get("amdhsa.kernels") else { return Ok(Vec::new()) };
    Ok(list.iter().map(describe).collect())
}

fn describe(kernel: &Value) -> KernelInfo {
    let number = |key: &str| kernel.get(key).map_or(0, Value::number);
    let arguments = match kernel.get(".args") {
        Some(Value::Array(arguments)) => arguments.as_slice(),
        _ => &[],
    };
    KernelInfo {
        name: kernel.get(".name").map_or_else(String::new, Value::text),
        vgprs: number(".vgpr_count"),
        sgprs: number(".sgpr_count"),
        vgpr_spills: number(".vgpr_spill_count"),
        sgpr_spills: number(".sgpr_spill_count"),
        private_bytes: number(".private_segment_fixed_size"),
        shared_bytes: number(".group_segment_fixed_size"),
        wave_size: number(".wavefront_size"),
        max_threads: number(".max_flat_workgroup_size"),
        arguments: arguments
            .iter()
            .map(|argument| Argument {
                offset: argument.get(".offset").map_or(0, Value::number) as usize,
                size: argument.get(".size").map_or(0, Value::number) as usize,
                kind: argument.get(".value_kind").map_or_else(String::new, Value::text),
            })
            .collect(),
    }
}

/// The contents of the note of type 32 that AMDGPU owns, found through the program headers.
fn find_note(object: &[u8]) -> Option<&[u8]> {
    const PT_NOTE: u64 = 4;
    const NT_AMDGPU_METADATA: u64 = 32;
    if object.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, entry_size, entries) = (little(object, 32, 8)?, little(object, 54, 2)?, little(object, 56, 2)?);
    for i in 0..entries {
        let header = usize::try_from(table.checked_add(i * entry_size)?).ok()?;
        if little(object, header, 4)? != PT_NOTE {
            continue;
        }
        let (offset, size) = (little(object, header + 8, 8)? as usize, little(object, header + 32, 8)? as usize);
        let mut notes = object.get(offset..offset.checked_add(size)?)?;
        while notes.len() >= 12 {
            let (name, description) = (little(notes, 0, 4)? as usize, little(notes, 4, 4)? as usize);
            let start = 12 + name.next_multiple_of(4);
            let end = start.checked_add(description)?;
            if little(notes, 8, 4)? == NT_AMDGPU_METADATA && notes.get(12..12 + name)?.starts_with(b"AMDGPU") {
                return notes.get(start..end);
            }
            notes = notes.get(end.next_multiple_of(4)..).unwrap_or_default();
        }
    }
    None
}

/// An integer of `size` bytes, least significant first.
fn little(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// A value of MessagePack. Numbers are kept as their bits; floats do not occur.
enum Value {
    Number(u64),
    Text(String),
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Other,
}

impl Value {
    fn get(&self, key: &str) -> Option<&Value> {
        let Value::Map(entries) = self else { return None };
        entries.iter().find(|(name, _)| matches!(name, Value::Text(text) if text == key)).map(|(_, value)| value)
    }

    fn number(&self) -> u64 {
        if let Value::Number(number) = self {
            *number
        } else {
            0
        }
    }

    fn text(&self) -> String {
        if let Value::Text(text) = self {
            text.clone()
        } else {
            String::new()
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    /// An integer of `size` bytes, most significant first.
    fn big(&mut self, size: usize) -> Option<u64> {
        Some(self.take(size)?.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    fn text(&mut self, count: usize) -> Option<Value> {
        Some(Value::Text(String::from_utf8_lossy(self.take(count)?).into_owned()))
    }

    fn array(&mut self, count: usize, depth: usize) -> Option<Value> {
        (0..count).map(|_| self.value(depth)).collect::<Option<_>>().map(Value::Array)
    }

    fn map(&mut self, count: usize, depth: usize) -> Option<Value> {
        (0..count).map(|_| Some((self.value(depth)?, self.value(depth)?))).collect::<Option<_>>().map(Value::Map)
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        // The real thing nests five deep; damage must not overflow the stack.
        if depth > 32 {
            return None;
        }
        let depth = depth + 1;
        let tag = self.big(1)?;
        match tag {
            0x00..=0x7f => Some(Value::Number(tag)),
            0x80..=0x8f => self.map((tag & 15) as usize, depth),
            0x90..=0x9f => self.array((tag & 15) as usize, depth),
            0xa0..=0xbf => self.text((tag & 31) as usize),
            0xc0 => Some(Value::Other),
            0xc2 | 0xc3 => Some(Value::Number(tag & 1)),
            0xcc..=0xcf => self.big(1 << (tag - 0xcc)).map(Value::Number),
            0xd0..=0xd3 => self.big(1 << (tag - 0xd0)).map(Value::Number),
            0xd9..=0xdb => {
                let count = self.big(1 << (tag - 0xd9))?;
                self.text(count as usize)
            }
            0xdc | 0xdd => {
                let count = self.big(2 << (tag - 0xdc))?;
                self.array(count as usize, depth)
            }
            0xde | 0xdf => {
                let count = self.big(2 << (tag - 0xde))?;
                self.map(count as usize, depth)
            }
            0xe0..=0xff => Some(Value::Number(tag as u8 as i8 as i64 as u64)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minimal code object with the given metadata.
    fn object(metadata: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        note.extend(7u32.to_le_bytes());
        note.extend((metadata.len() as u32).to_le_bytes());
        note.extend(32u32.to_le_bytes());
        note.extend(b"AMDGPU\0\0");
        note.extend(metadata);
        let mut elf = vec![0; 64 + 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[32] = 64; // program headers
        elf[54] = 56;
        elf[56] = 1;
        elf[64] = 4; // a note segment
        elf[72] = 120;
        elf[96..104].copy_from_slice(&(note.len() as u64).to_le_bytes());
        elf.extend(note);
        elf
    }

    fn text(text: &str) -> Vec<u8> {
        [&[0xd9, text.len() as u8][..], text.as_bytes()].concat()
    }

    fn sample() -> Vec<u8> {
        let argument = [vec![0x82], text(".offset"), vec![8], text(".size"), vec![0xcd, 1, 0]].concat();
        let kernel = [
            vec![0x83],
            text(".name"),
            text("badd_f32"),
            text(".vgpr_count"),
            vec![0xcc, 200],
            text(".args"),
            vec![0x91],
            argument,
        ]
        .concat();
        [vec![0x81], text("amdhsa.kernels"), vec![0x91], kernel].concat()
    }

    #[test]
    fn kernels_are_read() {
        let kernels = kernels(&object(&sample())).unwrap();
        assert_eq!((kernels.len(), kernels[0].name.as_str(), kernels[0].vgprs), (1, "badd_f32", 200));
        assert_eq!((kernels[0].arguments[0].offset, kernels[0].arguments[0].size), (8, 256));
    }

    #[test]
    fn damage_is_an_error() {
        let whole = object(&sample());
        for length in 0..whole.len() {
            // Cut short: never a panic. Only a cut behind the metadata could go unnoticed, and there is nothing behind it.
            assert!(kernels(&whole[..length]).is_err(), "{length} of {} bytes", whole.len());
        }
        let deep = object(&[0x91; 100_000]);
        assert!(kernels(&deep).is_err());
    }
}
