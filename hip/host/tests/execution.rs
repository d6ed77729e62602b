//! Blocks, threads, barriers and waves, each on a device of wave size 32 and one of 64.

mod common;
use common::{hip, launch, status, Buffer, Module};
use hip_abi::{hipError_t, hipStream_t};
use std::cell::Cell;
use std::sync::Once;

/// Runs the body on both devices.
fn on_both_waves(body: impl Fn(usize)) {
    static CONFIGURED: Once = Once::new();
    CONFIGURED.call_once(|| {
        let options = hip_host::Options { devices: 2, wave_sizes: vec![32, 64], ..Default::default() };
        hip_host::configure(options).expect("first use");
    });
    for (device, wave) in [(0, 32), (1, 64)] {
        hip!(hipSetDevice(device));
        body(wave);
    }
}

#[test]
fn grids_and_blocks_of_three_dimensions_reach_every_thread_once() {
    on_both_waves(|_| {
        let module = Module::new(
            r#"extern "C" __global__ void count(int *out) {
                unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
                unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
                out[block * blockDim.x * blockDim.y * blockDim.z + thread] += 1 + thread;
            }"#,
        );
        let (grid, block) = ([3, 4, 5], [5, 3, 7]);
        let threads: u32 = block.iter().product();
        let out = Buffer::from(&vec![0i32; (60 * threads) as usize]);
        assert!(launch(module.function("count"), grid, block, 0, hipStream_t::NULL, &[(&out).into()]).is_success());
        let expected: Vec<i32> = (0..60).flat_map(|_| 1..=threads as i32).collect();
        assert_eq!(out.read(), expected);
    });
}

#[test]
fn a_million_blocks() {
    on_both_waves(|_| {
        let module = Module::new(
            r#"extern "C" __global__ void add_one(int *out) { if (threadIdx.x == 0) out[blockIdx.x] = blockIdx.x + 1; }"#,
        );
        let out = Buffer::<i32>::new(1_000_000);
        module.run("add_one", 1_000_000, 2, &[(&out).into()]);
        assert!(out.read().iter().zip(1..).all(|(got, expected)| *got == expected));
    });
}

const BARRIERS: &str = r#"
extern "C" __global__ void reverse(int *out, const int *in) {
    __shared__ int tile[1024];
    unsigned thread = threadIdx.x, base = blockIdx.x * blockDim.x;
    tile[thread] = in[base + thread];
    __syncthreads();
    out[base + thread] = tile[blockDim.x - 1 - thread];
}

// Dynamic shared memory, a barrier in a loop that all threads take, and threads that have left before.
extern "C" __global__ void tree_sum(int *out, const int *in, int count) {
    extern __shared__ int partial[];
    int thread = threadIdx.x;
    if (thread >= count) return;
    partial[thread] = in[thread];
    for (int step = 1; step < count; step *= 2) {
        __syncthreads();
        int other = thread + step < count && thread % (2 * step) == 0 ? partial[thread + step] : 0;
        __syncthreads();
        partial[thread] += other;
    }
    if (thread == 0) *out = partial[0];
}

// A barrier inside a branch that the whole block takes or does not take, and one inside a loop left at different times:
// the hardware counts arrivals, and threads that ended do not count.
extern "C" __global__ void leave_in_turn(int *out) {
    __shared__ int arrivals;
    if (threadIdx.x == 0) arrivals = 0;
    __syncthreads();
    if (blockIdx.x % 2 == 0) {
        for (unsigned round = 0; round <= threadIdx.x; round++) {
            atomicAdd(&arrivals, 1);
            __syncthreads();
        }
    }
    if (threadIdx.x == blockDim.x - 1) out[blockIdx.x] = arrivals;
}

