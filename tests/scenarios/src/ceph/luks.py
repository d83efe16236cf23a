"""What Ceph's library, or a client of NBD, does with an encrypted image.

luks.py TARGET format FORMAT CIPHER PASSPHRASE
luks.py TARGET fill SEED [FORMAT:PASSPHRASE...]    all of the data, in large pieces
luks.py TARGET tail SEED [FORMAT:PASSPHRASE...]    the same behind the first 8 MiB
luks.py TARGET work SEED [FORMAT:PASSPHRASE...]    small writes that begin and end anywhere
luks.py TARGET damage -                            the headers, where there are two, of the image as it lies there
luks.py TARGET read FILE [FORMAT:PASSPHRASE...]    all of the data

A target is rbd:IMAGE, or a URI of NBD. Passphrases are for Ceph's library alone.
"""
import random
import sys

MIB = 1 << 20


class Image:
    """An image, by Ceph's library."""

    def __init__(self, name, specs):
        import rados
        import rbd

        self.rbd = rbd
        self.cluster = rados.Rados(conffile="ceph.conf")
        self.cluster.connect()
        self.ioctx = self.cluster.open_ioctx("rbd")
        self.image = rbd.Image(self.ioctx, name)
        # The number of either format is new in 17.
        formats = {"luks1": rbd.RBD_ENCRYPTION_FORMAT_LUKS1, "luks2": rbd.RBD_ENCRYPTION_FORMAT_LUKS2}
        formats["luks"] = getattr(rbd, "RBD_ENCRYPTION_FORMAT_LUKS", None)
        specs = [spec.split(":", 1) for spec in specs]
        # The bindings keep no reference to what they encode themselves.
        specs = [(formats[form], passphrase.encode()) for form, passphrase in specs]
        if len(specs) == 1:
            self.image.encryption_load(*specs[0])
        elif specs:
            self.image.encryption_load2(specs)

    def size(self):
        return self.image.size()

    def write(self, at, data):
        self.image.write(data, at)

    def zero(self, at, length):
        self.image.discard(at, length)

    def read(self, at, length):
        return self.image.read(at, length)

    def close(self):
        self.image.flush()
        self.image.close()
        self.ioctx.close()
        self.cluster.shutdown()


class Export:
    """An export of a server of NBD."""

    def __init__(self, uri):
        import nbd

        self.nbd = nbd.NBD()
        self.nbd.connect_uri(uri)

    def size(self):
        return self.nbd.get_size()

    def write(self, at, data):
        self.nbd.pwrite(data, at)

    def zero(self, at, length):
        self.nbd.zero(length, at)

    def read(self, at, length):
        return bytes(self.nbd.pread(length, at))

    def close(self):
        self.nbd.flush()
        self.nbd.shutdown()


def main():
    name, action, what, *specs = sys.argv[1:]
    if action == "format":
        cipher, passphrase = specs
        image = Image(name[4:], [])
        algorithms = {
            "aes-128": image.rbd.RBD_ENCRYPTION_ALGORITHM_AES128,
            "aes-256": image.rbd.RBD_ENCRYPTION_ALGORITHM_AES256,
        }
        formats = {
            "luks1": image.rbd.RBD_ENCRYPTION_FORMAT_LUKS1,
            "luks2": image.rbd.RBD_ENCRYPTION_FORMAT_LUKS2,
        }
        image.image.encryption_format(formats[what], passphrase, algorithms[cipher])
        image.close()
        return
    target = Image(name[4:], specs) if name.startswith("rbd:") else Export(name)
    size = target.size()
    if action in ("fill", "tail"):
        seeded = random.Random(int(what))
        for at in range(0 if action == "fill" else 8 * MIB, size, MIB):
            target.write(at, seeded.randbytes(min(MIB, size - at)))
    elif action == "work":
        seeded = random.Random(int(what))
        for _ in range(60):
            length = seeded.choice([1, 100, 512, 4096, 10000, 300000])
            at = seeded.randrange(size - length)
            if seeded.randrange(5) == 0:
                target.zero(at, length)
            else:
                target.write(at, seeded.randbytes(length))
    elif action == "damage":
        for header in (0, 16 << 10):
            target.write(header + 4200, bytes(100))
    elif action == "read":
        with open(what, "wb") as out:
            for at in range(0, size, MIB):
                out.write(target.read(at, min(MIB, size - at)))
    target.close()
    print(size)


main()
