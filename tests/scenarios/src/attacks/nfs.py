"""Attacks on the exported directory `export` by clients that claim any identity, and what honest callers do. The files on
the disk decide. Runs as root on the server's machine and in its network."""
import os
import shutil
import subprocess
import sys
from wire import *

ADDRESS = (sys.argv[1], 2049)
EXPORT = os.path.abspath('export')
# A user with an account, another one, and a supplementary group of the first.
USER, OTHER, GROUP = 1000, 1001, 1500
NOBODY, NO_ID = 65534, 0xffffffff
ME, MEMBER = User(USER), User(USER, groups=[GROUP])


class Field:
    """An empty export with mode 777, and a connection."""

    def __init__(self):
        for entry in os.scandir(EXPORT):
            shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else os.remove(entry)
        os.chmod(EXPORT, 0o777)
        self.client = Nfs(ADDRESS)
        self.root = self.client.mount(User(0))
        assert isinstance(self.root, bytes), f'MOUNT fails with status {self.root}'

    def path(self, name):
        return os.path.join(EXPORT, name)

    def file(self, name, mode):
        """Creates a file that belongs to root."""
        with open(self.path(name), 'w') as file:
            file.write("root's")
        os.chmod(self.path(name), mode)

    def bytes(self, name):
        with open(self.path(name), 'rb') as file:
            return file.read()

    def look_up(self, user, name):
        found = self.client.look_up(user, self.root, name)
        assert isinstance(found, bytes), f'LOOKUP of {name} fails with status {found}'
        return found

    def create(self, user, name, **to_set):
        made = self.client.create(user, self.root, name, **to_set)
        assert isinstance(made, bytes), f'CREATE of {name} fails with status {made}'
        return made

    def make_all(self, user, name, **to_set):
        """Creates one of every type but devices and returns the statuses."""
        to_set = attributes(**to_set)
        calls = [
            ('CREATE', 'file', u32(1) + to_set),
            ('MKDIR', 'directory', to_set),
            ('MKNOD', 'fifo', u32(7) + to_set),
            ('SYMLINK', 'link', to_set + opaque(b'target')),
        ]
        return [self.client.status(procedure, user, place(self.root, f'{name} {kind}') + args)
                for procedure, kind, args in calls]

    def owner(self, name):
        """Returns owner, group and mode."""
        stat = os.lstat(self.path(name))
        return stat.st_uid, stat.st_gid, stat.st_mode & 0o7777

    def all(self):
        return {name: self.owner(name) for name in os.listdir(EXPORT)}

    def all_belong_to(self, uid):
        assert all(owner[:2] == (uid, uid) for owner in self.all().values()), f'not all are {uid}: {self.all()}'


def honest(field):
    """A caller can do with its files what a local user can."""
    client, root, file = field.client, field.root, field.create(MEMBER, 'mine', mode=0o640)
    assert client.write(MEMBER, file, b'bytes') == OK, 'WRITE is refused'
    assert client.read(MEMBER, file) == b'bytes', 'READ returns other bytes'
    assert client.set(MEMBER, file, mode=0o2750, gid=GROUP) == OK, 'SETATTR of group and mode is refused'
    assert field.owner('mine') == (USER, GROUP, 0o2750), field.all()
    assert client.status('LINK', MEMBER, opaque(file) + place(root, 'link')) == OK, 'LINK is refused'
    rename = place(root, 'link') + place(root, 'renamed')
    assert client.status('RENAME', MEMBER, rename) == OK, 'RENAME is refused'
    # A user who has opened a file keeps access when its mode changes.
    assert client.set(MEMBER, file, mode=0o400) == OK, 'SETATTR of the mode is refused'
    assert client.write(MEMBER, file, b'BYTES') == OK, 'the owner may not WRITE'
    assert field.bytes('renamed') == b'BYTES', 'the file has other bytes'
    assert client.read(User(OTHER), file) == ACCES, 'another user may READ'
    assert field.make_all(MEMBER, 'all', mode=0o755) == [OK] * 4, 'not everything can be created'
    for kind in ('file', 'directory', 'fifo', 'link'):
        assert field.owner(f'all {kind}')[:2] == (USER, USER), f'a new {kind}: {field.all()}'
    assert client.status('REMOVE', MEMBER, place(root, 'renamed')) == OK, 'REMOVE is refused'
    assert len(field.all()) == 5, field.all()


def ids_of_callers(field):
    """A call by an impossible user counts as one by nobody."""
    field.make_all(User(NO_ID), 'both', mode=0o4777)
    field.all_belong_to(NOBODY)
    field.make_all(User(USER, NO_ID), 'group', mode=0o2777)
    field.make_all(User(NO_ID, USER), 'user', mode=0o4777)
    assert all(uid != 0 and gid != 0 for uid, gid, _ in field.all().values()), f"files are root's: {field.all()}"


