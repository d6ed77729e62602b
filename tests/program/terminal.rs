//! The program at a real pseudo-terminal: text that streams, a progress bar that fits the window, Ctrl-C, colours, a conversation.

use crate::support::*;
use rustix::termios::{tcsetwinsize, Winsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Child;

/// A program whose standard input, output and error are a terminal of its own.
struct Terminal {
    master: File,
    child: Child,
    seen: String,
}

impl Terminal {
    fn start(arguments: &[&str], columns: u16, environment: &[(&str, &str)]) -> Self {
        let (master, slave) = open_pair();
        resize(&master, columns);
        let end = || slave.try_clone().expect("a copy");
        let mut command = program();
        command.args(arguments).env("TERM", "xterm").envs(environment.iter().copied());
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: between fork and exec only two system calls are made, and nothing is allocated.
        unsafe {
            command.pre_exec(|| {
                // Only the leader of a session has a terminal that sends it Ctrl-C.
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            })
        };
        let child = command.spawn().expect("the program starts");
        Self { master: File::from(master), child, seen: String::new() }
    }

    /// Reads until a text is there.
    fn wait_for(&mut self, text: &str) {
        while !self.seen.contains(text) {
            assert!(self.read(), "{text:?} never came:\n{}", self.seen);
        }
    }

    /// Reads some more; false at the end.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 1024];
        // When the program is gone, the terminal says so with an error.
        let count = self.master.read(&mut bytes).unwrap_or(0);
        self.seen += &String::from_utf8_lossy(&bytes[..count]);
        count > 0
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("typed");
    }

    /// Everything that was shown, and the exit code.
    fn finish(mut self) -> (String, Option<i32>) {
        while self.read() {}
        (self.seen, self.child.wait().expect("it ends").code())
    }
}

