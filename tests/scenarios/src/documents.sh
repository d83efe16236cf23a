# The places that documents for users name, in the sandbox's own mounts and network.
set -eu
unset CEPH_CONF
mkdir -p /etc/ceph
for place in /etc/ceph /run /srv /var/lib; do
    mount -t tmpfs tmpfs "$place"
done
mkdir /srv/files
{ cat /etc/hosts; echo "$ADDRESS server"; } > hosts
mount --bind hosts /etc/hosts
ip address add 192.0.2.1/24 dev lo

# Other programs run in a private root, which sees the same places.
for place in /etc/ceph /etc/hosts /run; do
    mount --bind "$place" "$ROOT$place"
done
for program in ceph rbd qemu-img nbdinfo nbdcopy openssl; do
    eval "$program() { chroot $ROOT env --chdir=\"\$PWD\" $program \"\$@\"; }"
done
for file in ubuntu.img disk.img; do
    head -c 5000000 /dev/urandom > "$file"
done

# Waits until a command succeeds.
await() {
    for _ in $(seq 100); do
        "$@" > /dev/null 2>&1 && return
        sleep 0.1
    done
    echo "\`$*\` does not succeed" >&2
    return 1
}

# Ends the servers of a document, or all at last.
end() {
    trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT
}

end
onego cluster start --conf-dir /etc/ceph &
await test -s /etc/ceph/ceph.conf
onego rbd create rbd/disk --size 64M
onego nfs serve --mem --listen "$ADDRESS" --allow "$ADDRESS/32" &
await onego nfs mkdir nfs://server/export/notes
seq 1000 > today
onego nfs put today nfs://server/export/notes/today