def ids_of_files(field):
    """An impossible owner neither leaves a file to root nor keeps its mode bits."""
    field.make_all(ME, 'made', mode=0o4777, uid=NO_ID, gid=NO_ID)
    field.all_belong_to(USER)
    file = field.create(ME, 'mine', mode=0o755)
    assert field.client.set(ME, file, uid=NO_ID) == INVAL, 'SETATTR accepts owner 4294967295'
    assert field.client.set(ME, file, gid=NO_ID) == INVAL, 'SETATTR accepts group 4294967295'
    field.file("root's", 0o6755)
    field.client.set(ME, field.look_up(ME, "root's"), mode=0o4777, uid=NO_ID, gid=NO_ID)
    assert field.owner("root's") == (0, 0, 0o6755), f"root's file was changed: {field.all()}"


def root(field):
    """Root counts as nobody, and so does its group, even as a supplementary one."""
    field.make_all(User(0, groups=[0, 0]), 'made', mode=0o6777)
    field.all_belong_to(NOBODY)
    field.file("group's", 0o660)
    for caller in (User(0), User(USER, 0), User(USER, groups=[0])):
        file = field.look_up(caller, "group's")
        assert field.client.read(caller, file) == ACCES, f"{caller.ids} reads root's file"
        assert field.client.write(caller, file, b'x') == ACCES, f"{caller.ids} writes root's file"
    assert field.bytes("group's") == b"root's", "root's file has other bytes"
    device = place(field.root, 'null') + u32(4) + attributes(mode=0o666) + u32(1, 3)
    assert field.client.status('MKNOD', User(0), device) == PERM, 'root makes a device'


def owners(field):
    """A caller can neither create files for others nor give files away."""
    field.make_all(ME, 'made', mode=0o6777, uid=0, gid=0)
    field.all_belong_to(USER)
    file = field.create(ME, 'mine', mode=0o755)
    assert field.client.set(ME, file, uid=0) == PERM, 'a file can be given to root'
    assert field.client.set(ME, file, gid=0) == PERM, "a file can be given to root's group"
    field.file("root's", 0o644)
    file = field.look_up(ME, "root's")
    assert field.client.set(ME, file, mode=0o777) == PERM, "the mode of root's file can be changed"
    assert field.client.set(ME, file, uid=USER) == PERM, "root's file can be taken"
    assert field.owner("root's") == (0, 0, 0o644), "root's file was changed"


def race(field):
    """RENAMEs on the same connection move root's files to the name of the file that a CREATE makes."""
    secrets = [f'secret {number}' for number in range(6)]
    for turn in range(1000):
        for secret in secrets:
            field.file(secret, 0o600)
        create = [('CREATE', place(field.root, 'new') + u32(0) + attributes(mode=0o4755))]
        renames = [('RENAME', place(field.root, secret) + place(field.root, 'new')) for secret in secrets]
        field.client.at_once(ME, create + renames)
        for name, (uid, _, mode) in field.all().items():
            expected = (0, 0o600) if field.bytes(name) == b"root's" else (USER, 0o4755)
            assert (uid, mode) == expected, f'turn {turn}: {name} is {(uid, mode)} instead of {expected}'
            os.remove(field.path(name))


def links(field):
    """A hard link would keep a file after its owner removes it, against a quota or a security fix."""
    with open('/proc/sys/fs/protected_hardlinks') as protected:
        assert protected.read().strip() == '1', 'fs.protected_hardlinks is off: every user may link'
    field.file("root's", 0o4755)
    status = field.client.status('LINK', ME, opaque(field.look_up(ME, "root's")) + place(field.root, 'link'))
    assert status == PERM and not os.path.exists(field.path('link')), f'LINK: {status}, {field.all()}'


def privileges(field):
    """A program whose bytes change loses its privileges."""
    create = place(field.root, 'program') + u32(0) + attributes(size=0)
    for name, change in [
        ('SETATTR', lambda file: field.client.set(ME, file, size=2)),
        ('CREATE', lambda file: field.client.status('CREATE', ME, create)),
        ('WRITE', lambda file: field.client.write(ME, file, b'mine')),
    ]:
        field.file('program', 0o6777)
        assert change(field.look_up(ME, 'program')) == OK, f'{name} is refused'
        assert field.owner('program') == (0, 0, 0o777), f'after {name}: {field.all()}'


