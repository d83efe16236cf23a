//! Measurements as a picture: IOPS, bandwidth and CPU by block size, as SVG.

use crate::report::table::short_size;
use crate::row::{Pattern, Row};
use std::fmt::Write as _;

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 880.0;
/// Height above the diagrams for the title and the legend.
const HEAD: f64 = 92.0;
/// Margin around a diagram's plot, for its title and axis labels.
const MARGIN: Margin = Margin { left: 74.0, right: 26.0, top: 46.0, bottom: 52.0 };

struct Margin {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// Returns the colour of a pattern, from a palette for colour-blind readers (Okabe and Ito).
fn colour(rw: Pattern) -> &'static str {
    match rw {
        Pattern::RandRead => "#0072b2",
        Pattern::RandWrite => "#d55e00",
        Pattern::Read => "#009e73",
        Pattern::Write => "#cc79a7",
        Pattern::RandRw => "#785ef0",
        Pattern::Rewrite => "#e69f00",
        Pattern::Reread => "#56b4e9",
    }
}

pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) colour: &'static str,
    pub(crate) dashed: bool,
    pub(crate) points: Vec<Point>,
}

/// Values of one block size, for each diagram.
pub(crate) struct Point {
    pub(crate) block_size: u64,
    pub(crate) values: [Option<f64>; 4],
}

impl Point {
    /// Returns whether the other point has the same block size and values for the same diagrams.
    pub(crate) fn is_same_kind(&self, other: &Self) -> bool {
        let shown = |point: &Self| point.values.map(|value| value.is_some());
        self.block_size == other.block_size && shown(self) == shown(other)
    }
}

pub(crate) struct Panel {
    pub(crate) title: &'static str,
    pub(crate) logarithmic: bool,
}

const PANELS: [Panel; 4] = [
    Panel { title: "IOPS", logarithmic: true },
    Panel { title: "Bandwidth, GiB/s", logarithmic: false },
    Panel { title: "CPU of the client, µs an I/O", logarithmic: true },
    Panel { title: "CPU of the server, µs an I/O", logarithmic: true },
];

fn point(row: &Row) -> Point {
    let bandwidth = row.bytes_per_second / f64::from(1 << 30);
    let values = [Some(row.iops), Some(bandwidth), row.cpu_us_per_io.client, row.cpu_us_per_io.server];
    Point { block_size: row.block_size, values }
}

/// Draws measurements; `rows` may include those of bare sockets.
pub fn svg(title: &str, rows: &[Row]) -> String {
    draw(title, &PANELS, &series(rows))
}

pub(crate) fn draw(title: &str, panels: &[Panel; 4], series: &[Series]) -> String {
    let mut svg = Svg::new();
    svg.text(&Text { size: 22.0, bold: true, ..Text::at(28.0, 38.0, title) });
    draw_names(&mut svg, series);
    let (width, height) = (WIDTH / 2.0, (HEIGHT - HEAD) / 2.0);
    for (i, panel) in panels.iter().enumerate() {
        let (column, line) = ((i % 2) as f64, (i / 2) as f64);
        let frame = Frame {
            left: column * width + MARGIN.left,
            right: (column + 1.0) * width - MARGIN.right,
            top: HEAD + line * height + MARGIN.top,
            bottom: HEAD + (line + 1.0) * height - MARGIN.bottom,
        };
        draw_panel(&mut svg, &frame, panel, series, i);
    }
    svg.finish()
}

fn series(rows: &[Row]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for row in rows {
        let dashed = row.mode == "floor";
        let who = if dashed { "bare sockets" } else { &row.mode };
        let name = format!("{}, {who}", row.rw.name());
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point(row)),
            None => all.push(Series { name, colour: colour(row.rw), dashed, points: vec![point(row)] }),
        }
    }
    all.iter_mut().for_each(|series| series.points.sort_by_key(|point| point.block_size));
    all.sort_by_key(|series| series.dashed);
    all
}

