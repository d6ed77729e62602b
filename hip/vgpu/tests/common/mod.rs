//! Objects for tests, made on the spot by clang: from assembly for single instructions, from HIP source for whole kernels.
//! Without a clang the tests say so and pass, unless CI=true.

#![allow(dead_code)]

use std::io::Write;
use std::process::{Command, Stdio};
use vgpu::{Arch, Buffers, Failure, Launch, Object, Options, Worker};

/// The compiler, where there is one with the AMDGPU target.
pub fn clang() -> Option<&'static str> {
    static FOUND: std::sync::OnceLock<Option<&'static str>> = std::sync::OnceLock::new();
    *FOUND.get_or_init(|| {
        let found = ["clang-19", "clang-20", "clang-21", "clang"].into_iter().find(|name| {
            let said =
                Command::new(name).args(["--target=amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus"]).output();
            said.is_ok_and(|said| String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).contains("gfx1201"))
        });
        if found.is_none() {
            let why = "no clang with the AMDGPU target on the PATH (Debian: clang-19 lld-19)";
            assert!(std::env::var_os("CI").is_none(), "{why}");
            eprintln!("skipped: {why}");
        }
        found
    })
}

fn compile(arguments: &[&str], source: &str) -> Vec<u8> {
    // lld cannot write to a pipe under every driver: a file of our own, removed at once.
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let out = std::env::temp_dir().join(format!("vgpu-test-{}-{number}.hsaco", std::process::id()));
    let mut child = Command::new(clang().expect("asked for before"))
        .args(arguments)
        .arg("-o")
        .arg(&out)
        .arg("-")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("clang starts");
    child.stdin.take().expect("a pipe").write_all(source.as_bytes()).expect("clang reads");
    let said = child.wait_with_output().expect("clang ends");
    assert!(said.status.success(), "{}\n{source}", String::from_utf8_lossy(&said.stderr));
    let bytes = std::fs::read(&out).expect("an object");
    let _ = std::fs::remove_file(&out);
    bytes
}

/// An object of HIP source without headers.
pub fn hip(arch: Arch, source: &str) -> Vec<u8> {
    hip_with(arch, source, &["-O3"])
}

/// An object of HIP source with these options.
pub fn hip_with(arch: Arch, source: &str, options: &[&str]) -> Vec<u8> {
    let arch = format!("--offload-arch={arch}");
    let mut all = vec![
        "-x",
        "hip",
        "--cuda-device-only",
        "--no-gpu-bundle-output",
        "-nogpuinc",
        "-nogpulib",
        "-nostdinc",
        "-std=c++17",
        &arch,
    ];
    if !options.iter().any(|option| option.starts_with("-mcode-object-version")) {
        all.push("-mcode-object-version=4");
    }
    all.extend(options);
    let head = "
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define THREAD __builtin_amdgcn_workitem_id_x()
#define BLOCK __builtin_amdgcn_workgroup_id_x()
#define BARRIER do { __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\"); __builtin_amdgcn_s_barrier(); \\
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\"); } while (0)
typedef unsigned int u32; typedef unsigned long u64; typedef unsigned char u8; typedef unsigned short u16;
";
    compile(&all, &format!("{head}{source}"))
}

/// How a kernel of assembly starts.
#[derive(Clone, Copy)]
pub struct Asm {
    pub arch: Arch,
    pub wave_size: usize,
    pub lds: u32,
    pub private: u32,
    /// f32 denormals are flushed, and IEEE mode is off.
    pub flush: bool,
}

impl Asm {
    pub fn new(arch: Arch) -> Self {
        Self { arch, wave_size: arch.wave_size(), lds: 0, private: 0, flush: false }
    }

    /// An object with one kernel, `test`. The address of the arguments is in s[0:1] on every target.
    pub fn object(&self, body: &str) -> Vec<u8> {
        let arch = self.arch;
        let cpu = format!("-mcpu={arch}");
        let mut options =
            vec!["--target=amdgcn-amd-amdhsa", cpu.as_str(), "-x", "assembler", "-mcode-object-version=4"];
        let mut more = String::new();
        if arch.is_cdna() {
            more += "  .amdhsa_accum_offset 128\n";
        } else {
            more += &format!("  .amdhsa_wavefront_size32 {}\n", u8::from(self.wave_size == 32));
            if self.wave_size == 64 {
                options.push("-mwavefrontsize64");
            }
        }
        if self.flush && arch.generation() < 12 {
            more += "  .amdhsa_ieee_mode 0\n";
        }
        let denormals = if self.flush { 0 } else { 3 };
        let vgprs = if arch.is_cdna() { 256 } else { 128 };
        let source = format!(
            ".amdgcn_target \"amdgcn-amd-amdhsa--{arch}\"
.text
.globl test
.p2align 8
.type test,@function
test:
{body}
  s_endpgm
.Lend:
  .size test, .Lend-test
.rodata
.p2align 6
.amdhsa_kernel test
  .amdhsa_group_segment_fixed_size {}
  .amdhsa_private_segment_fixed_size {}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_user_sgpr_count 2
  .amdhsa_next_free_vgpr {vgprs}
  .amdhsa_next_free_sgpr 100
  .amdhsa_system_vgpr_workitem_id 0
  .amdhsa_float_denorm_mode_32 {denormals}
{more}.end_amdhsa_kernel
",
            self.lds, self.private
        );
        compile(&options, &source)
    }

