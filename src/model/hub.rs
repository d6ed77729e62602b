//! Models by their name at Hugging Face, through the cache that all of its tools share. Where there is no network, what the
//! cache holds still works, and for the rest a sentence says what to do.

use super::{Files, Folder};
use crate::failure::{Failure, Result};
use crate::terminal;
use hf_hub::api::sync::{ApiBuilder, ApiError};
use std::path::PathBuf;

/// Files that not every model has.
const OPTIONAL: &[&str] =
    &["tokenizer_config.json", "chat_template.jinja", "generation_config.json", "1_Pooling/config.json"];
const INDEX: &str = "model.safetensors.index.json";

/// `org/name`, or one GGUF file of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Name {
    repository: String,
    file: Option<String>,
}

impl Name {
    /// `org/name` or `org/name/file.gguf`; none for what can only be a path.
    pub fn parse(text: &str) -> Option<Self> {
        let is_word = |word: &&str| {
            word.starts_with(|first: char| first.is_ascii_alphanumeric())
                && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
        };
        let words: Vec<&str> = text.split('/').collect();
        let is_file = text.ends_with(".gguf");
        if !words.iter().all(is_word) || words.len() < 2 || is_file != (words.len() > 2) {
            return None;
        }
        Some(Self { repository: words[..2].join("/"), file: is_file.then(|| words[2..].join("/")) })
    }

    /// The model's files, downloaded unless they are in the cache.
    pub fn fetch(&self) -> Result<Files> {
        let api = ApiBuilder::from_env().with_progress(terminal::is_interactive()).build();
        let repository = api.map_err(|error| self.refuse(&error))?.model(self.repository.clone());
        let get = |file: &str| repository.get(file).map_err(|error| self.refuse(&error));
        if let Some(file) = &self.file {
            return get(file).map(Files::Gguf);
        }
        let config = get("config.json")?;
        get("tokenizer.json")?;
        // Without a network nobody can say whether a file that the cache lacks exists; the weights below settle it.
        let get_optional = |file: &str| repository.get(file).ok();
        OPTIONAL.iter().for_each(|file| drop(get_optional(file)));
        let weights = match get_optional(INDEX) {
            Some(index) => super::folder::shards(&index)?,
            None => ["model.safetensors".to_owned()].into(),
        };
        for file in &weights {
            get(file)?;
        }
        let folder = config.parent().map(PathBuf::from).unwrap_or_default();
        Ok(Files::Folder(Folder::named(&folder, &self.repository)))
    }

    fn refuse(&self, error: &ApiError) -> Failure {
        let name = &self.repository;
        if is_missing(error) {
            return Failure::input(format!(
                "{name} is neither a file or folder here nor a model at Hugging Face with the files this program reads ({error})"
            ));
        }
        Failure::input(format!(
            "{name} is no file or folder here, and Hugging Face does not answer ({error}): download it where there is a network \
             (hf download {name}) and give its folder to --model"
        ))
    }
}

/// Whether the answer was that there is no such file, or none for us.
fn is_missing(error: &ApiError) -> bool {
    // The crate that this error comes from is not one of ours, so its text has to do: "http status: 404".
    let text = error.to_string();
    ["401", "403", "404"].iter().any(|status| text.ends_with(&format!("status: {status}")))
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn names_at_hugging_face_and_what_can_only_be_a_path() {
        let name = |repository: &str, file: Option<&str>| {
            Some(Name { repository: repository.to_owned(), file: file.map(str::to_owned) })
        };
        assert_eq!(Name::parse("Qwen/Qwen3-0.6B"), name("Qwen/Qwen3-0.6B", None));
        assert_eq!(Name::parse("org/some-GGUF/some.Q4_0.gguf"), name("org/some-GGUF", Some("some.Q4_0.gguf")));
        for path in ["model.gguf", "models/model.gguf", "./a/b", "/a/b", "a/b/c", "../b", "a//b", "~/b", "", "model"] {
            assert_eq!(Name::parse(path), None, "{path}");
        }
    }
}
