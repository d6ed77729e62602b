//! The orders in which threads and blocks run. Kernels that lack a barrier are right in one of them and wrong in another, and so are
//! found; kernels that lack nothing are right in all. An order is settled with the first call, so each is a process of its own: this
//! test program again, told by the variable.

mod common;
use common::{hip, status, Argument, Buffer, Module};
use hip_abi::{hipError_t, hipStream_t};
use std::process::Command;

const THREADS: usize = 256;
const BLOCKS: usize = 8;

/// Each kernel is to write 100 + the index of its neighbour, `in` being 100 + the index itself. `up` and `down` say which neighbour;
/// `clean` kernels lack nothing.
const SOURCE: &str = r#"
#define I (blockIdx.x * blockDim.x + threadIdx.x)
#define T threadIdx.x
#define BELOW (T == 0 ? 0 : T - 1)
#define ABOVE (T == blockDim.x - 1 ? T : T + 1)

extern "C" __global__ void up_unguarded(int *out, const int *in) {
    __shared__ volatile int tile[256];
    tile[T] = in[I];
    out[I] = tile[BELOW];
}
extern "C" __global__ void down_unguarded(int *out, const int *in) {
    __shared__ volatile int tile[256];
    tile[T] = in[I];
    out[I] = tile[ABOVE];
}
extern "C" __global__ void down_clean(int *out, const int *in) {
    __shared__ volatile int tile[256];
    tile[T] = in[I];
    __syncthreads();
    out[I] = tile[ABOVE];
}
// The second barrier is missing: whoever comes first behind the first one overwrites what its neighbour has yet to read.
extern "C" __global__ void down_after_barrier(int *out, const int *in) {
    __shared__ volatile int tile[256];
    tile[T] = in[I];
    __syncthreads();
    int seen = tile[ABOVE];
    tile[T] = -1;
    out[I] = seen;
}
extern "C" __global__ void down_after_barrier_clean(int *out, const int *in) {
    __shared__ volatile int tile[256];
    tile[T] = in[I];
    __syncthreads();
    int seen = tile[ABOVE];
    __syncthreads();
    tile[T] = -1;
    out[I] = seen;
}
// As above behind a wave operation, which is no barrier for what the lanes read afterwards.
extern "C" __global__ void down_after_shuffle(int *out, const int *in) {
    __shared__ volatile int tile[256];
    tile[T] = in[I];
    __syncthreads();
    int other = __shfl_xor(in[I], 1);
    int seen = tile[ABOVE];
    tile[T] = other < 0 ? other : -1;
    out[I] = seen;
}
// A block that relies on those before it.
extern "C" __global__ void up_across_blocks(int *out, const int *in) {
    ((volatile int *)out)[I] = in[I];
    if (blockIdx.x > 0) ((volatile int *)out)[I] = ((volatile int *)out)[I - blockDim.x] - in[I - blockDim.x] + in[I];
    else ((volatile int *)out)[I] = in[I] + 1000;
}
// Threads that end early, waves that split, and waits of all kinds.
extern "C" __global__ void own_clean(int *out, const int *in) {
    __shared__ int tile[256];
    tile[T] = in[I];
    if (blockIdx.x == 3 && T % 5 == 0) { out[I] = in[I]; return; }
    __syncthreads();
    int sum = 0;
    for (unsigned lane = 0; lane < T % 7; lane++) sum += __shfl(tile[T], T % warpSize);
    int all = __syncthreads_and(in[I] >= 100);
    out[I] = all ? sum - (int)(T % 7) * tile[T] + tile[T] : -1;
}
// Fails where a thread comes before its neighbour below.
extern "C" __global__ void insists(int *out, const int *in) {
    __shared__ volatile int tile[256];
    if (T == 0) tile[255] = 0;
    tile[T] = in[I];
    assert(T == 0 || tile[T - 1] == in[I - 1]);
    out[I] = in[I];
}
"#;

/// Whether a kernel is right in ascending and in descending order. A shuffled one spares none but the clean ones.
const KERNELS: [(&str, bool, bool); 8] = [
    ("up_unguarded", true, false),
    ("down_unguarded", false, true),
    ("down_clean", true, true),
    ("down_after_barrier", true, false),
    ("down_after_barrier_clean", true, true),
    ("down_after_shuffle", true, false),
    ("up_across_blocks", true, false),
    ("own_clean", true, true),
];

fn expected(kernel: &str) -> Vec<i32> {
    let element = |i: usize| {
        let thread = i % THREADS;
        let index = match kernel.split('_').next() {
            _ if kernel == "up_across_blocks" => i + 1000,
            Some("up") => i - usize::from(thread > 0),
            Some("down") => i + usize::from(thread < THREADS - 1),
            _ => i,
        };
        100 + index as i32
    };
    (0..BLOCKS * THREADS).map(element).collect()
}

