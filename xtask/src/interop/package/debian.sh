# Installs the package on a system, uses it, and removes it: nothing is left. What changes lies in a layer of its own.
set -eu
system=$1 package=$2 address=$3
shift 3
units=$*
mkdir layers root
mount -t tmpfs tmpfs layers
mkdir layers/upper layers/work
mount -t overlay -o "lowerdir=$system,upperdir=layers/upper,workdir=layers/work" overlay root
mount -t proc proc root/proc
mount --bind /dev root/dev
mount -t tmpfs tmpfs root/tmp
mount -t tmpfs tmpfs root/run

# Runs a command on the system.
on() {
    chroot root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"
}

# Waits until a command succeeds.
await() {
    for _ in $(seq 100); do
        "$@" > /dev/null 2>&1 && return
        sleep 0.1
    done
    echo "\`$*\` does not succeed" >&2
    return 1
}

cp "$package" root/tmp/onego.deb
on apt-get install --yes /tmp/onego.deb
on onego --version
on onego config check
test -s root/usr/share/man/man1/onego.1
test -s root/usr/share/bash-completion/completions/onego

# The units are as the service manager wants them.
for unit in $units; do
    on systemd-analyze --man=no verify "/usr/lib/systemd/system/$unit.service"
done

# It works.
on onego demo --seconds 0.1 --svg /tmp/demo.svg --no-progress
printf '[cluster.start]\nlisten = "%s:3300"\nconf-dir = "/tmp"\n[nfs.serve]\nmem = true\nlisten = "%s"\nallow = ["%s/32"]\n' \
    "$address" "$address" "$address" > root/tmp/onego.toml
on onego cluster start --config /tmp/onego.toml &
cluster=$!
on onego nfs serve --config /tmp/onego.toml &
nfs=$!
await on onego -c /tmp/ceph.conf rbd ls
head -c 5000000 /dev/urandom > root/tmp/disk.img
on onego -c /tmp/ceph.conf rbd import /tmp/disk.img rbd/disk
on onego -c /tmp/ceph.conf rbd export rbd/disk /tmp/back.img
cmp root/tmp/disk.img root/tmp/back.img
await on onego nfs ls "nfs://$address/export"
on onego nfs cp /tmp/disk.img "nfs://$address/export/disk.img"
on onego nfs cp "nfs://$address/export/disk.img" /tmp/again.img
cmp root/tmp/disk.img root/tmp/again.img
kill "$cluster" "$nfs"
wait

# An enabled unit, and a changed setting, go with the purge.
mkdir -p root/etc/systemd/system/multi-user.target.wants
ln -s /usr/lib/systemd/system/onego-nfs@.service root/etc/systemd/system/multi-user.target.wants/onego-nfs@srv.service
echo '# changed' >> root/etc/onego/onego.toml
on apt-get remove --yes onego
test -s root/etc/onego/onego.toml
test ! -e root/usr/bin/onego
on apt-get purge --yes onego
# What package managers note of what they did is theirs.
left=$(cd layers/upper && find . ! -type d ! -path './var/lib/dpkg/*' ! -path './var/lib/apt/*' ! -path './var/cache/*' ! -path './var/log/*')
left="$left$(find layers/upper -name '*onego*')"
test -z "$left" || { echo "left: $left" >&2; exit 1; }
