# A load on the block device $device that notices what is lost.

verify() { # verify NAME OPTIONS...: fio writes to the device and reads back what it wrote
    name=$1
    shift
    /host/fio --name="$name" --filename="$device" --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c \
        --verify_fatal=1 --thread "$@" > /tmp/fio 2>&1 || { cat /tmp/fio; return 1; }
}

