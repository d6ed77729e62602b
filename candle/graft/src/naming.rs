//! How a CUDA name becomes a ROCm name. There is one table, used for identifiers, file names, feature names and
//! messages alike, so that `cuda_fwd`, `CudaStorage` and "CUDA support" can never be renamed differently.

/// The ROCm name of a piece of source text that speaks of CUDA.
pub fn renamed(text: &str) -> String {
    text.replace("CUDA", "ROCM").replace("Cuda", "Rocm").replace("cuda", "rocm")
}

/// Whether a name or a message speaks of CUDA. `cudarc`, `cudnn` and the like count only where they spell out "cuda".
pub fn mentions_cuda(text: &str) -> bool {
    text.to_ascii_lowercase().contains("cuda")
}

/// `RotaryEmbThd` -> `rotary_emb_thd`: the hook that stands for a type's operation.
pub fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for (index, letter) in name.char_indices() {
        if letter.is_uppercase() && index > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_cuda_has_one_spelling_of_rocm() {
        assert_eq!(renamed("QCudaStorage::new_cuda(CUDA)"), "QRocmStorage::new_rocm(ROCM)");
        assert!(mentions_cuda("as_cuda_device") && mentions_cuda("CudaSlice") && !mentions_cuda("cudnn"));
    }

    #[test]
    fn a_type_name_becomes_a_hook_name() {
        assert_eq!(snake_case("RotaryEmbThd"), "rotary_emb_thd");
        assert_eq!(snake_case("Sigmoid"), "sigmoid");
    }
}