/// The two ends of a new pseudo-terminal.
fn open_pair() -> (OwnedFd, OwnedFd) {
    let (mut master, mut slave) = (-1, -1);
    let null = std::ptr::null_mut();
    // SAFETY: two numbers are written; a name, settings and a size are not asked for.
    let opened = unsafe { libc::openpty(&mut master, &mut slave, null, std::ptr::null(), std::ptr::null()) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both were opened just now and belong to nobody else. They must not reach the children of other tests.
    unsafe {
        libc::fcntl(master, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(slave, libc::F_SETFD, libc::FD_CLOEXEC);
        (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    }
}

fn resize(terminal: &impl std::os::fd::AsFd, columns: u16) {
    tcsetwinsize(terminal, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).expect("resized");
}

/// The pictures of the progress bar, one after another.
fn frames(seen: &str) -> Vec<&str> {
    let drawn = seen.split("\r\x1b[K").skip(1);
    drawn.filter(|frame| frame.starts_with("loading [") && frame.ends_with('%')).collect()
}

const LONG: &[&str] = &["generate", "--prompt", "Once upon", "--max-tokens", "450"];

#[test]
fn text_streams_while_more_is_made() {
    let mut terminal = Terminal::start(LONG, 80, &[]);
    terminal.wait_for("Once upon");
    let prompt = terminal.seen.len();
    while terminal.seen.len() < prompt + 20 {
        assert!(terminal.read(), "{}", terminal.seen);
    }
    assert!(!terminal.seen.contains("tokens/s"), "the text came all at once:\n{}", terminal.seen);
    assert!(terminal.child.try_wait().expect("asked").is_none(), "the program ended before its text was read");
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("tokens/s"), "{seen}");
}

#[test]
fn ctrl_c_ends_a_text_with_its_statistics() {
    let mut terminal = Terminal::start(LONG, 80, &[]);
    terminal.wait_for("Once upon");
    terminal.read();
    terminal.press("\x03");
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(130), "{seen}");
    assert!(seen.contains("tokens/s (interrupted)"), "{seen}");
    assert!(seen.trim_end().ends_with("interrupted"), "{seen}");
    assert!(!seen.contains("panicked"), "{seen}");
}

#[test]
fn the_bar_fits_the_window_and_leaves_no_trace() {
    let file = novelist_file().display().to_string();
    for columns in [30, 100] {
        let terminal =
            Terminal::start(&["generate", "--model", &file, "--prompt", "Once", "--max-tokens", "2"], columns, &[]);
        let (seen, code) = terminal.finish();
        assert_eq!(code, Some(0), "{seen}");
        let frames = frames(&seen);
        assert!(frames.len() > 3, "{seen:?}");
        assert!(frames.iter().all(|frame| frame.chars().count() == usize::from(columns) - 1), "{frames:?}");
        assert!(frames.windows(2).all(|pair| pair[0] != pair[1]), "a frame was drawn twice: {frames:?}");
        // The last thing drawn on the bar's line is nothing.
        let after = seen.rsplit("\r\x1b[K").next().unwrap_or_default();
        assert!(!after.contains('%') && after.contains("device:"), "{after:?}");
    }
}

#[test]
fn the_bar_follows_the_window() {
    let file = novelist_file().display().to_string();
    let mut terminal =
        Terminal::start(&["generate", "--model", &file, "--prompt", "Once", "--max-tokens", "2"], 600, &[]);
    // Nobody reads on, so the program waits with the bar half drawn: a terminal holds less than a hundred lines this long.
    terminal.wait_for("%");
    std::thread::sleep(std::time::Duration::from_millis(300));
    resize(&terminal.master, 40);
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(0), "{seen}");
    let widths: Vec<usize> = frames(&seen).iter().map(|frame| frame.chars().count()).collect();
    assert_eq!((widths.first(), widths.last()), (Some(&599), Some(&39)), "{widths:?}");
    let narrow = widths.iter().position(|width| *width == 39).unwrap_or(0);
    assert!(widths[..narrow].iter().all(|width| *width == 599) && widths[narrow..].iter().all(|width| *width == 39));
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let short = ["generate", "--prompt", "Once", "--max-tokens", "2"];
    let seen = |environment: &[(&str, &str)]| Terminal::start(&short, 80, environment).finish().0;
    assert!(seen(&[]).contains("\x1b[2mdevice:"));
    for plain in [[("NO_COLOR", "1")], [("TERM", "dumb")]] {
        let seen = seen(&plain);
        assert!(seen.contains("device:") && !seen.contains('\x1b'), "{seen:?}");
    }
    let wrong = Terminal::start(&["generate", "--model", "nowhere.gguf"], 80, &[]).finish();
    assert_eq!(wrong.1, Some(3));
    assert!(wrong.0.contains("\x1b[1;31mcandle-rocm:\x1b[0m nowhere.gguf does not exist"), "{:?}", wrong.0);
}

#[test]
fn a_conversation_goes_on_after_ctrl_c_and_ends_at_the_prompt() {
    let mut terminal = Terminal::start(&["generate", "--chat", "--max-tokens", "400"], 80, &[]);
    terminal.wait_for("> ");
    terminal.press("Good day, sir.\n");
    let typed = terminal.seen.len();
    while terminal.seen.len() < typed + 60 {
        assert!(terminal.read(), "{}", terminal.seen);
    }
    terminal.press("\x03");
    terminal.wait_for("(interrupted)");
    let upto = terminal.seen.find("(interrupted)").unwrap_or(0);
    terminal.seen.drain(..upto);
    terminal.wait_for("> ");
    terminal.press("\x03");
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(130), "{seen}");
    let mut terminal = Terminal::start(&["generate", "--chat"], 80, &[]);
    terminal.wait_for("> ");
    terminal.press("/exit\n");
    assert_eq!(terminal.finish().1, Some(0));
}

#[test]
fn what_is_too_long_to_say_does_not_end_a_conversation() {
    let mut terminal = Terminal::start(&["generate", "--chat"], 80, &[]);
    terminal.wait_for("> ");
    terminal.press(&"and then ".repeat(300));
    terminal.press("\n");
    terminal.wait_for("shorten it");
    let upto = terminal.seen.find("shorten it").unwrap_or(0);
    terminal.seen.drain(..upto);
    terminal.wait_for("> ");
    terminal.press("/exit\n");
    assert_eq!(terminal.finish().1, Some(0));
}
