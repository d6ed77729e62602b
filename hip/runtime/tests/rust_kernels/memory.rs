//! What goes wrong: an index out of range touches nothing and is reported once, with the line; so is a division by zero. Memory of another stream
//! is refused, a capture keeps what it uses, and a kernel that C++ refuses is shown with the line of the Rust.

use crate::streams;
use hip::LaunchConfig;

#[hip::kernels]
mod faulty {
    #[kernel]
    pub fn read_at(x: &[f32], y: &mut GlobalMut<f32>, at: usize) {
        y[0] = 5.0 + x[at];
    }

    #[kernel]
    pub fn write_at(y: &mut GlobalMut<f32>, at: usize) {
        y[at] = 1.0;
        y.set(at + 1, 2.0);
        y[0] += 1.0;
    }

    #[kernel]
    pub fn own_array(y: &mut GlobalMut<u32>, at: usize) {
        let mut table = [7u32; 4];
        let mut shared = Shared::<[[u32; 2]; 2]>::new();
        table[at] = 9;
        shared[1][at] = 3;
        y.atomic_add(at, 1);
        y[0] = table[0] + table[3] + shared[0][at];
    }

    #[kernel]
    pub fn divide(y: &mut GlobalMut<i32>, by: i32) {
        let old = y[0];
        y[0] = old / by;
        y[1] = old % by;
    }

    #[kernel]
    pub fn stride(y: &mut GlobalMut<u32>, step: usize) {
        for i in (0..y.len()).step_by(step) {
            y[i] = 1;
        }
    }

    #[kernel]
    pub fn add_one(y: &mut GlobalMut<u32>) {
        let i = global_x();
        if i < y.len() {
            y[i] += 1;
        }
    }

    #[device]
    pub fn host_too(y: &mut GlobalMut<u32>, value: u32) -> u32 {
        y.set(99, value);
        y[1] = value + global_x() as u32;
        y.atomic_add(1, 5) + y.get(99) + shuffle_xor(value, 1)
    }
}

const ONE: fn() -> LaunchConfig = || LaunchConfig::new(1, 1);

#[test]
fn an_index_out_of_range_is_reported_with_its_line() {
    for stream in streams() {
        let x = stream.upload(&[1.0f32, 2.0]).unwrap();
        let mut y = stream.zeros(4).unwrap();
        faulty::read_at(&stream, ONE(), &x, &mut y, 2).unwrap();
        let error = y.to_vec().unwrap_err().to_string();
        let line = 1 + include_str!("memory.rs").lines().position(|line| line.contains("5.0 + x[at]")).unwrap();
        let sentence = format!("memory.rs:{line}: index 2 is out of range for `x`, which has 2 elements");
        assert!(error.contains(&sentence), "{error}");
        // It is told once; the read gave zero, and everything works on.
        assert_eq!(y.to_vec().unwrap(), [5.0, 0.0, 0.0, 0.0]);
        faulty::read_at(&stream, ONE(), &x, &mut y, 1).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(y.to_vec().unwrap()[0], 7.0);
    }
}

#[test]
fn a_write_out_of_range_touches_nothing() {
    for stream in streams() {
        // The memory behind the part belongs to others.
        let mut all = stream.zeros(8).unwrap();
        faulty::write_at(&stream, ONE(), all.slice_mut(..4).unwrap(), 4).unwrap();
        let error = hip::kernel::check(&stream).unwrap_err().to_string();
        assert!(error.contains("index 4 is out of range for `y`, which has 4 elements"), "{error}");
        assert_eq!(all.to_vec().unwrap(), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        faulty::write_at(&stream, ONE(), &mut all, usize::MAX - 1).unwrap();
        assert!(all.to_vec().is_err());
        assert_eq!(all.to_vec().unwrap()[..2], [2.0, 0.0]);
    }
}

#[test]
fn arrays_and_shared_memory_are_checked_too() {
    for stream in streams() {
        let mut y = stream.zeros(2).unwrap();
        faulty::own_array(&stream, ONE(), &mut y, 4).unwrap();
        let error = stream.synchronize().unwrap_err().to_string();
        assert!(error.contains("index 4 is out of range for `table`, which has 4 elements"), "{error}");
        assert_eq!(y.to_vec().unwrap(), [14, 0]);
    }
}

#[test]
fn integers_divided_by_zero_give_zero_and_are_reported() {
    for stream in streams() {
        for (by, expected) in [(0, [0, 0]), (-1, [i32::MIN, 0])] {
            let mut y = stream.upload(&[i32::MIN, 1]).unwrap();
            faulty::divide(&stream, ONE(), &mut y, by).unwrap();
            let outcome = stream.synchronize();
            match outcome {
                Err(error) => assert!(by == 0 && error.to_string().contains("divided by zero"), "{error}"),
                Ok(()) => assert_eq!(by, -1),
            }
            assert_eq!(y.to_vec().unwrap(), expected);
        }
        let mut y = stream.zeros(3).unwrap();
        faulty::stride(&stream, ONE(), &mut y, 0).unwrap();
        assert!(stream.synchronize().unwrap_err().to_string().contains("steps of zero"));
        assert_eq!(y.to_vec().unwrap(), [1, 0, 0]);
    }
}

#[test]
fn memory_of_another_stream_is_refused() {
    let streams = streams();
    let mut y = streams[1].zeros(1).unwrap();
    let error = faulty::add_one(&streams[0], ONE(), &mut y).unwrap_err().to_string();
    assert!(error.contains("belongs to another stream"), "{error}");
}

#[test]
fn a_capture_keeps_what_its_kernels_use() {
    for stream in streams() {
        let mut y = stream.zeros(3).unwrap();
        let fresh = stream.device().new_stream().unwrap();
        let mut other = fresh.zeros(1).unwrap();
        let error = fresh.capture(|stream| faulty::add_one(stream, ONE(), &mut other)).unwrap_err().to_string();
        assert!(error.contains("prepare") || error.contains("capture"), "{error}");

        hip::kernel::prepare(&stream, |stream| faulty::add_one(stream, ONE(), &mut y)).unwrap();
        let graph = stream.capture(|stream| faulty::add_one(stream, LaunchConfig::new(1, 4), &mut y)).unwrap();
        graph.launch(&stream).unwrap();
        graph.launch(&stream).unwrap();
        assert_eq!(y.to_vec().unwrap(), [3, 2, 2]);
    }
}

#[test]
fn a_device_function_is_a_function_of_the_host() {
    use hip::kernel::prelude::GlobalMut;
    let mut memory = [0, 0, 0];
    assert_eq!(faulty::host_too(GlobalMut::from_mut(&mut memory), 4), 8);
    assert_eq!(memory, [0, 9, 0]);
}

#[hip::kernel]
fn sine(y: &mut GlobalMut<f32>) {
    y[0] = y[0].sin();
}

#[test]
fn what_the_platform_does_not_have_is_told_with_the_line() {
    for stream in streams() {
        let mut y = stream.upload(&[1.0f32]).unwrap();
        match sine(&stream, ONE(), &mut y) {
            Ok(()) => assert!((y.to_vec().unwrap()[0] - 1f32.sin()).abs() < 1e-6),
            // An emulated GPU has no library of such functions.
            Err(error) => {
                let line = 1 + include_str!("memory.rs").lines().position(|line| line.contains("y[0].sin();")).unwrap();
                let said = error.to_string();
                assert!(
                    stream.device().is_emulated()
                        && said.contains(&format!("memory.rs:{line}"))
                        && said.contains("sin"),
                    "{said}"
                );
            }
        }
    }
}
