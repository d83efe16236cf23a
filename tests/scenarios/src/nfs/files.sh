# Checks a mount of the kernel's client. NAMES is the number of files in the largest folder.

device=/mnt/fio

fill_all() { # also files of no bytes, and of a length that is neither whole blocks nor whole pages
    fill && : > /mnt/one/0 && : > /mnt/two/three/0 &&
    dd if=/dev/urandom of=/mnt/odd bs=12347 count=1 conv=fsync 2> /dev/null &&
    (cd /mnt && find . -type f -exec sha256sum {} +) > $sums
}

plus() { # calls of READDIRPLUS so far
    awk '$1 == "READDIRPLUS:" { calls = $2 } END { print calls + 0 }' /proc/self/mountstats
}

names() { # names COUNT: the folder has that many different names
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
    reads d tex && [ "$(readlink d)" = c ] && [ "$(readlink f)" = "$long" ] || return
    [ "$(stat -c '%a %h %s %Y' e)" = "640 2 3 $(date -d '2001-02-03 04:05:06' +%s)" ] || return
    [ "$(stat -c %h many)" = 2 ] && ! rmdir many 2> /dev/null && ! cat a 2> /dev/null && cd / && rm -r /mnt/t && gone /mnt/t
}

works() {
    step=mount && mount_export &&
    step=write && fill_all &&
    step='read again' && unchanged &&
    step=umount && umount /mnt &&
    step='mount again' && mount_export &&
    step='read after a mount' && unchanged &&
    step=tree && tree &&
    step='fio, small blocks' && verify small --rw=randwrite --bs=4k --size=2m &&
    step='fio, odd blocks' && verify odd --rw=randrw --bsrange=512-40k --bs_unaligned --size=4m &&
    step='fio, large blocks' && verify large --rw=randrw --bs=1m --size=16m &&
    step=remove && rm -r /mnt/* &&
    step='umount again' && umount /mnt
}

run works
