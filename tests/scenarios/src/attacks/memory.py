"""Clients that make a server hold as much memory as they can, and an honest client of an NFS server.

Arguments: the function, the server's address and port, and for an OSD the epoch of its map. An attack prints `holding` and
keeps what it has until it is killed."""
import sys
import time
from wire import *

ADDRESS = (sys.argv[2], int(sys.argv[3]))
EPOCH = int(sys.argv[4]) if len(sys.argv) > 4 else 0
CALLER = User(0)
MIB = 1 << 20
# Payloads of librbd's size, the largest that an OSD accepts, one that it discards, and a small one.
TRANSFER, LARGEST, TOO_LARGE, SMALL = 4 * MIB, 90 * MIB, 300 * MIB, 16 << 10
EBUSY, EMSGSIZE = 16, 90


def send(connection, data):
    """Sends what the server accepts without waiting, and returns how much. The server may close the connection."""
    data, sent = memoryview(data), 0
    try:
        while sent < len(data):
            sent += connection.send(data[sent:])
    except (BlockingIOError, ConnectionError):
        pass
    return sent


def send_all(connections, data):
    """Sends on each connection what the server must accept as a whole."""
    for connection in connections:
        sent = send(connection, data)
        assert sent == len(data), f'a connection accepts {sent} of {len(data)} bytes'


def trickle(connections, data, begin):
    """Sends the first `begin` bytes at once, and then one every 1.5 s."""
    send_all(connections, data[:begin])
    print('holding', flush=True)
    for byte in data[begin:begin + 4]:
        for connection in connections:
            send(connection, bytes([byte]))
        time.sleep(1.5)
    return connections


def nonblocking(connections):
    for connection in connections:
        connection.setblocking(False)
    return connections


def nfs_file():
    client = Nfs(ADDRESS)
    root = client.mount(CALLER)
    file = client.look_up(CALLER, root, 'file')
    return client, file if isinstance(file, bytes) else client.create(CALLER, root, 'file', mode=0o644, size=MIB)


def serve_honest():
    """Writes and reads a large block for each line of input, always on one connection."""
    client, file = nfs_file()
    for _ in sys.stdin:
        status = client.write(CALLER, file, bytes([7]) * MIB)
        assert status == OK, f'WRITE fails with status {status}'
        assert client.read(CALLER, file, MIB) == bytes([7]) * MIB, 'READ returns other bytes'
        print('served', flush=True)


def nfs_connections(count):
    return nonblocking([connect_attacker(ADDRESS) for _ in range(count)])


def nfs_write():
    return nfs_message('WRITE', CALLER, opaque(nfs_file()[1]) + u64(0) + u32(MIB, 0) + opaque(bytes([1]) * MIB))


def fragments():
    """150 connections, each with a call in 64 Ki fragments of one byte."""
    data, connections = bytes([0, 0, 0, 1, 7]) * (64 << 10), nfs_connections(150)
    sent = [0] * len(connections)
    for _ in range(20):
        for at, connection in enumerate(connections):
            sent[at] += send(connection, data[sent[at]:])
        time.sleep(0.02)
    assert sum(sent) > MIB, f'the server accepts only {sum(sent)} bytes of fragments: no attack'
    return connections


