# Uses the machine's disk: a file system, a larger size, and a load during which the disk's server is killed.

disk=/dev/vda

verify() { # verify NAME OPTIONS...: fio writes and reads back what it wrote
    name=$1
    shift
    /host/fio --name="$name" --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c --verify_fatal=1 --thread "$@" \
        > /tmp/fio 2>&1 || { cat /tmp/fio; return 1; }
}

size() {
    cat /sys/block/vda/size
}

grows() { # within a minute
    echo 'waits: to grow'
    for _ in $(seq 60); do
        [ "$(size)" = 614400 ] && return
        sleep 1
    done
    return 1
}

step=size && [ "$(size)" = 524288 ] &&
step=serial && [ "$(cat /sys/block/vda/serial)" = rbd/disk ] &&
step=queues && [ "$(ls /sys/block/vda/mq | wc -l)" = 2 ] &&
step=mkfs && /host/mke2fs -q -F -t ext4 $disk 200M &&
step=mount && mount -t ext4 -o discard $disk /mnt &&
step=fill && fill &&
step=umount && umount /mnt &&
step='mount again' && echo 3 > /proc/sys/vm/drop_caches && mount -t ext4 -o discard $disk /mnt &&
step='read again' && (cd /mnt && sha256sum -c -s $sums) &&
step=grow && grows &&
step=load && echo 'begins: load' &&
verify small --filename=$disk --offset=210m --size=24m --rw=randwrite --bs=4k --loops=6 &&
verify large --filename=$disk --offset=240m --size=48m --rw=randwrite --bs=256k &&
step='delete and trim' && echo 'ends: load' && rm -r /mnt/one && sync && fstrim /mnt &&
step='umount at last' && umount /mnt && mount -t ext4 -o ro $disk /mnt &&
step='read at last' && (cd /mnt && grep two/three $sums | sha256sum -c -s) &&
step='umount last' && umount /mnt &&
echo 'works: all' && exit 0

echo "fails at: $step"
dmesg | tail -n 20
exit 1
