# Uses the units as their first lines say, next to files that root alone may read.
set -eux
show() { # what the servers have said, if something fails
    systemctl --no-pager --full status 'onego-*' || true
    journalctl --no-pager --unit 'onego-*' | tail -n 60
}
trap '[ $? = 0 ] || show' EXIT

for unit in onego-cluster@one onego-export@rbd-disk onego-nfs@srv-data onego-map onego-map@rbd-disk; do
    systemd-analyze security --no-pager --threshold=30 "$unit.service" > /tmp/security || { cat /tmp/security; false; }
done

# Ready means ready: the cluster is used as soon as `start` returns.
echo 'OPTIONS="--auth cephx --listen 127.0.0.1:3300"' > /etc/default/onego-cluster
systemctl start onego-cluster@one
umask 077
mkdir -p /etc/ceph
cp /var/lib/onego-cluster/one/ceph.conf /var/lib/onego-cluster/one/ceph.client.admin.keyring /etc/ceph/
sed -i '/keyring/d' /etc/ceph/ceph.conf
onego rbd create rbd/disk --size 16M
onego rbd create rbd/other --size 16M
onego ceph auth get-or-create client.nbd mon 'profile rbd' osd 'profile rbd' > /etc/ceph/ceph.client.nbd.keyring

# The service has the rights of its user of the cluster, and none on this machine.
echo 'OPTIONS="--id nbd"' > /etc/default/onego-export
systemctl start onego-export@rbd-disk
head -c 1000000 /dev/urandom > /var/data
onego cp /var/data nbd://127.0.0.1/rbd/disk --in-place
onego cp nbd://127.0.0.1/rbd/disk /var/back
cmp -n 1000000 /var/data /var/back
pid=$(systemctl show --property MainPID --value onego-export@rbd-disk)
test "$(stat -c %u "/proc/$pid")" != 0
grep -q '^CapEff:\s0*$' "/proc/$pid/status"

# Callers have their own rights, and files are opened by their handles.
umask 022
mkdir -p /srv/data
mount -t tmpfs tmpfs /srv/data
chmod 1777 /srv/data
systemctl start onego-nfs@srv-data
onego nfs put /var/data 'nfs://127.0.0.1/export/mine?uid=1000&gid=1000'
test "$(stat -c %u:%g /srv/data/mine)" = 1000:1000
cmp /var/data /srv/data/mine
echo secret > /srv/data/secret
chmod 600 /srv/data/secret
! onego nfs cat 'nfs://127.0.0.1/export/secret?uid=1000&gid=1000'
systemctl restart onego-nfs@srv-data
onego nfs cat 'nfs://127.0.0.1/export/mine' | cmp - /var/data
! journalctl --no-pager --unit onego-nfs@srv-data | grep WARN

systemctl stop onego-nfs@srv-data onego-export@rbd-disk onego-cluster@one
test -z "$(systemctl list-units --failed --no-legend 'onego-*')"
