//! A mixture of experts over quantized weights: each pair of (activation, expert) is a product with the expert's own matrix.

use super::convert::id_list;
use super::product::{ActivationRows, Arrangement, ProductTarget, Teams};
use super::{output_code, Blocks};
use crate::dtype::DType;
use crate::kernels::{fits, one_stream, Kernels};
use crate::layout::Divider;
use crate::rows::contiguous;
use crate::tensor::{Operand, Output};
use bytemuck::{Pod, Zeroable};
use hip::{DevicePtr, Error, LaunchConfig, Result};

/// Pairs that one block takes when the route is sorted by expert.
const SORTED_PAIRS: u64 = 4;
/// Rows of weights that a team takes together: for single pairs, and for several.
const PAIR_ROWS: u64 = 2;
const SORTED_ROWS: u64 = 1;
/// The most blocks along the second axis of a grid.
const GRID_Y: u64 = 65_535;

/// Which expert works on which activation, and where its result goes. Pair i is slot `slots[i]` (or i itself): row `slot` of
/// the result becomes the product of row `slot / share` of the activations with the matrix of expert `experts[i]`,
/// times `weights[slot]` where there are weights.
#[derive(Clone, Copy, Debug)]
pub struct Routing<'a> {
    /// The expert of each pair: contiguous u32.
    pub experts: Operand<'a>,
    /// The slot of each pair: contiguous u32, a permutation. Given when the pairs have been sorted by expert, which lets
    /// neighbours share their reading of the weights.
    pub slots: Option<Operand<'a>>,
    /// What to multiply the result of each slot by: contiguous f32.
    pub weights: Option<Operand<'a>>,
    /// How many neighbouring slots read the same activation.
    pub share: usize,
}

/// The routing as the kernels take it (there it ends in four bytes of padding).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Route {
    experts: DevicePtr<u8>,
    slots: DevicePtr<u8>,
    weights: DevicePtr<u8>,
    fault: DevicePtr<u64>,
    expert_bytes: u64,
    share: Divider,
    pairs: u32,
    expert_count: u32,
    unused: u32,
}

impl Kernels {
    /// The products of a mixture of experts: `weights` holds the matrices of `expert_count` experts one after the other,
    /// `out` gets a row for each pair of the routing, f32, f16 or bf16 as it asks. Activations are rounded as in
    /// [`Kernels::quantized_matmul`]. An expert or a slot out of range is an error at the next check.
    pub fn quantized_experts(
        &self,
        weights: &Blocks<'_>,
        expert_count: usize,
        activations: &Operand<'_>,
        routing: &Routing<'_>,
        out: &mut Output<'_>,
    ) -> Result<()> {
        const OPERATION: &str = "quantized experts";
        let format = weights.format();
        if format.is_plain() {
            return Err(Error::refused(format!(
                "{OPERATION}: {format} weights are not quantized; multiply them as tensors"
            )));
        }
        if expert_count == 0 || !weights.rows().is_multiple_of(expert_count) {
            return Err(Error::refused(format!(
                "{OPERATION}: {} rows of weights do not divide among {expert_count} experts",
                weights.rows()
            )));
        }
        let (rows, columns) = (weights.rows() / expert_count, weights.columns());
        let batch = ActivationRows::of(OPERATION, activations, columns)?;
        let pairs = routing.experts.count();
        id_list(OPERATION, "the experts", &routing.experts)?;
        one_stream(out.stream(), &[activations, &routing.experts])?;
        weights.on(out.stream())?;
        if let Some(slots) = &routing.slots {
            id_list(OPERATION, "the slots", slots)?;
            fits(OPERATION, "the list of slots", slots.count(), pairs, slots.dtype(), DType::U32)?;
            one_stream(out.stream(), &[slots])?;
        }
        if let Some(factors) = &routing.weights {
            fits(OPERATION, "the list of weights", factors.count(), pairs, factors.dtype(), DType::F32)?;
            one_stream(out.stream(), &[factors])?;
            contiguous(OPERATION, "the weights of the slots", factors)?;
        }
        if routing.share == 0 || batch.count.checked_mul(routing.share) != Some(pairs) {
            return Err(Error::refused(format!(
                "{OPERATION}: {pairs} pairs with {} to an activation need {} activations, not {}",
                routing.share,
                pairs / routing.share.max(1),
                batch.count
            )));
        }
        fits(OPERATION, "the result", out.count(), pairs * rows, out.dtype(), out.dtype())?;
        let target = ProductTarget { at: out.ptr(), code: output_code(OPERATION, out.dtype())?, unused: 0 };
        if out.count() == 0 {
            return Ok(());
        }

        let machine = self.profile().machine();
        let quantized = self.quantize_activations(activations, &batch, Arrangement::of(format))?;
        // A sorted route is worth the wider kernel once experts have several pairs each.
        let sorted = routing.slots.is_some() && pairs >= 2 * expert_count;
        let (ending, each, team_rows) = if sorted { ("_4", SORTED_PAIRS, SORTED_ROWS) } else { ("_1", 1, PAIR_ROWS) };
        let blocks = (pairs as u64).div_ceil(each);
        if blocks > GRID_Y {
            return Err(Error::refused(format!(
                "{OPERATION}: {pairs} pairs are too many for one call; split the batch"
            )));
        }
        let none = DevicePtr::from_address(0);
        let route = Route {
            experts: routing.experts.ptr(),
            slots: routing.slots.map_or(none, |slots| slots.ptr()),
            weights: routing.weights.map_or(none, |weights| weights.ptr()),
            fault: self.faults.arm(out.stream())?,
            expert_bytes: (rows * weights.row_bytes()) as u64,
            share: Divider::new(routing.share as u64),
            pairs: pairs as u32,
            expert_count: expert_count as u32,
            unused: 0,
        };
        let function = self.quantized("moe", format, ending)?;
        let teams = Teams::plan(machine, (rows as u64).div_ceil(team_rows), columns / format.unit());
        let args = (weights.ptr(), quantized.at_row(0), route, target, rows as u32, columns as u32, teams.log2);
        let config = LaunchConfig::new((teams.blocks, blocks as u32), teams.threads);
        // SAFETY: the parameters of `moe_*` in `hip/quantized.hip`; the kernel compares experts and slots with the counts given
        // here before it uses them, and everything it reads or writes is borrowed for the launch.
        unsafe { function.launch(out.stream(), config, &args) }
    }
}

crate::shared::shared! {
    []
    "Route": Route { experts, slots, weights, fault, expert_bytes, share, pairs, expert_count }
}
