# Boots a copy of a Debian system with our package under its own service manager, and runs `check` there as a service.
# What changes lies in a layer of its own.
set -eu
system=$1 package=$2 check=$3
mkdir layers root report
mount -t tmpfs tmpfs layers
mkdir layers/upper layers/work
mount -t overlay -o "lowerdir=$system,upperdir=layers/upper,workdir=layers/work" overlay root
mount -t proc proc root/proc
mount --rbind /dev root/dev
mount -t tmpfs tmpfs root/sys
mkdir -p root/sys/fs/cgroup
mount -t cgroup2 cgroup2 root/sys/fs/cgroup
mount -t tmpfs tmpfs root/run
mount --bind report root/tmp

cp "$package" root/var/onego.deb
chroot root dpkg --install /var/onego.deb
cp "$check" root/var/check
cat > root/etc/systemd/system/check.service <<'UNIT'
[Service]
Type=oneshot
StandardOutput=append:/tmp/said
StandardError=append:/tmp/said
ExecStart=/bin/sh -c 'sh /var/check && touch /tmp/passed'
ExecStopPost=/bin/systemctl --no-block exit
UNIT

# Units get user namespaces, which no process in a chroot may have, and mounts that reach them from here.
cd root
mkdir old
pivot_root . old
umount -l old
mount --make-rshared /
exec env -i container=onego PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=check.service --show-status=0
