# Files that a client has open, and its working directory, survive a restart of the server and what others have moved
# meanwhile. The host restarts the server after the line `restart` and then makes the file `restarted`.

goes_on() {
    # Attributes and names are not cached.
    step=mount && mount_export ,noac,lookupcache=none &&
    step=prepare && mkdir -p /mnt/deep/er && cd /mnt/deep/er && echo before > kept && echo gone > gone || return
    exec 3>> kept 4< kept 5< gone
    step='read before' && read -r line <&4 && [ "$line" = before ] || return
    # The host moves kept to elsewhere/moved, and removes gone.
    step=restart && echo restart && eventually [ -e /mnt/restarted ] || return
    step='read a file that was removed' && ! read -r line <&5 2> /dev/null || return
    step='write on' && echo after >&3 || return
    step='read on' && read -r line <&4 && [ "$line" = after ] || return
    step='list the working directory' && [ "$(ls)" = '' ] && echo new > new && reads ./new new || return
    step='after the move' && reads /mnt/elsewhere/moved "before
after" || return
    step='another file system below' && ! ls /mnt/other > /dev/null 2>&1 && ! cat /mnt/other/inside 2> /dev/null || return
    exec 3>&- 4<&- 5<&-
    step='clean up' && cd / && rm -r /mnt/deep /mnt/elsewhere /mnt/restarted && umount /mnt
}

run goes_on
