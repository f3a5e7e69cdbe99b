//! The properties in the text of a TLC configuration.

use anyhow::{Result, bail};

/// What introduces a property: of a state, and of a step or a behaviour.
const KEYWORDS: [&str; 2] = ["INVARIANT ", "PROPERTY "];

/// Records what was reached. It holds by construction, so it is no property.
const WITNESSES: [&str; 2] = ["INVARIANT NoteStates", "ACTION_CONSTRAINT NoteSteps"];

/// The names of the properties that a configuration checks, one on each line.
pub(crate) fn properties(config: &str) -> Vec<&str> {
    config.lines().filter_map(property).collect()
}

/// The configuration with one of its properties, and without witnesses.
pub(crate) fn only(config: &str, wanted: &str) -> Result<String> {
    if !properties(config).contains(&wanted) {
        bail!("the configuration has no property {wanted}");
    }
    let kept = config.lines().filter(|line| {
        !WITNESSES.contains(line) && property(line).is_none_or(|name| name == wanted)
    });
    Ok(kept.flat_map(|line| [line, "\n"]).collect())
}

/// Whether the properties of a configuration are temporal. TLC does not name a violated temporal
/// property.
pub(crate) fn is_temporal(file: &str) -> bool {
    file.starts_with("liveness")
}

fn property(line: &str) -> Option<&str> {
    if WITNESSES.contains(&line) {
        return None;
    }
    KEYWORDS.iter().find_map(|keyword| line.strip_prefix(keyword)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "SPECIFICATION Spec\nACTION_CONSTRAINT NoteSteps\n\
                          INVARIANT NoteStates\nINVARIANT A\nPROPERTY B\n";

    #[test]
    fn witnesses_are_no_properties() {
        assert_eq!(properties(CONFIG), ["A", "B"]);
    }

    #[test]
    fn only_the_other_properties_are_removed() {
        assert_eq!(only(CONFIG, "B").unwrap(), "SPECIFICATION Spec\nPROPERTY B\n");
        assert_eq!(only(CONFIG, "A").unwrap(), "SPECIFICATION Spec\nINVARIANT A\n");
    }

    #[test]
    fn an_unknown_property_is_an_error() {
        assert!(only(CONFIG, "C").is_err());
        assert!(only(CONFIG, "NoteStates").is_err());
    }
}
