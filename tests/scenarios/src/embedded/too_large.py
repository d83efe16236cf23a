# Writes more to an object by one request than an OSD takes, says what librados makes of it, and goes on by the same
# connection. A request that is sent for ever ends by the timeout.

import errno
import rados

LARGE = 300 << 20

with rados.Rados(conffile="ceph.conf", conf={"rados_osd_op_timeout": "60"}) as cluster:
    with cluster.open_ioctx("things") as things:
        things.write_full("small", b"before")
        try:
            things.write_full("large", bytes(LARGE))
            print("large: written")
        except rados.Error as error:
            print("large:", errno.errorcode.get(error.errno, error.errno))
        # A part at an offset is another operation.
        try:
            things.write("large", bytes(LARGE), 4096)
            print("part: written")
        except rados.Error as error:
            print("part:", errno.errorcode.get(error.errno, error.errno))
        assert things.read("small") == b"before"
        things.write_full("small", b"after")
        print("small:", things.read("small").decode())
        print("objects:", " ".join(sorted(found.key for found in things.list_objects())))
        things.remove_object("small")
