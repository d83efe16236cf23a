//! The file system beside a model of it: a tree of plain maps and vectors.

use super::*;
use crate::memory::node::NODE_BYTES;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Something that is done, by paths.
#[derive(Debug, Clone)]
enum ModelStep {
    Create(String),
    Mkdir(String),
    Write(String, u64, Vec<u8>),
    Resize(String, u64),
    Remove(String),
    Rmdir(String),
    Rename(String, String),
    Link(String, String),
    Read(String, u64, u32),
}

fn path() -> impl Strategy<Value = String> {
    // Few names, so that steps meet.
    let name = prop::sample::select(vec!["a", "b", "c"]);
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

fn step() -> impl Strategy<Value = ModelStep> {
    let bytes = (any::<u8>(), prop_oneof![1..100_usize, 4096..40_000_usize]);
    let bytes = bytes.prop_map(|(byte, len)| vec![byte; len]);
    prop_oneof![
        3 => path().prop_map(ModelStep::Create),
        4 => path().prop_map(ModelStep::Mkdir),
        3 => (path(), 0..100_000_u64, bytes).prop_map(|(path, at, bytes)| ModelStep::Write(path, at, bytes)),
        1 => (path(), 0..100_000_u64).prop_map(|(path, size)| ModelStep::Resize(path, size)),
        1 => path().prop_map(ModelStep::Remove),
        1 => path().prop_map(ModelStep::Rmdir),
        3 => (path(), path()).prop_map(|(from, to)| ModelStep::Rename(from, to)),
        1 => (path(), path()).prop_map(|(file, link)| ModelStep::Link(file, link)),
        2 => (path(), 0..100_000_u64, 0..50_000_u32).prop_map(|(path, at, len)| ModelStep::Read(path, at, len)),
    ]
}

#[derive(Debug, Clone)]
enum Item {
    File(Vec<u8>),
    Dir(BTreeMap<String, usize>),
}

/// The items by number; the root is the first. None is ever taken away.
#[derive(Debug)]
struct Model(Vec<Item>);

type ModelResult<T> = Result<T, Status>;

impl Model {
    fn dir(&mut self, id: usize) -> ModelResult<&mut BTreeMap<String, usize>> {
        match &mut self.0[id] {
            Item::Dir(names) => Ok(names),
            Item::File(_) => Err(Status::Notdir),
        }
    }

    fn find(&mut self, path: &str) -> ModelResult<usize> {
        path.split('/')
            .filter(|name| !name.is_empty())
            .try_fold(0, |dir, name| self.dir(dir)?.get(name).copied().ok_or(Status::Noent))
    }

    /// The directory and the name of a path.
    fn place<'a>(&mut self, path: &'a str) -> ModelResult<(usize, &'a str)> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = self.find(dir)?;
        self.dir(dir)?;
        Ok((dir, name))
    }

    fn make(&mut self, path: &str, item: Item) -> ModelResult<()> {
        let (dir, name) = self.place(path)?;
        let id = self.0.len();
        let names = self.dir(dir)?;
        if names.contains_key(name) {
            return Err(Status::Exist);
        }
        names.insert(name.into(), id);
        self.0.push(item);
        Ok(())
    }

    fn file(&mut self, path: &str) -> ModelResult<&mut Vec<u8>> {
        let id = self.find(path)?;
        match &mut self.0[id] {
            Item::File(bytes) => Ok(bytes),
            Item::Dir(_) => Err(Status::Inval),
        }
    }

    fn is_within(&mut self, dir: usize, outer: usize) -> bool {
        dir == outer
            || match self.0[outer].clone() {
                Item::Dir(names) => names.values().any(|inner| self.is_within(dir, *inner)),
                Item::File(_) => false,
            }
    }

    fn rename(&mut self, from: &str, to: &str) -> ModelResult<()> {
        let (from_dir, from_name) = self.place(from)?;
        let (to_dir, to_name) = self.place(to)?;
        let id = self.find(from)?;
        let target = self.dir(to_dir)?.get(to_name).copied();
        if target == Some(id) {
            return Ok(());
        }
        let is_dir = matches!(self.0[id], Item::Dir(_));
        if is_dir && self.is_within(to_dir, id) {
            return Err(Status::Inval);
        }
        if target.is_some_and(|target| self.is_within(from_dir, target)) {
            return Err(Status::Notempty);
        }
        match target.map(|target| &self.0[target]) {
            Some(Item::File(_)) if is_dir => return Err(Status::Notdir),
            Some(Item::Dir(_)) if !is_dir => return Err(Status::Isdir),
            Some(Item::Dir(names)) if !names.is_empty() => return Err(Status::Notempty),
            _ => {}
        }
        self.dir(from_dir)?.remove(from_name);
        self.dir(to_dir)?.insert(to_name.into(), id);
        Ok(())
    }

    fn carry_out(&mut self, step: &ModelStep) -> ModelResult<Vec<u8>> {
        match step {
            ModelStep::Create(path) => self.make(path, Item::File(Vec::new()))?,
            ModelStep::Mkdir(path) => self.make(path, Item::Dir(BTreeMap::new()))?,
            ModelStep::Write(path, at, data) => {
                let (file, at) = (self.file(path)?, *at as usize);
                file.resize(file.len().max(at + data.len()), 0);
                file[at..at + data.len()].copy_from_slice(data);
            }
            ModelStep::Resize(path, size) => match self.file(path) {
                Err(Status::Inval) => return Err(Status::Isdir),
                file => file?.resize(*size as usize, 0),
            },
            ModelStep::Remove(path) => {
                let (id, (dir, name)) = (self.find(path)?, self.place(path)?);
                if let Item::Dir(_) = self.0[id] {
                    return Err(Status::Isdir);
                }
                self.dir(dir)?.remove(name);
            }
            ModelStep::Rmdir(path) => {
                let (id, (dir, name)) = (self.find(path)?, self.place(path)?);
                if !self.dir(id)?.is_empty() {
                    return Err(Status::Notempty);
                }
                self.dir(dir)?.remove(name);
            }
            ModelStep::Rename(from, to) => self.rename(from, to)?,
            ModelStep::Link(file, link) => {
                let id = self.find(file)?;
                let (dir, name) = self.place(link)?;
                if let Item::Dir(_) = self.0[id] {
                    return Err(Status::Perm);
                }
                if self.dir(dir)?.contains_key(name) {
                    return Err(Status::Exist);
                }
                self.dir(dir)?.insert(name.into(), id);
            }
            ModelStep::Read(path, at, len) => {
                let file = self.file(path)?;
                let at = (*at as usize).min(file.len());
                return Ok(file[at..file.len().min(at + *len as usize)].to_vec());
            }
        }
        Ok(Vec::new())
    }
}

