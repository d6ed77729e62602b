//! Which architectures each hipRTC knows. HIP 5 ends the whole process when asked for one it does not know, so we ask
//! this table first; HIP 6 and later return an error and are left to speak for themselves.

use crate::error::{Error, Result};

/// Architectures by the first HIP 5 release whose compiler knows them.
const SINCE: &[(u32, &[&str])] = &[
    (
        0,
        &[
            "gfx700", "gfx701", "gfx702", "gfx703", "gfx704", "gfx705", "gfx801", "gfx802", "gfx803", "gfx805",
            "gfx810", "gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909", "gfx90a", "gfx90c", "gfx1010",
            "gfx1011", "gfx1012", "gfx1013", "gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035",
        ],
    ),
    (2, &["gfx1036"]),
    (3, &["gfx940", "gfx1100", "gfx1101", "gfx1102", "gfx1103"]),
    (6, &["gfx941", "gfx942"]),
];

/// Refuses an architecture that would end the process.
pub(crate) fn check((major, minor): (u32, u32), arch: &str) -> Result<()> {
    if major != 5 {
        return Ok(());
    }
    let base = arch.split(':').next().unwrap_or_default();
    let known: Vec<&str> =
        SINCE.iter().filter(|(since, _)| *since <= minor).flat_map(|(_, names)| *names).copied().collect();
    if known.contains(&base) {
        return Ok(());
    }
    Err(Error::refused(format!(
        "the run-time compiler of HIP {major}.{minor} does not know {base:?}; it knows {}. Use a newer ROCm, or code objects built ahead of time",
        known.join(", ")
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
}
