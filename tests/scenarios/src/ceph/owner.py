# Owns an image's exclusive lock, and keeps it when others ask for it, until SIGTERM.
import rados
import rbd
import signal
import sys

signal.signal(signal.SIGTERM, lambda *_: sys.exit())
with rados.Rados(conffile="ceph.conf") as cluster, cluster.open_ioctx("rbd") as pool:
    with rbd.Image(pool, sys.argv[1]) as image:
        image.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
        print("locked", flush=True)
        while True:
            signal.pause()
