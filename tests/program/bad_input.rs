//! Bad input: one sentence on standard error, the exit code that `--help` promises, no backtrace, nothing on standard output.

use crate::support::*;
use candle_core::quantized::gguf_file::{self, Value};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

const DEVICE: i32 = 1;
const USAGE: i32 = 2;
const INPUT: i32 = 3;

fn generate(model: &Path) -> std::process::Output {
    run(&["generate", "--model", &model.display().to_string(), "--prompt", "Once", "--max-tokens", "2"])
}

/// A GGUF file with some of the novelist's metadata and none of its tensors.
fn gguf_without_tensors(path: &Path, keep: impl Fn(&str) -> bool, change: &[(&str, Value)]) {
    let mut file = std::fs::File::open(novelist_file()).expect("the asset");
    let mut metadata = gguf_file::Content::read(&mut file).expect("a GGUF file").metadata;
    metadata.retain(|key, _| keep(key));
    metadata.extend(change.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    gguf_file::write(&mut std::fs::File::create(path).expect("a file"), &metadata, &[]).expect("written");
}

#[test]
fn a_model_file_that_cannot_be_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("model.gguf");
    assert_fails(&generate(&file), INPUT, &["model.gguf does not exist"]);

    std::fs::write(&file, "Once upon a time").expect("written");
    assert_fails(&generate(&file), INPUT, &["model.gguf is not a GGUF file"]);

    std::fs::write(&file, "").expect("written");
    assert_fails(&generate(&file), INPUT, &["model.gguf is not a GGUF file"]);

    let whole = std::fs::read(novelist_file()).expect("the asset");
    for length in [10, 1000, 100_000] {
        std::fs::write(&file, &whole[..length]).expect("written");
        assert_fails(&generate(&file), INPUT, &["model.gguf", "truncated"]);
    }
    std::fs::write(&file, &whole[..whole.len() - 1000]).expect("written");
    assert_fails(&generate(&file), INPUT, &["model.gguf is truncated: tensor", "Download it again"]);

    gguf_without_tensors(&file, |_| true, &[("general.architecture", Value::String("mamba9".into()))]);
    assert_fails(&generate(&file), INPUT, &["architecture \"mamba9\"", "llama"]);

    gguf_without_tensors(&file, |key| key != "general.architecture", &[]);
    assert_fails(&generate(&file), INPUT, &["does not say its architecture"]);

    gguf_without_tensors(&file, |key| !key.starts_with("tokenizer."), &[]);
    assert_fails(&generate(&file), INPUT, &["no tokenizer"]);

    gguf_without_tensors(&file, |key| !key.ends_with("ggml.merges"), &[]);
    assert_fails(&generate(&file), INPUT, &["no tokenizer", "merges"]);

    gguf_without_tensors(&file, |_| true, &[]);
    assert_fails(&generate(&file), INPUT, &["cannot be loaded as a llama model", "token_embd"]);

    gguf_without_tensors(&file, |_| true, &[("tokenizer.chat_template", Value::String("{% for %}".into()))]);
    assert_fails(&generate(&file), INPUT, &["chat template of", "model.gguf"]);
}

