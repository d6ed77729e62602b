//! A decoded instruction: the one form that the decoder makes, the executor runs and the disassembler prints.
//!
//! How to read an [`Inst`]:
//! - `op` says what is done. It is one name over all targets and all encodings: the newest spelling (`GLOBAL_LOAD_B32` is
//!   also gfx9's `global_load_dword`), without `_e32`, `_e64`, `_sdwa`, `_dpp`. Operations that differ in meaning have
//!   different names.
//! - Operands are the same whatever the encoding. Destinations are `dst` and `sdst`, sources `src[0..4]`; what is not there
//!   is [`Operand::None`]. An operand that the encoding only implies is written out: `v_cndmask_b32` and the carry forms
//!   have VCC as `src[2]`, a 32-bit compare has VCC (or EXEC, from gfx10 on for `v_cmpx`) as `dst`, `v_add_co_u32` has VCC
//!   as `sdst`. An accumulator tied to the destination (`v_fmac`, `v_mac`, `v_dot4c`) is `src[2]` as well.
//! - `v_fmamk` and `v_fmaak` (and their `mad` and scalar kin) both are `src[0] * src[1] + src[2]`, the literal being one of
//!   them. Sparse products (`v_smfmac`, `v_swmmac`) have the accumulator as `src[2]` and the index register as `src[3]`.
//!   `v_swap` has `dst` and `sdst`. The byte that gfx942's `v_cvt_sr_fp8_f32` writes is `2 * dst.op_sel + src[2].op_sel`.
//! - `Arg::dwords` is the width in dwords: `Sgpr(4)` with two is `s[4:5]`. A lane mask has one in wave32 and two in wave64.
//!   `Arg::ty` says how an inline constant or a literal is to be widened; [`Arg::constant`] does it.
//! - Modifiers of a source are in its `Arg`. VOP3: `neg`, `abs`, `op_sel` (read the high half). Packed: `op_sel` and `neg` are
//!   for the low result, `op_sel_hi` and `neg_hi` for the high one. SDWA: `sel`, `sext`. For the destination `op_sel` means:
//!   write the high half; `sel` is SDWA's dst_sel.
//!
//! Where memory instructions have their operands:
//!
//! | encoding | dst | `src[0]` | `src[1]` | `src[2]` | `src[3]` |
//! |---|---|---|---|---|---|
//! | SMEM | sdst | sbase | soffset | (store data) | |
//! | DS | vdst | addr | data0 | data1 | |
//! | FLAT, GLOBAL, SCRATCH | vdst | vaddr | vdata | saddr | |
//! | MUBUF, MTBUF | vdata of loads and of atomics with return | vaddr | vdata of stores and atomics | srsrc | soffset |
//!
//! `offset` is the byte offset, signed where the encoding's is; DS forms with two offsets have `offset` and `offset1`, not
//! yet scaled by the element. `saddr` that is off is `None`; `soffset` that is not there is `None`.

mod operand;

pub use crate::tables::op::Op;
use crate::tables::Group;
pub use operand::{Arg, Inline, Operand, Sel, Ty, Unused};

/// How an instruction is encoded. The 64-bit form of a VOP1, VOP2 or VOPC operation is `Vop3`.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    Sop1,
    Sop2,
    Sopk,
    Sopc,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3,
    Vop3p,
    Vopd,
    Vinterp,
    LdsDir,
    Ds,
    Flat,
    Global,
    Scratch,
    Mubuf,
    Mtbuf,
    Image,
    Export,
}

/// A DPP control word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dpp {
    /// DPP16: lanes by a rule.
    Rule {
        /// The rule.
        ctrl: Ctrl,
        /// Rows of 16 lanes that are written.
        row_mask: u8,
        /// Banks of 4 lanes within a row that are written.
        bank_mask: u8,
        /// A lane without a valid source reads 0 (otherwise it is not written).
        bound_ctrl: bool,
        /// Lanes that are off may be read (gfx10+).
        fi: bool,
    },
    /// DPP8: each lane of eight names its source.
    Eight {
        /// Source lanes.
        lanes: [u8; 8],
        /// Lanes that are off may be read.
        fi: bool,
    },
}

/// The rule by which DPP16 picks a lane's source.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ctrl {
    QuadPerm([u8; 4]),
    RowShl(u8),
    RowShr(u8),
    RowRor(u8),
    WaveShl1,
    WaveRol1,
    WaveShr1,
    WaveRor1,
    RowMirror,
    RowHalfMirror,
    RowBcast15,
    RowBcast31,
    /// gfx90a, gfx942: all lanes of a row read this one.
    RowNewBcast(u8),
    /// gfx10+: all lanes of a row read this one.
    RowShare(u8),
    RowXmask(u8),
    /// Reserved: the manual gives it no meaning.
    Reserved(u16),
}