    /// Runs `body` in one wave: v0 is the lane, each of `inputs` is loaded into v2, v3, ... (a row each), and v1 is stored. Pairs
    /// take two rows. s[0:1] is the address of the arguments, s[4:5] of the rows.
    pub fn run(&self, body: &str, inputs: &[Vec<u32>], outputs: usize) -> Result<Vec<Vec<u32>>, Failure> {
        self.run_with(body, inputs, outputs, Options::default())
    }

    pub fn run_with(
        &self,
        body: &str,
        inputs: &[Vec<u32>],
        outputs: usize,
        options: Options,
    ) -> Result<Vec<Vec<u32>>, Failure> {
        let lanes = self.wave_size;
        let (s_load, load, store, wait, wait_store) = if self.arch.generation() >= 11 {
            ("s_load_b64", "global_load_b32", "global_store_b32", "", "")
        } else {
            ("s_load_dwordx2", "global_load_dword", "global_store_dword", "", "")
        };
        let _ = (wait, wait_store);
        let wait = if self.arch.generation() >= 12 {
            "  s_wait_loadcnt 0\n  s_wait_kmcnt 0\n  s_wait_dscnt 0\n"
        } else {
            "  s_waitcnt vmcnt(0) lgkmcnt(0)\n"
        };
        let mut text = format!("  {s_load} s[4:5], s[0:1], 0\n{wait}  v_lshlrev_b32 v100, 2, v0\n");
        for n in 0..inputs.len() {
            text += &format!("  {load} v{}, v100, s[4:5]\n  v_add_u32 v100, {}, v100\n", n + 2, 4 * lanes)
                .replace("v_add_u32", if self.arch.is_cdna() { "v_add_u32" } else { "v_add_nc_u32" });
        }
        text += wait;
        text += body;
        text += "\n";
        text += wait;
        text += &format!("  {s_load} s[4:5], s[0:1], 8\n{wait}  v_mbcnt_lo_u32_b32 v100, -1, 0\n");
        if lanes == 64 {
            text += "  v_mbcnt_hi_u32_b32 v100, -1, v100\n";
        }
        text += "  v_lshlrev_b32 v100, 2, v100\n";
        // Outputs are v1, or v1 and v[50...].
        for n in 0..outputs {
            let register = if n == 0 { 1 } else { 49 + n };
            text += &format!("  {store} v100, v{register}, s[4:5]\n  v_add_u32 v100, {}, v100\n", 4 * lanes)
                .replace("v_add_u32", if self.arch.is_cdna() { "v_add_u32" } else { "v_add_nc_u32" });
        }
        let object = Object::load(&self.object(&text)).expect("an object");
        let kernel = object.kernel("test").expect("the kernel");
        let mut memory = Buffers::new();
        let rows: Vec<u32> = inputs.iter().flat_map(|row| (0..lanes).map(|i| row[i % row.len()])).collect();
        let input = memory.from_slice(&rows);
        let output = memory.alloc(4 * lanes * outputs.max(1));
        let arguments = memory.from_slice(&[input, output]);
        let launch = Launch::new(&kernel, [1, 1, 1], [lanes as u32, 1, 1], 0, arguments)?.with_options(options);
        launch.run(&mut Worker::new(), &memory)?;
        let words = memory.read::<u32>(output, lanes * outputs).expect("the output");
        Ok(words.chunks(lanes).map(<[u32]>::to_vec).collect())
    }
}

pub fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

pub fn half(bits: u32) -> f32 {
    let (sign, exponent, mantissa) = (bits >> 15 & 1, bits >> 10 & 31, bits & 0x3ff);
    let magnitude = match exponent {
        0 => mantissa as f32 * 2f32.powi(-24),
        31 if mantissa == 0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + mantissa as f32 / 1024.0) * 2f32.powi(exponent as i32 - 15),
    };
    if sign == 1 {
        -magnitude
    } else {
        magnitude
    }
}

/// The nearest f16, found by looking at all of them.
pub fn to_half(value: f32) -> u32 {
    if value.is_nan() {
        return 0x7e00;
    }
    let sign = (value.to_bits() >> 16) & 0x8000;
    let magnitude = f64::from(value.abs());
    let mut best = (0u32, f64::INFINITY);
    for code in 0..=0x7c00u32 {
        let at = if code == 0x7c00 { 65536.0 } else { f64::from(half(code)) };
        let off = (at - magnitude).abs();
        if off < best.1 || off == best.1 && code & 1 == 0 {
            best = (code, off);
        }
    }
    best.0 | sign
}
