//! Each rule on a crate of a few lines: what goes in, what must come out. The audit is tested the same way, with a mention
//! of CUDA planted where no rule looks.

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
fn arms_tuples_and_alternatives_gain_siblings() {
    let rules = check(
        "fn f(s: &S) { match s { S::Cpu => 1, S::Cuda(c) => c.run()?, S::Metal(_) => 3 } }",
        "fn f(s: &S) { match s { S::Cpu => 1, S::Cuda(c) => c.run()?, S::Rocm(c) => c.run()?, S::Metal(_) => 3 } }",
    );
    assert_eq!(rules, [Rule::Arm]);
    let rules = check(
        "fn f() { match (a, b) { (S::Cuda(a), S::Cuda(b)) => { S::Cuda(a + b) } _ => {} } }",
        "fn f() { match (a, b) { (S::Cuda(a), S::Cuda(b)) => { S::Cuda(a + b) } (S::Rocm(a), S::Rocm(b)) => { S::Rocm(a + b) } _ => {} } }",
    );
    assert_eq!(rules, [Rule::TupleArm]);
    let rules = check(
        "fn f() { match s { S::Cuda(_) | S::Metal(_) => true, S::Cpu => false } }",
        "fn f() { match s { S::Cuda(_) | S::Rocm(_) | S::Metal(_) => true, S::Cpu => false } }",
    );
    assert_eq!(rules, [Rule::OrPattern]);
}

#[test]
fn the_last_arm_may_lack_its_comma() {
    check(
        "fn f() { match s { S::Cpu => 0, S::Cuda(_) => 1 } }",
        "fn f() { match s { S::Cpu => 0, S::Cuda(_) => 1, S::Rocm(_) => 1 } }",
    );
}

#[test]
fn variants_keep_their_attributes() {
    let rules = check(
        "enum E { #[error(\"built without cuda\")] NoCuda, Cpu }",
        "enum E { #[error(\"built without cuda\")] NoCuda, #[error(\"built without rocm\")] NoRocm, Cpu }",
    );
    assert_eq!(rules, [Rule::Variant]);
    check("enum E { Cpu, Cuda(Box<str>) }", "enum E { Cpu, Cuda(Box<str>), Rocm(Box<str>), }");
}

#[test]
fn functions_named_for_cuda_gain_siblings_and_foreign_arms() {
    let rules = check(
        "impl D { fn as_cuda(&self) -> &C { match self { Self::Cuda(d) => d, Self::Metal(_) => bail!(\"a cuda device, not Metal\"), } } }",
        "impl D { fn as_cuda(&self) -> &C { match self { Self::Cuda(d) => d, Self::Metal(_) => bail!(\"a cuda device, not Metal\"), \
            Self::Rocm(_) => bail!(\"a cuda device, not Rocm\"), } } \
            fn as_rocm(&self) -> &C { match self { Self::Rocm(d) => d, Self::Metal(_) => bail!(\"a rocm device, not Metal\"), \
            Self::Cuda(_) => bail!(\"a rocm device, not Cuda\"), } } }",
    );
    assert_eq!(rules, [Rule::ForeignArm, Rule::Function]);
}

#[test]
fn imports_gain_names_or_siblings() {
    assert_eq!(check("use crate::{A, CudaB};", "use crate::{A, CudaB, RocmB};"), [Rule::UseName]);
    assert_eq!(
        check(
            "#[cfg(not(feature = \"cuda\"))] pub use dummy_cuda as cuda;",
            "#[cfg(not(feature = \"cuda\"))] pub use dummy_cuda as cuda; #[cfg(not(feature = \"rocm\"))] pub use dummy_rocm as rocm;",
        ),
        [Rule::UseItem]
    );
}

#[test]
fn a_gated_module_is_matched_by_a_mount_and_a_stand_in_by_a_derived_file() {
    let bench = Bench::new()
        .with("crate/src/lib.rs", "#[cfg(feature = \"cuda\")]\npub mod cuda_backend;\nmod dummy_cuda;\n")
        .with("crate/src/cuda_backend.rs", "pub struct CudaOnly;")
        .with("crate/src/dummy_cuda.rs", "pub struct CudaDevice;")
        .with("overlay/rocm_backend/mod.rs", "");
    let report = bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.mounts[0].overlay, "rocm_backend/mod.rs");
    assert!(bench.read("src/lib.rs").contains("pub mod rocm_backend;"));
    assert_eq!(bench.read("src/dummy_rocm.rs"), "pub struct RocmDevice;");
    assert_eq!(bench.read("src/cuda_backend.rs"), "pub struct CudaOnly;");
}

