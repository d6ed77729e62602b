//! Predecoding: the code that can be reached from an address becomes a vector of operations with handlers and operand slots.
//! Nothing is decoded while it runs. What is not emulated becomes an operation that fails when it is reached, by its name.

use crate::checks::meta::{mark_first_loads, Cache, Meta};
use crate::checks::quick::Quick;
use crate::decode::decode_halves;
use crate::exec::{lanes, lds};
use crate::inst::{Inst, Op as Name};
use crate::lower::{blank, index, is_memory, is_vector, lower, Facts};
use crate::wave::{flags, Flow, Op, Wave};
use std::collections::{BTreeMap, HashMap};

/// More instructions than any kernel has: garbage must not make this run for minutes.
const MOST_INSTRUCTIONS: usize = 1 << 20;

/// Predecoded code.
pub(crate) struct Program<const L: usize> {
    pub ops: Vec<Op<L>>,
    /// The address of each operation.
    pub pcs: Vec<u64>,
    /// What each operation was decoded from; `None` for those that only join pieces or refuse.
    pub insts: Vec<Option<Inst>>,
    /// What the checks know of each operation.
    pub meta: Vec<Meta>,
    /// The part of it that the run loop looks at.
    pub quick: Vec<Quick>,
    /// There is an instruction that lets a block see what others released.
    pub acquires: bool,
    /// Why an operation refuses to run.
    pub refusals: HashMap<usize, String>,
    index: HashMap<u64, usize>,
}

/// Refuses to run; the launch adds the words.
struct Refuse;
impl lanes::Run for Refuse {
    fn run<const L: usize>(_w: &mut Wave<L>, _op: &Op<L>, m: &mut crate::exec::machine::Machine<'_>) -> Flow {
        m.fail(crate::failure::Cause::Instruction, None, String::new())
    }
}

/// Goes on at another operation.
struct Join;
impl lanes::Run for Join {
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, _m: &mut crate::exec::machine::Machine<'_>) -> Flow {
        w.pc = op.imm as usize;
        Flow::Next
    }
}

impl Inst {
    /// Where an instruction at `pc` may jump to, if it says so itself.
    pub(crate) fn jump(&self, pc: u64) -> Option<u64> {
        let is_branch = matches!(
            self.op,
            Name::S_BRANCH
                | Name::S_CBRANCH_SCC0
                | Name::S_CBRANCH_SCC1
                | Name::S_CBRANCH_VCCZ
                | Name::S_CBRANCH_VCCNZ
                | Name::S_CBRANCH_EXECZ
                | Name::S_CBRANCH_EXECNZ
        );
        let target = pc.wrapping_add(u64::from(self.size)).wrapping_add((i64::from(self.imm) * 4) as u64);
        is_branch.then_some(target)
    }

    /// Whether the one behind it may be the next.
    pub(crate) fn falls_through(&self) -> bool {
        !matches!(self.op, Name::S_BRANCH | Name::S_ENDPGM | Name::S_SETPC_B64 | Name::S_ENDPGM_SAVED)
    }
}

impl<const L: usize> Program<L> {
    /// Predecodes what can be reached from `entry`. `read` gives the bytes of code at an address, at most sixteen.
    pub fn new(facts: &Facts<'_>, entry: u64, read: &dyn Fn(u64) -> Option<Vec<u8>>) -> Self {
        let mut found: BTreeMap<u64, Result<Inst, String>> = BTreeMap::new();
        let mut pending = vec![entry];
        while let Some(mut pc) = pending.pop() {
            while !found.contains_key(&pc) {
                if found.len() >= MOST_INSTRUCTIONS {
                    found.insert(pc, Err("the code has more instructions than are taken".to_owned()));
                    break;
                }
                let Some(bytes) = read(pc) else {
                    found.insert(pc, Err("there is no code at this address".to_owned()));
                    break;
                };
                let inst = match decode_halves(facts.descriptor.arch, L, &bytes) {
                    Ok(inst) => inst,
                    Err(why) => {
                        found.insert(pc, Err(why.to_string()));
                        break;
                    }
                };
                let next = pc.wrapping_add(u64::from(inst.size.max(4)));
                pending.extend(inst.jump(pc));
                let on = inst.falls_through();
                found.insert(pc, Ok(inst));
                if !on {
                    break;
                }
                pc = next;
            }
        }
        Self::lower_all(facts, found)
    }

