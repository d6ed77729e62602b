//! What is put off, and what is recognised in it: a product of queries and keys, scaled, capped, masked, a softmax of it and a product
//! with values are one launch of attention; an activation times another tensor is a gated unit; heads that are repeated for groups of
//! queries are read where they are.

use super::super::kernels::{AttentionMask, AttentionOptions};
use super::*;
use crate::Shape;

/// Elements that a row of queries or values may have, and bytes that it must be a multiple of, to be read by attention as it is.
const LONGEST_ROW: usize = 512;
const ROW_BYTES: usize = 16;

/// Whether a layout is all of a storage, in order.
fn is_whole(storage: &RocmStorage, layout: &Layout) -> bool {
    layout.is_contiguous() && layout.start_offset() == 0 && layout.shape().elem_count() == storage.slice.len()
}

/// Whether a storage is the result of an operation that is still put off, and of which `is` says yes.
fn waits(storage: &RocmStorage, is: impl FnOnce(&Operation) -> bool) -> bool {
    let Some(later) = storage.later() else { return false };
    if later.is_there() {
        return false;
    }
    let state = lock(&later.operation);
    matches!(&*state, State::Waiting(operation) if is(operation))
}

/// The operation that a storage is the result of, if it is still put off, with handles of its own.
fn operation(storage: &RocmStorage) -> Result<Option<Operation>> {
    let Some(later) = storage.later().filter(|later| !later.is_there()) else { return Ok(None) };
    let state = lock(&later.operation);
    let State::Waiting(operation) = &*state else { return Ok(None) };
    let again = |(storage, layout): &Source| source(storage, layout);
    Ok(Some(match &**operation {
        Operation::Memory => Operation::Memory,
        Operation::Number(number) => Operation::Number(*number),
        Operation::Copy(x) => Operation::Copy(again(x)?),
        Operation::Unary(root, x) => Operation::Unary(root, again(x)?),
        Operation::Product(a, b, bmnk) => Operation::Product(again(a)?, again(b)?, *bmnk),
        Operation::Affine(x, mul, add) => Operation::Affine(again(x)?, *mul, *add),
        Operation::Cast(x) => Operation::Cast(again(x)?),
        Operation::Add(a, b) => Operation::Add(again(a)?, again(b)?),
        Operation::Where(a, b, c) => Operation::Where(again(a)?, again(b)?, again(c)?),
        Operation::Softmax(x) => Operation::Softmax(again(x)?),
    }))
}

/// An activation that models multiply another tensor with. It keeps at most as much as it saves, where gate and factor are halves of
/// one product.
pub(in super::super) fn activation(x: &RocmStorage, x_l: &Layout, root: &'static str) -> Result<Option<RocmStorage>> {
    let (dtype, count) = (x.slice.dtype(), x_l.shape().elem_count());
    let known = matches!(root, "usilu" | "ugelu") && can_wait(dtype);
    if !known || count == 0 || x.slice.len() > 2 * count || !may_wait(&x.device, &[x]) {
        return Ok(None);
    }
    put_off(&x.device, dtype, count, Operation::Unary(root, source(x, x_l)?)).map(Some)
}

