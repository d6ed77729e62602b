//! `candle-rocm launch`: starts a program several times on this machine, once for each GPU, with the variables by which torchrun tells a
//! process its rank. The ranks end together: signals reach all of them, and when one fails the others are ended.

use crate::failure::{Code, Failure, Result};
use crate::terminal;
use std::ffi::OsString;
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How many processes, and of what.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Processes to start: one for each GPU
    #[arg(long, short, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    nproc_per_node: u16,
    /// Port at which rank 0 waits for the others; otherwise one that is free
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..65535))]
    master_port: Option<u16>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// All ranks are on this machine.
const ADDRESS: &str = "127.0.0.1";
/// How many devices the embedded platform presents; GPUs do not know it.
const EMBEDDED_DEVICES: &str = "HIP_HOST_DEVICES";
/// torchrun's own mark, by which ranks take the port after the one they are told.
const OF_TORCHRUN: &str = "TORCHELASTIC_USE_AGENT_STORE";
/// How long ranks may take to end when they were asked to; torchrun gives them as much.
const GRACE: Duration = Duration::from_secs(30);
/// The loop looks again after that, should a signal be missed.
const PAUSE: Duration = Duration::from_millis(500);

/// Starts the ranks and waits for all of them. Where one fails, the process ends with its exit code.
pub fn run(arguments: Arguments) -> Result<()> {
    let Some((program, rest)) = arguments.program.split_first() else {
        return Err(Failure::usage("name a program behind --"));
    };
    let (count, name) = (usize::from(arguments.nproc_per_node), program.to_string_lossy());
    let port = match arguments.master_port {
        Some(port) => port,
        None => free_port()?,
    };
    let signals = Signals::hold()?;
    let mut ranks = Ranks { all: Vec::with_capacity(count) };
    for rank in 0..count {
        let mut command = Command::new(program);
        command.args(rest).env("MASTER_ADDR", ADDRESS).env("MASTER_PORT", port.to_string()).env_remove(OF_TORCHRUN);
        for (variable, value) in
            [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", count), ("LOCAL_WORLD_SIZE", count)]
        {
            command.env(variable, value.to_string());
        }
        if std::env::var_os(EMBEDDED_DEVICES).is_none() {
            command.env(EMBEDDED_DEVICES, count.to_string());
        }
        // A group of its own, which is what signals are sent to: the program may be a shell with children. Such a group cannot read from
        // the terminal, and of a pipe only one process can make sense.
        command.process_group(0);
        if rank > 0 || std::io::IsTerminal::is_terminal(&std::io::stdin()) {
            command.stdin(Stdio::null());
        }
        signals.set_free(&mut command);
        match command.spawn() {
            Ok(child) => ranks.all.push((rank, child)),
            Err(error) => {
                ranks.end(&signals)?;
                return Err(Failure::input(format!("{name} does not start: {error}")));
            }
        }
    }
    let Some(failure) = ranks.wait(&signals)? else { return Ok(()) };
    terminal::fail(&match failure {
        Ended::Rank(rank, status) => format!("rank {rank} of {count} {}; the others were ended", describe(status)),
        Ended::Signal(signal) => {
            format!("{} was passed on to all {count} ranks, which have ended", signal_name(signal))
        }
    });
    std::process::exit(match failure {
        Ended::Rank(_, status) => status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1),
        Ended::Signal(signal) => 128 + signal,
    })
}

/// A port that nobody listens at now.
fn free_port() -> Result<u16> {
    let found = TcpListener::bind((ADDRESS, 0)).and_then(|listener| listener.local_addr());
    found.map(|address| address.port()).map_err(|error| {
        Failure::new(Code::Device, format!("no port of {ADDRESS} is free ({error}); name one with --master-port"))
    })
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by {}", signal_name(signal)),
        (None, None) => format!("ended with {status}"),
    }
}

/// Why ranks are no longer waited for.
enum Ended {
    Rank(usize, ExitStatus),
    Signal(libc::c_int),
}

/// The ranks that have not ended.
struct Ranks {
    all: Vec<(usize, Child)>,
}