extern "C" __global__ void votes(int *out) {
    int thread = threadIdx.x;
    int count = __syncthreads_count(thread % 3 == 0);
    int all = __syncthreads_and(thread < 1000), some = __syncthreads_or(thread == 7);
    int none = __syncthreads_or(0), every = __syncthreads_and(1);
    if (thread == 5) { out[0] = count; out[1] = all; out[2] = some; out[3] = none; out[4] = every; }
}
"#;

#[test]
fn barriers() {
    on_both_waves(|_| {
        let module = Module::new(BARRIERS);
        for threads in [1, 31, 32, 33, 64, 100, 256, 1024] {
            let input: Vec<i32> = (0..threads * 3).collect();
            let (out, buffer) = (Buffer::<i32>::new(input.len()), Buffer::from(&input));
            module.run("reverse", 3, threads as u32, &[(&out).into(), (&buffer).into()]);
            let expected: Vec<i32> =
                input.chunks(threads as usize).flat_map(|block| block.iter().rev().copied()).collect();
            assert_eq!(out.read(), expected, "{threads} threads");

            let sum = Buffer::from(&[0i32]);
            let arguments = [(&sum).into(), (&buffer).into(), (threads - threads / 3).into()];
            let done = launch(
                module.function("tree_sum"),
                [1; 3],
                [threads as u32, 1, 1],
                4096,
                hipStream_t::NULL,
                &arguments,
            );
            assert!(done.is_success());
            assert_eq!(
                sum.read(),
                [input[..(threads - threads / 3) as usize].iter().sum::<i32>()],
                "{threads} threads"
            );
        }
        let out = Buffer::from(&[-1i32; 4]);
        module.run("leave_in_turn", 4, 100, &[(&out).into()]);
        assert_eq!(out.read(), [5050, 0, 5050, 0]);
        let out = Buffer::from(&[-1i32; 5]);
        module.run("votes", 1, 1024, &[(&out).into()]);
        assert_eq!(out.read(), [342, 0, 1, 0, 1]);
    });
}

const WAVES: &str = r#"
extern "C" __global__ void wave_sum(int *out, const int *in, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = i < count ? in[i] : 0;
    for (int delta = warpSize / 2; delta > 0; delta /= 2) sum += __shfl_xor(sum, delta);
    if (i < count) out[i] = sum;
}

extern "C" __global__ void shuffles(long long *out) {
    int lane = __lane_id();
    out[threadIdx.x * 4 + 0] = __shfl((long long)lane << 40, 3);
    out[threadIdx.x * 4 + 1] = __shfl_up(lane, 1);
    out[threadIdx.x * 4 + 2] = __shfl_down(lane, 2);
    out[threadIdx.x * 4 + 3] = __ballot(lane % 2);
}

// Lanes go round the loop different numbers of times; those inside meet each other and wait for nobody who has left.
extern "C" __global__ void divergent(int *out) {
    int lane = __lane_id(), met = 0;
    for (int round = 0; round < lane % 5; round++) met += __popcll(__ballot(1));
    __syncthreads();
    out[threadIdx.x] = met;
    if (lane % 2) { if (__any(lane == 1) && !__all(lane == 1)) out[threadIdx.x] += 1000; }
    else out[threadIdx.x] += 100000 * (__popcll(__activemask()) == warpSize / 2);
}
"#;

