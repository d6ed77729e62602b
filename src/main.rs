//! `candle-rocm`, the program a person meets first. Each subcommand is a module of its own; this file only names them.

mod bench;
mod compile;
mod device;
mod doctor;
mod embed;
mod emulate;
mod failure;
mod generate;
mod info;
mod inspect;
mod launch;
mod loaded;
mod model;
mod selftest;
mod story;
mod terminal;
mod transcribe;
mod tune;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, Parser, Subcommand};
use failure::{Failure, Result};
use std::process::ExitCode;

/// Candle on AMD GPUs. Without a command: a story, told by a small model inside the program.
#[derive(Parser)]
#[command(version, after_help = failure::EXIT_CODES, max_term_width = 100)]
struct Arguments {
    /// Print results and failures only
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Say more about what happens; twice for everything
    #[arg(long, short, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Measure how fast the device is, case by case, beside the CPU or results from a file
    #[command(after_help = failure::EXIT_CODES)]
    Bench(bench::Arguments),
    /// Make code objects for AMD GPUs, as files or in the disk cache, and say what the compiler made of the kernels
    #[command(after_help = failure::EXIT_CODES)]
    Compile(compile::Arguments),
    /// Check everything that an AMD GPU needs, and say what to do where something is wrong (exit code 1: a problem)
    #[command(after_help = failure::EXIT_CODES)]
    Doctor {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Turn texts into vectors with a sentence-embedding model, or compare them
    #[command(after_help = failure::EXIT_CODES)]
    Embed(embed::Arguments),
    /// Run a program of ROCm on emulated GPUs, on a machine without an AMD GPU
    #[command(after_help = "For example: candle-rocm emulate --arch gfx1100,gfx90a -- rocminfo")]
    Emulate(emulate::Arguments),
    /// Continue a prompt or hold a conversation with a language model
    #[command(after_help = failure::EXIT_CODES)]
    Generate(generate::command::Arguments),
    /// Say which platform is used and why, what devices and libraries there are, and what is missing
    #[command(after_help = failure::EXIT_CODES)]
    Info {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Count what makes kernels fast or slow on AMD GPUs, without one (exit code 1: worse than --against)
    #[command(after_help = failure::EXIT_CODES)]
    Inspect(inspect::Arguments),
    /// Start a program once for each GPU of this machine, as torchrun does (exit code: that of the rank that failed)
    #[command(after_help = "For example: candle-rocm launch -n 2 -- target/release/train")]
    Launch(launch::Arguments),
    /// Test the device from the runtime to Candle's operations, and write a report for an issue (exit code 1: something failed)
    #[command(after_help = failure::EXIT_CODES)]
    Selftest(selftest::Arguments),
    /// Write down what is said in a WAV file, with a Whisper model
    #[command(after_help = failure::EXIT_CODES)]
    Transcribe(transcribe::Arguments),
    /// Measure on this card which kernels are fastest from which sizes on, and keep it for programs to plan with
    #[command(after_help = failure::EXIT_CODES)]
    Tune(tune::Arguments),
    /// Print a script that completes this program's command lines in a shell
    #[command(after_help = "For example: candle-rocm completions bash >> ~/.bashrc")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    let outcome = parse().and_then(|arguments| {
        if arguments.quiet {
            terminal::be_quiet();
        }
        let level = ["error", "info", "debug"][usize::from(arguments.verbose.min(2))];
        env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(level))
            .format_timestamp(None)
            .init();
        match arguments.command {
            None => story::run(device::Choice::Rocm(0)),
            Some(Command::Bench(arguments)) => bench::run(arguments),
            Some(Command::Compile(arguments)) => compile::run(arguments),
            Some(Command::Doctor { json }) => doctor::run(json),
            Some(Command::Embed(arguments)) => embed::run(arguments),
            Some(Command::Emulate(arguments)) => emulate::run(arguments),
            Some(Command::Generate(arguments)) => generate::command::run(arguments),
            Some(Command::Info { json }) => info::run(json),
            Some(Command::Inspect(arguments)) => inspect::run(arguments),
            Some(Command::Launch(arguments)) => launch::run(arguments),
            Some(Command::Selftest(arguments)) => selftest::run(arguments),
            Some(Command::Transcribe(arguments)) => transcribe::run(arguments),
            Some(Command::Tune(arguments)) => tune::run(arguments),
            Some(Command::Completions { shell }) => completions(shell),
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::fail(&failure.sentence);
            ExitCode::from(failure.code as u8)
        }
    }
}

/// The command line. What clap has to say about it, it says itself, and the process ends.
fn parse() -> Result<Arguments> {
    Arguments::try_parse().map_err(|error| match error.kind() {
        ErrorKind::InvalidUtf8 => {
            Failure::usage("an argument is not text in UTF-8: type it again, or pass it on standard input")
        }
        _ => error.exit(),
    })
}

fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), env!("CARGO_PKG_NAME"), &mut script);
    terminal::print(&String::from_utf8_lossy(&script))
}
