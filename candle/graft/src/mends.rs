//! Faults of upstream's that the overlay cannot answer for, because they happen before a device is known. A mend only adds: a
//! few statements in front of one that is named by its beginning. Like a waiver it is written for named releases, and in
//! those its place must be found, or the graft fails and asks for its removal.

use crate::error::{Error, Result};
use crate::patch::Patch;
use crate::report::Rule;

/// A fault, and what to write in front of it.
struct Mend {
    releases: &'static [&'static str],
    file: &'static str,
    /// How the statement begins that must not be reached as it is.
    before: &'static str,
    insert: &'static str,
    /// What happens without the mend.
    why: &'static str,
}

const MENDS: &[Mend] = &[Mend {
    releases: &["0.9.2", "0.10.2", "0.11.0", "0.11.1"],
    file: "src/quantized/gguf_file.rs",
    before: "let tensor_data_offset = ",
    insert: "if alignment == 0 { crate::bail!(\"gguf: general.alignment is 0; the file is damaged\") }\n",
    why: "a file that claims an alignment of zero is a division by zero",
}];

/// Adds the mends of a file.
pub fn apply(patch: &mut Patch<'_>, release: &str) -> Result<()> {
    let file = patch.file;
    for mend in MENDS.iter().filter(|mend| mend.file == file && mend.releases.contains(&release)) {
        let mut places = patch.text.match_indices(mend.before);
        let (Some((place, _)), None) = (places.next(), places.next()) else {
            return Err(Error::StaleMend { file: mend.file.into(), before: mend.before.into(), why: mend.why.into() });
        };
        patch.insert(place, format!("{}{}", mend.insert, patch.indent(place)), Rule::Mend, place);
    }
    Ok(())
}
