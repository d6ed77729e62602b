//! What a call means for one rank: which bytes it sends, receives and reduces.
//!
//! Every collective is made of direct messages. A reduction is shared out: each rank reduces its own part of the elements, for which the
//! others send it theirs, and sends the result on. So each byte goes to each rank that needs it once, and the order of ranks within a sum
//! is the same everywhere.

use super::super::abi::{ncclDataType_t, ncclRedOp_t};
use super::reduce::{reduction, Reduction};
use super::segment::{Channel, Header, Segment};
use crate::embedded::Address;

/// What is to be done together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    AllReduce,
    Reduce,
    Broadcast,
    ReduceScatter,
    AllGather,
    Send,
    Receive,
}

/// One call of one rank.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub verb: Verb,
    pub input: Address,
    pub output: Address,
    /// Elements, as the C function counts them.
    pub count: usize,
    pub dtype: ncclDataType_t,
    pub op: ncclRedOp_t,
    /// The root, or the other side of a message.
    pub peer: usize,
}

/// Lanes of the channels.
const TO_REDUCE: usize = 0;
const RESULTS: usize = 1;
const MESSAGES: usize = 2;

impl Call {
    pub fn is_message(&self) -> bool {
        matches!(self.verb, Verb::Send | Verb::Receive)
    }

    fn element(&self) -> usize {
        self.dtype.bytes().unwrap_or(1)
    }

    /// What travels with each chunk, by which the reader sees that both sides mean the same. Both sides of a message mean the same.
    pub fn header(&self) -> Header {
        let (verb, op, root) = match self.verb {
            Verb::AllReduce => (1, self.op.0, 0),
            Verb::Reduce => (2, self.op.0, self.peer),
            Verb::Broadcast => (3, 0, self.peer),
            Verb::ReduceScatter => (4, self.op.0, 0),
            Verb::AllGather => (5, 0, 0),
            Verb::Send | Verb::Receive => (6, 0, 0),
        };
        [verb | u64::from(self.dtype.0) << 8 | u64::from(op) << 16 | (root as u64) << 24, self.count as u64]
    }

    /// The range that this call fills on this rank, in bytes.
    pub fn writes(&self, ranks: usize, rank: usize) -> (Address, usize) {
        let bytes = self.count * self.element();
        let filled = match self.verb {
            Verb::AllGather => bytes * ranks,
            Verb::Send => 0,
            Verb::Reduce if rank != self.peer => 0,
            _ => bytes,
        };
        (self.output, filled)
    }

    /// The range that this call reads on this rank, in bytes.
    pub fn reads(&self, ranks: usize, rank: usize) -> (Address, usize) {
        let bytes = self.count * self.element();
        let read = match self.verb {
            Verb::ReduceScatter => bytes * ranks,
            Verb::Receive => 0,
            Verb::Broadcast if rank != self.peer => 0,
            _ => bytes,
        };
        (self.input, read)
    }
}

/// A header in words.
pub fn describe([words, count]: Header) -> String {
    let verb = match words & 0xff {
        1 => "all_reduce",
        2 => "reduce",
        3 => "broadcast",
        4 => "reduce_scatter",
        5 => "all_gather",
        6 => "send and recv",
        _ => "something unknown",
    };
    let (dtype, op) = (ncclDataType_t((words >> 8 & 0xff) as u32), ncclRedOp_t((words >> 16 & 0xff) as u32));
    let reduces = matches!(words & 0xff, 1 | 2 | 4);
    let op = if reduces { format!(", {}", op.name()) } else { String::new() };
    let root = if matches!(words & 0xff, 2 | 3) { format!(", root {}", words >> 24) } else { String::new() };
    format!("{verb} ({count} elements of {}{op}{root})", dtype.name())
}

/// Bytes on their way.
pub enum Work<'a> {
    Send {
        to: Channel<'a>,
        source: Address,
    },
    Receive {
        from: Channel<'a>,
        target: Address,
    },
    /// One source for each rank, in their order; `None` is this rank's own.
    Reduce {
        sources: Vec<Option<Channel<'a>>>,
        own: Address,
        target: Option<Address>,
        forward: Vec<Channel<'a>>,
        reduction: Reduction,
        element: usize,
    },
    Copy {
        source: Address,
        target: Address,
    },
}

