# nbd.ko on a served volume: ext4, xfs, fio verify, blkdiscard, and a killed server under a mounted client.
# limit: 1200
# drive: name=disk mib=1536

modprobe nbd nbds_max=2
modprobe xfs
printf '[device]\npath = "%s"\n[[volumes]]\nname = "main"\nsize = "512MiB"\n' $(drive disk) > pool.toml
$T format pool.toml
serve() { rm -f pool.sock; $T serve pool.toml >> serve.log 2>&1 & server=$!; await pool.sock; }
# Requests per second and server processor per request, of process $1 under fio on device $2.
cost() {
  local before after
  ticks() { awk '{ print $14 + $15 }' /proc/$1/stat; }
  before=$(ticks $1)
  fio --name=cost --filename=$2 --direct=1 --ioengine=libaio --rw=randwrite --bs=4k --iodepth=16 --size=64m \
    --io_size=16m --output-format=terse > fio.out
  after=$(ticks $1)
  say "$3: $(cut -d';' -f49 fio.out | tail -1) requests/s, $(((after - before) * 10000 / 4096)) us of processor each"
}
serve
nbd-client -unix pool.sock /dev/nbd0 -name main
for kind in ext4 xfs; do
  wipefs -qa /dev/nbd0
  mkfs.$kind -q /dev/nbd0
  mkdir -p mnt; mount -o discard /dev/nbd0 mnt
  fio --name=verify --directory=mnt --rw=randwrite --bs=4k --size=16m --fsync=64 --ioengine=psync --verify=crc32c \
    --verify_state_save=0
  cp -r /etc mnt/; sync -f mnt; rm -r mnt/etc; fstrim mnt
  umount mnt
  [ $kind = ext4 ] && e2fsck -fn /dev/nbd0 || xfs_repair -n /dev/nbd0
  say "$kind: made, verified, trimmed, sound"
done
blkdiscard /dev/nbd0
cmp -n 16777216 /dev/nbd0 /dev/zero
say "blkdiscard: reads zeros"
cost $server /dev/nbd0 serve
nbdkit -U kit.sock -P kit.pid memory 512M
await kit.pid
nbd-client -unix kit.sock /dev/nbd1
cost $(cat kit.pid) /dev/nbd1 "nbdkit memory"
nbd-client -d /dev/nbd1
dd if=/dev/urandom of=pattern bs=1M count=16
dd if=pattern of=/dev/nbd0 bs=1M oflag=direct conv=fsync
kill -9 $server; wait $server || true
nbd-client -d /dev/nbd0
serve
nbd-client -unix pool.sock /dev/nbd0 -name main
dd if=/dev/nbd0 of=back bs=1M count=16 iflag=direct
cmp pattern back
say "killed server: another one has what was flushed"
nbd-client -d /dev/nbd0
kill $server; wait $server
$T check pool.toml
$T scrub pool.toml
