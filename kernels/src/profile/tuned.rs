//! What was measured on a card in place of what the table of architectures says: a small file of text beside the compiled kernels,
//! named for architecture and card, written by `candle-rocm tune` and read when the profile of such a card is made. A file that is damaged,
//! or was measured on another card, is left alone with one warning. `CANDLE_ROCM_TUNED=0` reads none.

use super::table::{Architecture, Source, Sourced};
use crate::cache::Cache;
use hip_abi::stable_hash::StableHash;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Turns measured values off: `0`, `off` or `no`.
pub const VARIABLE: &str = "CANDLE_ROCM_TUNED";

/// The first line of a file; the number changes with what the values mean.
const HEAD: &str = "candle-rocm tuned 1";

/// A value that can be measured. `None` is "never".
pub struct Field {
    /// Its name in the table and in files.
    pub name: &'static str,
    /// What a file may say.
    range: (u64, u64),
    set: Set,
}

/// The values that can be measured: one line each.
pub static FIELDS: [Field; 3] = [
    field("few_rows_bytes", (0, 1 << 40), |row, value, source| put(&mut row.few_rows_bytes, value, source)),
    field("tiles_from", (1, 1 << 32), |row, value, source| put(&mut row.tiles_from, value, source)),
    field("widen_from", (1, 1 << 32), |row, value, source| row.widen_from = Sourced { value, source }),
];

type Set = fn(&mut Architecture, Option<u64>, Source);

const fn field(name: &'static str, range: (u64, u64), set: Set) -> Field {
    Field { name, range, set }
}

/// A threshold that is a number; "never" is one that nothing reaches.
fn put(field: &mut Sourced<u64>, value: Option<u64>, source: Source) {
    *field = Sourced { value: value.unwrap_or(u64::MAX), source };
}

/// Values measured on a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// The architecture, without its modes: `gfx1100`.
    pub arch: String,
    /// The card as HIP names it.
    pub card: String,
    /// The day, as 2026-11-19.
    pub date: String,
    /// Fields of [`FIELDS`] by name.
    pub values: Vec<(&'static str, Option<u64>)>,
}

impl Tuned {
    /// For a device, without values.
    pub fn new(device: &hip::Device, date: impl Into<String>) -> Self {
        let (arch, card) = (device.base_arch().to_owned(), one_line(device.name()));
        Self { arch, card, date: date.into(), values: Vec::new() }
    }

    /// Sets a value. False where there is no such field, or the value is none for it.
    pub fn set(&mut self, name: &str, value: Option<u64>) -> bool {
        let Some(field) = FIELDS.iter().find(|field| field.name == name) else { return false };
        if value.is_some_and(|value| !(field.range.0..=field.range.1).contains(&value)) {
            return false;
        }
        self.values.retain(|(there, _)| *there != field.name);
        self.values.push((field.name, value));
        true
    }

    /// The value of a field, where it was measured.
    pub fn get(&self, name: &str) -> Option<Option<u64>> {
        self.values.iter().find(|(there, _)| *there == name).map(|(_, value)| *value)
    }