def half_records():
    """2,000 WRITEs of 1 MiB, half sent."""
    data, connections = nfs_write()[:MIB // 2], nfs_connections(2000)
    sent = sum(send(connection, data) for connection in connections)
    assert sent > 128 * MIB, f'the server accepts only {sent} bytes of WRITEs: no attack'
    return connections


def nfs_replies():
    """100 connections, each with 50 READs of 1 MiB whose replies are not read."""
    read, connections = opaque(nfs_file()[1]) + u64(0) + u32(MIB), nfs_connections(100)
    send_all(connections, b''.join(nfs_message('READ', CALLER, read) for _ in range(50)))
    return connections


def nfs_idle():
    """4,096 idle connections, as many as the server accepts. A new client is still served."""
    file, connections = nfs_file()[1], nfs_connections(4096)
    start = time.monotonic()
    status = Nfs(ADDRESS).status('READ', CALLER, opaque(file) + u64(0) + u32(MIB))
    waited = time.monotonic() - start
    assert status == OK and waited < 5, f'a new client waits {waited} s for status {status}'
    return connections


def slow_writes():
    """64 WRITEs of 1 MiB that arrive slowly."""
    return trickle(nfs_connections(64), nfs_write(), 1000)


def osd_connections(count):
    """Opens connections of one address; the server may refuse some. Checks that an OSD accepts whole requests."""
    osd = Osd(ADDRESS)
    osd.send(WRITE_FULL, TRANSFER, EPOCH)
    assert osd.result() == 0, 'an object cannot be written'
    connections = []
    try:
        while len(connections) < count:
            connections.append(Osd(ADDRESS).socket)
    except OSError:
        pass
    assert len(connections) >= count / 2, f'only {len(connections)} of {count} connections were opened'
    return nonblocking(connections)


def announced():
    """2,000 writes of the largest payload, of which nothing is sent."""
    connections = osd_connections(2000)
    send_all(connections, request(WRITE_FULL, LARGEST, EPOCH))
    return connections


def half_sent():
    """500 writes of 4 MiB, half sent."""
    data, connections = request(WRITE_FULL, TRANSFER, EPOCH) + bytes([1]) * (TRANSFER // 2), osd_connections(500)
    sent = sum(send(connection, data) for connection in connections)
    assert sent > 256 * MIB, f'the server accepts only {sent} bytes: no attack'
    return connections


def slow_payloads():
    """64 writes of 4 MiB that arrive slowly."""
    head = request(WRITE_FULL, TRANSFER, EPOCH)
    return trickle(osd_connections(64), head + bytes([1]) * TRANSFER, len(head) + 1000)


def single_bytes():
    """1,000 small writes in pieces of one byte, in turns: each byte may pin the buffer in which it arrived."""
    connections = osd_connections(1000)
    send_all(connections, request(WRITE_FULL, SMALL, EPOCH))
    for _ in range(200):
        for connection in connections:
            send(connection, b'x')
    return connections


def too_large():
    """Writes over the bound: two whole ones, which are refused on a connection that goes on, and 8 that stop midway."""
    connections, osd = osd_connections(8), Osd(ADDRESS)
    for tid in (1, 3):
        osd.send(WRITE_FULL, TOO_LARGE, EPOCH, tid)
        result = osd.result()
        assert result == -EMSGSIZE, f'a write of {TOO_LARGE} bytes returns {result}'
        osd.send(READ, 1, EPOCH, tid + 1)
        assert osd.result() >= 0, 'a read after it fails'
    data, sent = request(WRITE_FULL, TOO_LARGE, EPOCH) + bytes([1]) * LARGEST, [0] * len(connections)
    start = time.monotonic()
    while min(sent) < len(data):
        for at, connection in enumerate(connections):
            sent[at] += send(connection, memoryview(data)[sent[at]:])
        assert time.monotonic() - start < 30, f'the OSD has accepted {sent} bytes'
    return connections


def osd_replies():
    """100 connections, each with 50 reads of 4 MiB whose replies are not read."""
    connections = osd_connections(100)
    heads = [request(READ, TRANSFER, EPOCH, tid) for tid in range(1, 51)]
    send_all(connections, b''.join(head + footer(head) for head in heads))
    return connections


def osd_idle():
    """More idle connections than a cluster accepts with 20,000 descriptors (docs/design/admission.md)."""
    return osd_connections(11000)


def notified():
    """1,000 watches of a connection that reads nothing, and notifications of 512 KiB that last as long as they may."""
    osd_connections(2)
    watcher, notifier = Osd(ADDRESS), Osd(ADDRESS)
    for cookie in range(1, 1001):
        watcher.send(WATCH, 0, EPOCH, cookie, cookie)
        assert watcher.result() == 0, f'watch {cookie} is refused'
    payload = struct.pack('<3I', 1, (1 << 32) - 1, MIB // 2) + bytes(MIB // 2)
    results = []
    for tid in range(1, 201):
        notifier.send(NOTIFY, len(payload), EPOCH, tid, tid, payload)
        results.append(notifier.result())
    assert results[0] == 0 and results[-1] == -EBUSY, f'notifications return {results}'
    return watcher, notifier


held = globals()[sys.argv[1]]()
print('holding', flush=True)
time.sleep(3600)