fn draw_names(svg: &mut Svg, series: &[Series]) {
    let step = ((WIDTH - 56.0) / series.len().max(1) as f64).min(260.0);
    for (i, series) in series.iter().enumerate() {
        let x = 28.0 + i as f64 * step;
        svg.line(series, &[(x, 66.0), (x + 36.0, 66.0)]);
        svg.text(&Text::at(x + 46.0, 71.0, &series.name));
    }
}

struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

fn draw_panel(svg: &mut Svg, frame: &Frame, panel: &Panel, series: &[Series], index: usize) {
    svg.text(&Text { size: 17.0, bold: true, ..Text::at(frame.left, frame.top - 14.0, panel.title) });
    let points = || series.iter().flat_map(|series| series.points.iter());
    let values = points().filter_map(|point| point.values[index]).filter(|v| v.is_finite());
    let values: Vec<f64> = values.collect();
    let shown = points().filter(|point| point.values[index].is_some());
    let mut sizes: Vec<u64> = shown.map(|point| point.block_size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if values.is_empty() {
        let (x, y) = ((frame.left + frame.right) / 2.0, (frame.top + frame.bottom) / 2.0);
        return svg.text(&Text { anchor: "middle", ..Text::at(x, y, "not measured") });
    }
    let up = Axis::of(&values, panel.logarithmic, frame.bottom, frame.top);
    let along = Along::of(&sizes, frame);
    for tick in up.ticks() {
        let y = up.at(tick);
        svg.rule((frame.left, y), (frame.right, y));
        svg.text(&Text { anchor: "end", ..Text::at(frame.left - 8.0, y + 5.0, &short_number(tick)) });
    }
    for size in &sizes {
        let x = along.at(*size);
        svg.rule((x, frame.top), (x, frame.bottom));
        svg.text(&Text { anchor: "middle", ..Text::at(x, frame.bottom + 20.0, &short_size(*size)) });
    }
    let middle = (frame.left + frame.right) / 2.0;
    svg.text(&Text { anchor: "middle", ..Text::at(middle, frame.bottom + 40.0, "block size, bytes") });
    for series in series.iter().rev() {
        let at = |point: &Point| Some((along.at(point.block_size), up.at(point.values[index]?)));
        let points: Vec<_> = series.points.iter().filter_map(at).collect();
        svg.line(series, &points);
    }
}

/// The axis of block sizes, logarithmic.
struct Along {
    from: f64,
    to: f64,
    left: f64,
    right: f64,
}

impl Along {
    fn of(sizes: &[u64], frame: &Frame) -> Self {
        let log = |size: Option<&u64>| size.map_or(0.0, |size| (*size as f64).log2());
        // Half a step of margin at both ends; a single size is centred.
        let (from, to) = (log(sizes.first()) - 0.5, log(sizes.last()) + 0.5);
        Self { from, to, left: frame.left, right: frame.right }
    }

    fn at(&self, size: u64) -> f64 {
        self.left + ((size as f64).log2() - self.from) / (self.to - self.from) * (self.right - self.left)
    }
}

struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    low_at: f64,
    high_at: f64,
}

impl Axis {
    fn of(values: &[f64], logarithmic: bool, low_at: f64, high_at: f64) -> Self {
        let positive = values.iter().copied().filter(|v| *v > 0.0);
        let high = positive.clone().fold(0.0, f64::max);
        let low = positive.fold(f64::INFINITY, f64::min);
        if high == 0.0 {
            return Self { low: 0.0, high: 1.0, logarithmic: false, low_at, high_at };
        }
        match logarithmic {
            true => Self { low: low * 0.7, high: high * 1.4, logarithmic, low_at, high_at },
            false => Self { low: 0.0, high: high * 1.08, logarithmic, low_at, high_at },
        }
    }

