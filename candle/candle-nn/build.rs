//! Grafts upstream's release of this package into `OUT_DIR`; all of it is done by `candle-graft`.

fn main() {
    candle_graft::build_script::main();
}
