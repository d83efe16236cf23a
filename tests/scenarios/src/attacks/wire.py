"""Clients of NFSv3 (RFC 1813, RFC 5531) and of an OSD by messenger v1 that send anything, whole or in part.

Sources of the latter: ceph doc/dev/network-protocol.rst, src/include/msgr.h, src/messages/MOSDOp.h,
src/osd/osd_types.h."""
import itertools
import os
import socket
import struct

PROCEDURES = '''NULL GETATTR SETATTR LOOKUP ACCESS READLINK READ WRITE CREATE MKDIR SYMLINK MKNOD REMOVE RMDIR RENAME
    LINK READDIR READDIRPLUS'''.split()
OK, PERM, ACCES, INVAL, STALE = 0, 1, 13, 22, 70
# AUTH_TOOWEAK.
TOO_WEAK = 5
# Of all connections: the server replies to a repeated number from its cache.
XIDS = itertools.count(int.from_bytes(os.urandom(3), 'big'))


def u32(*values):
    return struct.pack(f'>{len(values)}I', *values)


def u64(value):
    return struct.pack('>Q', value)


def opaque(data):
    return u32(len(data)) + data + bytes(-len(data) % 4)


def place(directory, name):
    return opaque(directory) + opaque(name.encode())


def attributes(mode=None, uid=None, gid=None, size=None):
    words = b''.join(u32(0) if value is None else u32(1, value) for value in (mode, uid, gid))
    return words + (u32(0) if size is None else u32(1) + u64(size)) + u32(0, 0)


class User:
    def __init__(self, uid, gid=None, groups=()):
        self.ids = (uid, uid if gid is None else gid, len(groups), *groups)


def message(procedure, user, args, program=100003):
    credentials = u32(1) + opaque(u32(0) + opaque(b'attacker') + u32(*user.ids))
    call = u32(next(XIDS), 0, 2, program, 3, procedure) + credentials + u32(0, 0) + args
    return u32(1 << 31 | len(call)) + call


def nfs_message(procedure, user, args):
    return message(PROCEDURES.index(procedure), user, args)


class Denied(Exception):
    pass


class Results:
    """Results of a call, which begin with a status."""

    def __init__(self, data):
        self.data = data
        self.status = self.u32()

    def take(self, length):
        taken, self.data = self.data[:length], self.data[length:]
        assert len(taken) == length, 'a reply is too short'
        return taken

    def u32(self):
        return int.from_bytes(self.take(4), 'big')

    def opaque(self):
        length = self.u32()
        return self.take(length + -length % 4)[:length]

    def attributes(self):
        return self.take(84) if self.u32() else None

    def optional_handle(self):
        return self.opaque() if self.u32() else None


class Nfs:
    """A connection. Methods return the status instead of a result if the server refuses."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile('rb')

    def reply(self):
        record, mark = b'', 0
        while not mark >> 31:
            mark, = struct.unpack('>I', self.file.read(4))
            record += self.file.read(mark & ~(1 << 31))
        kind, denied = struct.unpack('>4x2I', record[:12])
        assert kind == 1, 'the server sends a call'
        if denied:
            reason, status = struct.unpack('>2I', record[12:20])
            assert reason == 1, 'the server denies this version of RPC'
            raise Denied(status)
        verifier, = struct.unpack('>I', record[16:20])
        accepted = record[20 + verifier + -verifier % 4:]
        assert accepted[:4] == u32(0), f'the server does not accept the call: {accepted[:4]}'
        return Results(accepted[4:])

    def call(self, procedure, user, args):
        self.socket.sendall(nfs_message(procedure, user, args))
        return self.reply()

    def at_once(self, user, calls):
        self.socket.sendall(b''.join(nfs_message(procedure, user, args) for procedure, args in calls))
        for _ in calls:
            self.reply()

    def status(self, procedure, user, args):
        return self.call(procedure, user, args).status

    def mount(self, user, path='/export'):
        self.socket.sendall(message(1, user, opaque(path.encode()), program=100005))
        results = self.reply()
        return results.status or results.opaque()

    def look_up(self, user, directory, name):
        results = self.call('LOOKUP', user, place(directory, name))
        return results.status or results.opaque()

    def create(self, user, directory, name, **to_set):
        results = self.call('CREATE', user, place(directory, name) + u32(1) + attributes(**to_set))
        return results.status or results.optional_handle()

    def set(self, user, file, **to_set):
        return self.status('SETATTR', user, opaque(file) + attributes(**to_set) + u32(0))

    def write(self, user, file, data):
        return self.status('WRITE', user, opaque(file) + u64(0) + u32(len(data), 2) + opaque(data))

    def read(self, user, file, length=1000):
        results = self.call('READ', user, opaque(file) + u64(0) + u32(length))
        if results.status == OK:
            results.attributes()
            results.take(8)
        return results.status or results.opaque()


TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(crc, data):
    """The caller gives the register's initial value, and the result is not inverted."""
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xff]
    return crc


