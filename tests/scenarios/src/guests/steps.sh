# Functions for checks in guests. SERVER is the address of the host, or of the NFS server to mount.

# A check that runs nothing fails.
result=1

onego() {
    /host/onego --mon-host "$SERVER:3300" "$@"
}

run() { # run COMMAND...: ends the check if the command fails; $step is where it was
    step=start
    if "$@"; then
        result=0
    else
        cat /run/onego/*.log 2> /dev/null
        dmesg | tail -n 12
        echo "failed: $*, at: $step"
        exit 1
    fi
}

fails() { # fails CODE WORDS COMMAND...: the command ends with this code and prints these words
    code=$1
    words=$2
    shift 2
    "$@" > /tmp/said 2>&1
    got=$?
    [ $got = "$code" ] && grep -q "$words" /tmp/said || { echo "$* ended with $got and said:"; cat /tmp/said; return 1; }
}

eventually() { # eventually COMMAND...: the command succeeds within a minute
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { echo "not within a minute: $*"; return 1; }
        sleep 0.1
    done
}

gone() { # gone PATH...: none of these exists
    for path; do [ ! -e "$path" ] || return; done
}

reads() { # reads FILE TEXT: the file has this text
    [ "$(cat "$1")" = "$2" ]
}

unchanged() { # files of `fill` below /mnt are what they were; nothing comes from the page cache
    sync && echo 3 > /proc/sys/vm/drop_caches && (cd /mnt && sha256sum -c -s $sums)
}
