//! The picture of the live view in the README: a real run in tmux, captured with its colours.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cargo_metadata::Metadata;

use crate::workspace;

const COLUMNS: usize = 92;
const ROWS: usize = 14;
const CELL: (f64, f64) = (7.9, 19.0);
const MARGIN: f64 = 18.0;
const TOP: f64 = 54.0;
/// How long the run goes on before it is captured.
const AFTER: Duration = Duration::from_secs(12);
/// What the picture shows as the folder of the run.
const HOME: &str = "/home/you";

/// A program that takes longer for larger files, longest for one, and fails for some.
const THUMB: &str = "#!/bin/bash
size=$(stat -c %s \"$1\")
sleep \"$(awk \"BEGIN { print 0.05 + $size / 500000 }\")\"
case $1 in
*12.jpg) echo \"premature end of JPEG file\" >&2; exit 1 ;;
*0104.jpg) sleep 20 ;;
esac
";

/// Runs the program in tmux, and writes the picture.
pub(crate) fn run(metadata: &Metadata) -> Result<()> {
    let build = ["build", "--quiet", "--locked", "--package", "shardwright-cli"];
    workspace::succeed(&mut workspace::cargo(metadata, &build))?;
    let program = metadata.target_directory.join("debug/shardwright");
    let folder = tempfile::tempdir()?;
    prepare(folder.path())?;
    let session = format!("picture-{}", std::process::id());
    let tmux = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("tmux").args(["-L", &session]).args(arguments).output();
        let output = output.context("tmux cannot be started; install it")?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "tmux {}: {error}", arguments.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    };
    let (columns, rows) = (COLUMNS.to_string(), ROWS.to_string());
    let shell = format!(
        "cd {} && PATH={}:$PATH LANG=C.UTF-8 PS1='$ ' exec bash --norc",
        folder.path().display(),
        program.parent().context("the program is in no folder")?
    );
    tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, &shell])?;
    let captured = (|| {
        sleep(Duration::from_millis(500));
        let command = "shardwright run photos -j 4 --retries 0 -- ./thumb {}";
        tmux(&["send-keys", command, "Enter"])?;
        sleep(AFTER);
        tmux(&["capture-pane", "-e", "-p"])
    })();
    tmux(&["kill-server"])?;
    let screen = captured?.replace(&folder.path().display().to_string(), HOME);
    let file = metadata.workspace_root.join("docs/pictures/run.svg");
    fs::write(&file, svg(&screen)).with_context(|| file.to_string())
}

/// Creates files of growing sizes, and the program.
fn prepare(folder: &Path) -> Result<()> {
    let photos = folder.join("photos");
    fs::create_dir(&photos)?;
    for number in 1..=412_u64 {
        let size = 10_000 + (number * number * 37) % 90_000;
        fs::File::create(photos.join(format!("IMG_{number:04}.jpg")))?.set_len(size)?;
    }
    let thumb = folder.join("thumb");
    fs::write(&thumb, THUMB)?;
    Ok(fs::set_permissions(thumb, fs::Permissions::from_mode(0o755))?)
}

/// A screen with colours as a picture.
fn svg(screen: &str) -> String {
    let lines: Vec<&str> = screen.trim_end().lines().collect();
    let width = MARGIN.mul_add(2.0, CELL.0 * in_cells(COLUMNS));
    let height = CELL.1.mul_add(in_cells(lines.len()), TOP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"The live view of a \
         run\">\n<rect width=\"{width:.0}\" height=\"{height:.0}\" rx=\"8\" fill=\"#16181d\"/>\n"
    );
    for (x, colour) in [(20, "#ff5f57"), (38, "#febc2e"), (56, "#28c840")] {
        svg.push_str(&format!("<circle cx=\"{x}\" cy=\"18\" r=\"5.5\" fill=\"{colour}\"/>\n"));
    }
    svg.push_str(
        "<g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" \
         font-size=\"13.2\" xml:space=\"preserve\">\n",
    );
    for (row, line) in lines.iter().enumerate() {
        let y = CELL.1.mul_add(in_cells(row), TOP);
        for Span { column, colour, text } in spans(line) {
            let (x, length) =
                (CELL.0.mul_add(in_cells(column), MARGIN), CELL.0 * in_cells(text.chars().count()));
            let text = text.replace('&', "&amp;").replace('<', "&lt;");
            svg.push_str(&format!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{colour}\" textLength=\"{length:.1}\" \
                 lengthAdjust=\"spacingAndGlyphs\">{text}</text>\n"
            ));
        }
    }
    svg.push_str("</g></svg>\n");
    svg
}

/// A part of a line in one colour.
#[derive(Debug, PartialEq, Eq)]
struct Span {
    column: usize,
    colour: &'static str,
    text: String,
}

/// The parts of a line, without the spaces around them.
fn spans(line: &str) -> Vec<Span> {
    let usual = match line {
        line if line.starts_with("$ ") => "#8fd3ff",
        line if line.starts_with("failed: ") => "#ff9b8f",
        _ => "#d7dae0",
    };
    let (mut spans, mut column, mut colour, mut is_dim) = (Vec::new(), 0, usual, false);
    for part in line.split('\x1b') {
        let (codes, text) = match part.strip_prefix('[').and_then(|part| part.split_once('m')) {
            Some((codes, text)) => (codes, text),
            None => ("", part),
        };
        for code in codes.split(';') {
            (colour, is_dim) = match code {
                "36" => ("#5fd7d7", is_dim),
                "31" => ("#ff9b8f", is_dim),
                "33" => ("#f4d58d", is_dim),
                "39" => (usual, is_dim),
                "2" => (colour, true),
                _ => (usual, false),
            };
        }
        let colour = if is_dim { "#4a4f5a" } else { colour };
        let length = text.chars().count();
        let start = length - text.trim_start().chars().count();
        let trimmed = text.trim();
        if !trimmed.is_empty() {
            spans.push(Span { column: column + start, colour, text: trimmed.to_owned() });
        }
        column += length;
    }
    spans
}

#[expect(clippy::cast_precision_loss, reason = "a screen has few cells")]
const fn in_cells(cells: usize) -> f64 {
    cells as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_a_captured_line_are_kept() {
        let found = spans("items  \u{1b}[36mxx\u{1b}[2m\u{1b}[39m..\u{1b}[0m  5 %");
        let span = |column, colour, text: &str| Span { column, colour, text: text.to_owned() };
        let usual = "#d7dae0";
        let expected = [
            span(0, usual, "items"),
            span(7, "#5fd7d7", "xx"),
            span(9, "#4a4f5a", ".."),
            span(13, usual, "5 %"),
        ];
        assert_eq!(found, expected);
    }
}
