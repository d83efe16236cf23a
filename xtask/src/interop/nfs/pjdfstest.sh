# Mounts our server with the kernel's client and runs pjdfstest on it. SERVER is where it is; FAILURES are tests that are
# expected to fail.

for user in root:0 nobody:65534 tests:1001; do
    name=${user%:*} id=${user#*:}
    echo "$name:x:$id:$id::/:/bin/sh" >> /etc/passwd
    echo "$name:x:$id:" >> /etc/group
done
cat > /tmp/pjdfstest.toml <<END
[features]
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
# What the client takes for granted about attributes is over then.
naptime = 0.01
expected_failures = [$FAILURES]
[dummy_auth]
entries = [["nobody", "nobody"], ["tests", "tests"]]
END
mount -t nfs -o "vers=3,nolock,addr=$SERVER,mountaddr=$SERVER,mountproto=tcp,proto=tcp,port=2049,mountport=2049" \
    "$SERVER:/export" /mnt || exit
cd /mnt && NO_COLOR=1 /host/pjdfstest --configuration-file /tmp/pjdfstest.toml --path /mnt --secondary-fs /tmp
