//! One case per thing the scanner must see, or must not.

use super::*;

fn run(source: &str) -> Scanned {
    scan(source, Rules { gcc: true, by_reference: false, header_folder: "headers" })
}

fn names(source: &str) -> Vec<String> {
    run(source).kernels.into_iter().map(|kernel| kernel.name).collect()
}

#[test]
fn plain_kernels_are_found_and_become_inline() {
    let scanned = run("extern \"C\" __global__ void f(int n) { }\n__global__ void g() { }");
    assert_eq!(scanned.text, "extern \"C\" inline void f(int n) { }\ninline void g() { }");
    assert_eq!(names("extern \"C\" __global__ void f(int n) { }\n__global__ void g() { }"), ["f", "g"]);
}

#[test]
fn attributes_and_specifiers_stand_anywhere() {
    let source = "__attribute__((noinline)) __global__ void __attribute__((amdgpu_waves_per_eu(1, 2))) f(int) {}\n\
                  static __global__ void g() {} __global__ static void h() {}\n\
                  inline __global__ void i() {} [[gnu::cold]] __global__ void j() {}\n\
                  __global__ void __attribute__((x)) k() noexcept {}";
    let scanned = run(source);
    assert_eq!(names(source), ["f", "g", "h", "i", "j", "k"]);
    assert!(scanned.text.contains("inline  void i()"), "{}", scanned.text);
    assert!(scanned.text.contains("inline static void h()"), "{}", scanned.text);
}

#[test]
fn namespaces_qualify_and_linkage_does_not() {
    let source = "namespace a { namespace b::c { __global__ void f() {} } namespace { __global__ void g() {} } \
                  inline namespace v1 { extern \"C\" __global__ void h() {} } } \
                  extern \"C\" { __global__ void i() {} } __global__ void j() {}";
    let kernels = run(source).kernels;
    let pairs: Vec<_> = kernels.iter().map(|k| (k.name.as_str(), k.path.as_str())).collect();
    assert_eq!(
        pairs,
        [("a::b::c::f", "::a::b::c::f"), ("a::g", "::a::g"), ("h", "::a::v1::h"), ("i", "::i"), ("j", "::j")]
    );
}

#[test]
fn declarations_count_once_and_only_with_a_definition() {
    assert_eq!(names("__global__ void f(int); __global__ void f(int); __global__ void f(int n) {}"), ["f"]);
    assert_eq!(names("__global__ void f(int);"), Vec::<String>::new());
    assert_eq!(names("__global__ void f(int) {} __global__ void f(float) {}"), Vec::<String>::new());
}

#[test]
fn templates_are_left_to_name_expressions() {
    let source = "template <typename T, int N = (3 > 2)> __global__ void f(T *x) {}\n\
                  template <> __global__ void f<float, 1>(float *x) {}\n\
                  template __global__ void f<int, 1>(int *);\n__global__ void g() {}";
    let scanned = run(source);
    assert_eq!(scanned.kernels.len(), 1);
    assert!(scanned.text.contains("template  void f<int, 1>"), "{}", scanned.text);
    assert!(scanned.text.contains("template <> inline void f<float, 1>"), "{}", scanned.text);
}

#[test]
fn classes_initialisers_and_literals_do_not_confuse() {
    let source =
        "struct alignas(16) A { int x; void f() { __shared__ int s[2]; } A() : x(1) {} private: int y = 3; };\n\
                  enum class E : int { a, b }; const int table[] = { 1, 2 }; int brace{3};\n\
                  const char *text = \"__global__ void no() {}\"; auto lambda = [](int x) { return x; };\n\
                  bool operator==(A a, A b) { return true; } struct A make(int a = 3) { return {}; }\n\
                  __global__ void f(A a = {}, int n = (1, 2)) { if (n) { } }\n__global__ void g() {}";
    assert_eq!(names(source), ["f", "g"]);
    assert!(run(source).text.contains("static thread_local int s[2]"));
}

#[test]
fn static_shared_memory_is_thread_local() {
    let text = run("__global__ void f() { __shared__ float a[4]; static __shared__ int b; float __shared__ c; }").text;
    assert_eq!(
        text,
        "inline void f() { static thread_local float a[4]; static thread_local int b; float static thread_local c; }"
    );
}

#[test]
fn dynamic_shared_memory_is_a_reference_to_the_block_s() {
    let text =
        run("void f() {\n extern __shared__ __attribute__((aligned(16))) unsigned\n char s[];\n s[0] = 1; }").text;
    assert_eq!(
        text,
        "void f() {\n unsigned char (&s)[ ] = *reinterpret_cast<unsigned char (*)[ ]>(hip_host::dynamic_shared)\n;\n s[0] = 1; }"
    );
    let text = run("template <class T> void f() { extern __shared__ T s[][8]; }").text;
    assert!(text.contains("T (&s)[ ] [ 8 ] = *reinterpret_cast<T (*)[ ] [ 8 ]>(hip_host::dynamic_shared);"), "{text}");
}

