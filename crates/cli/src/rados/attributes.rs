//! Extended attributes of objects.

use super::arguments::{ObjectArg, value};
use crate::ceph::errno::because;
use crate::failure::Failure;
use crate::output;
use onego::rados::Pool;

#[derive(clap::Args)]
pub(super) struct NameArg {
    /// The object
    object: String,
    /// The attribute
    name: String,
}

#[derive(clap::Args)]
pub(super) struct SetOptions {
    /// The object
    object: String,
    /// The attribute
    name: String,
    /// Its value [default: what is read from standard input]
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,
}

fn about(what: &str, pool: &Pool, object: &str, name: &str) -> String {
    format!("error {what} xattr {}/{object}/{name}", pool.name())
}

pub(super) async fn list(pool: &Pool, ObjectArg { object }: &ObjectArg) -> Result<(), Failure> {
    let what = format!("error getting xattr set {}/{object}", pool.name());
    let attributes = pool.xattrs(object).await.map_err(because(what))?;
    output::lines(attributes.into_keys())
}

pub(super) async fn get(pool: &Pool, NameArg { object, name }: &NameArg) -> Result<(), Failure> {
    let value = pool.get_xattr(object, name).await.map_err(because(about("getting", pool, object, name)))?;
    output::bytes(&value.to_vec())
}

pub(super) async fn set(pool: &Pool, options: &SetOptions) -> Result<(), Failure> {
    let SetOptions { object, name, value: given } = options;
    let value = value(given.as_deref())?;
    pool.set_xattr(object, name, value).await.map_err(because(about("setting", pool, object, name)))
}

pub(super) async fn remove(pool: &Pool, NameArg { object, name }: &NameArg) -> Result<(), Failure> {
    pool.remove_xattr(object, name).await.map_err(because(about("removing", pool, object, name)))
}
