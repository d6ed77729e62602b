//! What the checks know of an operation before it runs: the registers it reads and writes, what for, and which counter its
//! results come by.

use crate::count::Class;
use crate::descriptor::Descriptor;
use crate::inst::{Arg, Encoding, Inst, Op as Name, Operand};
use crate::target::Arch;
use crate::wave::scalar;

/// What a register is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// An operand of arithmetic.
    Value,
    /// A bit a lane.
    Mask,
    /// Part of an address.
    Address,
    /// Data to be stored.
    Data,
}

/// Registers that an operation reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// Rows of lanes; otherwise scalar registers.
    pub vector: bool,
    pub index: u16,
    pub dwords: u8,
    pub role: Role,
}

/// How definedness goes from operands to results, where the plain rule would be wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Defined where all operands are.
    #[default]
    Plain,
    /// Bit by bit: and, or, and with the second inverted, or with the second inverted, exclusive or, not, move.
    And,
    Or,
    AndNot,
    OrNot,
    Xor,
    /// EXEC is the other operand, and becomes the result.
    SaveExec,
    /// Lane by lane, one operand or the other.
    Select,
    /// The condition code picks one of two.
    ScalarSelect,
    /// The low word does not depend on the addend's high word.
    WideAdd,
    /// Two results of pairs: each reads the word of every operand that its modifiers pick.
    Packed,
    /// Two words, each of its own operand.
    PackedMove,
    /// Two words of one operand.
    PairMove,
    /// One lane is read.
    ReadFirst,
    ReadLane,
    /// One lane is written.
    WriteLane,
    /// Lanes are read by their number.
    Permute,
    /// A compare: a bit a lane.
    Compare,
    /// Lanes move in other ways: the first operand counts as defined.
    Moves,
    /// A load: what comes is what memory knows.
    Load,
}

/// The counter by which an operation's results are waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Counter {
    #[default]
    None,
    /// Vector loads, atomics that return; on gfx9 stores too.
    Load,
    /// Vector stores and atomics that return nothing (gfx10 and later).
    Store,
    /// Local memory, scalar loads; both together up to gfx11.
    Local,
    /// Scalar loads (gfx12).
    Scalar,
    /// Both loads and local memory: flat instructions.
    Flat,
}

/// A wait: the counter and how many may be outstanding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    pub load: Option<u8>,
    pub store: Option<u8>,
    pub local: Option<u8>,
    pub scalar: Option<u8>,
}

/// Cache control, by what it does for the order of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Caches forget all that another block of the device may have changed.
    InvalidateDevice,
    /// The cache behind that of the compute unit does (gfx10, gfx11).
    InvalidateGl1,
    /// The compute unit's own does (gfx10, gfx11).
    InvalidateGl0,
    /// Caches forget what another wave of the block may have changed.
    InvalidateBlock,
    /// What was stored goes where the whole device sees it (gfx942, gfx12).
    WriteBack,
    /// Both.
    WriteBackInvalidate,
}

impl Cache {
    /// Part of what lets a block see what others released.
    pub fn acquires(self) -> bool {
        !matches!(self, Self::InvalidateBlock | Self::InvalidateGl0 | Self::WriteBack)
    }

    fn of(inst: &Inst) -> Option<Self> {
        // gfx12: 0 the unit, 1 the engine, 2 the device, 3 the system.
        let scope = inst.cache >> 3 & 3;
        match inst.op {
            Name::BUFFER_WBINVL1 | Name::BUFFER_WBINVL1_VOL => Some(Self::InvalidateDevice),
            Name::BUFFER_GL1_INV => Some(Self::InvalidateGl1),
            Name::BUFFER_GL0_INV => Some(Self::InvalidateGl0),
            // gfx942: sc1 is the device, sc0 alone the block.
            Name::BUFFER_INV if inst.cache & 16 != 0 => Some(Self::InvalidateDevice),
            Name::BUFFER_INV => Some(Self::InvalidateBlock),
            Name::BUFFER_WBL2 => Some(Self::WriteBack),
            Name::GLOBAL_INV if scope >= 2 => Some(Self::InvalidateDevice),
            Name::GLOBAL_INV if scope == 1 => Some(Self::InvalidateBlock),
            Name::GLOBAL_WB if scope >= 2 => Some(Self::WriteBack),
            Name::GLOBAL_WBINV if scope >= 2 => Some(Self::WriteBackInvalidate),
            _ => None,
        }
    }
}

