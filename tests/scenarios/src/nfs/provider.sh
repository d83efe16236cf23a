# Checks our provider over rdma-core by a device of the kind DEVICE, both ends here. The address is QEMU's.

export PATH=/bin:/host

provider() {
    step=device && rdma link add dev0 type $DEVICE netdev eth0 && step=check && check 10.0.2.15 $DEVICE
}

run provider
