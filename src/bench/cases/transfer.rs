//! What is not computing: the host's part of a launch, and memory on its way to the device and back.

use super::super::case::{random, Cases, Timing, Work};
use candle_core::{DType, Device, Result, Tensor};

type Prepare = fn(&Device) -> Result<(Tensor, Tensor)>;

pub fn add_to(cases: &mut Cases) {
    let tiny: [(&str, Prepare); 3] = [
        ("contiguous", |device| Ok((operand(device)?, operand(device)?))),
        ("transposed", |device| Ok((operand(device)?, random(device, DType::F32, (16, 8))?.t()?))),
        ("broadcast", |device| {
            let row = random(device, DType::F32, 16)?;
            Ok((operand(device)?, row.broadcast_as((8, 16))?))
        }),
    ];
    for (timing, what) in [(Timing::Stream, "chain of 1000"), (Timing::Submit, "submit")] {
        for (layout, prepare) in tiny {
            cases.timed("launch", format!("one tiny {layout} add ({what})"), Work::default(), timing, move |device| {
                let (a, b) = prepare(device)?;
                Ok(move || &a + &b)
            });
        }
    }
    let count = cases.size.pick(16 << 20, 1 << 20);
    let megabytes = (4 * count) >> 20;
    let work = Work::new(4 * count, 0);
    cases.timed("transfer", format!("{megabytes} MB to the device"), work, Timing::Alone, move |device| {
        let data: Vec<f32> = (0..count).map(|i| i as f32).collect();
        let device = device.clone();
        Ok(move || {
            let tensor = Tensor::from_slice(&data, count, &device)?;
            device.synchronize().map(|()| tensor)
        })
    });
    cases.timed("transfer", format!("{megabytes} MB back (to_vec1)"), work, Timing::Alone, move |device| {
        let x = random(device, DType::F32, count)?;
        Ok(move || x.to_vec1::<f32>())
    });
    cases.timed("transfer", "4 KB to the device", Work::new(4096, 0), Timing::Alone, move |device| {
        let data = vec![1f32; 1024];
        let device = device.clone();
        Ok(move || {
            let tensor = Tensor::from_slice(&data, 1024, &device)?;
            device.synchronize().map(|()| tensor)
        })
    });
    cases.timed("transfer", "one number back", Work::new(4, 0), Timing::Alone, move |device| {
        let x = random(device, DType::F32, ())?;
        Ok(move || x.to_scalar::<f32>())
    });
}

fn operand(device: &Device) -> Result<Tensor> {
    random(device, DType::F32, (8, 16))
}
