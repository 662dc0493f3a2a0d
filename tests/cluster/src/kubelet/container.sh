# shellcheck shell=sh
# Creates a container's files and then runs its program. It runs in network, mount and UTS namespaces of its own.
# Arguments: ROOT (an empty folder) HOSTNAME UID GID READ_ONLY (yes or no) PROGRAM (of the image) MOUNTS ("ro|rw SOURCE TARGET" a line)
# WORKING_DIRECTORY, then the command. Its standard output is the container's log.
set -eu
root=$1 hostname=$2 uid=$3 gid=$4 read_only=$5 program=$6 mounts=$7 directory=$8
shift 8

# A user namespace cannot remove a mount's existing restrictions, so remounting must repeat them.
read_only() {
  mount -o remount,bind,ro "$1" 2>/dev/null || mount -o remount,bind,ro,nosuid,nodev "$1" 2>/dev/null ||
    mount -o remount,bind,ro,nosuid,nodev,noexec "$1"
}

mount --make-rprivate /
hostname "$hostname" 2>/dev/null || echo "$hostname" >/proc/sys/kernel/hostname
mount -t tmpfs -o mode=755 image "$root"
mkdir -p "$root/proc" "$root/dev" "$root/etc" "$root/tmp" "$root/var"
mkdir "$root/run"
ln -s ../run "$root/var/run" # relative, because an absolute link would point outside of $root until the last step

# The program of the image. Its folders are among the mounts.
touch "$root/mullion"
mount --bind "$program" "$root/mullion"
read_only "$root/mullion"
for device in null zero full random urandom; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
echo "$hostname" >"$root/etc/hostname"
: >"$root/etc/resolv.conf"
printf 'root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n' >"$root/etc/passwd"

printf '%s' "$mounts" | while read -r mode source target; do
  mkdir -p "$root$target"
  mount --bind "$source" "$root$target"
  [ "$mode" = rw ] || read_only "$root$target"
done
[ "$read_only" = no ] || read_only "$root"

# The last step creates user and PID namespaces. The container ends when `unshare` is killed.
exec setpriv --no-new-privs unshare --user --map-user="$uid" --map-group="$gid" --pid --fork --kill-child --mount-proc \
  --root="$root" --wd="$directory" -- "$@"
