use crate::limits::MAX_ERROR_TEXT_SIZE;

/// What a text that was cut ends with.
const CUT: &str = " …";

/// A text as an error may carry it: itself, or its beginning if it is too long.
#[must_use]
pub fn short(mut text: String) -> String {
    if text.len() <= MAX_ERROR_TEXT_SIZE {
        return text;
    }
    let room = MAX_ERROR_TEXT_SIZE - CUT.len();
    let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    text.truncate(end);
    text.push_str(CUT);
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_is_itself_or_a_beginning_that_says_so(
            text in proptest::collection::vec(any::<char>(), 0..600)
        ) {
            let text: String = text.into_iter().collect();
            let cut = short(text.clone());
            prop_assert!(cut.len() <= MAX_ERROR_TEXT_SIZE);
            let is_whole = text.len() <= MAX_ERROR_TEXT_SIZE;
            prop_assert_eq!(cut == text, is_whole);
            prop_assert!(is_whole || text.starts_with(cut.strip_suffix(CUT).unwrap_or("none")));
        }
    }
}
