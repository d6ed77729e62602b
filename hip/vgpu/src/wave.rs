//! A wave: its registers as rows of lanes, its masks, and the predecoded form of the instructions it runs. Generic over the
//! number of lanes, 32 or 64.

use crate::exec::machine::Machine;

/// What a handler says about how to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The next instruction, or where the handler set `pc`.
    Next,
    /// Wait for the other waves of the block.
    Barrier,
    /// The program is over.
    End,
    /// Something is wrong; the machine has the details.
    Fail,
    /// Continue at the address in `jump`, which may be anywhere.
    Jump,
}

/// Runs one instruction.
///
/// # Safety
/// The CPU must have the features the handler was compiled for; `exec::pick` sees to that.
pub(crate) type Handler<const L: usize> = unsafe fn(&mut Wave<L>, &Op<L>, &mut Machine<'_>) -> Flow;

/// Where an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum Kind {
    /// There is none.
    #[default]
    None,
    /// A row of lanes: vector and accumulation registers, and the wave's own spare rows.
    Row,
    /// A scalar register, numbered as in `Wave::s`.
    Scalar,
    /// `value`; the upper word of a pair is 0.
    Const,
    /// `value`, sign-extended to a pair.
    Signed,
    /// The upper word of a pair is `value`, the lower one 0.
    High,
    /// 1 / (2 pi) as an f64, the one inline constant with a lower word.
    InvTwoPi,
    /// The scalar condition code.
    Scc,
    /// VCC is 0.
    Vccz,
    /// EXEC is 0.
    Execz,
}

/// An operand of a predecoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Slot {
    pub kind: Kind,
    /// See `mods`.
    pub mods: u8,
    /// Row or scalar register.
    pub index: u16,
    pub value: u32,
}

/// Bits of `Slot::mods`.
pub(crate) mod mods {
    /// Negate (packed: for the low result).
    pub const NEG: u8 = 1;
    /// Drop the sign.
    pub const ABS: u8 = 2;
    /// Take the high half (packed: for the low result).
    pub const HIGH: u8 = 4;
    /// Packed: negate for the high result.
    pub const NEG_HI: u8 = 8;
    /// Packed: take the high half for the high result. `v_fma_mix`: the operand is an f16.
    pub const HIGH_HI: u8 = 16;
}

/// Bits of `Op::flags`.
pub(crate) mod flags {
    /// Clamp the result.
    pub const CLAMP: u32 = 1;
    /// The output modifier, two bits.
    pub const OMOD: u32 = 6;
    /// A 16-bit result goes to the high half, and the low one stays.
    pub const DST_HIGH: u32 = 8;
    /// A 16-bit result clears the high half; a 16-bit load into one half clears the other.
    pub const CLEAR_HIGH: u32 = 16;
    /// A compare that writes EXEC as well as its destination (gfx9).
    pub const ALSO_EXEC: u32 = 32;
    /// An atomic that returns the old value.
    pub const RETURNS: u32 = 64;
    /// MUBUF: there is an index.
    pub const IDXEN: u32 = 128;
    /// MUBUF: there is an offset register.
    pub const OFFEN: u32 = 256;
    /// 16-bit loads that keep the other half: into the high one.
    pub const D16_HI: u32 = 512;
    /// 16-bit loads that keep the other half: into the low one.
    pub const D16_LO: u32 = 1024;
    /// Loads: sign-extend.
    pub const SIGNED: u32 = 2048;

    /// What else holds for a load into half a register: CDNA's registers have error correction and are written as a whole.
    pub fn of_half_loads(flags: u32, is_cdna: bool) -> u32 {
        if is_cdna && flags & (D16_HI | D16_LO) != 0 {
            CLEAR_HIGH
        } else {
            0
        }
    }
}

/// What some instructions need besides operands: the instruction inside SDWA, DPP and VOPD forms.
pub(crate) struct Inner<const L: usize> {
    pub first: Op<L>,
    pub second: Option<Op<L>>,
    pub inst: Box<crate::inst::Inst>,
}

/// A predecoded instruction.
pub(crate) struct Op<const L: usize> {
    pub run: Handler<L>,
    pub inner: Option<Box<Inner<L>>>,
    pub dst: Slot,
    /// Second destination; MUBUF: the scalar offset.
    pub sdst: Slot,
    pub src: [Slot; 3],
    /// Offset, branch target (an index), immediate.
    pub imm: i32,
    pub flags: u32,
}

/// Numbers of the special scalar registers in `Wave::s`; the others are as encoded.
pub(crate) mod scalar {
    pub const VCC: u16 = 106;
    pub const TTMP: u16 = 108;
    pub const M0: u16 = 124;
    pub const NULL: u16 = 125;
    pub const EXEC: u16 = 126;
    pub const FLAT_SCRATCH: u16 = 102;
    pub const XNACK_MASK: u16 = 104;
}

