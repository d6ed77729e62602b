//! HIP's device language on the embedded device: kernels that use its names, one family at a time, each line of which says
//! what must be true. A kernel writes the line number of what is not; compile errors name the missing piece.

use hip_abi::{hipDeviceptr_t, hipError_t, hipFunction_t, hipMemcpyKind, hipModule_t, hipStream_t};
use hip_host::{compile, CompileRequest};
use std::ffi::{c_void, CString};

/// Lets a kernel state facts: the first line that is false is kept in `*wrong`.
const PRELUDE: &str = r#"
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <hip/hip_bfloat16.h>
#define MUST(...) do { if (!(__VA_ARGS__)) atomicCAS(wrong, 0u, (unsigned)__LINE__); } while (0)
__device__ bool near(double a, double b) { return fabs(a - b) <= 1e-6 * (1.0 + fabs(b)); }
#line 1 "facts"
"#;

/// Compiles `source`, launches its kernel `facts(unsigned *wrong)` with some threads, returns what it wrote and the status
/// of the synchronisation behind it.
fn launch(source: &str, options: &[&str], blocks: u32, threads: u32) -> (u32, hipError_t) {
    let source = format!("{PRELUDE}{source}");
    let checked = hip_host::options().expect("a good configuration").checked;
    let request = CompileRequest { name: "facts.hip", source: &source, options, checked, ..Default::default() };
    let object = compile(&request).unwrap_or_else(|error| panic!("{error}"));
    let hip = hip_host::table();
    let name = CString::new("facts").expect("no zero bytes");
    let mut wrong = 0u32;
    // SAFETY: handles and pointers come from the calls before, sizes from what they stand for.
    unsafe {
        let mut module = hipModule_t(std::ptr::null_mut());
        assert!((hip.hipModuleLoadData)(&mut module, object.image.as_ptr().cast()).is_success());
        let mut function = hipFunction_t(std::ptr::null_mut());
        assert!((hip.hipModuleGetFunction)(&mut function, module, name.as_ptr()).is_success());
        let mut memory: *mut c_void = std::ptr::null_mut();
        assert!((hip.hipMalloc)(&mut memory, 4).is_success());
        let wrong_at = std::ptr::from_mut(&mut wrong).cast::<c_void>();
        assert!((hip.hipMemcpy)(memory, wrong_at, 4, hipMemcpyKind::hipMemcpyHostToDevice).is_success());
        let mut argument = hipDeviceptr_t(memory);
        let mut arguments = [std::ptr::from_mut(&mut argument).cast::<c_void>()];
        let null = std::ptr::null_mut();
        let stream = hipStream_t(null);
        let launched = (hip.hipModuleLaunchKernel)(
            function,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            0,
            stream,
            arguments.as_mut_ptr(),
            null.cast(),
        );
        assert!(launched.is_success(), "{launched}");
        let status = (hip.hipDeviceSynchronize)();
        assert!((hip.hipMemcpy)(wrong_at, memory, 4, hipMemcpyKind::hipMemcpyDeviceToHost).is_success());
        assert!((hip.hipFree)(memory).is_success());
        assert!((hip.hipModuleUnload)(module).is_success());
        (wrong, status)
    }
}

fn holds(source: &str) {
    holds_with(source, &[]);
}

fn holds_with(source: &str, options: &[&str]) {
    let (wrong, status) = launch(source, options, 2, 64);
    assert!(status.is_success(), "{status}: {:?}", hip_host::take_report());
    assert_eq!(
        wrong,
        0,
        "line {wrong} is false: {}",
        source.lines().nth(wrong.saturating_sub(1) as usize).unwrap_or("")
    );
}

