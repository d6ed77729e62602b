//! The driver's files: a tree in memory that stands for what the real driver shows below `/sys`, and the names of its devices.

use crate::state::{Gpu, Node};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fmt::Write;

const TOPOLOGY: &str = "/sys/devices/virtual/kfd/kfd/topology";

/// Files and folders by their whole path.
pub struct Tree {
    files: BTreeMap<String, CString>,
    folders: BTreeMap<String, Vec<(CString, bool)>>,
    nodes: BTreeMap<String, Node>,
}

/// What a path leads to.
pub enum Entry<'a> {
    /// A file with this text.
    File(&'a CString),
    /// A folder of names; true for folders.
    Folder(&'a [(CString, bool)]),
    /// A device.
    Device(Node),
}

/// Whether a path can be the driver's at all. Nothing is allocated, and nearly every path ends here.
pub fn may_be_ours(path: &[u8]) -> bool {
    const PLACES: [&[u8]; 6] = [
        b"/dev/kfd",
        b"/dev/dri",
        b"/sys/devices/virtual/kfd",
        b"/sys/class/kfd",
        b"/sys/class/drm",
        b"/sys/module/amdgpu",
    ];
    (path.starts_with(b"/dev/") || path.starts_with(b"/sys/")) && PLACES.iter().any(|place| path.starts_with(place))
}

impl Tree {
    /// The files for these GPUs, on a machine with this much memory.
    pub fn new(gpus: &[Gpu], machine_bytes: u64) -> Self {
        let mut tree = Self { files: BTreeMap::new(), folders: BTreeMap::new(), nodes: BTreeMap::new() };
        tree.add("/sys/module/amdgpu/initstate", "live\n".to_owned());
        tree.add(&format!("{TOPOLOGY}/generation_id"), "1\n".to_owned());
        tree.add(
            &format!("{TOPOLOGY}/system_properties"),
            properties(&[("platform_oem", 0), ("platform_id", 0), ("platform_rev", 0)]),
        );
        tree.add_host(gpus.len(), machine_bytes);
        for (n, gpu) in gpus.iter().enumerate() {
            tree.add_gpu(n + 1, gpu, gpus.len());
        }
        tree.nodes.insert("/dev/kfd".to_owned(), Node::Kfd);
        for gpu in gpus {
            let path = format!("/dev/dri/renderD{}", gpu.minor);
            tree.list(&path, false);
            tree.nodes.insert(path, Node::Render);
        }
        tree
    }

    /// What is at a path.
    pub fn find(&self, path: &[u8]) -> Option<Entry<'_>> {
        let path = std::str::from_utf8(path).ok()?.trim_end_matches('/');
        let moved = path.strip_prefix("/sys/class/kfd/kfd").map(|rest| format!("/sys/devices/virtual/kfd/kfd{rest}"));
        let path = moved.as_deref().unwrap_or(path);
        if let Some(&node) = self.nodes.get(path) {
            return Some(Entry::Device(node));
        }
        if let Some(text) = self.files.get(path) {
            return Some(Entry::File(text));
        }
        self.folders.get(path).map(|names| Entry::Folder(names))
    }

    fn add(&mut self, path: &str, text: String) {
        // Texts are made here and have no zero byte.
        self.files.insert(path.to_owned(), CString::new(text).unwrap_or_default());
        self.list(path, false);
    }

    /// Puts a name into its folder, and the folder into its own.
    fn list(&mut self, path: &str, is_folder: bool) {
        let Some((folder, name)) = path.rsplit_once('/') else { return };
        let Ok(name) = CString::new(name) else { return };
        let known = self.folders.contains_key(folder);
        let names = self.folders.entry(folder.to_owned()).or_default();
        if !names.iter().any(|(known, _)| *known == name) {
            names.push((name, is_folder));
        }
        if !known && folder.len() > 4 {
            self.list(folder, true);
        }
    }

    /// The node of the processor.
    fn add_host(&mut self, gpus: usize, machine_bytes: u64) {
        let node = format!("{TOPOLOGY}/nodes/0");
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        self.add(&format!("{node}/gpu_id"), "0\n".to_owned());
        self.add(&format!("{node}/name"), "\n".to_owned());
        let counts = [
            ("cpu_cores_count", cores),
            ("mem_banks_count", 1),
            // Without a cache of its own here, the runtime would read the machine's.
            ("caches_count", 1),
            ("io_links_count", gpus as u64),
            ("max_engine_clk_ccompute", 3000),
        ];
        self.add(&format!("{node}/properties"), node_properties(&counts));
        let bank =
            [("heap_type", 0), ("size_in_bytes", machine_bytes), ("flags", 0), ("width", 64), ("mem_clk_max", 3200)];
        self.add(&format!("{node}/mem_banks/0/properties"), properties(&bank));
        self.add(&format!("{node}/caches/0/properties"), cache(0, 1, 32, 64, 5));
        for n in 0..gpus {
            self.add(&format!("{node}/io_links/{n}/properties"), link(0, n as u64 + 1, 20));
        }
    }

    fn add_gpu(&mut self, number: usize, gpu: &Gpu, gpus: usize) {
        let card = gpu.card;
        let node = format!("{TOPOLOGY}/nodes/{number}");
        let id_base = 0x8000_1000u64 + 0x1000 * (number as u64 - 1);
        self.add(&format!("{node}/gpu_id"), format!("{}\n", gpu.id));
        self.add(&format!("{node}/name"), format!("{}\n", card.arch));
        let counts = [
            ("simd_count", u64::from(card.simds)),
            ("mem_banks_count", 1),
            ("caches_count", card.caches.len() as u64),
            ("io_links_count", gpus as u64),
            ("simd_id_base", id_base),
            ("max_waves_per_simd", u64::from(card.waves_per_simd)),
            ("lds_size_in_kb", card.arch.lds_bytes() as u64 >> 10),
            ("num_gws", 64),
            ("wave_front_size", card.arch.wave_size() as u64),
            ("array_count", u64::from(card.arrays)),
            ("simd_arrays_per_engine", u64::from(card.arrays_per_engine)),
            ("cu_per_simd_array", u64::from(card.units_per_array)),
            ("simd_per_cu", u64::from(card.simds_per_unit)),
            ("max_slots_scratch_cu", 32),
            ("gfx_target_version", u64::from(card.target_version)),
            ("vendor_id", 0x1002),
            ("device_id", u64::from(card.device_id)),
            // Bus, device and function: 03:00.0 for the first.
            ("location_id", 0x300 * number as u64),
            ("drm_render_minor", u64::from(gpu.minor)),
            ("num_sdma_engines", 2),
            ("num_sdma_queues_per_engine", 8),
            ("num_cp_queues", 8),
            ("max_engine_clk_fcompute", u64::from(card.clock)),
            ("fw_version", u64::from(card.firmware)),
            ("capability", u64::from(card.capability())),
            ("sdma_fw_version", u64::from(card.copy_firmware)),
            ("unique_id", 0x1234_5678_9abc_0000 + number as u64),
            ("num_xcc", 1),
            ("max_engine_clk_ccompute", 3000),
        ];
        self.add(&format!("{node}/properties"), node_properties(&counts));
        // Heap type 1: the host sees all of it.
        let (_, width, clock) = card.memory;
        let bank = [
            ("heap_type", 1),
            ("size_in_bytes", gpu.memory),
            ("flags", 0),
            ("width", u64::from(width)),
            ("mem_clk_max", u64::from(clock)),
        ];
        self.add(&format!("{node}/mem_banks/0/properties"), properties(&bank));
        for (n, &(level, kib)) in card.caches.iter().enumerate() {
            let line = card.arch.line_bytes();
            self.add(
                &format!("{node}/caches/{n}/properties"),
                cache(id_base, u64::from(level), u64::from(kib), line, 9),
            );
        }
        let others = (0..=gpus).filter(|&other| other != number);
        for (n, other) in others.enumerate() {
            // GPUs reach each other through the host.
            let weight = if other == 0 { 20 } else { 40 };
            self.add(&format!("{node}/io_links/{n}/properties"), link(number as u64, other as u64, weight));
        }
    }
}

