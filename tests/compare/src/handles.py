# Opens images with a handle each, as a machine with that many disks does, and prints threads and memory of the process.
import sys, rados, rbd

def connected():
    cluster = rados.Rados(conffile='ceph.conf', rados_id='admin')
    cluster.connect()
    return cluster, cluster.open_ioctx('rbd')

action, count = sys.argv[1], int(sys.argv[2])
if action == 'make':
    _, ioctx = connected()
    for number in range(count):
        rbd.RBD().create(ioctx, f'disk{number}', 4 << 20, old_format=False, features=1)
    sys.exit()
images = []
for number in range(count):
    cluster, ioctx = connected()
    image = rbd.Image(ioctx, f'disk{number}')
    image.read(0, 4096)
    images.append((cluster, ioctx, image))
with open('/proc/self/status') as file:
    status = dict(line.split(':', 1) for line in file)
print(status['Threads'].strip(), status['VmRSS'].split()[0])