#[test]
fn mathematics() {
    holds(
        r#"extern "C" __global__ void facts(unsigned *wrong) {
            float x = 0.5f + threadIdx.x; double d = x;
            MUST(sizeof(exp(x)) == 4 && sizeof(sqrt(x)) == 4 && sizeof(pow(x, 2)) == 4 && sizeof(exp(d)) == 8);
            MUST(near(expf(0.5f), 1.6487212707) && near(__expf(0.5f), expf(0.5f)) && near(exp(1), 2.718281828459045));
            MUST(near(rsqrtf(4.0f), 0.5) && near(rsqrt(16.0), 0.25) && near(__frsqrt_rn(4.0f), 0.5));
            MUST(near(__logf(x), log(d)) && near(log1pf(x), log1p(d)) && near(__log2f(8.0f), 3) && near(log10(1000.0f), 3));
            MUST(near(__powf(2.0f, 3.0f), 8) && near(pow(2.0f, 3), 8) && near(pow(2.0, 0.5f), 1.4142135623730951));
            MUST(fminf(1.0f, 2.0f) == 1 && fmaxf(__int_as_float(0x7fc00000), 2.0f) == 2 && fmin(1, 2) == 1);
            MUST(min(3, 4u) == 3u && max(-1, 2) == 2 && min(1.0f, 2.0) == 1 && max(3ll, 4) == 4 && max(2u, 3u) == 3);
            MUST(min(__int_as_float(0x7fc00000), 1.0f) == 1.0f);
            MUST(near(erff(0.5f), 0.5204998778) && near(erfcf(0.5f), 0.4795001222) && near(tanhf(0.5f), 0.4621171573));
            MUST(near(normcdff(0.0f), 0.5) && near(cbrtf(27.0f), 3) && near(hypotf(3, 4), 5) && near(sinpif(0.5f), 1));
            float s, c; sincosf(x, &s, &c); MUST(near(s * s + c * c, 1)); __sincosf(x, &s, &c); MUST(near(s, __sinf(x)));
            MUST(isnan(__int_as_float(0x7fc00000)) && !isnan(x) && isinf(1.0f / (x - x)) && isfinite(d) && signbit(-0.0f));
            MUST(floorf(-1.5f) == -2 && ceil(1.2f) == 2 && truncf(-1.5f) == -1 && rintf(2.5f) == 2 && roundf(2.5f) == 3);
            MUST(abs(-3) == 3 && abs(-2.5f) == 2.5f && fabsf(-x) == x && abs(-4ll) == 4 && std::abs(-1.5) == 1.5);
            MUST(fmaf(2, 3, 4) == 10 && fma(2.0f, 3.0f, 4.0f) == 10 && fmodf(7, 4) == 3 && remainderf(7, 4) == -1);
            MUST(copysignf(1, -2) == -1 && ldexpf(1, 4) == 16 && fdividef(6, 3) == 2 && __fdividef(6, 3) == 2);
            MUST(__saturatef(3.0f) == 1 && __fadd_rn(1, 2) == 3 && __frcp_rn(4) == 0.25f && exp10f(2.0f) == 100 && exp2f(3) == 8);
            MUST(near(lgammaf(5.0f), 3.1780538303) && near(tgamma(5.0f), 24) && lround(2.5f) == 3 && llrintf(3.5f) == 4);
        }"#,
    );
}

#[test]
fn integers_and_conversions() {
    holds(
        r#"extern "C" __global__ void facts(unsigned *wrong) {
            MUST(__popc(0xf0f0u) == 8 && __popcll(~0ull) == 64 && __clz(1) == 31 && __clz(0) == 32 && __clzll(1) == 63);
            MUST(__ffs(8) == 4 && __ffs(0) == 0 && __ffs(8u) == 4 && __ffsll(1ull << 40) == 41 && __ffsll(0ll) == 0);
            MUST(__brev(1u) == 0x80000000u && __brevll(2ull) == 0x4000000000000000ull);
            MUST(__mulhi(-2, 0x7fffffff) == -1 && __umulhi(~0u, ~0u) == 0xfffffffeu && __umul64hi(~0ull, 2) == 1);
            MUST(__mul24(-3, 5) == -15 && __umul24(0x1000003u, 2) == 6 && __byte_perm(0x33221100u, 0x77665544u, 0x7410) == 0x77441100u);
            MUST(__funnelshift_l(0x80000000u, 1u, 1) == 3 && __funnelshift_r(1u, 1u, 1) == 0x80000000u && __usad(3, 5, 1) == 3);
            MUST(__float2int_rn(2.5f) == 2 && __float2int_rz(-2.9f) == -2 && __float2int_ru(2.1f) == 3 && __float2int_rd(-2.1f) == -3);
            MUST(__float2int_rz(1e20f) == 0x7fffffff && __float2int_rz(-1e20f) == (int)0x80000000 && __float2uint_rz(-1.0f) == 0);
            MUST(__float2int_rz(__int_as_float(0x7fc00000)) == 0 && __double2ll_rz(1e300) == 0x7fffffffffffffffll);
            MUST(__float_as_int(1.0f) == 0x3f800000 && __uint_as_float(0x40000000u) == 2.0f && __longlong_as_double(0) == 0);
            MUST(__hiloint2double(__double2hiint(1.25), __double2loint(1.25)) == 1.25 && __int2float_rn(3) == 3.0f);
        }"#,
    );
}

