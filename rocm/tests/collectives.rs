//! Collectives between threads of this process and between processes, against plain sums: every call, type and operation, sizes from
//! none to 64 MB, groups, captures, ranks that make other calls, never come or are killed, and a failure of every call of the table.

mod ranks;

use hip::{Platform, Result, Stream};
use ranks::{is_rank, launch_ranks, run_ranks, Kind};
use rocm::rccl::{Comm, Element, Group, Id, Launch, Op};
use std::sync::Once;
use std::time::{Duration, Instant};

/// The embedded platform with a device for each rank: freeing memory waits for a whole device, so two ranks on one may wait for each other.
fn platform() -> Result<Platform> {
    static DEVICES: Once = Once::new();
    DEVICES.call_once(|| {
        let options = hip_host::Options { devices: 4, ..hip_host::Options::default() };
        hip_host::configure(options).expect("nothing has used the devices before");
    });
    Platform::named("host")
}

fn streams(count: usize) -> Result<Vec<Stream>> {
    let platform = platform()?;
    (0..count).map(|rank| platform.device(rank)?.new_stream()).collect()
}

const OPS: [Op; 5] = [Op::Sum, Op::Product, Op::Max, Op::Min, Op::Average];

/// A type with small whole numbers, whose reductions are exact in f64 and in the type.
trait Number: Element + PartialEq + std::fmt::Debug {
    fn of(value: f64) -> Self;
}

macro_rules! numbers {
    ($($type:ty: $from:expr),*) => {$(impl Number for $type { fn of(value: f64) -> Self { ($from)(value) } })*};
}

numbers! { i8: |value| value as i8, u8: |value| value as u8, i32: |value| value as i32, u32: |value| value as u32,
i64: |value| value as i64, u64: |value| value as u64, half::f16: half::f16::from_f64, half::bf16: half::bf16::from_f64,
f32: |value| value as f32, f64: |value| value }

/// What rank `rank` has at a place: 1, 2 or 3, so that products of four ranks fit into every type.
fn value(rank: usize, at: usize) -> f64 {
    ((rank * 7 + at * 5) % 3 + 1) as f64
}

fn expected(op: Op, ranks: usize, at: usize) -> f64 {
    let values = (0..ranks).map(|rank| value(rank, at));
    match op {
        Op::Sum => values.sum(),
        Op::Product => values.product(),
        Op::Max => values.fold(0.0, f64::max),
        Op::Min => values.fold(9.0, f64::min),
        Op::Average => values.sum::<f64>() / ranks as f64,
    }
}

fn list<T: Number>(rank: usize, count: usize) -> Vec<T> {
    (0..count).map(|at| T::of(value(rank, at))).collect()
}

fn reduced<T: Number>(op: Op, ranks: usize, start: usize, count: usize) -> Vec<T> {
    (start..start + count).map(|at| T::of(expected(op, ranks, at))).collect()
}

/// Every collective of one type, with so many elements.
fn every_call<T: Number>(comm: &Comm, count: usize) -> Result<()> {
    let (rank, ranks, stream) = (comm.rank(), comm.ranks(), comm.stream());
    let mine = stream.upload(&list::<T>(rank, count))?;
    for op in OPS {
        let mut all = stream.alloc::<T>(count)?;
        comm.all_reduce(&mine, &mut all, op)?;
        assert_eq!(all.to_vec()?, reduced::<T>(op, ranks, 0, count), "all_reduce {op:?} of {count}");
        let mut place = stream.upload(&list::<T>(rank, count))?;
        comm.all_reduce_in_place(&mut place, op)?;
        assert_eq!(place.to_vec()?, reduced::<T>(op, ranks, 0, count), "in place {op:?} of {count}");
        for root in [0, ranks - 1] {
            let mut one = stream.alloc::<T>(count)?;
            comm.reduce(&mine, (rank == root).then_some(one.view_mut()), op, root)?;
            if rank == root {
                assert_eq!(one.to_vec()?, reduced::<T>(op, ranks, 0, count), "reduce {op:?} of {count} to {root}");
            }
        }
        let whole = stream.upload(&list::<T>(rank, count * ranks))?;
        let mut part = stream.alloc::<T>(count)?;
        comm.reduce_scatter(&whole, &mut part, op)?;
        assert_eq!(part.to_vec()?, reduced::<T>(op, ranks, rank * count, count), "reduce_scatter {op:?} of {count}");
    }
    let mut gathered = stream.alloc::<T>(count * ranks)?;
    comm.all_gather(&mine, &mut gathered)?;
    let every: Vec<T> = (0..ranks).flat_map(|rank| list::<T>(rank, count)).collect();
    assert_eq!(gathered.to_vec()?, every, "all_gather of {count}");
    let mut same = stream.upload(&list::<T>(rank, count))?;
    comm.broadcast(&mut same, ranks - 1)?;
    assert_eq!(same.to_vec()?, list::<T>(ranks - 1, count), "broadcast of {count}");
    // A ring: all send before any receives, which only a group can.
    let mut from = stream.alloc::<T>(count)?;
    let mut group = Group::new(stream.device().platform())?;
    group.send(comm, &mine, (rank + 1) % ranks)?;
    group.recv(comm, &mut from, (rank + ranks - 1) % ranks)?;
    group.run()?;
    assert_eq!(from.to_vec()?, list::<T>((rank + ranks - 1) % ranks, count), "messages of {count}");
    comm.wait()
}

