//! AMD's targets by name: what `gfx90a:sramecc+:xnack-` says, which code objects run on which GPU, and how names come from
//! the driver's numbers. Nothing here asks a machine or runs a compiler. The build script uses this file too.

/// The targets that `all` stands for, as far as the compiler at hand knows them: cards and accelerators people have, then
/// the generic targets, one for a family.
pub const ALL: &[&str] = &[
    "gfx906",
    "gfx908",
    "gfx90a",
    "gfx942",
    "gfx950",
    "gfx1010",
    "gfx1030",
    "gfx1100",
    "gfx1101",
    "gfx1102",
    "gfx1150",
    "gfx1151",
    "gfx1200",
    "gfx1201",
    "gfx9-generic",
    "gfx9-4-generic",
    "gfx10-1-generic",
    "gfx10-3-generic",
    "gfx11-generic",
    "gfx12-generic",
];

/// LLVM's generic targets with the GPUs that run their code, from LLVM's guide to the AMDGPU backend.
pub const GENERIC: &[(&str, &[&str])] = &[
    ("gfx9-generic", &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"]),
    ("gfx9-4-generic", &["gfx940", "gfx941", "gfx942", "gfx950"]),
    ("gfx10-1-generic", &["gfx1010", "gfx1011", "gfx1012", "gfx1013"]),
    ("gfx10-3-generic", &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"]),
    ("gfx11-generic", &["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"]),
    ("gfx12-generic", &["gfx1200", "gfx1201"]),
];

/// The first HIP release whose loader takes code objects for generic targets (version 6 of the format).
pub const GENERIC_SINCE: (u32, u32) = (6, 4);

/// A target: an instruction set, and the modes that were asked for or that a GPU runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arch {
    base: String,
    /// Each mode with its setting. A mode that is not listed is open in an object and not there in a GPU.
    features: Vec<(String, bool)>,
}

impl Arch {
    /// Reads a name such as `gfx1100`, `gfx90a:sramecc+:xnack-` or `gfx11-generic`. The error is a sentence.
    pub fn parse(name: &str) -> Result<Self, String> {
        let mut parts = name.trim().split(':');
        let base = parts.next().unwrap_or_default();
        let digits = base.strip_prefix("gfx").unwrap_or_default();
        let plain =
            (3..=4).contains(&digits.len()) && digits.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
        if !plain && !GENERIC.iter().any(|(generic, _)| *generic == base) {
            return Err(format!(
                "{base:?} is not the name of an AMD target; it should look like gfx1100, gfx90a:xnack- or gfx11-generic"
            ));
        }
        let mut features: Vec<(String, bool)> = Vec::new();
        for part in parts {
            let (feature, on) = match (part.strip_suffix('+'), part.strip_suffix('-')) {
                (Some(feature), _) => (feature, true),
                (_, Some(feature)) => (feature, false),
                _ => ("", false),
            };
            if !["sramecc", "xnack"].contains(&feature) || features.iter().any(|(known, _)| known == feature) {
                return Err(format!(
                    "{part:?} in {name:?} is not a mode of {base}; a target's modes are sramecc and xnack, each once and followed by + or -"
                ));
            }
            features.push((feature.to_owned(), on));
        }
        features.sort();
        Ok(Self { base: base.to_owned(), features })
    }

    /// The instruction set without modes: `gfx90a`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// True for a target that stands for a family.
    pub fn is_generic(&self) -> bool {
        self.base.ends_with("-generic")
    }

    /// Lanes of a wave as the compiler makes them: 64 up to gfx9, 32 from gfx10 on.
    pub fn wave_size(&self) -> u32 {
        // gfx9.. and the three-digit names are GCN and CDNA; gfx10 and later have two digits before the last two.
        let digits = self.base["gfx".len()..].split('-').next().unwrap_or_default();
        match (self.is_generic(), digits.len()) {
            (true, 1) | (false, 3) => 64,
            _ => 32,
        }
    }

    /// How well an object for this target suits a GPU: `None` when it cannot run there, and more for the better of two.
    pub fn suits(&self, gpu: &Arch) -> Option<usize> {
        let same = self.base == gpu.base;
        let member = GENERIC.iter().any(|(name, members)| *name == self.base && members.contains(&gpu.base.as_str()));
        // Code for an open mode runs in either; code for one setting only in that.
        let modes = self.features.iter().all(|feature| gpu.features.contains(feature));
        ((same || member) && modes).then_some(usize::from(same) * 8 + self.features.len())
    }
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.base)?;
        self.features.iter().try_for_each(|(name, on)| write!(f, ":{name}{}", if *on { '+' } else { '-' }))
    }
}

/// The generic target of a GPU's family.
pub fn generic_for(base: &str) -> Option<&'static str> {
    GENERIC.iter().find(|(_, members)| members.contains(&base)).map(|(name, _)| *name)
}

