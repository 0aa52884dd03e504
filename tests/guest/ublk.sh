# Block devices by ublk: ext4 over killed servers, discard, volumes that come and go; speed beside NBD and files.
# limit: 900

modprobe -a ublk_drv nbd fuse loop
cat > pool.toml <<'TOML'
[device]
path = "/dev/shm/device"
size = "700MiB"
[pool]
write_cache = false
[[volumes]]
name = "main"
size = "256MiB"
TOML
$T format pool.toml
$T doctor pool.toml || true

serve() { $T serve pool.toml --ublk "$@" >> serve.log 2>&1 & server=$!; uris; device=$(of main); }
uris() { $T serve pool.toml --wait > uris; }
# The device of volume $1.
of() { sed -n "s/^$1: //p" uris; }
serve
grep 'main: /dev/ublkb0' uris
$T status pool.toml | grep '/dev/ublkb0'
queue=/sys/block/ublkb0/queue
lsblk -bo NAME,SIZE,LOG-SEC,PHY-SEC,DISC-GRAN,DISC-MAX,RO /dev/ublkb0
[ "$(cat $queue/write_cache) $(cat $queue/fua) $(cat $queue/logical_block_size)" = "write back 1 512" ]
[ "$(blockdev --getsize64 /dev/ublkb0)" = $((256 << 20)) ]

mkfs.ext4 -q /dev/ublkb0
mkdir -p /mnt && mount -o discard /dev/ublkb0 /mnt
verify="--ioengine=libaio --direct=1 --bs=4k --iodepth=16 --verify=crc32c --verify_state_save=0 --output-format=terse"
fio --name=a --filename=/mnt/a --rw=randwrite --size=32m --io_size=48m $verify --end_fsync=1 > fio.log 2>&1 & fio=$!
for kill in 1 2 3; do
  sleep 2
  kill -9 $server; wait $server || true
  [ $kill = 2 ] && sleep 3
  serve
done
wait $fio || { cat fio.log; exit 1; }
grep -c 'is served again' serve.log
say "3 kills of the server under fio on ext4: written and verified"
sleep 2
$T volume delete pool.toml main --yes-destroy main && exit 1
say "the mounted volume is not deleted: exit code $?"
umount /mnt
e2fsck -fn /dev/ublkb0
kill $server; wait $server
[ ! -e /dev/ublkb0 ]
say "a stop removes the device"

# With the write cache a server can be replaced, but a killed server has lost writes.
sed -i '/write_cache/d' pool.toml
rm -f serve.log
serve
mount -o discard /dev/ublkb0 /mnt
dd if=/dev/urandom of=/mnt/b bs=1M count=16 status=none
sha256sum /mnt/b > sums
kill $server; wait $server
grep 'in use' serve.log
cat pool.ublk
dd if=/dev/urandom of=/mnt/c bs=1M count=16 conv=fsync status=none & sync=$!
sleep 1
serve
wait $sync
sync -f /mnt
echo 3 > /proc/sys/vm/drop_caches
sha256sum -c sums
say "a server that stopped under a file system was replaced"
kill -9 $server; wait $server || true
serve
grep 'is removed' serve.log
if dd if=/dev/zero of=/mnt/d bs=1M count=16 conv=fsync status=none; then exit 1; fi
umount /mnt
kill $server; wait $server
rm -f serve.log
serve
mount $device /mnt
sha256sum -c sums
say "users of a killed server with a write cache get errors, and the file system recovers"
umount /mnt
e2fsck -fn $device
blkdiscard $device
cmp -n $((256 << 20)) $device /dev/zero
fio --name=z --filename=$device --rw=randtrim --size=64m --io_size=16m --bs=64k --ioengine=libaio --direct=1 > log
blkdiscard -z -o 0 -l 1048576 $device
say "discard and zeroing"

$T volume create pool.toml second 32MiB
until uris; [ "$(of second)" ]; do sleep 0.1; done
second=$(of second)
dd if=/dev/urandom of=$second bs=1M count=32 oflag=direct status=none
$T volume rename pool.toml second third
for i in $(seq 50); do grep -q ' third' pool.ublk && break; sleep 0.1; done
cat pool.ublk
$T volume delete pool.toml third --yes-destroy third
for i in $(seq 50); do [ -e $second ] || break; sleep 0.1; done
[ ! -e $second ]
say "a volume made and deleted while served came and went as a device"
kill $server; wait $server

# One server, three ways to its volume, in turns.
mkdir -p files
serve --fuse files
nbd-client -unix pool.sock -N main /dev/nbd0 -b 4096
loop=$(losetup --direct-io=on --sector-size 4096 --find --show files/main)
dd if=/dev/urandom of=$device bs=1M count=256 oflag=direct status=none
ticks() { awk '{ print $14 + $15 }' /proc/$server/stat; }
# Appends "name workload requests milliseconds ticks".
measure() {
  local before=$(ticks)
  fio --name=m --filename=$2 --rw=$3 --iodepth=$4 --ioengine=libaio --direct=1 --bs=4k --size=256m --time_based \
    --runtime=4 --randrepeat=0 --output-format=terse --terse-version=3 > fio.log
  awk -F';' -v n=$1 -v w=$3:$4 -v t=$(($(ticks) - before)) \
    '{ print n, w, ($6 + $47) / 4, $9 + $50, t }' fio.log >> measured
}
for round in 1 2 3; do
  for load in "randwrite 1" "randread 1" "randwrite 16" "randread 16"; do
    measure ublk $device $load
    measure nbd /dev/nbd0 $load
    measure fuse+loop $loop $load
  done
done
awk '{ requests[$1 " " $2] += $3; time[$1 " " $2] += $4; ticks[$1 " " $2] += $5 }
  END { for (key in requests) { r = requests[key]; printf "* %s: %d IOPS, %.1f us of the server per request\n",
    key, r * 1000 / time[key], ticks[key] * 10000 / r } }' measured | sort -k3,3 -k2,2
nbd-client -d /dev/nbd0
losetup -d $loop
kill $server; wait $server
