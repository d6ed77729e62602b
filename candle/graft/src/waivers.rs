//! Operations of CUDA's that need no hook, each with its reason. The list is short on purpose: a waiver is written for named
//! releases, and in those it must excuse something, or the graft fails and asks for its removal.

/// An excuse for an operation without a hook: it is left out, and its trait's default answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiver {
    /// Releases of Candle the waiver was written for.
    pub releases: &'static [&'static str],
    /// The file, relative to the crate.
    pub file: &'static str,
    /// The operation, as `Type::function`.
    pub what: &'static str,
    /// Why no hook is needed.
    pub why: &'static str,
}

const CORE: &[Waiver] = &[Waiver {
    releases: &["0.9.2", "0.10.2", "0.11.0"],
    file: "src/custom_op.rs",
    what: "UgIOp1::cuda_fwd",
    why: "the ug code generator has no ROCm target; the trait's default says so",
}];

/// The waivers for a crate of Candle.
pub fn for_crate(name: &str) -> &'static [Waiver] {
    match name {
        "candle-core" => CORE,
        _ => &[],
    }
}

/// The waivers in force, and which of them have been needed so far.
pub(crate) struct Waivers<'a> {
    version: &'a str,
    entries: Vec<(&'a Waiver, bool)>,
}

impl<'a> Waivers<'a> {
    /// All waivers may excuse; those written for `version` must.
    pub fn new(waivers: &'a [Waiver], version: &'a str) -> Self {
        Waivers { version, entries: waivers.iter().map(|waiver| (waiver, false)).collect() }
    }

    /// Whether an operation is excused; remembers that the waiver was needed.
    pub fn excuse(&mut self, file: &str, what: &str) -> bool {
        let entry = self.entries.iter_mut().find(|(waiver, _)| waiver.file == file && waiver.what == what);
        entry.is_some_and(|(_, needed)| {
            *needed = true;
            true
        })
    }

    /// Waivers that were needed, as "file: what".
    pub fn needed(&self) -> Vec<String> {
        self.named(|_, needed| needed)
    }

    /// Waivers written for this release that excused nothing.
    pub fn stale(&self) -> Vec<String> {
        self.named(|waiver, needed| !needed && waiver.releases.contains(&self.version))
    }

    fn named(&self, wanted: impl Fn(&Waiver, bool) -> bool) -> Vec<String> {
        let chosen = self.entries.iter().filter(|(waiver, needed)| wanted(waiver, *needed));
        chosen.map(|(waiver, _)| format!("{}: {}", waiver.file, waiver.what)).collect()
    }
}
