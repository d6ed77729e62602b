//! The process that a person starts: it starts another one for the cases, listens to it, ends it where a case hangs, starts the next
//! behind a case that took it down, and keeps the report. It never touches the device itself.

use super::report::{Entry, Report, State};
use super::worker::MARK;
use crate::failure::{Code, Failure, Result};
use crate::terminal;
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of standard error that are kept for a case that takes its process down.
const KEPT_LINES: usize = 12;
/// How often is looked whether somebody pressed Ctrl-C, or a case takes too long.
const LOOK: Duration = Duration::from_millis(50);
/// How long a process that was killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// A machine on which so many cases end their process has told enough.
const MOST_DEATHS: usize = 25;

/// How the processes for the cases are started.
pub struct Workers {
    /// The command line, but for the case to begin with.
    pub arguments: Vec<String>,
    /// Variables of theirs.
    pub environment: Vec<(String, String)>,
    /// The longest that a case may take.
    pub limit: Duration,
}

/// How a process for cases came to its end.
enum End {
    /// All is done.
    Done,
    /// Somebody pressed Ctrl-C.
    Interrupted,
    /// Another one has to go on.
    GoOn,
}

impl Workers {
    /// Runs all cases, and keeps the report up to date.
    pub fn run(&self, report: &mut Report) -> Result<()> {
        let mut deaths = 0;
        loop {
            let before = report.entries.len();
            match self.one(report)? {
                End::Done => report.state = State::Complete,
                End::Interrupted => report.state = State::Interrupted,
                End::GoOn => {
                    deaths += usize::from(report.entries[before..].iter().any(Entry::took_its_process_down));
                    if deaths < MOST_DEATHS {
                        continue;
                    }
                    report.state =
                        State::Broken(format!("{deaths} cases took their process down; the rest was not run"));
                }
            }
            return report.write();
        }
    }

    fn one(&self, report: &mut Report) -> Result<End> {
        let from = report.entries.len();
        let cannot = |error: std::io::Error| {
            Failure::new(Code::Device, format!("the process for the cases cannot be started: {error}"))
        };
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command.args(&self.arguments).args(["--worker", &from.to_string()]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut worker = Worker::start(&mut command).map_err(cannot)?;
        let mut running: Option<Instant> = None;
        let mut since = Instant::now();
        loop {
            match worker.lines.recv_timeout(LOOK) {
                Ok(line) => {
                    let Some(message) = line.strip_prefix(MARK).and_then(|text| serde_json::from_str(text).ok()) else {
                        continue;
                    };
                    since = Instant::now();
                    if self.take(&message, &mut running, report)? {
                        worker.end();
                        return Ok(End::Done);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if terminal::interrupted() {
                        worker.end();
                        return Ok(End::Interrupted);
                    }
                    if since.elapsed() > self.limit {
                        let ended = match worker.end() {
                            Some(_) => "was ended",
                            None => "cannot even be ended: the driver holds it, and the device may need a restart",
                        };
                        let said = worker.said();
                        let why = format!("it did not end within {} s and {ended}", self.limit.as_secs());
                        return lost(report, running, "hung", &with(why, &said));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = worker.end();
                    let said = worker.said();
                    if terminal::interrupted() {
                        return Ok(End::Interrupted);
                    }
                    if running.is_none() && report.entries.len() > from {
                        return Ok(End::GoOn);
                    }
                    let status = status.map_or_else(|| "it is gone".to_owned(), |status| status.to_string());
                    return lost(report, running, "crashed", &with(format!("it ended its process: {status}"), &said));
                }
            }
        }
    }

    /// Takes a message. True when it was the last.
    fn take(&self, message: &Value, running: &mut Option<Instant>, report: &mut Report) -> Result<bool> {
        if let Some(names) = message["cases"].as_array() {
            report.names = names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
            if report.names.is_empty() {
                return Err(Failure::usage("no case matches --only; a whole run's report lists their names"));
            }
        } else if message.get("about").is_some() {
            report.about = message["about"].clone();
        } else if message.get("begin").is_some() {
            *running = Some(Instant::now());
            if terminal::is_interactive() {
                eprint!("\r\x1b[K{}/{} {}", report.entries.len() + 1, report.names.len(), report.next_name());
            }
        } else if let Some(outcome) = message["outcome"].as_str() {
            let milliseconds = running.take().map_or(0.0, |start| start.elapsed().as_secs_f64() * 1e3);
            let detail = message["detail"].as_str().unwrap_or_default();
            report.add(outcome, milliseconds, detail, message["facts"].clone())?;
        }
        Ok(message["done"] == true)
    }
}

/// The case that was running is reported, and another process goes on behind it. Where none was running, none can.
fn lost(report: &mut Report, running: Option<Instant>, outcome: &str, why: &str) -> Result<End> {
    match running {
        Some(start) => {
            report.add(outcome, start.elapsed().as_secs_f64() * 1e3, why, Value::Null)?;
            Ok(End::GoOn)
        }
        None => {
            let why = format!("the process for the cases does not start: {}", why.replace('\n', " "));
            report.state = State::Broken(why.clone());
            report.write()?;
            Err(Failure::new(Code::Device, why))
        }
    }
}

/// A sentence, and what the process said.
fn with(why: String, said: &[String]) -> String {
    match said.is_empty() {
        true => why,
        false => format!("{why}\nIts last words:\n{}", said.join("\n")),
    }
}

/// A process that runs cases.
struct Worker {
    child: Child,
    lines: Receiver<String>,
    said: Arc<Mutex<VecDeque<String>>>,
}

impl Worker {
    fn start(command: &mut Command) -> std::io::Result<Self> {
        let mut child = command.spawn()?;
        let (sender, lines) = channel();
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || each_line(out, |line| sender.send(line).is_ok()));
        }
        let said = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(errors) = child.stderr.take() {
            let said = said.clone();
            std::thread::spawn(move || {
                each_line(errors, |line| {
                    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                    if said.len() == KEPT_LINES {
                        said.pop_front();
                    }
                    said.push_back(line);
                    true
                })
            });
        }
        Ok(Self { child, lines, said })
    }

    /// Ends it if it still runs, and says how it ended. `None`: it could not be ended, as one that waits inside of a driver.
    fn end(&mut self) -> Option<ExitStatus> {
        // A moment for one that is about to end by itself.
        if let Some(status) = self.ended_within(Duration::from_millis(200)) {
            return Some(status);
        }
        // What cannot be killed has ended in between, or is seen below.
        let _ = self.child.kill();
        self.ended_within(PATIENCE)
    }

    fn ended_within(&mut self, time: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                _ if start.elapsed() > time => return None,
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// The last lines on its standard error. Nobody waits for the end: a compiler that it started may hold it open.
    fn said(&self) -> Vec<String> {
        std::thread::sleep(LOOK);
        self.said.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

fn each_line(from: impl Read, mut take: impl FnMut(String) -> bool) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    // Bytes, because a driver's last words need not be UTF-8.
    while from.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
        line.clear();
        if !take(text) {
            break;
        }
    }
}