/// Rows behind the registers that handlers use for themselves.
pub(crate) const SPARE_ROWS: usize = 8;

/// What every register holds before it is written: a signalling NaN, an address that nobody has.
pub(crate) const POISON: u32 = 0x7fa5_a5a5;

/// A register's lanes, aligned so that no vector access of the host crosses a line of its cache.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Row<const L: usize>(pub [u32; L]);

impl<const L: usize> Row<L> {
    pub const ZERO: Self = Self([0; L]);
}

impl<const L: usize> std::ops::Deref for Row<L> {
    type Target = [u32; L];

    #[inline(always)]
    fn deref(&self) -> &[u32; L] {
        &self.0
    }
}

impl<const L: usize> std::ops::DerefMut for Row<L> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u32; L] {
        &mut self.0
    }
}

/// Where a wave stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    AtBarrier,
    Ended,
}

/// A wave.
pub(crate) struct Wave<const L: usize> {
    /// Vector registers, accumulation registers, spare rows.
    pub v: Vec<Row<L>>,
    /// Scalar registers, with VCC, TTMP, M0, NULL and EXEC at their numbers.
    pub s: [u32; 128],
    /// EXEC as bits; `s` has it too. Written by `set_exec` only.
    pub exec: u64,
    /// EXEC as a row: all ones or 0 a lane.
    pub mask: Row<L>,
    pub scc: bool,
    /// The floating-point mode, as in the descriptor.
    pub mode: u32,
    /// The next instruction's index in the running program.
    pub pc: usize,
    /// Which of the launch's programs is running.
    pub program: usize,
    /// Where `Flow::Jump` goes to.
    pub jump: u64,
    /// Number of the wave in its block.
    pub id: usize,
    pub state: State,
    /// Vector registers were given back (`MSG_DEALLOC_VGPRS`).
    pub released: bool,
    /// Barrier signalled and not yet waited for (gfx12).
    pub signalled: bool,
    /// Private memory of this wave: interleaved by lane, a dword each.
    pub scratch: Vec<u32>,
    /// Instructions this wave has run.
    pub steps: u64,
    /// What the checks remember.
    pub watch: crate::checks::Watch,
}

impl<const L: usize> Wave<L> {
    /// All bits that lanes have.
    pub const ALL: u64 = if L == 64 { u64::MAX } else { (1 << 32) - 1 };

    pub fn new() -> Self {
        Self {
            v: Vec::new(),
            s: [POISON; 128],
            exec: 0,
            mask: Row::ZERO,
            scc: false,
            mode: 0,
            pc: 0,
            program: 0,
            jump: 0,
            id: 0,
            state: State::Running,
            released: false,
            signalled: false,
            scratch: Vec::new(),
            steps: 0,
            watch: Default::default(),
        }
    }

    /// A wave that has not run yet: poison everywhere.
    pub fn reset(&mut self, rows: usize, scratch_dwords: usize) {
        self.v.clear();
        self.v.resize(rows + SPARE_ROWS, Row([POISON; L]));
        self.s = [POISON; 128];
        self.s[scalar::NULL as usize] = 0;
        self.s[scalar::EXEC as usize + 1] = 0;
        self.scratch.clear();
        self.scratch.resize(scratch_dwords * L, POISON);
        self.scc = false;
        self.pc = 0;
        self.program = 0;
        self.state = State::Running;
        self.released = false;
        self.signalled = false;
        self.steps = 0;
    }

    #[inline(never)]
    pub fn set_exec(&mut self, bits: u64) {
        let bits = bits & Self::ALL;
        self.exec = bits;
        self.s[scalar::EXEC as usize] = bits as u32;
        if L == 64 {
            self.s[scalar::EXEC as usize + 1] = (bits >> 32) as u32;
        }
        self.mask = expand(bits);
    }

    /// VCC as a mask.
    #[inline(always)]
    pub fn vcc(&self) -> u64 {
        self.pair(scalar::VCC) & Self::ALL
    }

    /// Two scalar registers as one value. At the end of the file the upper word is 0.
    #[inline(always)]
    pub fn pair(&self, index: u16) -> u64 {
        let index = index as usize;
        let low = self.s[index & 127];
        let high = if index < 127 { self.s[index + 1] } else { 0 };
        u64::from(low) | u64::from(high) << 32
    }

