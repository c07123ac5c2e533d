# The first process of a host, in namespaces of its own: init.sh NAME ADDRESS FOLDER HOME ENV PYTHON
set -e
name=$1 address=$2 folder=$3 home=$4 environment=$5 python=$6
own=$folder/$name
mkdir -p "$own"/{home/fathom/runs,home/venv,tmp,upper,work}
mount -t tmpfs -o mode=1777,size=1g tmp "$own/tmp"

# Where a path lies once this host has its own home and /tmp.
place() {
    case $1 in
    "$home"/*) echo "$own/home${1#"$home"}" ;;
    /tmp/*) echo "$own$1" ;;
    *) echo "$1" ;;
    esac
}
for path in "$environment" "$python"; do mkdir -p "$(place "$path")"; done
mount --bind "$python" "$(place "$python")"
mount -o remount,bind,ro "$(place "$python")"
mount -t overlay -o "lowerdir=$environment,upperdir=$own/upper,workdir=$own/work" \
    overlay "$own/home/venv"
mount --bind "$own/home/venv" "$(place "$environment")" # its scripts name this place
mount --bind "$folder/runs" "$own/home/fathom/runs"
printf '127.0.0.1 localhost\n%s %s\n' "$address" "$name" > "$own/hosts"
mount --bind "$own/hosts" /etc/hosts
cp "$folder/host_key" "$own/host_key"
mount --rbind "$own/home" "$home"
mount --rbind "$own/tmp" /tmp
for path in /dev/shm /run; do mount -t tmpfs -o mode=1777 tmp "$path"; done
mkdir -m 755 /run/sshd
cp "$folder/host_key" /run/host_key
chmod 600 /run/host_key
mount -t tmpfs -o mode=1777 tmp /var/tmp # the other hosts' folders lie there

hostname "$name"
until ip link show eth0 > /dev/null 2>&1; do sleep 0.05; done
ip link set lo up
ip address add "$address/24" dev eth0
ip link set eth0 up
ip route add default via "${address%.*}.1"

# Not this script's environment: a login makes its own. The shell stays, and reaps what is orphaned.
env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /usr/sbin/sshd -D -e -f /dev/null -h /run/host_key \
    -o ListenAddress="$address" -o PidFile=none -o UsePAM=no -o StrictModes=no \
    -o PasswordAuthentication=no -o PermitRootLogin=prohibit-password -o MaxStartups=100 &
wait $!
