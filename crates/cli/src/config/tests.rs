//! What files and command lines lead to together.

use super::file::ConfigFile;
use super::server::{SERVERS, ServedCommand, built};
use super::{keys, show};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::ffi::OsString;
use std::fs;

fn all_commands() -> Command {
    built(crate::command())
}

/// The command line with a file of this text.
fn line_with(text: &str, line: &str) -> Result<Vec<OsString>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("onego.toml");
    fs::write(&path, text).unwrap();
    let line = line.replace("FILE", path.to_str().unwrap());
    let words = line.split(' ').map(OsString::from).collect();
    let shown =
        |failure: crate::failure::Failure| failure.to_string().replace(path.to_str().unwrap(), "FILE");
    super::with_file(words, crate::command).map_err(shown)
}

/// The words that a file adds to a line that names it.
fn added(text: &str, line: &str) -> String {
    let words = line_with(text, line).unwrap();
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let at = words.iter().position(|word| word.starts_with("--config=")).unwrap();
    words[at + 1..].join(" ")
}

fn matches(server: &ServedCommand, line: Vec<OsString>) -> ArgMatches {
    let found = all_commands().try_get_matches_from(line).unwrap();
    server.words.iter().fold(found, |found, word| found.subcommand_matches(word).unwrap().clone())
}

/// A value that an option takes, as a file says it.
fn some_value(whole: &Command, server: &ServedCommand, arg: &Arg) -> String {
    let possible = arg.get_possible_values();
    let named = possible.first().map(|value| format!("{:?}", value.get_name()));
    let defaults = arg.get_default_values().first().map(|value| format!("{:?}", value.to_str().unwrap()));
    let guesses = [
        "true",
        "1",
        "\"2M\"",
        "\"1s\"",
        "\"root\"",
        "\"127.0.0.1\"",
        "\"crc\"",
        "\"/some/file\"",
        "\"10.0.0.0/8\"",
        "\"mem:1M\"",
        "\"client.admin\"",
        "\"rbd_cache=false\"",
    ];
    let guesses = guesses.into_iter().map(str::to_owned);
    let listed = |value: String| if keys::takes_many(arg) { format!("[{value}]") } else { value };
    let is_taken = |value: &String| {
        let text = format!("[{}]\n{} = {value}", server.table(), keys::key(arg));
        // What is wrong is not the value where another key is missing.
        let problems = ConfigFile::parse(&text, whole).err().unwrap_or_default();
        problems.iter().all(|problem| problem.starts_with("1:"))
    };
    let flag = match arg.get_action() {
        ArgAction::SetTrue => Some("true".to_owned()),
        ArgAction::Count => Some("1".to_owned()),
        _ => None,
    };
    flag.into_iter()
        .chain(named)
        .chain(defaults)
        .chain(guesses)
        .map(listed)
        .find(is_taken)
        .unwrap_or_else(|| panic!("no value is known for {}: add one to the guesses", keys::key(arg)))
}

#[test]
fn every_option_of_every_server_is_set_by_a_file() {
    let whole = all_commands();
    let mut count = 0;
    for server in SERVERS {
        let command = server.command_in(&whole);
        for arg in keys::settable(command) {
            let value = some_value(&whole, server, arg);
            // Options that want another, or an operand, are read all the same.
            let text = format!("[{}]\n{} = {value}", server.table(), keys::key(arg));
            let file = ConfigFile::parse(&text, &whole);
            let setting = match &file {
                Ok(file) => file.settings_of(server).next().unwrap(),
                Err(problems) => {
                    assert!(problems.iter().all(|problem| problem.contains("required")), "{problems:?}");
                    continue;
                }
            };
            let words = keys::words(arg, &setting.value).unwrap();
            let end = arg.is_positional().then(|| "--".to_owned());
            let line = [command.get_name().to_owned()].into_iter().chain(end).chain(words);
            let found = command.clone().ignore_errors(true).get_matches_from(line);
            let source = found.value_source(arg.get_id().as_str());
            assert_eq!(source, Some(ValueSource::CommandLine), "{text}");
            count += 1;
        }
    }
    assert!(count > 60, "only {count} options were seen");
}

#[test]
fn the_command_line_comes_before_the_file() {
    let text = "[cluster.start]\nosds = 3\nlisten = \"127.0.0.2\"\nnull-writes = true\n";
    for (line, expected) in [
        ("onego cluster start --config=FILE", "--listen=127.0.0.2 --null-writes --osds=3 --"),
        ("onego cluster start --config=FILE --osds 2", "--osds 2 --listen=127.0.0.2 --null-writes --"),
        ("onego cluster start --config=FILE --null-writes=false", "--listen=127.0.0.2 --osds=3 --"),
        (
            "onego cluster start --config=FILE --null-writes=true",
            "--null-writes --listen=127.0.0.2 --osds=3 --",
        ),
        // What excludes an option of the file does so, whichever of both says it.
        ("onego cluster start --config=FILE --data d", "--data d --listen=127.0.0.2 --osds=3 --"),
    ] {
        assert_eq!(added(text, line), expected, "{line}");
    }
}

#[test]
fn operands_are_the_command_lines_or_the_files() {
    let text =
        "[export.nbd]\nsources = [\"mem:1M\", \"a b\"]\nengine = \"uring\"\n[nfs.serve]\ndir = \"/srv\"\n";
    for (line, expected) in [
        ("onego export nbd --config=FILE", "--engine=uring -- mem:1M a b"),
        ("onego export nbd --config=FILE null:1M", "null:1M --engine=uring --"),
        ("onego export nbd --config=FILE -- -x", "--engine=uring -- -x"),
        ("onego --engine epoll export nbd --config=FILE", "-- mem:1M a b"),
        ("onego nfs serve --config=FILE --mem", "--mem --"),
    ] {
        assert_eq!(added(text, line), expected, "{line}");
    }
    let nbd = SERVERS.iter().find(|server| server.words == ["export", "nbd"]).unwrap();
    let found = matches(nbd, line_with(text, "onego export nbd --config=FILE").unwrap());
    assert_eq!(found.get_raw("sources").unwrap().count(), 2);
}