/// Whether a load bypasses the caches that other blocks do not share: what compilers make of an atomic load.
fn is_coherent(arch: Arch, cache: u8) -> bool {
    match arch {
        // glc without slc, which together are a hint that the data are used once.
        Arch::Gfx90a => cache & 3 == 1,
        Arch::Gfx942 => cache & 16 != 0,
        Arch::Gfx1030 => cache & 5 == 5,
        Arch::Gfx1100 => cache & 1 != 0,
        Arch::Gfx1201 => cache >> 3 & 3 >= 2,
    }
}

/// How far before a compare-and-swap its first load may be.
const FIRST_LOAD: usize = 128;

/// Compilers make loops around a compare-and-swap of atomics that the hardware has not, and guess the old value by a plain load before
/// the loop. It counts as an atomic one: the swap notices if it was wrong.
pub(crate) fn mark_first_loads(insts: &[Option<Inst>], metas: &mut [Meta]) {
    for (n, swap) in insts.iter().enumerate() {
        let Some(swap) = swap.as_ref().filter(|inst| inst.name().contains("atomic_cmpswap")) else { continue };
        let address = |inst: &Inst| (inst.encoding, inst.src[0].operand, inst.src[2].operand, inst.offset);
        for m in (n.saturating_sub(FIRST_LOAD)..n).rev() {
            let Some(inst) = &insts[m] else { continue };
            if metas[m].class == Class::Load && address(inst) == address(swap) {
                metas[m].coherent = true;
            }
            let moved = metas[n].reads.iter().filter(|found| found.role == Role::Address);
            let overlaps = |a: &Use, b: &Use| {
                a.vector == b.vector
                    && a.index < b.index + u16::from(b.dwords)
                    && b.index < a.index + u16::from(a.dwords)
            };
            if moved.into_iter().any(|found| metas[m].writes.iter().any(|write| overlaps(found, write))) {
                break;
            }
        }
    }
}

/// What the checks know of an operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meta {
    pub class: Class,
    /// Lanes matter: for counting those in use.
    pub vector: bool,
    pub reads: Vec<Use>,
    pub writes: Vec<Use>,
    pub rule: Rule,
    pub reads_scc: bool,
    pub writes_scc: bool,
    /// Which branch: 1 on SCC, 2 on VCC, 3 on EXEC.
    pub branch: u8,
    pub counter: Counter,
    /// Results may come in any order.
    pub unordered: bool,
    pub is_store: bool,
    pub is_barrier: bool,
    pub waits: Option<Waits>,
    pub cache: Option<Cache>,
    /// A load that is not served by a cache that other blocks do not share: an atomic one.
    pub coherent: bool,
    /// The halves of a dual instruction, whose results depend on their own operands only.
    pub halves: Option<Box<[Meta; 2]>>,
}

fn scalar_index(operand: Operand) -> Option<u16> {
    Some(match operand {
        Operand::Sgpr(n) => u16::from(n),
        Operand::Ttmp(n) => scalar::TTMP + u16::from(n),
        Operand::VccLo => scalar::VCC,
        Operand::VccHi => scalar::VCC + 1,
        Operand::ExecLo => scalar::EXEC,
        Operand::ExecHi => scalar::EXEC + 1,
        Operand::M0 => scalar::M0,
        Operand::FlatScratchLo => scalar::FLAT_SCRATCH,
        Operand::FlatScratchHi => scalar::FLAT_SCRATCH + 1,
        Operand::XnackMaskLo => scalar::XNACK_MASK,
        Operand::XnackMaskHi => scalar::XNACK_MASK + 1,
        _ => return None,
    })
}

fn registers(descriptor: &Descriptor, arg: &Arg, role: Role) -> Option<Use> {
    let dwords = arg.dwords.max(1);
    match arg.operand {
        Operand::Vgpr(n) => Some(Use { vector: true, index: u16::from(n), dwords, role }),
        Operand::Agpr(n) => {
            Some(Use { vector: true, index: descriptor.accum_offset as u16 + u16::from(n), dwords, role })
        }
        operand => Some(Use { vector: false, index: scalar_index(operand)?, dwords, role }),
    }
}