#[test]
fn vectors() {
    holds(
        r#"struct Holder { float4 v; char c; };
        extern "C" __global__ void facts(unsigned *wrong) {
            MUST(sizeof(float4) == 16 && alignof(float4) == 16 && sizeof(float3) == 12 && alignof(float2) == 8 && sizeof(uchar4) == 4);
            float4 a = make_float4(1, 2, 3, 4), b = {4, 3, 2, 1};
            float4 c = a + b * 2 - 1; MUST(c.x == 8 && c.y == 7 && c.z == 6 && c.w == 5);
            c += a; c *= 2.0f; MUST(c.x == 18 && (-c).w == -18); MUST(a == make_float4(1, 2, 3, 4) && a != b);
            int2 i = make_int2(3, 4); i = (i << 1) | 1; MUST(i.x == 7 && i.y == 9); uint3 u{1, 2, 3}; MUST((u % 2u).z == 1);
            double2 d = make_double2(1, 2); d /= 2; MUST(d.y == 1.0); ushort4 h = make_ushort4(1, 2, 3, 65535); MUST((h + h).w == 65534);
            dim3 grid(2, 3); MUST(grid.z == 1 && dim3(blockDim).x == 64 && gridDim.x == 2 && blockDim.y == 1); MUST(sizeof(Holder) == 32);
            float values[8] = {0, 1, 2, 3, 4, 5, 6, 7}; float2 pair = reinterpret_cast<float2 *>(values)[1]; MUST(pair.x == 2 && pair.y == 3);
        }"#,
    );
}

#[test]
fn atomics_under_contention() {
    let source = r#"__device__ int i; __device__ unsigned u, wrap, down, low = ~0u, high; __device__ unsigned long long big; __device__ float f;
        __device__ double d; __device__ float least = 1e9f, most = -1e9f; __device__ unsigned short halves[2]; __device__ __half h;
        __device__ unsigned done; __device__ long long seen;
        extern "C" __global__ void facts(unsigned *wrong) {
            unsigned id = blockIdx.x * blockDim.x + threadIdx.x, total = gridDim.x * blockDim.x;
            atomicAdd(&i, 2); atomicSub(&u, 1u); atomicAdd(&big, 1ull << 33); atomicAdd(&f, 1.0f); unsafeAtomicAdd(&d, 0.5);
            atomicMin(&low, id + 7); atomicMax(&high, id); atomicMin(&least, (float)id - 5); atomicMax(&most, (float)id);
            atomicInc(&wrap, 9); atomicDec(&down, 4);
            unsigned short old = halves[1], got; while ((got = atomicCAS(&halves[1], old, (unsigned short)(old + 1))) != old) old = got;
            atomicAdd(&h, __half(1.0f)); __hip_atomic_fetch_add(&seen, 3, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
            __threadfence();
            if (atomicAdd(&done, 1u) != total - 1) return;
            MUST(i == (int)(2 * total)); MUST(u == -total); MUST(big == (unsigned long long)total << 33); MUST(f == total); MUST(d == total / 2.0);
            MUST(low == 7 && high == total - 1 && least == -5 && most == total - 1); MUST(wrap == total % 10); MUST(down == (5 - total % 5) % 5);
            MUST(halves[1] == total && halves[0] == 0); MUST((float)h == total); MUST(__hip_atomic_load(&seen, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) == 3ll * total);
            MUST(atomicExch(&f, 3.0f) == total && f == 3.0f); MUST(atomicAnd(&high, 1u) == total - 1); MUST(atomicOr(&i, 1) == (int)(2 * total) && atomicXor(&i, 1) == (int)(2 * total + 1));
            MUST(atomicCAS(&big, 5ull, 6ull) == (unsigned long long)total << 33);
        }"#;
    let (wrong, status) = launch(source, &[], 16, 128);
    assert!(status.is_success(), "{status}");
    assert_eq!(wrong, 0, "line {wrong}");
}

#[test]
fn small_floats() {
    holds(
        r#"extern "C" __global__ void facts(unsigned *wrong) {
            __half a = __float2half(1.5f), b = 2.5f; MUST(__half2float(a + b) == 4.0f && (float)(a * b) == 3.75f && __hgt(b, a));
            MUST(__half_as_ushort(__float2half(1.0f)) == 0x3c00 && (float)__float2half(65520.0f) > 1e30f && sizeof(__half2) == 4);
            MUST((float)__float2half(2049.0f) == 2048.0f && (float)hexp(__half(0.0f)) == 1.0f && (float)__hfma(a, b, a) == 5.25f);
            __half2 p = __floats2half2_rn(1, 2); p = __hadd2(p, __half2half2(a)); MUST(__low2float(p) == 2.5f && __high2float(p) == 3.5f);
            float2 w = __half22float2(p); MUST(w.y == 3.5f); a += b; MUST((float)a == 4.0f && (float)-a == -4.0f && (float)hsqrt(a) == 2.0f);
            hip_bfloat16 c(1.0f), d(3.140625f); MUST(c.data == 0x3f80 && (float)(c + d) == 4.125f && (float)(-d) == -3.140625f);
            MUST((float)hip_bfloat16(1.00390625f) == 1.0f && (float)hip_bfloat16(1.01171875f) == 1.015625f && isnan((float)hip_bfloat16(__int_as_float(0x7f800001))));
            MUST(__bfloat162float(__float2bfloat16(-2.0f)) == -2.0f); _Float16 native = 0.5f; MUST((float)(native + native) == 1.0f);
        }"#,
    );
}

