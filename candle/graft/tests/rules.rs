//! Each rule on a crate of a few lines: what goes in, what must come out.

use candle_graft::{graft, Error, Job, Report, Result, Rule, Waiver};
use tempfile::TempDir;

/// A crate, an overlay and an output folder that vanish with the test.
struct Bench(TempDir);

impl Bench {
    fn new() -> Self {
        let bench = Bench(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder can be written"));
        for folder in ["crate/src", "overlay", "output"] {
            std::fs::create_dir_all(bench.0.path().join(folder)).expect("folder");
        }
        bench
    }
    fn with(self, file: &str, text: &str) -> Self {
        let path = self.0.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("folder");
        std::fs::write(path, text).expect("file");
        self
    }
    fn graft(&self, waivers: &[Waiver]) -> Result<Report> {
        graft(&Job {
            source: &self.0.path().join("crate"),
            version: "1.0.0",
            overlay: &self.0.path().join("overlay"),
            output: &self.0.path().join("output"),
            waivers,
        })
    }
    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.path().join("output").join(file)).expect("a grafted file")
    }
    /// The crate root after the graft, without white space.
    fn root(&self) -> String {
        self.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
        without_space(&self.read("src/lib.rs"))
    }
}

fn without_space(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Grafts a crate root and compares it, white space aside; returns the rules that were used.
fn check(input: &str, expected: &str) -> Vec<Rule> {
    let bench = Bench::new().with("crate/src/lib.rs", input);
    let report = bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(without_space(&bench.read("src/lib.rs")), without_space(expected), "got:\n{}", bench.read("src/lib.rs"));
    report.sites.iter().map(|site| site.rule).collect()
}

#[test]
fn what_dispatches_on_cuda_stays_as_it_is() {
    let text = "enum D { Cpu, Cuda(C) } fn f(d: &D) { match d { D::Cpu => 1, D::Cuda(c) => c.run() } }";
    assert_eq!(check(text, text), []);
}

#[test]
fn functions_named_for_cuda_have_a_second_name() {
    let rules = check(
        "impl D { pub fn as_cuda(&self) -> &C { match self { Self::Cuda(d) => d, _ => bail!(\"not a cuda device\") } } }",
        "impl D { pub fn as_cuda(&self) -> &C { match self { Self::Cuda(d) => d, _ => bail!(\"not a cuda device\") } } \
            pub fn as_rocm(&self) -> &C { match self { Self::Cuda(d) => d, _ => bail!(\"not a rocm device\") } } }",
    );
    assert_eq!(rules, [Rule::Name]);
}

#[test]
fn making_a_device_says_which_feature_is_missing() {
    let bench = Bench::new()
        .with("crate/src/lib.rs", "impl D { /// A CUDA GPU.\n pub fn new_cuda(i: usize) -> R { make(i) } }");
    let text = bench.root();
    assert!(text.contains("///AROCMGPU.pubfnnew_rocm(i:usize)->R{if!cfg!(feature=\"cuda\"){crate::bail!("), "{text}");
    assert!(text.ends_with("}make(i)}}"), "{text}");
    // Where upstream says nothing, what becomes of a machine without a GPU is said.
    let bare = Bench::new().with("crate/src/lib.rs", "impl D { pub fn new_cuda(i: usize) -> R { make(i) } }").root();
    assert!(bare.contains("CANDLE_ROCM_PLATFORM=amd`makesthatanerror.pubfnnew_rocm(i:usize)"), "{bare}");
}

#[test]
fn an_operation_may_be_written_under_either_name() {
    let source = "pub trait Op<const N: usize> { fn cuda_fwd(&self, _: &S, mut l: L) -> R { bail!(\"no cuda for {}\", self.name()) } }";
    let text = Bench::new().with("crate/src/lib.rs", source).root();
    assert!(text.contains("#[cfg(any())]fncuda_fwd(&self,_:&S,mutl:L)"), "upstream's is left out: {text}");
    let forwards = "fncuda_fwd(&self,a0:&S,a1:L)->R{<SelfasOp<N>>::rocm_fwd(self,a0,a1)}";
    assert!(text.contains(forwards), "{text}");
    assert!(text.contains("fnrocm_fwd(&self,_:&S,mutl:L)->R{bail!(\"norocmfor{}\",self.name())}"), "{text}");
}

#[test]
fn exported_names_have_a_second_one() {
    assert_eq!(check("pub use crate::{A, CudaB};", "pub use crate::{A, CudaB, CudaB as RocmB};"), [Rule::Name]);
    assert_eq!(check("pub use a::CudaB;", "pub use a::{CudaB, CudaB as RocmB};"), [Rule::Name]);
    assert_eq!(
        check(
            "#[cfg(not(feature = \"cuda\"))] pub use dummy_cuda as cuda;",
            "#[cfg(not(feature = \"cuda\"))] pub use {dummy_cuda as cuda, dummy_cuda as rocm};",
        ),
        [Rule::Name]
    );
    assert_eq!(check("use crate::CudaB;", "use crate::CudaB;"), []);
}

#[test]
fn a_gated_module_makes_room_for_the_overlays() {
    let bench = Bench::new()
        .with("crate/src/lib.rs", "#[cfg(feature = \"cuda\")]\npub mod cuda_backend;\nmod dummy_cuda;\n")
        .with("crate/src/cuda_backend.rs", "pub struct CudaOnly;")
        .with("crate/src/dummy_cuda.rs", "pub struct CudaDevice;")
        .with("overlay/rocm_backend/mod.rs", "");
    let report = bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.mounts[0].overlay, "rocm_backend/mod.rs");
    let text = without_space(&bench.read("src/lib.rs"));
    assert!(text.starts_with("#[cfg(any())]#[cfg(feature=\"cuda\")]pubmodcuda_backend;"), "{text}");
    assert!(text.contains("pubmodrocm_backend;#[cfg(feature=\"cuda\")]pubuserocm_backendascuda_backend;"), "{text}");
    assert_eq!(report.files, ["src/dummy_cuda.rs", "src/lib.md", "src/lib.rs"], "the implementation stays behind");
    assert_eq!(bench.read("src/dummy_cuda.rs"), "pub struct CudaDevice;");
}

