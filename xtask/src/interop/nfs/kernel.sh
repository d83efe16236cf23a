# Mounts an export with the kernel's client, once for each line of options, and checks what comes back.
# SERVER and EXPORT name it. LARGE is the size of the largest files in KiB, NAMES how many there are in the largest folder.

sums=/tmp/sums

mount_export() { # mount_export OPTIONS
    mount -t nfs -o "vers=3,nolock,addr=$SERVER,mountaddr=$SERVER,mountproto=tcp,$1" "$SERVER:$EXPORT" /mnt
}

fill() { # files of many sizes, in folders
    for folder in one two/three; do
        mkdir -p "/mnt/$folder" || return
        for kib in 0 1 3 64 700 $LARGE; do
            dd if=/dev/urandom of="/mnt/$folder/$kib" bs=1k count=$kib conv=fsync 2>/dev/null || return
        done
    done
    # Neither block nor page.
    dd if=/dev/urandom of=/mnt/odd bs=12347 count=1 conv=fsync 2>/dev/null || return
    (cd /mnt && find . -type f -exec sha256sum {} +) > $sums
}

same() { # what is read comes from the server
    echo 3 > /proc/sys/vm/drop_caches && (cd /mnt && sha256sum -c -s $sums)
}

plus() { # how often READDIRPLUS was called
    awk '$1 == "READDIRPLUS:" { calls = $2 } END { print calls + 0 }' /proc/self/mountstats
}

names() { # names COUNT: these are there, each once
    echo 3 > /proc/sys/vm/drop_caches
    ls many > /tmp/names && [ "$(wc -l < /tmp/names)" = "$1" ] && [ "$(sort -u /tmp/names | wc -l)" = "$1" ]
}

listing() { # far more names than one reply holds, of which some go while they are listed
    name=many/$(printf '%0200d' 7)
    mkdir many && i=0 && while [ $i -lt $NAMES ]; do : > "$name-$i" || return; i=$((i+1)); done
    names $NAMES && before=$(plus) && echo 3 > /proc/sys/vm/drop_caches || return
    [ "$(ls -l many | grep -c '^-')" = $NAMES ] && [ "$(plus)" -gt "$before" ] || return
    echo 3 > /proc/sys/vm/drop_caches
    find many -name '*[13579]' -exec rm {} + && names $((NAMES/2)) && ! ls many | grep -q '[13579]$'
}

tree() { # names, links and attributes
    mkdir /mnt/t && cd /mnt/t && mkdir a && echo text > a/b && mv a/b c && rmdir a && ln -s c d &&
    ln c e && chmod 640 e && truncate -s 3 c && touch -d '2001-02-03 04:05:06' c || return
    # A path that does not fit in one message of the smallest size.
    long=$(printf '%01000d' 7) && ln -s "$long" f || return
    listing || return
    echo 3 > /proc/sys/vm/drop_caches
    [ "$(cat d)" = tex ] && [ "$(readlink d)" = c ] && [ "$(readlink f)" = "$long" ] || return
    [ "$(stat -c '%a %h %s %Y' e)" = "640 2 3 $(date -d '2001-02-03 04:05:06' +%s)" ] || return
    [ "$(stat -c %h many)" = 2 ] && ! rmdir many 2>/dev/null && ! cat a 2>/dev/null && cd / && rm -r /mnt/t && [ ! -e /mnt/t ]
}

verify() { # verify NAME OPTIONS...: fio writes a file and reads back what it wrote
    name=$1
    shift
    /host/fio --name="$name" --filename="/mnt/fio" --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c \
        --verify_fatal=1 --thread "$@" > /tmp/fio 2>&1 || { cat /tmp/fio; return 1; }
}

works() { # works OPTIONS
    step=mount && mount_export "$1" &&
    step=write && fill &&
    step='read again' && same &&
    step=umount && umount /mnt &&
    step='mount again' && mount_export "$1" &&
    step='read after a mount' && same &&
    step=tree && tree &&
    step='fio, small blocks' && verify small --rw=randwrite --bs=4k --size=2m &&
    step='fio, odd blocks' && verify odd --rw=randrw --bsrange=512-40k --bs_unaligned --size=4m &&
    step='fio, large blocks' && verify large --rw=randrw --bs=1m --size=16m &&
    step='remove' && rm -r /mnt/* &&
    step='umount again' && umount /mnt
}

failed=0
while read -r options; do
    read -r start _ < /proc/uptime
    if works "$options"; then
        read -r end _ < /proc/uptime
        echo "works: $options ($start to $end s)"
    else
        failed=1
        echo "fails: $options, at: $step"
        dmesg | grep -iE 'nfs|rpc|rdma|siw' | tail -n 8
        cd /
        ! grep -q ' /mnt ' /proc/mounts || umount -f -l /mnt
    fi
done < /tmp/options
exit $failed