    /// A word of a scalar operand, the same for all lanes.
    #[inline(always)]
    pub fn word(&self, slot: Slot, word: u16) -> u32 {
        match slot.kind {
            Kind::Scalar => self.s[(slot.index + word) as usize & 127],
            Kind::Const => {
                if word == 0 {
                    slot.value
                } else {
                    0
                }
            }
            _ => self.word_rare(slot, word),
        }
    }

    #[inline(never)]
    fn word_rare(&self, slot: Slot, word: u16) -> u32 {
        match (slot.kind, word) {
            (Kind::Signed, 0) => slot.value,
            (Kind::Signed, _) => (slot.value as i32 >> 31) as u32,
            (Kind::High, 1) => slot.value,
            (Kind::InvTwoPi, 0) => 0x6dc9_c882,
            (Kind::InvTwoPi, _) => 0x3fc4_5f30,
            (Kind::Scc, 0) => u32::from(self.scc),
            (Kind::Vccz, 0) => u32::from(self.vcc() == 0),
            (Kind::Execz, 0) => u32::from(self.exec == 0),
            // A row where a scalar is wanted: the lowest active lane.
            (Kind::Row, _) => {
                let lane = if self.exec == 0 { 0 } else { self.exec.trailing_zeros() as usize };
                self.v[(slot.index + word) as usize][lane % L]
            }
            _ => 0,
        }
    }

    /// A scalar operand of 32 bits.
    #[inline(always)]
    pub fn s32(&self, slot: Slot) -> u32 {
        self.word(slot, 0)
    }

    /// A scalar operand of 64 bits.
    #[inline(always)]
    pub fn s64(&self, slot: Slot) -> u64 {
        u64::from(self.word(slot, 0)) | u64::from(self.word(slot, 1)) << 32
    }

    /// A lane mask: one word in wave32, two in wave64.
    #[inline(always)]
    pub fn lanes(&self, slot: Slot) -> u64 {
        if L == 64 {
            self.s64(slot)
        } else {
            u64::from(self.s32(slot))
        }
    }

    /// Writes a scalar register.
    #[inline(always)]
    pub fn set_s32(&mut self, slot: Slot, value: u32) {
        if slot.kind == Kind::Scalar {
            self.set_scalar(slot.index, value);
        }
    }

    #[inline(always)]
    pub fn set_scalar(&mut self, index: u16, value: u32) {
        if index < scalar::NULL {
            self.s[index as usize] = value;
        } else {
            self.set_special(index, value);
        }
    }

    #[inline(never)]
    fn set_special(&mut self, index: u16, value: u32) {
        match index {
            scalar::EXEC => self.set_exec(self.exec & !0xffff_ffff | u64::from(value)),
            127 => self.set_exec(self.exec & 0xffff_ffff | u64::from(value) << 32),
            _ => {}
        }
    }

    /// Writes a pair of scalar registers.
    #[inline(always)]
    pub fn set_s64(&mut self, slot: Slot, value: u64) {
        if slot.kind != Kind::Scalar {
            return;
        }
        if slot.index == scalar::EXEC {
            self.set_exec(value);
        } else if slot.index != scalar::NULL {
            self.set_scalar(slot.index, value as u32);
            self.set_scalar(slot.index + 1, (value >> 32) as u32);
        }
    }

    /// Writes a lane mask.
    #[inline(always)]
    pub fn set_lanes(&mut self, slot: Slot, bits: u64) {
        if L == 64 {
            self.set_s64(slot, bits);
        } else {
            self.set_s32(slot, bits as u32);
        }
    }

    /// The lanes that are on, in order.
    #[inline(always)]
    pub fn active(&self) -> Lanes {
        Lanes(self.exec)
    }
}

/// The set bits of a mask, lowest first.
pub(crate) struct Lanes(pub u64);

impl Iterator for Lanes {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let lane = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(lane)
    }
}

/// Bits as a row of all ones or 0. In two halves of 32 bits, which the compiler turns into vector shifts.
#[inline(always)]
pub(crate) fn expand<const L: usize>(bits: u64) -> Row<L> {
    let mut row = Row::ZERO;
    for half in 0..L / 32 {
        let word = (bits >> (32 * half)) as u32;
        for i in 0..32u32 {
            row[32 * half + i as usize] = ((word << (31 - i)) as i32 >> 31) as u32;
        }
    }
    row
}

/// The top bits of a row as a mask.
#[inline(always)]
pub(crate) fn collect<const L: usize>(row: &[u32; L]) -> u64 {
    let mut bits = 0;
    for (n, chunk) in row.as_chunks::<{ crate::exec::lanes::CHUNK }>().0.iter().enumerate() {
        bits |= u64::from(crate::exec::lanes::top_bits(chunk)) << (crate::exec::lanes::CHUNK * n);
    }
    bits
}