/// The names in a list as `PYTORCH_ROCM_ARCH` has them: separated by semicolons, commas or spaces.
pub fn split_list(list: &str) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for name in list.split([';', ',', ' ', '\n']).map(str::trim).filter(|name| !name.is_empty()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The name for the driver's `gfx_target_version`: 100300 is gfx1030 and 90010 is gfx90a. `None` for a CPU, which has 0.
pub fn from_target_version(version: u32) -> Option<String> {
    let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
    (major > 0).then(|| format!("gfx{major}{minor:x}{stepping:x}"))
}

/// The name for a value of `HSA_OVERRIDE_GFX_VERSION`: `10.3.0` is gfx1030.
pub fn from_override(value: &str) -> Option<String> {
    let parts: Vec<u32> = value.trim().split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    match parts[..] {
        [major, minor, stepping] if minor < 16 && stepping < 16 => {
            from_target_version(major * 10_000 + minor * 100 + stepping)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suits(object: &str, gpu: &str) -> Option<usize> {
        Arch::parse(object).unwrap().suits(&Arch::parse(gpu).unwrap())
    }

    #[test]
    fn an_object_runs_where_its_instruction_set_and_its_modes_are() {
        for (object, gpu, runs) in [
            ("gfx1030", "gfx1030", true),
            ("gfx1030", "gfx1031", false),
            ("gfx90a", "gfx90a:sramecc+:xnack-", true),
            ("gfx90a:xnack-", "gfx90a:sramecc+:xnack-", true),
            ("gfx90a:xnack+", "gfx90a:sramecc+:xnack-", false),
            ("gfx90a:xnack-:sramecc+", "gfx90a:sramecc+:xnack-", true),
            // A GPU that does not report a mode does not have it, so code for one setting of it was made for another GPU.
            ("gfx1030:xnack-", "gfx1030", false),
            ("gfx90a", "gfx908:sramecc+:xnack-", false),
            ("gfx10-3-generic", "gfx1036", true),
            ("gfx10-3-generic", "gfx1010:xnack-", false),
            ("gfx10-1-generic:xnack+", "gfx1010:xnack-", false),
            ("gfx9-generic", "gfx906:sramecc+:xnack-", true),
            // gfx908 and gfx90a are gfx9 by name and belong to no family.
            ("gfx9-generic", "gfx90a:sramecc+:xnack-", false),
            ("gfx9-4-generic", "gfx942:sramecc+:xnack-", true),
            ("gfx11-generic", "gfx1151", true),
            ("gfx12-generic", "gfx1201", true),
            ("gfx12-generic", "gfx1100", false),
        ] {
            assert_eq!(suits(object, gpu).is_some(), runs, "{object} on {gpu}");
        }
    }

    #[test]
    fn the_closest_object_is_the_best() {
        let gpu = "gfx942:sramecc+:xnack-";
        let ranked = ["gfx942:sramecc+:xnack-", "gfx942:xnack-", "gfx942", "gfx9-4-generic:xnack-", "gfx9-4-generic"];
        let ranks: Vec<_> = ranked.iter().map(|object| suits(object, gpu)).collect();
        assert!(ranks.windows(2).all(|pair| pair[0] > pair[1]) && ranks[4].is_some(), "{ranks:?}");
    }

    #[test]
    fn every_generic_member_is_a_name_and_in_one_family() {
        for (name, members) in GENERIC {
            assert!(ALL.contains(name));
            for member in *members {
                assert_eq!(generic_for(member), Some(*name));
                assert_eq!(Arch::parse(member).unwrap().wave_size(), Arch::parse(name).unwrap().wave_size());
            }
        }
        assert!(ALL.iter().all(|name| Arch::parse(name).is_ok()));
        assert_eq!(generic_for("gfx90a"), None);
    }

    #[test]
    fn names_that_mean_nothing_are_refused_with_a_sentence() {
        for name in ["", "gfx", "1030", "gfx10300", "gfxzzz", "gfx13-generic", "native", "gfx-1"] {
            assert!(Arch::parse(name).unwrap_err().contains("not the name of an AMD target"), "{name:?}");
        }
        for name in ["gfx90a:", "gfx90a:xnack", "gfx90a:foo+", "gfx90a:xnack+:xnack-"] {
            assert!(Arch::parse(name).unwrap_err().contains("is not a mode"), "{name:?}");
        }
        assert_eq!(Arch::parse("gfx90a:xnack-:sramecc+").unwrap().to_string(), "gfx90a:sramecc+:xnack-");
    }

    #[test]
    fn numbers_of_the_driver_become_names() {
        for (number, name) in
            [(100300, "gfx1030"), (90010, "gfx90a"), (90402, "gfx942"), (110501, "gfx1151"), (120001, "gfx1201")]
        {
            assert_eq!(from_target_version(number).as_deref(), Some(name));
        }
        assert_eq!(from_target_version(0), None);
        assert_eq!(from_override("10.3.0").as_deref(), Some("gfx1030"));
        assert_eq!(from_override("9.0.10").as_deref(), Some("gfx90a"));
        for wrong in ["", "10.3", "gfx1030", "10.3.x", "10.3.99"] {
            assert_eq!(from_override(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn lists_are_split_as_people_write_them() {
        assert_eq!(split_list("gfx1030;gfx1100"), ["gfx1030", "gfx1100"]);
        assert_eq!(split_list(" gfx90a:xnack-, gfx1030  gfx1030;"), ["gfx90a:xnack-", "gfx1030"]);
        assert!(split_list(" ; ").is_empty());
    }

    #[test]
    fn waves_are_as_wide_as_the_family_has_them() {
        for (name, wave) in
            [("gfx906", 64), ("gfx942", 64), ("gfx9-4-generic", 64), ("gfx1030", 32), ("gfx12-generic", 32)]
        {
            assert_eq!(Arch::parse(name).unwrap().wave_size(), wave, "{name}");
        }
    }
}
