//! The benchmark as a whole, in its small size on the embedded device.

use super::*;

fn chosen(pattern: &str) -> Vec<Case> {
    cases::all(Size::Small).into_iter().filter(|case| case.matches(pattern)).collect()
}

#[test]
fn names_are_unique() {
    for size in [Size::Small, Size::Full] {
        let all = cases::all(size);
        let mut names: Vec<&str> = all.iter().map(|case| case.name.as_str()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "two cases of one name cannot be told apart in a file");
        assert!(count > 100, "{count} cases");
    }
}

#[test]
fn patterns_choose() {
    assert!(chosen("SOFTMAX f32").iter().all(|case| case.name.starts_with("softmax f32")));
    assert_eq!(chosen("SOFTMAX f32").len(), 3);
    assert!(chosen("sort,gather").len() > 4);
    assert!(chosen("no such thing").is_empty());
}

#[test]
fn the_files_of_figures_can_be_read_and_name_our_cases() {
    let all = cases::all(Size::Full);
    for file in ["candle-cuda-h200.json", "candle-rocm-h200.json", "llama-cpp-h200.json", "pytorch-h200.json"] {
        let report = Report::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("benches").join(file)).unwrap();
        for entry in &report.entries {
            assert!(all.iter().any(|case| case.name == entry.name), "{file}: no case is called {:?}", entry.name);
        }
    }
}

/// Every family once: what is timed runs, and comes out as table, file and picture.
#[test]
fn cases_run_and_are_shown() {
    let cases = chosen(
        "copy f32,gelu,transposed(1,2),sum of columns f32,gather,matmul f32,conv1d k3 f32,Q4_0,launch,number back",
    );
    let report = measure(&cases, Choice::Rocm(0), Size::Small).unwrap();
    for entry in &report.entries {
        let times = entry.outcome.as_ref().unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        assert!(times.low > 0. && times.low <= times.median && times.median <= times.high, "{}", entry.name);
    }
    let text = table::text(&report, &[]);
    assert!(report.entries.iter().all(|entry| text.contains(&entry.name)), "{text}");
    let file = report.to_json().to_string();
    let back = Report::from_json(&serde_json::from_str(&file).unwrap(), "memory").unwrap();
    assert_eq!(back.entries.len(), report.entries.len());
    for others in [vec![], vec![back.clone()], vec![back.clone(), back]] {
        well_formed(&plot::svg(&report, &others));
        assert!(plot::html(&report, &others).contains("</svg>"));
    }
}

fn figures(file: &str) -> Report {
    Report::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("benches").join(file)).unwrap()
}

/// The value of an attribute of a tag.
fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    let start = tag.find(&format!(" {name}=\"")).unwrap_or_else(|| panic!("<{tag}> has no {name}")) + name.len() + 3;
    &tag[start..start + tag[start..].find('"').unwrap()]
}

/// Every name of the legend is inside the picture, however many and however long they are.
#[test]
fn the_legend_of_a_picture_is_whole() {
    let report = figures("candle-rocm-h200.json");
    let mut others =
        vec![figures("candle-cuda-h200.json"), figures("pytorch-h200.json"), figures("llama-cpp-h200.json")];
    for title in
        ["a build of Candle with a name that is long", "short", "and one whose name is \u{fc}ber <lang> & more"]
    {
        others.push(Report { title: title.into(), ..figures("pytorch-h200.json") });
        let svg = plot::svg(&report, &others);
        well_formed(&svg);
        let width: f64 = attribute(&svg[1..svg.find('>').unwrap()], "width").parse().unwrap();
        for name in others.iter().map(|other| other.title.as_str()).chain(["slower"]) {
            let text = format!(">{}</text>", name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"));
            let end = svg.find(&text).unwrap_or_else(|| panic!("{name} is not in the legend"));
            let x: f64 = attribute(&svg[svg[..end].rfind('<').unwrap()..end], "x").parse().unwrap();
            // A sans-serif of 12 pixels is 7 wide in the mean.
            assert!(x + 7. * name.chars().count() as f64 <= width, "{name} begins at {x} of {width}");
        }
    }
    others[0].title = "x".repeat(300);
    assert!(plot::svg(&report, &others).contains("xx…</text>"), "what is longer than a line is cut");
}

/// A viewer without style sheets draws the same picture: each mark says itself how it looks.
#[test]
fn pictures_need_no_style_sheet() {
    let others = [figures("candle-cuda-h200.json"), figures("pytorch-h200.json")];
    for svg in
        [plot::svg(&figures("candle-rocm-h200.json"), &others), plot::svg(&figures("candle-rocm-h200.json"), &[])]
    {
        assert!(!svg.contains("var("), "not every viewer knows variables");
        for tag in svg.split('<').filter_map(|rest| rest.split('>').next()) {
            let colour = match tag.split(' ').next().unwrap_or_default() {
                "line" => " stroke=\"#",
                "rect" | "text" | "circle" | "polyline" => " fill=\"",
                _ => continue,
            };
            assert!(tag.contains(colour), "<{tag}> has no colour of its own");
        }
    }
}

/// Elements are closed in order, attributes are quoted, and no number is missing.
fn well_formed(svg: &str) {
    let mut open = Vec::new();
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        let end = rest[at..].find('>').expect("a tag ends") + at;
        let tag = &rest[at + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        assert!(!tag.contains("NaN") && !tag.contains("inf"), "{tag}");
        match (tag.strip_prefix('/'), tag.ends_with('/')) {
            (Some(name), _) => assert_eq!(open.pop(), Some(name), "closes what was opened last"),
            (None, true) => {}
            (None, false) => open.push(tag.split_whitespace().next().expect("a name")),
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "left open: {open:?}");
}
