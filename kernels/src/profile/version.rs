//! Names of architectures as numbers that can be compared: the one place where a plan reads such a name.

/// Makers whose versions are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Nvidia,
    Amd,
    Embedded,
}

/// `sm_90` is (Nvidia, 90), `gfx90a` is (Amd, 0x90a), `gfx1100` is (Amd, 0xb00), `host` is (Embedded, 0). Modes such as `:xnack-` do
/// not count. `None` for anything else.
pub(crate) fn parse(arch: &str) -> Option<(Family, u32)> {
    let base = arch.split(':').next().unwrap_or_default();
    if base == "host" {
        return Some((Family::Embedded, 0));
    }
    if let Some(version) = base.strip_prefix("sm_") {
        // `sm_90a` is `sm_90` with features that are not compatible.
        let version = version.trim_end_matches(|c: char| c.is_ascii_lowercase());
        return Some((Family::Nvidia, version.parse().ok()?));
    }
    // The last two digits are minor version and stepping, in hexadecimal; what is before them is the major version, in decimal.
    let digits = base.strip_prefix("gfx")?;
    let at = digits.len().checked_sub(2).filter(|&at| at > 0 && digits.is_ascii())?;
    let (major, rest) = digits.split_at(at);
    let major: u32 = major.parse().ok().filter(|major| *major < 1 << 8)?;
    Some((Family::Amd, major << 8 | u32::from_str_radix(rest, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbers() {
        let known = [
            ("sm_75", (Family::Nvidia, 75)),
            ("sm_90a", (Family::Nvidia, 90)),
            ("sm_120", (Family::Nvidia, 120)),
            ("gfx906", (Family::Amd, 0x906)),
            ("gfx90a:sramecc+:xnack-", (Family::Amd, 0x90a)),
            ("gfx1036", (Family::Amd, 0xa36)),
            ("gfx1201", (Family::Amd, 0xc01)),
            ("host", (Family::Embedded, 0)),
        ];
        for (name, version) in known {
            assert_eq!(parse(name), Some(version), "{name}");
        }
        for name in ["", "sm_", "sm_x", "gfx", "gfx9", "gfx90", "gfxzzz", "gfx9é0", "gfx11-generic", "radeon", "hosts"]
        {
            assert_eq!(parse(name), None, "{name}");
        }
    }
}
