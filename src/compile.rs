//! `candle-rocm compile`: code objects for AMD GPUs without one at hand, as files (`--out`) or into the disk cache
//! (`--warm`), and a table of what the compiler made of the kernels. How a module is compiled is the kernels' business.

use crate::failure::{Code, Failure, Result};
use candle_rocm_kernels::arch::Arch;
use candle_rocm_kernels::metadata::{self, Summary};
use candle_rocm_kernels::{objects, parallel, topology, Id, Module, ALL_IDS};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What to compile, and where it goes.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Targets, such as gfx1030,gfx90a:xnack-,gfx11-generic; `native`: this machine's GPUs, `all`: what people have
    #[arg(long, value_name = "LIST")]
    arch: Option<String>,
    /// Write `<module>-<target>.hsaco` files into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "warm", required_unless_present = "warm")]
    out: Option<PathBuf>,
    /// Fill the disk cache, so that the first use of a kernel does not wait for the compiler; without --arch, for the
    /// devices at hand
    #[arg(long)]
    warm: bool,
    /// Only these modules, such as unary,quantized
    #[arg(long, value_name = "LIST")]
    module: Option<String>,
}

/// One code object, as the table shows it.
struct Row {
    module: &'static str,
    target: String,
    bytes: usize,
    seconds: f64,
    summary: Summary,
    origin: Option<String>,
}

/// Compiles, and prints the table.
pub fn run(arguments: Arguments) -> Result<()> {
    let modules = chosen(arguments.module.as_deref())?;
    let start = Instant::now();
    let rows = match &arguments.out {
        Some(folder) => files(folder, arguments.arch.as_deref().unwrap_or("native"), &modules)?,
        None => warm(arguments.arch.as_deref(), &modules)?,
    };
    print!("{}", table(&rows, start.elapsed().as_secs_f64()));
    Ok(())
}

/// The modules to compile, those with the most kernels first, so that the last to finish is a short one.
fn chosen(list: Option<&str>) -> Result<Vec<&'static Module>> {
    let mut modules: Vec<&Module> = ALL_IDS.iter().map(|id: &Id| id.module()).collect();
    if let Some(list) = list {
        let names = candle_rocm_kernels::arch::split_list(list);
        if let Some(unknown) = names.iter().find(|name| !modules.iter().any(|module| module.name == **name)) {
            let there: Vec<&str> = modules.iter().map(|module| module.name).collect();
            return Err(usage(format!("there is no module {unknown:?}; the modules are {}", there.join(", "))));
        }
        modules.retain(|module| names.contains(&module.name));
    }
    modules.sort_by_key(|module| std::cmp::Reverse(module.source.len() * module.kernels.len()));
    Ok(modules)
}

fn files(folder: &Path, list: &str, modules: &[&'static Module]) -> Result<Vec<Row>> {
    let clang = objects::clang().map_err(|why| Failure::new(Code::Device, why))?;
    let targets = topology::targets(list, clang.archs(), Path::new("/")).map_err(usage)?;
    targets.iter().try_for_each(|arch| clang.check(arch)).map_err(usage)?;
    eprintln!("compiling with {} ({})", clang.program().display(), clang.version());
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::input(format!("the folder {} cannot be made: {error}", folder.display())))?;
    each(&targets, modules, |module, arch| {
        let object = clang.compile(module.name, module.source, arch).map_err(|why| Failure::new(Code::Device, why))?;
        // A colon is not for every file system.
        let path = folder.join(format!("{}-{arch}.hsaco", module.name).replace(':', "_"));
        std::fs::write(&path, &object)
            .map_err(|error| Failure::input(format!("{} cannot be written: {error}", path.display())))?;
        Ok((object.into(), None))
    })
}

