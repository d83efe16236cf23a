# NFS by a device of the kind DEVICE, siw or rxe: our programs with the kernel's, with each other, and with those of ours
# that are iWARP in software. After the start of a script that starts the kernel's server.

# siw lets no process pin more than that.
ulimit -l unlimited
ADDRESS=10.0.2.15
ONEGO=/host/onego
dd if=/dev/urandom of=/tmp/noise bs=1M count=6 2> /dev/null

files() { # files OPTIONS: files of many sizes come back as they were
    url="nfs://$ADDRESS/export"
    $ONEGO nfs mkdir "$url/d?$1" || return
    : > /tmp/there
    urls=
    for size in 0 900 4096 40003 1048576 5000001; do
        urls="$urls $url/d/$size?$1"
        head -c $size /tmp/noise | tee -a /tmp/there |
            $ONEGO nfs put - "$url/d/$size?$1" 2> /tmp/said || { cat /tmp/said; return 1; }
    done
    $ONEGO nfs cat $urls > /tmp/back && cmp /tmp/there /tmp/back || return
    [ "$($ONEGO nfs ls "$url/d?$1" | wc -l)" = 6 ] && $ONEGO nfs rm --recursive "$url/d?$1"
}

load() { # load OPTIONS: reads and writes that are verified
    $ONEGO bench nfs --server "nfs://$ADDRESS/export?$1" --rw randrw --block-size 4k,64k --io-depth 16 --size 4M \
        --seconds 1 --verify --json /tmp/rows.json > /tmp/bench 2>&1 || { cat /tmp/bench; return 1; }
    sed "s/^/row: /" /tmp/rows.json
}

serve() { # serve ARGUMENTS: a server of ours, until the function `stop`
    # Lines of an earlier server must not count.
    : > /tmp/served
    $ONEGO -v nfs serve --mem --insecure --listen $ADDRESS --tcp 2050 "$@" >> /tmp/served 2>&1 &
    server=$!
    eventually grep -q '^ready:' /tmp/served || { cat /tmp/served; return 1; }
}

stop() { # the server, which has had no reason to end a connection
    kill $server && wait $server && ! grep -F 'broke the protocol' /tmp/served
}

mounted() { # mounted OPTIONS: the kernel's client
    SERVER=$ADDRESS OPTIONS=$1 sh /checks/files
}

for options in '' '&inline=1024' '&inline=65536&nconnect=3'; do
    # Our client on the kernel's server.
    run files "rdma=device&mountport=20048$options"
done
run load 'rdma=device&mountport=20048'
ours='nfsport=2050&mountport=2050&rdmaport=20050'
run serve --rdma 20050 --rdma-device
run files "rdma=device&$ours"
run load "rdma=device&$ours"
run mounted 'proto=rdma,port=20050,mountport=2050'
if [ $DEVICE = siw ]; then
    # Our client in software on our server, and the reverse.
    run files "rdma&$ours"
    run stop
    run serve --rdma 20050
    run files "rdma=device&$ours"
fi
run stop
