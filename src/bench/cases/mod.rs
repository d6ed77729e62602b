//! The tables of cases, by family. The same names are in `benches/pytorch.py` and in the files of results beside it.

mod elementwise;
mod image;
mod indexing;
mod matrix;
mod model;
mod quantized;
mod rows;
mod transfer;

use super::case::{Case, Cases, Size};

/// Every case, in the order in which they run and are shown.
pub fn all(size: Size) -> Vec<Case> {
    let mut cases = Cases { size, list: Vec::new() };
    for table in [
        elementwise::add_to,
        rows::add_to,
        indexing::add_to,
        matrix::add_to,
        image::add_to,
        quantized::add_to,
        transfer::add_to,
        model::add_to,
    ] {
        table(&mut cases);
    }
    cases.list
}