/// A product with an activation that was put off, in one launch: the same numbers as from two.
pub(in super::super) fn gated(
    lhs: &RocmStorage,
    rhs: &RocmStorage,
    lhs_l: &Layout,
    rhs_l: &Layout,
) -> Result<Option<RocmStorage>> {
    let (device, op) = (&lhs.device, "mul");
    for (gate, gate_l, other, other_l) in [(lhs, lhs_l, rhs, rhs_l), (rhs, rhs_l, lhs, lhs_l)] {
        let is_gate = |operation: &Operation| matches!(operation, Operation::Unary("usilu" | "ugelu", _));
        if !is_whole(gate, gate_l) || !may_wait(device, &[gate]) || !waits(gate, is_gate) {
            continue;
        }
        let other = other.on(device)?;
        let _order = device.raw_stream().order_put_off();
        let Some(Operation::Unary(root, (x, x_l))) = operation(gate)? else { continue };
        let x_l = match (x_l.dims() == gate_l.dims(), x_l.is_contiguous()) {
            (true, _) => x_l,
            (false, true) => Layout::contiguous_with_offset(gate_l.shape().clone(), x_l.start_offset()),
            (false, false) => continue,
        };
        let root = if root == "usilu" { "gsilu" } else { "ggelu" };
        let (x, factor) = (x.operand(&x_l, op)?, other.operand(other_l, op)?);
        let count = gate_l.shape().elem_count();
        let product = RocmStorage::filled(device, gate.slice.dtype(), count, op, |out| {
            device.kernels().gated(root, &x, &factor, out)
        })?;
        return Ok(Some(product));
    }
    Ok(None)
}

/// Whether a storage is scores, or what became of them before the softmax, and still put off.
fn are_scores(x: &RocmStorage, x_l: &Layout) -> bool {
    is_whole(x, x_l)
        && may_wait(&x.device, &[x])
        && waits(x, |operation| {
            matches!(
                operation,
                Operation::Product(..)
                    | Operation::Affine(..)
                    | Operation::Cast(_)
                    | Operation::Add(..)
                    | Operation::Where(..)
                    | Operation::Unary("utanh", _)
            )
        })
}

/// A product of two tensors of which the second is transposed, as keys are: scores of attention, or so it seems.
pub(in super::super) fn product(
    (lhs, lhs_l): (&RocmStorage, &Layout),
    (rhs, rhs_l): (&RocmStorage, &Layout),
    bmnk: (usize, usize, usize, usize),
) -> Result<Option<RocmStorage>> {
    let (dtype, (batches, m, n, k)) = (lhs.slice.dtype(), bmnk);
    let transposed = matches!(rhs_l.stride(), [_, row, _] | [_, _, row, _] if *row == 1);
    if !transposed || !can_wait(dtype) || !are_rows(dtype, k) || !may_wait(&lhs.device, &[lhs, rhs]) {
        return Ok(None);
    }
    let operation = Operation::Product(source(lhs, lhs_l)?, source(rhs, rhs_l)?, bmnk);
    put_off(&lhs.device, dtype, batches * m * n, operation).map(Some)
}

fn are_rows(dtype: DType, length: usize) -> bool {
    (1..=LONGEST_ROW).contains(&length) && (length * dtype.size_in_bytes()).is_multiple_of(ROW_BYTES)
}

/// Scores times a number.
pub(in super::super) fn scores_affine(
    x: &RocmStorage,
    x_l: &Layout,
    mul: f64,
    add: f64,
) -> Result<Option<RocmStorage>> {
    if add != 0. || !are_scores(x, x_l) {
        return Ok(None);
    }
    put_off(&x.device, x.slice.dtype(), x.slice.len(), Operation::Affine(source(x, x_l)?, mul, add)).map(Some)
}

/// Scores between bounds.
pub(in super::super) fn scores_tanh(x: &RocmStorage, x_l: &Layout) -> Result<Option<RocmStorage>> {
    if !are_scores(x, x_l) {
        return Ok(None);
    }
    put_off(&x.device, x.slice.dtype(), x.slice.len(), Operation::Unary("utanh", source(x, x_l)?)).map(Some)
}

