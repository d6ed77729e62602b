//! What is said on standard error: always, or when `KFD_LOG` asks for it.

/// Prints a line. A standard error that nobody reads any more is no reason to end the program, as `eprintln` would.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

/// Prints a line where the level is asked for.
macro_rules! log {
    ($level:expr, $($text:tt)*) => {
        if $crate::config::config().is_some_and(|config| config.log >= $level) {
            $crate::log::say!("kfd: {}", format_args!($($text)*));
        }
    };
}
pub(crate) use {log, say};
