# A drive of 12,288 zones: doctor, format, serve with fio verify, kills, scrub; times of format and start.
# limit: 900
# drive: name=vast mib=49152 ns=zoned=on,zoned.zone_size=4M,zoned.zone_capacity=3M,zoned.max_open=10,zoned.max_active=14

device=$(drive vast)
zones=$(cat /sys/block/${device#/dev/}/queue/nr_zones)
[ $zones = 12288 ]
printf '[device]\npath = "%s"\n[[volumes]]\nname = "main"\nsize = "30GiB"\n' $device > pool.toml
$T doctor pool.toml
# Prints the seconds that a command takes.
took() { local begun=$(date +%s%N); "$@" > took.log 2>&1 || { cat took.log; return 1; }; echo $((($(date +%s%N) - begun) / 1000000)); }
say "format: $(took $T format pool.toml) ms"
$T serve pool.toml > serve.log 2>&1 & server=$!
say "start: $(took await pool.sock) ms"
fio --name=fio --ioengine=nbd --uri='nbd+unix:///main?socket=/run/pool.sock' --rw=randwrite --bs=64k --iodepth=16 \
  --size=20g --io_size=96m --verify=crc32c --verify_state_save=0
$T status pool.toml | head -12
kill -9 $server; wait $server || true
rm pool.sock
$T serve pool.toml > serve.log 2>&1 & server=$!
say "start after a kill: $(took await pool.sock) ms"
kill $server; wait $server
# A check looks at each block of a volume.
sed -i 's/30GiB/1GiB/' pool.toml
$T format pool.toml --yes-destroy $device
kills 2 pool.toml 96MiB vast.ledger
$T scrub pool.toml
say "$zones zones, served, 2 kills: $(zone_states $device)"
