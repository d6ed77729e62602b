//! The table is consistent, and every architecture finds its row.

use super::table::Source;
use super::*;
use crate::arch::{Arch, ALL};

#[test]
fn every_architecture_finds_its_row() {
    let rows = [
        ("sm_75", "NVIDIA before Ampere"),
        ("sm_80", "NVIDIA Ampere and Ada"),
        ("sm_89", "NVIDIA Ampere and Ada"),
        ("sm_90", "NVIDIA Hopper and Blackwell"),
        ("sm_120", "NVIDIA Hopper and Blackwell"),
        ("gfx900", "gfx906 (Vega)"),
        ("gfx906", "gfx906 (Vega)"),
        ("gfx90c", "gfx906 (Vega)"),
        ("gfx908", "gfx908 (CDNA 1)"),
        ("gfx90a:sramecc+:xnack-", "gfx90a (CDNA 2)"),
        ("gfx942", "gfx942 (CDNA 3)"),
        ("gfx950", "gfx950 (CDNA 4)"),
        ("gfx1010", "gfx101x (RDNA 1)"),
        ("gfx1030", "gfx103x (RDNA 2)"),
        ("gfx1036", "gfx103x (RDNA 2)"),
        ("gfx1100", "gfx11 (RDNA 3)"),
        ("gfx1151", "gfx11 (RDNA 3)"),
        ("gfx1201", "gfx12 (RDNA 4)"),
        ("host", "the embedded device"),
    ];
    for (arch, name) in rows {
        let (row, reason) = look_up(arch);
        assert_eq!((row.name, reason), (name, None), "{arch}");
    }
    // Whatever objects are made for is in the table.
    for arch in ALL.iter().filter(|arch| !arch.ends_with("-generic")) {
        assert_eq!(look_up(arch).1, None, "{arch}");
    }
}

#[test]
fn unknown_ones_fall_to_the_nearest_and_say_why() {
    let rows = [
        ("sm_30", "NVIDIA before Ampere", "the oldest"),
        ("sm_130", "NVIDIA Hopper and Blackwell", "nearest older"),
        ("gfx803", "gfx906 (Vega)", "the oldest"),
        ("gfx90b", "gfx90a (CDNA 2)", "nearest older"),
        ("gfx960", "gfx950 (CDNA 4)", "nearest older"),
        ("gfx1040", "gfx103x (RDNA 2)", "nearest older"),
        ("gfx1170", "gfx11 (RDNA 3)", "nearest older"),
        ("gfx1310", "gfx12 (RDNA 4)", "nearest older"),
        ("voodoo", "gfx103x (RDNA 2)", "no family"),
    ];
    for (arch, name, why) in rows {
        let (row, reason) = look_up(arch);
        let reason = reason.unwrap_or_default();
        assert_eq!(row.name, name, "{arch}");
        assert!(reason.contains(why) && reason.contains(arch) && reason.contains(name), "{arch}: {reason}");
    }
}

#[test]
fn no_two_rows_hold_one_version() {
    let mut seen = Vec::new();
    for row in &TABLE {
        for &(first, last) in row.versions {
            assert!(first <= last, "{}", row.name);
            for version in first..=last {
                assert!(!seen.contains(&(row.family as u8, version)), "{} holds {version:x} again", row.name);
                seen.push((row.family as u8, version));
            }
        }
    }
    // Oldest first, which the look-up counts on.
    for pair in TABLE.windows(2).filter(|pair| pair[0].family == pair[1].family) {
        assert!(pair[0].versions[0] < pair[1].versions[0], "{} and {}", pair[0].name, pair[1].name);
    }
}

#[test]
fn every_value_says_where_it_comes_from() {
    for row in &TABLE {
        for (name, value, source) in row.values() {
            let said = match source {
                Source::DataSheet(what) | Source::Argued(what) => !what.is_empty(),
                Source::Measured { card, date } => !card.is_empty() && date.starts_with("20"),
            };
            assert!(said, "{}: {name} is {value} by {source:?}", row.name);
            assert!(row.to_string().contains(&value), "{row}");
        }
        assert!(row.rates.value.f32 > 0.0 && row.rates.value.f64 > 0.0 && row.rates.value.memory > 0.0, "{}", row.name);
    }
}

#[test]
fn units_of_rdna_are_two_compute_units() {
    // What HIP reports of an RX 7900 XTX: work-group processors, and the threads of a compute unit.
    let card = |arch: &str, units| Profile { units, threads_per_unit: 0, ..Profile::example(arch) };
    assert_eq!(card("gfx1100", 48).blocks(2), 192);
    assert_eq!(card("gfx942", 304).blocks(2), 608);
    assert_eq!(card("sm_90", 132).blocks(1), 132);
    for arch in ALL.iter().filter(|arch| !arch.ends_with("-generic")) {
        let waves_of_32 = Arch::parse(arch).is_ok_and(|arch| arch.wave_size() == 32);
        assert_eq!(look_up(arch).0.compute_units_per_unit.value, if waves_of_32 { 2 } else { 1 }, "{arch}");
    }
}

#[test]
fn products_of_few_rows_are_ours_in_every_family() {
    for arch in ["sm_90", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"] {
        assert!(look_up(arch).0.few_rows_bytes.value > 1 << 20, "{arch}");
    }
    assert!(look_up("host").0.few_rows_bytes.value < 1 << 20);
    assert!(look_up("sm_90").0.bulk_copies.value && look_up("sm_120").0.bulk_copies.value);
    assert!(["sm_80", "sm_89", "gfx942", "host"].iter().all(|arch| !look_up(arch).0.bulk_copies.value));
}
