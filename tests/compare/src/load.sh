# load PATTERN DEPTH SECONDS: runs fio on the guest's disk and prints its number of requests.
load() {
    until [ -b /dev/vda ]; do sleep 0.1; done
    /host/fio --name=load --filename=/dev/vda --rw="$1" --bs=4k --iodepth="$2" --ioengine=libaio --direct=1 \
        --thread --time_based --runtime="$3" --output=/tmp/fio --output-format=json --eta=never || exit 1
    awk '/"total_ios"/ { sub(",", ""); n += $3 } END { print "ios: " n }' /tmp/fio
}
