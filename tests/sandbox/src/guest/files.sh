# Fills the file system at /mnt, and keeps the sums of its files in $sums.

sums=/tmp/sums

fill() { # files of many sizes, in folders
    for folder in one two/three; do
        mkdir -p "/mnt/$folder" || return
        for kib in 1 3 64 700 5000; do
            dd if=/dev/urandom of="/mnt/$folder/$kib" bs=1k count=$kib 2>/dev/null || return
        done
    done
    (cd /mnt && find . -type f -exec sha256sum {} +) > $sums
}

