//! Are the tests and checks worth anything? Takes barriers, fences and waits out of kernels, one at a time, and runs the family of tests
//! that launches the kernel on an emulated GPU, with all checks, in a process of its own. What nobody notices is listed.
//!
//! `CANDLE_ROCM_PLATFORM=gfx1100 HIP_HOST_CHECKED=1 cargo test -p candle-rocm-kernels --test kernels mutations -- --ignored --nocapture`.
//! `MUTATIONS` is how many (default 100), `MUTATION_SEED` which ones, `MUTATION_FAMILIES` a list of families.

use super::{bench, FAMILIES};
use candle_rocm_kernels::{objects, Id, ALL_IDS};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use vgpu::{disasm, Edit, Object, With};

/// Of a hundred changes so many have to be noticed. On 2026-11-19 it were 23 of 32 in five families on gfx1100. What is not noticed is
/// mostly a barrier in front of the first use of shared memory, which a later use needs, and a wait for what has come already.
const NOTICED: usize = 60;

/// What is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Barrier,
    Fence,
    Wait,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Barrier, Self::Fence, Self::Wait];

    fn of(name: &str) -> Option<Self> {
        if name.starts_with("s_barrier") {
            Some(Self::Barrier)
        } else if ["buffer_gl", "buffer_wb", "buffer_inv", "global_inv", "global_wb"]
            .iter()
            .any(|f| name.starts_with(f))
        {
            Some(Self::Fence)
        // Hazards between instructions and idle waits are not modelled.
        } else if name.starts_with("s_wait") && !["depctr", "idle"].iter().any(|other| name.contains(other)) {
            Some(Self::Wait)
        } else {
            None
        }
    }
}

/// An instruction that can be taken out.
struct Site {
    family: &'static str,
    kernel: String,
    offset: u64,
    text: String,
}

/// The family whose tests launch a kernel, by the module's place and the kernel's name.
type Families = BTreeMap<(usize, String), &'static str>;

/// What became of a run.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// A check spoke: its first line.
    Reported(String),
    /// A result was wrong.
    Failed,
    Hung,
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value}: a number")))
}