#[test]
fn a_module_that_the_overlay_lacks_is_named() {
    let bench = Bench::new().with("crate/src/lib.rs", "#[cfg(feature = \"cuda\")]\npub mod cuda_backend;\n");
    let error = bench.graft(&[]).expect_err("nothing to mount");
    assert!(matches!(&error, Error::MissingMount(name) if name == "rocm_backend"), "{error}");
}

#[test]
fn what_only_nvidias_libraries_need_is_left_out() {
    for source in [
        "#[cfg(feature = \"cuda\")] mod fast;",
        "#[cfg(feature = \"cuda\")] mod cuda { use cudarc::driver::CudaSlice; }",
        "#[cfg(feature = \"cuda\")] use backend::kernels::ffi;",
        "#[cfg(feature = \"cudnn\")] pub use cuda_backend::cudnn;",
        "#[cfg(feature = \"cutile\")] pub mod cutile;",
    ] {
        assert_eq!(check(source, &format!("#[cfg(any())] {source}")), [Rule::LeftOut]);
    }
}

const OPERATION: &str =
    "impl Op for SoftMax { #[cfg(feature = \"cuda\")] fn cuda_fwd(&self, s: &CudaStorage) -> R { self.launch(s) } }";

#[test]
fn an_operation_calls_its_hook() {
    let bench = Bench::new().with("crate/src/lib.rs", OPERATION).with("overlay/rocm_ops.rs", "pub fn soft_max() {}");
    let report = bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.hooks[0].signature, "fn cuda_fwd(&self, s: &CudaStorage) -> R");
    let text = without_space(&bench.read("src/lib.rs"));
    assert!(text.contains("#[cfg(any())]#[cfg(feature=\"cuda\")]fncuda_fwd(&self,s:&CudaStorage)->R{self.launch(s)}"));
    let hooked = "#[cfg(feature=\"cuda\")]fncuda_fwd(&self,s:&CudaStorage)->R{rocm_ops::soft_max(self,s)}";
    assert!(text.contains(hooked), "{text}");
}

