//! What `cargo rocm` does with a project: which of its packages are replaced, decided by its lock file. Every reason not to is a
//! sentence here.

use crate::failure::{Failure, Result};
use crate::grafted::{self, CUDARC};
use crate::lock::Locked;
use crate::packages::{Grafted, Packages};
use crate::project::Project;
use std::path::Path;

/// What is to be done.
#[derive(Debug)]
pub struct Plan {
    /// The packages to replace; none when the project does that itself.
    pub patches: Vec<Grafted>,
    /// What the caller has to know beside it.
    pub notes: Vec<String>,
}

/// A package of Candle that is locked to a release without a grafted package, where a later one of the project's choice has one.
#[derive(Debug, PartialEq)]
pub struct Move {
    pub name: String,
    pub from: String,
    pub to: String,
}

/// What has to move in a copy of the lock file so that grafted packages fit it. Cargo would take each of these releases for the other.
pub fn moves(lock: &[Locked], packages: &Packages, project: &Project) -> Vec<Move> {
    let of_candle = |package: &&Locked| package.of_registry() && package.name != CUDARC && project.patched.is_empty();
    let to = |package: &Locked| {
        let known = packages.versions(&package.name);
        let later = known.iter().find(|known| compatible(known, &package.version) && is_later(known, &package.version));
        later.filter(|_| !known.contains(&package.version.as_str())).map(|to| (*to).to_owned())
    };
    let moved = lock.iter().filter(of_candle).filter_map(|package| {
        Some(Move { name: package.name.clone(), from: package.version.clone(), to: to(package)? })
    });
    moved.collect()
}

/// Decides by the project's lock file.
pub fn decide(lock: &[Locked], packages: &Packages, project: &Project) -> Result<Plan> {
    let cores: Vec<&Locked> = lock.iter().filter(|package| package.name == "candle-core").collect();
    if let Some((name, what)) = project.patched.first() {
        let note = format!(
            "the project's own [patch] of {name} ({what}) is used, and not the packages of cargo rocm: remove one of the two"
        );
        return Ok(Plan { patches: vec![], notes: vec![note] });
    }
    if cores.is_empty() {
        return Err(Failure::input(format!(
            "{} does not use Candle: no candle-core among its {} packages. `cargo add candle-core@{}` adds it, and `cargo rocm new NAME` makes a project that has it",
            project.root.display(),
            lock.len(),
            packages.versions("candle-core").last().unwrap_or(&""),
        )));
    }
    if let Some(core) = cores.iter().find(|core| !core.of_registry()) {
        return outside_the_registry(core, packages, project);
    }

    let mut plan = Plan { patches: vec![], notes: vec![] };
    for core in &cores {
        match packages.get("candle-core", &core.version) {
            Some(package) => plan.patches.push(package.clone()),
            None => plan.notes.push(unknown(core, packages, &project.root)),
        }
    }
    if plan.patches.is_empty() {
        return Err(Failure::input(plan.notes.remove(0)));
    }
    // The other packages of a release go with candle-core, and with no other release of it.
    for package in lock.iter().filter(|package| package.of_registry() && package.name != "candle-core") {
        let counterparts = packages.all.iter().filter(|known| known.name == package.name);
        let Some(counterpart) = counterparts.into_iter().find(|known| compatible(&known.version, &package.version))
        else {
            continue;
        };
        if package.name == CUDARC {
            match used_beside_candle(lock) {
                true if counterpart.version == package.version => plan.patches.push(counterpart.clone()),
                true => plan.notes.push(format!(
                    "the project uses cudarc {} itself, which stays NVIDIA's: `cargo update cudarc --precise {}` lets cargo rocm replace it",
                    package.version, counterpart.version
                )),
                false => {}
            }
        } else if counterpart.version == package.version {
            plan.patches.push(counterpart.clone());
        } else {
            return Err(Failure::input(unknown(package, packages, &project.root)));
        }
    }
    Ok(plan)
}

/// A candle-core of a folder or a repository.
fn outside_the_registry(core: &Locked, packages: &Packages, project: &Project) -> Result<Plan> {
    match &core.source {
        // A patch in a configuration file, a path, or a member of the workspace.
        None => {
            let note = format!(
                "candle-core {} comes from a folder of the project's own choice, and cargo rocm leaves it as it is",
                core.version
            );
            Ok(Plan { patches: vec![], notes: vec![note] })
        }
        Some(source) => Err(Failure::input(format!(
            "{} takes candle-core from {}; cargo rocm can replace releases of crates.io: {}",
            project.root.display(),
            source.split(['?', '#']).next().unwrap_or(source),
            list(&packages.versions("candle-core")),
        ))),
    }
}

