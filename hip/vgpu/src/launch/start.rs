//! What the hardware has put into the registers when a wave starts: ids, the packet, the arguments, private memory.

use super::{read_bytes, Launch};
use crate::elf::little;
use crate::exec::machine::PRIVATE_APERTURE;
use crate::failure::Failure;
use crate::memory::Memory;
use crate::wave::{scalar, Wave};

impl Launch {
    /// Sets up the registers of a block's waves as the hardware does, and says how many there are.
    pub(super) fn init_waves<const L: usize>(
        &self,
        block: [u32; 3],
        waves: &mut Vec<Wave<L>>,
        memory: &dyn Memory,
    ) -> Result<usize, Failure> {
        let descriptor = &self.descriptor;
        // A block at the edge of the grid may be smaller.
        let size: [u32; 3] =
            std::array::from_fn(|n| self.block[n].min(self.grid[n].saturating_sub(block[n] * self.block[n])));
        let threads: usize = size.iter().map(|&n| n as usize).product();
        let count = threads.div_ceil(L);
        while waves.len() < count {
            waves.push(Wave::new());
        }
        let scalars = self.scalars(block, memory)?;
        for (id, wave) in waves.iter_mut().enumerate().take(count) {
            wave.reset(descriptor.vgprs, self.private_bytes.div_ceil(4) as usize);
            wave.id = id;
            wave.mode = descriptor.mode;
            for &(index, value) in &scalars {
                if index < 124 {
                    wave.s[index] = value;
                }
            }
            let filled = self.system_registers(wave, block, id, threads);
            if self.options.checks.any() {
                let rows = if descriptor.arch.packs_work_item_id() {
                    1
                } else {
                    1 + descriptor.work_item_dimensions() as usize
                };
                let caller = scalars.iter().map(|&(index, _)| index);
                let on = self.options.checks;
                wave.watch.start(on, Wave::<L>::ALL, wave.v.len(), rows, caller.chain(filled));
            }
            let on = (threads - id * L).min(L);
            wave.set_exec(if on == 64 { u64::MAX } else { (1 << on) - 1 });
            let dimensions = descriptor.work_item_dimensions();
            for lane in 0..L {
                let item = (id * L + lane) as u32;
                let [x, y, z] = [item % size[0], item / size[0] % size[1], item / size[0] / size[1]];
                if descriptor.arch.packs_work_item_id() {
                    let y = if dimensions >= 1 { y } else { 0 };
                    let z = if dimensions >= 2 { z } else { 0 };
                    wave.v[0][lane] = x | y << 10 | z << 20;
                } else {
                    wave.v[0][lane] = x;
                    for (row, value) in [(1, y), (2, z)] {
                        if dimensions >= row && (row as usize) < descriptor.vgprs {
                            wave.v[row as usize][lane] = value;
                        }
                    }
                }
            }
        }
        Ok(count)
    }

    /// The scalar registers that the caller fills: dense, in the order of the properties.
    fn scalars(&self, _block: [u32; 3], memory: &dyn Memory) -> Result<Vec<(usize, u32)>, Failure> {
        let mut values = Vec::new();
        let mut push = |value: u64, words: usize| {
            for n in 0..words {
                values.push((values.len(), (value >> (32 * n)) as u32));
            }
        };
        let has = |bit: u32| self.descriptor.properties >> bit & 1 != 0;
        let packet = self.packet.0.as_ptr() as u64;
        if has(0) {
            // A buffer resource that vector memory recognises as private memory.
            push(u64::from(PRIVATE_APERTURE & 0xffff | 0x2000 | 1 << 31) << 32, 2);
            push(u64::from(u32::MAX), 2);
        }
        if has(1) {
            push(packet, 2);
        }
        if has(2) {
            // Without a queue, code that reads it fails at address 0.
            push(self.queue, 2);
        }
        if has(3) {
            push(self.kernarg, 2);
        }
        if has(4) {
            push(0, 2);
        }
        if has(5) {
            push(0, 2);
        }
        if has(6) {
            push(u64::from(self.private_bytes), 1);
        }
        let (length, offset) = (u64::from(self.descriptor.preload & 127), u64::from(self.descriptor.preload >> 7));
        if length > 0 {
            let bytes = read_bytes(memory, self.kernarg.wrapping_add(4 * offset), 4 * length as usize)
                .filter(|bytes| bytes.len() == 4 * length as usize)
                .ok_or_else(|| Failure::launch("the arguments to be preloaded cannot be read"))?;
            for word in bytes.chunks_exact(4) {
                push(little(word, 0, 4).unwrap_or(0), 1);
            }
        }
        Ok(values)
    }

    /// The registers that the hardware fills: block ids, the wave's place, the offset of private memory.
    fn system_registers<const L: usize>(
        &self,
        wave: &mut Wave<L>,
        block: [u32; 3],
        id: usize,
        threads: usize,
    ) -> Vec<usize> {
        let descriptor = &self.descriptor;
        let mut filled = Vec::new();
        if descriptor.arch.generation() >= 12 {
            filled.extend([7, 8, 9].map(|n| usize::from(scalar::TTMP) + n));
            wave.s[usize::from(scalar::TTMP) + 9] = block[0];
            wave.s[usize::from(scalar::TTMP) + 7] = block[1] & 0xffff | block[2] << 16;
            // The wave's number in its block.
            wave.s[usize::from(scalar::TTMP) + 8] = (id as u32) << 25;
        }
        let mut next = descriptor.user_sgprs;
        let mut push = |value: u32| {
            if next < 104 {
                wave.s[next] = value;
                filled.push(next);
            }
            next += 1;
        };
        if descriptor.arch.generation() < 12 {
            for (n, &id) in block.iter().enumerate() {
                if descriptor.wants_block_id(n) {
                    push(id);
                }
            }
        }
        if descriptor.wants_block_info() {
            push(threads.div_ceil(L) as u32 | (id as u32) << 6);
        }
        if descriptor.wants_scratch() && !descriptor.arch.sets_flat_scratch() {
            push(0);
        }
        filled
    }
}