impl Meta {
    pub fn of(descriptor: &Descriptor, inst: &Inst) -> Self {
        let name = inst.op.name();
        let mut meta = Self { class: classify(inst), ..Self::default() };
        meta.vector =
            !matches!(meta.class, Class::Other | Class::Scalar | Class::Branch | Class::Barrier | Class::ScalarMemory);
        meta.add_operands(descriptor, inst);
        if let Some(second) = &inst.second {
            let mut bare = inst.clone();
            bare.second = None;
            meta.halves = Some(Box::new([Self::of(descriptor, &bare), Self::of(descriptor, second)]));
            meta.add_operands(descriptor, second);
        }
        meta.rule = rule(inst, name);
        meta.branch = match name {
            "s_cbranch_scc0" | "s_cbranch_scc1" => 1,
            "s_cbranch_vccz" | "s_cbranch_vccnz" => 2,
            _ => 0,
        };
        meta.is_barrier = matches!(name, "s_barrier" | "s_barrier_signal");
        let scalar = matches!(inst.encoding, Encoding::Sop1 | Encoding::Sop2 | Encoding::Sopk | Encoding::Sopc);
        meta.reads_scc = matches!(
            name,
            "s_cselect_b32"
                | "s_cselect_b64"
                | "s_cmov_b32"
                | "s_cmov_b64"
                | "s_cmovk_i32"
                | "s_add_co_ci_u32"
                | "s_sub_co_ci_u32"
        );
        meta.writes_scc = scalar && writes_scc(name);
        meta.add_counters(descriptor.arch, inst, name);
        meta
    }

    /// Registers are counted from M0: anything may be read, and any register may be what was written.
    pub fn any_register(&mut self, vgprs: usize) {
        self.reads.retain(|found| !found.vector);
        self.writes = vec![Use { vector: true, index: 0, dwords: vgprs.min(255) as u8, role: Role::Value }];
        self.rule = Rule::Load;
    }

    fn add_operands(&mut self, descriptor: &Descriptor, inst: &Inst) {
        let name = inst.op.name();
        let roles = match inst.encoding {
            Encoding::Smem => [Role::Address, Role::Address, Role::Data, Role::Value],
            Encoding::Ds if name.contains("permute") || name.contains("swizzle") => [Role::Value; 4],
            Encoding::Ds => [Role::Address, Role::Data, Role::Data, Role::Value],
            Encoding::Flat | Encoding::Global | Encoding::Scratch => {
                [Role::Address, Role::Data, Role::Address, Role::Address]
            }
            Encoding::Mubuf | Encoding::Mtbuf => [Role::Address, Role::Data, Role::Address, Role::Address],
            _ => [Role::Value; 4],
        };
        for (n, arg) in inst.src.iter().enumerate() {
            let Some(mut found) = registers(descriptor, arg, roles[n]) else { continue };
            let selects = matches!(inst.op, Name::V_CNDMASK_B32 | Name::V_CNDMASK_B16) || name.contains("_co_ci_");
            let mask = n == 2 && selects || n == 3 && name.starts_with("v_div_fmas");
            if mask && !found.vector {
                found.role = Role::Mask;
            }
            self.reads.push(found);
        }
        if name.starts_with("v_div_fmas") && !inst.src[3].is_some() {
            let dwords = if descriptor.wave_size == 64 { 2 } else { 1 };
            self.reads.push(Use { vector: false, index: scalar::VCC, dwords, role: Role::Mask });
        }
        // These change their destination.
        if matches!(
            inst.op,
            Name::S_BITSET0_B32
                | Name::S_BITSET0_B64
                | Name::S_BITSET1_B32
                | Name::S_BITSET1_B64
                | Name::S_ADDK_CO_I32
                | Name::S_MULK_I32
        ) || name.starts_with("s_cmpk")
        {
            self.reads.extend(registers(descriptor, &inst.dst, Role::Value));
        }
        if name.starts_with("s_cmpk") || name.starts_with("s_setreg") {
            return;
        }
        self.writes.extend(registers(descriptor, &inst.dst, Role::Value));
        self.writes.extend(registers(descriptor, &inst.sdst, Role::Value));
        if inst.op == Name::V_SWAP_B32 {
            self.writes.extend(registers(descriptor, &inst.src[0], Role::Value));
        }
    }

