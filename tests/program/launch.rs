//! `candle-rocm launch`: what each rank is told, how the ranks end together, and that signals reach them. The ranks are shells.

use crate::support::*;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Far below the 30 seconds after which ranks are killed, far above what ending takes on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// The command line that runs a script as every rank.
fn launch(ranks: &str, script: &str) -> Command {
    let mut command = program();
    for variable in ["RANK", "WORLD_SIZE", "MASTER_PORT"] {
        command.env(variable, "99");
    }
    command.env("TORCHELASTIC_USE_AGENT_STORE", "True");
    command.args(["launch", "-n", ranks, "--", "sh", "-c", script]).stdin(Stdio::null());
    // Whoever started the tests may have signals ignored, as nohup does, and programs inherit that.
    // SAFETY: between fork and exec nothing but `signal` is called, which may be.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    command
}

fn output(ranks: &str, script: &str) -> Output {
    launch(ranks, script).output().expect("the program starts")
}

#[test]
fn each_rank_gets_torchruns_variables() {
    let said = printed(output(
        "3",
        r#"echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $HIP_HOST_DEVICES [$TORCHELASTIC_USE_AGENT_STORE] $MASTER_PORT""#,
    ));
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    let port: u16 = lines[0].rsplit(' ').next().expect("a port").parse().expect("a number");
    let expected: Vec<String> = (0..3).map(|rank| format!("{rank} {rank} 3 3 127.0.0.1 3 [] {port}")).collect();
    assert_eq!(lines, expected);
    assert!(port > 1023 && port != 99, "{port}");
    let mut named = program();
    named.args(["launch", "-n", "1", "--master-port", "2345", "sh", "-c", "echo $MASTER_PORT $HIP_HOST_DEVICES"]);
    assert_eq!(printed(named.env("HIP_HOST_DEVICES", "5").output().expect("it starts")), "2345 5\n");
}

#[test]
fn output_and_arguments_are_left_as_they_are() {
    let mut command = program();
    command.args(["launch", "-n", "1", "--", "printf", "%s|", "-n", "--quiet", "a b"]);
    assert_eq!(printed(command.stdin(Stdio::null()).output().expect("it starts")), "-n|--quiet|a b|");
    // Standard input is rank 0's.
    let read = ["launch", "-n", "2", "--", "sh", "-c", r#"echo "$RANK:$(cat)""#];
    let said = printed(run_with_input(&read, b"words"));
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0:words", "1:"]);
}

#[test]
fn a_rank_that_fails_ends_the_others_and_gives_its_exit_code() {
    let begin = Instant::now();
    // The sleeper is a child of the rank, and has to end with it.
    let failed = output("3", "test $RANK = 1 && exit 7; sleep 600; true");
    assert_fails(&failed, 7, &["rank 1 of 3 ended with exit code 7"]);
    let killed = output("2", "test $RANK = 0 && kill -KILL $$; sleep 600; true");
    assert_fails(&killed, 128 + 9, &["rank 0 of 2 was ended by SIGKILL"]);
    assert!(begin.elapsed() < SOON, "the others were not ended: {:?}", begin.elapsed());
    // Those that end well are not missed.
    let late = output("2", "test $RANK = 0 && exit 0; sleep 0.3; exit 4");
    assert_fails(&late, 4, &["rank 1 of 2 ended with exit code 4"]);
}

#[test]
fn signals_reach_the_ranks() {
    let begin = Instant::now();
    for (name, code) in [("TERM", 128 + 15), ("INT", 130), ("HUP", 129)] {
        let mut launched = start(&mut launch(
            "2",
            "exec 2>/dev/null; trap 'echo told $RANK; exit 0' TERM INT HUP; echo ready; while :; do sleep 0.05; done",
        ));
        let mut lines = BufReader::new(launched.stdout.take().expect("a pipe")).lines().map(|line| line.expect("text"));
        assert_eq!([lines.next(), lines.next()], [Some("ready".to_owned()), Some("ready".to_owned())]);
        kill(name, &launched);
        let mut told: Vec<String> = lines.collect();
        told.sort_unstable();
        assert_eq!(told, ["told 0", "told 1"], "SIG{name}");
        let ended = launched.wait_with_output().expect("it ends");
        assert_fails(&ended, code, &[&format!("SIG{name} was passed on to all 2 ranks")]);
    }
    assert!(begin.elapsed() < 2 * SOON, "{:?}", begin.elapsed());
}

#[test]
fn a_signal_that_does_not_end_programs_does_not_end_the_ranks() {
    let script = "exec 2>/dev/null; trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep 0.05; done";
    let mut launched = start(&mut launch("1", script));
    let mut lines = BufReader::new(launched.stdout.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    assert_eq!(lines.next().as_deref(), Some("ready"));
    kill("USR1", &launched);
    assert_eq!(lines.next().as_deref(), Some("saved"));
    assert!(launched.wait().expect("it ends").success());
}

#[test]
fn ranks_do_not_outlive_a_launcher_that_is_killed() {
    let mut launched = start(&mut launch("2", "echo $$; exec sleep 600"));
    let lines = BufReader::new(launched.stdout.take().expect("a pipe")).lines();
    let ranks: Vec<String> = lines.take(2).map(|line| line.expect("text")).collect();
    kill("KILL", &launched);
    launched.wait().expect("it ends");
    let begin = Instant::now();
    while ranks.iter().any(|rank| runs(rank)) {
        assert!(begin.elapsed() < SOON, "{ranks:?} still run");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_cannot_be_launched_is_refused() {
    assert_fails(
        &run(&["launch", "-n", "2", "--", "there-is-no-such-program"]),
        3,
        &["there-is-no-such-program does not start"],
    );
    for arguments in [&["launch", "-n", "0", "true"][..], &["launch", "-n", "2"], &["launch", "true"]] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

fn kill(signal: &str, child: &Child) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status();
    assert!(sent.expect("there is a shell").success());
}

/// Whether a process is there and has not ended.
fn runs(process: &str) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    !status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}