fn launch_all(module: &Module) -> Vec<(&'static str, bool)> {
    let input: Vec<i32> = (0..(BLOCKS * THREADS) as i32).map(|i| 100 + i).collect();
    let input = Buffer::from(&input);
    // What an earlier kernel left in shared memory must not make up for what is missing.
    let wipe =
        Module::new("extern \"C\" __global__ void wipe() { __shared__ volatile int t[256]; t[threadIdx.x] = 0; }");
    let run = |name: &'static str| {
        let out = Buffer::from(&vec![0i32; BLOCKS * THREADS]);
        wipe.run("wipe", BLOCKS as u32, THREADS as u32, &[]);
        module.run(name, BLOCKS as u32, THREADS as u32, &[(&out).into(), (&input).into()]);
        (name, out.read() == expected(name))
    };
    KERNELS.iter().map(|(name, ..)| run(name)).collect()
}

/// The kernels that came out wrong in a process with these variables.
fn wrong_in(test: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    // One thread: what blocks find of each other is not to depend on the machine.
    command.args(["--exact", test, "--nocapture", "--include-ignored"]).env("HIP_HOST_THREADS", "1");
    let output = command.envs(variables.iter().copied()).output().expect("this program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text.lines().filter_map(|line| line.strip_prefix("wrong: ")).map(str::to_owned).collect()
}

#[test]
#[ignore = "the other tests run this in processes of its own"]
fn play() {
    for wave in [0, 1] {
        hip!(hipSetDevice(wave));
        for (name, right) in launch_all(&Module::new(SOURCE)) {
            if !right {
                println!("wrong: {name}");
            }
        }
    }
}

#[test]
fn a_missing_barrier_shows_in_one_order_or_another_and_clean_kernels_are_right_in_all() {
    let waves = [("HIP_HOST_DEVICES", "2"), ("HIP_HOST_WAVE", "32,64")];
    for order in ["ascending", "descending", "random:1"] {
        for checked in ["0", "1"] {
            let variables = [waves[0], waves[1], ("HIP_HOST_ORDER", order), ("HIP_HOST_CHECKED", checked)];
            let wrong = wrong_in("play", &variables);
            for (name, ascending, descending) in KERNELS {
                let right = match order {
                    "ascending" => ascending,
                    "descending" => descending,
                    _ => ascending && descending,
                };
                let count = wrong.iter().filter(|wrong| *wrong == name).count();
                assert_eq!(count, if right { 0 } else { 2 }, "{name}, {order}, checked {checked}: {wrong:?}");
            }
        }
    }
}

#[test]
#[ignore = "the other tests run this in processes of its own"]
fn play_often() {
    let module = Module::new(SOURCE);
    for _ in 0..12 {
        for (name, right) in launch_all(&module) {
            if !right {
                println!("wrong: {name}");
            }
        }
    }
}

#[test]
fn checked_mode_takes_the_orders_in_turn() {
    let wrong = wrong_in("play_often", &[("HIP_HOST_CHECKED", "1")]);
    for (name, ascending, descending) in KERNELS {
        let count = wrong.iter().filter(|wrong| *wrong == name).count();
        assert_eq!(count > 0, !(ascending && descending), "{name} was wrong {count} times of 12");
    }
    assert_eq!(wrong, wrong_in("play_often", &[("HIP_HOST_CHECKED", "1")]), "launches by number are the same again");
    let always = wrong_in("play_often", &[("HIP_HOST_CHECKED", "0")]);
    assert!(always.iter().all(|name| name == "down_unguarded") && always.len() == 12, "{always:?}");
}

#[test]
#[ignore = "the other tests run this in processes of its own"]
fn play_reports() {
    let module = Module::new(SOURCE);
    let (out, input) = (Buffer::<i32>::new(BLOCKS * THREADS), Buffer::from(&vec![7i32; BLOCKS * THREADS]));
    let arguments: [Argument; 2] = [(&out).into(), (&input).into()];
    for _ in 0..12 {
        module.launch("insists", BLOCKS as u32, THREADS as u32, hipStream_t::NULL, &arguments);
        let status = status!(hipStreamSynchronize(hipStream_t::NULL));
        match hip_host::take_report() {
            Some(report) => {
                assert_eq!(status, hipError_t::hipErrorAssert, "{report}");
                println!("wrong: {report}");
            }
            None => assert!(status.is_success(), "{status}"),
        }
    }
}

#[test]
fn a_report_names_the_order_that_repeats_the_failure() {
    let reports = wrong_in("play_reports", &[("HIP_HOST_CHECKED", "1")]);
    assert!((1..12).contains(&reports.len()), "{reports:#?}");
    for report in reports.iter().take(3) {
        let (_, order) = report.split_once("HIP_HOST_ORDER=").unwrap_or_else(|| panic!("{report}"));
        let order = order.split_whitespace().next().expect("an order");
        let again = wrong_in("play_reports", &[("HIP_HOST_CHECKED", "1"), ("HIP_HOST_ORDER", order)]);
        assert!(again.len() == 12 && again.iter().all(|same| same == report), "{report}\n{again:#?}");
    }
}
