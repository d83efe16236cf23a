#!/bin/busybox sh
# The first program of a guest whose files are on its disk: loads what the disk takes, and goes on from there.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
# Their names begin with their places in the order in which they depend on each other.
for module in /modules/*; do insmod "$module" || echo "guest: no module $module"; done
until [ -b /dev/vda ]; do sleep 0.1; done
mount -t ext4 -o discard /dev/vda /mnt || { echo 'guest-exit: no root'; poweroff -f; }
exec switch_root /mnt /init
