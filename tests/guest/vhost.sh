# A volume as a disk by vhost-user: facts, ext4, fio verify while the server is killed, blkdiscard; NBD beside it.
# limit: 1200
# volume: name=main mib=512 vhost-user nbd

# The disk with serial number $1.
disk() { local one; for one in /sys/block/vd*; do [ "$(cat $one/serial)" != "$1" ] || { basename $one; return; }; done; return 1; }
main=$(disk main)
queue=/sys/block/$main/queue
[ "$(cat /sys/block/$main/size)" = 1048576 ]
[ "$(cat $queue/write_cache)" = "write back" ]
[ "$(cat $queue/discard_max_bytes)" -ge 1073741824 ]
[ "$(cat $queue/write_zeroes_max_bytes)" -ge 1073741824 ]
[ "$(cat $queue/logical_block_size) $(cat $queue/physical_block_size)" = "512 4096" ]
say "$main: serial main, discard, write zeroes, write back, $(ls /sys/block/$main/mq | wc -l) queues"

mkfs.ext4 -q /dev/$main
mkdir mnt; mount -o discard /dev/$main mnt
cp -r /etc mnt/; sync -f mnt; echo 3 > /proc/sys/vm/drop_caches
diff -r --no-dereference /etc mnt/etc
rm -r mnt/etc; fstrim mnt; umount mnt
e2fsck -fn /dev/$main
say "ext4: made, copied, compared, trimmed, sound"

fio --name=verify --filename=/dev/$main --direct=1 --ioengine=libaio --rw=randwrite --bs=4k --iodepth=32 --size=256m \
  --verify=crc32c --verify_state_save=0 > fio.verify 2>&1 & fio=$!
kills=0
while sleep 1; kill -0 $fio 2> /dev/null; do
  [ $kills -lt 4 ] || continue
  echo > /host/kill
  while [ -e /host/kill ]; do sleep 0.05; done
  kills=$((kills + 1))
done
wait $fio || { cat fio.verify; false; }
[ $kills -ge 2 ]
say "fio verify of 256 MiB: no error over $kills kills of the server"

blkdiscard /dev/$main
cmp -n 268435456 /dev/$main /dev/zero
say "blkdiscard: reads zeros"

# Requests per second of 4 KiB on disk $1 at depth $2, by $3.
rate() {
  fio --name=rate --filename=/dev/$1 --direct=1 --ioengine=libaio --rw=$3 --bs=4k --iodepth=$2 --size=64m --runtime=5 \
    --time_based --output-format=json > fio.json
  awk -v kind=${3#rand} '$1 ~ kind { on = 1 } on && $1 ~ /"iops"/ { gsub(",", "", $3); print int($3); exit }' fio.json
}
for kind in randwrite randread; do
  for depth in 1 16; do
    guest=$(rate $main $depth $kind); nbd=$(rate $(disk main-nbd) $depth $kind)
    say "$kind of 4 KiB at depth $depth: $guest requests/s by vhost-user, $nbd by NBD: $(awk "BEGIN { printf \"%.2f\", $guest / $nbd }") times"
  done
done
