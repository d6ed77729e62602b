//! With the feature `upstream-tests`, copies the tests of upstream's release of this package into `OUT_DIR`; nothing else is taken
//! from it. Without, nobody needs that release.

fn main() {
    // Something has to be said, or cargo watches the whole folder; this script itself it watches anyway.
    println!("cargo::rerun-if-env-changed=CANDLE_UPSTREAM_SRC");
    #[cfg(feature = "upstream-tests")]
    if let Err(error) = tests::copy() {
        for line in error.lines() {
            println!("cargo::error={line}");
        }
        std::process::exit(1);
    }
}

#[cfg(feature = "upstream-tests")]
mod tests {
    use candle_graft::upstream::locate;
    use std::path::PathBuf;

    pub fn copy() -> Result<(), String> {
        let variable = |name: &str| std::env::var(name).map_err(|_| format!("cargo did not set {name}"));
        let output = PathBuf::from(variable("OUT_DIR")?);
        let (name, version) = (variable("CARGO_PKG_NAME")?, variable("CARGO_PKG_VERSION")?);
        let source = locate(&name, &version, &output.join("upstream")).map_err(|error| error.to_string())?;
        let (from, to) = (source.join("tests/flash_attn_tests.rs"), output.join("flash_attn_tests.rs"));
        std::fs::copy(&from, &to).map_err(|error| format!("cannot copy {}: {error}", from.display()))?;
        Ok(())
    }
}
