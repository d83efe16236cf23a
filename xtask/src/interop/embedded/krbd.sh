# Maps an image with the kernel's client, once for each line of options, and checks what comes back.
# MONITOR is the monitor's address without the port; the options of a line follow the port.

map() { # map PORT OPTIONS: $id is the number of $device then
    echo "$MONITOR:$1 name=admin,rw,$2 rbd disk" > /sys/bus/rbd/add_single_major || return
    id=$(ls /sys/bus/rbd/devices) && device=/dev/rbd$id
}

unmap() {
    echo "$id" > /sys/bus/rbd/remove_single_major
}

works() { # works PORT OPTIONS
    step=map && map "$1" "$2" &&
    step=mkfs && /host/mke2fs -q -F -t ext4 "$device" &&
    step=mount && mount -t ext4 "$device" /mnt &&
    step=write && fill &&
    step=umount && umount /mnt &&
    step=unmap && unmap && id= &&
    # Another device: what it reads comes from the cluster.
    step='map again' && map "$1" "$2" &&
    step='mount again' && mount -t ext4 -o ro "$device" /mnt &&
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
