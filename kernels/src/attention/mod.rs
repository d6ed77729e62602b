//! Attention in one launch: what can be asked for, the checks, and the launch. Which tiles are taken and into how many parts the keys
//! are cut is decided in `plan.rs`; rows that the kernels cannot read as they are get copied in `operands.rs`.

mod operands;
mod plan;

use crate::block_counters::BlockCounters;
use crate::dtype::DType;
use crate::kernels::{one_stream, Kernels};
use crate::layout::Divider;
use crate::registry::Id;
use crate::tensor::{Operand, OperandMut, Output};
use bytemuck::{Pod, Zeroable};
use hip::{DevicePtr, Error, LaunchConfig, Result};
use operands::Rows;
use plan::TilePlan;

/// Which keys a query sees, by position: query `i` is at position `i + offset` among the keys. The default is all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttentionWindow {
    /// Keys before its own position that a query sees; `None` for all.
    pub left: Option<usize>,
    /// Keys after its own position that a query sees; `None` for all, 0 for causal attention.
    pub right: Option<usize>,
    /// Position of the first query; `None` where the last query is at the last key.
    pub offset: Option<isize>,
}

impl AttentionWindow {
    /// No key after a query's own position; the last query sees all keys.
    pub const CAUSAL: Self = Self { left: None, right: Some(0), offset: None };
}

/// A mask with shape (batch, heads, queries, keys), any strides; dimensions of size 1 are broadcast.
#[derive(Clone, Copy, Debug)]
pub enum AttentionMask<'a> {
    /// Added to the scores: of the dtype of the queries, or f32.
    Add(Operand<'a>),
    /// Bytes: where one is not zero, the score is the given value, most often minus infinity.
    Fill(Operand<'a>, f32),
}

/// Sequences of different lengths, one behind the other in the third dimension of q, k and v. The first is then 1.
#[derive(Clone, Copy, Debug)]
pub struct Sequences<'a> {
    /// u32: where each sequence of queries begins, and the end of the last.
    pub query_starts: Operand<'a>,
    /// The same for keys. With pages only the differences count.
    pub key_starts: Operand<'a>,
    /// The longest sequence of queries and of keys; one that is longer is reported, and its end left out.
    pub longest: (usize, usize),
}

/// What attention does beside `softmax(q k^T scale) v`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'a> {
    /// The products of queries and keys are multiplied by this.
    pub scale: f32,
    /// `cap * tanh(score / cap)` in place of the scaled score.
    pub softcap: Option<f32>,
    /// Which keys are seen.
    pub window: AttentionWindow,
    /// What is added to scores, or hides them.
    pub mask: Option<AttentionMask<'a>>,
    /// Alibi: f32, one slope for each head; `slope * distance` is taken off a score.
    pub slopes: Option<Operand<'a>>,
    /// Sequences of different lengths.
    pub sequences: Option<Sequences<'a>>,
    /// A cache in pages: k and v are (pages, heads, rows of a page, dim), and this u32 or i32 table has, for each sequence, its pages.
    pub pages: Option<Operand<'a>>,
    /// i32 (batch, n, 2): within such a range of positions, from the first up to the second, everything is seen.
    pub prefixes: Option<Operand<'a>>,
    /// A query that sees no key gets NaN, as a softmax of nothing gives, and not 0.
    pub nan_rows: bool,
}

impl AttentionOptions<'_> {
    /// Nothing but a scale.
    pub fn scaled(scale: f32) -> Self {
        Self { scale, ..Self::default() }
    }
}

/// Elements that a row of q, k or v may have.
const LONGEST_ROW: usize = 512;
/// Rows of a sequence are fewer, and offsets at most so many, so that sums of positions stay within an i32.
const MOST_ROWS: usize = 1 << 29;
/// A window this wide shows every key to every query.
const WIDEST_WINDOW: usize = 2 * MOST_ROWS;

const MASK_F32: u32 = 1;
const MASK_OWN: u32 = 2;
const MASK_FILL: u32 = 3;

