//! Running the program, models small enough to be written by a test, and what a failure must look like.

use candle_core::{DType, Device, Tensor};
use serde_json::Value;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The dense model of the assets, in Hugging Face's layout.
pub fn novelist_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/novelist-7m")
}

/// The quantized model of the assets.
pub fn novelist_file() -> PathBuf {
    novelist_folder().join("novelist-7m.Q8_0.gguf")
}

/// The program on the embedded device, with nothing from the environment that changes what it says.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candle-rocm"));
    for name in ["NO_COLOR", "RUST_LOG", "HIP_HOST_DEVICES", "HF_ENDPOINT", "TERM"] {
        command.env_remove(name);
    }
    // A failure must be a sentence even for those who ask for backtraces everywhere.
    command.env("CANDLE_ROCM_PLATFORM", "host").env("RUST_BACKTRACE", "1");
    command
}

/// Runs it with these arguments.
pub fn run(arguments: &[&str]) -> Output {
    program().args(arguments).stdin(Stdio::null()).output().expect("the program starts")
}

/// Runs it with these arguments and this standard input.
pub fn run_with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = program();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // Who fails before reading closes the pipe, which is for the caller to judge.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("the program ends")
}

/// Standard output of a run that succeeded.
pub fn printed(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Standard output of a run that succeeded, as JSON.
pub fn json(output: Output) -> Value {
    serde_json::from_str(&printed(output)).expect("JSON")
}

/// Asserts that a run failed with that exit code and one sentence, which has these words.
pub fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert_eq!(errors.trim_end().lines().count(), 1, "more than one sentence:\n{errors}");
    assert!(errors.starts_with("candle-rocm: "), "{errors}");
    for word in words {
        assert!(errors.contains(word), "{word:?} is not in {errors:?}");
    }
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// A copy of the dense model, to be spoilt.
pub fn copy_of_novelist() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::copy(novelist_folder().join(name), folder.path().join(name)).expect("a copy");
    }
    folder
}

/// Weights with the same numbers in every run.
pub struct Weights {
    tensors: HashMap<String, Tensor>,
    state: u64,
}

impl Weights {
    pub fn new() -> Self {
        Self { tensors: HashMap::new(), state: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Numbers around zero.
    pub fn random(&mut self, name: &str, shape: &[usize]) {
        let count: usize = shape.iter().product();
        let mut next = || {
            // xorshift64
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            (self.state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        let numbers: Vec<f32> = (0..count).map(|_| next()).collect();
        self.tensors.insert(name.to_owned(), Tensor::from_vec(numbers, shape, &Device::Cpu).expect("a tensor"));
    }

    /// A linear layer's.
    pub fn linear(&mut self, name: &str, outputs: usize, inputs: usize) {
        self.random(&format!("{name}.weight"), &[outputs, inputs]);
        self.random(&format!("{name}.bias"), &[outputs]);
    }

    /// A norm's that changes nothing.
    pub fn norm(&mut self, name: &str, size: usize) {
        let fill = |value: f64| Tensor::full(value as f32, size, &Device::Cpu).expect("a tensor");
        self.tensors.insert(format!("{name}.weight"), fill(1.0));
        self.tensors.insert(format!("{name}.bias"), fill(0.0));
    }

    pub fn save(&self, folder: &Path) {
        assert!(self.tensors.values().all(|tensor| tensor.dtype() == DType::F32));
        candle_core::safetensors::save(&self.tensors, folder.join("model.safetensors")).expect("saved");
    }
}

/// A tokenizer.json with one token for each word of a text, and these special tokens behind.
pub fn word_tokenizer(words: &[&str], special: &[&str], folder: &Path) {
    let vocabulary: serde_json::Map<String, Value> =
        words.iter().zip(0..).map(|(word, id)| ((*word).to_owned(), Value::from(id))).collect();
    let added: Vec<Value> = special
        .iter()
        .zip(words.len()..)
        .map(|(word, id)| {
            serde_json::json!({ "id": id, "content": word, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true })
        })
        .collect();
    let tokenizer = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": { "type": "Whitespace" }, "post_processor": null, "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": words[0] },
    });
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).expect("saved");
}
