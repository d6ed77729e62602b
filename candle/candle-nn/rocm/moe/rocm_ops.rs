pub fn moe_gemm() {}
pub fn moe_gemm_gguf() {}