BANNER = b'ceph v027'
ADDRESS, REPLY, HEADER, FOOTER = 136, 26, 53, 21
READY, MESSAGE, ACK = 1, 7, 8
OSD_OP, OSD_OP_REPLY = 42, 43
# All but RECONNECT_SEQ.
FEATURES = (1 << 64) - 1 - (1 << 6)
CLIENTS = itertools.count(int.from_bytes(os.urandom(3), 'big'))
# Number of the pool that the cluster has from the start.
POOL = 1
# Operations with CEPH_OSD_FLAG_READ or _WRITE and _ONDISK.
READ, WRITE_FULL, WATCH, NOTIFY = (0x1201, 0x14), (0x2202, 0x24), (0x220f, 0x24), (0x1206, 0x14)
# Operation of WATCH (CEPH_OSD_WATCH_OP_WATCH).
BEGIN = 3


def request(operation, length, epoch, tid=1, cookie=0):
    """Tag, header and front of a request for the object `attacked`."""
    (code, flags), payload = operation, length if operation in (WRITE_FULL, NOTIFY) else 0
    # Placement group, hash, epoch, flags; request id, trace, incarnation, time; locator, name; one operation with its
    # offset, length, truncation and payload; no snapshots, first attempt.
    front = struct.pack('<2BIBQIiB', 1, 1, 18, 1, POOL, 0, -1, 255) + struct.pack('<3I', 0, epoch, flags)
    front += struct.pack('<2BI57x', 2, 2, 21) + struct.pack('<2BIQi16x', 6, 6, 28, POOL, -1)
    front += struct.pack('<I8sHH4x2QB11xI', 8, b'attacked', 1, code, cookie, length, BEGIN, payload)
    front += struct.pack('<Q16xQ', (1 << 64) - 2, FEATURES)
    # Sequence number, tid, type, priority, version, lengths; sender; oldest compatible version.
    header = struct.pack('<2Q3H3I11xH2x', tid, tid, OSD_OP, 127, 8, len(front), 0, payload, 3)
    return bytes([MESSAGE]) + header + struct.pack('<I', crc32c(0, header)) + front


def footer(head):
    """Checksums and flags: the message is complete and its payload has no checksum."""
    return struct.pack('<I16xB', crc32c(0, head[1 + HEADER:]), 3)


class Osd:
    """A connection of an attacker to an OSD after the handshake."""

    def __init__(self, address):
        self.socket = connect_attacker(address)
        self.file = self.socket.makefile('rb')
        # CEPH_ENTITY_TYPE_CLIENT is 8, CEPH_OSDC_PROTOCOL 24, CEPH_AUTH_NONE 1, CEPH_MSG_CONNECT_LOSSY 1.
        authorizer = struct.pack('<B2I5sQ', 1, 8, 5, b'guest', next(CLIENTS))
        hello = struct.pack('<9s136xQ6IB', BANNER, FEATURES, 8, 1, 0, 24, 1, len(authorizer), 1)
        self.socket.sendall(hello + authorizer)
        said = self.take(len(BANNER) + 2 * ADDRESS + REPLY)
        tag, authorizer_length = struct.unpack('<B20xIx', said[-REPLY:])
        assert said.startswith(BANNER) and tag == READY, f'the handshake fails with tag {tag}'
        self.take(authorizer_length)

    def take(self, length):
        data = self.file.read(length)
        if len(data) < length:
            raise ConnectionError('the OSD closes the connection')
        return data

    def send(self, operation, length, epoch, tid=1, cookie=0, payload=None):
        head = request(operation, length, epoch, tid, cookie)
        if payload is None:
            payload = bytes(length if operation is WRITE_FULL else 0)
        self.socket.sendall(head + payload + footer(head))

    def result(self):
        """Returns the result in the next reply to a request (MOSDOpReply)."""
        while True:
            tag, = self.take(1)
            if tag == ACK:
                self.take(8)
                continue
            assert tag == MESSAGE, f'the OSD sends tag {tag}'
            kind, front, middle, payload = struct.unpack('<16xH4x3I19x', self.take(HEADER))
            body = self.take(front) + self.take(middle + payload + FOOTER)
            if kind == OSD_OP_REPLY:
                # After the name, the placement group and the flags.
                return struct.unpack_from('<i', body, 4 + int.from_bytes(body[:4], 'little') + 17 + 8)[0]


def connect_attacker(address):
    """Connects from the address of all attackers, which is not the honest client's."""
    connection = socket.create_connection(address, timeout=30, source_address=('127.0.0.1', 0))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