#[test]
fn an_operation_without_a_hook_is_an_error_unless_waived() {
    let bench = Bench::new().with("crate/src/lib.rs", OPERATION);
    let error = bench.graft(&[]).expect_err("no hook").to_string();
    assert!(error.contains("src/lib.rs:1: SoftMax::cuda_fwd has no hook"), "{error}");
    let waiver = Waiver { releases: &["1.0.0"], file: "src/lib.rs", what: "SoftMax::cuda_fwd", why: "a test" };
    let report = bench.graft(&[waiver]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.waivers, ["src/lib.rs: SoftMax::cuda_fwd"]);
    assert!(without_space(&bench.read("src/lib.rs")).contains("#[cfg(any())]#[cfg(feature=\"cuda\")]fncuda_fwd"));
}

#[test]
fn a_free_function_is_taken_from_the_overlay() {
    let source = "#[cfg(feature = \"cuda\")] fn gemm() { cuda() }\n#[cfg(not(feature = \"cuda\"))] fn gemm() { bail!(\"cuda only\") }";
    let text = Bench::new().with("crate/src/lib.rs", source).with("overlay/rocm_ops.rs", "pub fn gemm() {}").root();
    assert!(text.contains("#[cfg(any())]#[cfg(feature=\"cuda\")]fngemm(){cuda()}"), "{text}");
    assert!(text.contains("#[cfg(feature=\"cuda\")]pubuserocm_ops::gemm;"), "{text}");
    assert!(text.contains("#[cfg(not(feature=\"cuda\"))]fngemm(){bail!(\"cudaonly\")}"), "{text}");
}

#[test]
fn the_overlay_answers_for_both_names() {
    let source = "pub fn cuda_is_there() -> bool { cfg!(feature = \"cuda\") }";
    let hook = "pub fn rocm_is_there() -> bool { true }";
    let text = Bench::new().with("crate/src/lib.rs", source).with("overlay/rocm_ops.rs", hook).root();
    assert!(text.contains("#[cfg(not(feature=\"cuda\"))]pubfncuda_is_there()->bool{cfg!(feature=\"cuda\")}"), "{text}");
    assert!(text.contains("#[cfg(feature=\"cuda\")]pubuserocm_ops::{rocm_is_there,rocm_is_thereascuda_is_there};"));
    assert!(text.contains("#[cfg(not(feature=\"cuda\"))]pubfnrocm_is_there()->bool{cfg!(feature=\"cuda\")}"), "{text}");
}

#[test]
fn a_function_on_tensors_branches_into_the_overlay() {
    let source = "pub fn attend(q: &Tensor, scale: f32) -> R { q.apply(scale) }";
    let bench = Bench::new().with("crate/src/lib.rs", source).with("overlay/rocm_ops.rs", "pub fn rocm_attend() {}");
    let text = bench.root();
    assert!(text.contains("ifq.device().is_cuda(){returnrocm_ops::rocm_attend(q,scale);}q.apply(scale)"), "{text}");
}

#[test]
fn a_types_own_function_branches_into_the_overlay() {
    let source = "impl Content { fn tensor<R: Read>(&self, name: &str, device: &Device) -> T { read(self, name) } }";
    let hook = "pub fn rocm_content_tensor() {}";
    let text = Bench::new().with("crate/src/lib.rs", source).with("overlay/rocm_ops.rs", hook).root();
    let branch = "ifdevice.is_cuda(){returnrocm_ops::rocm_content_tensor(self,name,device);}read(self,name)";
    assert!(text.contains(branch), "{text}");
}

#[test]
fn a_tensors_own_function_branches_by_the_tensors_device() {
    let source = "impl Tensor { pub fn to_vec1<S: WithDType>(&self) -> Result<Vec<S>> { read(self) } }";
    let hook = "pub fn rocm_tensor_to_vec1() {}";
    let text = Bench::new().with("crate/src/lib.rs", source).with("overlay/rocm_ops.rs", hook).root();
    assert!(text.contains("ifself.device().is_cuda(){returnrocm_ops::rocm_tensor_to_vec1(self);}read(self)"), "{text}");
}

