# Power cuts below `load`: hundreds of disks that a cut may leave, each checked with the ledger of that moment.
# limit: 600
# drive: name=cut mib=192 logged

device=$(drive cut)
cat > pool.toml <<P
[device]
path = "$device"
size = "191MiB"
unit = "8MiB"
[[volumes]]
name = "main"
size = "48MiB"
P
$T format pool.toml
mkdir /host/points
$T load pool.toml --workload zipf:0.8 --span 48MiB --drive-writes 400 --ledger ledger --flush-every 2048 \
  > load.log 2>&1 & load=$!
await ledger
sleep 2
for point in $(seq 0 39); do
  sleep 0.$((1 + RANDOM % 8))
  kill -STOP $load || { cat load.log; exit 1; }
  cp ledger /host/points/$point
  { echo $point; head -c 4096 /dev/zero; } | head -c 4096 > mark
  dd if=mark of=$device bs=4096 seek=$((192 * 256 - 1)) oflag=direct conv=notrunc status=none
  kill -CONT $load
done
kill -INT $load; wait $load || true
tail -3 load.log
$T check pool.toml --ledger ledger
say "40 points"
