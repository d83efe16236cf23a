use super::conf_file::{ConfFile, MAX_LEN, expand, normal};
use super::identity::Identity;
use crate::ceph::error::Error;
use onego_msgr::auth::AuthName;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Settings of a client: overrides, and a `ceph.conf`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    said: BTreeMap<String, String>,
    file: ConfFile,
    path: Option<PathBuf>,
    /// The file's sections for this client, the most specific first.
    sections: [String; 3],
    name: AuthName,
    cluster: String,
}

impl Settings {
    pub(crate) fn new(file: Option<(&Path, ConfFile)>, identity: &Identity) -> Self {
        let name = identity.name();
        // The name of the file is that of its cluster.
        let stem = |path: &Path| {
            let stem = path.file_stem().filter(|_| path.extension().is_some_and(|ext| ext == "conf"))?;
            Some(stem.to_string_lossy().into_owned())
        };
        let named = file.as_ref().and_then(|(path, _)| stem(path));
        let (path, file) = file.map_or_else(Default::default, |(path, file)| (Some(path.to_owned()), file));
        Self {
            said: identity.settings.clone(),
            sections: [name.to_string(), name.kind_name().to_owned(), "global".into()],
            cluster: identity.cluster.clone().or(named).unwrap_or_else(|| "ceph".into()),
            file,
            path,
            name,
        }
    }

    /// Creates the settings of a client without a file.
    pub fn without_file(identity: &Identity) -> Self {
        Self::new(None, identity)
    }

    /// Reads the settings in a `ceph.conf`; `identity` takes precedence.
    pub fn from_file(path: impl AsRef<Path>, identity: &Identity) -> Result<Self, Error> {
        let path = path.as_ref();
        let fail = |reason: String| Error::Config { place: path.display().to_string(), reason };
        let file = File::open(path).map_err(|error| fail(error.to_string()))?;
        let mut text = String::new();
        let len =
            file.take(MAX_LEN + 1).read_to_string(&mut text).map_err(|error| fail(error.to_string()))?;
        if len as u64 > MAX_LEN {
            return Err(fail(format!("it is larger than {MAX_LEN} bytes")));
        }
        Ok(Self::new(Some((path, ConfFile::parse(&text).map_err(fail)?)), identity))
    }

    /// Overrides a setting of the file. The words of its name may be separated by blanks, dashes or underscores.
    pub fn set(&mut self, name: &str, value: &str) {
        self.said.insert(normal(name), value.to_owned());
    }

    /// Returns the value of a setting by its name with underscores.
    pub fn get(&self, wanted: &str) -> Option<String> {
        self.raw(wanted).map(|value| self.expand(value))
    }

    pub(crate) fn monitor_addresses(&self) -> Vec<String> {
        let sections = self.file.sections_of("mon.");
        let addresses = sections.filter_map(|section| self.file.get(section, "mon_addr"));
        addresses.map(|value| self.expand(value)).collect()
    }

    fn raw(&self, wanted: &str) -> Option<&str> {
        let in_file = || self.sections.iter().find_map(|section| self.file.get(section, wanted));
        self.said.get(wanted).map(String::as_str).or_else(in_file)
    }

    /// Expands the variables in a text.
    pub fn expand(&self, text: &str) -> String {
        expand(text, &|variable| match variable {
            "cluster" => Some(self.cluster.clone()),
            "name" => Some(self.name.to_string()),
            "type" => Some(self.name.kind_name().to_owned()),
            "id" | "num" => Some(self.name.id.clone()),
            "host" => {
                Some(rustix::system::uname().nodename().to_string_lossy().split('.').next()?.to_owned())
            }
            "pid" => Some(std::process::id().to_string()),
            "home" => std::env::var("HOME").ok(),
            setting => self.raw(setting).map(str::to_owned),
        })
    }

    pub(super) fn place(&self) -> String {
        let path = self.path.as_ref().map(|path| path.display().to_string());
        match path {
            Some(path) if path.is_empty() => "the text of a ceph.conf".into(),
            Some(path) => path,
            None => "the command line".into(),
        }
    }
}
