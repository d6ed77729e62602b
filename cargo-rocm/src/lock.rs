//! Reading Cargo.lock: which packages a project's build has, and where from. And one thing that is written: what a lock file
//! would have to prefer for the packages that it does not know yet.

use std::collections::BTreeSet;

/// A package of a lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    pub name: String,
    pub version: String,
    /// `None`: a folder.
    pub source: Option<String>,
    /// The names of what it depends on.
    pub needs: Vec<String>,
}

impl Locked {
    /// From crates.io (or what stands in its place).
    pub fn of_registry(&self) -> bool {
        self.source.as_deref().is_some_and(|source| source.starts_with("registry+") || source.starts_with("sparse+"))
    }
}

/// All packages. The error is the parser's.
pub fn read(text: &str) -> Result<Vec<Locked>, String> {
    let lock: toml::Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let read = |package: &toml::Value| {
        let text = |key: &str| package.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        let needs = package.get("dependencies").and_then(toml::Value::as_array).into_iter().flatten();
        let needs = needs.filter_map(toml::Value::as_str).filter_map(|need| need.split(' ').next());
        Some(Locked {
            name: text("name")?,
            version: text("version")?,
            source: text("source"),
            needs: needs.map(str::to_owned).collect(),
        })
    };
    Ok(packages.filter_map(read).collect())
}

/// A lock file with the packages of the registry in `others` that it does not name. Cargo takes these versions when it has to
/// choose, and drops what nobody needs: so what the grafted packages depend on is what they were tested with.
pub fn with_preferences(lock: &str, others: &str) -> String {
    let (Ok(known), Ok(others)) = (read(lock), others.parse::<toml::Table>()) else { return lock.to_owned() };
    let known: BTreeSet<String> = known.into_iter().map(|package| package.name).collect();
    let mut text = lock.trim_end().to_owned();
    for package in others.get("package").and_then(toml::Value::as_array).into_iter().flatten() {
        let get = |key: &str| package.get(key).and_then(toml::Value::as_str);
        let (Some(name), Some(version), Some(source), Some(sum)) =
            (get("name"), get("version"), get("source"), get("checksum"))
        else {
            continue;
        };
        if !known.contains(name) {
            text += &format!(
                "\n\n[[package]]\nname = {name:?}\nversion = {version:?}\nsource = {source:?}\nchecksum = {sum:?}"
            );
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\ndependencies = [\n \"b\",\n \"c 2.0.0\",\n]\n\n\
        [[package]]\nname = \"b\"\nversion = \"0.1.0\"\nsource = \"registry+https://example\"\nchecksum = \"00\"\n";

    #[test]
    fn packages_have_names_sources_and_needs() {
        let packages = read(LOCK).unwrap();
        assert_eq!(packages.len(), 2);
        assert_eq!(
            (packages[0].needs.as_slice(), packages[0].of_registry()),
            (&["b".to_owned(), "c".to_owned()][..], false)
        );
        assert!(packages[1].of_registry());
        assert!(read("not a lock file").is_err());
    }

    #[test]
    fn preferences_name_what_is_not_there() {
        let others = LOCK.replace("\"b\"", "\"d\"").replace("0.1.0", "0.2.0");
        let text = with_preferences(LOCK, &others);
        let packages = read(&text).unwrap();
        let names: Vec<_> = packages.iter().map(|package| (package.name.as_str(), package.version.as_str())).collect();
        assert_eq!(names, [("a", "1.0.0"), ("b", "0.1.0"), ("d", "0.2.0")]);
        assert_eq!(with_preferences(LOCK, LOCK), LOCK);
    }
}
