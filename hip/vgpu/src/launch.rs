//! Launches: a kernel, a grid, arguments, and the blocks run one by one. Nothing here needs the object that code came from: a
//! descriptor in memory, an AQL packet and the address of the arguments are enough.

mod hidden;
mod options;
mod schedule;
mod start;

pub use options::Options;
pub use schedule::Schedule;

use crate::checks::{Rules, Shadow, Tracker};
use crate::count::Counters;
use crate::decode_cache::CodeCache;
use crate::descriptor::{Descriptor, DESCRIPTOR_BYTES};
use crate::elf::little;
use crate::exec::lanes::{has_vectors, HAS_PORTABLE};
use crate::exec::machine::{Machine, CACHED_SPANS};
use crate::failure::{Cause, Failure, Place};
use crate::lines::SourceLine;
use crate::lower::Facts;
use crate::memory::{self, Memory, Span};
use crate::object::Kernel;
use crate::program::Program;
use crate::target::Arch;
use crate::wave::{Flow, State, Wave};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// An AQL dispatch packet, as kernels may read it.
#[repr(C, align(64))]
struct Packet([u8; 64]);

/// A kernel about to run on a grid. Shared by the threads that run its blocks.
pub struct Launch {
    name: String,
    descriptor: Descriptor,
    entry: u64,
    /// Addresses in reports are relative to this.
    base: u64,
    blocks: [u32; 3],
    block: [u32; 3],
    grid: [u32; 3],
    lds_bytes: u32,
    private_bytes: u32,
    kernarg: u64,
    /// The queue that kernels may ask for; 0 is none.
    queue: u64,
    stop: Option<Arc<AtomicBool>>,
    options: Options,
    packet: Box<Packet>,
    /// The object's segments and the packet: memory that the launch brings along.
    image: Vec<Span>,
    code: Code,
    /// Where races in global memory are looked for.
    shadow: Option<Box<Shadow>>,
}

/// Whose predecoded code it is.
enum Code {
    Kernel(Kernel),
    Cache(Arc<CodeCache>),
}

/// What one thread needs to run blocks: registers and local memory, kept from block to block.
#[derive(Default)]
pub struct Worker {
    narrow: Pool<32>,
    wide: Pool<64>,
    counters: Counters,
}

struct Pool<const L: usize> {
    waves: Vec<Wave<L>>,
    lds: Vec<u8>,
    tracker: Tracker,
}

impl<const L: usize> Default for Pool<L> {
    fn default() -> Self {
        Self { waves: Vec::new(), lds: Vec::new(), tracker: Tracker::default() }
    }
}

impl Worker {
    /// A worker that has not run anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was counted since the last call.
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(&mut self.counters)
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// Instructions after which a wave looks whether it shall stop: a few milliseconds.
const STOP_INTERVAL: u64 = 1 << 18;
/// The most work-items of a block.
const MOST_THREADS: u64 = 1024;

impl Launch {
    /// A launch of a kernel: `grid` blocks of `block` work-items, local memory on top of the static, and the address of the
    /// arguments.
    pub fn new(
        kernel: &Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_lds: u32,
        kernarg: u64,
    ) -> Result<Self, Failure> {
        let descriptor = kernel.descriptor().clone();
        let lds =
            descriptor.lds_bytes.checked_add(dynamic_lds).ok_or_else(|| Failure::launch("too much local memory"))?;
        let mut items = [0; 3];
        for n in 0..3 {
            items[n] = grid[n].checked_mul(block[n]).ok_or_else(|| {
                Failure::launch(format!("{} blocks of {} work-items are too many", grid[n], block[n]))
            })?;
        }
        let mut packet = [0; 64];
        packet[2..4].copy_from_slice(&3u16.to_le_bytes());
        for n in 0..3 {
            packet[4 + 2 * n..6 + 2 * n].copy_from_slice(&(block[n] as u16).to_le_bytes());
            packet[12 + 4 * n..16 + 4 * n].copy_from_slice(&items[n].to_le_bytes());
        }
        packet[24..28].copy_from_slice(&descriptor.private_bytes.to_le_bytes());
        packet[28..32].copy_from_slice(&lds.to_le_bytes());
        packet[32..40].copy_from_slice(&kernel.descriptor_address().to_le_bytes());
        packet[40..48].copy_from_slice(&kernarg.to_le_bytes());
        let mut launch = Self::build(descriptor, kernel.entry(), &packet, Code::Kernel(kernel.clone()))?;
        launch.name = kernel.name().to_owned();
        launch.base = kernel.base();
        launch.image.extend_from_slice(kernel.spans());
        Ok(launch)
    }