fn properties(pairs: &[(&str, u64)]) -> String {
    pairs.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name} {value}");
        text
    })
}

/// A node's properties in the driver's order; those that are not given are 0.
fn node_properties(given: &[(&str, u64)]) -> String {
    const NAMES: [&str; 38] = [
        "cpu_cores_count",
        "simd_count",
        "mem_banks_count",
        "caches_count",
        "io_links_count",
        "p2p_links_count",
        "cpu_core_id_base",
        "simd_id_base",
        "max_waves_per_simd",
        "lds_size_in_kb",
        "gds_size_in_kb",
        "num_gws",
        "wave_front_size",
        "array_count",
        "simd_arrays_per_engine",
        "cu_per_simd_array",
        "simd_per_cu",
        "max_slots_scratch_cu",
        "gfx_target_version",
        "vendor_id",
        "device_id",
        "location_id",
        "domain",
        "drm_render_minor",
        "hive_id",
        "num_sdma_engines",
        "num_sdma_xgmi_engines",
        "num_sdma_queues_per_engine",
        "num_cp_queues",
        "max_engine_clk_fcompute",
        "local_mem_size",
        "fw_version",
        "capability",
        "debug_prop",
        "sdma_fw_version",
        "unique_id",
        "num_xcc",
        "max_engine_clk_ccompute",
    ];
    debug_assert!(given.iter().all(|(name, _)| NAMES.contains(name)));
    let value = |name: &str| given.iter().find(|(known, _)| *known == name).map_or(0, |&(_, value)| value);
    properties(&NAMES.map(|name| (name, value(name))))
}

