# Maps images and memory as block devices, and checks what they do.
# MONITOR is the monitor's address, ONEGO the program.

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

queue() { # queue NAME: what the kernel's block layer has been told
    cat "/sys/block/${device#/dev/}/queue/$1"
}

memory() {
    step=map && device=$(onego map mem:64M) && [ "$device" = /dev/ublkb0 ] && [ -b "$device" ] &&
    step=write && dd if=/dev/urandom of=/tmp/random bs=1M count=8 2>/dev/null &&
    dd if=/tmp/random of=$device bs=1M oflag=direct 2>/dev/null &&
    step=read && dd if=$device bs=1M count=8 iflag=direct 2>/dev/null | cmp - /tmp/random &&
    step=fio && verify memory --rw=randrw --bssplit=512/30:4k/40:1m/30 --size=16m &&
    step='read only' && other=$(onego map mem:1M --read-only --depth 1) && [ "$(cat /sys/block/ublkb1/ro)" = 1 ] &&
    ! dd if=/dev/zero of=$other bs=4k count=1 2>/dev/null &&
    step='unmap read only' && onego unmap "$other" &&
    step='unmap' && onego unmap $device && [ ! -e $device ] && [ ! -e /run/onego/ublkb0.json ]
}

image() {
    step=map && device=$(onego map rbd:disk) &&
    step='map twice' && fails 5 already onego map rbd:rbd/disk &&
    step=geometry && [ "$(queue optimal_io_size)" = 4194304 ] && [ "$(queue chunk_sectors)" = 8192 ] &&
    [ "$(queue discard_granularity)" = 65536 ] && [ "$(queue write_zeroes_max_bytes)" = 33554432 ] &&
    step=mkfs && /host/mke2fs -q -F -t ext4 "$device" &&
    step=mount && mount -t ext4 "$device" /mnt &&
    step=write && fill &&
    step='unmap while mounted' && fails 5 'in use' onego unmap "$device" &&
    step=umount && umount /mnt &&
    step=show && onego showmapped | grep -q '^0  *rbd  *disk  *-  */dev/ublkb0  *served$' &&
    onego showmapped --format json > /tmp/list &&
    grep -q '^\[{"id":"0","pool":"rbd","namespace":"","name":"disk","snap":"-","device":"/dev/ublkb0"}\]$' /tmp/list &&
    # This kernel is too old for it, which is said.
    step=resize && onego rbd resize rbd/disk --size 160M --no-progress &&
    until grep -q 'ublkb0 keeps its size.*Linux 6.16' /run/onego/ublkb0.log; do sleep 0.1; done &&
    onego rbd resize rbd/disk --size 128M --allow-shrink --no-progress &&
    step='unmap by source' && onego unmap rbd:disk && [ ! -e "$device" ] &&
    # Another device: what it reads comes from the cluster.
    step='map again' && device=$(onego map rbd:disk) &&
    step='mount again' && mount -t ext4 -o ro "$device" /mnt &&
    step='read again' && (cd /mnt && sha256sum -c -s $sums) &&
    step='umount again' && umount /mnt &&
    step='fio, small blocks' && verify small --rw=randwrite --bs=4k --size=4m &&
    step='unmap for more queues' && onego unmap "$device" && device=$(onego map rbd:disk --queues 8 --depth 32) &&
    step='fio, large blocks' && verify large --rw=randrw --bs=256k --size=16m &&
    step='discard' && blkdiscard "$device" && cmp -n 134217728 "$device" /dev/zero &&
    step='unmap again' && onego unmap "$device"
}

server() { # the process that serves the device
    sed -n 's/.*"pid":\([0-9]*\).*/\1/p' "/run/onego/${device#/dev/}.json"
}

until_gone() { # until_gone PATH...
    i=0
    for path; do
        while [ -e "$path" ]; do
            i=$((i + 1))
            [ $i -lt 100 ] || { echo "$path is still there"; return 1; }
            sleep 0.1
        done
    done
}

crash() {
    step=map && device=$(onego map rbd:disk) &&
    step=load && { verify crash --rw=randrw --bs=16k --size=16m --time_based --runtime=8 & } && load=$! && sleep 2 &&
    step='kill' && kill -9 "$(server)" && sleep 1 &&
    step='show' && onego showmapped | grep -q 'waiting$' &&
    step='unmap while it waits' && fails 5 'nobody who serves it' onego unmap rbd:disk &&
    step='recover' && [ "$(onego map rbd:disk)" = "$device" ] &&
    step='load goes on' && wait $load &&
    step='end' && kill "$(server)" && until_gone "$device" /run/onego/ublkb0.json
}

restart() { # the process ends in order while the device is in use, and another takes over
    step=map && device=$(onego map rbd:disk --queues 2) &&
    step=queues && [ "$(ls /sys/block/ublkb0/mq | wc -l)" = 2 ] &&
    step=mkfs && /host/mke2fs -q -F -t ext4 "$device" && mount -t ext4 "$device" /mnt &&
    step=write && fill &&
    step='terminate' && old=$(server) && kill "$old" && until_gone "/proc/$old" &&
    grep -q 'waits until rbd:rbd/disk is mapped again' /run/onego/ublkb0.log &&
    step='write while it waits' && { dd if=/dev/urandom of=/mnt/late bs=64k count=4 conv=fsync 2>/dev/null & } &&
    writer=$! && sleep 1 && kill -0 $writer &&
    step='recover all' && [ "$(onego map --recover)" = "$device" ] && [ "$(server)" != "$old" ] &&
    step='writer goes on' && wait $writer &&
    step='read again' && echo 3 > /proc/sys/vm/drop_caches && (cd /mnt && sha256sum -c -s $sums) &&
    step='force' && onego unmap "$device" --force && until_gone "$device" "/run/onego/ublkb0.json" &&
    ! dd if=/dev/zero of=/mnt/after bs=64k count=1 conv=fsync 2>/dev/null &&
    step=umount && umount /mnt
}

list() {
    printf '%s\n' '# images' "rbd/disk id=admin,options='ro'" 'rbd/other' > /tmp/rbdmap &&
    step='map all' && onego map --all --rbdmap /tmp/rbdmap > /tmp/devices && [ "$(wc -l < /tmp/devices)" = 2 ] &&
    step='again' && onego map --all --rbdmap /tmp/rbdmap | cmp - /tmp/devices &&
    step='read only' && [ "$(cat /sys/block/ublkb0/ro /sys/block/ublkb1/ro | tr -d '\n')" = 10 ] &&
    step='one that is not there' && echo rbd/nosuch >> /tmp/rbdmap &&
    fails 5 '1 of 3' onego map --all --rbdmap /tmp/rbdmap && grep -q nosuch /tmp/said &&
    step='unmap all' && onego unmap --all && [ -z "$(onego showmapped)" ] && [ "$(onego showmapped --format json)" = '[]' ] &&
    until_gone /dev/ublkb0 /dev/ublkb1
}

for part in memory image crash restart list; do
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