/// `AttentionShape` in `hip/attention/shape.h`, where the fields are explained.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct AttentionShape {
    queries: u32,
    keys: u32,
    depth: u32,
    width: u32,
    heads: u32,
    group: u32,
    pack: Divider,
    tiles: u32,
    splits: u32,
    first_batch: u32,
    batches: u32,
    total_queries: u32,
    total_keys: u32,
    page: Divider,
    page_count: u32,
    table_stride: u32,
    prefixes: u32,
    offset: i32,
    offset_at_end: u32,
    left: i32,
    right: i32,
    mask: u32,
    changed: u32,
    nan_rows: u32,
    scale: f32,
    softcap: f32,
    fill: f32,
    unused: u32,
    q: RowStrides,
    k: RowStrides,
    v: RowStrides,
    out: RowStrides,
    mask_batch: u64,
    mask_head: u64,
    mask_row: u64,
    mask_column: u64,
}

/// Strides of batches, heads and rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RowStrides {
    batch: u64,
    head: u64,
    row: u64,
}

/// `AttentionExtras` in `hip/attention/shape.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct AttentionExtras {
    mask: DevicePtr<u8>,
    slopes: DevicePtr<u8>,
    query_starts: DevicePtr<u8>,
    key_starts: DevicePtr<u8>,
    table: DevicePtr<u8>,
    prefixes: DevicePtr<u8>,
    lse: DevicePtr<u8>,
    partial: DevicePtr<f32>,
    counters: DevicePtr<u32>,
    fault: DevicePtr<u64>,
}

/// All that a kernel takes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct AttentionArguments {
    q: DevicePtr<u8>,
    k: DevicePtr<u8>,
    v: DevicePtr<u8>,
    out: DevicePtr<u8>,
    shape: AttentionShape,
    extra: AttentionExtras,
}

/// The sizes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Sequences.
    batches: usize,
    heads: usize,
    kv_heads: usize,
    /// Rows of a sequence, of the longest where they differ.
    queries: usize,
    keys: usize,
    /// Elements of a row of q and k, and of v and the result.
    depth: usize,
    width: usize,
}

