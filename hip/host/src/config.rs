//! What the embedded device looks like: how many devices, their wave size, memory and threads, checked or not. Comes from
//! [`configure`] or else from the environment, is settled at first use, and never changes after that.

use crate::exec::Order;
use crate::target::Target;
use std::sync::{Mutex, OnceLock};

/// Compute units of an emulated GPU where nothing else is asked for.
const EMULATED_UNITS: u32 = 8;

/// How the embedded device presents itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of virtual devices (`HIP_HOST_DEVICES`, default 1). They share the machine's threads and memory.
    pub devices: usize,
    /// Wave sizes, 32 or 64, cycled over the devices (`HIP_HOST_WAVE`, default 32).
    pub wave_sizes: Vec<u32>,
    /// What the devices run, cycled over them (`HIP_HOST_ARCH`, such as `host` or `gfx1100,gfx90a`; default `host`). An architecture of
    /// AMD's is a GPU in software, which runs the machine code that a card would.
    pub targets: Vec<Target>,
    /// How emulated GPUs run: how exact their approximate operations are (`HIP_HOST_ACCURACY`: `exact`, `coarse`, `up` or `down`), and
    /// after how many instructions a wave gives way to another (`HIP_HOST_SWITCH`, such as 100; 0 is at barriers only, but in shuffled orders
    /// of checked mode 100). What `checked` and `order` ask for comes on top.
    #[cfg(feature = "emulator")]
    pub emulator: vgpu::Options,
    /// One instruction that emulated GPUs find replaced (`HIP_HOST_EDIT`, such as `KERNEL+0x1c8=nothing`), to see whether a test would notice.
    #[cfg(feature = "emulator")]
    pub edit: Option<vgpu::Edit>,
    /// Compute units that emulated GPUs report, cycled over the devices; what is planned depends on it. 8 where the list is empty: few,
    /// so that small work fills them, and fixed, so that plans do not depend on the machine.
    pub units: Vec<u32>,
    /// Whether errors in kernels are looked for (`HIP_HOST_CHECKED=1`). Slower. The embedded device needs kernels compiled for it, and finds bad
    /// memory accesses. Emulated GPUs run the same machine code, and find undefined values, races and missing waits as well.
    pub checked: bool,
    /// Threads that run the blocks of a grid (`HIP_HOST_THREADS`, default: one per processor).
    pub threads: usize,
    /// Bytes of memory of each device (`HIP_HOST_MEMORY`, such as `8G`; default: the machine's physical memory).
    pub memory: u64,
    /// Which of the devices a program sees, in its order (`ROCR_VISIBLE_DEVICES`, then `HIP_VISIBLE_DEVICES`); all when `None`.
    pub visible: Option<Vec<usize>>,
    /// In which order threads and blocks run (`HIP_HOST_ORDER`: `ascending`, `descending` or `random:SEED`). When `None`: ascending, and
    /// in checked mode all of them in turn, from launch to launch.
    pub order: Option<Order>,
    /// Whether every launch waits until the kernel is done (`HIP_LAUNCH_BLOCKING=1`).
    pub launch_blocking: bool,
}

impl Default for Options {
    /// One unchecked device of wave size 32 with all of the machine, whatever the environment says.
    fn default() -> Self {
        Self {
            devices: 1,
            wave_sizes: vec![32],
            targets: vec![Target::Host],
            #[cfg(feature = "emulator")]
            emulator: vgpu::Options::default(),
            #[cfg(feature = "emulator")]
            edit: None,
            units: Vec::new(),
            checked: false,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory: physical_memory(),
            visible: None,
            order: None,
            launch_blocking: false,
        }
    }
}