    fn add_counters(&mut self, arch: Arch, inst: &Inst, name: &str) {
        let generation = arch.generation();
        let store = name.contains("_store") || name.contains("atomic") && !inst.returns;
        match inst.encoding {
            Encoding::Smem if self.class == Class::ScalarMemory && !name.contains("prefetch") => {
                self.counter = if generation >= 12 { Counter::Scalar } else { Counter::Local };
                self.unordered = true;
            }
            Encoding::Ds if self.class == Class::Local => {
                self.counter = Counter::Local;
                self.is_store = !inst.dst.is_some();
            }
            Encoding::Flat if self.class != Class::Other => {
                self.counter = Counter::Flat;
                // From gfx10 on, both counters count in order.
                self.unordered = generation < 10;
                self.is_store = store;
            }
            Encoding::Global | Encoding::Scratch | Encoding::Mubuf | Encoding::Mtbuf if self.class != Class::Other => {
                self.counter = if store && generation >= 10 { Counter::Store } else { Counter::Load };
                self.is_store = store;
            }
            _ => {}
        }
        self.waits = waits(generation, inst.op, inst.imm as u32);
        self.cache = Cache::of(inst);
        self.coherent = self.class == Class::Load && is_coherent(arch, inst.cache);
    }
}

/// What a wait instruction waits for.
fn waits(generation: u32, op: Name, imm: u32) -> Option<Waits> {
    let mut waits = Waits::default();
    let low = |mask: u32| Some((imm & mask) as u8);
    match op {
        Name::S_WAITCNT => {
            let (load, local) = match generation {
                9 => (imm & 15 | imm >> 10 & 0x30, imm >> 8 & 15),
                10 => (imm & 15 | imm >> 10 & 0x30, imm >> 8 & 63),
                _ => (imm >> 10 & 63, imm >> 4 & 63),
            };
            (waits.load, waits.local) = (Some(load as u8), Some(local as u8));
            // All ones is no wait at all, whatever the counter's width.
            if load == 63 {
                waits.load = None;
            }
            if local == if generation == 9 { 15 } else { 63 } {
                waits.local = None;
            }
        }
        Name::S_WAITCNT_VSCNT | Name::S_WAIT_STORECNT => waits.store = low(63),
        Name::S_WAITCNT_VMCNT | Name::S_WAIT_LOADCNT => waits.load = low(63),
        Name::S_WAITCNT_LGKMCNT | Name::S_WAIT_DSCNT => waits.local = low(63),
        Name::S_WAIT_KMCNT => waits.scalar = low(31),
        Name::S_WAIT_LOADCNT_DSCNT => (waits.load, waits.local) = (Some((imm >> 8 & 63) as u8), low(63)),
        Name::S_WAIT_STORECNT_DSCNT => (waits.store, waits.local) = (Some((imm >> 8 & 63) as u8), low(63)),
        Name::S_WAIT_IDLE => waits = Waits { load: Some(0), store: Some(0), local: Some(0), scalar: Some(0) },
        _ => return None,
    }
    Some(waits)
}

fn writes_scc(name: &str) -> bool {
    !(name.starts_with("s_mov")
        || name.starts_with("s_cmov")
        || name.starts_with("s_cselect")
        || name.starts_with("s_brev")
        || name.starts_with("s_sext")
        || name.starts_with("s_ff0")
        || name.starts_with("s_ctz")
        || name.starts_with("s_clz")
        || name.starts_with("s_cls")
        || name.starts_with("s_bfm")
        || name.starts_with("s_bitset")
        || name.starts_with("s_mul")
        || name.starts_with("s_pack")
        || name.starts_with("s_wait")
        || name.starts_with("s_getreg")
        || name.starts_with("s_setreg")
        || name.starts_with("s_barrier")
        || name.ends_with("_f32") && !name.starts_with("s_cmp")
        || name.ends_with("_f16") && !name.starts_with("s_cmp")
        || name.starts_with("s_cvt")
        || name.contains("_nc_u64")
        || name.contains("pc_b64")
        || name.starts_with("s_call"))
}

