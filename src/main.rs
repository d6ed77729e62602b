//! `candle-rocm`, the program a person meets first. Each subcommand is a module of its own; this file only names them.

mod info;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Candle on AMD GPUs.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
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
        None => info::run(false),
        Some(Command::Info { json }) => info::run(json),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("candle-rocm: {error}");
            ExitCode::FAILURE
        }
    }
}
