//! Onego's use of AWS-LC besides TLS: [`gcm`] for messages, [`xts`] for image sectors, [`hash`] for keys from
//! passphrases. No other crate calls AWS-LC directly.

mod context;
pub mod gcm;
pub mod hash;
pub mod xts;

/// Parses hexadecimal digits, for known answers.
#[cfg(test)]
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