    /// A launch from an AQL packet alone: the descriptor, the code and the arguments are in memory. `cache` keeps what is
    /// predecoded; whoever changes code clears it.
    pub fn from_packet(
        arch: Arch,
        packet: &[u8; 64],
        cache: Arc<CodeCache>,
        memory: &dyn Memory,
    ) -> Result<Self, Failure> {
        let address = little(packet, 32, 8).unwrap_or(0);
        let bytes = read_bytes(memory, address, DESCRIPTOR_BYTES)
            .filter(|bytes| bytes.len() == DESCRIPTOR_BYTES)
            .ok_or_else(|| Failure::launch(format!("there is no kernel descriptor at {address:#x}")))?;
        let descriptor = Descriptor::parse(arch, &bytes).map_err(Failure::launch)?;
        let entry = address.wrapping_add(descriptor.entry as u64);
        let mut launch = Self::build(descriptor, entry, packet, Code::Cache(cache))?;
        launch.name = format!("at {address:#x}");
        Ok(launch)
    }

    fn build(descriptor: Descriptor, entry: u64, packet: &[u8; 64], code: Code) -> Result<Self, Failure> {
        let field = |at, size| little(packet, at, size).unwrap_or(0);
        let block = [field(4, 2) as u32, field(6, 2).max(1) as u32, field(8, 2).max(1) as u32];
        let grid = [field(12, 4) as u32, field(16, 4).max(1) as u32, field(20, 4).max(1) as u32];
        let lds_bytes = field(28, 4) as u32;
        let threads: u64 = block.iter().map(|&n| u64::from(n)).product();
        if threads == 0 || threads > MOST_THREADS {
            return Err(Failure::launch(format!("a block of {threads} work-items; it may have 1 to {MOST_THREADS}")));
        }
        let arch = descriptor.arch;
        if lds_bytes as usize > arch.lds_bytes() {
            return Err(Failure::launch(format!(
                "a block wants {lds_bytes} bytes of local memory; {arch} has {}",
                arch.lds_bytes()
            )));
        }
        let blocks = std::array::from_fn(|n| grid[n].div_ceil(block[n].max(1)));
        let packet = Box::new(Packet(*packet));
        let start = packet.0.as_ptr() as u64;
        let image = vec![Span { start, end: start + 64, writable: false, shadow: std::ptr::null_mut() }];
        let private_bytes = (field(24, 4) as u32).max(descriptor.private_bytes);
        if private_bytes > 1 << 20 {
            return Err(Failure::launch(format!(
                "a work-item wants {private_bytes} bytes of private memory; at most 1 MiB is emulated"
            )));
        }
        Ok(Self {
            name: String::new(),
            entry,
            base: 0,
            blocks,
            block,
            grid,
            lds_bytes,
            private_bytes,
            kernarg: field(40, 8),
            queue: 0,
            stop: None,
            options: Options::default(),
            packet,
            image,
            code,
            shadow: None,
            descriptor,
        })
    }

    /// The same launch with these options.
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self.shadow = options.checks.races.then(|| Box::new(Shadow::new()));
        self
    }

    /// The same launch on a queue: the address of its `amd_queue_t`, which kernels may read.
    pub fn with_queue(mut self, address: u64) -> Self {
        self.queue = address;
        self
    }