fn cache(processor: u64, level: u64, kib: u64, line: u64, kind: u64) -> String {
    let mut text = properties(&[
        ("processor_id_low", processor),
        ("level", level),
        ("size", kib),
        ("cache_line_size", line),
        ("cache_lines_per_tag", 1),
        ("association", 16),
        ("latency", 1),
        ("type", kind),
    ]);
    text.push_str("sibling_map 1,0\n");
    text
}

/// A link over PCI Express.
fn link(from: u64, to: u64, weight: u64) -> String {
    properties(&[
        ("type", 2),
        ("version_major", 0),
        ("version_minor", 0),
        ("node_from", from),
        ("node_to", to),
        ("weight", weight),
        ("min_latency", 0),
        ("max_latency", 0),
        ("min_bandwidth", 0),
        ("max_bandwidth", 0),
        ("recommended_transfer_size", 0),
        ("flags", 1),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cards::CARDS;

    fn tree() -> Tree {
        let gpu = |n: u32| Gpu {
            card: &CARDS[n as usize],
            id: 0x1234 + n,
            minor: 128 + n,
            memory: 1 << 30,
            code: Default::default(),
        };
        Tree::new(&[gpu(0), gpu(1)], 16 << 30)
    }

    fn text(tree: &Tree, path: &str) -> String {
        match tree.find(path.as_bytes()) {
            Some(Entry::File(text)) => text.to_str().unwrap().to_owned(),
            _ => panic!("{path} is no file"),
        }
    }

    fn names(tree: &Tree, path: &str) -> Vec<String> {
        match tree.find(path.as_bytes()) {
            Some(Entry::Folder(names)) => names.iter().map(|(name, _)| name.to_str().unwrap().to_owned()).collect(),
            _ => panic!("{path} is no folder"),
        }
    }

    #[test]
    fn nodes_are_found_by_both_ways() {
        let tree = tree();
        assert_eq!(text(&tree, "/sys/devices/virtual/kfd/kfd/topology/nodes/2/gpu_id"), "4661\n");
        assert_eq!(text(&tree, "/sys/class/kfd/kfd/topology/nodes/1/gpu_id"), "4660\n");
        assert_eq!(names(&tree, "/sys/class/kfd/kfd/topology/nodes/"), ["0", "1", "2"]);
        assert_eq!(names(&tree, "/dev/dri"), ["renderD128", "renderD129"]);
    }

    #[test]
    fn folders_have_as_many_parts_as_the_node_says() {
        let tree = tree();
        for node in 0..3 {
            let folder = format!("/sys/class/kfd/kfd/topology/nodes/{node}");
            let properties = text(&tree, &format!("{folder}/properties"));
            for (kind, count) in
                [("mem_banks", "mem_banks_count"), ("caches", "caches_count"), ("io_links", "io_links_count")]
            {
                let said = properties.lines().find_map(|line| line.strip_prefix(count)).unwrap().trim().parse();
                assert_eq!(Ok(names(&tree, &format!("{folder}/{kind}")).len()), said, "{folder}/{kind}");
            }
        }
    }

    #[test]
    fn other_paths_are_not_ours() {
        for path in ["/dev/null", "/sys/class/net", "/tmp/dev/kfd", ""] {
            assert!(!may_be_ours(path.as_bytes()), "{path}");
        }
        assert!(tree().find(b"/dev/dri/card7").is_none());
    }
}