impl Kernels {
    /// `softmax(q k^T scale) v`, with what `options` add to it. q is (batch, heads, queries, dim), k and v are (batch, heads of theirs,
    /// keys, dim), out is as q with the last dimension of v; heads of k and v are shared by as many neighbouring heads of q as there
    /// are for each. All are of one dtype, f16, bf16 or f32, with any strides. Sums are f32, and the same from run to run.
    ///
    /// `lse` gets the logarithm of each row's sum of exponentials, f32 (batch, heads, queries), minus infinity for a query that sees no
    /// key; with sequences (heads, rows of q).
    pub fn attention(
        &self,
        q: &Operand<'_>,
        k: &Operand<'_>,
        v: &Operand<'_>,
        options: &AttentionOptions<'_>,
        out: &mut OperandMut<'_>,
        lse: Option<&mut Output<'_>>,
    ) -> Result<()> {
        let sizes = check(q, k, v, options, out)?;
        let stream = out.stream();
        one_stream(stream, &[q, k, v])?;
        let extra_operands = [
            options.mask.map(|mask| match mask {
                AttentionMask::Add(mask) | AttentionMask::Fill(mask, _) => mask,
            }),
            options.slopes,
            options.sequences.map(|s| s.query_starts),
            options.sequences.map(|s| s.key_starts),
            options.pages,
            options.prefixes,
        ];
        extra_operands.iter().flatten().try_for_each(|operand| one_stream(stream, &[operand]))?;
        let lse_count = q.dims()[0] * sizes.heads * q.dims()[2];
        if let Some(lse) = &lse {
            crate::kernels::fits(OP, "lse", lse.count(), lse_count, lse.dtype(), DType::F32)?;
            if lse.stream().handle() != stream.handle() {
                return Err(Error::refused("attention: lse belongs to another stream than the result"));
            }
        }
        let dtype = q.dtype();
        let plan = TilePlan::of(self.profile(), dtype, &sizes, options);
        let function = self.function(Id::Attention, "attention", &[dtype], plan.variant)?;
        if out.dims().contains(&0) {
            return Ok(());
        }
        let (q_rows, k_rows, v_rows) = (Rows::of(self, q)?, Rows::of(self, k)?, Rows::of(self, v)?);
        let mut results = operands::Results::of(out, stream)?;

        let rows = lse_count;
        let partial = match plan.splits {
            1 => None,
            splits => Some(stream.alloc::<f32>(splits as usize * rows * (v_rows.length + STATE_WORDS))?),
        };
        let packed = options.sequences.is_some();
        // Rows of the result that belong to no sequence are made zero by a batch of their own.
        let grid_batches = sizes.batches + usize::from(packed);
        let row_blocks = (sizes.heads / plan.pack) as u32;
        let counters = match plan.splits {
            1 => None,
            _ => Some(BlockCounters::new(stream, row_blocks * plan.tiles * GRID_LIMIT.min(grid_batches) as u32)?),
        };
        let address =
            |operand: &Option<Operand<'_>>| operand.map_or(DevicePtr::from_address(0), |operand| operand.ptr());
        let [mask, slopes, query_starts, key_starts, table, prefixes] = &extra_operands;
        let extra = AttentionExtras {
            mask: address(mask),
            slopes: address(slopes),
            query_starts: address(query_starts),
            key_starts: address(key_starts),
            table: address(table),
            prefixes: address(prefixes),
            lse: lse.as_ref().map_or(DevicePtr::from_address(0), |lse| lse.ptr()),
            partial: partial.as_ref().map_or(DevicePtr::from_address(0), |partial| partial.ptr()),
            counters: counters.as_ref().map_or(DevicePtr::from_address(0), BlockCounters::ptr),
            fault: match packed {
                true => self.faults.arm(stream)?,
                false => self.faults.address(stream),
            },
        };
        let mask_strides = mask.as_ref().map_or([0; 4], operands::broadcast_strides);
        let window = options.window;
        let limit = |keys: Option<usize>| keys.map_or(WIDEST_WINDOW, |keys| keys.min(WIDEST_WINDOW)) as i32;
        let shape = AttentionShape {
            queries: sizes.queries as u32,
            keys: sizes.keys as u32,
            depth: q_rows.length as u32,
            width: v_rows.length as u32,
            heads: sizes.heads as u32,
            group: (sizes.heads / sizes.kv_heads) as u32,
            pack: Divider::new(plan.pack as u64),
            tiles: plan.tiles,
            splits: plan.splits,
            first_batch: 0,
            batches: sizes.batches as u32,
            total_queries: q.dims()[2] as u32,
            total_keys: k.dims()[2] as u32,
            page: Divider::new(k.dims()[2] as u64),
            page_count: options.pages.map_or(0, |_| k.dims()[0] as u32),
            table_stride: options.pages.map_or(0, |pages| pages.strides()[0] as u32),
            prefixes: options.prefixes.map_or(0, |prefixes| prefixes.dims()[1] as u32),
            offset: window.offset.unwrap_or(0).clamp(-(MOST_ROWS as isize), MOST_ROWS as isize) as i32,
            offset_at_end: u32::from(window.offset.is_none()),
            left: limit(window.left),
            right: limit(window.right),
            mask: match options.mask {
                None => 0,
                Some(AttentionMask::Fill(..)) => MASK_FILL,
                Some(AttentionMask::Add(mask)) if mask.dtype() == dtype => MASK_OWN,
                Some(AttentionMask::Add(_)) => MASK_F32,
            },
            // A negative scale turns the order of scores round, which plain products are compared by.
            changed: u32::from(
                options.mask.is_some() || options.slopes.is_some() || options.softcap.is_some() || options.scale <= 0.0,
            ),
            nan_rows: u32::from(options.nan_rows),
            scale: options.scale,
            softcap: options.softcap.unwrap_or(0.0),
            fill: match options.mask {
                Some(AttentionMask::Fill(_, value)) => value,
                _ => 0.0,
            },
            unused: 0,
            q: q_rows.strides,
            k: k_rows.strides,
            v: v_rows.strides,
            out: results.strides,
            mask_batch: mask_strides[0],
            mask_head: mask_strides[1],
            mask_row: mask_strides[2],
            mask_column: mask_strides[3],
        };
        for first in (0..grid_batches).step_by(GRID_LIMIT) {
            let batches = GRID_LIMIT.min(grid_batches - first) as u32;
            let arguments = AttentionArguments {
                q: q_rows.address,
                k: k_rows.address,
                v: v_rows.address,
                out: results.address,
                shape: AttentionShape { first_batch: first as u32, ..shape },
                extra,
            };
            let config = LaunchConfig::new((plan.tiles * plan.splits, row_blocks, batches), plan.threads)
                .shared(plan.shared_bytes);
            // SAFETY: the parameter of the kernels in `hip/attention.hip`. All rows lie inside the operands, which were checked; what
            // starts and tables say is checked by the kernel. Everything is in the order of `stream`.
            unsafe { function.launch(stream, config, &(arguments,))? };
        }
        drop((partial, counters));
        results.finish(self, out)
    }
}

