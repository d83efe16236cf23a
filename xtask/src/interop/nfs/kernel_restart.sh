# What a client has open, and where it is, survives a restart of the server and what others have moved meanwhile.
# SERVER and EXPORT name it; /tmp/options has the mounts. The host restarts the server when it is asked to, and says so in
# the export.

mount_export() { # mount_export OPTIONS: nothing is believed for longer than it takes to ask
    mount -t nfs -o "vers=3,nolock,noac,lookupcache=none,addr=$SERVER,mountaddr=$SERVER,mountproto=tcp,$1" \
        "$SERVER:$EXPORT" /mnt
}

restart() { # restart NUMBER
    echo "restart $1"
    until [ -e "/mnt/restarted-$1" ]; do sleep 1; done
}

goes_on() { # goes_on NUMBER
    step=prepare && mkdir -p /mnt/deep/er && cd /mnt/deep/er && echo before > kept && echo gone > gone || return
    exec 3>> kept 4< kept 5< gone
    step='read before' && read -r line <&4 && [ "$line" = before ] || return
    # The host moves kept to elsewhere/moved, and removes gone.
    step=restart && restart "$1" || return
    step='read a file that was removed' && ! read -r line <&5 2>/dev/null || return
    step='write on' && echo after >&3 || return
    step='read on' && read -r line <&4 && [ "$line" = after ] || return
    step='list the working directory' && [ "$(ls)" = '' ] && echo new > new && [ "$(cat ./new)" = new ] || return
    step='where it was moved' && [ "$(cat /mnt/elsewhere/moved)" = "before
after" ] || return
    step='another file system below' && ! ls /mnt/other > /dev/null 2>&1 && ! cat /mnt/other/inside 2>/dev/null || return
    exec 3>&- 4<&- 5<&-
    step='clean up' && cd / && rm -r /mnt/deep /mnt/elsewhere && umount /mnt
}

number=0
while read -r options; do
    step=mount
    mount_export "$options" && goes_on $number || { echo "fails: $options, at: $step"; dmesg | tail -n 8; exit 1; }
    echo "goes on: $options"
    number=$((number+1))
done < /tmp/options
