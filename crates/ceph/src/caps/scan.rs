//! Scanner for capabilities.

use super::error::{CapError, MAX_LEN};

#[derive(Debug, Clone, Copy)]
pub(super) struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn attempt<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<T> {
        let before = *self;
        let found = read(self);
        if found.is_none() {
            *self = before;
        }
        found
    }

    pub(super) fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    pub(super) fn spaces(&mut self) -> Option<()> {
        let before = self.rest.len();
        self.skip_spaces();
        (self.rest.len() < before).then_some(())
    }

    /// Reads this text if it is next, and returns whether it was.
    pub(super) fn literal(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    pub(super) fn expect(&mut self, text: &str) -> Option<()> {
        self.literal(text).then_some(())
    }

    pub(super) fn keyword(&mut self, word: &str) -> Option<()> {
        self.attempt(|scanner| {
            scanner.spaces()?;
            scanner.expect(word)
        })
    }

    /// Reads white space, a keyword, and the separator before its value: `pool=a`, `pool a`.
    pub(super) fn keyword_of_value(&mut self, word: &str) -> Option<()> {
        self.attempt(|scanner| {
            scanner.keyword(word)?;
            if scanner.literal("=") { Some(()) } else { scanner.spaces() }
        })
    }

    pub(super) fn run(&mut self, of: impl Fn(char) -> bool) -> Option<&'a str> {
        let end = self.rest.find(|c| !of(c)).unwrap_or(self.rest.len());
        let (found, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!found.is_empty()).then_some(found)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        self.attempt(|scanner| scanner.text_or_nothing().filter(|text| !text.is_empty()))
    }

    /// Reads a word or a quoted text.
    pub(super) fn text_or_nothing(&mut self) -> Option<&'a str> {
        for quote in ['"', '\''] {
            if let Some(rest) = self.rest.strip_prefix(quote) {
                let (text, rest) = rest.split_once(quote)?;
                self.rest = rest;
                return Some(text);
            }
        }
        self.run(|c| c.is_ascii_alphanumeric() || "_./-".contains(c))
    }

    /// Reads a non-empty subset of `letters` in their order. Returns its bits.
    pub(super) fn letters(&mut self, letters: [(&str, u8); 3]) -> Option<u8> {
        let bits = letters.into_iter().filter(|(letter, _)| self.literal(letter)).map(|(_, bit)| bit);
        Some(bits.sum()).filter(|bits| *bits != 0)
    }
}

/// Reads grants that are separated by `,` or `;`, with white space around them.
pub(super) fn parse_grants<T>(
    service: &'static str,
    text: &str,
    mut grant: impl FnMut(&mut Scanner<'_>) -> Option<T>,
) -> Result<Vec<T>, CapError> {
    if text.len() > MAX_LEN {
        return Err(CapError::TooLong { service, len: text.len() });
    }
    let mut scanner = Scanner::new(text);
    let mut grants = Vec::new();
    loop {
        scanner.skip_spaces();
        let Some(one) = scanner.attempt(&mut grant) else { break };
        grants.push(one);
        scanner.skip_spaces();
        if scanner.is_at_end() {
            return Ok(grants);
        }
        if !(scanner.literal(",") || scanner.literal(";")) {
            break;
        }
    }
    Err(CapError::Syntax { service, rest: scanner.rest().to_owned(), text: text.to_owned() })
}