impl Ctrl {
    /// Whether an architecture has it: gfx10 lost what crosses the rows of 16.
    pub fn exists(self, arch: crate::Arch) -> bool {
        match self {
            Ctrl::WaveShl1 | Ctrl::WaveRol1 | Ctrl::WaveShr1 | Ctrl::WaveRor1 => arch.is_cdna(),
            Ctrl::RowBcast15 | Ctrl::RowBcast31 => arch.is_cdna(),
            Ctrl::RowXmask(_) => !arch.is_cdna(),
            Ctrl::Reserved(_) => false,
            _ => true,
        }
    }
}

/// A decoded instruction. The module's head says how to read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inst {
    /// What is done.
    pub op: Op,
    /// How it is encoded.
    pub encoding: Encoding,
    /// Bytes, with the literal.
    pub size: u8,
    /// The target's own mnemonic, with the encoding's suffix; VOPD has both halves'.
    pub mnemonic: &'static str,
    /// Where in the tables it came from; the disassembler's affair.
    pub(crate) group: &'static Group,
    /// Destination.
    pub dst: Arg,
    /// Second destination: carry out, the flag of `v_div_scale`, the second of `v_swap`.
    pub sdst: Arg,
    /// Sources.
    pub src: [Arg; 4],
    /// The 16-bit immediate of SOPK and SOPP (and of SOP1 and SMEM forms that have one), sign-extended. Branches: dwords from
    /// the next instruction. VOP3P matrix operations of gfx90a: see `cbsz`.
    pub imm: i32,
    /// Results are clamped (floats to 0..1, integers saturate).
    pub clamp: bool,
    /// 0 nothing, 1 times 2, 2 times 4, 3 divided by 2.
    pub omod: u8,
    /// SDWA form.
    pub sdwa: bool,
    /// SDWA: what becomes of the rest of the destination.
    pub unused: Unused,
    /// DPP form.
    pub dpp: Option<Dpp>,
    /// Memory: bytes added to the address.
    pub offset: i32,
    /// DS forms with two offsets: the second.
    pub offset1: u8,
    /// Memory: cache policy. Up to gfx11 bit 0 glc (gfx942 sc0), 1 slc (nt), 2 dlc, 4 scc (sc1); gfx12 bits 2:0 th, 4:3 scope.
    pub cache: u8,
    /// An atomic that returns the old value (or another instruction with glc set).
    pub returns: bool,
    /// DS on the global data share.
    pub gds: bool,
    /// MUBUF: the VGPR address has an index.
    pub idxen: bool,
    /// MUBUF: the VGPR address has an offset.
    pub offen: bool,
    /// MUBUF and images: a status dword is returned.
    pub tfe: bool,
    /// MUBUF: the data goes to LDS.
    pub lds: bool,
    /// MTBUF: the format number.
    pub format: u8,
    /// MFMA: broadcast of blocks (matrix A).
    pub cbsz: u8,
    /// MFMA: the block that is broadcast.
    pub abid: u8,
    /// MFMA: lane groups of B, or for f64 the negation of the three sources.
    pub blgp: u8,
    /// gfx12 FP8 conversions: the byte of the source or of the destination.
    pub byte_sel: u8,
    /// SWMMAC: which part of the index register.
    pub index_key: u8,
    /// What graphics instructions carry; only printed.
    pub(crate) graphics: Graphics,
    /// VOPD: the Y half. Both halves read all their sources before either writes.
    pub second: Option<Box<Inst>>,
}

/// Fields of interpolation and export instructions, which are decoded to be named and printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Graphics {
    pub attr: u8,
    pub attrchan: u8,
    pub high: bool,
    pub waitexp: u8,
    pub waitvdst: u8,
    pub waitvsrc: u8,
    pub tgt: u8,
    pub en: u8,
    pub compr: bool,
    pub vm: bool,
}

impl Inst {
    /// The name of the operation over all targets.
    pub fn name(&self) -> &'static str {
        self.op.name()
    }

    /// Ends straight-line code: a branch, a jump, or the end of the program.
    pub fn is_branch(&self) -> bool {
        let name = self.op.name();
        name.starts_with("s_cbranch")
            || name.starts_with("s_branch")
            || name.starts_with("s_endpgm")
            || name.starts_with("s_subvector_loop")
            || name.starts_with("s_call")
            || matches!(name, "s_setpc_b64" | "s_swappc_b64" | "s_rfe_b64" | "s_trap")
    }
}

/// Why bytes are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The first word, 0 where there are fewer than four bytes.
    pub word: u32,
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:#010x} is no instruction of this target", self.word)
    }
}

impl std::error::Error for Unknown {}