/// The sentence for a release that has no grafted package.
fn unknown(package: &Locked, packages: &Packages, root: &Path) -> String {
    let versions = packages.versions(&package.name);
    let near = versions.iter().find(|known| compatible(known, &package.version));
    let advice = match near {
        Some(near) => format!("`cargo update {} --precise {near}` brings the project there", package.name),
        None => format!("ask for {} = \"{}\" in its manifest", package.name, versions.last().unwrap_or(&"")),
    };
    format!(
        "{} is locked to {} {}, and this cargo rocm has {}: {advice}",
        root.display(),
        package.name,
        package.version,
        list(&versions),
    )
}

/// `0.9.2, 0.10.2 and 0.11.1`.
fn list(words: &[&str]) -> String {
    match words {
        [others @ .., before, last] => {
            others.iter().map(|word| format!("{word}, ")).collect::<String>() + before + " and " + last
        }
        words => words.concat(),
    }
}

/// Whether cargo takes one for the other: the first number that is not 0 is the same, and what stands before it.
fn compatible(a: &str, b: &str) -> bool {
    let significant = |version: &str| {
        let core = version.split(['-', '+']).next().unwrap_or_default().to_owned();
        let mut numbers: Vec<String> = Vec::new();
        for number in core.split('.') {
            numbers.push(number.to_owned());
            if number != "0" {
                break;
            }
        }
        numbers
    };
    significant(a) == significant(b)
}

/// Of two compatible releases, whether `a` is the later one.
fn is_later(a: &str, b: &str) -> bool {
    let numbers = |version: &str| -> Vec<u64> { version.split('.').map_while(|number| number.parse().ok()).collect() };
    numbers(a) > numbers(b)
}

