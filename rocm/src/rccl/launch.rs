//! Which rank this process is, as launchers say it (torchrun, Open MPI, Slurm), and how rank 0's id gets to the other ranks: over TCP, at
//! the address that the launcher gives.

use super::limit::{self, name_ranks};
use super::{Comm, Id, LIMIT_VARIABLE, NCCL_UNIQUE_ID_BYTES};
use hip::{Error, Result, Stream};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// A rank, as the launcher of the program has numbered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// This rank.
    pub rank: usize,
    /// How many ranks there are.
    pub ranks: usize,
    /// This rank among those of its machine, which is the device it should take.
    pub local_rank: usize,
    /// Where rank 0 waits for the others, as `host:port`.
    pub address: String,
}

/// Looks a variable up.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A launcher, by the variables it sets.
struct Launcher {
    name: &'static str,
    rank: &'static str,
    ranks: &'static str,
    local_rank: &'static str,
    /// Whether all ranks are on this machine, as far as its variables say.
    all_here: fn(Variables<'_>) -> bool,
}

const LAUNCHERS: [Launcher; 3] = [
    Launcher { name: "torchrun", rank: "RANK", ranks: "WORLD_SIZE", local_rank: "LOCAL_RANK", all_here: |_| false },
    Launcher {
        name: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        ranks: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        all_here: |variable| {
            let local = variable("OMPI_COMM_WORLD_LOCAL_SIZE");
            local.is_some() && local == variable("OMPI_COMM_WORLD_SIZE")
        },
    },
    Launcher {
        name: "Slurm",
        rank: "SLURM_PROCID",
        ranks: "SLURM_NTASKS",
        local_rank: "SLURM_LOCALID",
        all_here: |variable| variable("SLURM_NNODES").as_deref() == Some("1"),
    },
];

/// The port where the launcher names none; PyTorch takes the same.
const USUAL_PORT: u16 = 29500;
/// The first bytes of whatever a rank says.
const MAGIC: &[u8; 8] = b"crocmid1";
/// Rank 0 and ranks, each in four bytes, behind the magic.
const GREETING: usize = 16;
/// A rank waits that much longer than rank 0, which knows better who is missing.
const GRACE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

impl Launch {
    /// What the environment says; `None` where no launcher has started the program.
    pub fn from_environment() -> Result<Option<Self>> {
        Self::from_variables(&|name| std::env::var(name).ok())
    }

    fn from_variables(variable: Variables<'_>) -> Result<Option<Self>> {
        let Some(launcher) = LAUNCHERS.iter().find(|launcher| variable(launcher.rank).is_some()) else {
            return Ok(None);
        };
        let number = |name: &str| -> Result<usize> {
            let text = variable(name).ok_or_else(|| {
                Error::refused(format!("{} is set, as by {}, but {name} is not", launcher.rank, launcher.name))
            })?;
            text.trim().parse().map_err(|_| Error::refused(format!("{name}={text} is not a number of a rank")))
        };
        let (rank, ranks) = (number(launcher.rank)?, number(launcher.ranks)?);
        if rank >= ranks {
            return Err(Error::refused(format!(
                "{}={rank} is no rank of {}={ranks}; they are numbered from 0",
                launcher.rank, launcher.ranks
            )));
        }
        let local_rank = match variable(launcher.local_rank) {
            Some(_) => number(launcher.local_rank)?,
            None => rank,
        };
        let host = match variable("MASTER_ADDR").filter(|host| !host.trim().is_empty()) {
            Some(host) => host.trim().to_owned(),
            None if ranks == 1 || (launcher.all_here)(variable) => "127.0.0.1".to_owned(),
            None => {
                return Err(Error::refused(
                    "MASTER_ADDR is not set: name the machine that rank 0 runs on, for all ranks",
                ))
            }
        };
        let mut port = match variable("MASTER_PORT") {
            Some(text) => {
                text.trim().parse().ok().filter(|port| *port > 0 && *port < u16::MAX).ok_or_else(|| {
                    Error::refused(format!("MASTER_PORT={text} is not a port; take one from 1 to 65534"))
                })?
            }
            None => USUAL_PORT,
        };
        // There torchrun itself holds the port.
        if variable("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True") {
            port += 1;
        }
        let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Ok(Some(Self { rank, ranks, local_rank, address }))
    }

