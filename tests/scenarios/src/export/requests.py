# Run by libnbd's Python bindings: requests that its programs never make, each with its expected reply.
import errno
import nbd
import sys

uri, size = sys.argv[1], int(sys.argv[2])


def connect(structured=True, context=True):
    h = nbd.NBD()
    h.set_request_structured_replies(structured)
    if context:
        h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    h.connect_uri(uri)
    # The server must refuse invalid requests, not the library.
    h.set_strict_mode(0)
    return h


def refused(expected, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == expected, (error.errnum, expected, str(error))
        return
    raise AssertionError("was not refused")


for structured in (True, False):
    h = connect(structured)
    refused(errno.EINVAL, lambda: h.pread(512, size))
    refused(errno.EINVAL, lambda: h.pread(512, size - 1))
    refused(errno.ENOSPC, lambda: h.pwrite(b"x" * 512, size))
    refused(errno.ENOSPC, lambda: h.zero(512, size))
    refused(errno.EINVAL, lambda: h.trim(512, size))
    # The connection survives each of them.
    h.pwrite(b"a" * 1000, 100, nbd.CMD_FLAG_FUA)
    assert h.pread(1000, 100) == b"a" * 1000
    h.zero(500, 100, nbd.CMD_FLAG_NO_HOLE)
    assert h.pread(1000, 100) == b"\0" * 500 + b"a" * 500
    h.flush()
    h.trim(4096, 0)
    h.shutdown()

# Unaligned requests, many in flight, with replies in any order.
h = connect()
cookies = {}
for n in range(64):
    cookies[n] = (h.aio_pread(nbd.Buffer(1 + n * 37), n * 4099), 1 + n * 37)
while h.aio_in_flight() > 0:
    h.poll(-1)
for cookie, _ in cookies.values():
    assert h.aio_command_completed(cookie)

extents = []
h.block_status(min(size, 1 << 20), 0, lambda context, offset, found, error: extents.extend(found))
assert sum(extents[::2]) > 0, extents
h.shutdown()

# Unknown names, and one option at a time.
h = nbd.NBD()
h.set_opt_mode(True)
h.connect_uri(uri)
names = []
h.opt_list(lambda name, description: names.append(name) and 0 or 0)
assert len(names) == 2, names
h.set_export_name("no such export")
refused(errno.ENOENT, h.opt_info)
refused(errno.ENOENT, h.opt_go)
h.set_export_name(names[0])
h.opt_info()
assert h.get_size() > 0
h.opt_abort()
print("all as it must be")