fn every_type(comm: &Comm, count: usize) -> Result<()> {
    every_call::<i8>(comm, count)?;
    every_call::<u8>(comm, count)?;
    every_call::<i32>(comm, count)?;
    every_call::<u32>(comm, count)?;
    every_call::<i64>(comm, count)?;
    every_call::<u64>(comm, count)?;
    every_call::<half::f16>(comm, count)?;
    every_call::<half::bf16>(comm, count)?;
    every_call::<f32>(comm, count)?;
    every_call::<f64>(comm, count)
}

/// 64 MB, which is many times what the channels hold.
fn large(comm: &Comm) -> Result<()> {
    let (rank, ranks, stream, count) = (comm.rank(), comm.ranks(), comm.stream(), 16 << 20);
    let mut data = stream.upload(&list::<f32>(rank, count))?;
    comm.all_reduce_in_place(&mut data, Op::Sum)?;
    assert!(data.to_vec()? == reduced::<f32>(Op::Sum, ranks, 0, count), "all_reduce of 64 MB");
    // For whoever reads along, on a quiet machine: the best of five, beside a copy.
    let (from, mut to) = (vec![1f32; count], vec![0f32; count]);
    let best = |mut act: Box<dyn FnMut() -> Result<()> + '_>| -> Result<Duration> {
        let mut best = Duration::MAX;
        for _ in 0..5 {
            let begin = Instant::now();
            act()?;
            best = best.min(begin.elapsed());
        }
        Ok(best)
    };
    let reduced = best(Box::new(|| comm.all_reduce_in_place(&mut data, Op::Max).and_then(|()| comm.wait())))?;
    let copied = best(Box::new(|| {
        std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
        Ok(())
    }))?;
    println!("\n64 MB: all_reduce of {ranks} ranks {reduced:?}, a copy {copied:?}");
    Ok(())
}

#[test]
fn threads_agree_with_plain_sums() -> Result<()> {
    let platform = platform()?;
    for ranks in [1, 2, 4] {
        let id = Id::new(&platform)?;
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..ranks)
                .map(|rank| {
                    let (platform, id) = (&platform, &id);
                    scope.spawn(move || {
                        let comm = Comm::from_rank(&platform.device(rank)?.new_stream()?, id, rank, ranks)?;
                        [0, 1, 77].into_iter().try_for_each(|count| every_type(&comm, count))?;
                        every_call::<f32>(&comm, 300_001)
                    })
                })
                .collect();
            all.into_iter().try_for_each(|rank| rank.join().expect("no panic"))
        })?;
    }
    Ok(())
}

#[test]
fn processes_agree_with_plain_sums() -> Result<()> {
    if let Some(rank) = is_rank() {
        let comm = rank.join()?;
        [0, 1, 4099].into_iter().try_for_each(|count| every_type(&comm, count))?;
        return large(&comm);
    }
    for ranks in [2, 4] {
        let all = run_ranks("processes_agree_with_plain_sums", ranks, Kind::AllCome, "120");
        for (rank, (code, words)) in all.iter().enumerate() {
            assert!(code.success(), "rank {rank} of {ranks}: {words}");
            words.lines().filter(|line| line.starts_with("64 MB")).for_each(|line| eprintln!("{line}"));
        }
    }
    Ok(())
}

#[test]
fn ranks_of_a_launcher_meet() -> Result<()> {
    if is_rank().is_some() {
        let launch = Launch::from_environment()?.expect("the test sets torchrun's variables");
        let comm = launch.join(&platform()?.device(launch.local_rank)?.new_stream()?)?;
        assert_eq!((comm.rank(), comm.ranks()), (launch.rank, 3));
        return every_call::<f32>(&comm, 65);
    }
    for (well, words) in launch_ranks("ranks_of_a_launcher_meet", 3) {
        assert!(well, "{words}");
    }
    Ok(())
}

