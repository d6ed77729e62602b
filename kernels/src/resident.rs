//! Long rows that blocks keep on the chip between gathering and mapping them (`hip/resident.h`): into how many blocks a row is
//! cut, and which rows gain from it. Memory is read once then, not twice.

use crate::block_counters::BlockCounters;
use crate::dtype::DType;
use crate::layout::Divider;
use crate::profile::{Profile, DRIVERS_SHARED_BYTES};
use crate::rows::{RowMatrix, ROW_THREADS};
use bytemuck::{Pod, Zeroable};
use hip::{DevicePtr, LaunchConfig, Result, Stream};

/// Pairs of teams in a block, its threads, and the tiles that a pair has in shared memory.
const PAIRS: u64 = 15;
const THREADS: u32 = 992;
const PLACES: u64 = 28;

/// Bytes of a tile, and of what the teams of a block tell each other.
const TILE: u64 = 512;
const STAGE: u64 = 8192;

/// Tiles that a pair keeps in registers, beside those in shared memory.
#[cfg(test)]
const HELD: u64 = 8;

/// Tiles that a pair has of a row at most. A pair has room for PLACES + HELD, 36, and what is left is for the next row.
const MOST: u64 = 20;

/// Rows from which on a group of blocks gains: the first is read, and the last one written, by itself. As measured on an H200, where
/// fewer are mapped from the cache in about the same time.
const ROUNDS: u64 = 4;

/// How often a block looks for what the others of its group gathered: about ten milliseconds, a thousand times what it should take.
const PATIENCE: u32 = 1 << 14;

/// States of a launch at most; the last block clears them.
const STATES: u64 = 1 << 20;

/// Rows on the chip as the kernels take them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct Residents {
    states: DevicePtr<u64>,
    left: DevicePtr<u32>,
    counts: DevicePtr<u32>,
    rows: u32,
    columns: u32,
    patience: u32,
    group: Divider,
}

/// A launch over rows on the chip.
#[derive(Debug)]
pub(crate) struct ResidentPlan {
    group: u64,
    config: LaunchConfig,
    patience: u32,
}

impl ResidentPlan {
    /// How to launch for `rows` rows of `bytes` bytes each, a multiple of 16, where they gain from it.
    pub fn of(profile: &Profile, rows: u64, bytes: u64, dtype: DType) -> Option<Self> {
        let forced = profile.planning.residents;
        // A state has to fit into a word.
        if bytes == 0 || dtype == DType::F64 {
            return None;
        }
        let shared = PAIRS * PLACES * TILE;
        let room = u64::from(profile.shared_bytes);
        let staged = profile.bulk_copies() && room >= shared + STAGE + u64::from(DRIVERS_SHARED_BYTES);
        let (group, groups) = match forced {
            Some(_) => (bytes.div_ceil(PAIRS * MOST * TILE).max(2), 1),
            None if staged => groups(u64::from(profile.units), rows, bytes)?,
            None => return None,
        };
        if rows * group > STATES {
            return None;
        }
        let blocks = (group * groups) as u32;
        let config = match staged {
            true => LaunchConfig::new(blocks, THREADS).shared(shared as u32),
            false => LaunchConfig::new(blocks, ROW_THREADS),
        };
        Some(Self { group, config, patience: forced.unwrap_or(PATIENCE) })
    }

    /// Calls `launch` with what the kernel takes.
    pub fn launch(
        self,
        stream: &Stream,
        rows: RowMatrix,
        launch: impl FnOnce(Residents, LaunchConfig) -> Result<()>,
    ) -> Result<()> {
        let states = (rows.rows * self.group) as usize;
        // Two words and one for each state, and two counters.
        let counters = BlockCounters::new(stream, 3 * states as u32 + 2)?;
        let words = counters.ptr();
        let shape = Residents {
            states: words.cast(),
            left: words.offset(2 * states),
            counts: words.offset(3 * states),
            rows: rows.rows as u32,
            columns: rows.columns as u32,
            patience: self.patience,
            group: Divider::new(self.group),
        };
        launch(shape, self.config)
    }
}

/// The blocks that share each of `rows` rows of `bytes` bytes, and the groups of them that run at a time on so many `units`, which
/// have a block each. Nothing where a block has the room for a row, where all blocks have not, or where rows are few.
fn groups(units: u64, rows: u64, bytes: u64) -> Option<(u64, u64)> {
    let least = bytes.div_ceil(PAIRS * MOST * TILE);
    if !(2..=units).contains(&least) {
        return None;
    }
    let groups = units / least;
    (rows >= ROUNDS * groups).then_some((units / groups, groups))
}

crate::shared::shared! {
    [
        "STAGE_TEAM": TILE / 16,
        "RESIDENT_PAIRS": PAIRS,
        "RESIDENT_STAGED_THREADS": THREADS,
        "RESIDENT_PLACES": PLACES,
        "RESIDENT_HELD": HELD,
        "RESIDENT_TILE": TILE,
    ]
    "Residents": Residents { states, left, counts, rows, columns, patience, group }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_long_rows_stay_on_the_chip() {
        // The whole device for a row, some blocks for each of several.
        assert_eq!(groups(132, 8, 2 << 23), Some((132, 1)));
        assert_eq!(groups(132, 512, 4 * 128_256), Some((4, 33)));
        assert_eq!(groups(132, 132, 4 * 128_256), Some((4, 33)));
        // Few, too short, too long.
        assert_eq!(groups(132, 32, 4 * 128_256), None);
        assert_eq!(groups(132, 3, 2 << 23), None);
        assert_eq!(groups(132, 1_000_000, 100_000), None);
        assert_eq!(groups(132, 8, 2 << 24), None);
        assert_eq!(groups(16, 8, 2 << 23), None);
    }

    #[test]
    fn no_pair_has_more_tiles_than_it_has_room_for() {
        for bytes in (160_000..20_000_000u64).step_by(99_991) {
            let (group, groups) = groups(132, u64::MAX / 1000, bytes).expect("rows that are long enough");
            assert!(group * groups <= 132 && bytes.div_ceil(TILE).div_ceil(group * PAIRS) <= MOST, "{bytes}");
        }
    }
}
