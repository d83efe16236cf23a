//! Who may do what: everybody may do everything, so nobody has a key.

use super::{Call, Outcome, Refusal};
use crate::mon::Mon;
use serde_json::json;

pub(super) fn list(_: &mut Mon, call: &Call<'_>) -> Outcome {
    Ok(call
        .show(&json!({"auth_dump": []}), "")
        .with_status("installed auth entries: none, this cluster takes everybody"))
}

pub(super) fn get(_: &mut Mon, call: &Call<'_>) -> Outcome {
    let entity = call.text("entity");
    Err(Refusal::missing(format!(
        "failed to find {entity} in keyring: this cluster takes everybody without a key"
    )))
}
