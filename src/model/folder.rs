//! A model in Hugging Face's layout: config.json, tokenizer.json, and weights in one or more safetensors files, read straight from
//! the files as a network asks for them.

use crate::failure::{Failure, Result};
use crate::terminal::Bar;
use candle_core::safetensors::MmapedSafetensors;
use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokenizers::Tokenizer;

/// A folder and what to call it in sentences.
pub struct Folder {
    path: PathBuf,
    /// Its name in errors.
    pub name: String,
}

impl Folder {
    /// A folder named by its path.
    pub fn new(path: &Path) -> Self {
        Self::named(path, &path.display().to_string())
    }

    /// A folder that a person knows by another name.
    pub fn named(path: &Path, name: &str) -> Self {
        Self { path: path.to_owned(), name: name.to_owned() }
    }

    /// The text of a file; none where it does not exist.
    pub fn text(&self, file: &str) -> Result<Option<String>> {
        match std::fs::read_to_string(self.path.join(file)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::input(format!("{file} of {} cannot be read: {error}", self.name))),
        }
    }

    /// A file of JSON; null where it does not exist.
    pub fn json(&self, file: &str) -> Result<Value> {
        let Some(text) = self.text(file)? else { return Ok(Value::Null) };
        serde_json::from_str(&text)
            .map_err(|error| Failure::input(format!("{file} of {} is not JSON: {error}", self.name)))
    }

    /// config.json.
    pub fn config(&self) -> Result<Value> {
        match self.json("config.json")? {
            Value::Null => Err(Failure::input(format!(
                "{} has no config.json: give a folder in Hugging Face's layout, or a GGUF file",
                self.name
            ))),
            config if config.is_object() => Ok(config),
            _ => Err(Failure::input(format!("config.json of {} is no JSON object", self.name))),
        }
    }

    /// tokenizer.json.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        let path = self.path.join("tokenizer.json");
        if !path.exists() {
            return Err(Failure::input(format!(
                "{} has no tokenizer.json: put the one that belongs to the model beside its config.json",
                self.name
            )));
        }
        Tokenizer::from_file(path)
            .map_err(|error| Failure::input(format!("tokenizer.json of {} cannot be used: {error}", self.name)))
    }

    /// Makes a network of the weights; `make` asks for tensors one by one while a bar shows how far it is.
    pub fn load<T>(
        &self,
        what: &str,
        dtype: DType,
        device: &Device,
        make: impl FnOnce(VarBuilder<'static>) -> candle_core::Result<T>,
    ) -> Result<T> {
        let files = self.weight_files()?;
        let bytes = files.iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        // SAFETY: the mapping is private to this process and only read; like every program that maps weights, this one counts on
        // nobody truncating the files while they load.
        let tensors = unsafe { MmapedSafetensors::multi(&files) }
            .map_err(|error| Failure::loading(&self.name, "safetensors", &error))?;
        let failure = Arc::new(Mutex::new(None));
        let weights = Weights { tensors, bar: Mutex::new(Bar::new("loading", bytes)), failure: failure.clone() };
        let builder = VarBuilder::from_backend(Box::new(weights), dtype, device.clone());
        // Some of Candle's models unwrap the error of a tensor that is missing or has another shape. That error is kept aside.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| make(builder)));
        std::panic::set_hook(hook);
        match made {
            Ok(made) => made.map_err(|error| Failure::loading(&self.name, what, &error)),
            Err(_) => Err(failure.lock().ok().and_then(|mut failure| failure.take()).map_or_else(
                || Failure::input(format!("{} cannot be loaded as a {what} model", self.name)),
                |error| Failure::loading(&self.name, what, &error),
            )),
        }
    }

    /// The safetensors files: those the index names, or all there are.
    fn weight_files(&self) -> Result<Vec<PathBuf>> {
        let index = self.path.join("model.safetensors.index.json");
        let names: Vec<String> = if index.exists() {
            shards(&index)?.into_iter().collect()
        } else {
            let listed = std::fs::read_dir(&self.path)
                .map_err(|error| Failure::input(format!("{} cannot be read: {error}", self.name)))?;
            let names = listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            names.filter(|name| name.ends_with(".safetensors")).collect()
        };
        if names.is_empty() {
            return Err(Failure::input(format!("{} has no safetensors files", self.name)));
        }
        let files: Vec<PathBuf> = names.iter().map(|name| self.path.join(name)).collect();
        match files.iter().position(|file| !file.exists()) {
            Some(missing) => Err(Failure::input(format!(
                "{} is not complete: {} is missing. Download it again",
                self.name, names[missing]
            ))),
            None => Ok(files),
        }
    }
}

/// The files that an index of weights names.
pub fn shards(index: &Path) -> Result<BTreeSet<String>> {
    let refuse = |error: &dyn std::fmt::Display| Failure::input(format!("{} cannot be used: {error}", index.display()));
    let text = std::fs::read_to_string(index).map_err(|error| refuse(&error))?;
    let json: Value = serde_json::from_str(&text).map_err(|error| refuse(&error))?;
    let map = json["weight_map"].as_object().ok_or_else(|| refuse(&"it has no weight_map"))?;
    Ok(map.values().filter_map(|file| file.as_str().map(str::to_owned)).collect())
}

/// Gives keys that a configuration leaves out, or sets to null, the value they then have.
pub fn fill(config: &mut Value, defaults: &[(&str, Value)]) {
    for (key, default) in defaults {
        if config[*key].is_null() {
            config[*key] = default.clone();
        }
    }
}

/// The tensors of some files, for Candle's models.
struct Weights {
    tensors: MmapedSafetensors,
    bar: Mutex<Bar>,
    failure: Arc<Mutex<Option<candle_core::Error>>>,
}

impl Weights {
    fn read(&self, name: &str, dtype: DType, device: &Device) -> candle_core::Result<Tensor> {
        let bytes = self.tensors.get(name)?.data().len() as u64;
        let tensor = self.tensors.load(name, device)?.to_dtype(dtype)?;
        if let Ok(mut bar) = self.bar.lock() {
            bar.advance(bytes);
        }
        Ok(tensor)
    }
}

impl SimpleBackend for Weights {
    fn get(&self, shape: Shape, name: &str, _: Init, dtype: DType, device: &Device) -> candle_core::Result<Tensor> {
        let read = self.read(name, dtype, device).and_then(|tensor| {
            if tensor.shape() == &shape {
                return Ok(tensor);
            }
            candle_core::bail!("tensor {name} has shape {:?}, but config.json makes it {shape:?}", tensor.shape())
        });
        // Whoever unwraps the error leaves its sentence here.
        if let (Err(error), Ok(mut failure)) = (&read, self.failure.lock()) {
            failure.get_or_insert(candle_core::Error::msg(error.to_string()));
        }
        read
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> candle_core::Result<Tensor> {
        self.read(name, dtype, device)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.tensors.get(name).is_ok()
    }
}
