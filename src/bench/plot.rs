//! A report as a picture: bars, one case a line, and the roofline. SVG of our own making, readable in light and dark, with a
//! tooltip on every mark; as HTML, the same picture in a page.

use super::record::{Entry, Report};
use super::table::{duration, share};
use std::fmt::Write;

const WIDTH: f64 = 1100.;
const LEFT: f64 = 400.;
const RIGHT: f64 = 1060.;
const LINE: f64 = 17.;

/// How each kind of mark looks, as presentation attributes, which every viewer knows; and its colour where the reader likes dark pages.
/// That comes from a style sheet, which goes before the attributes where a viewer has such a thing.
const LOOKS: [(&str, &str, &str); 12] = [
    ("paper", "fill=\"#ffffff\"", "fill:#1a2129"),
    ("plain", "fill=\"#1f2933\"", "fill:#e4e7eb"),
    ("soft", "fill=\"#7b8794\"", "fill:#9aa5b1"),
    ("head", "fill=\"#1f2933\" font-size=\"18\" font-weight=\"600\"", "fill:#e4e7eb"),
    ("family", "fill=\"#1f2933\" font-weight=\"600\"", "fill:#e4e7eb"),
    ("grid", "stroke=\"#e4e7eb\"", "stroke:#323f4b"),
    ("axis", "stroke=\"#7b8794\"", "stroke:#9aa5b1"),
    ("good", "fill=\"#2f9e6e\"", "fill:#4cc38a"),
    ("bad", "fill=\"#e0703c\"", "fill:#f0915f"),
    ("one", "fill=\"#3b76c4\"", "fill:#6ea3e8"),
    ("two", "fill=\"#9a6fc0\"", "fill:#bb98dd"),
    ("roof", "fill=\"none\" stroke=\"#1f2933\" stroke-width=\"2\"", "stroke:#e4e7eb"),
];

/// The attributes of a mark.
fn look(class: &str) -> String {
    let attributes = LOOKS.iter().find(|look| look.0 == class).map_or("", |look| look.1);
    format!("class=\"{class}\" {attributes}")
}

fn dark_style() -> String {
    let rules: String = LOOKS.iter().map(|(class, _, dark)| format!(".{class}{{{dark}}}")).collect();
    format!("<style>@media (prefers-color-scheme:dark){{{rules}}}</style>")
}

/// How wide a text is at the most; which font a viewer has is not known.
fn text_width(text: &str) -> f64 {
    7.5 * text.chars().count() as f64
}

/// An SVG while it is drawn.
struct Canvas {
    body: String,
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Canvas {
    // Writing to a string cannot fail.
    fn text(&mut self, x: f64, y: f64, anchor: &str, class: &str, text: &str) {
        let text = escape(text);
        let look = look(class);
        let _ = writeln!(self.body, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" {look}>{text}</text>"#);
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let look = look(class);
        let _ = writeln!(self.body, r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" {look}/>"#);
    }

    fn bar(&mut self, class: &str, from: f64, to: f64, y: f64, height: f64, tip: &str) {
        let (x, width) = (from.min(to), (to - from).abs().max(1.));
        let (tip, look) = (escape(tip), look(class));
        let _ = writeln!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="2" {look}><title>{tip}</title></rect>"#
        );
    }

    fn dot(&mut self, class: &str, (x, y): (f64, f64), tip: &str) {
        let (tip, look) = (escape(tip), look(class));
        let _ = writeln!(
            self.body,
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="4.5" fill-opacity="0.75" {look}><title>{tip}</title></circle>"#
        );
    }
}

/// A logarithmic axis from `low` to `high`, drawn from `start` to `end`.
struct Axis {
    low: f64,
    high: f64,
    start: f64,
    end: f64,
}

impl Axis {
    fn at(&self, value: f64) -> f64 {
        let along = (value.clamp(self.low, self.high) / self.low).ln() / (self.high / self.low).ln();
        self.start + along * (self.end - self.start)
    }

    fn powers(&self, base: f64) -> impl Iterator<Item = f64> + '_ {
        let (first, last) = ((self.low.log(base) - 1e-9).ceil() as i32, (self.high.log(base) + 1e-9).floor() as i32);
        (first..=last).map(move |power| base.powi(power))
    }
}

/// The whole picture.
pub fn svg(report: &Report, others: &[Report]) -> String {
    let mut canvas = Canvas { body: String::new() };
    let mut y = 40.;
    canvas.text(24., y, "start", "head", &format!("{} on {}", report.title, report.device));
    canvas.text(24., y + 20., "start", "soft", &format!("{}; {}", report.date, report.method));
    y += 56.;
    y = if others.is_empty() { shares(&mut canvas, report, y) } else { speedups(&mut canvas, report, others, y) };
    y = roofline(&mut canvas, report, y + 50.);
    let height = y + 40.;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         {}\n<rect {} width=\"{WIDTH}\" height=\"{height:.0}\"/>\n{}</svg>\n",
        dark_style(),
        look("paper"),
        canvas.body
    )
}

