"""Sends broken bytes again and again to a server of messenger v2. The same seed sends the same bytes.

Arguments: seed, address, port. Fails only if the server accepts no connection."""
import random
import socket
import struct
import sys
from wire import crc32c

# msgr2.rst, "Banner": the text, the length of the rest, supported and required features.
BANNER = b'ceph v2\n' + struct.pack('<H2Q', 16, 3, 0)
NUMBERS = random.Random(int(sys.argv[1]))


def preamble(tag, segments):
    """msgr2.rst, "Frame format" of revision 1: tag, segments with length and alignment, flags, checksum."""
    data = bytes([tag, len(segments)])
    for length in (segments + [0] * 4)[:4]:
        data += struct.pack('<IH', length, 8 << NUMBERS.randrange(4))
    data += bytes(2)
    return data + struct.pack('<I', crc32c(0, data))


def frame(tag):
    """Returns a frame of one segment with random content and valid checksums."""
    content = NUMBERS.randbytes(NUMBERS.randrange(200))
    checksum = struct.pack('<I', crc32c(0xffffffff, content)) if content else b''
    return preamble(tag, [len(content)]) + content + checksum


def frames():
    return b''.join(frame(NUMBERS.randrange(32)) for _ in range(NUMBERS.randint(1, 8)))


def truncated(data):
    return data[:NUMBERS.randrange(len(data))]


KINDS = [
    lambda rest: rest,
    lambda rest: truncated(BANNER),
    # A banner with a length that is too large, and that of version 1.
    lambda rest: b'ceph v2\n\xff\xff' + rest,
    lambda rest: b'ceph v027' + rest,
    lambda rest: BANNER + rest,
    # A valid preamble with the longest segments.
    lambda rest: BANNER + preamble(NUMBERS.randrange(32), [0xffffffff] * 4) + rest,
    # Complete frames with random content, and a truncated one.
    lambda rest: BANNER + frames(),
    lambda rest: truncated(BANNER + frame(NUMBERS.randint(1, 20))),
]


def connect():
    connection = socket.create_connection((sys.argv[2], int(sys.argv[3])))
    connection.settimeout(1)
    return connection


# These stay silent until the end.
silent = [connect() for _ in range(8)]
for turn in range(200):
    connection = connect()
    try:
        # The server may close the connection before it has read everything.
        connection.sendall(NUMBERS.choice(KINDS)(NUMBERS.randbytes(NUMBERS.randrange(20000))))
        connection.settimeout(0.02)
        while turn % 2 and connection.recv(4096):
            pass
    except OSError:
        pass
