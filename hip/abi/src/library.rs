//! How a library becomes a table: the `library!` macro, where libraries are looked for, and what is said when none fits.
//! Nothing here knows HIP; rocBLAS, MIOpen and the rest are declared with the same macro.

use std::ffi::c_void;
use std::fmt;
use std::path::{Path, PathBuf};

/// Declares a library: its names on disk, its versions from the newest, and its functions with their C signatures.
/// `optional` functions become `Option`s. Makes the table struct and its loader, and nothing else.
#[macro_export]
macro_rules! library {
    (
        $(#[$doc:meta])*
        pub struct $table:ident in [$($stem:literal),+] versions [$($version:literal),*] {
            $($body:tt)*
        }
    ) => {
        $crate::library!(@split [$(#[$doc])*] $table [$($stem),+] [$($version),*] [] [] $($body)*);
    };
    (@split $docs:tt $table:ident $stems:tt $versions:tt [$($required:tt)*] [$($optional:tt)*]
        optional fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty; $($rest:tt)*) => {
        $crate::library!(@split $docs $table $stems $versions [$($required)*]
            [$($optional)* { $name ($($arg: $type),*) $ret }] $($rest)*);
    };
    (@split $docs:tt $table:ident $stems:tt $versions:tt [$($required:tt)*] [$($optional:tt)*]
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty; $($rest:tt)*) => {
        $crate::library!(@split $docs $table $stems $versions
            [$($required)* { $name ($($arg: $type),*) $ret }] [$($optional)*] $($rest)*);
    };
    (@split [$(#[$doc:meta])*] $table:ident [$($stem:literal),+] [$($version:literal),*]
        [$({ $name:ident ($($arg:ident: $type:ty),*) $ret:ty })*]
        [$({ $oname:ident ($($oarg:ident: $otype:ty),*) $oret:ty })*]) => {
        $(#[$doc])*
        ///
        /// Each field is the C function of that name; see the vendor's documentation for what it does.
        #[allow(non_snake_case, missing_docs)]
        pub struct $table {
            pub origin: $crate::Origin,
            $(pub $name: unsafe extern "C" fn($($arg: $type),*) -> $ret,)*
            $(pub $oname: Option<unsafe extern "C" fn($($oarg: $otype),*) -> $oret>,)*
        }

        impl $table {
            /// Every function of the table with its signature as written here, for checks against the vendor's headers.
            pub const FUNCTIONS: &'static [$crate::Function] = &[
                $($crate::Function {
                    name: stringify!($name),
                    optional: false,
                    arguments: &[$((stringify!($arg), stringify!($type))),*],
                    returns: stringify!($ret),
                },)*
                $($crate::Function {
                    name: stringify!($oname),
                    optional: true,
                    arguments: &[$((stringify!($oarg), stringify!($otype))),*],
                    returns: stringify!($oret),
                },)*
            ];

            /// Finds the library, loads it and resolves every symbol. A file that lacks a required symbol is passed
            /// over; the error names every file tried and why it did not do.
            pub fn load(search: &$crate::Search) -> Result<Self, $crate::LoadError> {
                Self::load_as(search, &[$($stem),+], &[$($version),*])
            }

            /// As `load`, from a library of other names that has the same functions.
            pub fn load_as(
                search: &$crate::Search,
                stems: &[&str],
                versions: &[u32],
            ) -> Result<Self, $crate::LoadError> {
                search.open(stringify!($table), stems, versions, |library, origin| {
                    Ok(Self {
                        // SAFETY: each symbol is cast to the signature that the vendor's header gives it.
                        $($name: unsafe {
                            std::mem::transmute::<
                                *mut std::ffi::c_void,
                                unsafe extern "C" fn($($arg: $type),*) -> $ret,
                            >(library.required(stringify!($name))?)
                        },)*
                        // SAFETY: as above; a missing optional symbol is `None` before any cast.
                        $($oname: library.optional(stringify!($oname)).map(|symbol| unsafe {
                            std::mem::transmute::<
                                *mut std::ffi::c_void,
                                unsafe extern "C" fn($($oarg: $otype),*) -> $oret,
                            >(symbol)
                        }),)*
                        origin,
                    })
                })
            }

            /// Where the functions of this table live.
            pub fn origin(&self) -> &$crate::Origin {
                &self.origin
            }
        }
    };
}

/// One function of a table, as text.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The C name.
    pub name: &'static str,
    /// Whether a library without it is accepted.
    pub optional: bool,
    /// Argument names and Rust types.
    pub arguments: &'static [(&'static str, &'static str)],
    /// The Rust type returned.
    pub returns: &'static str,
}

/// Where the functions of a table live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A shared library of this path (or name, where the system's own search found it).
    Library(PathBuf),
    /// An implementation inside this program.
    BuiltIn(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(path) => write!(f, "{}", path.display()),
            Self::BuiltIn(name) => write!(f, "{name}, built in"),
        }
    }
}

/// A file that was tried and did not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The file, as it was given to the loader.
    pub file: PathBuf,
    /// Why it did not do.
    pub why: String,
}

/// No library could be loaded.
#[derive(Clone, Debug)]
pub struct LoadError {
    /// The table that was to be filled.
    pub table: &'static str,
    /// Every file tried, in order.
    pub tried: Vec<Tried>,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no usable library for {}; tried", self.table)?;
        for (position, Tried { file, why }) in self.tried.iter().enumerate() {
            write!(f, "{} {}: {why}", if position == 0 { "" } else { ";" }, file.display())?;
        }
        write!(f, ". Install ROCm, or set ROCM_PATH to the folder it is in")
    }
}

impl std::error::Error for LoadError {}

/// Where to look for AMD's libraries.
#[derive(Clone, Debug)]
pub struct Search {
    /// A file to load and no other.
    pub file: Option<PathBuf>,
    /// Folders to look into before the system's own search.
    pub folders: Vec<PathBuf>,
}

impl Default for Search {
    /// `ROCM_PATH`, `HIP_PATH`, `/opt/rocm` and `/opt/rocm/core-*`, each with `lib` and `lib64`; then the system's own search.
    fn default() -> Self {
        let mut roots: Vec<PathBuf> = ["ROCM_PATH", "HIP_PATH"]
            .iter()
            .filter_map(std::env::var_os)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
            .collect();
        roots.push("/opt/rocm".into());
        roots.extend(core_folders(Path::new("/opt/rocm")));
        let leaves: &[&str] = if cfg!(windows) { &["bin"] } else { &["lib", "lib64"] };
        let folders = roots.iter().flat_map(|root| leaves.iter().map(|leaf| root.join(leaf)));
        Self { file: None, folders: folders.collect() }
    }
}

/// ROCm 7's per-version folders inside `root`, the newest first.
fn core_folders(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core-")))
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found
}

/// A loaded shared library, for the loaders that `library!` writes.
#[doc(hidden)]
pub struct Opened(libloading::Library);

impl Opened {
    pub fn required(&self, name: &str) -> Result<*mut c_void, String> {
        self.optional(name).ok_or_else(|| format!("it has no symbol {name}"))
    }

    pub fn optional(&self, name: &str) -> Option<*mut c_void> {
        // SAFETY: only the address is taken here; the caller casts it to the function's real type.
        let symbol = unsafe { self.0.get::<*mut c_void>(name.as_bytes()) }.ok()?;
        Some(*symbol).filter(|address| !address.is_null())
    }
}

impl Search {
    /// Only this file.
    pub fn only(file: impl Into<PathBuf>) -> Self {
        Self { file: Some(file.into()), folders: Vec::new() }
    }

    /// The files to try for a library, in order.
    pub fn candidates(&self, stems: &[&str], versions: &[u32]) -> Vec<PathBuf> {
        if let Some(file) = &self.file {
            return vec![file.clone()];
        }
        let mut names: Vec<String> = Vec::new();
        for stem in stems {
            if cfg!(windows) {
                names.extend(versions.iter().map(|version| format!("{stem}_{version}.dll")));
                names.push(format!("{stem}.dll"));
            } else {
                names.extend(versions.iter().map(|version| format!("lib{stem}.so.{version}")));
                names.push(format!("lib{stem}.so"));
            }
        }
        let in_folders = self.folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
        // A folder's file is only worth a line in the error when it is there; the system's own search has no such test.
        let mut all: Vec<PathBuf> = in_folders.filter(|path| path.exists()).collect();
        all.extend(names.iter().map(PathBuf::from));
        all
    }

    #[doc(hidden)]
    pub fn open<T>(
        &self,
        table: &'static str,
        stems: &[&str],
        versions: &[u32],
        fill: impl Fn(&Opened, Origin) -> Result<T, String>,
    ) -> Result<T, LoadError> {
        let mut tried = Vec::new();
        for file in self.candidates(stems, versions) {
            // SAFETY: loading a library runs its initialisers; these are the vendor's own runtime libraries, which the
            // user installed for this purpose.
            let outcome = unsafe { libloading::Library::new(&file) }
                .map_err(|error| error.to_string())
                .map(Opened)
                .and_then(|library| Ok((fill(&library, Origin::Library(real_path(&library, &file, stems)))?, library)));
            match outcome {
                Ok((filled, library)) => {
                    // The table's pointers must stay valid for the life of the process, and AMD's runtime does not
                    // survive being unloaded.
                    std::mem::forget(library);
                    return Ok(filled);
                }
                Err(why) => tried.push(Tried { file, why }),
            }
        }
        Err(LoadError { table, tried })
    }
}

/// The path of a library that the system's own search found by name, where the system tells.
#[cfg(target_os = "linux")]
fn real_path(_library: &Opened, file: &Path, _stems: &[&str]) -> PathBuf {
    if file.is_absolute() {
        return file.to_path_buf();
    }
    let name = file.to_string_lossy().into_owned();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapped = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    // The mapped name is the link's target, such as libamdhip64.so.5.2.21153 for libamdhip64.so.5.
    mapped
        .map(Path::new)
        .find(|path| path.file_name().is_some_and(|mapped| mapped.to_string_lossy().starts_with(&name)))
        .map_or_else(|| file.to_path_buf(), Path::to_path_buf)
}

#[cfg(not(target_os = "linux"))]
fn real_path(_library: &Opened, file: &Path, _stems: &[&str]) -> PathBuf {
    file.to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hip;

    #[test]
    fn a_missing_file_is_named_with_its_reason() {
        let error = Hip::load(&Search::only("/nowhere/libamdhip64.so")).err().expect("there is no such file");
        assert_eq!(error.tried.len(), 1);
        let text = error.to_string();
        assert!(text.contains("/nowhere/libamdhip64.so") && text.contains("ROCM_PATH"), "{text}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_library_without_the_symbols_is_named_with_the_first_one_missing() {
        let error = Hip::load(&Search::only("libc.so.6")).err().expect("libc is not HIP");
        assert!(error.to_string().contains("it has no symbol hipInit"), "{error}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn newer_versions_are_tried_first_and_every_name_is_listed() {
        let search = Search { file: None, folders: vec!["/nowhere/lib".into()] };
        let names = search.candidates(&["hiprtc", "amdhip64"], &[7, 6]);
        let expected = [
            "libhiprtc.so.7",
            "libhiprtc.so.6",
            "libhiprtc.so",
            "libamdhip64.so.7",
            "libamdhip64.so.6",
            "libamdhip64.so",
        ];
        assert_eq!(names, expected.map(PathBuf::from));
    }

    #[test]
    fn the_table_lists_its_functions() {
        let launch = Hip::FUNCTIONS.iter().find(|f| f.name == "hipModuleLaunchKernel").expect("it is in the table");
        assert_eq!(launch.arguments.len(), 11);
        assert_eq!(launch.returns, "hipError_t");
        assert!(Hip::FUNCTIONS.iter().any(|f| f.optional && f.name == "hipGetDevicePropertiesR0600"));
    }
}