def listing(field):
    """A directory that can be read but not searched gives names without handles."""
    os.mkdir(field.path('list'))
    with open(field.path('list/open'), 'w') as file:
        file.write('bytes')
    os.chmod(field.path('list'), 0o704)
    directory = field.look_up(ME, 'list')
    assert field.client.look_up(ME, directory, 'open') == ACCES, 'LOOKUP is not refused'
    results = field.client.call('READDIRPLUS', ME, opaque(directory) + u64(0) + u64(0) + u32(8000, 8000))
    assert results.status == OK, 'READDIRPLUS is refused'
    results.attributes()
    results.take(8)
    names = []
    while results.u32():
        results.take(8)
        name = results.opaque()
        results.take(8)
        found, handle = results.attributes(), results.optional_handle()
        if name == b'open':
            read = handle and field.client.read(ME, handle)
            assert not handle and not found, f'READDIRPLUS gives a handle, which reads {read}'
        names.append(name)
    assert b'open' in names, f'READDIRPLUS gives {names}'


def lists(field):
    """The mask of an ACL takes the place of the group's mode bits and grants the group nothing."""
    field.file('listed', 0o600)
    os.chown(field.path('listed'), -1, GROUP)
    rights = f'u:{OTHER}:rw,g::---,m::rw,o::---'
    subprocess.run(['setfacl', '-m', rights, field.path('listed')], check=True)
    assert field.owner('listed')[2] == 0o660, field.all()
    file = field.look_up(MEMBER, 'listed')
    assert field.client.read(MEMBER, file) == ACCES, 'a member of the group reads the file'
    assert field.client.write(MEMBER, file, b'x') == ACCES, 'a member of the group writes the file'
    assert field.client.read(User(OTHER), file) == b"root's", 'the listed user cannot read'
    assert field.client.write(User(OTHER), file, b'other') == OK, 'the listed user cannot write'


def moved(field):
    """Handles of a directory that was moved out of the export give no access to what is put into it later."""
    os.makedirs(field.path('dir/inner'))
    directory = field.look_up(ME, 'dir')
    inner = field.client.look_up(ME, directory, 'inner')
    os.rename(field.path('dir'), 'moved')
    with open('moved/inner/private', 'w') as file:
        file.write('private')
    for handle in (directory, inner):
        args = opaque(handle) + u64(0) + u64(0) + u32(8000)
        assert field.client.status('READDIR', ME, args) == STALE, 'READDIR works outside'
    found = field.client.look_up(ME, inner, 'private')
    assert found == STALE, f'LOOKUP works outside, and what is found reads {field.client.read(ME, found)}'


def mounts(field):
    """MOUNT follows links within the export, but not out of it."""
    os.makedirs(field.path('dir/inner'))
    for link, target in [('inside', 'dir'), ('up', '../outside'), ('etc', '/etc'), ('loop', 'loop')]:
        os.symlink(target, field.path(link))
    os.mkdir('outside')
    inner = field.client.mount(ME, '/export/dir/inner')
    assert isinstance(inner, bytes), f'MOUNT fails with status {inner}'
    assert field.client.mount(ME, '/export/inside/inner') == inner, 'a link within the export is not followed'
    for path in ('up', 'etc', 'loop', '../outside', 'inside/../../outside'):
        assert isinstance(field.client.mount(ME, f'/export/{path}'), int), f'{path} can be mounted'


def ports(field):
    """An unprivileged user on an allowed host cannot make calls at all."""
    set_ports('32768 60999')
    client = Nfs(ADDRESS)
    try:
        client.call('GETATTR', ME, opaque(field.root))
        raise AssertionError('a call from an unprivileged port is accepted')
    except Denied as denied:
        assert denied.args == (TOO_WEAK,), denied
    assert client.mount(ME) == ACCES, 'a MOUNT from an unprivileged port is accepted'
    field.client.call('GETATTR', ME, opaque(field.root))


def set_ports(ports):
    """Sets the local ports of connections in this network."""
    with open('/proc/sys/net/ipv4/ip_local_port_range', 'w') as file:
        file.write(ports)


with open('/proc/sys/net/ipv4/ip_unprivileged_port_start', 'w') as file:
    file.write('0')
# All connections come from privileged ports, until the last attack.
set_ports('600 1000')
won = []
for attack in (honest, ids_of_callers, ids_of_files, root, owners, race, links, privileges, listing, lists, moved, mounts,
               ports):
    try:
        attack(Field())
        print('held:', attack.__doc__)
    except Exception as error:
        won.append(f'{attack.__name__}: {error!r}')
if won:
    sys.exit('attacks have gained something:\n' + '\n'.join(won))
print('all 13 attacks held')