    /// As a file.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}\narch {}\ncard {}\ndate {}\n", self.arch, self.card, self.date);
        for (name, value) in &self.values {
            // Writing to a String cannot fail.
            let _ = match value {
                Some(value) => writeln!(text, "{name} {value}"),
                None => writeln!(text, "{name} never"),
            };
        }
        text + "end\n"
    }

    /// From a file. The error is the rest of a sentence that begins with the file's name.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(format!("does not begin with {HEAD:?}"));
        }
        let mut tuned = Self { arch: String::new(), card: String::new(), date: String::new(), values: Vec::new() };
        let mut ended = false;
        for line in lines {
            if ended {
                return Err("goes on behind its end".to_owned());
            }
            match line.split_once(' ') {
                None if line == "end" => ended = true,
                Some(("arch", arch)) => tuned.arch = arch.to_owned(),
                Some(("card", card)) => tuned.card = card.to_owned(),
                Some(("date", date)) => tuned.date = date.to_owned(),
                Some((name, value)) => {
                    let number = match value {
                        "never" => Some(None),
                        number => number.parse().ok().map(Some),
                    };
                    if !number.is_some_and(|number| tuned.set(name, number)) {
                        return Err(format!("has a line that makes no sense: {line:?}"));
                    }
                }
                None => return Err(format!("has a line that makes no sense: {line:?}")),
            }
        }
        match ended && !tuned.arch.is_empty() && !tuned.card.is_empty() {
            true => Ok(tuned),
            false => Err("is broken off".to_owned()),
        }
    }

    /// The file for a card, in the folder of the user's compiled kernels. `None` where there is no such folder.
    pub fn path(arch: &str, card: &str) -> Option<PathBuf> {
        Some(Cache::folder_of_user()?.join(file_name(arch, &one_line(card))))
    }

    /// Keeps it where programs look. The error is a sentence.
    pub fn store(&self) -> Result<PathBuf, String> {
        let folder =
            Cache::folder_of_user().ok_or("there is no folder to keep it in: set CANDLE_ROCM_CACHE or HOME")?;
        let cache = Cache::at(&folder).map_err(|why| format!("{} cannot be used: {why}", folder.display()))?;
        if !cache.is_writable() {
            return Err(format!("{} cannot be written to", folder.display()));
        }
        let path = folder.join(file_name(&self.arch, &self.card));
        self.write(&path).map(|()| path)
    }

    /// Writes it to a file, so that no reader finds half of it. The error is a sentence.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let unfinished = path.with_extension(format!("{}.part", std::process::id()));
        std::fs::write(&unfinished, self.to_text()).and_then(|()| std::fs::rename(&unfinished, path)).map_err(|error| {
            let _ = std::fs::remove_file(&unfinished);
            format!("{} cannot be written: {error}", path.display())
        })
    }

    /// What is kept for a card. The error names the file.
    pub fn load(arch: &str, card: &str) -> Result<Option<Self>, String> {
        match Self::path(arch, card) {
            Some(path) => Self::read(&path, arch, &one_line(card)),
            None => Ok(None),
        }
    }

    fn read(path: &Path, arch: &str, card: &str) -> Result<Option<Self>, String> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
        };
        let advice = "`candle-rocm tune` writes it anew, `candle-rocm tune --reset` removes it";
        let refuse = |why: String| format!("{} {why}; its values are not used. {advice}", path.display());
        let text = String::from_utf8(bytes).map_err(|_| refuse("is not text".to_owned()))?;
        let tuned = Self::from_text(&text).map_err(refuse)?;
        if (tuned.arch.as_str(), tuned.card.as_str()) != (arch, card) {
            return Err(refuse(format!("was measured on another card, {} ({})", tuned.card, tuned.arch)));
        }
        Ok(Some(tuned))
    }

    /// A row of the table with these values in the place of its own.
    fn applied(&self, row: &Architecture) -> Architecture {
        // Kept as long as the program runs, as the table is; there is one for each kind of card.
        let card: &'static str = Box::leak(self.card.clone().into_boxed_str());
        let date: &'static str = Box::leak(self.date.clone().into_boxed_str());
        let mut row = *row;
        for (name, value) in &self.values {
            if let Some(field) = FIELDS.iter().find(|field| field.name == *name) {
                (field.set)(&mut row, *value, Source::Measured { card, date });
            }
        }
        row
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Cards of one name share a file; what a file system may not like in a name becomes a line, and a hash tells the rest apart.
fn file_name(arch: &str, card: &str) -> String {
    let plain = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).take(40).collect()
    };
    let hash = StableHash::new().part(arch).part(card).value() as u32;
    format!("tuned-{}-{}-{hash:08x}.txt", plain(arch), plain(card))
}

fn is_off() -> bool {
    std::env::var(VARIABLE).is_ok_and(|value| ["0", "off", "no"].contains(&value.trim().to_ascii_lowercase().as_str()))
}

/// Rows that were made, by what they were made of, and files that were warned of.
static MADE: Mutex<Vec<(Tuned, &'static str, &'static Architecture)>> = Mutex::new(Vec::new());
static WARNED: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// What `tune` tries, in the place of what is kept.
static TRIED: Mutex<Option<Tuned>> = Mutex::new(None);

/// From now on profiles are made with these values and not with those that are kept; `None`: with the latter again. For whoever
/// measures, and has the process to itself.
pub fn try_values(tuned: Option<Tuned>) {
    *TRIED.lock().unwrap_or_else(PoisonError::into_inner) = tuned;
}

/// The values that the profile of a card is made with, where some were measured.
pub fn in_use(arch: &str, card: &str) -> Option<Tuned> {
    let tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if tried.is_some() {
        return tried.filter(|tuned| (tuned.arch.as_str(), tuned.card.as_str()) == (arch, one_line(card).as_str()));
    }
    if is_off() {
        return None;
    }
    match Tuned::load(arch, card) {
        Ok(tuned) => tuned,
        Err(why) => {
            let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
            if !warned.contains(&why) {
                log::warn!("{why}");
                warned.push(why);
            }
            None
        }
    }
}

