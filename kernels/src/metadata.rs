//! What AMD's compiler says about the kernels of a code object: registers, spills, memory, arguments. A note of the ELF file holds
//! it as MessagePack. Input may be damaged, which is an error.

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use object::Endianness;
use rmpv::decode::read_value_with_max_depth;
use rmpv::Value;

/// The type of the note that AMD's compiler writes.
const NT_AMDGPU_METADATA: u32 = 32;

/// How deep the metadata may nest. The real thing nests five deep; damage must not overflow the stack.
const MOST_DEPTH: usize = 32;

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
    let note = find_note(object).map_err(|error| format!("not a code object for amdgcn, or damaged: {error}"))?;
    let mut note = note.ok_or("no AMDGPU metadata: this is not a code object for amdgcn")?;
    let root = read_value_with_max_depth(&mut note, MOST_DEPTH)
        .map_err(|error| format!("the AMDGPU metadata is damaged: {error}"))?;
    let kernels = root["amdhsa.kernels"].as_array();
    Ok(kernels.map_or_else(Vec::new, |list| list.iter().map(describe).collect()))
}

fn describe(kernel: &Value) -> KernelInfo {
    let number = |key: &str| kernel[key].as_u64().unwrap_or(0);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let arguments = kernel[".args"].as_array().map_or(&[][..], Vec::as_slice);
    KernelInfo {
        name: text(&kernel[".name"]),
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
                offset: argument[".offset"].as_u64().unwrap_or(0) as usize,
                size: argument[".size"].as_u64().unwrap_or(0) as usize,
                kind: text(&argument[".value_kind"]),
            })
            .collect(),
    }
}

/// The contents of the note with the metadata, found through the program headers.
fn find_note(object: &[u8]) -> object::read::Result<Option<&[u8]>> {
    let header = FileHeader64::<Endianness>::parse(object)?;
    let endian = header.endian()?;
    for segment in header.program_headers(endian, object)? {
        let Some(mut notes) = segment.notes(endian, object)? else { continue };
        while let Some(note) = notes.next()? {
            if note.n_type(endian) == NT_AMDGPU_METADATA && note.name() == b"AMDGPU" {
                return Ok(Some(note.desc()));
            }
        }
    }
    Ok(None)
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
        elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
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
        // Arrays, maps and texts that say they are longer than memory.
        for tag in [0xdd, 0xdf, 0xdb] {
            assert!(kernels(&object(&[tag, 0xff, 0xff, 0xff, 0xff, 1])).is_err(), "{tag:x}");
        }
        // Another machine's object, and no object at all.
        assert!(kernels(b"not an object").unwrap_err().contains("damaged"));
        let mut other = object(&sample());
        other[128 + 4] = 1;
        assert!(kernels(&other).unwrap_err().contains("no AMDGPU metadata"));
    }
}
