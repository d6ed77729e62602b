//! `candle-rocm`, the program a person meets first. Each subcommand is a module of its own; this file only names them.

mod bench;
mod compile;
mod device;
mod doctor;
mod failure;
mod generate;
mod info;
mod story;
mod terminal;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// Candle on AMD GPUs. Without a command: a story, told by a small model inside the program.
#[derive(Parser)]
#[command(
    version,
    about,
    after_help = "Exit codes: 0 done, 1 the device failed, 2 the command line makes no sense, 3 an input file cannot be used."
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Measure how fast the device is, case by case, beside the CPU or results from a file
    Bench(bench::Arguments),
    /// Make code objects for AMD GPUs, as files or in the disk cache, and say what the compiler made of the kernels
    Compile(compile::Arguments),
    /// Check everything that an AMD GPU needs, and say what to do where something is wrong (exit code 1: a problem)
    Doctor {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Continue a prompt with a model from a GGUF file
    Generate(generate::command::Arguments),
    /// Say which platform is used and why, what devices and libraries there are, and what is missing
    Info {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("error")).format_timestamp(None).init();
    let outcome = match Arguments::parse().command {
        None => story::run(device::Choice::Rocm(0)),
        Some(Command::Bench(arguments)) => bench::run(arguments),
        Some(Command::Compile(arguments)) => compile::run(arguments),
        Some(Command::Doctor { json }) => doctor::run(json),
        Some(Command::Generate(arguments)) => generate::command::run(arguments),
        Some(Command::Info { json }) => info::run(json).map_err(Failure::from),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("candle-rocm: {failure}");
            ExitCode::from(failure.code as u8)
        }
    }
}
