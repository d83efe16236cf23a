# Runs from a root file system on the machine's disk. PART is `first`, or `again` with what an earlier guest has written.

kept=/sums

load() { # load NAME OPTIONS...: fio writes files from both processors and reads back what it wrote
    device= verify "$@" --directory=/load --numjobs=2
}

first() {
    step='a new file system' && gone $kept &&
    step=fill && fill && cp $sums $kept &&
    step='read again' && unchanged &&
    step=load && mkdir -p /load &&
    load small --size=6m --rw=randwrite --bs=4k && load large --size=12m --rw=randwrite --bs=256k &&
    step='delete and trim' && rm /load/* && sync && fstrim / &&
    step='read at last' && unchanged
}

again() {
    step='files of the earlier guest' && sums=$kept && unchanged
}

around() {
    step=root && grep -q '^/dev/vda / ext4 rw' /proc/mounts &&
    step=queues && [ "$(ls /sys/block/vda/mq | wc -l)" = 2 ] &&
    $PART &&
    step=end && sync && mount -o remount,ro /
}

run around
