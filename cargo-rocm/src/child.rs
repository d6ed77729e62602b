//! Running cargo as a child. What the terminal sends (Ctrl-C) reaches the child as well, and this process only waits for it; what
//! another process sends to this one is handed on. So the child decides how it ends, and what has to be put back is put back.

use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// The child that runs, or 0.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// A signal that ends everything after the child, or 0.
static ENDING: AtomicI32 = AtomicI32::new(0);

const SIGNALS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    ENDING.store(signal, Ordering::SeqCst);
    let child = CHILD.load(Ordering::SeqCst);
    // SAFETY: the system passes a valid description to a handler that was installed with SA_SIGINFO; `kill` may be called in
    // a handler, and the process is our child, which is not waited for before `CHILD` is 0 again.
    unsafe {
        // From a process, and not from the terminal, which sends it to the child itself.
        let sent = !info.is_null() && (*info).si_code <= 0;
        if sent && child > 0 {
            libc::kill(child, signal);
        }
    }
}

/// From now on signals end the child, and this process after it.
pub fn catch_signals() {
    for signal in SIGNALS {
        // SAFETY: a zeroed sigaction is an empty mask and no flags; the handler has the signature that SA_SIGINFO asks for, and
        // does only what a handler may do.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// The code to end with when a signal has come: 128 and its number, as shells have it.
pub fn ended() -> Option<i32> {
    Some(ENDING.load(Ordering::SeqCst)).filter(|signal| *signal != 0).map(|signal| 128 + signal)
}

/// A process's exit code, as shells have it.
pub fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// Runs the command to its end and returns its exit code. `done` is called once, as soon as the child has a build folder's lock
/// file open: cargo opens it when it has read Cargo.lock and written what it had to. It is called after the child's end otherwise.
pub fn run(command: &mut Command, done: impl FnOnce()) -> std::io::Result<i32> {
    let mut child = command.spawn()?;
    let process = child.id();
    CHILD.store(process as i32, Ordering::SeqCst);
    let mut done = Some(done);
    let ended = loop {
        match child.try_wait() {
            Ok(None) => {}
            ended => break ended,
        }
        if builds(process) {
            if let Some(done) = done.take() {
                done();
            }
            break Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let status = match ended {
        Ok(Some(status)) => Ok(status),
        Ok(None) => wait(&mut child),
        Err(error) => Err(error),
    };
    CHILD.store(0, Ordering::SeqCst);
    if let Some(done) = done {
        done();
    }
    Ok(code(status?))
}

/// Waits without taking the child's exit code, so that its number is nobody else's while a signal may be handed on.
fn wait(child: &mut std::process::Child) -> std::io::Result<ExitStatus> {
    // SAFETY: the call writes a zeroed description of its own and leaves the child's exit code where it is (WNOWAIT).
    let waited = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        loop {
            let result = libc::waitid(libc::P_PID, child.id(), &mut info, libc::WEXITED | libc::WNOWAIT);
            if result == 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
                break result;
            }
        }
    };
    CHILD.store(0, Ordering::SeqCst);
    if waited != 0 {
        return Err(std::io::Error::last_os_error());
    }
    child.wait()
}

/// Whether a cargo has the lock file of a build folder open, `.cargo-lock`.
fn builds(process: u32) -> bool {
    let Ok(open) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    open.flatten().any(|entry| {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(".cargo-") && name.ends_with("lock")
    })
}
