# Linux as an NVMe/TCP host: discovery, ext4, fio verify over kills of the server, a new volume, deallocate.
# limit: 1200
# drive: name=disk mib=1536

modprobe nvme-tcp
{ printf '[device]\npath = "%s"\n[pool]\nwrite_cache = false\n' $(drive disk)
  printf '[[volumes]]\nname = "main"\nsize = "512MiB"\n'; } > pool.toml
$T format pool.toml
serve() {
  rm -f pool.sock; $T serve pool.toml --nvme-tcp 127.0.0.1:4420 >> serve.log 2>&1 & server=$!
  for wait in $(seq 100); do (: <> /dev/tcp/127.0.0.1/4420) 2> /dev/null && return; sleep 0.1; done
  cat serve.log; return 1
}
# The block devices of the fabric, each with its size.
fabric() {
  local one
  for one in /sys/class/nvme/nvme*; do
    [ "$(cat $one/transport)" = tcp ] || continue
    for space in $one/nvme*n*; do [ -e $space ] && echo /dev/$(basename $space); done
  done
}
serve
nvme discover -t tcp -a 127.0.0.1 -s 4420 | tee discovery
name=$(sed -n 's/^subnqn: *\(nqn.2014-08.org.nvmexpress:uuid.*\)/\1/p' discovery | head -1)
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n $name --ctrl-loss-tmo=-1 --reconnect-delay=1
for wait in $(seq 100); do device=$(fabric | head -1); [ -b "$device" ] && break; sleep 0.1; done
say "discovered and connected: $device, $(($(cat /sys/block/${device#/dev/}/size) / 2048)) MiB"
nvme id-ctrl $device | grep -E '^(sn|mn|nn|oncs|vwc)'
nvme id-ns $device | tail -4
nvme smart-log $device | head -3

mkfs.ext4 -q $device
mkdir mnt; mount -o discard $device mnt
cp -r /etc mnt/; sync -f mnt; echo 3 > /proc/sys/vm/drop_caches
diff -r --no-dereference /etc mnt/etc
rm -r mnt/etc; fstrim mnt; umount mnt
e2fsck -fn $device
say "ext4: made, copied, compared, trimmed, sound"

fio --name=verify --filename=$device --direct=1 --ioengine=libaio --rw=randwrite --bs=4k --iodepth=32 --size=64m \
  --verify=crc32c --verify_state_save=0 > fio.verify 2>&1 & fio=$!
kills=0
while sleep 2; kill -0 $fio 2> /dev/null; do
  [ $kills -lt 3 ] || continue
  kill -9 $server; wait $server || true
  serve
  kills=$((kills + 1))
done
wait $fio || { cat fio.verify; false; }
[ $kills -ge 1 ]
say "fio verify of 64 MiB: no error over $kills kills of the server"

blkdiscard $device
cmp -n 67108864 $device /dev/zero
blkdiscard --zeroout --length 16MiB $device
$T volume create pool.toml later 64MiB
for wait in $(seq 100); do [ "$(fabric | wc -l)" = 2 ] && break; sleep 0.1; done
[ "$(fabric | wc -l)" = 2 ]
say "deallocated blocks read zeros; a new volume is a new namespace"

# Requests per second of 4 KiB on disk $1 at depth $2, by $3.
rate() {
  fio --name=rate --filename=$1 --direct=1 --ioengine=libaio --rw=$3 --bs=4k --iodepth=$2 --size=64m --runtime=5 \
    --time_based --output-format=json > fio.json
  awk -v kind=${3#rand} '$1 ~ kind { on = 1 } on && $1 ~ /"iops"/ { gsub(",", "", $3); print int($3); exit }' fio.json
}
modprobe nbd
nbd-client -unix pool.sock /dev/nbd0 -name main
for kind in randwrite randread; do
  for depth in 1 16; do
    tcp=$(rate $device $depth $kind); nbd=$(rate /dev/nbd0 $depth $kind)
    say "$kind of 4 KiB at depth $depth: $tcp requests/s by NVMe/TCP, $nbd by NBD"
  done
done
nbd-client -d /dev/nbd0
nvme disconnect -n $name
[ -z "$(fabric)" ]
kill $server; wait $server
$T check pool.toml
