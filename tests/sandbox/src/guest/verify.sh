# A load on the block device or file $device that notices what is lost; with options that name files, on these.

verify() { # verify NAME OPTIONS...: fio writes and reads back what it wrote
    name=$1
    shift
    /host/fio --name="$name" ${device:+--filename="$device"} --direct=1 --ioengine=libaio --iodepth=16 \
        --verify=crc32c --verify_fatal=1 --thread "$@" > /tmp/fio 2>&1 || { cat /tmp/fio; return 1; }
}