#[test]
fn options_of_the_caller_do_not_reach_into_the_device_s_header() {
    holds_with(
        r#"static_assert(N == 3 && T == 4, "defined");
        extern "C" __global__ void facts(unsigned *wrong) { MUST(A(2) == 4); assert(false); }"#,
        &["-DN=3", "-DT=4", "-DA(n)=n*2", "-DI=0", "-DF=0", "-DNDEBUG"],
    );
}

#[test]
fn the_standard_library_s_names_are_there_too() {
    holds(
        r#"#include <cmath>
        #include <cassert>
        #include <cstdint>
        #include <limits>
        #include <type_traits>
        #include <algorithm>
        extern "C" __global__ void facts(unsigned *wrong) {
            MUST(std::exp(0.0f) == 1 && std::isnan(std::numeric_limits<float>::quiet_NaN()) && sizeof(std::sqrt(1.0f)) == 4);
            MUST(std::max(1, 2) == 2 && std::is_same<decltype(threadIdx.x), unsigned>::value && INT32_MAX > 0);
            float buffer[4] = {4, 2, 3, 1}; std::sort(buffer, buffer + 4); MUST(buffer[0] == 1 && buffer[3] == 4);
            const int warp = warpSize; MUST(warp == 32 || warp == 64); float infinite = INFINITY; MUST(isinf(infinite));
            if (threadIdx.x > 1000) printf("never %d\n", (int)threadIdx.x);
            long long start = clock64(); MUST(clock64() >= start && wall_clock64() > 0);
        }"#,
    );
}

#[test]
fn an_assertion_ends_the_grid_and_not_the_process() {
    let source =
        r#"extern "C" __global__ void facts(unsigned *wrong) { assert(threadIdx.x != 9 || blockIdx.x != 1); }"#;
    let (_, status) = launch(source, &[], 2, 64);
    assert_eq!(status, hipError_t::hipErrorAssert);
    let report = hip_host::take_report().expect("a report");
    assert!(report.contains("facts:1: threadIdx.x != 9 || blockIdx.x != 1"), "{report}");
    let (_, status) =
        launch(r#"extern "C" __global__ void facts(unsigned *wrong) { if (threadIdx.x == 3) abort(); }"#, &[], 1, 8);
    assert!(!status.is_success());
    let _ = hip_host::take_report();
    holds(r#"extern "C" __global__ void facts(unsigned *wrong) { assert(true); }"#);
}
