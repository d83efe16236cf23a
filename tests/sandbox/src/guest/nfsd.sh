# Starts the kernel's NFS server on /export, and on /secure for clients with ports below 1024: TCP on 2049,
# RDMA on 20049 by a device of the kind DEVICE (siw unless it says rxe), MOUNT on 20048. For the start of a script.

export PATH=/bin:/host
rdma link add dev0 type ${DEVICE:-siw} netdev eth0
mkdir /export /secure /run/rpcbind
# The kernel looks for rpcbind's socket there.
ln -s /run /var/run
mount -t tmpfs -o mode=777 tmpfs /export
mount -t tmpfs -o mode=777 tmpfs /secure
mount -t nfsd nfsd /proc/fs/nfsd
echo '_rpc:x:0:0:rpcbind:/:/bin/sh' > /etc/passwd
: > /etc/exports
: > /var/lib/nfs/etab
: > /var/lib/nfs/rmtab
rpcbind
until [ -S /run/rpcbind.sock ]; do sleep 0.1; done
# Clients come from addresses of the emulated network; those in other guests, from its ports, too.
exportfs -o rw,no_root_squash,insecure,fsid=1,async,no_subtree_check '*:/export'
exportfs -o rw,no_root_squash,secure,fsid=2,async,no_subtree_check '*:/secure'
rpc.mountd --port 20048
# The listener of TCP comes with the threads.
echo 4 > /proc/fs/nfsd/threads
echo 'rdma 20049' > /proc/fs/nfsd/portlist
echo "nfsd listens: $(tr '\n' ' ' < /proc/fs/nfsd/portlist)"