    fn at(&self, value: f64) -> f64 {
        let part = match self.logarithmic {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.low_at + part * (self.high_at - self.low_at)
    }

    fn ticks(&self) -> Vec<f64> {
        let decade = |value: f64| value.log10().floor() as i32;
        if !self.logarithmic {
            let rough = (self.high - self.low) / 5.0;
            let unit = 10_f64.powi(decade(rough));
            let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * unit).into_iter().find(|step| *step >= rough);
            let step = step.unwrap_or(unit * 10.0);
            return (0..).map(|i| f64::from(i) * step).take_while(|tick| *tick <= self.high).collect();
        }
        let within_a_decade: &[f64] = match (self.high / self.low).log10() {
            decades if decades > 3.0 => &[1.0],
            decades if decades > 1.5 => &[1.0, 3.0],
            _ => &[1.0, 2.0, 5.0],
        };
        (decade(self.low)..=decade(self.high))
            .flat_map(|exponent| within_a_decade.iter().map(move |n| n * 10_f64.powi(exponent)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

/// Formats a number with few digits: `0.5`, `20`, `300k`.
fn short_number(n: f64) -> String {
    let (n, unit) = match n {
        _ if n >= 1e6 => (n / 1e6, "M"),
        _ if n >= 1e3 => (n / 1e3, "k"),
        _ => (n, ""),
    };
    // No tick needs more than three decimals, and rounding removes the errors of sums.
    format!("{}{unit}", (n * 1e3).round() / 1e3)
}

struct Text<'a> {
    x: f64,
    y: f64,
    content: &'a str,
    size: f64,
    bold: bool,
    anchor: &'static str,
}

impl<'a> Text<'a> {
    fn at(x: f64, y: f64, content: &'a str) -> Self {
        Self { x, y, content, size: 15.0, bold: false, anchor: "start" }
    }
}

struct Svg {
    text: String,
}

impl Svg {
    fn new() -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\" font-family=\"Helvetica, Arial, sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        );
        Self { text }
    }

    // Writing to a string never fails, so the results below are ignored.

    fn text(&mut self, text: &Text<'_>) {
        let Text { x, y, size, anchor, .. } = text;
        let weight = if text.bold { "bold" } else { "normal" };
        let content = text.content.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" font-weight=\"{weight}\" text-anchor=\"{anchor}\" \
             fill=\"#222222\">{content}</text>"
        );
    }

    fn rule(&mut self, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.text,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#dddddd\"/>"
        );
    }

    fn line(&mut self, series: &Series, points: &[(f64, f64)]) {
        let Series { colour, .. } = series;
        let look = if series.dashed {
            "stroke-width=\"2\" stroke-dasharray=\"7 5\" opacity=\"0.65\""
        } else {
            "stroke-width=\"3\""
        };
        let path: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let path = path.join(" ");
        let _ = writeln!(self.text, "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" {look}/>");
        let radius = if series.dashed { 2.5 } else { 4.0 };
        for (x, y) in points {
            let _ =
                writeln!(self.text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\"/>");
        }
    }

    fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let ticks = |values: &[f64], logarithmic| {
            let axis = Axis::of(values, logarithmic, 300.0, 0.0);
            axis.ticks().into_iter().map(short_number).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ticks(&[0.1, 4.7], false), "0 2 4");
        assert_eq!(ticks(&[9.1, 0.3], false), "0 2 4 6 8");
        assert_eq!(ticks(&[5000.0, 420_000.0], true), "10k 30k 100k 300k");
        assert_eq!(ticks(&[1.0, 9.0], true), "1 2 5 10");
        assert_eq!(ticks(&[0.0, 0.0], true), "0 0.2 0.4 0.6 0.8 1");
        assert_eq!(ticks(&[1.0, 1e6], true), "1 10 100 1k 10k 100k 1M");
    }

    #[test]
    fn larger_values_are_higher_up_and_all_within_the_frame() {
        for logarithmic in [false, true] {
            let axis = Axis::of(&[3.0, 50.0, 700.0], logarithmic, 300.0, 10.0);
            let at = [3.0, 50.0, 700.0].map(|value| axis.at(value));
            assert!(300.0 > at[0] && at[0] > at[1] && at[1] > at[2] && at[2] > 10.0, "{at:?}");
        }
    }
}
