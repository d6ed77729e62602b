//! `generate`: the same text from every kind of file and on every device, options that do what they say, and conversations.

use crate::support::*;
use std::collections::HashMap;
use std::path::Path;

const PROMPT: &str = "My dear Holmes,";
/// What the likeliest tokens make of it.
const CONTINUATION: &str = " I am sure you will be very happy to do";

fn greedy(arguments: &[&str]) -> String {
    let mut all = vec!["generate", "--json", "--temperature", "0", "--repeat-penalty", "1", "--max-tokens", "12"];
    all.extend(arguments);
    json(run(&all))["text"].as_str().expect("a text").to_owned()
}

#[test]
fn the_novelist_continues_alike_from_every_file_on_every_device() {
    let (file, folder) = (novelist_file().display().to_string(), novelist_folder().display().to_string());
    for device in ["cpu", "rocm"] {
        for model in [&[][..], &["--model", &file], &["--model", &folder]] {
            let text = greedy(&[&["--device", device, "--prompt", PROMPT], model].concat());
            assert!(text.starts_with(CONTINUATION), "{model:?} on {device}: {text:?}");
        }
    }
}

#[test]
fn a_folder_may_say_that_a_text_starts_with_no_token() {
    let folder = copy_of_novelist();
    std::fs::write(folder.path().join("tokenizer_config.json"), r#"{"add_bos_token": false}"#).expect("written");
    let model = folder.path().display().to_string();
    let text = greedy(&["--device", "cpu", "--model", &model, "--prompt", " My dear Holmes,"]);
    // Recorded when the model was trained.
    assert!(text.starts_with(" and I have a very good opinion of him."), "{text:?}");
}

#[test]
fn weights_in_several_files_are_one_model() {
    let folder = copy_of_novelist();
    let whole = folder.path().join("model.safetensors");
    let tensors = candle_core::safetensors::load(&whole, &candle_core::Device::Cpu).expect("the asset");
    std::fs::remove_file(whole).expect("removed");
    let mut shards: [HashMap<String, candle_core::Tensor>; 2] = Default::default();
    let mut map = serde_json::Map::new();
    let name = |shard: usize| format!("model-0000{}-of-00002.safetensors", shard + 1);
    for (index, (key, tensor)) in tensors.into_iter().enumerate() {
        map.insert(key.clone(), name(index % 2).into());
        shards[index % 2].insert(key, tensor);
    }
    for (index, shard) in shards.iter().enumerate() {
        candle_core::safetensors::save(shard, folder.path().join(name(index))).expect("saved");
    }
    let index = serde_json::json!({ "weight_map": map }).to_string();
    std::fs::write(folder.path().join("model.safetensors.index.json"), index).expect("saved");
    let text = greedy(&["--device", "cpu", "--model", &folder.path().display().to_string(), "--prompt", PROMPT]);
    assert!(text.starts_with(CONTINUATION), "{text:?}");
}

#[test]
fn options_choose_the_tokens() {
    let with = |options: &[&str]| -> String {
        let all = [&["generate", "--json", "--max-tokens", "12", "--prompt", PROMPT][..], options];
        json(run(&all.concat()))["text"].as_str().expect("a text").to_owned()
    };
    let plain = ["--repeat-penalty", "1"];
    assert_eq!(with(&["--seed", "7"]), with(&["--seed", "7"]), "a seed gives one text");
    assert_ne!(with(&["--seed", "7"]), with(&["--seed", "8"]), "another seed gives another");
    let likeliest = with(&[&plain[..], &["--temperature", "0"]].concat());
    assert!(likeliest.starts_with(CONTINUATION), "{likeliest:?}");
    assert_eq!(with(&[&plain[..], &["--top-k", "1"]].concat()), likeliest, "one token to choose from");
    assert_eq!(with(&[&plain[..], &["--top-p", "0.0001"]].concat()), likeliest, "hardly any probability");
    assert_ne!(with(&["--repeat-penalty", "5", "--temperature", "0"]), likeliest, "repetition costs");
}

#[test]
fn json_says_what_was_made_and_how_fast() {
    let report = json(run(&["generate", "--json", "--prompt", PROMPT, "--max-tokens", "3", "--temperature", "0"]));
    assert_eq!((&report["end"], &report["tokens"]), (&"length".into(), &3.into()));
    assert_eq!(report["prompt"], PROMPT);
    assert!(report["prompt_tokens"].as_u64().is_some_and(|count| (4..12).contains(&count)), "{report}");
    for rate in ["tokens_per_second", "prompt_tokens_per_second"] {
        assert!(report[rate].as_f64().is_some_and(|rate| rate > 0.0), "{report}");
    }
    let none = json(run(&["generate", "--json", "--prompt", PROMPT, "--max-tokens", "0"]));
    assert_eq!((&none["tokens"], &none["text"]), (&0.into(), &"".into()));
}

#[test]
fn a_prompt_may_come_from_standard_input() {
    let arguments = ["generate", "--prompt", "-", "--temperature", "0", "--repeat-penalty", "1", "--max-tokens", "12"];
    let text = printed(run_with_input(&arguments, b"My dear Holmes,\n"));
    assert!(text.starts_with(&format!("{PROMPT}{CONTINUATION}")), "{text:?}");
}

#[test]
fn the_context_ends_a_text() {
    let report = json(run(&["generate", "--json", "--prompt", PROMPT, "--max-tokens", "600"]));
    // Unless the model ends it first, the context of 512 tokens does.
    let total = report["prompt_tokens"].as_u64().unwrap_or(0) + report["tokens"].as_u64().unwrap_or(0);
    match report["end"].as_str() {
        Some("context") => assert_eq!(total, 512),
        other => assert_eq!(other, Some("model")),
    }
}

fn chat(model: &Path, lines: &str, more: &[&str]) -> (Vec<String>, String) {
    let model = model.display().to_string();
    let mut all = vec!["generate", "--chat", "--temperature", "0", "--max-tokens", "10", "--model", &model];
    all.extend(more);
    let output = run_with_input(&all, lines.as_bytes());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (printed(output).lines().map(str::to_owned).collect(), errors)
}

#[test]
fn a_conversation_without_a_template_is_seen_whole_at_every_turn() {
    let (replies, notes) = chat(&novelist_file(), "Good day.\n\nWho are you?\n/exit\nnever read\n", &[]);
    assert_eq!(replies.len(), 2, "{replies:?}");
    assert!(notes.contains("no chat template"), "{notes}");
    // The second reply is what the model says to both turns at once, though the first was not computed again.
    let prompt = format!("User: Good day.\nAssistant: {}\nUser: Who are you?\nAssistant:", replies[0]);
    let file = novelist_file().display().to_string();
    let whole = json(run(&[
        "generate",
        "--json",
        "--temperature",
        "0",
        "--max-tokens",
        "10",
        "--model",
        &file,
        "--prompt",
        &prompt,
    ]));
    assert!(whole["text"].as_str().expect("a text").trim_start().starts_with(&replies[1]), "{whole} {replies:?}");
    let counts: Vec<u64> =
        notes.lines().filter_map(|line| line.strip_prefix("prompt: ")?.split(' ').next()?.parse().ok()).collect();
    assert_eq!(counts.len(), 2, "{notes}");
    assert!(whole["prompt_tokens"].as_u64() > Some(counts[1]), "the first turn was computed again: {notes}");
}

#[test]
fn a_conversation_follows_the_models_template() {
    let folder = copy_of_novelist();
    // A template that leaves a recognisable prompt: everything that was said, and nothing else.
    let template = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}";
    let config = serde_json::json!({ "bos_token": "<s>", "chat_template": template }).to_string();
    std::fs::write(folder.path().join("tokenizer_config.json"), config).expect("written");
    let (replies, notes) =
        chat(folder.path(), "dear Holmes,\n", &["--device", "cpu", "--system", "My ", "--repeat-penalty", "1"]);
    assert_eq!(replies.len(), 1);
    assert!(
        CONTINUATION.trim().starts_with(replies[0].trim()) || replies[0].starts_with(CONTINUATION.trim()),
        "{replies:?}"
    );
    assert!(!notes.contains("no chat template"), "{notes}");
}

#[test]
fn a_conversation_can_be_forgotten_and_outgrow_the_context() {
    let (replies, _) = chat(&novelist_file(), "Good day.\n/reset\nGood day.\n", &[]);
    assert_eq!(replies.len(), 2, "{replies:?}");
    assert_eq!(replies[0], replies[1], "/reset starts anew");
    let long = format!("{}\n", "and then ".repeat(80)).repeat(4);
    let (replies, notes) = chat(&novelist_file(), &long, &[]);
    assert_eq!(replies.len(), 4, "{replies:?}");
    assert!(notes.contains("forgotten"), "{notes}");
}
