//! Files in a row: for each the length of its path, the path, the length of its contents, the contents. The build script packs the
//! packages that way and the program unpacks them; compression is theirs.

/// A file with its path, below whatever folder it is unpacked into.
pub struct File {
    pub path: String,
    pub contents: Vec<u8>,
}

/// All files, one behind the other.
pub fn pack(files: &[File]) -> Vec<u8> {
    let mut packed = Vec::new();
    for file in files {
        for part in [file.path.as_bytes(), &file.contents] {
            packed.extend_from_slice(&(part.len() as u64).to_le_bytes());
            packed.extend_from_slice(part);
        }
    }
    packed
}

/// The files again; `None` when these bytes are not what [`pack`] made.
pub fn unpack(mut packed: &[u8]) -> Option<Vec<File>> {
    let mut files = Vec::new();
    while !packed.is_empty() {
        let path = String::from_utf8(take(&mut packed)?.to_vec()).ok()?;
        let inside = !path.starts_with('/') && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !inside {
            return None;
        }
        files.push(File { path, contents: take(&mut packed)?.to_vec() });
    }
    Some(files)
}

fn take<'a>(packed: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = packed.split_first_chunk::<8>()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    *packed = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, contents: &[u8]) -> File {
        File { path: path.into(), contents: contents.into() }
    }

    #[test]
    fn what_was_packed_comes_out() {
        let packed = pack(&[file("a/b.rs", b"fn main() {}"), file("empty", b"")]);
        let files = unpack(&packed).unwrap();
        let seen: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.contents.as_slice())).collect();
        assert_eq!(seen, [("a/b.rs", &b"fn main() {}"[..]), ("empty", b"")]);
        for length in 1..packed.len() {
            let cut = unpack(&packed[..length]);
            assert!(cut.is_none_or(|files| files.len() == 1), "{length} bytes passed for the whole");
        }
    }

    #[test]
    fn no_path_leads_out_of_the_folder() {
        for path in ["/etc/passwd", "../up", "a/../../up", "a//b", ""] {
            assert!(unpack(&pack(&[file(path, b"x")])).is_none(), "{path}");
        }
    }
}