impl World {
    /// The handles on the way to a path, as far as a client comes by looking names up.
    fn walk(&mut self, path: &str) -> ModelResult<Handle> {
        let mut file = self.root();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let place = Place { dir: file, name: name.into() };
            file = self.call(Memory::lookup, place).map_err(|failed| failed.status)?.file;
        }
        Ok(file)
    }

    /// Is the way to a path one of directories?
    fn reach(&mut self, path: &str) -> ModelResult<()> {
        let (dir, _) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = self.walk(dir)?;
        match self.call(Memory::getattr, dir).unwrap().file_type {
            FileType::Directory => Ok(()),
            _ => Err(Status::Notdir),
        }
    }

    fn carry_out(&mut self, step: &ModelStep) -> ModelResult<Vec<u8>> {
        match step {
            ModelStep::Create(path) => self.reach(path).and_then(|()| self.create(path, 0o644)).map(drop)?,
            ModelStep::Mkdir(path) => self.reach(path).and_then(|()| self.mkdir(path, 0o755)).map(drop)?,
            ModelStep::Write(path, at, data) => self.walk(path).and_then(|_| self.write(path, *at, data))?,
            ModelStep::Resize(path, size) => {
                let size = SetAttributes { size: Some(*size), ..SetAttributes::default() };
                self.walk(path).and_then(|_| self.set(path, size))?;
            }
            ModelStep::Remove(path) => self.reach(path).and_then(|()| self.remove(path))?,
            ModelStep::Rmdir(path) => self.reach(path).and_then(|()| self.rmdir(path))?,
            ModelStep::Rename(from, to) => {
                self.reach(from)?;
                self.reach(to)?;
                self.rename(from, to)?;
            }
            ModelStep::Link(file, link) => {
                self.walk(file)?;
                self.reach(link)?;
                self.link(file, link)?;
            }
            ModelStep::Read(path, at, len) => {
                return self.walk(path).and_then(|_| self.read(path, *at, *len)).map(|(bytes, _)| bytes);
            }
        }
        Ok(Vec::new())
    }

    /// Holds that a directory and all below it are as the model has them; counts links to files.
    fn check(&mut self, model: &Model, dir: Handle, id: usize, links: &mut BTreeMap<usize, (u32, Handle)>) {
        let Item::Dir(names) = &model.0[id] else { panic!("a directory") };
        let args =
            ReaddirplusArgs { dir, cookie: 0, verifier: [0; 8], dir_count: 1 << 20, max_count: 1 << 20 };
        let listed = self.call(Memory::readdirplus, args).unwrap();
        let mut there: Vec<_> = listed.entries.iter().map(|entry| entry.name.0.clone()).collect();
        let mut expected: Vec<_> = names.keys().map(|name| name.clone().into_bytes()).collect();
        expected.extend([b".".to_vec(), b"..".to_vec()]);
        there.sort();
        expected.sort();
        assert_eq!(there, expected);
        let mut inner_dirs = 0;
        for entry in listed.entries.iter().skip(2) {
            let id = names[std::str::from_utf8(&entry.name.0).unwrap()];
            let file = entry.file.unwrap();
            match &model.0[id] {
                Item::Dir(_) => {
                    inner_dirs += 1;
                    self.check(model, file, id, links);
                }
                Item::File(bytes) => {
                    let size = bytes.len();
                    assert_eq!(entry.attributes.unwrap().size, size as u64);
                    let args = ReadArgs { file, offset: 0, count: size as u32 };
                    assert!(self.call(Memory::read, args).unwrap().data.to_vec() == *bytes);
                    links.entry(id).or_insert((0, file)).0 += 1;
                }
            }
        }
        assert_eq!(self.call(Memory::getattr, dir).unwrap().links, 2 + inner_dirs);
    }
}

proptest! {
    #[test]
    fn the_file_system_does_what_its_model_does(steps in prop::collection::vec(step(), 1..60)) {
        let (mut world, mut model) = (World::new(), Model(vec![Item::Dir(BTreeMap::new())]));
        for step in &steps {
            let (is, expected) = (world.carry_out(step), model.carry_out(step));
            prop_assert!(is == expected, "{step:?}: {:?}, expected {:?}", is.map(|b| b.len()), expected.map(|b| b.len()));
        }
        let mut links = BTreeMap::new();
        let root = world.root();
        world.check(&model, root, 0, &mut links);
        for (count, file) in links.into_values() {
            prop_assert_eq!(world.call(Memory::getattr, file).unwrap().links, count);
        }
        let used: u64 = world.fs.nodes.iter().map(|(_, node)| NODE_BYTES + node.content.bytes()).sum();
        prop_assert_eq!(world.fs.used, used);
    }
}
