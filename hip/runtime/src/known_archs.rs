//! Which architectures each hipRTC knows. HIP 5 ends the whole process when asked for one it does not know, or for a
//! feature that the architecture lacks, so we ask this table first; HIP 6 and later return an error and are left to speak
//! for themselves. The rows up to 5.2 were tried one by one with that release.

use crate::error::{Error, Result};

/// What an architecture can be asked for after its name, as in `gfx90a:sramecc+:xnack-`.
type Features = &'static [&'static str];
const NONE: Features = &[];
const XNACK: Features = &["xnack"];
const BOTH: Features = &["sramecc", "xnack"];

/// Architectures with their features, by the first HIP 5 release whose compiler knows them.
const SINCE: &[(u32, Features, &[&str])] = &[
    (0, NONE, &["gfx700", "gfx701", "gfx702", "gfx703", "gfx704", "gfx705", "gfx802", "gfx803", "gfx805"]),
    (0, XNACK, &["gfx801", "gfx810", "gfx900", "gfx902", "gfx904", "gfx909", "gfx90c"]),
    (0, BOTH, &["gfx906", "gfx908", "gfx90a"]),
    (0, XNACK, &["gfx1010", "gfx1011", "gfx1012", "gfx1013"]),
    (0, NONE, &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035"]),
    (2, NONE, &["gfx1036"]),
    (3, BOTH, &["gfx940"]),
    (3, NONE, &["gfx1100", "gfx1101", "gfx1102", "gfx1103"]),
    (6, BOTH, &["gfx941", "gfx942"]),
];

/// Refuses an architecture that would end the process.
pub(crate) fn check((major, minor): (u32, u32), arch: &str) -> Result<()> {
    if major != 5 {
        return Ok(());
    }
    let mut parts = arch.split(':');
    let base = parts.next().unwrap_or_default();
    let known = SINCE.iter().filter(|(since, ..)| *since <= minor);
    let Some((_, features, _)) = known.clone().find(|(.., names)| names.contains(&base)) else {
        let names: Vec<&str> = known.flat_map(|(.., names)| *names).copied().collect();
        return Err(Error::refused(format!(
            "the run-time compiler of HIP {major}.{minor} does not know {base:?}; it knows {}. Use a newer ROCm, or code objects built ahead of time",
            names.join(", ")
        )));
    };
    let asked: Vec<&str> = parts.collect();
    let signed = |feature: &&str| feature.strip_suffix(['+', '-']).filter(|name| features.contains(name)).is_some();
    if asked.iter().all(signed) {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{base} cannot be compiled as {arch:?}: after its name it takes {}",
        match features {
            [] => "nothing".to_owned(),
            _ => format!("{}, each followed by + or -", features.join(" and ")),
        }
    )))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn only_hip_5_is_second_guessed() {
        assert!(check((5, 2), "gfx90a:sramecc+:xnack-").is_ok());
        let error = check((5, 2), "gfx1100").unwrap_err().to_string();
        assert!(error.contains("gfx1100") && error.contains("gfx1030"), "{error}");
        assert!(check((5, 4), "gfx1100").is_ok());
        assert!(check((6, 3), "gfx9999").is_ok());
    }

    #[test]
    fn a_feature_that_would_end_the_process_is_refused() {
        for arch in ["gfx1030:xnack+", "gfx900:sramecc+", "gfx90a:xnack", "gfx906:foo+", "gfx90a:"] {
            assert!(check((5, 2), arch).is_err(), "{arch}");
        }
        assert!(check((5, 2), "gfx1012:xnack-").is_ok());
    }
}
