# Maps an image with the kernel's client, once for each line of options, and checks what comes back.
# MONITOR is the monitor's address without the port; the options of a line follow the port.

map() { # map PORT OPTIONS: the device is $id then
    echo "$MONITOR:$1 name=admin,rw,$2 rbd disk" > /sys/bus/rbd/add_single_major || return
    id=$(ls /sys/bus/rbd/devices)
}

unmap() {
    echo "$id" > /sys/bus/rbd/remove_single_major
}

verify() { # verify NAME OPTIONS...: fio writes to the device and reads back what it wrote
    name=$1
    shift
    /host/fio --name="$name" --filename="/dev/rbd$id" --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c \
        --verify_fatal=1 --thread "$@" > /tmp/fio 2>&1 || { cat /tmp/fio; return 1; }
}

works() { # works PORT OPTIONS
    step=map && map "$1" "$2" &&
    step=mkfs && /host/mke2fs -q -F -t ext4 "/dev/rbd$id" &&
    step=mount && mount -t ext4 "/dev/rbd$id" /mnt &&
    step=write && fill &&
    step=umount && umount /mnt &&
    step=unmap && unmap && id= &&
    # Another device: what it reads comes from the cluster.
    step='map again' && map "$1" "$2" &&
    step='mount again' && mount -t ext4 -o ro "/dev/rbd$id" /mnt &&
    step='read again' && (cd /mnt && sha256sum -c -s $sums) &&
    step='umount again' && umount /mnt &&
    step='fio, small blocks' && verify small --rw=randwrite --bs=4k --size=4m &&
    step='fio, large blocks' && verify large --rw=randrw --bs=256k --size=16m &&
    step='unmap again' && unmap && id=
}

failed=0
while read -r port options; do
    read -r start _ < /proc/uptime
    id=
    if works "$port" "$options"; then
        read -r end _ < /proc/uptime
        echo "works: $options ($start to $end s)"
    else
        failed=1
        echo "fails: $options, at: $step"
        dmesg | grep -E 'ceph|rbd' | tail -n 8
        ! grep -q ' /mnt ' /proc/mounts || umount /mnt
        [ -z "$id" ] || unmap
    fi
done < /tmp/options
exit $failed
