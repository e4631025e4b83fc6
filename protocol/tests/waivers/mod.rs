//! Waivers that the runner and the server, which read the same format, must both refuse. Part of the
//! tests of either, by its path.

/// Lines of `refused.txt`: a field, and what it is changed to.
pub(crate) fn refused() -> impl Iterator<Item = &'static str> {
    let lines = include_str!("refused.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The name of the field, and a good waiver with that field changed, or left out.
pub(crate) fn with(change: &str) -> (String, String) {
    let (field, value) = change.split_once(' ').expect("a field and what it is changed to");
    let good = [
        ("case_pattern", "\"operators/a*\""),
        ("outcomes", "[\"error\"]"),
        ("reason", "\"long enough a reason\""),
        ("owner", "\"o\""),
        ("issue", "\"https://x.example/1\""),
        ("expires_on", "2027-03-01"),
    ];
    let mut text = "[[waiver]]\n".to_owned();
    for (name, value) in good.iter().filter(|(name, _)| *name != field) {
        text += &format!("{name} = {value}\n");
    }
    if value != "-" {
        text += &format!("{field} {value}\n");
    }
    (field.rsplit('.').next().unwrap_or(field).to_owned(), text)
}

/// Whether a refusal names what was changed: where a word is unknown, the word stands for its field.
pub(crate) fn names(refusal: &str, field: &str, change: &str) -> bool {
    let value = change.rsplit(['"', ' ']).find(|part| part.len() > 1).unwrap_or_default();
    refusal.contains(field) || refusal.contains(value)
}
