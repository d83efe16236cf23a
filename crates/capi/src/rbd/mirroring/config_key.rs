//! What the monitors keep by keys for those who mirror.

use onego::ceph::{Errno, Error};
use onego::rados::Cluster;
use onego_buf::List;
use serde_json::json;

/// The value of a key.
pub(super) async fn get(cluster: &Cluster, key: &str) -> Result<Option<Vec<u8>>, Error> {
    let command = json!({"prefix": "config-key get", "key": key}).to_string();
    match cluster.command(&command, List::new()).await {
        Ok(output) => Ok(Some(output.output)),
        Err(Error::Command { errno: Errno::NOENT, .. } | Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets a key. An empty value removes it.
pub(super) async fn set(cluster: &Cluster, key: &str, value: &str) -> Result<(), Error> {
    let command = if value.is_empty() {
        json!({"prefix": "config-key rm", "key": key})
    } else {
        json!({"prefix": "config-key set", "key": key, "val": value})
    };
    cluster.command(&command.to_string(), List::new()).await.map(drop)
}
