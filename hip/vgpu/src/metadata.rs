//! What the compiler says about the kernels of a code object: names, arguments, sizes. The notes of the ELF file hold it as
//! MessagePack, of which this reads what occurs there. Input may be damaged: every read is checked.

use crate::elf::little;

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
    /// The name of its descriptor's symbol.
    pub symbol: String,
    /// Vector registers of a thread, accumulation registers included.
    pub vgprs: u64,
    /// Scalar registers of a wave.
    pub sgprs: u64,
    /// Vector registers that went to memory.
    pub vgpr_spills: u64,
    /// Scalar registers that went to memory or to vector registers.
    pub sgpr_spills: u64,
    /// Threads that a block may have.
    pub max_threads: u64,
    /// The arguments in order.
    pub arguments: Vec<Argument>,
}

/// The kernels that a metadata note describes.
pub(crate) fn kernels(note: &[u8]) -> Option<Vec<KernelInfo>> {
    let root = Reader { bytes: note }.value(0)?;
    let Some(Value::Array(list)) = root.get("amdhsa.kernels") else { return Some(Vec::new()) };
    Some(list.iter().map(describe).collect())
}

fn describe(kernel: &Value) -> KernelInfo {
    let number = |key: &str| kernel.get(key).map_or(0, Value::number);
    let text = |key: &str| kernel.get(key).map_or_else(String::new, Value::text);
    let arguments = match kernel.get(".args") {
        Some(Value::Array(arguments)) => arguments.as_slice(),
        _ => &[],
    };
    KernelInfo {
        name: text(".name"),
        symbol: text(".symbol"),
        vgprs: number(".vgpr_count") + number(".agpr_count"),
        sgprs: number(".sgpr_count"),
        vgpr_spills: number(".vgpr_spill_count"),
        sgpr_spills: number(".sgpr_spill_count"),
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

/// The contents of the note of type 32 that AMDGPU owns.
pub(crate) fn find_note(mut notes: &[u8]) -> Option<&[u8]> {
    const NT_AMDGPU_METADATA: u64 = 32;
    while notes.len() >= 12 {
        let (name, description) = (little(notes, 0, 4)? as usize, little(notes, 4, 4)? as usize);
        let start = 12 + name.next_multiple_of(4);
        let end = start.checked_add(description)?;
        if little(notes, 8, 4)? == NT_AMDGPU_METADATA && notes.get(12..12 + name)?.starts_with(b"AMDGPU") {
            return notes.get(start..end);
        }
        notes = notes.get(end.next_multiple_of(4)..).unwrap_or_default();
    }
    None
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