impl Ranks {
    /// Waits until all have ended, passing signals on; what was wrong first.
    fn wait(&mut self, signals: &Signals) -> Result<Option<Ended>> {
        let (mut first, mut limit) = (None, None::<Instant>);
        loop {
            if let (Some((rank, status)), None) = (self.reap()?, &first) {
                first = Some(Ended::Rank(rank, status));
                self.send(libc::SIGTERM);
                limit = Some(Instant::now() + GRACE);
            }
            if self.all.is_empty() {
                return Ok(first);
            }
            if limit.is_some_and(|limit| Instant::now() >= limit) {
                self.send(libc::SIGKILL);
            }
            match signals.next(PAUSE) {
                Some(libc::SIGCHLD) | None => {}
                Some(signal) => {
                    self.send(signal);
                    if Signals::ENDING.contains(&signal) {
                        first.get_or_insert(Ended::Signal(signal));
                        limit.get_or_insert_with(|| Instant::now() + GRACE);
                    }
                }
            }
        }
    }

    /// Ends those that have been started, where not all could be.
    fn end(&mut self, signals: &Signals) -> Result<()> {
        self.send(libc::SIGTERM);
        self.wait(signals).map(drop)
    }

    /// Takes those away that have ended; the first of them that failed.
    fn reap(&mut self) -> Result<Option<(usize, ExitStatus)>> {
        let (mut failed, mut running) = (None, Vec::with_capacity(self.all.len()));
        for (rank, mut child) in self.all.drain(..) {
            match child.try_wait() {
                Ok(None) => running.push((rank, child)),
                Ok(Some(status)) if status.success() => {}
                Ok(Some(status)) => _ = failed.get_or_insert((rank, status)),
                Err(error) => {
                    return Err(Failure::new(Code::Device, format!("rank {rank} cannot be waited for: {error}")))
                }
            }
        }
        self.all = running;
        Ok(failed)
    }

    /// Sends a signal to each rank and its children.
    fn send(&self, signal: libc::c_int) {
        for (_, child) in &self.all {
            // SAFETY: the call takes any numbers. The group is our child's, and its number nobody else's before the child is waited for.
            unsafe { libc::kill(-(child.id() as libc::pid_t), signal) };
        }
    }
}

/// Signals that are not delivered but fetched. So none comes between two steps, and no handler runs.
struct Signals {
    held: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    /// After these, everything has to end.
    const ENDING: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
    /// These mean what the program makes of them.
    const OTHERS: [libc::c_int; 2] = [libc::SIGUSR1, libc::SIGUSR2];

    /// Holds them back from now on, but for those that this process was told to ignore.
    fn hold() -> Result<Self> {
        // SAFETY: sets of signals are plain numbers, initialised by `sigemptyset` before they are used; the places are ours.
        let (outcome, held, before) = unsafe {
            let (mut held, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&mut held);
            libc::sigaddset(&mut held, libc::SIGCHLD);
            for signal in Self::ENDING.into_iter().chain(Self::OTHERS) {
                let mut action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &mut action);
                if action.sa_sigaction != libc::SIG_IGN {
                    libc::sigaddset(&mut held, signal);
                }
            }
            (libc::pthread_sigmask(libc::SIG_BLOCK, &held, &mut before), held, before)
        };
        match outcome {
            0 => Ok(Self { held, before }),
            error => {
                let error = std::io::Error::from_raw_os_error(error);
                Err(Failure::new(Code::Device, format!("signals cannot be held back: {error}")))
            }
        }
    }

    /// The child gets signals as this process did before, and SIGTERM should this process be killed.
    fn set_free(&self, command: &mut Command) {
        let (before, parent) = (self.before, std::process::id());
        let prepare = move || {
            // SAFETY: all of these may be called between `fork` and `exec`; the set is initialised.
            let lost = unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong);
                libc::getppid() as u32 != parent
            };
            if lost {
                return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        };
        // SAFETY: the closure makes system calls only and allocates nothing.
        unsafe { command.pre_exec(prepare) };
    }

    /// The next one, or nothing in that time.
    fn next(&self, within: Duration) -> Option<libc::c_int> {
        let within =
            libc::timespec { tv_sec: within.as_secs() as libc::time_t, tv_nsec: within.subsec_nanos() as libc::c_long };
        // SAFETY: the set and the time are initialised, and nothing else is wanted.
        let signal = unsafe { libc::sigtimedwait(&self.held, std::ptr::null_mut(), &within) };
        (signal > 0).then_some(signal)
    }
}

fn signal_name(signal: libc::c_int) -> String {
    let known = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGTERM, "SIGTERM"),
    ];
    let name = known.iter().find(|(number, _)| *number == signal).map(|(_, name)| (*name).to_owned());
    name.unwrap_or_else(|| format!("signal {signal}"))
}
