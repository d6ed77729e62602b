//! What is said on standard error when `KFD_LOG` asks for it.

/// Prints a line where the level is asked for.
macro_rules! log {
    ($level:expr, $($text:tt)*) => {
        if $crate::config::config().is_some_and(|config| config.log >= $level) {
            eprintln!("kfd: {}", format_args!($($text)*));
        }
    };
}
pub(crate) use log;
