# Uses the machine's disk, which the host grows, and whose server the host kills under load.

device=/dev/vda
size=/sys/block/vda/size

use() {
    step=size && reads $size 524288 &&
    step=serial && reads /sys/block/vda/serial rbd/disk &&
    step=queues && [ "$(ls /sys/block/vda/mq | wc -l)" = 2 ] &&
    step=mkfs && /host/mke2fs -q -F -t ext4 $device 200M &&
    step=mount && mount -t ext4 -o discard $device /mnt &&
    step=fill && fill &&
    step=umount && umount /mnt &&
    step='mount again' && mount -t ext4 -o discard $device /mnt &&
    step='read again' && unchanged &&
    step=grow && echo 'waits: to grow' && eventually reads $size 614400
}

load() { # until the host has killed enough servers and grows the disk again
    echo 'begins: load'
    until reads $size 622592; do
        step='small blocks' && verify small --offset=210m --size=24m --rw=randwrite --bs=4k &&
        step='large blocks' && verify large --offset=240m --size=48m --rw=randwrite --bs=256k || return
    done
}

last() {
    step='delete and trim' && rm -r /mnt/one && sync && fstrim /mnt &&
    step=umount && umount /mnt && mount -t ext4 -o ro $device /mnt &&
    step=read && (cd /mnt && grep two/three $sums | sha256sum -c -s) &&
    step='umount again' && umount /mnt
}

run use
run load
run last