/// A piece of work and how far it is.
pub struct Step<'a> {
    pub work: Work<'a>,
    pub bytes: usize,
    pub done: usize,
    pub header: Header,
    /// Collectives go one after the other, messages whenever they can.
    pub turn: Option<usize>,
}

/// The elements of a part, whose borders are those of cache lines.
fn part(count: usize, ranks: usize, rank: usize) -> (usize, usize) {
    let each = count.div_ceil(ranks).next_multiple_of(64);
    let (start, end) = ((each * rank).min(count), (each * (rank + 1)).min(count));
    (start, end - start)
}

/// Adds what a call means for this rank. False for a reduction that there is none of.
pub fn plan<'a>(call: &Call, segment: &'a Segment, rank: usize, turn: usize, steps: &mut Vec<Step<'a>>) -> bool {
    let Call { input, output, count, peer, .. } = *call;
    let (ranks, element, header) = (segment.ranks(), call.element(), call.header());
    let turn = (!call.is_message()).then_some(turn);
    let others = || (1..ranks).map(move |distance| (rank + distance) % ranks);
    let mut add = |work, elements: usize| {
        if elements > 0 {
            steps.push(Step { work, bytes: elements * element, done: 0, header, turn });
        }
    };
    let send = |lane, to, source| Work::Send { to: segment.channel(lane, rank, to), source };
    let receive = |lane, from, target| Work::Receive { from: segment.channel(lane, from, rank), target };
    let sources = || -> Vec<_> {
        (0..ranks).map(|from| (from != rank).then(|| segment.channel(TO_REDUCE, from, rank))).collect()
    };
    match call.verb {
        Verb::AllReduce | Verb::Reduce => {
            let Some(reduction) = reduction(call.dtype, call.op) else { return false };
            let wants = |other: usize| call.verb == Verb::AllReduce || other == peer;
            for other in others() {
                let (start, elements) = part(count, ranks, other);
                add(send(TO_REDUCE, other, input.beyond(start * element)), elements);
            }
            let (start, elements) = part(count, ranks, rank);
            let forward =
                others().filter(|other| wants(*other)).map(|other| segment.channel(RESULTS, rank, other)).collect();
            let target = wants(rank).then(|| output.beyond(start * element));
            let own = input.beyond(start * element);
            add(Work::Reduce { sources: sources(), own, target, forward, reduction, element }, elements);
            if wants(rank) {
                for other in others() {
                    let (start, elements) = part(count, ranks, other);
                    add(receive(RESULTS, other, output.beyond(start * element)), elements);
                }
            }
        }
        Verb::ReduceScatter => {
            let Some(reduction) = reduction(call.dtype, call.op) else { return false };
            for other in others() {
                add(send(TO_REDUCE, other, input.beyond(other * count * element)), count);
            }
            let (own, target) = (input.beyond(rank * count * element), Some(output));
            add(Work::Reduce { sources: sources(), own, target, forward: Vec::new(), reduction, element }, count);
        }
        Verb::AllGather => {
            let place = |of: usize| output.beyond(of * count * element);
            for other in others() {
                add(send(RESULTS, other, input), count);
            }
            add(Work::Copy { source: input, target: place(rank) }, count);
            for other in others() {
                add(receive(RESULTS, other, place(other)), count);
            }
        }
        Verb::Broadcast if rank == peer => {
            for other in others() {
                add(send(RESULTS, other, input), count);
            }
            add(Work::Copy { source: input, target: output }, count);
        }
        Verb::Broadcast => add(receive(RESULTS, peer, output), count),
        Verb::Send => add(send(MESSAGES, peer, input), count),
        Verb::Receive => add(receive(MESSAGES, peer, output), count),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn parts_cover_all_elements_once() {
        for ranks in 1..7 {
            for count in [0, 1, 63, 64, 65, 1000, 4099] {
                let mut next = 0;
                for rank in 0..ranks {
                    let (start, elements) = part(count, ranks, rank);
                    assert_eq!(start, next, "{count} elements, rank {rank} of {ranks}");
                    next += elements;
                }
                assert_eq!(next, count);
            }
        }
    }
}
