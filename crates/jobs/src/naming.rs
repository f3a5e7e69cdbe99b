//! The name of a run, made of what it does.

use shardwright_coordination::RunName;

/// Longest part of a name that is taken from the source.
const STEM: usize = 24;

/// A name that the same source and command always get: a readable part and a digest.
pub(crate) fn derive(source: &str, distinguishing: &[&[u8]]) -> RunName {
    let mut hasher = blake3::Hasher::new_derive_key("shardwright/cli/v1/run-name");
    for part in distinguishing {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let digest = hex::encode(hasher.finalize().as_bytes().get(..4).unwrap_or_default());
    let last = source.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default();
    let plain =
        last.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    let stem: String = plain.take(STEM).collect();
    let stem = stem.trim_matches('-').to_ascii_lowercase();
    let name = if stem.is_empty() { format!("run-{digest}") } else { format!("{stem}-{digest}") };
    // Letters, digits and hyphens, at most 33 of them.
    RunName::new(&name).unwrap_or_else(|_| fallback())
}

#[expect(clippy::unwrap_used, reason = "three letters are a name")]
fn fallback() -> RunName {
    RunName::new("run").unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_readable_and_the_same_for_the_same_work() {
        let name = derive("/data/My Photos/", &[b"a", b"b"]);
        assert_eq!(name, derive("/data/My Photos/", &[b"a", b"b"]));
        assert!(name.as_str().starts_with("my-photos-"), "{name}");
        assert_ne!(name, derive("/data/My Photos/", &[b"ab", b""]));
    }

    #[test]
    fn every_source_gives_a_name() {
        for source in ["", "/", "...", "\u{e9}\u{e9}", &"x".repeat(500), "s3://bucket/a b/c"] {
            assert_ne!(derive(source, &[]).as_str(), "run", "{source}");
        }
    }
}