fn rule(inst: &Inst, name: &str) -> Rule {
    if inst.dpp.is_some() {
        return Rule::Moves;
    }
    match name {
        "s_and_b32" | "s_and_b64" => Rule::And,
        "s_or_b32" | "s_or_b64" => Rule::Or,
        "s_and_not1_b32" | "s_and_not1_b64" => Rule::AndNot,
        "s_or_not1_b32" | "s_or_not1_b64" => Rule::OrNot,
        "s_xor_b32" | "s_xor_b64" | "s_xnor_b32" | "s_xnor_b64" | "s_not_b32" | "s_not_b64" | "s_mov_b32"
        | "s_mov_b64" => Rule::Xor,
        "s_cselect_b32" | "s_cselect_b64" => Rule::ScalarSelect,
        "v_cndmask_b32" | "v_cndmask_b16" => Rule::Select,
        "v_mad_co_u64_u32" | "v_mad_co_i64_i32" | "v_lshl_add_u64" | "v_lshlrev_b64" => Rule::WideAdd,
        "v_mov_b64" => Rule::PairMove,
        "v_pk_fma_f32" | "v_pk_mul_f32" | "v_pk_add_f32" => Rule::Packed,
        "v_pk_mov_b32" => Rule::PackedMove,
        "v_readfirstlane_b32" => Rule::ReadFirst,
        "v_readlane_b32" => Rule::ReadLane,
        "v_writelane_b32" => Rule::WriteLane,
        "ds_bpermute_b32" => Rule::Permute,
        _ if name.contains("saveexec") || name.contains("wrexec") => Rule::SaveExec,
        _ if name.starts_with("v_cmp") => Rule::Compare,
        _ if name.starts_with("v_permlane") || name.starts_with("ds_permute") || name.starts_with("ds_swizzle") => {
            Rule::Moves
        }
        _ if name.starts_with("v_mfma") || name.contains("wmma") || name.contains("mmac") => Rule::Moves,
        _ if matches!(
            inst.encoding,
            Encoding::Smem
                | Encoding::Ds
                | Encoding::Flat
                | Encoding::Global
                | Encoding::Scratch
                | Encoding::Mubuf
                | Encoding::Mtbuf
        ) =>
        {
            Rule::Load
        }
        _ => Rule::Plain,
    }
}

fn classify(inst: &Inst) -> Class {
    let name = inst.op.name();
    match inst.encoding {
        Encoding::Sopp if name.starts_with("s_cbranch") || name.starts_with("s_branch") => Class::Branch,
        Encoding::Sopp | Encoding::Sop1 if name.starts_with("s_barrier") => Class::Barrier,
        Encoding::Sopp => Class::Other,
        Encoding::Sop1 if name.ends_with("pc_b64") && name != "s_getpc_b64" => Class::Branch,
        Encoding::Sopk if name.starts_with("s_wait") => Class::Other,
        Encoding::Sop1 | Encoding::Sop2 | Encoding::Sopk | Encoding::Sopc => Class::Scalar,
        Encoding::Smem if name.contains("load") || name.contains("time") => Class::ScalarMemory,
        Encoding::Smem => Class::Other,
        Encoding::Ds | Encoding::LdsDir => Class::Local,
        Encoding::Flat | Encoding::Global | Encoding::Scratch | Encoding::Mubuf | Encoding::Mtbuf | Encoding::Image => {
            if name.contains("atomic") {
                Class::Atomic
            } else if name.contains("_load") {
                Class::Load
            } else if name.contains("_store") {
                Class::Store
            } else {
                Class::Other
            }
        }
        _ if name.starts_with("v_mfma") || name.contains("wmma") || name.contains("mmac") => Class::Matrix,
        _ if name.ends_with("_f64") || name.contains("f64_") => Class::Double,
        _ if ["v_rcp", "v_rsq", "v_sqrt", "v_exp_", "v_log_", "v_sin", "v_cos", "v_s_"]
            .iter()
            .any(|start| name.starts_with(start)) =>
        {
            Class::Transcendental
        }
        _ if matches!(
            name,
            "v_mul_lo_u32" | "v_mul_hi_u32" | "v_mul_hi_i32" | "v_mad_co_u64_u32" | "v_mad_co_i64_i32"
        ) =>
        {
            Class::Multiply
        }
        _ => Class::Vector,
    }
}