const OP: &str = "attention";
/// Blocks along z of one launch.
const GRID_LIMIT: usize = 65535;
/// f32 of a split's state of a row.
const STATE_WORDS: usize = 2;

/// The sizes, or a sentence about what does not fit.
fn check(
    q: &Operand<'_>,
    k: &Operand<'_>,
    v: &Operand<'_>,
    options: &AttentionOptions<'_>,
    out: &OperandMut<'_>,
) -> Result<Sizes> {
    let refuse = |why: String| Err(Error::refused(format!("{OP}: {why}")));
    let (&[batch, heads, queries, depth], &[k_batch, kv_heads, keys, k_depth], &[v_batch, v_heads, v_keys, width]) =
        (q.dims(), k.dims(), v.dims())
    else {
        return refuse(format!(
            "q, k and v have shapes {:?}, {:?} and {:?}; they must have four dimensions, (batch, heads, rows, dim)",
            q.dims(),
            k.dims(),
            v.dims()
        ));
    };
    let dtype = q.dtype();
    if [k.dtype(), v.dtype(), out.dtype()].iter().any(|&other| other != dtype) {
        return refuse(format!(
            "q, k, v and the result are {dtype}, {}, {} and {}; they must be of one dtype",
            k.dtype(),
            v.dtype(),
            out.dtype()
        ));
    }
    let paged = options.pages.is_some();
    if depth != k_depth || (k_batch, kv_heads, keys) != (v_batch, v_heads, v_keys) || (!paged && k_batch != batch) {
        return refuse(format!(
            "q {:?}, k {:?} and v {:?} do not go together; the shapes are (batch, heads, queries, dim), \
             (batch, kv heads, keys, dim) and (batch, kv heads, keys, value dim)",
            q.dims(),
            k.dims(),
            v.dims()
        ));
    }
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        return refuse(format!(
            "{heads} heads of q cannot share {kv_heads} heads of k and v; the first must be a multiple"
        ));
    }
    if out.dims() != [batch, heads, queries, width] {
        return refuse(format!(
            "the result has shape {:?}, but must have {:?}",
            out.dims(),
            [batch, heads, queries, width]
        ));
    }
    if out.strides()[3] != 1 && width > 1 {
        return refuse(format!(
            "the last dimension of the result must be contiguous, but its strides are {:?}",
            out.strides()
        ));
    }
    if depth == 0 || width == 0 {
        return refuse(format!(
            "heads of {depth} elements of q and k and {width} of v; there must be at least one each"
        ));
    }
    if depth.max(width) > LONGEST_ROW {
        return refuse(format!(
            "a head of {} elements is too long; at most {LONGEST_ROW} are supported",
            depth.max(width)
        ));
    }
    let mut sizes = Sizes { batches: batch, heads, kv_heads, queries, keys, depth, width };
    if let Some(sequences) = options.sequences {
        let starts = [sequences.query_starts, sequences.key_starts];
        let (&[first], &[second]) = (starts[0].dims(), starts[1].dims()) else {
            return refuse("the starts of sequences must have one dimension".to_owned());
        };
        if first < 2 || first != second || starts.iter().any(|s| s.dtype() != DType::U32 || !s.is_contiguous()) {
            return refuse(format!(
                "starts of {first} sequences of queries and {second} of keys, as {} and {}; both must be contiguous u32, with one more \
                 than there are sequences",
                starts[0].dtype(),
                starts[1].dtype()
            ));
        }
        if batch != 1 || (!paged && k_batch != 1) {
            return refuse(format!("with sequences the first dimension of q is 1, but here it is {batch}"));
        }
        if options.mask.is_some() {
            return refuse("masks do not go with sequences of different lengths".to_owned());
        }
        sizes =
            Sizes { batches: first - 1, queries: sequences.longest.0.min(queries), keys: sequences.longest.1, ..sizes };
        if !paged {
            sizes.keys = sizes.keys.min(keys);
        }
    }
    if let Some(pages) = options.pages {
        let &[sequences, each] = pages.dims() else {
            return refuse(format!("the table of pages has shape {:?}, but must be (sequences, pages)", pages.dims()));
        };
        let whole = matches!(pages.dtype(), DType::U32 | DType::I32) && (pages.strides()[1] == 1 || each <= 1);
        if options.sequences.is_none() || sequences != sizes.batches || !whole || keys == 0 || k_batch == 0 {
            return refuse(format!(
                "a table of {:?} {} pages for {} sequences and a cache of {:?}; pages go with sequences, one row of contiguous u32 or i32 \
                 each, and a cache of at least one page",
                pages.dims(),
                pages.dtype(),
                sizes.batches,
                k.dims()
            ));
        }
        sizes.keys = sizes.keys.min(each.saturating_mul(keys));
    }
    if let Some(slopes) = options.slopes {
        if slopes.dtype() != DType::F32 || slopes.dims() != [heads] || !slopes.is_contiguous() {
            return refuse(format!(
                "alibi slopes are {} {:?}, but must be contiguous f32 [{heads}]",
                slopes.dtype(),
                slopes.dims()
            ));
        }
    }
    if let Some(prefixes) = options.prefixes {
        let fitting = matches!(prefixes.dims(), &[sequences, _, 2] if sequences == sizes.batches);
        if prefixes.dtype() != DType::I32 || !fitting || !prefixes.is_contiguous() {
            return refuse(format!(
                "prefix ranges are {} {:?}, but must be contiguous i32 [{}, n, 2]",
                prefixes.dtype(),
                prefixes.dims(),
                sizes.batches
            ));
        }
    }
    match options.mask {
        Some(AttentionMask::Add(mask)) if mask.dtype() != dtype && mask.dtype() != DType::F32 => {
            return refuse(format!(
                "a mask of {} cannot be added to scores of {dtype}; make it {dtype} or f32",
                mask.dtype()
            ));
        }
        Some(AttentionMask::Fill(mask, _)) if mask.dtype() != DType::U8 => {
            return refuse(format!("a mask that fills is u8, but this one is {}", mask.dtype()));
        }
        _ => {}
    }
    if let Some(AttentionMask::Add(mask) | AttentionMask::Fill(mask, _)) = options.mask {
        let wanted = [batch, heads, queries, keys];
        let fitting =
            mask.dims().len() == 4 && mask.dims().iter().zip(wanted).all(|(&dim, want)| dim == want || dim == 1);
        if !fitting {
            return refuse(format!("a mask of {:?} cannot be broadcast to {wanted:?}", mask.dims()));
        }
    }
    let many =
        [sizes.queries, sizes.keys, q.dims()[2], k.dims()[2], k_batch].into_iter().any(|count| count >= MOST_ROWS);
    if many || sizes.queries * heads >= MOST_ROWS {
        return refuse(format!(
            "{} queries of {heads} heads and {} keys are too many for one call",
            sizes.queries, sizes.keys
        ));
    }
    if options.softcap.is_some_and(|cap| cap.is_nan() || cap <= 0.0) {
        return refuse(format!("a softcap of {:?} is not above zero", options.softcap));
    }
    Ok(sizes)
}

crate::shared::shared! {
    [
        "ATTENTION_THREADS": plan::THREADS,
        "MASK_F32": MASK_F32,
        "MASK_OWN": MASK_OWN,
        "MASK_FILL": MASK_FILL,
        "SplitState": STATE_WORDS * 4,
    ]
    "AttentionArguments": AttentionArguments { q, k, v, out, shape, extra }
    "AttentionExtras": AttentionExtras {
        mask, slopes, query_starts, key_starts, table, prefixes, lse, partial, counters, fault,
    }
    "AttentionShape": AttentionShape {
        queries, keys, depth, width, heads, group, pack, tiles, splits, first_batch, batches, total_queries, total_keys, page,
        page_count, table_stride, prefixes, offset, offset_at_end, left, right, mask, changed, nan_rows, scale, softcap, fill, q, k, v,
        out, mask_batch, mask_head, mask_row, mask_column,
    }
    "RowStrides": RowStrides { batch, head, row }
}
