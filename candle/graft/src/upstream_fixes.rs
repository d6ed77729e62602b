//! Faults of upstream's that the overlay cannot answer for, because they happen before a device is known. A fix only adds: a
//! few statements in front of one that is named by its beginning. Like a waiver it is written for named releases, and in
//! those its place must be found, or the graft fails and asks for its removal.

use crate::error::{Error, Result};
use crate::patch::Patch;
use crate::report::Rule;

/// A fault, and what to write in front of it.
struct Fix {
    releases: &'static [&'static str],
    file: &'static str,
    /// How the statement begins that must not be reached as it is.
    before: &'static str,
    insert: &'static str,
    /// What happens without the fix.
    why: &'static str,
}

const FIXES: &[Fix] = &[
    Fix {
        releases: &["0.9.2", "0.10.2", "0.11.0", "0.11.1"],
        file: "src/quantized/gguf_file.rs",
        before: "let tensor_data_offset = ",
        insert: "if alignment == 0 { crate::bail!(\"gguf: general.alignment is 0; the file is damaged\") }\n",
        why: "a file that claims an alignment of zero is a division by zero",
    },
    Fix {
        releases: &["0.9.2", "0.10.2", "0.11.0", "0.11.1"],
        file: "src/var_builder.rs",
        before: "let size = shape[dim];",
        insert: "if dim >= shape.len() { candle::bail!(\"{path} has the shape {shape:?}, and no dimension {dim} to cut\") }\n",
        why: "a rank's part of a tensor with too few dimensions is a panic",
    },
];

/// Adds the fixes of a file.
pub fn apply(patch: &mut Patch<'_>, release: &str) -> Result<()> {
    let file = patch.file;
    for fix in FIXES.iter().filter(|fix| fix.file == file && fix.releases.contains(&release)) {
        let mut places = patch.text.match_indices(fix.before);
        let (Some((place, _)), None) = (places.next(), places.next()) else {
            return Err(Error::StaleFix { file: fix.file.into(), before: fix.before.into(), why: fix.why.into() });
        };
        patch.insert(place, format!("{}{}", fix.insert, patch.indent(place)), Rule::UpstreamFix, place);
    }
    Ok(())
}
