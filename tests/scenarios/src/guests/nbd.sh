# The kernel's NBD client on the image rbd/nbd: connected to a server on the host, and by `onego map`.

device=/dev/nbd0
sys=/sys/block/nbd0

server() { # process that serves the mapped device
    sed -n 's/.*"pid":\([0-9]*\).*/\1/p' /run/onego/nbd0.json
}

connect() { # connect OPTIONS...
    /host/nbd-client 10.0.2.2 10809 $device -N rbd/nbd "$@" > /tmp/said 2>&1 || { cat /tmp/said; return 1; }
}

disconnect() {
    /host/nbd-client -d $device > /dev/null && eventually reads $sys/size 0
}

client() {
    step=connect && connect -C 2 &&
    step=size && reads $sys/size 262144 &&
    step=queues && [ "$(ls $sys/mq | wc -l)" = 2 ] &&
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
    step='read again' && unchanged &&
    step='umount again' && umount /mnt &&
    step='disconnect again' && disconnect
}

without_ublk() { # an error names the module that is missing
    step=unload && rmmod ublk_drv &&
    step='map without the module' && fails 1 'modprobe ublk_drv' onego map rbd:nbd &&
    step=load && insmod /modules/*-ublk_drv.ko
}

mapped() { # what the client has left in the image is there
    step=map && [ "$(onego map rbd:nbd --type nbd)" = $device ] &&
    step='map size' && reads $sys/size 262144 &&
    step='map twice' && fails 5 already onego map rbd:rbd/nbd --type nbd &&
    step='several queues' && fails 2 'one queue' onego map null:64M --type nbd --queues 2 &&
    step='map mount' && mount -t ext4 $device /mnt &&
    step='map read' && unchanged &&
    step='unmap while mounted' && fails 5 'in use' onego unmap $device &&
    step='map umount' && umount /mnt &&
    step=show && onego showmapped | grep -q '^0  *rbd  *nbd  *-  */dev/nbd0  *served$' &&
    step=memory && [ "$(onego map mem:16M --type nbd --read-only)" = /dev/nbd1 ] && reads /sys/block/nbd1/ro 1 &&
    step='unmap memory' && onego unmap /dev/nbd1 && reads /sys/block/nbd1/size 0 &&
    step=resize && onego rbd resize rbd/nbd --size 160M --no-progress && eventually reads $sys/size 327680 &&
    step='write past the old end' && dd if=$sums of=$device bs=512 seek=262144 count=1 conv=fsync 2> /dev/null &&
    step='unmap by source' && onego unmap rbd:nbd && reads $sys/size 0 && gone /run/onego/nbd0.json
}

crash() { # the process is killed under load, and another takes the device over
    step=list && echo rbd/nbd > /tmp/rbdmap && [ "$(onego map --all --type nbd --rbdmap /tmp/rbdmap)" = $device ] &&
    step=load && { verify crash --rw=randrw --bs=16k --size=16m --time_based --runtime=5 & } && load=$! && sleep 2 &&
    step=kill && kill -9 "$(server)" && sleep 1 &&
    step=show && onego showmapped | grep -q 'waiting$' &&
    step='unmap while it waits' && fails 5 'nobody who serves it' onego unmap rbd:nbd &&
    step=recover && [ "$(onego map --recover)" = $device ] &&
    step='load goes on' && wait $load &&
    step='small blocks again' && verify small --rw=randrw --bs=4k --size=4m &&
    step=end && kill "$(server)" && eventually reads $sys/size 0 &&
    step='unmap what waits' && [ "$(onego map rbd:nbd --type nbd)" = $device ] && kill -9 "$(server)" && sleep 1 &&
    onego unmap --force --all && reads $sys/size 0 && [ -z "$(onego showmapped)" ]
}

run client
run without_ublk
run mapped
run crash
