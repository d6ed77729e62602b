//! The GPUs of a machine as AMD's kernel driver lists them below `/sys`, for whoever must know them before, or without, a
//! HIP runtime: the build script (`native`), `candle-rocm compile` and `candle-rocm doctor`.

use super::arch;
use std::fs;
use std::path::Path;

/// A GPU that the driver offers for computing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The number of its node.
    pub node: u32,
    /// Its instruction set without modes, such as `gfx1100`.
    pub arch: String,
    /// The number in `/dev/dri/renderD128`.
    pub render_minor: u32,
}

/// The GPUs of the machine whose file system begins at `root`, by their nodes. Empty where there is no driver.
pub fn gpus(root: &Path) -> Vec<Gpu> {
    let nodes = fs::read_dir(root.join("sys/class/kfd/kfd/topology/nodes")).into_iter().flatten().flatten();
    let mut found: Vec<Gpu> = nodes
        .filter_map(|entry| {
            let node = entry.file_name().to_string_lossy().parse().ok()?;
            let properties = fs::read_to_string(entry.path().join("properties")).ok()?;
            let number = |key: &str| {
                properties.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
            };
            let arch = arch::from_target_version(number("gfx_target_version")?)?;
            Some(Gpu { node, arch, render_minor: number("drm_render_minor").unwrap_or_default() })
        })
        .collect();
    found.sort_by_key(|gpu| gpu.node);
    found
}

/// The targets that `native` stands for: what `HSA_OVERRIDE_GFX_VERSION` says, or else those of the machine's GPUs.
pub fn native(root: &Path) -> Result<Vec<String>, String> {
    if let Some(value) = std::env::var("HSA_OVERRIDE_GFX_VERSION").ok().filter(|value| !value.is_empty()) {
        return arch::from_override(&value).map(|name| vec![name]).ok_or_else(|| {
            format!("HSA_OVERRIDE_GFX_VERSION is {value:?}, which is not a version such as 10.3.0 (for gfx1030)")
        });
    }
    let mut names: Vec<String> = gpus(root).into_iter().map(|gpu| gpu.arch).collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Err("`native` stands for the GPUs of this machine, and its driver lists none; name targets instead, such as gfx1100".to_owned());
    }
    Ok(names)
}

/// The targets in a list of names, in which `all` and `native` may stand. The error is a sentence.
pub fn targets(list: &str, known: &[String], root: &Path) -> Result<Vec<arch::Arch>, String> {
    let mut found: Vec<arch::Arch> = Vec::new();
    for name in arch::split_list(list) {
        let names: Vec<String> = match name {
            "all" => arch::ALL.iter().filter(|name| known.iter().any(|k| k == *name)).map(|&n| n.to_owned()).collect(),
            "native" => native(root)?,
            name => vec![name.to_owned()],
        };
        for name in names {
            let arch = arch::Arch::parse(&name)?;
            if !found.contains(&arch) {
                found.push(arch);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_read_and_processors_are_not() {
        let root = std::env::temp_dir().join(format!("candle-rocm-topology-{}", std::process::id()));
        let node = |number: u32, properties: &str| {
            let folder = root.join(format!("sys/class/kfd/kfd/topology/nodes/{number}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("properties"), properties).unwrap();
        };
        node(0, "cpu_cores_count 16\nsimd_count 0\ngfx_target_version 0\ndrm_render_minor 0\n");
        node(2, "simd_count 4\ngfx_target_version 100306\ndrm_render_minor 129\n");
        node(1, "simd_count 192\ngfx_target_version 110000\ndrm_render_minor 128\n");
        let found = gpus(&root);
        let seen: Vec<_> = found.iter().map(|gpu| (gpu.node, gpu.arch.as_str(), gpu.render_minor)).collect();
        assert_eq!(seen, [(1, "gfx1100", 128), (2, "gfx1036", 129)]);
        let known = ["gfx1030", "gfx1100", "gfx11-generic"].map(str::to_owned);
        let named = |list: &str| {
            targets(list, &known, &root).map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(named("native;gfx90a:xnack-,gfx1100").unwrap(), ["gfx1036", "gfx1100", "gfx90a:xnack-"]);
        assert_eq!(named("all").unwrap(), ["gfx1030", "gfx1100", "gfx11-generic"]);
        assert!(named("gfx1030 radeon").unwrap_err().contains("radeon"));
        fs::remove_dir_all(&root).unwrap();
        assert!(gpus(&root).is_empty());
        assert!(named("native").unwrap_err().contains("lists none"));
    }
}
