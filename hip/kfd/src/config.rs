//! What the environment says: which GPUs there are, and how kernels run on them.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `KFD_ARCH` | architectures of the emulated GPUs, by comma: `gfx1030,gfx90a`. Without it nothing is emulated |
//! | `KFD_MEMORY` | memory of a GPU in MiB; otherwise the card's, at most three quarters of the machine's |
//! | `KFD_THREADS` | threads that run blocks of a kernel; otherwise one a core |
//! | `KFD_TIME_LIMIT` | seconds that a kernel may run before it counts as hung; 0 is no limit, otherwise 600 |
//! | `KFD_KERNELS` | 0: kernels of programs complete without running, to measure the host's share of the time |
//! | `KFD_CHECKS` | what else is a failure, by comma: `undefined` values, `races`, missing `waits`, `local` memory out of range; `all` |
//! | `KFD_LOG` | 1: queues and failures; 2: every packet; 3: every call; to standard error |

use crate::cards::{Card, CARDS};
use std::sync::OnceLock;
use std::time::Duration;
use vgpu::Checks;

/// The settings of this process.
pub struct Config {
    /// The emulated GPUs, at least one.
    pub cards: Vec<&'static Card>,
    /// Memory of each GPU in bytes, where it is not the card's.
    pub memory: Option<u64>,
    /// Threads that run blocks.
    pub threads: usize,
    /// How long a kernel may run.
    pub time_limit: Option<Duration>,
    /// Kernels of programs run.
    pub kernels: bool,
    /// What is checked besides memory.
    pub checks: Checks,
    /// Local memory is checked too.
    pub strict_local: bool,
    /// How much is said.
    pub log: u32,
}

/// The settings, or `None` where nothing is emulated.
pub fn config() -> Option<&'static Config> {
    static CONFIG: OnceLock<Option<Config>> = OnceLock::new();
    CONFIG
        .get_or_init(|| {
            let read = |name: &str| std::env::var(name).ok();
            match parse(&read) {
                Ok(config) => config,
                Err(why) => {
                    crate::log::say!("kfd: {why}; no GPU is emulated");
                    None
                }
            }
        })
        .as_ref()
}

fn parse(read: &dyn Fn(&str) -> Option<String>) -> Result<Option<Config>, String> {
    let Some(archs) = read("KFD_ARCH").filter(|archs| !archs.is_empty()) else { return Ok(None) };
    let cards = archs
        .split(',')
        .map(|name| {
            CARDS.iter().find(|card| card.arch.name() == name.trim()).ok_or_else(|| {
                let known: Vec<_> = CARDS.iter().map(|card| card.arch.name()).collect();
                format!("KFD_ARCH names {name:?}, but {} can be emulated", known.join(", "))
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    if cards.len() > MOST_GPUS {
        return Err(format!("KFD_ARCH names {} GPUs; at most {MOST_GPUS} are emulated", cards.len()));
    }
    let number = |name: &str| match read(name).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => text.parse::<u64>().map(Some).map_err(|_| format!("{name} is {text:?}, which is no number")),
    };
    let checks = read("KFD_CHECKS").unwrap_or_default();
    const CHECKS: [&str; 5] = ["all", "undefined", "races", "waits", "local"];
    if let Some(unknown) = checks.split(',').find(|name| !name.is_empty() && !CHECKS.contains(name)) {
        return Err(format!("KFD_CHECKS names {unknown:?}; there are {}", CHECKS.join(", ")));
    }
    let checked = |name: &str| checks.split(',').any(|known| known == name || known == "all");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Some(Config {
        cards,
        memory: number("KFD_MEMORY")?.map(|mebibytes| mebibytes.clamp(64, 1 << 22) << 20),
        threads: number("KFD_THREADS")?.map_or(cores, |threads| threads.clamp(1, 256) as usize),
        time_limit: match number("KFD_TIME_LIMIT")?.unwrap_or(600) {
            0 => None,
            seconds => Some(Duration::from_secs(seconds)),
        },
        kernels: number("KFD_KERNELS")? != Some(0),
        checks: Checks { undefined: checked("undefined"), races: checked("races"), waits: checked("waits") },
        strict_local: checked("local"),
        log: number("KFD_LOG")?.unwrap_or(0).min(9) as u32,
    }))
}

/// The most GPUs of a process: a mask of 64 bits says who may see a buffer.
const MOST_GPUS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Option<Config>, String> {
        parse(&|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn nothing_is_emulated_unless_asked_for() {
        assert!(with(&[]).unwrap().is_none());
        assert!(with(&[("KFD_ARCH", "")]).unwrap().is_none());
    }

    #[test]
    fn several_gpus_and_limits() {
        let config =
            with(&[("KFD_ARCH", "gfx1030,gfx90a"), ("KFD_TIME_LIMIT", "0"), ("KFD_MEMORY", "512")]).unwrap().unwrap();
        let names: Vec<_> = config.cards.iter().map(|card| card.arch.name()).collect();
        assert_eq!(names, ["gfx1030", "gfx90a"]);
        assert_eq!((config.time_limit, config.memory), (None, Some(512 << 20)));
    }

    #[test]
    fn mistakes_are_sentences() {
        let why = with(&[("KFD_ARCH", "gfx9000")]).err().unwrap();
        assert!(why.contains("gfx9000") && why.contains("gfx1030"), "{why}");
        let why = with(&[("KFD_ARCH", "gfx1030"), ("KFD_THREADS", "many")]).err().unwrap();
        assert!(why.contains("KFD_THREADS"), "{why}");
    }
}
