//! The cache folder, and memory.

use super::machine::Machine;
use super::Line;
use candle_rocm_kernels::Cache;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Where compiled kernels are kept.
pub fn cache(machine: &Machine) -> Vec<Line> {
    const CHECK: &str = "cache";
    let Some(folder) = &machine.cache else {
        return vec![Line::warning(
            CHECK,
            "there is no folder to keep compiled kernels in, so every start may compile them again",
            "set HOME, XDG_CACHE_HOME or CANDLE_ROCM_CACHE",
        )];
    };
    let place = folder.display();
    vec![match Cache::at(folder) {
        Err(why) => Line::warning(
            CHECK,
            format!("{place} is not used: {why}; every start may compile kernels again"),
            "mend it, or name another folder with CANDLE_ROCM_CACHE",
        ),
        Ok(cache) if !cache.is_writable() => Line::warning(
            CHECK,
            format!("{place} cannot be written to: what is in it is used, what is compiled is not kept"),
            "make it writable (or free space on its disk), or name another folder with CANDLE_ROCM_CACHE",
        ),
        Ok(_) => {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let sizes: Vec<u64> = entries
                .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "object"))
                .filter_map(|entry| entry.metadata().ok().map(|metadata| metadata.len()))
                .collect();
            let mib = sizes.iter().sum::<u64>().div_ceil(MIB);
            Line::ok(CHECK, format!("{place}: {} objects, {mib} MiB", sizes.len()))
        }
    }]
}

/// Free memory, of the machine and of its GPUs.
pub fn memory(machine: &Machine) -> Vec<Line> {
    const CHECK: &str = "memory";
    let mut lines = Vec::new();
    let available = machine.read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?.trim().to_owned();
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
    });
    match available {
        Some(bytes) if bytes < GIB => lines.push(Line::warning(
            CHECK,
            format!("only {} MiB of the machine's memory are free", bytes / MIB),
            "a model's weights pass through it on their way to the GPU; end what you do not need",
        )),
        Some(bytes) => lines.push(Line::ok(CHECK, format!("{:.1} GiB of the machine's memory are free", gib(bytes)))),
        None => {}
    }
    // From the driver, so that it can be said when the runtime does not start.
    for card in machine.list("/sys/class/drm") {
        let number = |file: &str| machine.read(&format!("/sys/class/drm/{card}/device/{file}"))?.parse::<u64>().ok();
        let (Some(total), Some(used)) = (number("mem_info_vram_total"), number("mem_info_vram_used")) else { continue };
        if card.contains('-') || !card.starts_with("card") {
            continue;
        }
        let free = total.saturating_sub(used);
        let found = format!("{card}: {:.1} of {:.1} GiB of its memory are free", gib(free), gib(total));
        lines.push(if total < 2 * GIB {
            Line::warning(
                CHECK,
                format!("{found}; this is a processor's own GPU"),
                "it also uses the machine's memory; the firmware's setup may let you give it more of its own",
            )
        } else if free < total / 10 {
            Line::warning(CHECK, found, "another program holds it; `rocm-smi --showpids` shows which")
        } else {
            Line::ok(CHECK, found)
        });
    }
    if let Ok(devices) = &machine.devices {
        lines.extend(devices.iter().filter(|seen| seen.total > 0).map(|seen| {
            Line::ok(
                CHECK,
                format!("{}: {:.1} of {:.1} GiB can be used", seen.name, gib(seen.free as u64), gib(seen.total as u64)),
            )
        }));
    }
    lines
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB as f64
}