/// Scores, their softmax or a number as another dtype; and repeated heads, of which only one is cast.
pub(in super::super) fn scored_cast(x: &RocmStorage, x_l: &Layout, dtype: DType) -> Result<Option<RocmStorage>> {
    if !can_wait(dtype) || !is_whole(x, x_l) {
        return Ok(None);
    }
    let device = &x.device;
    if let Some(number) = x.later().and_then(|later| later.number) {
        return super::number(device, dtype, rounded(number, dtype));
    }
    let are_weights = || may_wait(device, &[x]) && waits(x, |operation| matches!(operation, Operation::Softmax(_)));
    if are_scores(x, x_l) || are_weights() {
        return put_off(device, dtype, x.slice.len(), Operation::Cast(source(x, x_l)?)).map(Some);
    }
    if !may_wait(device, &[x]) || !waits(x, |operation| matches!(operation, Operation::Copy(_))) {
        return Ok(None);
    }
    let _order = device.raw_stream().order_put_off();
    let Some(Operation::Copy((heads, heads_l))) = operation(x)? else { return Ok(None) };
    let &[batch, groups, times, rows, length] = heads_l.dims() else { return Ok(None) };
    let once = heads_l.narrow(2, 0, 1)?;
    let cast = elementwise::cast(&heads, &once, dtype)?;
    let strides = vec![groups * rows * length, rows * length, 0, length, 1];
    let repeated = Layout::new(Shape::from(vec![batch, groups, times, rows, length]), strides, 0);
    put_off(device, dtype, x.slice.len(), Operation::Copy((cast, repeated))).map(Some)
}

fn rounded(number: f32, dtype: DType) -> f32 {
    match dtype {
        DType::F16 => f16::from_f32(number).to_f32(),
        DType::BF16 => bf16::from_f32(number).to_f32(),
        _ => number,
    }
}

/// The sum of scores and a mask.
pub(in super::super) fn scores_masked(
    lhs: &RocmStorage,
    rhs: &RocmStorage,
    lhs_l: &Layout,
    rhs_l: &Layout,
) -> Result<Option<RocmStorage>> {
    if !(are_scores(lhs, lhs_l) || are_scores(rhs, rhs_l)) || !may_wait(&lhs.device, &[lhs, rhs]) {
        return Ok(None);
    }
    let operation = Operation::Add(source(lhs, lhs_l)?, source(rhs, rhs_l)?);
    put_off(&lhs.device, lhs.slice.dtype(), lhs_l.shape().elem_count(), operation).map(Some)
}

/// A known number where a mask says so, and scores elsewhere.
pub(in super::super) fn scores_chosen(
    (condition, condition_l): (&RocmStorage, &Layout),
    (on_true, on_true_l): (&RocmStorage, &Layout),
    (scores, scores_l): (&RocmStorage, &Layout),
) -> Result<Option<RocmStorage>> {
    let is_number = || on_true.later().is_some_and(|later| later.number.is_some());
    let device = &scores.device;
    let fits = condition.slice.dtype() == DType::U8 && may_wait(device, &[condition, on_true]);
    if !fits || !are_scores(scores, scores_l) || !is_number() {
        return Ok(None);
    }
    let [condition, on_true] = [(condition, condition_l), (on_true, on_true_l)].map(|(x, x_l)| source(x, x_l));
    let operation = Operation::Where(condition?, on_true?, source(scores, scores_l)?);
    put_off(device, scores.slice.dtype(), scores.slice.len(), operation).map(Some)
}

/// The softmax of scores.
pub(in super::super) fn softmax(x: &RocmStorage, x_l: &Layout) -> Result<Option<RocmStorage>> {
    if !are_scores(x, x_l) {
        return Ok(None);
    }
    put_off(&x.device, x.slice.dtype(), x.slice.len(), Operation::Softmax(source(x, x_l)?)).map(Some)
}

/// Heads, each several times: a copy of (batch, heads, times, rows, length) that reads each of them so often.
pub(in super::super) fn repeated(x: &RocmStorage, x_l: &Layout) -> Result<Option<RocmStorage>> {
    let (dtype, count) = (x.slice.dtype(), x_l.shape().elem_count());
    let repeats = matches!((x_l.dims(), x_l.stride()), ([_, _, times, _, _], [_, _, 0, _, _]) if *times > 1);
    if !repeats || !can_wait(dtype) || count == 0 || !may_wait(&x.device, &[x]) {
        return Ok(None);
    }
    put_off(&x.device, dtype, count, Operation::Copy(source(x, x_l)?)).map(Some)
}

