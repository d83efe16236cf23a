# Connects the kernel's block device to a server of NBD on the host, and to one that `onego map` starts, and works on it.
# MONITOR is the monitor's address, ONEGO the program.

device=/dev/nbd0

onego() {
    $ONEGO --mon-host "$MONITOR" "$@"
}

fails() { # fails CODE WORDS COMMAND...: a command that ends with that code and says these words
    code=$1
    words=$2
    shift 2
    "$@" > /tmp/said 2>&1
    got=$?
    [ $got = "$code" ] && grep -q "$words" /tmp/said || { echo "$* ended with $got and said:"; cat /tmp/said; return 1; }
}

server() { # the process that serves the mapped device
    sed -n 's/.*"pid":\([0-9]*\).*/\1/p' /run/onego/nbd0.json
}

connect() { # connect OPTIONS...
    /host/nbd-client 10.0.2.2 10809 $device -N rbd/disk "$@" > /tmp/said 2>&1 || { cat /tmp/said; return 1; }
}

disconnect() {
    /host/nbd-client -d $device > /dev/null && until [ "$(cat /sys/block/nbd0/size)" = 0 ]; do sleep 0.1; done
}

client() {
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
    step='disconnect again' && disconnect
}

mapped() { # what the client has left in the image is there
    step=map && [ "$(onego map rbd:disk --type nbd)" = $device ] &&
    step='map size' && [ "$(cat /sys/block/nbd0/size)" = 262144 ] &&
    step='map twice' && fails 5 already onego map rbd:rbd/disk --type nbd &&
    step='map by another driver' && fails 1 'modprobe ublk_drv' onego map rbd:disk &&
    step='several queues' && fails 2 'one queue' onego map null:64M --type nbd --queues 2 &&
    step='map mount' && mount -t ext4 $device /mnt &&
    step='map read' && (cd /mnt && sha256sum -c -s $sums) &&
    step='unmap while mounted' && fails 5 'in use' onego unmap $device &&
    step='map umount' && umount /mnt &&
    step=show && onego showmapped | grep -q '^0  *rbd  *disk  *-  */dev/nbd0  *served$' &&
    step='memory' && [ "$(onego map mem:16M --type nbd --read-only)" = /dev/nbd1 ] && [ "$(cat /sys/block/nbd1/ro)" = 1 ] &&
    step='unmap memory' && onego unmap /dev/nbd1 && [ "$(cat /sys/block/nbd1/size)" = 0 ] &&
    step=resize && onego rbd resize rbd/disk --size 160M --no-progress &&
    until [ "$(cat /sys/block/nbd0/size)" = 327680 ]; do sleep 0.1; done &&
    step='write behind the old end' && dd if=$sums of=$device bs=512 seek=262144 count=1 conv=fsync 2>/dev/null &&
    step='unmap by source' && onego unmap rbd:disk && [ "$(cat /sys/block/nbd0/size)" = 0 ] &&
    [ ! -e /run/onego/nbd0.json ]
}

crash() { # the process is killed under load, and another takes the device over
    step='list' && echo 'rbd/disk' > /tmp/rbdmap && [ "$(onego map --all --type nbd --rbdmap /tmp/rbdmap)" = $device ] &&
    step=load && { verify crash --rw=randrw --bs=16k --size=16m --time_based --runtime=5 & } && load=$! && sleep 2 &&
    step='kill' && kill -9 "$(server)" && sleep 1 &&
    step='show' && onego showmapped | grep -q 'waiting$' &&
    step='unmap while it waits' && fails 5 'nobody who serves it' onego unmap rbd:disk &&
    step='recover' && [ "$(onego map --recover)" = $device ] &&
    step='load goes on' && wait $load &&
    step='small blocks again' && verify small --rw=randrw --bs=4k --size=4m &&
    step='end' && kill "$(server)" && until [ "$(cat /sys/block/nbd0/size)" = 0 ]; do sleep 0.1; done &&
    step='unmap what waits' && [ "$(onego map rbd:disk --type nbd)" = $device ] && kill -9 "$(server)" && sleep 1 &&
    onego unmap --force --all && [ "$(cat /sys/block/nbd0/size)" = 0 ] && [ -z "$(onego showmapped)" ]
}

for part in client mapped crash; do
    step=start
    if $part; then
        echo "works: $part"
    else
        echo "fails: $part, at: $step"
        cat /run/onego/*.log
        dmesg | tail -n 20
        exit 1
    fi
done
