//! Which kernel attends, and how its work is cut: into tiles of rows, and where those are too few to fill the device, into parts of
//! the keys.

use super::{AttentionOptions, Sizes};
use crate::dtype::DType;
use crate::profile::Profile;

/// Threads of a block.
pub(super) const THREADS: u32 = 128;

/// Head sizes that there are kernels for, with their suffixes; others take the next larger.
const CLASSES: [(usize, &str); 4] = [(64, "_64"), (128, "_128"), (256, "_256"), (512, "_512")];

/// Keys of a part at least: less, and adding the parts up takes longer than they do.
const LEAST_KEYS: usize = 256;
/// Parts at most.
const MOST_SPLITS: usize = 128;

/// A launch over tiles of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TilePlan {
    /// The end of the kernel's name.
    pub variant: &'static str,
    pub threads: u32,
    pub shared_bytes: u32,
    /// Heads in a tile.
    pub pack: usize,
    /// Tiles of the rows of as many heads.
    pub tiles: u32,
    /// Parts of the keys.
    pub splits: u32,
}

impl TilePlan {
    pub fn of(profile: &Profile, dtype: DType, sizes: &Sizes, options: &AttentionOptions<'_>) -> Self {
        let longest = sizes.depth.max(sizes.width);
        let class = CLASSES.iter().position(|(class, _)| longest <= *class).unwrap_or(CLASSES.len() - 1);
        let height = tile_rows(profile, dtype, class);
        let group = sizes.heads / sizes.kv_heads;
        // Heads that share keys share a tile where each has few rows.
        let pack = if sizes.queries < height { group } else { 1 };
        let tiles = (sizes.queries * pack).div_ceil(height).max(1);
        let blocks = tiles * (sizes.heads / pack) * sizes.batches;
        let splits = match profile.side_by_side() {
            true => splits(profile.blocks(2) as usize, blocks, seen_keys(sizes, options)),
            false => 1,
        };
        let shared_bytes = match profile.dynamic_shared() {
            true => shared_bytes(dtype, class, height, options.mask.is_some()),
            false => 0,
        };
        Self {
            variant: CLASSES[class].1,
            threads: THREADS,
            shared_bytes,
            pack,
            tiles: tiles as u32,
            splits: splits as u32,
        }
    }
}

/// Rows of a tile.
fn tile_rows(profile: &Profile, dtype: DType, class: usize) -> usize {
    match profile.arch.attention_rows.value.get(class) {
        Some(&rows) if dtype != DType::F32 => rows as usize,
        _ => plain_rows(class),
    }
}

/// Rows of a tile without matrix units (`PlainTile` in `hip/attention/plain.h`).
fn plain_rows(class: usize) -> usize {
    THREADS as usize / (CLASSES[class].0 / 16).max(8) * 4
}

/// Shared memory of a block on NVIDIA, where kernels do not have it by themselves: `PlainTile::Shared`, or `FragmentTile::Shared` and a
/// mask behind it.
fn shared_bytes(dtype: DType, class: usize, height: usize, mask: bool) -> u32 {
    let longest = CLASSES[class].0;
    let bytes = if height == plain_rows(class) {
        (height * (longest + 4) + 32 * (64 + 4) + 32 * (height + 4)) * size_of::<f32>()
    } else {
        let mask = if mask { height * 33 * size_of::<f32>() } else { 0 };
        (height + 2 * 64) * (longest + 8) * dtype.size() + mask
    };
    bytes as u32
}

/// Keys that a query sees at most.
fn seen_keys(sizes: &Sizes, options: &AttentionOptions<'_>) -> usize {
    let window = options.window;
    match (window.left, window.right) {
        (Some(left), Some(right)) if options.prefixes.is_none() => {
            sizes.keys.min(left.saturating_add(right).saturating_add(sizes.queries))
        }
        _ => sizes.keys,
    }
}

/// Parts of `keys` keys for so many blocks, of which the device wants `wanted`.
fn splits(wanted: usize, blocks: usize, keys: usize) -> usize {
    (wanted / blocks.max(1)).min(keys / LEAST_KEYS).clamp(1, MOST_SPLITS)
}
