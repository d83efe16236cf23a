# Makes a SCSI disk of an image: the kernel's target passes its commands to tcmu-runner. /tmp/ceph.conf names the cluster.

export LD_LIBRARY_PATH=/host
ln -s librados.so.2 /host/librbd.so.1
config=/sys/kernel/config
store=$config/target/core/user_0/image
port=$config/target/loopback/naa.5001405000000001/tpgt_1
device=/dev/sda

find_modules() { # tcmu-runner asks libkmod for its module before it looks whether that is loaded
    folder=/lib/modules/$(uname -r)
    mkdir -p "$folder/kernel" &&
    for file in /modules/*; do name=${file##*/}; cp "$file" "$folder/kernel/${name#*-}" || return; done &&
    /host/depmod -a 2> /tmp/said
}

runner() {
    /host/tcmu-runner -d --tcmu-log-dir /tmp > /tmp/runner.out 2>&1 &
    runner=$!
    eventually grep -qs 'Handler rbd is registered' /tmp/tcmu-runner.log && kill -0 $runner && return
    cat /tmp/runner.out /tmp/tcmu-runner.log
    return 1
}

attach() {
    step=modules && find_modules &&
    step=configuration && mount -t configfs none $config &&
    step=runner && runner &&
    step='its library' && grep -q /host/librados.so.2 /proc/$runner/maps &&
    step=store && mkdir -p $store && echo -n 'dev_config=rbd/rbd/disk;conf=/tmp/ceph.conf' > $store/control &&
    echo -n dev_size=67108864 > $store/control && echo -n 1 > $store/enable &&
    step=port && mkdir -p $port && echo -n naa.5001405000000002 > $port/nexus && mkdir $port/lun/lun_0 &&
    ln -s $store $port/lun/lun_0/image &&
    step=disk && eventually [ -b $device ] &&
    step=size && reads /sys/block/sda/size 131072 &&
    step='small blocks' && verify small --rw=randrw --bs=4k --size=4m &&
    step='large blocks' && verify large --rw=randwrite --bs=256k --size=16m
}

keep_files() {
    step=mkfs && /host/mke2fs -q -F -t ext4 $device &&
    step=mount && mount -t ext4 $device /mnt &&
    step=fill && fill &&
    step=umount && umount /mnt &&
    step='mount again' && mount -t ext4 $device /mnt &&
    step='read again' && unchanged &&
    step='umount again' && umount /mnt
}

restart() { # another process takes over what one that was killed has served
    step=kill && kill -9 $runner && wait $runner
    step='start again' && : > /tmp/tcmu-runner.log && runner &&
    step='mount again' && mount -t ext4 $device /mnt &&
    step='read after' && unchanged &&
    step='umount after' && umount /mnt &&
    step='small blocks again' && verify small --rw=randrw --bs=4k --size=2m
}

remove() {
    step=sum && echo 3 > /proc/sys/vm/drop_caches && echo "sum: $(sha256sum < $device | cut -d ' ' -f 1)" &&
    step=unlink && rm $port/lun/lun_0/image && rmdir $port/lun/lun_0 $port &&
    step='remove store' && rmdir $store &&
    step='still there' && kill -0 $runner && kill $runner && wait $runner
}

run attach
run keep_files
run restart
run remove