#[test]
fn wave_operations() {
    on_both_waves(|wave| {
        let module = Module::new(WAVES);
        let input: Vec<i32> = (0..1024).collect();
        let (out, buffer) = (Buffer::<i32>::new(1024), Buffer::from(&input));
        module.run("wave_sum", 4, 256, &[(&out).into(), (&buffer).into(), 1024.into()]);
        let expected: Vec<i32> = input.chunks(wave).flat_map(|lanes| vec![lanes.iter().sum::<i32>(); wave]).collect();
        assert_eq!(out.read(), expected);

        let out = Buffer::<i64>::new(128 * 4);
        module.run("shuffles", 1, 128, &[(&out).into()]);
        let odd_lanes = if wave == 32 { 0xAAAA_AAAA } else { 0xAAAA_AAAA_AAAA_AAAAu64 as i64 };
        for (thread, got) in out.read().chunks(4).enumerate() {
            let lane = (thread % wave) as i64;
            let up = (lane - 1).max(0);
            let down = if lane + 2 < wave as i64 { lane + 2 } else { lane };
            assert_eq!(got, [3 << 40, up, down, odd_lanes], "thread {thread}");
        }

        let out = Buffer::<i32>::new(128);
        module.run("divergent", 1, 128, &[(&out).into()]);
        let lanes_in_round = |round: usize| (0..wave).filter(|lane| lane % 5 > round).count() as i32;
        for (thread, got) in out.read().into_iter().enumerate() {
            let lane = thread % wave;
            let met: i32 = (0..lane % 5).map(lanes_in_round).sum();
            assert_eq!(got, met + if lane % 2 == 1 { 1000 } else { 100_000 }, "thread {thread}");
        }
    });
}

#[test]
fn atomics_of_many_blocks() {
    on_both_waves(|_| {
        let module = Module::new(
            r#"extern "C" __global__ void add(unsigned *words, unsigned long long *longs, float *floats) {
                atomicAdd(words, 1u);
                atomicAdd(longs, 1ull << 33);
                atomicAdd(floats, 1.0f);
            }"#,
        );
        let (words, longs, floats) = (Buffer::from(&[0u32]), Buffer::from(&[0u64]), Buffer::from(&[0f32]));
        module.run("add", 1000, 64, &[(&words).into(), (&longs).into(), (&floats).into()]);
        assert_eq!((words.read()[0], longs.read()[0], floats.read()[0]), (64_000, 64_000 << 33, 64_000.0));
    });
}

