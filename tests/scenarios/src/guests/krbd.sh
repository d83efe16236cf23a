# Maps the image rbd/krbd with the kernel's client. MODE is the monitor's port, and the client's options.

map() { # map: $id is the number of $device then
    echo "$SERVER:${MODE%%,*} name=admin,rw,${MODE#*,} rbd krbd" > /sys/bus/rbd/add_single_major || return
    id=$(ls /sys/bus/rbd/devices) && device=/dev/rbd$id
}

unmap() {
    echo "$id" > /sys/bus/rbd/remove_single_major
}

works() {
    step=map && map &&
    step=mkfs && /host/mke2fs -q -F -t ext4 "$device" &&
    step=mount && mount -t ext4 "$device" /mnt &&
    step=write && fill &&
    step=umount && umount /mnt &&
    step=unmap && unmap &&
    # Another device: what it reads comes from the cluster.
    step='map again' && map &&
    step='mount again' && mount -t ext4 -o ro "$device" /mnt &&
    step='read again' && unchanged &&
    step='umount again' && umount /mnt &&
    step='fio, small blocks' && verify small --rw=randwrite --bs=4k --size=4m &&
    step='fio, large blocks' && verify large --rw=randrw --bs=256k --size=16m &&
    step='unmap again' && unmap
}

run works