    /// The same launch, which fails with [`Cause::Limit`] soon after somebody sets the flag.
    pub fn with_stop(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Blocks in each dimension.
    pub fn blocks(&self) -> [u32; 3] {
        self.blocks
    }

    /// Blocks in all.
    pub fn block_count(&self) -> u64 {
        self.blocks.iter().map(|&n| u64::from(n)).product()
    }

    /// The place of the `n`-th block, x fastest.
    pub fn block_at(&self, n: u64) -> [u32; 3] {
        let [x, y, _] = self.blocks.map(|n| u64::from(n.max(1)));
        [(n % x) as u32, (n / x % y) as u32, (n / x / y) as u32]
    }

    /// What the kernel's descriptor says.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// What of the code that can be reached is not emulated: addresses as a disassembly prints them, and why. Such code only
    /// fails when it is run.
    pub fn refusals(&self, memory: &dyn Memory) -> Vec<(u64, String)> {
        let start = self.start();
        let collect = |refusals: &std::collections::HashMap<usize, String>, pcs: &[u64]| {
            let mut found: Vec<(u64, String)> = refusals
                .iter()
                .filter(|&(&at, _)| at + 1 < pcs.len())
                .map(|(&at, why)| (pcs[at].wrapping_sub(self.base), why.clone()))
                .collect();
            found.sort();
            found
        };
        if self.descriptor.wave_size == 32 {
            let program = self.narrow_program(start, memory);
            collect(&program.refusals, &program.pcs)
        } else {
            let program = self.wide_program(start, memory);
            collect(&program.refusals, &program.pcs)
        }
    }

    /// Runs all blocks on this thread.
    pub fn run(&self, worker: &mut Worker, memory: &dyn Memory) -> Result<(), Failure> {
        if let Some(shadow) = &self.shadow {
            shadow.clear();
        }
        let schedule = self.options.schedule;
        if schedule == Schedule::Ascending {
            return (0..self.block_count()).try_for_each(|n| self.run_block(self.block_at(n), worker, memory));
        }
        let mut order: Vec<u64> = (0..self.block_count()).collect();
        schedule.arrange(&mut schedule.random(u64::MAX), &mut order);
        order.into_iter().try_for_each(|n| self.run_block(self.block_at(n), worker, memory))
    }

    /// Runs one block to its end. Blocks of a launch may run at once on several threads, each with its own worker. Each runs once: where
    /// races are looked for, a block that runs again would race with itself.
    pub fn run_block(&self, block: [u32; 3], worker: &mut Worker, memory: &dyn Memory) -> Result<(), Failure> {
        if !self.facts().fast && !HAS_PORTABLE {
            let why =
                "this build of vgpu needs a CPU with AVX2 and FMA; build it with the feature `portable` for others";
            return Err(Failure::launch(why));
        }
        let Worker { narrow, wide, counters } = worker;
        if self.descriptor.wave_size == 32 {
            self.run_waves::<32>(block, narrow, counters, memory, &|launch, address| {
                launch.narrow_program(address, memory)
            })
        } else {
            self.run_waves::<64>(block, wide, counters, memory, &|launch, address| launch.wide_program(address, memory))
        }
    }

    fn facts(&self) -> Facts<'_> {
        Facts { descriptor: &self.descriptor, fast: has_vectors() && !self.options.portable }
    }

    fn cache(&self) -> &CodeCache {
        match &self.code {
            Code::Kernel(kernel) => kernel.cache(),
            Code::Cache(cache) => cache,
        }
    }

    fn read_code(&self, address: u64, memory: &dyn Memory) -> Option<Vec<u8>> {
        let own = self.image.iter().find(|span| span.contains(address, 4)).copied();
        let span = own.or_else(|| memory.find(address))?;
        if !address.is_multiple_of(4) || !span.contains(address, 4) {
            return None;
        }
        let count = (span.end - address).min(16) & !3;
        let mut bytes = Vec::with_capacity(16);
        for n in 0..count / 4 {
            // SAFETY: inside a span that may be read.
            bytes.extend(unsafe { memory::load_u32(address + 4 * n) }.to_le_bytes());
        }
        Some(bytes)
    }

    fn narrow_program(&self, address: u64, memory: &dyn Memory) -> Arc<Program<32>> {
        let facts = self.facts();
        let key = (address, self.descriptor.vgprs, self.descriptor.accum_offset, facts.fast);
        self.cache().narrow(key, || Program::new(&facts, address, &|at| self.read_code(at, memory)))
    }

    fn wide_program(&self, address: u64, memory: &dyn Memory) -> Arc<Program<64>> {
        let facts = self.facts();
        let key = (address, self.descriptor.vgprs, self.descriptor.accum_offset, facts.fast);
        self.cache().wide(key, || Program::new(&facts, address, &|at| self.read_code(at, memory)))
    }

