#!/bin/busybox sh
# First program of a guest whose root file system is on its disk: loads the modules for it and continues there.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
# Names of modules start with their place in the order of loading.
for module in /modules/*; do insmod "$module" || echo "guest: cannot load $module"; done
until [ -b /dev/vda ]; do sleep 0.1; done
mount -t ext4 -o discard /dev/vda /mnt || { echo 'guest: no root file system'; poweroff -f; }
exec switch_root /mnt /init