impl Options {
    /// The options that the environment asks for. The error is a sentence that names the variable and its value.
    pub fn from_env() -> Result<Self, String> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let mut options = Self::default();
        if let Some(value) = set("HIP_HOST_ARCH") {
            options.targets = Target::list(&value).map_err(|why| format!("HIP_HOST_ARCH={value}: {why}"))?;
            options.devices = options.targets.len();
        }
        #[cfg(feature = "emulator")]
        {
            if let Some(value) = set("HIP_HOST_SWITCH") {
                let wanted = "a number of instructions, such as 100, or 0";
                options.emulator.switch_every = value.parse().map_err(|_| bad("HIP_HOST_SWITCH", &value, wanted))?;
            }
            if let Some(value) = set("HIP_HOST_ACCURACY") {
                options.emulator.accuracy = match value.as_str() {
                    "exact" => vgpu::Accuracy::Exact,
                    "coarse" => vgpu::Accuracy::Coarse,
                    "up" => vgpu::Accuracy::Up,
                    "down" => vgpu::Accuracy::Down,
                    _ => return Err(bad("HIP_HOST_ACCURACY", &value, "exact, coarse, up or down")),
                };
            }
        }
        #[cfg(feature = "emulator")]
        if let Some(value) = set("HIP_HOST_EDIT") {
            let wanted = "an instruction of a kernel, such as KERNEL+0x1c8=nothing or KERNEL+0x1c8=stop";
            options.edit = Some(value.parse().map_err(|()| bad("HIP_HOST_EDIT", &value, wanted))?);
        }
        if let Some(value) = set("HIP_HOST_DEVICES") {
            options.devices =
                value.parse().map_err(|_| bad("HIP_HOST_DEVICES", &value, "a number of devices, such as 2"))?;
        }
        if let Some(value) = set("HIP_HOST_WAVE") {
            let sizes: Result<Vec<u32>, _> = value.split(',').map(|size| size.trim().parse()).collect();
            options.wave_sizes = sizes.map_err(|_| bad("HIP_HOST_WAVE", &value, "32, 64 or a list such as 32,64"))?;
        }
        if let Some(value) = set("HIP_HOST_CHECKED") {
            options.checked = switch("HIP_HOST_CHECKED", &value)?;
        }
        if let Some(value) = set("HIP_HOST_THREADS") {
            options.threads =
                value.parse().map_err(|_| bad("HIP_HOST_THREADS", &value, "a number of threads, such as 8"))?;
        }
        if let Some(value) = set("HIP_HOST_MEMORY") {
            options.memory =
                bytes(&value).ok_or_else(|| bad("HIP_HOST_MEMORY", &value, "a size, such as 512M or 8G"))?;
        }
        if let Some(value) = set("HIP_HOST_ORDER") {
            let wanted = "ascending, descending or random:SEED with a number, such as random:1";
            options.order = Some(value.parse().map_err(|()| bad("HIP_HOST_ORDER", &value, wanted))?);
        }
        if let Some(value) = set("HIP_LAUNCH_BLOCKING") {
            options.launch_blocking = switch("HIP_LAUNCH_BLOCKING", &value)?;
        }
        let mut visible: Vec<usize> = (0..options.devices).collect();
        for name in ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"] {
            // Set but empty means "none", as with AMD's runtime, so this one is not filtered.
            if let Some(value) = variable(name) {
                visible = select(&visible, &value);
                options.visible = Some(visible.clone());
            }
        }
        options.validate()?;
        Ok(options)
    }

    /// Refuses what no device could be made from.
    fn validate(&self) -> Result<(), String> {
        if !(1..=64).contains(&self.devices) {
            return Err(format!(
                "the embedded device offers 1 to 64 devices, not {}; set HIP_HOST_DEVICES accordingly",
                self.devices
            ));
        }
        if self.wave_sizes.is_empty() || self.wave_sizes.iter().any(|size| ![32, 64].contains(size)) {
            return Err(format!(
                "wave sizes are 32 or 64, not {:?}; set HIP_HOST_WAVE to 32, 64 or 32,64",
                self.wave_sizes
            ));
        }
        if self.targets.is_empty() {
            return Err("a device runs code for some target; set HIP_HOST_ARCH to host or gfx1100".to_owned());
        }
        if !(1..=1024).contains(&self.threads) {
            return Err(format!(
                "the embedded device runs on 1 to 1024 threads, not {}; set HIP_HOST_THREADS accordingly",
                self.threads
            ));
        }
        if self.units.iter().any(|units| !(1..=4096).contains(units)) {
            return Err(format!("an emulated GPU has 1 to 4096 compute units, not {:?}", self.units));
        }
        if self.memory < 1 << 20 {
            return Err(format!(
                "a device needs at least 1 MiB of memory, not {} bytes; set HIP_HOST_MEMORY accordingly",
                self.memory
            ));
        }
        if let Some(out) = self.visible.iter().flatten().find(|ordinal| **ordinal >= self.devices) {
            return Err(format!("device {out} cannot be visible: there are {} devices", self.devices));
        }
        Ok(())
    }

    /// Target, wave size and compute units, if emulated, of each visible device, in the order in which the program sees them.
    pub(crate) fn visible_devices(&self) -> Vec<(Target, u32, u32)> {
        let all: Vec<usize> = (0..self.devices).collect();
        let seen = self.visible.as_ref().unwrap_or(&all);
        let device = |ordinal: &usize| {
            let target = self.targets[ordinal % self.targets.len()];
            let units = self.units.get(ordinal % self.units.len().max(1)).copied().unwrap_or(EMULATED_UNITS);
            (target, target.wave(self.wave_sizes[ordinal % self.wave_sizes.len()]), units)
        };
        seen.iter().map(device).collect()
    }
}

static SETTLED: OnceLock<Result<Options, String>> = OnceLock::new();
static SETTLING: Mutex<()> = Mutex::new(());