/// Whether a storage is memory that nobody has written to.
pub(in super::super) fn is_fresh(x: &RocmStorage) -> bool {
    waits(x, |operation| matches!(operation, Operation::Memory))
}

/// What is done to scores.
enum Mask {
    Add(Source),
    Fill(Source, f32),
}

/// What weights of attention come from.
struct Scores {
    q: Source,
    k: Source,
    bmnk: (usize, usize, usize, usize),
    scale: f64,
    softcap: Option<f64>,
    mask: Option<Mask>,
}

impl Scores {
    /// Goes back from the weights, a softmax or what it was cast to, to the product that they began with.
    fn of(weights: &RocmStorage) -> Result<Option<Self>> {
        let mut x = match operation(weights)? {
            Some(Operation::Cast((x, _))) if x.slice.dtype() == DType::F32 => x,
            Some(_) => weights.share()?,
            None => return Ok(None),
        };
        let length = match operation(&x)? {
            Some(Operation::Softmax((scores, scores_l))) => {
                x = scores;
                scores_l.dims().last().copied()
            }
            _ => return Ok(None),
        };
        // A score is `outer * y`, or `outer * tanh(inner * y)`, of what is looked at next.
        let (mut outer, mut inner, mut mask) = (1., None, None);
        loop {
            let plain = outer == 1. && inner.is_none() && mask.is_none();
            x = match operation(&x)? {
                Some(Operation::Affine((of, _), mul, _)) => {
                    match &mut inner {
                        Some(inner) => *inner *= mul,
                        None => outer *= mul,
                    }
                    of
                }
                Some(Operation::Unary("utanh", (of, _))) if inner.is_none() && outer > 0. => {
                    inner = Some(1.);
                    of
                }
                // To f32: from there on the kernels compute in it anyway.
                Some(Operation::Cast((of, _))) if x.slice.dtype() == DType::F32 => of,
                Some(Operation::Add((a, a_l), (b, b_l))) if plain => {
                    let (of, added) = if are_scores(&a, &a_l) { (a, (b, b_l)) } else { (b, (a, a_l)) };
                    mask = Some(Mask::Add(added));
                    of
                }
                Some(Operation::Where(condition, (number, _), (of, _))) if plain => {
                    let Some(number) = number.later().and_then(|later| later.number) else { return Ok(None) };
                    mask = Some(Mask::Fill(condition, number));
                    of
                }
                Some(Operation::Product(q, k, bmnk)) => {
                    let (scale, softcap) = match inner {
                        Some(inner) => (inner * outer, Some(outer)),
                        None => (outer, None),
                    };
                    let fits = length == Some(bmnk.2);
                    return Ok(fits.then_some(Self { q, k, bmnk, scale, softcap, mask }));
                }
                _ => return Ok(None),
            };
        }
    }
}

