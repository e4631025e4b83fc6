//! The word that was probably meant.

/// The nearest of some words, if it is near enough to be a slip of the fingers.
pub(crate) fn nearest<'a>(text: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (text.chars().count() / 3).clamp(1, 3);
    words
        .into_iter()
        .map(|word| (distance(text, word), word))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Edit distance: insertions, deletions and replacements of characters.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (i, a) in one.chars().take(100).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in two.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let words = ["sequence", "size", "source", "tags"];
        assert_eq!(nearest("sequnce", words), Some("sequence"));
        assert_eq!(nearest("tag", words), Some("tags"));
        assert_eq!(nearest("Size", words), Some("size"));
        assert_eq!(nearest("weights", words), None);
        assert_eq!(nearest("", words), None);
    }
}
