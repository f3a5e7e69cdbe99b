//! A picture of the measurements: panels of bars.

use std::fmt::Write as _;

const WIDTH: f64 = 900.0;
const LABEL_WIDTH: f64 = 290.0;
const BAR_HEIGHT: f64 = 18.0;
const STEP: f64 = 25.0;
/// The height of a panel's title.
const HEAD: f64 = 42.0;
/// The space below its bars.
const FOOT: f64 = 18.0;
/// The space for the figure after the longest bar.
const FIGURE_WIDTH: f64 = 90.0;

/// Bars of one unit.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) unit: &'static str,
    pub(super) bars: Vec<Bar>,
    /// The upper limit of a bar.
    pub(super) aim: Option<f64>,
}

/// One bar.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) value: f64,
    pub(super) is_ours: bool,
}

/// Draws panels in one column.
pub(super) fn draw(panels: &[Panel]) -> String {
    let height: f64 = panels.iter().map(panel_height).sum::<f64>() + 12.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    let mut top = 0.0;
    for panel in panels {
        draw_panel(&mut svg, panel, top);
        top += panel_height(panel);
    }
    svg.push_str("</svg>\n");
    svg
}

#[expect(clippy::cast_precision_loss, reason = "there are few bars")]
fn panel_height(panel: &Panel) -> f64 {
    HEAD + STEP * panel.bars.len() as f64 + FOOT
}

fn draw_panel(svg: &mut String, panel: &Panel, top: f64) {
    let longest = panel.bars.iter().map(|bar| bar.value).chain(panel.aim).fold(0.0, f64::max);
    let room = WIDTH - LABEL_WIDTH - FIGURE_WIDTH;
    let scaled = |value: f64| if longest > 0.0 { value / longest * room } else { 0.0 };
    let _ = writeln!(
        svg,
        "<text x=\"16\" y=\"{:.1}\" font-size=\"15\" font-weight=\"bold\">{}</text>",
        top + 28.0,
        escaped(&panel.title)
    );
    let mut y = top + HEAD;
    if let Some(aim) = panel.aim {
        let bottom = top + panel_height(panel) - FOOT;
        draw_aim(svg, LABEL_WIDTH + scaled(aim), y - 4.0, bottom);
    }
    for bar in &panel.bars {
        let colour = if bar.is_ours { "#1f6f4a" } else { "#b4bcc6" };
        let (middle, width) = (y + 13.5, scaled(bar.value).max(1.0));
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>\n\
             <rect x=\"{LABEL_WIDTH}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR_HEIGHT}\" \
             fill=\"{colour}\"/>\n\
             <text x=\"{:.1}\" y=\"{middle:.1}\" stroke=\"#ffffff\" stroke-width=\"4\" \
             paint-order=\"stroke\">{}</text>",
            LABEL_WIDTH - 10.0,
            escaped(&bar.label),
            LABEL_WIDTH + width + 7.0,
            figure(bar.value, panel.unit),
        );
        y += STEP;
    }
}

/// A line at the upper limit, behind the bars and their figures.
fn draw_aim(svg: &mut String, x: f64, top: f64, bottom: f64) {
    let _ = writeln!(
        svg,
        "<line x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#c0392b\" \
         stroke-dasharray=\"4 3\"/>\n\
         <text x=\"{x:.1}\" y=\"{:.1}\" fill=\"#c0392b\" font-size=\"11\" \
         text-anchor=\"middle\">aim</text>",
        bottom + 10.0,
    );
}

/// A value with its significant digits.
fn figure(value: f64, unit: &str) -> String {
    match value {
        100.0.. => format!("{value:.0}{unit}"),
        10.0.. => format!("{value:.1}{unit}"),
        _ => format!("{value:.2}{unit}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(values: &[f64], aim: Option<f64>) -> Panel {
        let bar = |value: &f64| Bar { label: "a < b".to_owned(), value: *value, is_ours: true };
        Panel { title: "time".to_owned(), unit: " s", bars: values.iter().map(bar).collect(), aim }
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let svg = draw(&[panel(&[1.0, 4.0], Some(2.0))]);
        let room = WIDTH - LABEL_WIDTH - FIGURE_WIDTH;
        for width in [room / 4.0, room] {
            assert!(svg.contains(&format!("width=\"{width:.1}\"")), "{width}: {svg}");
        }
        assert!(svg.contains(&format!("x1=\"{:.1}\"", LABEL_WIDTH + room / 2.0)), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains(">4.00 s<"), "{svg}");
    }

    #[test]
    fn nothing_is_drawn_outside_the_picture() {
        let svg = draw(&[panel(&[0.0], None), panel(&[1.0, 123_456.0], Some(200_000.0))]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let places = svg.split(" x=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for x in places {
            assert!((0.0..=WIDTH).contains(&x.parse::<f64>().unwrap()), "{x}");
        }
    }
}