#[test]
fn a_rank_that_is_killed_is_named_by_the_others() -> Result<()> {
    if let Some(rank) = is_rank() {
        let comm = rank.join()?;
        let mut data = comm.stream().upload(&[1f32; 5000])?;
        comm.all_reduce_in_place(&mut data, Op::Sum)?;
        comm.wait()?;
        if comm.rank() == 1 {
            std::process::abort();
        }
        comm.all_reduce_in_place(&mut data, Op::Sum)?;
        let error = comm.wait().expect_err("rank 1 is gone").to_string();
        assert!(error.contains("rank 1 of 3 has ended"), "{error}");
        let again = comm.all_reduce_in_place(&mut data, Op::Sum).expect_err("nothing works any more").to_string();
        assert!(again.contains("rank 1 of 3"), "{again}");
        return Ok(());
    }
    let all = run_ranks("a_rank_that_is_killed_is_named_by_the_others", 3, Kind::AllCome, "120");
    assert!(!all[1].0.success());
    for rank in [0, 2] {
        assert!(all[rank].0.success(), "rank {rank}: {}", all[rank].1);
    }
    Ok(())
}

#[test]
fn a_rank_that_never_comes_is_named_when_the_limit_is_over() -> Result<()> {
    if let Some(rank) = is_rank() {
        let error = rank.join().expect_err("rank 2 does not come").to_string();
        assert!(error.contains("rank 2 of 3 did not come within 1.5 s"), "{error}");
        return Ok(());
    }
    let all = run_ranks("a_rank_that_never_comes_is_named_when_the_limit_is_over", 3, Kind::LastStaysAway, "1.5");
    for (code, words) in &all {
        assert!(code.success(), "{words}");
    }
    Ok(())
}

#[test]
fn a_rank_that_does_nothing_is_named_when_the_limit_is_over() -> Result<()> {
    if let Some(rank) = is_rank() {
        let comm = rank.join()?;
        let mut data = comm.stream().upload(&[1u32; 9])?;
        if comm.rank() == 0 {
            comm.all_reduce_in_place(&mut data, Op::Max)?;
            let error = comm.wait().expect_err("rank 1 makes no call").to_string();
            assert!(error.contains("rank 1 of 2 did nothing for 1.5 s in all_reduce (9 elements"), "{error}");
        } else {
            // Until rank 0 has given up, which is the end of its output.
            std::io::stdin().read_line(&mut String::new()).expect("the test closes it");
        }
        return Ok(());
    }
    let all = run_ranks("a_rank_that_does_nothing_is_named_when_the_limit_is_over", 2, Kind::LastWaits, "1.5");
    for (code, words) in &all {
        assert!(code.success(), "{words}");
    }
    Ok(())
}

#[test]
fn one_thread_may_be_all_ranks_and_calls_can_be_captured() -> Result<()> {
    let streams = streams(2)?;
    let comms = Comm::for_streams(&streams)?;
    let mut data = [streams[0].upload(&[1i64, 2])?, streams[1].upload(&[10i64, 20])?];
    let mut group = Group::new(streams[0].device().platform())?;
    for (comm, data) in comms.iter().zip(&mut data) {
        group.all_reduce_in_place(comm, data, Op::Sum)?;
    }
    group.run()?;
    for data in &data {
        assert_eq!(data.to_vec()?, [11, 22]);
    }
    let graphs: Vec<_> = (comms.iter().zip(&mut data))
        .map(|(comm, data)| comm.stream().capture(|_| comm.all_reduce_in_place(data, Op::Sum)))
        .collect::<Result<_>>()?;
    drop(comms);
    for _ in 0..2 {
        graphs.iter().zip(&streams).try_for_each(|(graph, stream)| graph.launch(stream))?;
    }
    for data in &data {
        assert_eq!(data.to_vec()?, [44, 88]);
    }
    Ok(())
}