#[test]
fn flags_with_and_without_values_are_read() {
    let rdma = |value: &str| {
        added(&format!("[nfs.serve]\nmem = true\nrdma = {value}"), "onego nfs serve --config=FILE")
    };
    assert_eq!(rdma("true"), "--mem --rdma --");
    assert_eq!(rdma("false"), "--mem --");
    assert_eq!(rdma("7"), "--mem --rdma=7 --");
    let allow =
        |value: &str| added(&format!("[nfs.serve]\nallow = {value}"), "onego nfs serve --config=FILE /x");
    assert_eq!(allow("\"10.0.0.0/8\""), "/x --allow=10.0.0.0/8 --");
    assert_eq!(allow("[\"10.0.0.0/8\", \"::1\"]"), "/x --allow=10.0.0.0/8 --allow=::1 --");
    assert_eq!(
        added("[nfs.serve]\nverbose = 2", "onego nfs serve --config=FILE /x"),
        "/x --verbose --verbose --"
    );
}

#[test]
fn what_is_wrong_in_a_file_is_told_with_its_line() {
    for (text, expected) in [
        ("[cluster.start]\n\nosd = 3", "FILE:3: [cluster.start] has no key `osd`; the nearest is `osds`"),
        ("[cluster.strat]", "FILE:1: there is no table [cluster.strat]; the nearest is `cluster.start`"),
        ("[export.vhost-user.x]", "FILE:1: [export.vhost-user] has no key `x`; the nearest is"),
        ("a = 1\nosds = 3", "FILE:1: `a` stands in no table"),
        ("[cluster.start]\nosds = 0", "FILE:2: `osds`: invalid value '0'"),
        ("[cluster.start]\nosds = [1]", "FILE:2: `osds`: it takes one value, and not a list"),
        ("[cluster.start]\nosds = 0x3", "FILE:2: `osds`: numbers are decimal"),
        ("[cluster.start]\nauth = \"no\"", "[possible values: none, cephx]"),
        ("[cluster.start]\nnull-writes = 1", "FILE:2: `null-writes`: it is true or false"),
        (
            "[cluster.start]\nnull-writes = true\ndata = \"d\"",
            "FILE:1: [cluster.start]: the argument '--data <DIR>' cannot",
        ),
        ("[cluster.start]\ndie-with-parent = true", "has no key `die-with-parent`"),
        ("[nfs.serve]\nconf = \"c\"", "has no key `conf`"),
        (
            "[export.nbd]\ntls-cert = \"c\"",
            "FILE:1: [export.nbd]: the following required arguments were not provided: --tls-key",
        ),
        ("[nfs.serve]\nverbose = 9", "FILE:2: `verbose`: it is a number from 0 to 8"),
        ("[nfs.serve\n", "FILE:1: "),
        ("\n\n[nfs.serve]\nmem = true\nmem = true\n", "FILE:5: duplicate key"),
    ] {
        let said = line_with(text, "onego nfs serve --config=FILE").unwrap_err();
        assert!(said.contains(expected), "{text}\n{said}");
    }
    let said = line_with("[nfs.serve]\na = 1\nb = 2", "onego nfs serve --config=FILE").unwrap_err();
    assert_eq!(said.lines().count(), 2, "all of it is told at once: {said}");
}

#[test]
fn lines_of_other_commands_stay_as_they_are() {
    for line in
        ["onego ceph --config=x --null-writes=false", "onego cluster start --osds 3", "onego --config x"]
    {
        let words: Vec<_> = line.split(' ').map(OsString::from).collect();
        assert_eq!(super::with_file(words.clone(), crate::command).unwrap(), words);
    }
}

#[test]
fn a_template_is_a_file_that_sets_nothing_and_names_every_key() {
    let whole = all_commands();
    let template = show::template(&whole).join("\n");
    let file = ConfigFile::parse(&template, &whole).unwrap();
    assert!(SERVERS.iter().all(|server| file.settings_of(server).next().is_none()));
    let options = template.lines().filter(|line| line.starts_with('#') && !line.starts_with("# "));
    let options: usize = options.map(|line| usize::from(line.contains(" = "))).sum();
    let keys: usize = SERVERS.iter().map(|server| keys::settable(server.command_in(&whole)).count()).sum();
    assert_eq!(options, keys);
}

#[test]
fn what_is_shown_is_a_file_that_says_the_same() {
    let whole = all_commands();
    let text = "[cluster.start]\nosds = 3\nlisten = \"127.0.0.2:3300\"\n[nfs.serve]\nmem = true\nallow = [\"10.0.0.0/8\"]\nexport = '/a\"b'";
    let shown = show::shown(&ConfigFile::parse(text, &whole).unwrap(), &whole);
    for line in ["osds = 3 # line 2", "null-writes = false # default", "export = \"/a\\\"b\" # line 7"] {
        assert!(shown.iter().any(|shown| shown == line), "{line} is not in {shown:?}");
    }
    let again = ConfigFile::parse(&shown.join("\n"), &whole).unwrap();
    let nfs = SERVERS.iter().find(|server| server.words == ["nfs", "serve"]).unwrap();
    let allow = again.settings_of(nfs).find(|setting| setting.key == "allow").unwrap();
    assert_eq!(allow.value, super::keys::Value::Many(vec!["10.0.0.0/8".to_owned()]));
}
