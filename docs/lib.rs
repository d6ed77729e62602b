//! The Rust blocks of the README and of the book in `src/`: each page is the documentation of a module here, so that
//! `cargo test` compiles its blocks and runs them. The test `docs` of the root package checks that no page is missing.

/// Makes a module of each page.
macro_rules! pages {
    ($($module:ident $path:literal,)*) => {
        $(#[doc = include_str!($path)]
        pub mod $module {})*
    };
}

pages! {
    readme "../README.md",
    introduction "src/introduction.md",
    getting_started "src/getting-started.md",
    your_project "src/your-project.md",
    program "src/program.md",
    quantized_models "src/quantized-models.md",
    fewer_launches "src/fewer-launches.md",
    custom_kernels "src/custom-kernels.md",
    kernels_in_rust "src/kernels-in-rust.md",
    several_gpus "src/several-gpus.md",
    fourier_transforms "src/fourier-transforms.md",
    troubleshooting "src/troubleshooting.md",
    testing "src/testing-without-a-gpu.md",
    quantized_products "src/how-quantized-products-work.md",
    new_release "src/new-candle-release.md",
    new_kernel "src/adding-a-kernel.md",
}