/// The picture in a page.
pub fn html(report: &Report, others: &[Report]) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{}</title>\n\
         <style>body{{margin:0;background:#fff}}svg{{display:block;margin:auto;max-width:100%;height:auto}}\
         @media(prefers-color-scheme:dark){{body{{background:#1a2129}}}}</style></head>\n<body>\n{}</body>\n</html>\n",
        escape(&format!("{} on {}", report.title, report.device)),
        svg(report, others)
    )
}

/// Draws the entries as lines under the names of their families; `mark` draws one. Returns where the next thing may start.
fn lines(canvas: &mut Canvas, entries: &[&Entry], mut y: f64, mut mark: impl FnMut(&mut Canvas, &Entry, f64)) -> f64 {
    let mut family = "";
    for entry in entries {
        if entry.family != family {
            family = &entry.family;
            y += 10.;
            canvas.text(24., y + 11., "start", "family", family);
            y += LINE;
        }
        canvas.text(LEFT - 12., y + 11., "end", "plain", &entry.name);
        mark(canvas, entry, y);
        y += LINE;
    }
    y
}

/// How many times faster than the others, on a logarithmic axis with 1 in the middle.
fn speedups(canvas: &mut Canvas, report: &Report, others: &[Report], y: f64) -> f64 {
    let both = |entry: &&Entry| others.iter().any(|other| report.speedup(other, &entry.name).is_some());
    let entries: Vec<&Entry> = report.entries.iter().filter(both).collect();
    let all = entries.iter().flat_map(|entry| others.iter().filter_map(|other| report.speedup(other, &entry.name)));
    let reach = all.map(|speedup| speedup.max(1. / speedup)).fold(2., f64::max).log2().ceil().exp2();
    let axis = Axis { low: 1. / reach, high: reach, start: LEFT, end: RIGHT };
    let classes = ["good", "one", "two"];
    canvas.text(LEFT, y, "start", "family", "times faster (right of 1) or slower (left of it) than");
    let names = others.iter().enumerate().map(|(index, other)| (classes[index % 3], other.title.as_str()));
    let y = legend(canvas, names.chain([("bad", "slower")]), y + 20.);
    let top = y + 22.;
    let grid = canvas.body.len();
    let height = LINE / others.len() as f64 - 2.;
    let bottom = lines(canvas, &entries, top, |canvas, entry, y| {
        for (index, other) in others.iter().enumerate() {
            let Some(speedup) = report.speedup(other, &entry.name) else { continue };
            let class = if speedup < 1. { "bad" } else { classes[index % 3] };
            let tip = format!("{}: {speedup:.2} times as fast as {}", entry.name, other.title);
            let y = y + 1. + index as f64 * (height + 1.);
            canvas.bar(class, axis.at(1.), axis.at(speedup), y, height, &tip);
        }
    });
    rule(canvas, grid, &axis, 2., (top, bottom), |value| {
        if value < 1. {
            format!("1/{:.0}", 1. / value)
        } else {
            format!("{value:.0}x")
        }
    });
    bottom
}

/// A coloured square and a name for each, in as many lines as they need; returns where the last line stands.
fn legend<'a>(canvas: &mut Canvas, names: impl Iterator<Item = (&'a str, &'a str)>, mut y: f64) -> f64 {
    const SQUARE: f64 = 15.;
    const GAP: f64 = 24.;
    let mut x = LEFT;
    for (class, name) in names {
        // A name that fills more than a line is cut here and whole in the tooltip.
        let most = ((WIDTH - LEFT - SQUARE - GAP) / text_width("x")) as usize;
        let shown = match name.char_indices().nth(most) {
            Some(_) => name.chars().take(most - 1).chain(['…']).collect(),
            None => name.to_owned(),
        };
        if x > LEFT && x + SQUARE + text_width(&shown) + GAP > WIDTH {
            (x, y) = (LEFT, y + LINE);
        }
        canvas.bar(class, x, x + 10., y - 9., 10., name);
        canvas.text(x + SQUARE, y, "start", "plain", &shown);
        x += SQUARE + text_width(&shown) + GAP;
    }
    y
}

/// The share of a copy's bandwidth, where nothing else is there to compare with.
fn shares(canvas: &mut Canvas, report: &Report, y: f64) -> f64 {
    let entries: Vec<&Entry> = report.entries.iter().filter(|entry| share(entry, report).is_some()).collect();
    canvas.text(LEFT, y, "start", "family", "share of the bandwidth of a copy");
    let top = y + 22.;
    let grid = canvas.body.len();
    let at = |share: f64| LEFT + share.min(1.2) / 1.2 * (RIGHT - LEFT);
    let bottom = lines(canvas, &entries, top, |canvas, entry, y| {
        let Some(share) = share(entry, report) else { return };
        let time = entry.micros().map(duration).unwrap_or_default();
        canvas.bar("one", LEFT, at(share), y + 1., LINE - 4., &format!("{}: {:.0}%, {time}", entry.name, share * 100.));
    });
    let mut rest = canvas.body.split_off(grid);
    for percent in [0, 25, 50, 75, 100] {
        let x = at(f64::from(percent) / 100.);
        canvas.line("grid", (x, top), (x, bottom));
        canvas.text(x, bottom + 16., "middle", "soft", &format!("{percent}%"));
    }
    canvas.body.push_str(&std::mem::take(&mut rest));
    bottom + 16.
}

/// Draws a vertical line for each power of `base`, beneath what was drawn since `since`.
fn rule(
    canvas: &mut Canvas,
    since: usize,
    axis: &Axis,
    base: f64,
    (top, bottom): (f64, f64),
    name: impl Fn(f64) -> String,
) {
    let rest = canvas.body.split_off(since);
    for value in axis.powers(base) {
        let x = axis.at(value);
        canvas.line(if value == 1. { "axis" } else { "grid" }, (x, top), (x, bottom));
        canvas.text(x, bottom + 16., "middle", "soft", &name(value));
    }
    canvas.body.push_str(&rest);
}

/// Operations a second over operations a byte, beneath the two limits: a copy's bandwidth, and the fastest product.
fn roofline(canvas: &mut Canvas, report: &Report, y: f64) -> f64 {
    let points: Vec<(&Entry, f64, f64)> =
        report.entries.iter().filter_map(|entry| Some((entry, entry.intensity()?, entry.rate()?))).collect();
    let (Some(copy), false) = (report.copy_bandwidth(), points.is_empty()) else { return y };
    let peak = points.iter().map(|point| point.2).fold(0., f64::max);
    canvas.text(24., y, "start", "head", "Roofline");
    let note = format!(
        "a copy moves {copy:.0} GB/s, the fastest product makes {peak:.3} TFLOP/s; a case touches the roof when it does nothing but what it must"
    );
    canvas.text(24., y + 20., "start", "soft", &note);
    let (top, bottom) = (y + 44., y + 444.);
    let extreme = |pick: fn(f64, f64) -> f64, start: f64, of: fn(&(&Entry, f64, f64)) -> f64| {
        points.iter().map(of).fold(start, pick)
    };
    let floor_power = |value: f64| 10f64.powf(value.log10().floor());
    let ceil_power = |value: f64| 10f64.powf(value.log10().ceil());
    let across = Axis {
        low: floor_power(extreme(f64::min, 0.1, |point| point.1)),
        high: ceil_power(extreme(f64::max, 100., |point| point.1)),
        start: 90.,
        end: RIGHT,
    };
    let up = Axis {
        low: floor_power(extreme(f64::min, peak / 10., |point| point.2)),
        high: ceil_power(peak * 1.5),
        start: bottom,
        end: top,
    };
    rule(canvas, canvas.body.len(), &across, 10., (top, bottom), |value| format!("{value}"));
    for value in up.powers(10.) {
        canvas.line("grid", (across.start, up.at(value)), (across.end, up.at(value)));
        canvas.text(across.start - 8., up.at(value) + 4., "end", "soft", &format!("{value} TF/s"));
    }
    canvas.text(across.end, bottom + 32., "end", "soft", "operations a byte");
    // TFLOP/s at an intensity, as far as memory allows.
    let slope = |intensity: f64| copy * intensity / 1e3;
    let ridge = peak * 1e3 / copy;
    let start = across.low.max(up.low * 1e3 / copy);
    let corners =
        [(start, slope(start)), (ridge.min(across.high), slope(ridge.min(across.high)).min(peak)), (across.high, peak)];
    let path: Vec<String> = corners.iter().map(|&(x, y)| format!("{:.1},{:.1}", across.at(x), up.at(y))).collect();
    let _ = writeln!(canvas.body, r#"<polyline {} points="{}"/>"#, look("roof"), path.join(" "));
    for (entry, intensity, rate) in points {
        let near = rate / slope(intensity).min(peak);
        let class = if near >= 0.6 {
            "good"
        } else if near >= 0.3 {
            "one"
        } else {
            "bad"
        };
        let tip = format!("{}: {:.0}% of the roof", entry.name, near * 100.);
        canvas.dot(class, (across.at(intensity), up.at(rate)), &tip);
    }
    bottom + 32.
}
