#!/bin/busybox sh
# First program of a guest: sets the machine up, runs the checks that the console names, and powers off.
# On a disk, the links of an earlier start exist.
/bin/busybox --install -s /bin 2> /dev/null
export PATH=/bin LD_LIBRARY_PATH=/lib/x86_64-linux-gnu
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
# Names of modules start with their place in the order of loading.
[ ! -d /modules ] || for module in /modules/*; do insmod "$module" || echo "guest: cannot load $module"; done
# Addresses of QEMU's user-mode network.
ip link set lo up
ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
stty -echo
echo 'guest: ready'
while read -r check && [ "$check" != off ]; do
    # A check that hangs shows what the kernel waits for. (The kernel passes words it does not know as variables.)
    (sleep "$LATE"; dmesg -n 8; echo w > /proc/sysrq-trigger) &
    watch=$!
    sh "/checks/$check" < /dev/null
    echo "guest: exit $?"
    kill $watch 2> /dev/null
done
poweroff -f