/// The cheapest family that launches each kernel, and how long each family took. All of them run here.
fn launched_by(families: &[&'static str]) -> (Families, BTreeMap<&'static str, Duration>) {
    let bench = &bench::all()[0];
    let store = bench.kernels.store();
    let count = |id: Id, kernel: &str| {
        let function = store.function(id, kernel).expect("a loaded module").expect("a kernel of it");
        hip_host::launches(function.handle()).expect("an emulated GPU counts")
    };
    let mut order = Vec::new();
    let mut times = BTreeMap::new();
    for &family in families {
        let before: Vec<u64> = all_kernels().map(|(_, id, kernel)| count(id, kernel)).collect();
        let start = Instant::now();
        let run = FAMILIES.iter().find(|(name, _)| *name == family).expect("a family").1;
        run(&bench.apart());
        let time = start.elapsed();
        times.insert(family, time);
        let launched = all_kernels().zip(before).filter(|((_, id, kernel), before)| count(*id, kernel) > *before);
        order.push((time, family, launched.map(|((n, _, kernel), _)| (n, kernel.to_owned())).collect::<Vec<_>>()));
    }
    order.sort_by_key(|(time, ..)| *time);
    let mut map = BTreeMap::new();
    for (_, family, kernels) in order {
        for kernel in kernels {
            map.entry(kernel).or_insert(family);
        }
    }
    (map, times)
}

fn all_kernels() -> impl Iterator<Item = (usize, Id, &'static str)> {
    ALL_IDS.iter().enumerate().flat_map(|(n, &id)| id.module().kernels.iter().map(move |kernel| (n, id, *kernel)))
}

/// All that can be taken out of the kernels that the families launch.
fn sites(map: &Families) -> BTreeMap<Kind, Vec<Site>> {
    let device = bench::all()[0].kernels.device();
    let mut sites: BTreeMap<Kind, Vec<Site>> = BTreeMap::new();
    for (n, id) in ALL_IDS.iter().enumerate() {
        let bytes = objects::for_device(device, id.module()).expect("an object").bytes;
        let object = Object::load(&bytes).expect("a good object");
        for kernel in object.kernels() {
            let Some(&family) = map.get(&(n, kernel.name().to_owned())) else { continue };
            for (offset, inst) in kernel.instructions() {
                if let Some(kind) = Kind::of(inst.name()) {
                    let text = disasm::text(kernel.arch(), kernel.descriptor().wave_size, &inst);
                    let site = Site { family, kernel: kernel.name().to_owned(), offset, text };
                    sites.entry(kind).or_default().push(site);
                }
            }
        }
    }
    sites
}

fn run_with(site: &Site, with: With, limit: Duration) -> Outcome {
    let edit = Edit { kernel: site.kernel.clone(), offset: site.offset, with };
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", site.family, "--nocapture"])
        .env("HIP_HOST_EDIT", edit.to_string())
        .env("HIP_HOST_CHECKED", "1")
        .stdout(file.reopen().expect("the same file"))
        .stderr(file.reopen().expect("the same file"))
        .stdin(Stdio::null())
        .spawn()
        .expect("this program starts again");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if start.elapsed() > limit {
            child.kill().and_then(|()| child.wait()).expect("the child ends");
            return Outcome::Hung;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    if status.success() {
        return Outcome::Passed;
    }
    let text = std::fs::read(file.path()).expect("what it said");
    let text = String::from_utf8_lossy(&text);
    // A report names the instruction.
    match text.lines().find(|line| line.contains(", wave ") && line.contains(", block ")) {
        Some(line) => Outcome::Reported(line.trim().chars().take(160).collect()),
        None => Outcome::Failed,
    }
}

#[test]
#[ignore = "runs other tests a hundred times; .ci/release does so"]
fn what_is_taken_out_is_noticed() {
    let device = bench::all()[0].kernels.device();
    assert!(device.is_emulated(), "set CANDLE_ROCM_PLATFORM=gfx1100 or another emulated GPU, and HIP_HOST_CHECKED=1");
    let wanted = std::env::var("MUTATION_FAMILIES").ok();
    let wanted = |name: &str| wanted.as_ref().is_none_or(|list| list.split(',').any(|one| one == name));
    let families: Vec<&str> = FAMILIES.iter().map(|(name, _)| *name).filter(|name| wanted(name)).collect();
    let (map, times) = launched_by(&families);
    let mut sites = sites(&map);
    let (count, mut state) = (variable("MUTATIONS", 100) as usize, variable("MUTATION_SEED", 1));
    for kind in Kind::ALL {
        println!("{kind:?}: {} in the kernels that the tests launch", sites.get(&kind).map_or(0, Vec::len));
    }
    let (mut noticed, mut unseen, mut idle) = (0, Vec::new(), 0);
    let mut turn = 0;
    while noticed + unseen.len() < count && sites.values().any(|left| !left.is_empty()) {
        let kind = Kind::ALL[turn % 3];
        turn += 1;
        let Some(left) = sites.get_mut(&kind).filter(|left| !left.is_empty()) else { continue };
        // Knuth's multiplier; the high bits are the good ones.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let site = left.swap_remove((state >> 33) as usize % left.len());
        let limit = times[site.family] * 20 + Duration::from_secs(60);
        let outcome = run_with(&site, With::Nothing, limit);
        let reached = outcome != Outcome::Passed || run_with(&site, With::Stop, limit) != Outcome::Passed;
        println!("{} {}+{:#x} {}: {outcome:?}, reached: {reached}", site.family, site.kernel, site.offset, site.text);
        match (reached, outcome) {
            (false, _) => idle += 1,
            (true, Outcome::Passed) => unseen.push(site),
            (true, _) => noticed += 1,
        }
    }
    println!("{noticed} noticed, {} not, {idle} that no test reaches", unseen.len());
    for site in &unseen {
        println!("not noticed: {}+{:#x} {} (family {})", site.kernel, site.offset, site.text, site.family);
    }
    assert!(noticed * 100 >= NOTICED * (noticed + unseen.len()), "fewer than {NOTICED} of 100 were noticed");
}
