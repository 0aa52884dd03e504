# A drive with FDP: format, load and check of a pool, with the drive's own counters of each handle.
# limit: 600
# drive: name=fdp mib=1024 subsys=fdp=on,fdp.runs=16M,fdp.nrg=1,fdp.nruh=8 ns=fdp.ruhs=0-7

device=$(drive fdp)
controller=${device%n1}
queue=/sys/block/${device#/dev/}/queue
say "streams $(cat $queue/max_write_streams) of $(cat $queue/write_stream_granularity) bytes"
[ "$(cat $queue/max_write_streams)" -ge 2 ]
counters() { nvme fdp status $device; nvme fdp stats $controller -e 1; }
counters | tee before
printf '[device]\npath = "%s"\n' $device > pool.toml
for volume in a b; do printf '[[volumes]]\nname = "%s"\nsize = "100MiB"\n' $volume; done >> pool.toml
$T doctor pool.toml
$T format pool.toml
for volume in a b; do
  $T load pool.toml --into $volume --workload uniform --span 64MiB --drive-writes 2 --ledger $volume.ledger
done
$T check pool.toml --ledger a.ledger
counters | tee after
! cmp before after
say "bytes: $(grep -i bytes after | tr -s ' ' | tr '\n' ' ')"
