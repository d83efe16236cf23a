# OPTIONS are those of a mount of the export of SERVER, ours or the kernel's.

mount_export() { # mount_export [OPTIONS]
    mount -t nfs -o "vers=3,nolock,addr=$SERVER,mountaddr=$SERVER,mountproto=tcp,$OPTIONS$1" "$SERVER:/export" /mnt
}

# The device by which the kernel's client uses RDMA, unless an earlier check has made it.
[ -e /sys/class/infiniband ] && [ -n "$(ls /sys/class/infiniband)" ] || /host/rdma link add siw0 type siw netdev eth0