/// Sets the options instead of taking them from the environment. Fails when an option is out of range, or when the embedded
/// device is in use already: call it before the first HIP call of the process.
pub fn configure(options: Options) -> Result<(), String> {
    options.validate()?;
    let _settling = SETTLING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match SETTLED.get() {
        None => SETTLED
            .set(Ok(options))
            .map_err(|_| "the embedded device was configured at the same time elsewhere".to_owned()),
        Some(Ok(settled)) if *settled == options => Ok(()),
        Some(_) => Err("the embedded device is in use already; configure it before the first HIP call".to_owned()),
    }
}

/// The options in force, settled now if they were not. The error says which environment variable is wrong.
pub fn options() -> Result<&'static Options, &'static str> {
    let settled = SETTLED.get_or_init(|| {
        let read = Options::from_env();
        if let Err(why) = &read {
            log::error!("the embedded device cannot start: {why}");
        }
        read
    });
    settled.as_ref().map_err(String::as_str)
}

fn bad(name: &str, value: &str, wanted: &str) -> String {
    format!("{name}={value} is not {wanted}")
}

fn switch(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "1" | "true" | "on" | "yes" => Ok(true),
        "0" | "false" | "off" | "no" => Ok(false),
        _ => Err(bad(name, value, "0 or 1")),
    }
}

/// `512M`, `8G`, `8GiB` or plain bytes.
fn bytes(value: &str) -> Option<u64> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = value[digits.len()..].to_ascii_uppercase();
    let shift = match unit.trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Picks from `from` by a list of indices. AMD's runtime ends the list at the first entry it cannot use, and so does this.
fn select(from: &[usize], list: &str) -> Vec<usize> {
    let picked =
        list.split(',').map_while(|entry| entry.trim().parse::<usize>().ok().and_then(|index| from.get(index)));
    let mut seen = Vec::new();
    for ordinal in picked {
        if seen.contains(ordinal) {
            break;
        }
        seen.push(*ordinal);
    }
    seen
}

fn physical_memory() -> u64 {
    // SAFETY: sysconf only reads.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    // A machine that does not say gets a modest 4 GiB.
    u64::try_from(pages).ok().zip(u64::try_from(size).ok()).map_or(4 << 30, |(pages, size)| pages * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Options, String> {
        Options::from_variables(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_environment_is_read() {
        let options =
            read(&[("HIP_HOST_DEVICES", "3"), ("HIP_HOST_WAVE", "32,64"), ("HIP_HOST_MEMORY", "512M")]).unwrap();
        assert_eq!((options.devices, options.memory), (3, 512 << 20));
        let waves: Vec<u32> = options.visible_devices().iter().map(|(_, wave, _)| *wave).collect();
        assert_eq!(waves, [32, 64, 32]);
        let mixed = read(&[("HIP_HOST_ARCH", "host,gfx1100,gfx90a")]).unwrap();
        let seen: Vec<String> =
            mixed.visible_devices().iter().map(|(target, wave, _)| format!("{target} {wave}")).collect();
        assert_eq!(seen, ["host 32", "gfx1100 32", "gfx90a 64"]);
        assert_eq!(read(&[("HIP_HOST_ORDER", "random:7")]).unwrap().order, Some(Order::Random(7)));
        assert_eq!(read(&[("HIP_HOST_MEMORY", "2GiB")]).unwrap().memory, 2 << 30);
    }

    #[test]
    fn visible_devices_are_chosen_in_order_and_end_at_the_first_bad_entry() {
        let visible =
            |set: &[(&str, &str)]| read(&[&[("HIP_HOST_DEVICES", "4")], set].concat()).unwrap().visible.unwrap();
        assert_eq!(visible(&[("HIP_VISIBLE_DEVICES", "2,0")]), [2, 0]);
        assert_eq!(visible(&[("HIP_VISIBLE_DEVICES", "1,9,0")]), [1]);
        assert_eq!(visible(&[("ROCR_VISIBLE_DEVICES", "3,1"), ("HIP_VISIBLE_DEVICES", "1")]), [1]);
        assert_eq!(visible(&[("HIP_VISIBLE_DEVICES", "")]), [0usize; 0]);
        assert_eq!(visible(&[("HIP_VISIBLE_DEVICES", "-1")]), [0usize; 0]);
    }

    #[test]
    fn bad_values_are_named() {
        for (name, value) in [
            ("HIP_HOST_DEVICES", "many"),
            ("HIP_HOST_DEVICES", "0"),
            ("HIP_HOST_WAVE", "48"),
            ("HIP_HOST_CHECKED", "maybe"),
            ("HIP_HOST_THREADS", "0"),
            ("HIP_HOST_MEMORY", "8 apples"),
            ("HIP_HOST_ORDER", "sideways"),
            ("HIP_HOST_ARCH", "gfx7"),
            ("HIP_HOST_ACCURACY", "roughly"),
            ("HIP_HOST_SWITCH", "often"),
            ("HIP_HOST_EDIT", "softmax"),
            ("HIP_HOST_EDIT", "softmax+0x10=faster"),
        ] {
            let why = read(&[(name, value)]).expect_err(name);
            assert!(why.contains(name), "{why}");
        }
    }
}
