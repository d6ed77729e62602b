//! What `--model` names and how its files are found and read: a GGUF file, a folder in Hugging Face's layout, or a name at
//! Hugging Face. Which network the files hold is the commands' business.

mod folder;
mod hub;

pub use folder::{fill, Folder};

use crate::failure::{Failure, Result};
use std::path::{Path, PathBuf};

/// The files of a model, on this machine.
pub enum Files {
    /// One GGUF file.
    Gguf(PathBuf),
    /// A folder with config.json, tokenizer.json and safetensors files.
    Folder(Folder),
}

/// Finds what `--model` names; a name at Hugging Face is downloaded.
pub fn find(name: &str) -> Result<Files> {
    let path = Path::new(name);
    if path.is_dir() {
        return Ok(Files::Folder(Folder::new(path)));
    }
    if path.exists() {
        return Ok(Files::Gguf(path.to_owned()));
    }
    match hub::Name::parse(name) {
        Some(name) => name.fetch(),
        None => Err(Failure::input(format!(
            "{name} does not exist: give a GGUF file, a folder with config.json, tokenizer.json and safetensors files, or org/name at Hugging Face"
        ))),
    }
}

/// Finds the folder that `--model` names, for a command that reads nothing else.
pub fn find_folder(name: &str) -> Result<Folder> {
    match find(name)? {
        Files::Folder(folder) => Ok(folder),
        Files::Gguf(file) => Err(Failure::input(format!(
            "{} is a file: this command wants a folder with config.json, tokenizer.json and safetensors files",
            file.display()
        ))),
    }
}