    fn run_waves<const L: usize>(
        &self,
        block: [u32; 3],
        pool: &mut Pool<L>,
        counters: &mut Counters,
        memory: &dyn Memory,
        program: &dyn Fn(&Self, u64) -> Arc<Program<L>>,
    ) -> Result<(), Failure> {
        if (0..3).any(|n| block[n] >= self.blocks[n]) {
            return Err(Failure::launch(format!("block {block:?} is outside of the grid {:?}", self.blocks)));
        }
        let mut lds = std::mem::take(&mut pool.lds);
        lds.clear();
        // Poison, so that what nobody wrote is no zero.
        lds.resize(self.lds_bytes as usize, 0xa5);
        let mut machine = Machine {
            arch: self.descriptor.arch,
            memory,
            image: &self.image,
            accuracy: self.options.accuracy,
            lds,
            lds_bytes: self.lds_bytes as usize,
            cache: [Span::EMPTY; CACHED_SPANS],
            trouble: None,
            refused: None,
            checked: self.options.strict_local,
            tracker: std::mem::take(&mut pool.tracker),
            shadow: self.shadow.as_deref(),
            block,
            counters: std::mem::take(counters),
            counting: self.options.count,
        };
        let mut programs = vec![program(self, self.start())];
        let count = self.init_waves(block, &mut pool.waves, memory)?;
        machine.tracker.on = self.options.checks;
        let [x, y, z] = block.map(u64::from);
        let number = x + u64::from(self.blocks[0]) * (y + u64::from(self.blocks[1]) * z);
        let rules = Rules::of(&self.descriptor);
        machine.tracker.start(self.lds_bytes as usize, machine.shadow, rules, number, count);
        machine.tracker.may_acquire(programs[0].acquires, true);
        if self.options.count {
            machine.counters.blocks += 1;
            machine.counters.waves += count as u64;
        }
        let result = self.schedule(&mut pool.waves[..count], &mut programs, &mut machine, program);
        pool.lds = std::mem::take(&mut machine.lds);
        pool.tracker = std::mem::take(&mut machine.tracker);
        *counters = std::mem::take(&mut machine.counters);
        result
    }

    /// The first instruction that runs. Code that has its arguments preloaded starts 256 bytes later.
    fn start(&self) -> u64 {
        if self.descriptor.preload & 127 != 0 {
            self.entry.wrapping_add(256)
        } else {
            self.entry
        }
    }

    /// Runs waves until all have ended.
    fn schedule<const L: usize>(
        &self,
        waves: &mut [Wave<L>],
        programs: &mut Vec<Arc<Program<L>>>,
        machine: &mut Machine<'_>,
        program: &dyn Fn(&Self, u64) -> Arc<Program<L>>,
    ) -> Result<(), Failure> {
        let mut order: Vec<usize> = (0..waves.len()).collect();
        let schedule = self.options.schedule;
        let mut random = schedule.random(machine.block.iter().fold(0, |sum, &n| sum << 21 ^ u64::from(n)));
        if schedule == Schedule::Descending {
            order.reverse();
        }
        let is_random = matches!(schedule, Schedule::Random(_));
        let turn = if self.options.switch_every == 0 { u64::MAX } else { u64::from(self.options.switch_every) };
        loop {
            if is_random {
                schedule.arrange(&mut random, &mut order);
            }
            for &n in &order {
                let wave = &mut waves[n];
                if wave.state != State::Running {
                    continue;
                }
                let budget = if is_random && turn != u64::MAX { 1 + random.next() % turn } else { turn };
                self.run_wave(wave, programs, machine, budget, program)?;
            }
            if waves.iter().all(|wave| wave.state == State::Ended) {
                return Ok(());
            }
            // Waves that have ended no longer count at a barrier.
            if waves.iter().all(|wave| wave.state != State::Running) {
                for wave in waves.iter_mut().filter(|wave| wave.state == State::AtBarrier) {
                    wave.state = State::Running;
                }
                machine.tracker.passed_barrier(waves);
            }
        }
    }

