//! Which packages of this repository stand in for packages of the registry. They are found, not listed by release: a package is a
//! folder below `candle/` whose manifest has one of these names and the release's version.

use std::path::Path;

/// Upstream's packages that have a grafted counterpart, and cudarc.
pub const NAMES: [&str; 4] = ["candle-core", "candle-nn", "candle-flash-attn", CUDARC];
/// Stands in for the crate of this name where a project uses it beside Candle.
pub const CUDARC: &str = "cudarc";

/// The folders of the grafted packages below a clone's root: `candle/candle-core` for the release that the repository is about, and
/// `candle/RELEASE/candle-core` for the others.
pub fn folders(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut open = vec!["candle".to_owned()];
    while let Some(folder) = open.pop() {
        let path = root.join(&folder);
        let entries =
            std::fs::read_dir(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        for entry in entries.flatten() {
            let Some(name) = entry.file_name().to_str().map(|name| format!("{folder}/{name}")) else { continue };
            match std::fs::read_to_string(entry.path().join("Cargo.toml")) {
                Ok(manifest) if package(&manifest).is_some() => found.push(name),
                // A release's folder is a workspace.
                _ if folder == "candle" && entry.path().is_dir() => open.push(name),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Name and version of a grafted package, from its manifest; `None` for every other package.
pub fn package(manifest: &str) -> Option<(String, String)> {
    let manifest: toml::Table = manifest.parse().ok()?;
    let package = manifest.get("package")?;
    let name = package.get("name")?.as_str()?;
    let version = package.get("version")?.as_str()?;
    NAMES.contains(&name).then(|| (name.to_owned(), version.to_owned()))
}
