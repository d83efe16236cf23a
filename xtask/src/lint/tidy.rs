//! Style that a program can judge: sizes, and words that have no place in a finished tree.

use super::verdict::verdict;
use crate::sh;
use crate::workspace::Workspace;
use anyhow::Result;
use std::process::Command;

/// A file is one idea; what is longer than this is several.
const MAX_FILE_LINES: usize = 900;
/// A function fits on a screen or two.
const MAX_FUNCTION_LINES: usize = 100;

/// Words that no file may have, put together here so that this file may name them.
const BANNED: &[(&str, &str)] = &[
    (concat!("todo", "!("), "unfinished code"),
    (concat!("unimplemented", "!("), "unfinished code"),
    (concat!("FIX", "ME"), "unfinished code"),
    (concat!("XX", "X:"), "unfinished code"),
    (concat!("#[ig", "nore"), "a test that does not run"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/tmp", "/w/"), "a path of one machine"),
    (concat!("<<<<", "<<< "), "a merge that was left half done"),
    (concat!("so m", "any "), "a number without its name"),
    (concat!("who", "ever "), "an actor without a name"),
];
/// What is text and ours. Generated files and licences are neither judged for length nor for words.
const TEXT: &[&str] = &["rs", "toml", "md", "sh", "yml", "yaml"];

/// Checks every tracked text file.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let mut list = Command::new("git");
    list.current_dir(&workspace.workspace_root);
    list.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let mut offences = Vec::new();
    for name in sh::text(&mut list)?.lines() {
        let path = workspace.workspace_root.join(name);
        if !path.extension().is_some_and(|end| TEXT.iter().any(|text| end == *text)) {
            continue;
        }
        // A file that was removed and not yet committed is still listed.
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        offences.extend(judge(&text, name.ends_with(".rs")).into_iter().map(|what| format!("{name}:{what}")));
    }
    verdict(&offences)
}

/// What is wrong with one file, each as `line: what`.
fn judge(text: &str, is_rust: bool) -> Vec<String> {
    let mut offences = Vec::new();
    let lines = text.lines().count();
    if is_rust && lines > MAX_FILE_LINES {
        offences.push(format!("1: {lines} lines, at most {MAX_FILE_LINES} are allowed"));
    }
    for (at, line) in text.lines().enumerate() {
        for (word, why) in BANNED.iter().filter(|(word, _)| line.contains(word)) {
            offences.push(format!("{}: `{word}`: {why}", at + 1));
        }
    }
    if is_rust {
        for (at, length) in functions(text).filter(|(_, length)| *length > MAX_FUNCTION_LINES) {
            offences.push(format!(
                "{at}: a function of {length} lines, at most {MAX_FUNCTION_LINES} are allowed"
            ));
        }
    }
    offences
}

/// First line and length of each function. rustfmt puts the closing brace under the `fn`, so no parser is needed.
fn functions(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let starts: Vec<usize> = (0..lines.len()).filter(|at| starts_function(lines[*at])).collect();
    starts.into_iter().filter_map(move |start| {
        let level = indent(lines[start]);
        // A line that ends in a semicolon at this level ends a declaration without a body.
        let ends = |line: &&str| indent(line) == level && (line.trim() == "}" || line.ends_with(';'));
        let end = lines[start..].iter().position(ends)?;
        Some((start + 1, end + 1))
    })
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn starts_function(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let modifier = |word: &&str| {
        matches!(*word, "pub" | "const" | "async" | "unsafe" | "extern" | "\"C\"") || word.starts_with("pub(")
    };
    // A body on the same line is a short function; a line without a brace at its end may still open one later.
    words.find(|word| !modifier(word)) == Some("fn") && !line.trim_end().ends_with(['}', ';'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_function_is_found_and_a_short_one_is_not() {
        let body = "        x();\n".repeat(MAX_FUNCTION_LINES);
        let text = format!(
            "impl A {{\n    pub(crate) fn long() {{\n{body}    }}\n\n    fn short() {{\n    }}\n}}\n"
        );
        assert_eq!(
            functions(&text).collect::<Vec<_>>(),
            [(2, MAX_FUNCTION_LINES + 2), (MAX_FUNCTION_LINES + 5, 2)]
        );
        assert_eq!(judge(&text, true).len(), 1);
    }

    #[test]
    fn a_banned_word_is_found_with_its_line() {
        let text = format!("fn a() {{\n    {})\n}}\n", BANNED[0].0);
        assert_eq!(judge(&text, true), [format!("2: `{}`: unfinished code", BANNED[0].0)]);
    }

    #[test]
    fn a_file_that_is_too_long_is_found() {
        assert_eq!(judge(&"//\n".repeat(MAX_FILE_LINES), true), [""; 0]);
        assert_eq!(judge(&"//\n".repeat(MAX_FILE_LINES + 1), true).len(), 1);
    }
}