#[test]
fn a_function_on_several_tensors_branches_by_the_first() {
    let source = "impl Tensor { fn cat<A: AsRef<Tensor>>(args: &[A], dim: usize) -> R { join(args, dim) } }";
    let hook = "pub fn rocm_tensor_cat() {}";
    let text = Bench::new().with("crate/src/lib.rs", source).with("overlay/rocm_ops.rs", hook).root();
    let condition = "ifargs.first().is_some_and(|first|first.as_ref().device().is_cuda())";
    let branch = format!("{condition}{{returnrocm_ops::rocm_tensor_cat(args,dim);}}join(args,dim)");
    assert!(text.contains(&branch), "{text}");
}

#[test]
fn a_test_may_be_replaced_by_the_overlay() {
    let source = "fn golden(device: &Device) -> R { match device { Device::Cuda(_) => 1, Device::Cpu => 2 } }";
    let bench = Bench::new()
        .with("crate/tests/values.rs", source)
        .with("overlay/tests/values/rocm_ops.rs", "pub fn rocm_golden() {}");
    bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    let text = without_space(&bench.read("tests/values.rs"));
    assert!(text.contains("ifdevice.is_cuda(){returnrocm_ops::rocm_golden(device);}match"), "{text}");
}

#[test]
fn tests_make_no_exception() {
    let source = "fn f(d: &Device) { if d.is_cuda() || d.is_metal() { return } assert!(!d.is_cuda()); }";
    let bench = Bench::new().with("crate/tests/values.rs", source);
    let report = bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    let text = without_space(&bench.read("tests/values.rs"));
    assert!(text.contains("iffalse&&d.is_cuda()||d.is_metal(){return}assert!(!false&&d.is_cuda());"), "{text}");
    assert_eq!(report.sites_by_rule()[&Rule::NoException], 2);
}

#[test]
fn exported_macros_travel_to_the_root_as_items() {
    let bench = Bench::new()
        .with("crate/src/lib.rs", "//! Words.\n#![allow(dead_code)]\nmod deep;\n")
        .with("crate/src/deep/mod.rs", "#[cfg(unix)]\nmod inner;\n")
        .with("crate/src/deep/inner.rs", "#[macro_export]\nmacro_rules! stop { () => { return } }\n");
    bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(bench.read("src/lib.md"), "Words.\n");
    assert_eq!(bench.read("src/lib.rs").trim(), "mod deep;\npub use deep::stop;");
    assert!(bench.read("src/deep/mod.rs").contains("#[cfg(unix)]\npub use inner::stop;"));
    let inner = bench.read("src/deep/inner.rs");
    assert!(inner.contains("macro_rules! __stop") && inner.contains("pub use __stop as stop;"), "{inner}");
}

#[test]
fn a_crate_attribute_with_a_meaning_is_not_dropped_silently() {
    let bench = Bench::new().with("crate/src/lib.rs", "#![no_std]\n");
    let error = bench.graft(&[]).expect_err("no_std cannot travel").to_string();
    assert!(error.contains("#![no_std]"), "{error}");
}

#[test]
fn a_waiver_must_be_needed_by_the_release_it_was_written_for() {
    let bench = Bench::new().with("crate/src/lib.rs", "fn f() {}");
    let stale = Waiver { releases: &["1.0.0"], file: "src/lib.rs", what: "Gone::cuda_fwd", why: "a test" };
    let error = bench.graft(&[stale]).expect_err("the waiver excuses nothing");
    assert!(matches!(error, Error::StaleWaivers(_)), "{error}");
    let other = Waiver { releases: &["2.0.0"], ..stale };
    assert!(bench.graft(&[other]).is_ok());
}

#[test]
fn what_is_not_rust_is_refused_with_file_and_line() {
    let bench = Bench::new().with("crate/src/lib.rs", "fn f() {\n    let = ;\n}\n");
    let error = bench.graft(&[]).expect_err("not Rust").to_string();
    assert!(error.contains("src/lib.rs:2"), "{error}");
}