/// The row for a card: the table's, or one with measured values.
pub(super) fn row_for(row: &'static Architecture, arch: &str, card: &str) -> &'static Architecture {
    let Some(tuned) = in_use(arch, card) else { return row };
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((.., there)) = made.iter().find(|(values, name, _)| *values == tuned && *name == row.name) {
        return there;
    }
    let new: &'static Architecture = Box::leak(Box::new(tuned.applied(row)));
    made.push((tuned, row.name, new));
    new
}

#[cfg(test)]
mod tests {
    use super::super::look_up;
    use super::*;

    fn tuned() -> Tuned {
        let mut tuned =
            Tuned { arch: "gfx1100".into(), card: "A card".into(), date: "2026-11-19".into(), values: Vec::new() };
        assert!(tuned.set("few_rows_bytes", Some(4096)) && tuned.set("widen_from", None));
        tuned
    }

    #[test]
    fn a_file_comes_back_and_changes_its_fields_only() {
        let back = Tuned::from_text(&tuned().to_text()).unwrap();
        assert_eq!(back, tuned());
        let row = look_up("gfx1100").0;
        let new = back.applied(row);
        assert_eq!((new.few_rows_bytes.value, new.widen_from.value), (4096, None));
        assert_eq!(new.few_rows_bytes.source, Source::Measured { card: "A card", date: "2026-11-19" });
        assert_eq!((new.tiles_from.value, new.tiles_from.source), (row.tiles_from.value, row.tiles_from.source));
    }

    #[test]
    fn every_field_is_one_of_the_tables() {
        let row = look_up("gfx1100").0;
        for field in &FIELDS {
            let mut changed = *row;
            (field.set)(&mut changed, Some(77), Source::Argued("a test"));
            for ((name, value, _), (_, before, _)) in changed.values().into_iter().zip(row.values()) {
                assert_eq!(value.contains("77"), name == field.name, "{}: {name} is {value}", field.name);
                assert!(name == field.name || value == before, "{}: {name} is {value}", field.name);
            }
        }
    }

    #[test]
    fn damaged_and_foreign_files_are_refused_with_their_name() {
        let folder = std::env::temp_dir().join(format!("candle-rocm-tuned-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(file_name("gfx1100", "A card"));
        assert_eq!(Tuned::read(&path, "gfx1100", "A card"), Ok(None));
        tuned().write(&path).unwrap();
        assert_eq!(Tuned::read(&path, "gfx1100", "A card"), Ok(Some(tuned())));
        let good = tuned().to_text();
        let wrong = [
            String::new(),
            "{}".to_owned(),
            good.replace("tuned 1", "tuned 2"),
            good.replace("end\n", ""),
            good.replace("4096", "4096 bytes"),
            good.replace("4096", "99999999999999999"),
            good.replace("few_rows_bytes", "some_rows_bytes"),
            good.replace("A card", "Another card"),
            good.replace("gfx1100", "gfx1101"),
            good.clone() + "tiles_from 3\n",
        ];
        for text in wrong {
            std::fs::write(&path, &text).unwrap();
            let why = Tuned::read(&path, "gfx1100", "A card").expect_err(&text);
            assert!(why.contains(&path.display().to_string()) && why.contains("not used"), "{why}");
        }
        std::fs::write(&path, b"\xff\xfe").unwrap();
        assert!(Tuned::read(&path, "gfx1100", "A card").is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_card_is_planned_for_by_what_is_tried() {
        let row = look_up("gfx1100").0;
        try_values(Some(Tuned { card: "A tried card".into(), ..tuned() }));
        let new = row_for(row, "gfx1100", "A  tried card");
        assert_eq!(new.few_rows_bytes.value, 4096);
        assert!(std::ptr::eq(new, row_for(row, "gfx1100", "A tried card")), "made once");
        for other in [row_for(row, "gfx1100", "Another card"), row_for(row, "gfx1101", "A tried card")] {
            assert!(std::ptr::eq(other, row), "another card's plans stay");
        }
        try_values(None);
    }

    #[test]
    fn files_of_different_cards_have_different_names() {
        let names = [
            ("gfx1100", "AMD Radeon RX 7900 XT"),
            ("gfx1100", "AMD Radeon RX 7900 XTX"),
            ("gfx1101", "AMD Radeon RX 7900 XT"),
            ("gfx1100", "AMD/Radeon RX 7900 XT"),
        ];
        let mut all: Vec<String> = names.iter().map(|(arch, card)| file_name(arch, card)).collect();
        assert!(all.iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))), "{all:?}");
        all.sort();
        all.dedup();
        assert_eq!(all.len(), names.len());
    }
}