    /// Joins the communicator of all ranks: rank 0 makes the id, and the others get it from there.
    pub fn join(&self, stream: &Stream) -> Result<Comm> {
        let limit = limit::from_environment()?;
        let id = match self.rank {
            0 => {
                let id = Id::new(stream.device().platform())?;
                self.give(id.bytes(), limit)?;
                id
            }
            _ => Id::from_bytes(self.get(limit)?),
        };
        Comm::from_rank(stream, &id, self.rank, self.ranks)
    }

    /// Rank 0: waits for all others, then gives each the bytes.
    fn give(&self, bytes: &[u8; NCCL_UNIQUE_ID_BYTES], limit: Duration) -> Result<()> {
        if self.ranks == 1 {
            return Ok(());
        }
        let cannot = |error: std::io::Error| {
            Error::refused(format!("rank 0 cannot wait for the others at {}: {error}; set MASTER_ADDR and MASTER_PORT to an address of this machine that is free", self.address))
        };
        let listener = TcpListener::bind(&self.address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let begin = Instant::now();
        let mut there: Vec<(usize, TcpStream)> = Vec::new();
        while there.len() + 1 < self.ranks {
            if let Ok((stream, _)) = listener.accept() {
                match self.welcome(stream, &there) {
                    Ok(found) => there.extend(found),
                    Err(error) => return Err(refuse(&mut there, error)),
                }
            } else if begin.elapsed() > limit {
                let missing: Vec<usize> =
                    (1..self.ranks).filter(|rank| there.iter().all(|(other, _)| other != rank)).collect();
                let error = Error::refused(format!(
                    "{} did not come to {} within {} s; see why in its output, or set {LIMIT_VARIABLE} to more seconds",
                    name_ranks(&missing, self.ranks),
                    self.address,
                    limit.as_secs_f64()
                ));
                return Err(refuse(&mut there, error));
            } else {
                std::thread::sleep(PAUSE);
            }
        }
        for (rank, stream) in &mut there {
            let sent = stream.write_all(&[0]).and_then(|()| stream.write_all(bytes));
            sent.map_err(|error| {
                Error::refused(format!("{} went before it had the id: {error}", name_ranks(&[*rank], self.ranks)))
            })?;
        }
        Ok(())
    }

    /// Who came; whoever does not speak as a rank does is let go.
    fn welcome(&self, mut stream: TcpStream, there: &[(usize, TcpStream)]) -> Result<Option<(usize, TcpStream)>> {
        let mut greeting = [0; GREETING];
        let heard = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(GRACE)))
            .and_then(|()| stream.read_exact(&mut greeting));
        if heard.is_err() || &greeting[..8] != MAGIC {
            return Ok(None);
        }
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| greeting[at + byte])) as usize;
        let (rank, ranks) = (word(8), word(12));
        if ranks != self.ranks || rank == 0 || rank >= ranks {
            return Err(Error::refused(format!("rank {rank} of {ranks} came to rank 0 of {}", self.ranks)));
        }
        if there.iter().any(|(other, _)| *other == rank) {
            return Err(Error::refused(format!("two processes say that they are rank {rank} of {ranks}")));
        }
        Ok(Some((rank, stream)))
    }

    /// Another rank: gets the bytes from rank 0, which may open its port later.
    fn get(&self, limit: Duration) -> Result<[u8; NCCL_UNIQUE_ID_BYTES]> {
        let begin = Instant::now();
        let mut stream = loop {
            let tried = self.address.to_socket_addrs().and_then(|mut all| {
                let first = all.next().ok_or_else(|| std::io::Error::other("the name has no address"))?;
                TcpStream::connect_timeout(&first, limit.min(GRACE))
            });
            match tried {
                Ok(stream) => break stream,
                Err(error) if begin.elapsed() > limit => {
                    return Err(Error::refused(format!(
                        "rank 0 of {} does not answer at {} after {} s: {error}; see why in its output, or set {LIMIT_VARIABLE} to more seconds",
                        self.ranks,
                        self.address,
                        limit.as_secs_f64()
                    )));
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        };
        let lost = |error: std::io::Error| {
            Error::refused(format!("rank 0 at {} went before it gave the id: {error}", self.address))
        };
        let mut greeting = MAGIC.to_vec();
        greeting.extend((self.rank as u32).to_le_bytes());
        greeting.extend((self.ranks as u32).to_le_bytes());
        stream.write_all(&greeting).map_err(lost)?;
        stream.set_read_timeout(Some(limit.saturating_add(GRACE))).map_err(lost)?;
        let mut kind = [0];
        stream.read_exact(&mut kind).map_err(lost)?;
        if kind != [0] {
            let mut sentence = String::new();
            stream.take(4096).read_to_string(&mut sentence).map_err(lost)?;
            return Err(Error::refused(sentence));
        }
        let mut bytes = [0; NCCL_UNIQUE_ID_BYTES];
        stream.read_exact(&mut bytes).map_err(lost)?;
        Ok(bytes)
    }
}

/// Tells the ranks that are there why it comes to nothing.
fn refuse(there: &mut [(usize, TcpStream)], error: Error) -> Error {
    for (rank, stream) in there {
        if let Err(gone) = stream.write_all(&[1]).and_then(|()| stream.write_all(error.to_string().as_bytes())) {
            log::debug!("rank {rank} has gone: {gone}");
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Result<Option<Launch>> {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Launch::from_variables(&move |name| {
            variables.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
        })
    }

    #[test]
    fn launchers_number_the_ranks() {
        let launch = |rank, ranks, local_rank, address: &str| {
            Some(Launch { rank, ranks, local_rank, address: address.to_owned() })
        };
        assert_eq!(from(&[("HOME", "x")]).unwrap(), None);
        let torch =
            [("RANK", "5"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1"), ("MASTER_ADDR", "a"), ("MASTER_PORT", "7")];
        assert_eq!(from(&torch).unwrap(), launch(5, 8, 1, "a:7"));
        let agent = [&torch[..], &[("TORCHELASTIC_USE_AGENT_STORE", "True")]].concat();
        assert_eq!(from(&agent).unwrap(), launch(5, 8, 1, "a:8"));
        let mpi = [
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ];
        assert_eq!(from(&mpi).unwrap(), launch(1, 2, 1, "127.0.0.1:29500"));
        let slurm = [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "4"), ("SLURM_LOCALID", "1"), ("SLURM_NNODES", "2")];
        assert!(from(&slurm).unwrap_err().to_string().contains("MASTER_ADDR"));
        let slurm = [&slurm[..], &[("MASTER_ADDR", "fe80::1")]].concat();
        assert_eq!(from(&slurm).unwrap(), launch(3, 4, 1, "[fe80::1]:29500"));
    }

    #[test]
    fn what_no_launcher_says_is_refused() {
        for (variables, word) in [
            (&[("RANK", "0")][..], "WORLD_SIZE is not"),
            (&[("RANK", "one"), ("WORLD_SIZE", "2")], "RANK=one"),
            (&[("RANK", "2"), ("WORLD_SIZE", "2")], "numbered from 0"),
            (&[("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_PORT", "99999")], "MASTER_PORT=99999"),
        ] {
            let sentence = from(variables).unwrap_err().to_string();
            assert!(sentence.contains(word), "{sentence}");
        }
    }

    /// Ranks at a port of this machine that was free a moment ago.
    fn ranks(count: usize) -> Vec<Launch> {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        (0..count).map(|rank| Launch { rank, ranks: count, local_rank: rank, address: free.to_string() }).collect()
    }

    #[test]
    fn the_id_reaches_every_rank() {
        let all = ranks(3);
        let long = Duration::from_secs(120);
        std::thread::scope(|scope| {
            let others: Vec<_> = all[1..].iter().map(|launch| scope.spawn(move || launch.get(long))).collect();
            all[0].give(&[7; NCCL_UNIQUE_ID_BYTES], long).unwrap();
            for other in others {
                assert_eq!(other.join().unwrap().unwrap(), [7; NCCL_UNIQUE_ID_BYTES]);
            }
        });
    }

    #[test]
    fn a_rank_that_does_not_come_is_named_to_all() {
        let all = ranks(3);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| all[1].get(Duration::from_secs(20)));
            let sentence = all[0].give(&[0; NCCL_UNIQUE_ID_BYTES], Duration::from_secs(2)).unwrap_err().to_string();
            assert!(sentence.contains("rank 2 of 3 did not come") || sentence.contains("ranks 1 and 2"), "{sentence}");
            if sentence.contains("rank 2 of 3") {
                assert_eq!(other.join().unwrap().unwrap_err().to_string(), sentence);
            }
        });
        let alone = ranks(2)[1].get(Duration::from_millis(100)).unwrap_err().to_string();
        assert!(alone.contains("rank 0 of 2 does not answer"), "{alone}");
    }
}
