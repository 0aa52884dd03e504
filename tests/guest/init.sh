# The guest's first script: mounts, runs /host/run.sh, leaves its exit code in /host/rc, powers off.
export PATH=/usr/sbin:/usr/bin HOME=/run TERM=dumb
exec > /host/log 2>&1 < /dev/null
cd /host
mount -t proc proc /proc; mount -t sysfs sys /sys; mountpoint -q /dev || mount -t devtmpfs dev /dev
mkdir -p /dev/shm
for folder in /dev/shm /run /tmp; do mount -t tmpfs tmpfs $folder; done
mount -t configfs config /sys/kernel/config
ln -sfn /proc/self/fd /dev/fd
modprobe nvme
ip link set lo up
for wait in $(seq 50); do
  [ "$(ls /sys/class/nvme | wc -l)" -ge "$(cat /host/drives 2>/dev/null || echo 0)" ] && break
  sleep 0.1
done
cat > /run/lib.sh <<'LIB'
T=/run/thermocline
say() { echo "* $*"; }
# The namespace of the drive with serial number $1: names change from start to start.
drive() {
  local controller
  for controller in /sys/class/nvme/nvme*; do
    [ "$(tr -d ' ' < $controller/serial)" = "$1" ] && echo /dev/$(basename $(ls -d $controller/nvme*n1)) && return
  done
  echo "no drive $1" >&2; return 1
}
LIB
cp thermocline /run/thermocline
echo "kernel $(uname -r), $(cut -d' ' -f1 /proc/uptime) s after its start"
(cd /run && bash -eu -o pipefail -c '. /run/lib.sh; . /host/run.sh')
echo $? > /host/rc
sync
echo o > /proc/sysrq-trigger
sleep 60