#[test]
fn a_module_that_the_overlay_lacks_is_named() {
    let bench = Bench::new().with("crate/src/lib.rs", "#[cfg(feature = \"cuda\")]\npub mod cuda_backend;\n");
    let error = bench.graft(&[]).expect_err("nothing to mount");
    assert!(matches!(&error, Error::MissingMount(name) if name == "rocm_backend"), "{error}");
}

const OPERATION: &str =
    "impl Op for SoftMax { #[cfg(feature = \"cuda\")] fn cuda_fwd(&self, s: &CudaStorage) -> R { self.launch(s) } }";

#[test]
fn an_operation_calls_its_hook() {
    let bench = Bench::new().with("crate/src/lib.rs", OPERATION).with("overlay/rocm_ops.rs", "pub fn soft_max() {}");
    let report = bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.hooks[0].signature, "fn rocm_fwd(&self, s: &RocmStorage) -> R");
    assert!(without_space(&bench.read("src/lib.rs")).contains("{rocm_ops::soft_max(self,s)}"));
}

#[test]
fn an_operation_without_a_hook_is_an_error_unless_waived() {
    let bench = Bench::new().with("crate/src/lib.rs", OPERATION);
    let error = bench.graft(&[]).expect_err("no hook").to_string();
    assert!(error.contains("src/lib.rs:1: SoftMax::cuda_fwd has no hook"), "{error}");
    let waiver = Waiver { releases: &["1.0.0"], file: "src/lib.rs", what: "SoftMax::cuda_fwd", why: "a test" };
    let report = bench.graft(&[waiver]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.waivers, ["src/lib.rs: SoftMax::cuda_fwd"]);
}

#[test]
fn a_free_function_is_taken_from_the_overlay() {
    let source = "#[cfg(feature = \"cuda\")] fn gemm() { cuda() }\n#[cfg(not(feature = \"cuda\"))] fn gemm() { bail!(\"cuda only\") }";
    let bench = Bench::new().with("crate/src/lib.rs", source).with("overlay/rocm_ops.rs", "pub fn gemm() {}");
    bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    let text = without_space(&bench.read("src/lib.rs"));
    assert!(text.contains("#[cfg(not(feature=\"rocm\"))]#[cfg(not(feature=\"cuda\"))]fngemm()"), "{text}");
    assert!(text.contains("#[cfg(all(feature=\"rocm\",not(feature=\"cuda\")))]pubuserocm_ops::gemm;"), "{text}");
}

#[test]
fn a_function_on_tensors_branches_into_the_overlay() {
    let source = "pub fn attend(q: &Tensor, scale: f32) -> R { q.apply(scale) }";
    let bench = Bench::new().with("crate/src/lib.rs", source).with("overlay/rocm_ops.rs", "pub fn rocm_attend() {}");
    let report = bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.sites_by_rule()[&Rule::DeviceBranch], 1);
    let text = without_space(&bench.read("src/lib.rs"));
    assert!(text.contains("ifq.device().is_rocm(){returnrocm_ops::rocm_attend(q,scale);}q.apply(scale)"), "{text}");
}

#[test]
fn a_types_own_function_branches_into_the_overlay() {
    let source = "impl Content { fn tensor<R: Read>(&self, name: &str, device: &Device) -> T { read(self, name) } }";
    let hook = "pub fn rocm_content_tensor() {}";
    let bench = Bench::new().with("crate/src/lib.rs", source).with("overlay/rocm_ops.rs", hook);
    let report = bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.sites_by_rule()[&Rule::DeviceBranch], 1);
    let text = without_space(&bench.read("src/lib.rs"));
    let branch = "ifdevice.is_rocm(){returnrocm_ops::rocm_content_tensor(self,name,device);}read(self,name)";
    assert!(text.contains(branch), "{text}");
}

