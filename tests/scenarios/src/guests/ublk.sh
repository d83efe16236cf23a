# Maps memory and the images rbd/ublk and rbd/other as ublk devices.

sys=/sys/block/ublkb0

memory() {
    step=map && device=$(onego map mem:64M) && [ "$device" = /dev/ublkb0 ] && [ -b "$device" ] &&
    step=write && dd if=/dev/urandom of=/tmp/random bs=1M count=8 2> /dev/null &&
    dd if=/tmp/random of="$device" bs=1M oflag=direct 2> /dev/null &&
    step=read && dd if="$device" bs=1M count=8 iflag=direct 2> /dev/null | cmp - /tmp/random &&
    step=fio && verify memory --rw=randrw --bssplit=512/30:4k/40:1m/30 --size=16m &&
    step='read only' && other=$(onego map mem:1M --read-only --depth 1) && reads /sys/block/ublkb1/ro 1 &&
    ! dd if=/dev/zero of="$other" bs=4k count=1 2> /dev/null &&
    step='unmap read only' && onego unmap "$other" &&
    step=unmap && onego unmap "$device" && gone "$device" /run/onego/ublkb0.json
}

image() {
    step=map && device=$(onego map rbd:ublk) &&
    step='map twice' && fails 5 already onego map rbd:rbd/ublk &&
    step=geometry && reads $sys/queue/optimal_io_size 4194304 && reads $sys/queue/chunk_sectors 8192 &&
    reads $sys/queue/discard_granularity 65536 && reads $sys/queue/write_zeroes_max_bytes 33554432 &&
    step=mkfs && /host/mke2fs -q -F -t ext4 "$device" &&
    step=mount && mount -t ext4 "$device" /mnt &&
    step=write && fill &&
    step='unmap while mounted' && fails 5 'in use' onego unmap "$device" &&
    step=umount && umount /mnt &&
    step=show && onego showmapped | grep -q '^0  *rbd  *ublk  *-  */dev/ublkb0  *served$' &&
    onego showmapped --format json > /tmp/list &&
    reads /tmp/list '[{"id":"0","pool":"rbd","namespace":"","name":"ublk","snap":"-","device":"/dev/ublkb0"}]' &&
    # This kernel is too old for another size, and the log says so.
    step=resize && onego rbd resize rbd/ublk --size 160M --no-progress &&
    eventually grep -q 'ublkb0 keeps its size.*Linux 6.16' /run/onego/ublkb0.log &&
    onego rbd resize rbd/ublk --size 128M --allow-shrink --no-progress &&
    step='unmap by source' && onego unmap rbd:ublk && gone "$device" &&
    # Another device: what it reads comes from the cluster.
    step='map again' && device=$(onego map rbd:ublk) &&
    step='mount again' && mount -t ext4 -o ro "$device" /mnt &&
    step='read again' && unchanged &&
    step='umount again' && umount /mnt &&
    step='fio, small blocks' && verify small --rw=randwrite --bs=4k --size=4m &&
    step='unmap for more queues' && onego unmap "$device" && device=$(onego map rbd:ublk --queues 8 --depth 32) &&
    step='fio, large blocks' && verify large --rw=randrw --bs=256k --size=16m &&
    step=discard && blkdiscard "$device" && cmp -n 134217728 "$device" /dev/zero &&
    step='unmap again' && onego unmap "$device"
}

server() { # process that serves the device
    sed -n 's/.*"pid":\([0-9]*\).*/\1/p' "/run/onego/${device#/dev/}.json"
}

crash() { # the process is killed under load, and another takes the device over
    step=map && device=$(onego map rbd:ublk) &&
    step=load && { verify crash --rw=randrw --bs=16k --size=16m --time_based --runtime=8 & } && load=$! && sleep 2 &&
    step=kill && kill -9 "$(server)" && sleep 1 &&
    step=show && onego showmapped | grep -q 'waiting$' &&
    step='unmap while it waits' && fails 5 'nobody who serves it' onego unmap rbd:ublk &&
    step=recover && [ "$(onego map rbd:ublk)" = "$device" ] &&
    step='load goes on' && wait $load &&
    step=end && kill "$(server)" && eventually gone "$device" /run/onego/ublkb0.json
}

restart() { # the process ends in order while the device is in use, and another takes over
    step=map && device=$(onego map rbd:ublk --queues 2) &&
    step=queues && [ "$(ls $sys/mq | wc -l)" = 2 ] &&
    step=mkfs && /host/mke2fs -q -F -t ext4 "$device" && mount -t ext4 "$device" /mnt &&
    step=write && fill &&
    step=terminate && old=$(server) && kill "$old" && eventually gone "/proc/$old" &&
    grep -q 'waits until rbd:rbd/ublk is mapped again' /run/onego/ublkb0.log &&
    step='write while it waits' && { dd if=/dev/urandom of=/mnt/late bs=64k count=4 conv=fsync 2> /dev/null & } &&
    writer=$! && sleep 1 && kill -0 $writer &&
    step='recover all' && [ "$(onego map --recover)" = "$device" ] && [ "$(server)" != "$old" ] &&
    step='writer goes on' && wait $writer &&
    step='read again' && unchanged &&
    step=force && onego unmap "$device" --force && eventually gone "$device" /run/onego/ublkb0.json &&
    ! dd if=/dev/zero of=/mnt/after bs=64k count=1 conv=fsync 2> /dev/null &&
    step=umount && umount /mnt
}

elsewhere() { # on the other cluster
    /host/onego --mon-host "$SERVER:3301" "$@"
}

namesake() { # an image of the same name on another cluster is another device
    step='map both' && device=$(onego map rbd:ublk) && other=$(elsewhere map rbd:ublk) && [ "$other" != "$device" ] &&
    step='size of the other' && reads "/sys/block/${other#/dev/}/size" 65536 &&
    step='kill ours' && kill -9 "$(server)" && sleep 1 &&
    step='map the other again' && fails 5 already elsewhere map rbd:ublk &&
    step='unmap the other' && elsewhere unmap rbd:ublk && gone "$other" && [ -b "$device" ] &&
    step='ours waits' && fails 3 'no device' elsewhere unmap rbd:ublk && onego showmapped | grep -q 'waiting$' &&
    step='recover ours' && [ "$(onego map --recover)" = "$device" ] &&
    step='unmap ours' && onego unmap rbd:ublk && gone "$device"
}

list() {
    printf '%s\n' '# images' "rbd/ublk id=admin,options='ro'" rbd/other > /tmp/rbdmap &&
    step='map all' && onego map --all --rbdmap /tmp/rbdmap > /tmp/devices && [ "$(wc -l < /tmp/devices)" = 2 ] &&
    step=again && onego map --all --rbdmap /tmp/rbdmap | cmp - /tmp/devices &&
    step='again by pool' && printf '%s\n' ublk other > /tmp/names &&
    onego map --all --rbdmap /tmp/names --pool rbd | cmp - /tmp/devices &&
    step='read only' && reads $sys/ro 1 && reads /sys/block/ublkb1/ro 0 &&
    step='an image that is missing' && echo rbd/nosuch >> /tmp/rbdmap &&
    fails 5 '1 of 3' onego map --all --rbdmap /tmp/rbdmap && grep -q nosuch /tmp/said &&
    step='unmap all' && onego unmap --all && [ -z "$(onego showmapped)" ] &&
    [ "$(onego showmapped --format json)" = '[]' ] && eventually gone /dev/ublkb0 /dev/ublkb1
}

run memory
run image
run crash
run restart
run namesake
run list