#[test]
fn dynamic_shared_memory_of_a_namespace_is_declared_where_it_is_used() {
    let source = "extern __shared__ float s[];\nvoid f(int s) { int t = s; }\nvoid g() { int t; }";
    assert_eq!(run(source).text, source.replace("extern __shared__ float s[]", ""));
    let text = run("extern __shared__ float s[];\nvoid g() { s[1] = 2; }").text;
    assert!(text.ends_with("(hip_host::dynamic_shared); { s[1] = 2; }}"), "{text}");
}

#[test]
fn large_parameters_are_wrapped_where_they_may_be_structs() {
    let rules = Rules { gcc: true, by_reference: true, header_folder: "headers" };
    let text = scan(
        "__global__ void f(const float *x, Layout a, const ns::Pair<int, 2> b = {1, 2}, unsigned int, unsigned n, T c[3], S) {}",
        rules,
    )
    .text;
    assert_eq!(
        text,
        "inline void f(const float *x, hip_host::Parameter<Layout> a, hip_host::Parameter<const ns::Pair<int, 2>> b = \
         {1, 2}, unsigned int, hip_host::Parameter<unsigned> n, T c[3], S) {}"
    );
    assert!(!scan("template <class T> __global__ void f(A<T> a) {}", rules).text.contains("Parameter"));
}

#[test]
fn pragmas_and_line_markers_are_translated() {
    let text = run("# 1 \"headers/a/b.h\" 1\n#pragma unroll\n#pragma unroll 4\n#pragma unroll N\n#pragma nounroll\n# 3 \"x.hip\"\n").text;
    assert_eq!(
        text,
        "# 1 \"a/b.h\" 1\n#pragma GCC unroll 16\n#pragma GCC unroll 4\n\n#pragma GCC unroll 1\n# 3 \"x.hip\"\n"
    );
}

#[test]
fn the_number_of_lines_never_changes() {
    let source = "extern __shared__\n float\n s[];\n__global__\nvoid\nf(\nint n)\n{\n extern\n __shared__ int\n t[]; s[0] = 1;\n}\n";
    assert_eq!(run(source).text.lines().count(), source.lines().count());
}

#[test]
fn broken_text_is_survived() {
    for source in [
        "}",
        "{",
        "__global__",
        "__global__ void f(",
        "extern __shared__ ;",
        "template <",
        "void f() { __shared__",
        "extern __shared__ int",
        "\"",
        "(",
        "namespace {",
        "__global__ void (",
        "struct { ; }",
    ] {
        run(source);
    }
}

#[test]
fn device_variables_are_visible_and_the_word_goes_elsewhere() {
    let visible = "__attribute__((visibility(\"default\"), unused))";
    for (source, expected) in [
        ("__device__ int a;", format!("{visible} int a;")),
        ("__device__ float t[2] = { f(1), 2 };", format!("{visible} float t[2] = {{ f(1), 2 }};")),
        ("namespace n { static __device__ int b{3}; }", format!("namespace n {{ static {visible} int b{{3}}; }}")),
        ("__device__ int f(int x) { return x; }", " int f(int x) { return x; }".to_owned()),
        ("__device__ int f(int x);", " int f(int x);".to_owned()),
        ("__device__ bool operator==(A, A);", " bool operator==(A, A);".to_owned()),
        ("auto f = [] __device__ (int x) { return x; };", "auto f = []  (int x) { return x; };".to_owned()),
        ("struct S { __device__ S() : x(1) {} int x; };", "struct S {  S() : x(1) {} int x; };".to_owned()),
    ] {
        assert_eq!(run(source).text, expected);
    }
}

/// Whatever the text, nothing breaks and no line is lost.
#[test]
fn any_sequence_of_tokens_is_survived() {
    let pieces = [
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "<",
        ">",
        ";",
        ",",
        "=",
        ":",
        "::",
        "\n",
        "\"a\"",
        "'b'",
        "1",
        "x",
        "template",
        "struct",
        "namespace",
        "extern",
        "\"C\"",
        "__global__",
        "__device__",
        "__shared__",
        "void",
        "f",
        "static",
        "inline",
        "operator",
        "\n#pragma unroll\n",
        "\n# 1 \"headers/x.h\"\n",
        "alignas",
        "__attribute__",
        "R\"(",
        "enum",
        "&",
        "*",
        "...",
    ];
    let mut state = 1u64;
    for _ in 0..3000 {
        let mut source = String::new();
        for _ in 0..40 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            source.push_str(pieces[(state >> 33) as usize % pieces.len()]);
            source.push(' ');
        }
        for by_reference in [false, true] {
            let scanned = scan(&source, Rules { gcc: true, by_reference, header_folder: "headers" });
            assert_eq!(scanned.text.matches('\n').count(), source.matches('\n').count(), "{source}");
        }
    }
}
