//! The program as a person or a script meets it: run as a process, with files, pipes and a pseudo-terminal. What its parts do
//! inside is tested beside them in `src/`.

mod bad_input;
#[path = "../models/downloads.rs"]
mod downloads;
mod embed;
mod emulated;
mod generate;
mod hub;
mod inspect;
mod interface;
mod launch;
mod selftest;
mod speed;
mod support;
mod terminal;
mod transcribe;
mod tune;
