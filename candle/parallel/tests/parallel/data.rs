//! Steps with parts of a batch against steps of Candle's CPU device with the whole batch.

use crate::ranks::{assert_close, numbers, sentence, with_ranks};
use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, VarBuilder, VarMap};
use candle_rocm_parallel::DistributedDataParallel;

const RANKS: usize = 2;
const STEPS: usize = 4;

/// A perceptron with a hidden layer, and a variable that no loss uses.
fn model(variables: &VarMap, device: &Device) -> Result<impl Fn(&Tensor) -> Result<Tensor>> {
    let vb = VarBuilder::from_varmap(variables, DType::F32, device);
    let first = candle_nn::linear(5, 16, vb.pp("first"))?;
    let second = candle_nn::linear(16, 3, vb.pp("second"))?;
    vb.get_with_hints(7, "unused", candle_nn::Init::Const(1.))?;
    Ok(move |x: &Tensor| second.forward(&first.forward(x)?.tanh()?))
}

fn gradients(model: &impl Fn(&Tensor) -> Result<Tensor>, x: &Tensor, y: &Tensor) -> Result<GradStore> {
    candle_nn::loss::mse(&model(x)?, y)?.backward()
}

fn optimizer(variables: &VarMap) -> Result<AdamW> {
    AdamW::new(variables.all_vars(), ParamsAdamW { lr: 0.01, ..Default::default() })
}

#[test]
fn steps_of_ranks_are_those_of_the_whole_batch() -> Result<()> {
    with_ranks("data::steps_of_ranks_are_those_of_the_whole_batch", RANKS, |group| {
        let (x, y) = (numbers(&[12, 5], 1)?, numbers(&[12, 3], 2)?);
        // Large and small buckets, the last of one variable each.
        for megabytes in [25., 1e-4, 0.] {
            let (here, whole) = (VarMap::new(), VarMap::new());
            // Each rank draws its own numbers; those of rank 0 count.
            group.device().set_seed(group.rank() as u64)?;
            let parallel_model = model(&here, group.device())?;
            let of_rank_0 = copies(&here)?;
            let parallel = DistributedDataParallel::new(&here, group)?.bucket_cap_mb(megabytes);
            let whole_model = model(&whole, &Device::Cpu)?;
            for (name, variable) in whole.data().lock().expect("no thread panicked").iter() {
                let start = here.data().lock().expect("no thread panicked")[name].to_device(&Device::Cpu)?;
                if group.rank() == 0 {
                    assert_close(&start, &of_rank_0[name], name)?;
                }
                variable.set(&start)?;
            }
            let (mut step, mut whole_step) = (optimizer(&here)?, optimizer(&whole)?);
            let (mine, ours) = (group.shard(&x, 0)?, group.shard(&y, 0)?);
            let (mine, ours) = (mine.to_device(group.device())?, ours.to_device(group.device())?);
            for _ in 0..STEPS {
                let mut found = gradients(&parallel_model, &mine, &ours)?;
                parallel.reduce_gradients(&mut found)?;
                let expected = gradients(&whole_model, &x, &y)?;
                for (name, variable) in whole.data().lock().expect("no thread panicked").iter() {
                    let found = found.get(&here.data().lock().expect("no thread panicked")[name]).cloned();
                    match (found, expected.get(variable)) {
                        (Some(found), Some(expected)) => assert_close(&found, expected, name)?,
                        (None, None) => assert_eq!(name, "unused"),
                        (found, _) => panic!("{name}: a gradient is {}", if found.is_some() { "new" } else { "lost" }),
                    }
                }
                step.step(&found)?;
                whole_step.step(&expected)?;
            }
            for (name, expected) in copies(&whole)? {
                assert_close(&copies(&here)?[&name], &expected, &format!("{name} after {STEPS} steps"))?;
            }
        }
        Ok(())
    })
}

/// The variables as they are now, on the CPU.
fn copies(variables: &VarMap) -> Result<std::collections::HashMap<String, Tensor>> {
    let all = variables.data().lock().expect("no thread panicked");
    all.iter().map(|(name, variable)| Ok((name.clone(), variable.to_device(&Device::Cpu)?.copy()?))).collect()
}

#[test]
fn ranks_that_disagree_are_told() -> Result<()> {
    with_ranks("data::ranks_that_disagree_are_told", RANKS, |group| {
        let variables = VarMap::new();
        let vb = VarBuilder::from_varmap(&variables, DType::F32, group.device());
        let (a, b) = (vb.get(4, "a")?, vb.get(4, "b")?);
        let parallel = DistributedDataParallel::new(&variables, group)?;
        // Rank 1 leaves `b` out.
        let loss = if group.rank() == 0 { (&a + &b)?.sum_all()? } else { a.sum_all()? };
        let said = sentence(parallel.reduce_gradients(&mut loss.backward()?));
        assert!(said.contains("b has a gradient on rank 0 and none on rank 1"), "{said}");
        // What changes later is found without asking the others.
        parallel.reduce_gradients(&mut a.sum_all()?.backward()?)?;
        let said = sentence(parallel.reduce_gradients(&mut (&a + &b)?.sum_all()?.backward()?));
        assert!(said.contains("b has a gradient, which it had not"), "{said}");
        // Other variables: another shape on rank 1.
        let others = VarMap::new();
        VarBuilder::from_varmap(&others, DType::F32, group.device()).get(4 + group.rank(), "a")?;
        let said = sentence(DistributedDataParallel::new(&others, group));
        assert!(said.contains("rank 1 has other variables than rank 0"), "{said}");
        Ok(())
    })
}