    /// Runs a wave until its budget is spent, a barrier, or its end.
    fn run_wave<const L: usize>(
        &self,
        wave: &mut Wave<L>,
        programs: &mut Vec<Arc<Program<L>>>,
        machine: &mut Machine<'_>,
        mut budget: u64,
        program: &dyn Fn(&Self, u64) -> Arc<Program<L>>,
    ) -> Result<(), Failure> {
        let watched = self.options.count || self.options.checks.any();
        loop {
            let current = programs[wave.program].clone();
            let mut allowed = budget.min(self.options.limit.saturating_sub(wave.steps));
            if let Some(stop) = &self.stop {
                if stop.load(Ordering::Relaxed) {
                    machine.fail(Cause::Limit, None, format!("was stopped after {} instructions", wave.steps));
                    wave.pc += 1;
                    return Err(self.report(wave, &current, machine));
                }
                allowed = allowed.min(STOP_INTERVAL);
            }
            let (flow, steps) = if watched {
                crate::checks::run_watched(wave, &current, machine, allowed)
            } else {
                run_plain(wave, &current, machine, allowed)
            };
            wave.steps += steps;
            budget -= steps.min(budget);
            match flow {
                Flow::Barrier => {
                    wave.state = State::AtBarrier;
                    return Ok(());
                }
                Flow::End => {
                    wave.state = State::Ended;
                    return Ok(());
                }
                Flow::Fail => return Err(self.report(wave, &current, machine)),
                Flow::Jump => {
                    let known =
                        programs.iter().enumerate().find_map(|(n, program)| Some((n, program.find(wave.jump)?)));
                    if let Some((n, pc)) = known {
                        (wave.program, wave.pc) = (n, pc);
                        continue;
                    }
                    let more = program(self, wave.jump);
                    wave.pc = more.find(wave.jump).unwrap_or(0);
                    wave.program = programs.len();
                    machine.tracker.may_acquire(more.acquires, false);
                    programs.push(more);
                }
                Flow::Next => {
                    if wave.steps >= self.options.limit {
                        let why = format!("a wave ran {} instructions and has not ended", wave.steps);
                        machine.fail(Cause::Limit, None, why);
                        wave.pc += 1;
                        return Err(self.report(wave, &current, machine));
                    }
                    if budget == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// The lines of the source that an instruction came from, where an object says so.
    fn lines(&self, pc: u64) -> Vec<SourceLine> {
        match &self.code {
            Code::Kernel(kernel) => kernel.lines(pc),
            Code::Cache(_) => Vec::new(),
        }
    }

    /// Words for what went wrong at the wave's last instruction.
    fn report<const L: usize>(&self, wave: &Wave<L>, program: &Program<L>, machine: &mut Machine<'_>) -> Failure {
        let at = wave.pc.wrapping_sub(1);
        let trouble = machine.trouble.take();
        let (cause, lane, mut message) = match trouble {
            Some(trouble) => (trouble.cause, trouble.lane, trouble.message),
            None => (Cause::Jump, None, "jumped to where no code is".to_owned()),
        };
        if let Some(why) = program.refusals.get(&at).filter(|_| message.is_empty()) {
            message = why.clone();
        }
        let pc = program.pcs.get(at).copied().unwrap_or(0);
        let text = program
            .insts
            .get(at)
            .and_then(Option::as_ref)
            .map_or_else(String::new, |inst| crate::disasm::text(self.descriptor.arch, L, inst));
        let place = Place {
            kernel: self.name.clone(),
            block: machine.block,
            wave: wave.id,
            lane,
            pc: pc.wrapping_sub(self.base),
            text,
            lines: self.lines(pc.wrapping_sub(self.base)),
            address: machine.refused.take(),
        };
        Failure { cause, message, place: Some(Box::new(place)) }
    }
}

/// The loop: an operation after the other.
#[inline(never)]
fn run_plain<const L: usize>(
    wave: &mut Wave<L>,
    program: &Program<L>,
    machine: &mut Machine<'_>,
    budget: u64,
) -> (Flow, u64) {
    let ops = program.ops.as_slice();
    let mut left = budget;
    while left > 0 {
        let Some(op) = ops.get(wave.pc) else { return (Flow::Fail, budget - left) };
        wave.pc += 1;
        left -= 1;
        // SAFETY: the handler was picked for this CPU when the program was made.
        let flow = unsafe { (op.run)(wave, op, machine) };
        if flow != Flow::Next {
            return (flow, budget - left);
        }
    }
    (Flow::Next, budget)
}

/// Bytes of memory, where all of them may be read.
fn read_bytes(memory: &dyn Memory, address: u64, count: usize) -> Option<Vec<u8>> {
    let span = memory.find(address)?;
    if !span.contains(address, count as u64) {
        return None;
    }
    // SAFETY: inside a span that may be read.
    Some((0..count as u64).map(|n| unsafe { memory::load_u8(address + n) }).collect())
}
