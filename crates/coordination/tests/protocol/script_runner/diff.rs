//! A readable difference of two texts.

/// Every line of both texts: `-` marks a line of the first alone, `+` one of the second alone.
pub(super) fn diff(expected: &str, actual: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (expected.lines().collect(), actual.lines().collect());
    let common = common_lengths(&old, &new);
    let (mut left, mut right) = (0, 0);
    let mut shown = String::new();
    let mut show = |mark: &str, line: &str| shown.push_str(&format!("{mark} {line}\n"));
    while left < old.len() || right < new.len() {
        let same = old.get(left).is_some_and(|line| new.get(right) == Some(line));
        if same {
            show(" ", old[left]);
            left += 1;
            right += 1;
        } else if left < old.len()
            && (right == new.len() || common[left + 1][right] >= common[left][right + 1])
        {
            show("-", old[left]);
            left += 1;
        } else {
            show("+", new[right]);
            right += 1;
        }
    }
    shown
}

/// The length of the longest common subsequence of the lines from each pair of positions on.
fn common_lengths(old: &[&str], new: &[&str]) -> Vec<Vec<usize>> {
    let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
    for left in (0..old.len()).rev() {
        for right in (0..new.len()).rev() {
            common[left][right] = if old[left] == new[right] {
                common[left + 1][right + 1] + 1
            } else {
                common[left + 1][right].max(common[left][right + 1])
            };
        }
    }
    common
}