/// The product of weights with values as attention in one launch, where the weights were put off and all they come from too.
pub(in super::super) fn attention(
    (weights, weights_l): (&RocmStorage, &Layout),
    (v, v_l): (&RocmStorage, &Layout),
    (batches, m, n, k): (usize, usize, usize, usize),
) -> Result<Option<RocmStorage>> {
    let (device, dtype, op) = (&v.device, v.slice.dtype(), "attention");
    let are_weights = |operation: &Operation| matches!(operation, Operation::Softmax(_) | Operation::Cast(_));
    let fits = is_whole(weights, weights_l) && are_rows(dtype, n) && may_wait(device, &[weights, v]);
    if !fits || !waits(weights, are_weights) {
        return Ok(None);
    }
    let _order = device.raw_stream().order_put_off();
    let Some(scores) = Scores::of(weights)? else { return Ok(None) };
    let (q, k_source) = (scores.q, scores.k);
    if scores.bmnk.0 != batches || scores.bmnk.1 != m || scores.bmnk.2 != k || q.0.slice.dtype() != dtype {
        return Ok(None);
    }
    let layouts = (four(&q.1), four(&k_source.1), four(v_l));
    let (Some(q_l), Some(k_l), Some(v_l)) = layouts else { return Ok(None) };
    let k_l = k_l.transpose(2, 3)?;
    let dims = [q_l.dims()[0], q_l.dims()[1], m, k];
    if v_l.dims()[..2] != dims[..2] {
        return Ok(None);
    }
    let mask = match &scores.mask {
        None => None,
        Some(Mask::Add((mask, mask_l)) | Mask::Fill((mask, mask_l), _)) => match four(mask_l) {
            Some(mask_l) if mask_l.dims() == dims => Some((mask, mask_l)),
            _ => return Ok(None),
        },
    };
    let own = (source(&k_source.0, &k_l)?, source(v, &v_l)?);
    let (k, v) = match (once(&own.0)?, once(&own.1)?) {
        (Some(k), Some(v)) if k.1.dims()[1] == v.1.dims()[1] => (k, v),
        _ => own,
    };
    let mask_operand = mask.as_ref().map(|(mask, mask_l)| mask.operand(mask_l, op)).transpose()?;
    let mask = match (mask_operand, &scores.mask) {
        (Some(mask), Some(Mask::Add((storage, _)))) => {
            if storage.slice.dtype() != dtype && storage.slice.dtype() != DType::F32 {
                return Ok(None);
            }
            Some(AttentionMask::Add(mask))
        }
        (Some(mask), Some(Mask::Fill(_, number))) => Some(AttentionMask::Fill(mask, *number)),
        _ => None,
    };
    let options = AttentionOptions {
        softcap: scores.softcap.map(|cap| cap as f32),
        mask,
        // As the softmax of a row without scores.
        nan_rows: true,
        ..AttentionOptions::scaled(scores.scale as f32)
    };
    let out = Layout::contiguous((dims[0], dims[1], m, n));
    let mut result = RocmStorage::uninitialised(device, dtype, out.shape().elem_count())?;
    let (q, k, v) = (q.0.operand(&q_l, op)?, k.0.operand(&k.1, op)?, v.0.operand(&v.1, op)?);
    device.kernels().attention(&q, &k, &v, &options, &mut result.operand_mut(&out, op)?, None).w()?;
    Ok(Some(result))
}

/// A layout of three or four dimensions as one of four: the batches of three are heads.
fn four(layout: &Layout) -> Option<Layout> {
    match (layout.dims(), layout.stride()) {
        ([_, _, _, _], _) => Some(layout.clone()),
        (&[heads, rows, length], &[of_head, of_row, of_element]) => Some(Layout::new(
            Shape::from((1, heads, rows, length)),
            vec![0, of_head, of_row, of_element],
            layout.start_offset(),
        )),
        _ => None,
    }
}

/// Heads that are repeated for groups of queries, each once, where the copy was put off.
fn once((heads, heads_l): &Source) -> Result<Option<Source>> {
    if !is_whole(heads, heads_l) {
        return Ok(None);
    }
    let Some(Operation::Copy((x, x_l))) = operation(heads)? else { return Ok(None) };
    let (&[batch, groups, times, rows, length], &[of_batch, of_group, 0, of_row, of_element]) =
        (x_l.dims(), x_l.stride())
    else {
        return Ok(None);
    };
    if heads_l.dims() != [batch, groups * times, rows, length] {
        return Ok(None);
    }
    let strides = vec![of_batch, of_group, of_row, of_element];
    let layout = Layout::new(Shape::from((batch, groups, rows, length)), strides, x_l.start_offset());
    Ok(Some((x, layout)))
}
