# Writes a clone with all features by the kernel's client, in turns with others; the image "bell" says whose turn it is.
# BEFORE is the sum of what the clone shows at first, THEIRS of what the others write.

map() { # map IMAGE
    echo "$SERVER:3300 name=admin,rw,ms_mode=prefer-crc rbd $1" > /sys/bus/rbd/add_single_major
}

sum() { # what the disk shows, past the page cache
    dd if="$device" iflag=direct bs=1M 2> /dev/null | sha256sum | cut -d ' ' -f 1
}

await() { # await TURN
    until dd if=/dev/rbd0 iflag=direct bs=4k count=1 2> /dev/null | grep -q "turn $1\$"; do sleep 1; done
}

written() { # written TURN: says what the disk shows now
    echo "sum $1: $(sum)"
    echo "done $1"
}

turns() {
    step=map && map bell && map disk && device=/dev/rbd1 &&
    step=parent && [ "$(sum)" = "$BEFORE" ] &&
    step='copy-up' && verify copy-up --rw=randwrite --bs=4k --size=1m --offset=1m &&
    step='large blocks' && verify large --rw=write --bs=256k --size=6m --offset=6m && written 1 &&

    await 2 && step='data of the others' && [ "$(sum)" = "$THEIRS" ] &&
    step='take the lock' && verify lock --rw=randwrite --bs=16k --size=2m --offset=9m && written 2 &&

    await 3 && step='at once' && verify at-once --rw=randrw --bs=16k --size=3m --offset=512k && echo "done 3" &&

    # The owner of the lock is dead: the kernel shuts it out.
    await 4 && step='lock of the dead' && verify dead --rw=randwrite --bs=4k --size=256k --offset=2m && written 4 &&

    # Until the host switches this machine off.
    await 5 && step='last writes' &&
    while dd if=/dev/urandom of="$device" oflag=direct bs=64k count=32 2> /dev/null; do echo "done 5"; done
    return 1
}

run turns
