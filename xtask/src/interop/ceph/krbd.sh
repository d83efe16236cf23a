# Writes a clone with all features by the kernel's client, in turns with others, who say by the image "bell" whose turn it is.
# MONITOR is the monitor's address, BEFORE and THEIRS are the sums of what the clone shows at first, and of what the others write.

map() { # map IMAGE
    echo "$MONITOR:3300 name=admin,rw,ms_mode=prefer-crc rbd $1" > /sys/bus/rbd/add_single_major
}

sum() { # what the disk shows, past the page cache
    dd if="$device" iflag=direct bs=1M 2> /dev/null | sha256sum | cut -d ' ' -f 1
}

fail() {
    echo "fails: $1"
    dmesg | grep -E 'ceph|rbd' | tail -n 20
    exit 1
}

await() { # await TURN
    until dd if=/dev/rbd0 iflag=direct bs=4k count=1 2> /dev/null | grep -q "turn $1\$"; do sleep 1; done
}

written() { # written TURN: says what the disk shows now
    echo "sum $1: $(sum)"
    echo "done $1"
}

map bell && map disk || fail "the images are not mapped"
device=/dev/rbd1
[ "$(sum)" = "$BEFORE" ] || fail "the parent does not show through"
verify copy-up --rw=randwrite --bs=4k --size=1m --offset=1m || fail "$name"
verify large --rw=write --bs=256k --size=6m --offset=6m || fail "$name"
written 1

await 2
[ "$(sum)" = "$THEIRS" ] || fail "what the others wrote is not there"
verify 'lock that is asked for' --rw=randwrite --bs=16k --size=2m --offset=9m || fail "$name"
written 2

await 3
verify 'at once' --rw=randrw --bs=16k --size=3m --offset=512k || fail "$name"
echo "done 3"

await 4
# The owner of the lock is dead: the kernel shuts it out.
verify 'lock of the dead' --rw=randwrite --bs=4k --size=256k --offset=2m || fail "$name"
written 4

await 5
# Until somebody switches this machine off.
while dd if=/dev/urandom of="$device" oflag=direct bs=64k count=32 2> /dev/null; do echo "done 5"; done
fail "a write"
