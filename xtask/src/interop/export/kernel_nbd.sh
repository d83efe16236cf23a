# Connects the kernel's block device to a server of NBD on the host, and works on it.

device=/dev/nbd0

connect() { # connect OPTIONS...
    /host/nbd-client 10.0.2.2 10809 $device -N rbd/disk "$@" > /tmp/said 2>&1 || { cat /tmp/said; return 1; }
}

disconnect() {
    /host/nbd-client -d $device > /dev/null && until [ "$(cat /sys/block/nbd0/size)" = 0 ]; do sleep 0.1; done
}

verify() { # verify NAME OPTIONS...: fio writes to the device and reads back what it wrote
    name=$1
    shift
    /host/fio --name="$name" --filename=$device --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c \
        --verify_fatal=1 --thread "$@" > /tmp/fio 2>&1 || { cat /tmp/fio; return 1; }
}

step=connect && connect -C 2 &&
step=size && [ "$(cat /sys/block/nbd0/size)" = 262144 ] &&
step=queues && [ "$(ls /sys/block/nbd0/mq | wc -l)" = 2 ] &&
step='small blocks' && verify small --rw=randrw --bs=4k --size=6m &&
step='large blocks' && verify large --rw=randwrite --bs=256k --size=24m &&
step=discard && blkdiscard $device && cmp -n 134217728 $device /dev/zero &&
step=mkfs && /host/mke2fs -q -F -t ext4 $device &&
step=mount && mount -t ext4 -o discard $device /mnt &&
step=fill && fill &&
step=umount && umount /mnt &&
step=disconnect && disconnect &&
step='connect again' && connect &&
step='mount again' && mount -t ext4 -o ro $device /mnt &&
step='read again' && (cd /mnt && sha256sum -c -s $sums) &&
step='umount again' && umount /mnt &&
step='disconnect again' && disconnect &&
echo 'works: all' && exit 0

echo "fails at: $step"
dmesg | tail -n 20
exit 1
