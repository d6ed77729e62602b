//! Moves the bytes of a plan, on the stream's thread: each piece of work goes on as far as it can without waiting, in turns, so that no
//! order of calls can make two ranks wait for each other in a circle. Where nothing moves, the others are looked at: one that has failed,
//! left or died, or does nothing for longer than the limit, ends the call with its number.

use super::member::{Member, Trouble};
use super::plan::{describe, Step, Work};
use super::segment::{Channel, Header};
use std::time::{Duration, Instant};

/// Looks at a channel before the processor is offered to somebody else, and before the thread sleeps.
const SPINS: u32 = 200;
const YIELDS: u32 = 2000;
const SLEEP: Duration = Duration::from_micros(100);
/// How often the others are looked at while nothing moves.
const LOOK: Duration = Duration::from_millis(10);

/// What one try came to.
enum Moved {
    Further,
    /// Waits for these ranks.
    Waits(Vec<usize>),
}

/// Does all of it.
pub fn run(member: &Member, steps: &mut [Step]) -> Result<(), Trouble> {
    let mut idle = 0u32;
    let mut last = Instant::now();
    let mut looked = last;
    loop {
        let (moved, awaited) = sweep(steps)?;
        if awaited.is_empty() && !moved {
            return Ok(());
        }
        if moved {
            (idle, last) = (0, Instant::now());
            continue;
        }
        idle = idle.saturating_add(1);
        match idle {
            0..SPINS => std::hint::spin_loop(),
            SPINS..YIELDS => std::thread::yield_now(),
            _ => std::thread::sleep(SLEEP),
        }
        if idle.is_multiple_of(64) && looked.elapsed() >= LOOK {
            looked = Instant::now();
            if let Some(mut trouble) = member.trouble_with(&awaited) {
                // What the rank sent before it went is still there.
                if sweep(steps)?.0 {
                    continue;
                }
                trouble.say_what(what(steps));
                return Err(trouble);
            }
            if last.elapsed() > member.limit {
                let seconds = member.limit.as_secs_f64();
                let ranks = super::super::limit::name_ranks(&awaited, member.ranks());
                return Err(Trouble::late(format!("{ranks} did nothing for {seconds} s in {}", what(steps))));
            }
        }
    }
}

/// What is being done, for a sentence.
fn what(steps: &[Step]) -> String {
    let open = steps.iter().find(|step| step.done < step.bytes);
    open.map_or_else(|| "nothing".to_owned(), |step| describe(step.header))
}

/// One try of everything whose turn it is: whether anything moved, and which ranks are waited for.
fn sweep(steps: &mut [Step]) -> Result<(bool, Vec<usize>), Trouble> {
    let (mut moved, mut awaited, mut busy) = (false, Vec::new(), Vec::new());
    let turn = steps.iter().filter(|step| step.done < step.bytes).find_map(|step| step.turn);
    for step in steps.iter_mut().filter(|step| step.done < step.bytes) {
        match step.turn {
            Some(_) if step.turn != turn => continue,
            Some(_) => {}
            // Messages one way through a channel go in the order of their calls; to itself, a rank both sends and receives.
            None => {
                let way = match &step.work {
                    Work::Send { to, .. } => (to.number, true),
                    Work::Receive { from, .. } => (from.number, false),
                    Work::Reduce { .. } | Work::Copy { .. } => continue,
                };
                if busy.contains(&way) {
                    continue;
                }
                busy.push(way);
            }
        }
        match advance(step)? {
            Moved::Further => moved = true,
            Moved::Waits(ranks) => awaited.extend(ranks),
        }
    }
    awaited.sort_unstable();
    awaited.dedup();
    Ok((moved, awaited))
}

/// A filled slot, if its chunk belongs to this step.
fn arrived(from: &Channel, expected: Header) -> Result<Option<*const u8>, Trouble> {
    match from.filled_slot() {
        None => Ok(None),
        Some((slot, header)) if header == expected => Ok(Some(slot)),
        Some((_, header)) => Err(Trouble::usage(format!(
            "rank {} is in {}, and this rank in {}: all ranks make the same calls in the same order",
            from.from,
            describe(header),
            describe(expected)
        ))),
    }
}

/// Moves one chunk, if it can.
fn advance(step: &mut Step) -> Result<Moved, Trouble> {
    let (done, left, header) = (step.done, step.bytes - step.done, step.header);
    let moved = match &step.work {
        Work::Copy { source, target } => {
            // SAFETY: whoever queued the call vouches for both ranges; in place they are the same, which `copy` allows.
            unsafe { std::ptr::copy(source.pointer::<u8>(), target.pointer::<u8>(), left) };
            left
        }
        Work::Send { to, source } => {
            let Some(slot) = to.free_slot() else { return Ok(Moved::Waits(vec![to.to])) };
            let bytes = left.min(to.chunk());
            // SAFETY: the slot is ours until it is pushed and holds a chunk; the source is vouched for as above.
            unsafe { std::ptr::copy_nonoverlapping(source.beyond(done).pointer::<u8>(), slot, bytes) };
            to.push(header);
            bytes
        }
        Work::Receive { from, target } => {
            let Some(slot) = arrived(from, header)? else { return Ok(Moved::Waits(vec![from.from])) };
            let bytes = left.min(from.chunk());
            // SAFETY: the slot is ours until it is popped; the target is vouched for as above.
            unsafe { std::ptr::copy_nonoverlapping(slot, target.beyond(done).pointer::<u8>(), bytes) };
            from.pop();
            bytes
        }
        Work::Reduce { sources, own, target, forward, reduction, element } => {
            let mut chunk = left;
            let (mut inputs, mut waits) = (Vec::with_capacity(sources.len()), Vec::new());
            for source in sources {
                match source {
                    None => inputs.push(own.beyond(done).pointer::<u8>().cast_const()),
                    Some(from) => {
                        chunk = chunk.min(from.chunk());
                        match arrived(from, header)? {
                            Some(slot) => inputs.push(slot),
                            None => waits.push(from.from),
                        }
                    }
                }
            }
            let mut outputs: Vec<*mut u8> = target.iter().map(|target| target.beyond(done).pointer()).collect();
            for to in forward {
                match to.free_slot() {
                    Some(slot) => outputs.push(slot),
                    None => waits.push(to.to),
                }
            }
            if !waits.is_empty() {
                return Ok(Moved::Waits(waits));
            }
            if let Some((first, copies)) = outputs.split_first() {
                // SAFETY: slots are ours until they are pushed or popped and hold a chunk, aligned to pages; the call checked the
                // alignment of the rest, which is vouched for as above. In place, the target is this rank's own source.
                unsafe {
                    reduction(&inputs, *first, chunk / element);
                    copies.iter().for_each(|copy| std::ptr::copy_nonoverlapping(first.cast_const(), *copy, chunk));
                }
            }
            sources.iter().flatten().for_each(Channel::pop);
            forward.iter().for_each(|to| to.push(header));
            chunk
        }
    };
    step.done += moved;
    Ok(Moved::Further)
}