#[test]
fn a_model_folder_that_cannot_be_used() {
    let empty = tempfile::tempdir().expect("a folder");
    assert_fails(&generate(empty.path()), INPUT, &["no config.json"]);

    let folder = copy_of_novelist();
    let path = |name: &str| folder.path().join(name);
    let config = std::fs::read_to_string(path("config.json")).expect("the asset");
    for (text, words) in [
        ("[]", "no JSON object"),
        ("{", "not JSON"),
        ("{}", "model_type"),
        (r#"{"model_type": "mamba9"}"#, "type \"mamba9\""),
        (r#"{"model_type": "llama"}"#, "does not describe a llama model"),
    ] {
        std::fs::write(path("config.json"), text).expect("written");
        assert_fails(&generate(folder.path()), INPUT, &[words]);
    }
    // What Candle's Llama would unwrap.
    std::fs::write(path("config.json"), config.replace("\"intermediate_size\": 768", "\"intermediate_size\": 700"))
        .expect("written");
    assert_fails(&generate(folder.path()), INPUT, &["cannot be loaded as a llama model", "shape"]);
    std::fs::write(path("config.json"), config.replace("\"num_hidden_layers\": 8", "\"num_hidden_layers\": 9"))
        .expect("written");
    assert_fails(&generate(folder.path()), INPUT, &["cannot be loaded as a llama model", "layers.8"]);
    std::fs::write(path("config.json"), config).expect("written");

    let index = path("model.safetensors.index.json");
    std::fs::write(&index, r#"{"weight_map": {"a": "model-00001-of-00002.safetensors"}}"#).expect("written");
    assert_fails(&generate(folder.path()), INPUT, &["model-00001-of-00002.safetensors is missing"]);
    std::fs::remove_file(&index).expect("removed");

    let weights = std::fs::read(path("model.safetensors")).expect("the asset");
    std::fs::write(path("model.safetensors"), &weights[..weights.len() / 2]).expect("written");
    assert_fails(&generate(folder.path()), INPUT, &["safetensors"]);

    std::fs::remove_file(path("model.safetensors")).expect("removed");
    assert_fails(&generate(folder.path()), INPUT, &["no safetensors files"]);

    std::fs::write(path("tokenizer.json"), "{}").expect("written");
    assert_fails(&generate(folder.path()), INPUT, &["tokenizer.json of"]);
    std::fs::remove_file(path("tokenizer.json")).expect("removed");
    assert_fails(&generate(folder.path()), INPUT, &["no tokenizer.json"]);
}

#[test]
fn a_prompt_that_does_not_fit() {
    let long = "and then ".repeat(600);
    assert_fails(&run(&["-q", "generate", "--prompt", &long]), USAGE, &["context holds 512", "shorten it"]);
}

#[test]
fn a_device_that_is_not_there() {
    assert_fails(&run(&["generate", "--device", "rocm:7", "--prompt", "Once"]), DEVICE, &["7"]);
    let output = run(&["generate", "--device", "gpu", "--prompt", "Once"]);
    assert_eq!(output.status.code(), Some(USAGE));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no device \"gpu\""));
}

#[test]
fn options_that_make_no_sense() {
    for (option, value) in [
        ("--temperature", "-1"),
        ("--temperature", "nan"),
        ("--top-p", "2"),
        ("--top-k", "0"),
        ("--repeat-penalty", "0"),
    ] {
        assert_fails(&run(&["generate", &format!("{option}={value}")]), USAGE, &[option]);
    }
    assert_eq!(run(&["generate", "--chat", "--json"]).status.code(), Some(USAGE));
    assert_eq!(run(&["sing"]).status.code(), Some(USAGE));
}

#[test]
fn text_that_is_not_utf8() {
    let output =
        program().args(["generate", "--prompt"]).arg(OsStr::from_bytes(b"Once \xff")).output().expect("it starts");
    assert_fails(&output, USAGE, &["not text in UTF-8"]);
    let output = run_with_input(&["generate", "--prompt", "-"], b"Once \xff upon");
    assert_fails(&output, INPUT, &["standard input", "byte 5"]);
    let output = run_with_input(&["-q", "generate", "--chat"], b"Once \xff upon\n");
    assert_fails(&output, INPUT, &["standard input", "byte 5"]);
    let output = run_with_input(&["embed", "--model", "nowhere"], b"\xff");
    assert_fails(&output, INPUT, &["standard input", "byte 0"]);
}

#[test]
fn a_reader_that_is_gone_is_no_failure() {
    let mut child = program()
        .args(["generate", "--prompt", "First line\nand then", "--max-tokens", "400"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, "First line\n");
    let mut errors = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut errors).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{errors}");
    assert!(errors.contains("the reader is gone"), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
}

#[test]
fn results_nobody_reads_are_no_failure() {
    for arguments in
        [&["info"][..], &["info", "--json"], &["completions", "bash"], &["generate", "--json", "--max-tokens", "1"]]
    {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = program().args(arguments).stdout(writer).output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
    }
}