fn warm(list: Option<&str>, modules: &[&'static Module]) -> Result<Vec<Row>> {
    let cache = objects::cache().filter(|cache| cache.is_writable());
    if cache.is_none() {
        let sentence = "the cache folder cannot be used, so there is nothing to fill; `candle-rocm doctor` says why";
        return Err(Failure::new(Code::Device, sentence));
    }
    if let Some(list) = list {
        let known = objects::clang().map(|clang| clang.archs().to_vec()).unwrap_or_default();
        let targets = topology::targets(list, &known, Path::new("/")).map_err(usage)?;
        return each(&targets, modules, |module, arch| {
            let object = objects::for_arch(module, &arch.to_string())?;
            Ok((object.bytes, Some(object.origin.to_string())))
        });
    }
    let platform = hip::Platform::detect()?;
    let mut devices = platform.devices()?;
    devices.dedup_by(|a, b| a.arch() == b.arch());
    each(&devices, modules, |module, device| {
        let object = objects::for_device(device, module)?;
        Ok((object.bytes, Some(object.origin.to_string())))
    })
}

/// What a table row needs to know of a target.
trait Target: Sync {
    fn name(&self) -> String;
}

impl Target for Arch {
    fn name(&self) -> String {
        self.to_string()
    }
}

impl Target for hip::Device {
    fn name(&self) -> String {
        self.arch().to_owned()
    }
}

type Made = (std::borrow::Cow<'static, [u8]>, Option<String>);

fn each<T: Target>(
    targets: &[T],
    modules: &[&'static Module],
    make: impl Fn(&Module, &T) -> Result<Made> + Sync,
) -> Result<Vec<Row>> {
    let jobs: Vec<_> = targets.iter().flat_map(|target| modules.iter().map(move |&module| (module, target))).collect();
    let rows = Mutex::new(Vec::new());
    parallel::for_each(&jobs, parallel::cores(), |&(module, target)| {
        let start = Instant::now();
        let (object, origin) = make(module, target)?;
        let seconds = start.elapsed().as_secs_f64();
        // The embedded device's objects have no such metadata; their kernels are the registry's.
        let summary = match metadata::kernels(&object) {
            Ok(kernels) => Summary::of(&kernels),
            Err(_) => Summary { kernels: module.kernels.len(), ..Summary::default() },
        };
        let row = Row { module: module.name, target: target.name(), bytes: object.len(), seconds, summary, origin };
        rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
        Ok::<(), Failure>(())
    })?;
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    rows.sort_by(|a, b| (&a.target, a.module).cmp(&(&b.target, b.module)));
    Ok(rows)
}

fn table(rows: &[Row], seconds: f64) -> String {
    let mut text = format!(
        "{:<11} {:<24} {:>7} {:>9} {:>7} {:>5} {:>9} {:>6}\n",
        "module", "target", "kernels", "KiB", "seconds", "VGPRs", "LDS bytes", "spills"
    );
    for row in rows {
        let Summary { kernels, most_vgprs, most_shared_bytes, spills } = row.summary;
        text += &format!(
            "{:<11} {:<24} {kernels:>7} {:>9} {:>7.1} {most_vgprs:>5} {most_shared_bytes:>9} {spills:>6}{}\n",
            row.module,
            row.target,
            row.bytes.div_ceil(1024),
            row.seconds,
            row.origin.as_ref().map_or_else(String::new, |origin| format!("  {origin}"))
        );
    }
    let bytes: usize = rows.iter().map(|row| row.bytes).sum();
    let kernels: usize = rows.iter().map(|row| row.summary.kernels).sum();
    text + &format!("{} objects, {kernels} kernels, {} KiB, {seconds:.1} s in all\n", rows.len(), bytes.div_ceil(1024))
}

fn usage(sentence: String) -> Failure {
    Failure::new(Code::Usage, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_chosen_by_name() {
        let names = |list| chosen(list).map(|modules| modules.iter().map(|module| module.name).collect::<Vec<_>>());
        assert_eq!(names(Some("fill, unary")).unwrap(), ["unary", "fill"]);
        assert_eq!(names(None).unwrap().len(), ALL_IDS.len());
        let failure = names(Some("unary,unarry")).unwrap_err();
        assert!(
            failure.code == Code::Usage && failure.sentence.contains("unarry") && failure.sentence.contains("unary")
        );
    }

    #[test]
    fn a_target_that_the_compiler_does_not_know_is_a_usage_error_that_lists_those_it_knows() {
        let Ok(clang) = objects::clang() else { return };
        let folder = std::env::temp_dir().join(format!("candle-rocm-compile-{}", std::process::id()));
        let modules = chosen(Some("fill")).unwrap();
        for list in ["gfx9999", "radeon", "gfx90a:fast+"] {
            let failure = files(&folder, list, &modules).map(|_| ()).unwrap_err();
            assert!(failure.code == Code::Usage, "{failure}");
        }
        let failure = files(&folder, "gfx9999", &modules).map(|_| ()).unwrap_err();
        assert!(clang.archs().iter().all(|arch| failure.sentence.contains(arch)), "{failure}");
        assert!(!folder.exists(), "nothing was begun");
    }

    #[test]
    fn objects_are_written_and_described() {
        if objects::clang().is_err() {
            return;
        }
        let folder = std::env::temp_dir().join(format!("candle-rocm-compiled-{}", std::process::id()));
        let rows = files(&folder, "gfx1030,gfx90a:xnack-", &chosen(Some("rope")).unwrap()).unwrap();
        assert!(folder.join("rope-gfx1030.hsaco").exists() && folder.join("rope-gfx90a_xnack-.hsaco").exists());
        let text = table(&rows, 1.5);
        for part in ["rope", "gfx1030", "gfx90a:xnack-", "spills", "2 objects"] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        assert!(rows.iter().all(|row| row.summary.kernels > 0 && row.summary.most_vgprs > 0));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