    fn lower_all(facts: &Facts<'_>, found: BTreeMap<u64, Result<Inst, String>>) -> Self {
        // Where instructions overlap, the one behind is not the next in order: a join goes there.
        let addresses: Vec<u64> = found.keys().copied().collect();
        let joins = |n: usize, inst: &Inst| {
            let next = addresses[n].wrapping_add(u64::from(inst.size.max(4)));
            (inst.falls_through() && addresses.get(n + 1) != Some(&next)).then_some(next)
        };
        let mut index = HashMap::new();
        let mut count = 0;
        for (n, (&pc, result)) in found.iter().enumerate() {
            index.insert(pc, count);
            count += 1 + usize::from(result.as_ref().is_ok_and(|inst| joins(n, inst).is_some()));
        }
        let mut program = Self {
            ops: Vec::with_capacity(count + 1),
            pcs: Vec::with_capacity(count + 1),
            insts: Vec::with_capacity(count + 1),
            meta: Vec::with_capacity(count + 1),
            quick: Vec::with_capacity(count + 1),
            acquires: false,
            refusals: HashMap::new(),
            index,
        };
        let mut memory_ops = 0;
        let mut indexed = false;
        for (n, (pc, result)) in found.into_iter().enumerate() {
            match result {
                Ok(inst) => {
                    let join = joins(n, &inst);
                    // gfx9's indexed mode is left within straight code.
                    match inst.op {
                        Name::S_SET_GPR_IDX_ON => indexed = true,
                        Name::S_SET_GPR_IDX_OFF => indexed = false,
                        _ => {}
                    }
                    program.push_instruction(facts, pc, inst, &mut memory_ops, indexed);
                    if let Some(next) = join {
                        let mut op = blank(lanes::pick::<Join, L>(facts.fast));
                        op.imm = program.index.get(&next).copied().unwrap_or(count) as i32;
                        program.push(op, pc, None, Meta::default());
                    }
                }
                Err(why) => program.push_refusal(facts, pc, why, None),
            }
        }
        program.push_refusal(facts, 0, "ran past the end of the code".to_owned(), None);
        mark_first_loads(&program.insts, &mut program.meta);
        program.quick.extend(program.meta.iter().map(Quick::of));
        program
    }

    fn push(&mut self, op: Op<L>, pc: u64, inst: Option<Inst>, meta: Meta) {
        self.ops.push(op);
        self.pcs.push(pc);
        self.insts.push(inst);
        self.acquires |= meta.cache.is_some_and(Cache::acquires);
        self.meta.push(meta);
    }

    fn push_refusal(&mut self, facts: &Facts<'_>, pc: u64, why: String, inst: Option<Inst>) {
        self.refusals.insert(self.ops.len(), why);
        self.push(blank(lanes::pick::<Refuse, L>(facts.fast)), pc, inst, Meta::default());
    }

    fn push_instruction(&mut self, facts: &Facts<'_>, pc: u64, inst: Inst, memory_ops: &mut u32, indexed: bool) {
        match lower(facts, &inst) {
            Ok(mut op) => {
                if indexed && is_vector(inst.encoding) {
                    if op.inner.is_some() {
                        return self.push_refusal(
                            facts,
                            pc,
                            "SDWA and DPP are not emulated in indexed mode".to_owned(),
                            Some(inst),
                        );
                    }
                    op = index(facts, op, &inst, 0);
                }
                if let Some(target) = inst.jump(pc) {
                    // The last operation refuses: a target that was not found leads there.
                    op.imm = self.index.get(&target).map_or(i32::MAX, |&index| index as i32);
                }
                if matches!(inst.op, Name::S_GETPC_B64 | Name::S_SWAPPC_B64 | Name::S_CALL_B64) {
                    let following = pc + u64::from(inst.size);
                    op.src[1].value = following as u32;
                    op.src[2].value = (following >> 32) as u32;
                }
                op.flags |= flags::of_half_loads(op.flags, facts.descriptor.arch.is_cdna());
                if is_memory(inst.encoding) {
                    op.flags |= (*memory_ops % 32) << lds::SLOT_SHIFT;
                    *memory_ops += 1;
                }
                let mut meta = Meta::of(facts.descriptor, &inst);
                if indexed && is_vector(inst.encoding) || inst.op.name().starts_with("v_movrel") {
                    meta.any_register(facts.descriptor.vgprs);
                }
                self.push(op, pc, Some(inst), meta);
            }
            Err(why) => self.push_refusal(facts, pc, why, Some(inst)),
        }
    }

    /// The operation at an address.
    pub fn find(&self, address: u64) -> Option<usize> {
        self.index.get(&address).copied()
    }
}
