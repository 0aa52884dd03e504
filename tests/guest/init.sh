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
# Waits until $1 exists.
await() { local i; for i in $(seq 300); do [ -e "$1" ] && return; sleep 0.1; done; echo "no $1" >&2; return 1; }
# Prints the states of zones of device $1.
zone_states() { blkzone report $1 | grep -o 'zcond:[ ]*[0-9]*([a-z-]*)' | sort | uniq -c | tr -s ' \n' ' '; }
# $1 kills during `load` on settings $2 with a volume of $3 and ledger $4, each followed by a check.
kills() {
  local i p
  for i in $(seq $1); do
    $T load $2 --workload zipf:0.9 --span $3 --drive-writes 50 --ledger $4 --flush-every 256 > load.log 2>&1 & p=$!
    sleep $((1 + i % 3)).$((RANDOM % 10)); kill -9 $p || { cat load.log; return 1; }; wait $p || true
    $T check $2 --ledger $4
  done
}
LIB
cp thermocline /run/thermocline
echo "kernel $(uname -r), $(cut -d' ' -f1 /proc/uptime) s after its start"
(cd /run && bash -eu -o pipefail -c '. /run/lib.sh; . /host/run.sh')
echo $? > /host/rc
sync
echo o > /proc/sysrq-trigger
sleep 60
