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

# Becomes a command on the system.
become() {
    exec chroot root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"
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
# That leaves a folder of its own.
rm -rf root/run/systemd

# It works.
on onego demo --seconds 0.1 --svg /tmp/demo.svg --no-progress
printf '[cluster.start]\nlisten = "%s:3300"\nconf-dir = "/tmp"\n[nfs.serve]\nmem = true\nlisten = "%s"\nallow = ["%s/32"]\ninsecure = true\n' \
    "$address" "$address" "$address" > root/tmp/onego.toml
become onego cluster start --config /tmp/onego.toml --metrics "$address:9719" &
cluster=$!
become onego nfs serve --config /tmp/onego.toml --metrics "$address:9720" &
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

# Others use the servers meanwhile, and leave a file.
(cd root/tmp && sha256sum disk.img) > serving.new
mv serving.new serving
until [ -e done ]; do sleep 0.1; done
for file in $(cat done); do
    on onego nfs cp "nfs://$address/export/$file" /tmp/theirs.img
    cmp root/tmp/disk.img root/tmp/theirs.img
    rm root/tmp/theirs.img
done

# Both end in order when they are asked to, and leave nothing of theirs.
kill "$cluster" "$nfs"
wait "$cluster"
wait "$nfs"
left=$(find root/run root/tmp -mindepth 1 ! -name onego.deb ! -name onego.toml ! -name ceph.conf ! -name demo.svg ! -name '*.img')
test -z "$left" || { echo "left by servers: $left" >&2; exit 1; }

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
