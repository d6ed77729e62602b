//! Ranks as processes: a test starts its own program again, once for each rank, for this one test alone.
#![allow(dead_code)] // Each test file is a program of its own and uses a part.

use hip::{Platform, Result};
use rocm::rccl::{Comm, Id};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};

const RANK: &str = "ROCM_TEST_RANK";

/// What the ranks do with each other.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    AllCome,
    /// The last rank is not started.
    LastStaysAway,
    /// The last rank goes on when the others have ended.
    LastWaits,
}

/// One of the processes.
pub struct Rank {
    rank: usize,
    ranks: usize,
}

/// Whether this process is a rank that a test has started.
pub fn is_rank() -> Option<Rank> {
    let text = std::env::var(RANK).ok()?;
    let (rank, ranks) = text.split_once('/')?;
    Some(Rank { rank: rank.parse().ok()?, ranks: ranks.parse().ok()? })
}

const MARK: &str = "id of the ranks: ";

impl Rank {
    /// Joins the others. Rank 0 prints the id, and the test passes it to the rest.
    pub fn join(&self) -> Result<Comm> {
        let platform = Platform::named("host")?;
        let id = if self.rank == 0 {
            let id = Id::new(&platform)?;
            let text: String = id.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            println!("\n{MARK}{text}");
            id
        } else {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).expect("the test writes the id");
            let byte = |at: usize| u8::from_str_radix(&line[at * 2..at * 2 + 2], 16).expect("an id in hexadecimal");
            Id::from_bytes(std::array::from_fn(byte))
        };
        Comm::from_rank(&platform.device(0)?.new_stream()?, &id, self.rank, self.ranks)
    }
}

/// Runs the named test in a process for each rank, with the variables that torchrun sets; whether each ended well, and what it said.
pub fn launch_ranks(test: &str, ranks: usize) -> Vec<(bool, String)> {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it has a number");
    let start = |rank: usize| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", test, "--nocapture"]).env(RANK, format!("{rank}/{ranks}"));
        for (name, value) in
            [("RANK", rank), ("WORLD_SIZE", ranks), ("LOCAL_RANK", rank), ("MASTER_PORT", free.port().into())]
        {
            command.env(name, value.to_string());
        }
        command.env("MASTER_ADDR", "127.0.0.1").stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("a rank starts")
    };
    let all: Vec<Child> = (0..ranks).map(start).collect();
    let ended = all.into_iter().map(|rank| rank.wait_with_output().expect("it ends"));
    ended.map(|end| (end.status.success(), String::from_utf8_lossy(&end.stderr).into_owned())).collect()
}

/// Runs the named test in a process for each rank; the result is how each ended and what it said.
pub fn run_ranks(test: &str, ranks: usize, kind: Kind, limit: &str) -> Vec<(ExitStatus, String)> {
    let started = if kind == Kind::LastStaysAway { ranks - 1 } else { ranks };
    let start = |rank: usize| -> Child {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.args(["--exact", test, "--nocapture"]).env(RANK, format!("{rank}/{ranks}"));
        command.env(rocm::rccl::LIMIT_VARIABLE, limit);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("a rank starts")
    };
    let mut all: Vec<Child> = (0..started).map(start).collect();
    let mut output = BufReader::new(all[0].stdout.take().expect("it is piped"));
    let mut line = String::new();
    while !line.contains(MARK) {
        line.clear();
        assert!(output.read_line(&mut line).expect("it is text") > 0, "rank 0 ended without an id");
    }
    let id = line[line.find(MARK).expect("it is there") + MARK.len()..].trim().to_owned();
    for rank in &mut all[1..] {
        writeln!(rank.stdin.as_mut().expect("it is piped"), "{id}").expect("a rank takes the id");
    }
    // Output is small, and the pipes hold it.
    let end = |mut rank: Child| {
        let status = rank.wait().expect("it ends");
        let mut words = String::new();
        for stream in [
            rank.stdout.take().map(|out| Box::new(out) as Box<dyn Read>),
            rank.stderr.take().map(|err| Box::new(err) as _),
        ] {
            stream.map(|mut stream| stream.read_to_string(&mut words));
        }
        (status, words)
    };
    let mut ended = Vec::new();
    for (at, rank) in all.into_iter().enumerate() {
        let waits = kind == Kind::LastWaits && at + 1 == ranks;
        let mut rank = rank;
        if waits || kind != Kind::LastWaits {
            drop(rank.stdin.take());
        }
        ended.push(end(rank));
    }
    ended
}
