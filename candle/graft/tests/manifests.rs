//! The manifests of the grafted packages, of every release, against upstream's: the same dependencies and features, so that a
//! project's build has what it has without them. Only what is NVIDIA's is ours instead.

use candle_graft::upstream;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::{Table, Value};

/// The folders below `candle/` with the packages of a release.
const RELEASES: [(&str, &str); 3] = [("", "0.11.1"), ("0.10.2", "0.10.2"), ("0.9.2", "0.9.2")];
/// Dependencies of upstream's for which others stand in.
const NVIDIAS: [&str; 3] = ["candle-kernels", "cudarc", "cutile"];
/// Those others.
const OURS: [&str; 5] = ["candle-rocm-kernels", "cudarc", "hip", "log", "rocm-libraries"];
/// Features that mean NVIDIA's libraries to upstream.
const OF_THE_GPU: [&str; 4] = ["cuda", "cudnn", "cutile", "nccl"];

fn read(path: &Path) -> Table {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All dependencies, those for some targets by target and name, as far as they say which crate is meant.
fn dependencies(manifest: &Table, others: &[&str]) -> BTreeMap<String, String> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let targets = targets.map(|(target, table)| (format!("{target} "), table.get("dependencies")));
    let mut found = BTreeMap::new();
    for (target, table) in targets.chain([(String::new(), manifest.get("dependencies"))]) {
        for (name, needed) in table.and_then(Value::as_table).into_iter().flatten() {
            if others.contains(&name.as_str()) {
                continue;
            }
            let get = |key: &str| needed.get(key).map(Value::to_string).unwrap_or_default();
            let version = needed.as_str().map_or_else(|| get("version"), |version| Value::from(version).to_string());
            let features = needed.get("features").and_then(Value::as_array).into_iter().flatten();
            let features: BTreeSet<String> = features.map(Value::to_string).collect();
            let rest = (get("optional"), get("default-features"), get("package"));
            found.insert(format!("{target}{name}"), format!("{version} {features:?} {rest:?}"));
        }
    }
    found
}

fn features(manifest: &Table) -> BTreeMap<String, BTreeSet<String>> {
    let all = manifest["features"].as_table().expect("a table").iter();
    let words = |list: &Value| list.as_array().into_iter().flatten().map(Value::to_string).collect();
    all.map(|(name, list)| (name.clone(), words(list))).collect()
}

#[test]
fn dependencies_and_features_are_upstreams() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder can be written");
    for (folder, release) in RELEASES {
        for name in ["candle-core", "candle-nn"] {
            let what = format!("{name} {release}");
            let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join(name).join("Cargo.toml");
            let own = read(&own);
            assert_eq!(own["package"]["version"].as_str(), Some(release), "{what}");
            let source = upstream::locate(name, release, scratch.path()).expect("the release is in the registry");
            let upstream = read(&source.join("Cargo.toml"));
            assert_eq!(dependencies(&own, &OURS), dependencies(&upstream, &NVIDIAS), "{what}");
            let own = features(&own);
            for (feature, contents) in features(&upstream) {
                let ours = own.get(&feature).unwrap_or_else(|| panic!("{what} lacks the feature {feature}"));
                let same = OF_THE_GPU.contains(&feature.as_str()) || *ours == contents;
                assert!(same, "{what}: {feature} is {ours:?}, and upstream's {contents:?}");
            }
        }
    }
}
