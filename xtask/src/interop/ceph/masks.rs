//! What differs between two runs of the same program is masked: numbers of clients, watches and notifications, times, and ages.

/// What stands before such a number.
const BEFORE: [&str; 9] = [
    "client.",
    "cookie ",
    "cookie=",
    "notify_id ",
    " from ",
    ":0/",
    "\"quorum_age\":",
    "\"quorum_age\": ",
    "election epoch ",
];

/// What stands before an age.
const BEFORE_AGES: [&str; 2] = ["(age ", "since "];

/// The text with N for such numbers, and TIME for points in time.
pub(super) fn mask(text: &str) -> String {
    let numbers = |text: String, before: &&str| mask_after(&text, before, |c| c.is_ascii_digit());
    let ages = |text: String, before: &&str| mask_after(&text, before, |c| c.is_ascii_alphanumeric());
    let text = BEFORE.iter().fold(text.to_owned(), numbers);
    mask_times(&BEFORE_AGES.iter().fold(text, ages))
}

/// What follows a text, as long as its characters are such.
fn mask_after(text: &str, before: &str, is_such: impl Fn(char) -> bool) -> String {
    let mut parts = text.split(before);
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        masked.push_str(before);
        let rest = part.trim_start_matches(&is_such);
        masked.push_str(if rest.len() < part.len() { "N" } else { "" });
        masked.push_str(rest);
    }
    masked
}

/// A point in time: "2026-11-24T14:00:14.926243+0000".
fn mask_times(text: &str) -> String {
    let of_time = |c: char| c.is_ascii_digit() || matches!(c, '-' | ':' | '.' | '+' | 'T' | 'Z');
    let is_time = |word: &str| word.len() >= 19 && word.starts_with("20") && word.contains('T');
    let mut masked = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| of_time(c) != of_time(first)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(length);
        masked.push_str(if is_time(word) { "TIME" } else { word });
        rest = behind;
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_between_runs_is_masked_and_nothing_else() {
        for (text, expected) in [
            ("watcher=1.2.3.4:0/99 client.41 cookie=7", "watcher=1.2.3.4:0/N client.N cookie=N"),
            ("NOTIFY cookie 9 notify_id 8 from 4 5", "NOTIFY cookie N notify_id N from N 5"),
            ("mtime 2026-11-24T14:00:14.926243+0000, size 9", "mtime TIME, size 9"),
            ("mtime 100.000000, size 0", "mtime 100.000000, size 0"),
            ("osd: 1 up (since 10m), 1 in", "osd: 1 up (since N), 1 in"),
        ] {
            assert_eq!(mask(text), expected);
        }
    }
}
