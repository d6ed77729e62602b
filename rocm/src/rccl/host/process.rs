//! Whether the process of another rank still runs, as the system's list of processes says.

use std::os::unix::fs::MetadataExt;

/// A process: its number, when it was started (numbers are used again), and the namespace that the number belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    pub pid: u32,
    pub started: u64,
    pub namespace: u64,
}

fn namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |about| about.ino())
}

/// State and start of a process, while it is there.
fn stat(pid: u32) -> Option<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain any of them.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

impl Process {
    /// The process that runs this.
    pub fn this() -> Self {
        let pid = std::process::id();
        Self { pid, started: stat(pid).map_or(0, |(_, started)| started), namespace: namespace() }
    }

    /// True when the process has certainly ended. Of one in another namespace nothing can be said.
    pub fn has_ended(&self) -> bool {
        if self.pid == std::process::id() || self.started == 0 || self.namespace != namespace() {
            return false;
        }
        // Ended, and not yet noticed by its parent, is ended.
        stat(self.pid).is_none_or(|(state, started)| started != self.started || matches!(state, 'Z' | 'X'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_killed_has_ended_before_its_parent_looks() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is everywhere");
        let (_, started) = stat(child.id()).expect("it runs");
        let process = Process { pid: child.id(), started, ..Process::this() };
        assert!(!process.has_ended() && !Process::this().has_ended());
        assert!(Process { started: started + 1, ..process }.has_ended(), "another process of that number");
        child.kill().unwrap();
        let mut rounds = 0;
        while !process.has_ended() {
            std::thread::sleep(std::time::Duration::from_millis(5));
            rounds += 1;
            assert!(rounds < 2000, "a killed process ends");
        }
        child.wait().unwrap();
        assert!(process.has_ended());
    }
}
