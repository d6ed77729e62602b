//! What the compiler says about the kernels of a code object: names, arguments, sizes. A note of the ELF file holds it as
//! MessagePack. Input may be damaged.

use rmpv::decode::read_value_with_max_depth;
use rmpv::Value;

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

impl KernelInfo {
    /// The byte behind the last argument. Numbers of damaged metadata may be of any size.
    pub(crate) fn arguments_end(&self) -> usize {
        self.arguments.iter().map(|argument| argument.offset.saturating_add(argument.size)).max().unwrap_or(0)
    }
}

/// How deep the metadata may nest. The real thing nests five deep; damage must not overflow the stack.
const MOST_DEPTH: usize = 32;

/// The kernels that a metadata note describes.
pub(crate) fn kernels(mut note: &[u8]) -> Option<Vec<KernelInfo>> {
    let root = read_value_with_max_depth(&mut note, MOST_DEPTH).ok()?;
    let kernels = root["amdhsa.kernels"].as_array();
    Some(kernels.map_or_else(Vec::new, |list| list.iter().map(describe).collect()))
}

fn describe(kernel: &Value) -> KernelInfo {
    let number = |key: &str| kernel[key].as_u64().unwrap_or(0);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let arguments = kernel[".args"].as_array().map_or(&[][..], Vec::as_slice);
    KernelInfo {
        name: text(&kernel[".name"]),
        symbol: text(&kernel[".symbol"]),
        vgprs: number(".vgpr_count").saturating_add(number(".agpr_count")),
        sgprs: number(".sgpr_count"),
        vgpr_spills: number(".vgpr_spill_count"),
        sgpr_spills: number(".sgpr_spill_count"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_arguments_does_not_overflow() {
        let argument = |offset, size| Argument { offset, size, kind: "by_value".to_owned() };
        let info = |arguments| KernelInfo { arguments, ..KernelInfo::default() };
        assert_eq!(info(vec![argument(8, 8), argument(0, 8)]).arguments_end(), 16);
        assert_eq!(info(vec![argument(usize::MAX, 8)]).arguments_end(), usize::MAX);
        assert_eq!(info(Vec::new()).arguments_end(), 0);
    }
}