#[test]
fn ranks_that_make_other_calls_are_told_so() -> Result<()> {
    let streams = streams(2)?;
    let comms = Comm::for_streams(&streams)?;
    let (mut one, mut two) = (streams[0].upload(&[1f32; 8])?, streams[1].upload(&[1f32; 8])?);
    comms[0].all_reduce_in_place(&mut one, Op::Sum)?;
    comms[1].all_reduce_in_place(&mut two, Op::Max)?;
    let errors: Vec<String> =
        comms.iter().filter_map(|comm| comm.wait().err()).map(|error| error.to_string()).collect();
    assert!(errors.iter().any(|error| error.contains("ncclSum") && error.contains("ncclMax")), "{errors:?}");
    // A new communicator works.
    let comms = Comm::for_streams(&streams)?;
    for (comm, data) in comms.iter().zip([&mut one, &mut two]) {
        data.write(&[1.0; 8])?;
        comm.all_reduce_in_place(data, Op::Sum)?;
    }
    assert_eq!((one.to_vec()?, two.to_vec()?), (vec![2.0; 8], vec![2.0; 8]));
    Ok(())
}

#[test]
fn what_cannot_be_is_refused_with_a_sentence() -> Result<()> {
    let streams = streams(2)?;
    let platform = streams[0].device().platform();
    assert!(Comm::from_rank(&streams[0], &Id::new(platform)?, 2, 2)
        .expect_err("no rank 2")
        .to_string()
        .contains("rank 2 of 2"));
    let foreign = Comm::from_rank(&streams[0], &Id::from_bytes([1; 128]), 0, 1).expect_err("no id").to_string();
    assert!(foreign.contains("not made by the embedded device"), "{foreign}");
    assert!(Comm::for_streams(&[streams[0].clone(), streams[0].clone()]).is_err());
    let comms = Comm::for_streams(&streams)?;
    let (mut small, other) = (streams[0].alloc::<f32>(3)?, streams[1].alloc::<f32>(3)?);
    assert!(comms[0].send(&small, 2).expect_err("no rank 2").to_string().contains("no rank 2"));
    assert!(comms[0].send(&other, 1).expect_err("another stream's").to_string().contains("another stream"));
    let sizes = comms[0].all_gather(&other, &mut small).expect_err("too small").to_string();
    assert!(sizes.contains("times the ranks"), "{sizes}");
    comms[0].abort()?;
    assert!(comms[0].broadcast(&mut small, 0).expect_err("aborted").to_string().contains("aborted"));
    Ok(())
}

#[test]
fn a_failure_of_every_call_is_an_error_and_the_next_attempt_works() -> Result<()> {
    let streams = streams(2)?;
    let platform = streams[0].device().platform().clone();
    let work = || -> Result<()> {
        let single = Comm::from_rank(&streams[0], &Id::new(&platform)?, 0, 1)?;
        let (mine, mut whole) = (streams[0].upload(&[3u8; 4])?, streams[0].alloc(4)?);
        single.reduce(&mine, Some(whole.view_mut()), Op::Sum, 0)?;
        single.broadcast(&mut whole, 0)?;
        single.reduce_scatter(&mine, &mut whole, Op::Sum)?;
        single.all_gather(&mine, &mut whole)?;
        single.all_reduce_in_place(&mut whole, Op::Sum)?;
        let mut back = streams[0].alloc::<u8>(4)?;
        let mut group = Group::new(&platform)?;
        group.send(&single, &mine, 0)?;
        group.recv(&single, &mut back, 0)?;
        group.run()?;
        single.wait()?;
        assert_eq!((whole.to_vec()?, back.to_vec()?), (vec![3; 4], vec![3; 4]));
        rocm::rccl::version(&platform)?;
        single.abort()?;
        Comm::for_streams(&streams).map(drop)
    };
    let (done, calls) = hip_host::inject::record(work);
    done?;
    let calls: Vec<_> = calls.into_iter().filter(|(name, _)| name.starts_with("nccl")).collect();
    let names: Vec<&str> = calls.iter().map(|(name, _)| *name).collect();
    for name in rocm::rccl::Rccl::FUNCTIONS.iter().map(|function| function.name) {
        // These give words and cannot fail, or answer what the ranks know themselves.
        let quiet = ["ncclGetErrorString", "ncclGetLastError", "ncclCommCount", "ncclCommCuDevice", "ncclCommUserRank"];
        assert!(names.contains(&name) || quiet.contains(&name), "{name} is not tried");
    }
    for (name, count) in calls {
        for nth in 1..=count {
            let armed = hip_host::inject::fail(name, nth, 3);
            let done = work();
            assert!(armed.fired(), "{name} {nth}");
            // What is dropped has nobody to tell.
            if name != "ncclCommDestroy" {
                let error = done.expect_err(name).to_string();
                assert!(error.contains(name) && error.contains("ncclInternalError (3)"), "{error}");
            }
            drop(armed);
            work()?;
        }
    }
    Ok(())
}