#[test]
fn launches_beyond_the_limits_are_refused_and_the_next_works() {
    on_both_waves(|_| {
        let module = Module::new(r#"extern "C" __global__ void set(int *out) { *out = 7; }"#);
        let (out, set) = (Buffer::from(&[0i32]), module.function("set"));
        let arguments = [(&out).into()];
        for (grid, block, shared, expected) in [
            ([1, 1, 1], [0, 1, 1], 0, hipError_t::hipErrorInvalidConfiguration),
            ([0, 1, 1], [1, 1, 1], 0, hipError_t::hipErrorInvalidConfiguration),
            ([1, 1, 1], [1025, 1, 1], 0, hipError_t::hipErrorInvalidConfiguration),
            ([1, 1, 1], [64, 64, 1], 0, hipError_t::hipErrorInvalidConfiguration),
            ([1, 1, 1], [u32::MAX, u32::MAX, u32::MAX], 0, hipError_t::hipErrorInvalidConfiguration),
            ([1, 65_536, 1], [1, 1, 1], 0, hipError_t::hipErrorInvalidConfiguration),
            ([1, 1, 1], [1, 1, 1], 65_537, hipError_t::hipErrorInvalidValue),
        ] {
            assert_eq!(
                launch(set, grid, block, shared, hipStream_t::NULL, &arguments),
                expected,
                "{grid:?} {block:?} {shared}"
            );
        }
        let none = std::ptr::null_mut();
        let bare = status!(hipModuleLaunchKernel(set, 1, 1, 1, 1, 1, 1, 0, hipStream_t::NULL, none, none));
        assert_eq!(bare, hipError_t::hipErrorInvalidValue, "a kernel with arguments and no arguments given");
        assert!(launch(set, [1; 3], [1; 3], 0, hipStream_t::NULL, &arguments).is_success());
        assert_eq!(out.read(), [7]);
    });
}

#[test]
fn arguments_may_come_packed() {
    on_both_waves(|_| {
        let module = Module::new(
            r#"struct Shape { int extent[3]; long stride; };
            extern "C" __global__ void pack(long *out, char small, Shape shape, double factor) {
                *out = small + shape.extent[2] * shape.stride + (long)factor;
            }"#,
        );
        let out = Buffer::from(&[0i64]);
        #[repr(C)]
        struct Shape([i32; 3], i64);
        #[repr(C)]
        struct Packed(u64, i8, Shape, f64);
        let mut packed = Packed(out.address as u64, 5, Shape([1, 2, 3], 100), 1e6);
        let bytes = Cell::new(size_of::<Packed>());
        let mut extra = [
            hip_abi::HIP_LAUNCH_PARAM_BUFFER_POINTER,
            (&raw mut packed).cast(),
            hip_abi::HIP_LAUNCH_PARAM_BUFFER_SIZE,
            bytes.as_ptr().cast(),
            hip_abi::HIP_LAUNCH_PARAM_END,
        ];
        let (null, none) = (hipStream_t::NULL, std::ptr::null_mut());
        hip!(hipModuleLaunchKernel(module.function("pack"), 1, 1, 1, 1, 1, 1, 0, null, none, extra.as_mut_ptr()));
        assert_eq!(out.read(), [1_000_305]);
        bytes.set(16);
        let short = status!(hipModuleLaunchKernel(
            module.function("pack"),
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            null,
            none,
            extra.as_mut_ptr()
        ));
        assert_eq!(short, hipError_t::hipErrorInvalidValue);
    });
}

#[test]
fn lanes_that_are_behind_are_waited_for_wherever_a_function_was_defined() {
    on_both_waves(|wave| {
        let module = Module::new(
            r#"
            // Defined, and so numbered, before everything that uses it.
            __device__ int wave_sum(int value) {
                for (int delta = warpSize / 2; delta > 0; delta /= 2) value += __shfl_xor(value, delta);
                return value;
            }
            // Some lanes never enter the loop, the others leave it at different times; then all meet.
            extern "C" __global__ void after_a_loop(int *out) {
                int lane = __lane_id(), met = 0;
                for (int round = 0; round < lane % 4; round++) met += __popcll(__ballot(1));
                out[threadIdx.x] = wave_sum(met);
            }
            // A branch that the compiler is told to expect from nobody.
            extern "C" __global__ void after_a_rare_branch(int *out) {
                int lane = __lane_id(), met = 1;
                if (__builtin_expect(lane % 8 == 3, 0)) met += __popcll(__ballot(1));
                out[threadIdx.x] = wave_sum(met);
            }
            // The same in a loop around it, left in turn.
            extern "C" __global__ void nested(int *out) {
                int lane = __lane_id(), met = 0;
                for (int outer = 0; outer < 3; outer++) {
                    for (int round = 0; round < (lane + outer) % 3; round++) met += __popcll(__ballot(1));
                    met += wave_sum(1);
                }
                out[threadIdx.x] = met;
            }
            "#,
        );
        let out = Buffer::<i32>::new(128);
        let lanes_with =
            |rounds: &dyn Fn(usize) -> usize, round: usize| (0..wave).filter(|lane| rounds(*lane) > round).count();
        let met = |rounds: &dyn Fn(usize) -> usize, lane: usize| {
            (0..rounds(lane)).map(|round| lanes_with(rounds, round)).sum::<usize>()
        };

        module.run("after_a_loop", 1, 128, &[(&out).into()]);
        let expected: usize = (0..wave).map(|lane| met(&|lane| lane % 4, lane)).sum();
        assert_eq!(out.read(), [expected as i32; 128]);

        module.run("after_a_rare_branch", 1, 128, &[(&out).into()]);
        let rare = wave / 8;
        assert_eq!(out.read(), [(wave + rare * rare) as i32; 128]);

        module.run("nested", 1, 128, &[(&out).into()]);
        for (thread, got) in out.read().into_iter().enumerate() {
            let expected: usize = (0..3).map(|outer| met(&|lane| (lane + outer) % 3, thread % wave) + wave).sum();
            assert_eq!(got, expected as i32, "thread {thread}");
        }
    });
}
