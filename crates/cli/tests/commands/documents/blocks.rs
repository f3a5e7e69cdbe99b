//! The fenced code blocks of a page.

const FENCE: &str = "```";

/// A fenced code block.
#[derive(Debug)]
pub(super) struct Block<'t> {
    /// The line of the fence, from 1.
    pub(super) line: usize,
    info: &'t str,
    pub(super) lines: Vec<&'t str>,
}

impl Block<'_> {
    /// The first word of the info string.
    pub(super) fn language(&self) -> &str {
        self.info.split([',', ' ']).next().unwrap_or_default()
    }

    pub(super) fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// All blocks of a page. The error names the line of a block without an end.
pub(super) fn of(page: &str) -> Result<Vec<Block<'_>>, String> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for (number, line) in (1..).zip(page.lines()) {
        let fence = line.trim_start().strip_prefix(FENCE);
        match (open.take(), fence) {
            (Some(block), Some(_)) => blocks.push(block),
            (Some(mut block), None) => {
                block.lines.push(line);
                open = Some(block);
            }
            (None, Some(info)) => {
                open = Some(Block { line: number, info: info.trim(), lines: Vec::new() });
            }
            (None, None) => {}
        }
    }
    match open {
        Some(block) => Err(format!("{}: a block without an end", block.line)),
        None => Ok(blocks),
    }
}
