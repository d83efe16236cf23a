#!/bin/busybox sh
# The first program of a guest: brings up what is there, runs the script, says how it ended, and switches off.
# On a disk, the links of an earlier start are there.
/bin/busybox --install -s /bin 2> /dev/null
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
# Their names begin with their places in the order in which they depend on each other.
[ ! -d /modules ] || for module in /modules/*; do insmod "$module" || echo "guest: no module $module"; done
# The addresses of QEMU's user-mode network.
ip link set lo up
ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
# Whoever waits in vain for a script may read what the kernel waits for. (What is said on the kernel's command line and is not
# for the kernel is in the environment.)
(sleep "$LATE"; dmesg -n 8; echo w > /proc/sysrq-trigger) &
sh /script
echo "guest-exit: $?"
poweroff -f