/// Whether somebody else than Candle uses cudarc: neither its own packages nor those whose features for CUDA it turns on, of which a
/// lock file has the generator `ug` also where that is off.
fn used_beside_candle(lock: &[Locked]) -> bool {
    let own = |name: &str| {
        grafted::NAMES.contains(&name) || ["candle-kernels", "candle-ug", "float8", "ug-cuda"].contains(&name)
    };
    lock.iter().any(|package| !own(&package.name) && package.needs.iter().any(|need| need == CUDARC))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock;

    fn packages() -> Packages {
        let all = [
            ("candle-core", "0.9.2"),
            ("candle-core", "0.10.2"),
            ("candle-nn", "0.10.2"),
            ("candle-core", "0.11.1"),
            ("candle-nn", "0.11.1"),
            (CUDARC, "0.19.10"),
        ];
        let all = all.map(|(name, version)| Grafted { name: name.into(), version: version.into(), path: name.into() });
        Packages { root: "clone".into(), all: all.into() }
    }

    /// The plan for a lock file with these packages: name, version, source, one dependency.
    fn plan(rows: &[(&str, &str, &str, &str)], patched: &[(&str, &str)]) -> Result<Plan> {
        let mut text = String::from("version = 4\n");
        for (name, version, source, need) in rows {
            text += &format!("[[package]]\nname = {name:?}\nversion = {version:?}\n");
            if !source.is_empty() {
                text += &format!("source = {source:?}\n");
            }
            text += &format!("dependencies = [{need:?}]\n");
        }
        let patched = patched.iter().map(|(name, what)| (name.to_string(), what.to_string())).collect();
        let project = Project { root: "app".into(), manifests: vec![], patched };
        decide(&lock::read(&text).unwrap(), &packages(), &project)
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.patches.iter().map(|package| package.name.as_str()).collect()
    }

    const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

    #[test]
    fn what_the_lock_file_has_is_replaced() {
        let core = ("candle-core", "0.11.1", REGISTRY, "cudarc");
        let driver = ("cudarc", "0.19.10", REGISTRY, "half");
        let plan_of = |rows: &[_]| plan(rows, &[]).unwrap();
        assert_eq!(names(&plan_of(&[core, driver])), ["candle-core"]);
        assert_eq!(
            names(&plan_of(&[core, driver, ("candle-nn", "0.11.1", REGISTRY, "candle-core")])),
            ["candle-core", "candle-nn"]
        );
        // The generator that 0.10 has for CUDA, with a cudarc of its own, and what 0.9 asks of float8.
        let ten = [
            ("candle-core", "0.10.2", REGISTRY, "cudarc"),
            ("float8", "0.6.1", REGISTRY, "cudarc"),
            ("ug-cuda", "0.5.0", REGISTRY, "cudarc"),
            ("cudarc", "0.17.8", REGISTRY, "half"),
            driver,
        ];
        assert_eq!(names(&plan_of(&ten)), ["candle-core"]);
        assert!(plan_of(&ten).notes.is_empty());
        let app = ("app", "0.1.0", "", "cudarc");
        assert_eq!(names(&plan_of(&[app, core, driver])), ["candle-core", "cudarc"]);
        let older = plan_of(&[app, core, ("cudarc", "0.19.7", REGISTRY, "half")]);
        assert!(older.notes[0].contains("cargo update cudarc --precise 0.19.10"), "{older:?}");
        let newer = plan_of(&[app, core, ("cudarc", "0.20.0", REGISTRY, "half")]);
        assert!(newer.notes.is_empty() && newer.patches.len() == 1);
    }

    #[test]
    fn a_release_without_packages_is_a_sentence() {
        let error = plan(&[("candle-core", "0.8.4", REGISTRY, "half")], &[]).unwrap_err().sentence;
        assert!(
            error.contains("locked to candle-core 0.8.4") && error.contains("has 0.9.2, 0.10.2 and 0.11.1: ask for"),
            "{error}"
        );
        for (locked, near) in [("0.11.0", "0.11.1"), ("0.10.1", "0.10.2"), ("0.9.1", "0.9.2")] {
            let error = plan(&[("candle-core", locked, REGISTRY, "half")], &[]).unwrap_err().sentence;
            assert!(error.contains(&format!("`cargo update candle-core --precise {near}`")), "{error}");
        }
        let rows = [("candle-core", "0.11.1", REGISTRY, "half"), ("candle-nn", "0.11.0", REGISTRY, "half")];
        let error = plan(&rows, &[]).unwrap_err().sentence;
        assert!(error.contains("`cargo update candle-nn --precise 0.11.1`"), "{error}");
    }

    #[test]
    fn an_earlier_release_moves_to_the_one_with_packages() {
        let project = |patched: &[(&str, &str)]| Project {
            root: "app".into(),
            manifests: vec![],
            patched: patched.iter().map(|(name, what)| (name.to_string(), what.to_string())).collect(),
        };
        let row = |name: &str, version: &str, source: &str| {
            let source = if source.is_empty() { String::new() } else { format!("source = {source:?}\n") };
            format!("[[package]]\nname = {name:?}\nversion = {version:?}\n{source}")
        };
        let lock = lock::read(
            &("version = 4\n".to_owned()
                + &row("candle-core", "0.10.1", REGISTRY)
                + &row("candle-core", "0.11.1", REGISTRY)
                + &row("candle-core", "0.8.4", REGISTRY)
                + &row("candle-nn", "0.11.0", REGISTRY)
                + &row("candle-nn", "0.11.9", REGISTRY)
                + &row("candle-nn", "0.10.1", "")
                + &row("cudarc", "0.19.7", REGISTRY)
                + &row("half", "2.4.0", REGISTRY)),
        )
        .unwrap();
        let moved = |name: &str, from: &str, to: &str| Move { name: name.into(), from: from.into(), to: to.into() };
        assert_eq!(
            moves(&lock, &packages(), &project(&[])),
            [moved("candle-core", "0.10.1", "0.10.2"), moved("candle-nn", "0.11.0", "0.11.1")]
        );
        assert_eq!(moves(&lock, &packages(), &project(&[("candle-nn", "../nn")])), []);
    }

    #[test]
    fn of_several_releases_each_known_one_is_replaced() {
        let rows = [
            ("candle-core", "0.10.2", REGISTRY, "half"),
            ("candle-core", "0.11.1", REGISTRY, "half"),
            ("candle-core", "0.8.4", REGISTRY, "half"),
            ("candle-nn", "0.10.2", REGISTRY, "candle-core"),
        ];
        let plan = plan(&rows, &[]).unwrap();
        let patches: Vec<_> = plan.patches.iter().map(|patch| (patch.name.as_str(), patch.version.as_str())).collect();
        assert_eq!(patches, [("candle-core", "0.10.2"), ("candle-core", "0.11.1"), ("candle-nn", "0.10.2")]);
        assert!(plan.notes[0].contains("locked to candle-core 0.8.4"), "{plan:?}");
    }

    #[test]
    fn what_the_project_patches_itself_stays() {
        let core = ("candle-core", "0.11.1", REGISTRY, "half");
        let own = plan(&[core], &[("candle-core", "../clone/candle/candle-core")]).unwrap();
        assert!(own.patches.is_empty() && own.notes[0].contains("(../clone/candle/candle-core) is used"), "{own:?}");
        let folder = plan(&[("candle-core", "0.11.1", "", "half")], &[]).unwrap();
        assert!(folder.patches.is_empty() && folder.notes[0].contains("leaves it as it is"), "{folder:?}");
        let git = ("candle-core", "0.11.1", "git+https://example.org/candle?rev=1#2", "half");
        let error = plan(&[git], &[]).unwrap_err().sentence;
        assert!(
            error.contains("from git+https://example.org/candle; cargo rocm can replace releases of crates.io"),
            "{error}"
        );
    }

    #[test]
    fn a_project_without_candle_is_a_sentence() {
        let error = plan(&[("half", "2.5.0", REGISTRY, "crunchy")], &[]).unwrap_err();
        assert!(error.sentence.contains("app does not use Candle") && error.code == 3, "{error}");
    }

    #[test]
    fn releases_are_compatible_as_cargo_has_it() {
        for (a, b, same) in [
            ("0.11.1", "0.11.0", true),
            ("0.11.1", "0.10.2", false),
            ("1.2.0", "1.9.1", true),
            ("1.0.0", "2.0.0", false),
        ] {
            assert_eq!(compatible(a, b), same, "{a} and {b}");
        }
    }
}