#[test]
fn a_tensors_own_function_branches_by_the_tensors_device() {
    let source = "impl Tensor { pub fn to_vec1<S: WithDType>(&self) -> Result<Vec<S>> { read(self) } }";
    let hook = "pub fn rocm_tensor_to_vec1() {}";
    let bench = Bench::new().with("crate/src/lib.rs", source).with("overlay/rocm_ops.rs", hook);
    bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    let text = without_space(&bench.read("src/lib.rs"));
    assert!(text.contains("ifself.device().is_rocm(){returnrocm_ops::rocm_tensor_to_vec1(self);}read(self)"), "{text}");
}

#[test]
fn a_function_on_several_tensors_branches_by_the_first() {
    let source = "impl Tensor { fn cat<A: AsRef<Tensor>>(args: &[A], dim: usize) -> R { join(args, dim) } }";
    let hook = "pub fn rocm_tensor_cat() {}";
    let bench = Bench::new().with("crate/src/lib.rs", source).with("overlay/rocm_ops.rs", hook);
    bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    let text = without_space(&bench.read("src/lib.rs"));
    let condition = "ifargs.first().is_some_and(|first|first.as_ref().device().is_rocm())";
    assert!(
        text.contains(&format!("{condition}{{returnrocm_ops::rocm_tensor_cat(args,dim);}}join(args,dim)")),
        "{text}"
    );
}

#[test]
fn a_test_may_be_replaced_by_the_overlay() {
    let source = "fn golden(device: &Device) -> R { match device { Device::Cuda(_) => 1, Device::Cpu => 2 } }";
    let bench = Bench::new()
        .with("crate/tests/values.rs", source)
        .with("overlay/tests/values/rocm_ops.rs", "pub fn rocm_golden() {}");
    bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    let text = without_space(&bench.read("tests/values.rs"));
    assert!(text.contains("ifdevice.is_rocm(){returnrocm_ops::rocm_golden(device);}match"), "{text}");
    assert!(text.contains("Device::Rocm(_)=>1"), "{text}");
}

#[test]
fn test_device_learns_rocm() {
    let source = "macro_rules! test_device { ($fn_name: ident, $test_cuda: ident, $test_metal: ident) => {\n\
        #[cfg(feature = \"cuda\")]\n#[test]\nfn $test_cuda() -> R { $fn_name(&D::new_cuda(0)?) }\n\
        #[cfg(feature = \"metal\")]\n#[test]\nfn $test_metal() -> R { $fn_name(&D::new_metal(0)?) } } }\n\
        test_device!(f, f_cuda, f_metal);";
    let bench = Bench::new().with("crate/src/lib.rs", source);
    let report = bench.graft(&[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.sites_by_rule()[&Rule::TestMacro], 1);
    let text = without_space(&bench.read("src/lib.rs"));
    assert!(
        text.contains("mod$test_cuda{usesuper::*;#[test]fnrocm()->R{super::$fn_name(&D::new_rocm(0)?)}}"),
        "{text}"
    );
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
fn a_planted_mention_is_found_and_named() {
    let bench = Bench::new().with("crate/src/lib.rs", "mod a;\n").with(
        "crate/src/a.rs",
        "// cuda in a comment is prose\nfn f() {\n    let x = warm_up_cuda();\n    say(\"CUDA!\");\n}\n",
    );
    let error = bench.graft(&[]).expect_err("two mentions are planted");
    let Error::Unclaimed(mentions) = &error else { panic!("{error}") };
    let places: Vec<_> = mentions.iter().map(|m| format!("{}:{}: {}", m.file, m.line, m.what)).collect();
    assert_eq!(places, ["src/a.rs:3: warm_up_cuda", "src/a.rs:4: \"CUDA!\""]);
    assert!(error.to_string().contains("src/a.rs:3: warm_up_cuda"), "{error}");
}

#[test]
fn a_waiver_must_be_needed_by_the_release_it_was_written_for() {
    let bench = Bench::new().with("crate/src/lib.rs", "fn f() {}");
    let stale = Waiver { releases: &["1.0.0"], file: "src/lib.rs", what: "gone_cuda", why: "a test" };
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
