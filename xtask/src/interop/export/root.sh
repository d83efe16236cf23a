# Runs from a root file system on the machine's disk, which has what an earlier guest has written, or not yet.

kept=/sums

verify() { # verify NAME OPTIONS...: fio writes files and reads back what it wrote, from both processors
    name=$1
    shift
    /host/fio --name="$name" --directory=/load --direct=1 --ioengine=libaio --iodepth=16 --numjobs=2 \
        --verify=crc32c --verify_fatal=1 --thread "$@" > /tmp/fio 2>&1 || { cat /tmp/fio; return 1; }
}

first() {
    step=fill && fill && cp $sums $kept &&
    step='read again' && sync && echo 3 > /proc/sys/vm/drop_caches && (cd /mnt && sha256sum -c -s $kept) &&
    step=load && mkdir -p /load &&
    verify small --size=6m --rw=randwrite --bs=4k && verify large --size=12m --rw=randwrite --bs=256k &&
    step='delete and trim' && rm /load/* && sync && fstrim / &&
    step='read at last' && echo 3 > /proc/sys/vm/drop_caches && (cd /mnt && sha256sum -c -s $kept)
}

again() {
    step='what is kept' && (cd /mnt && sha256sum -c -s $kept)
}

part=first
[ ! -e $kept ] || part=again
step='root' && grep -q '^/dev/vda / ext4 rw' /proc/mounts &&
step=queues && [ "$(ls /sys/block/vda/mq | wc -l)" = 2 ] &&
$part &&
step='end' && sync && mount -o remount,ro / &&
echo "works: $part" && exit 0

echo "fails: $part, at: $step"
dmesg | tail -n 20
exit 1
