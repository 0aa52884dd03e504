# Host writes, survivors and metadata go to handles of their own on a drive with FDP, and to one without write streams.
# limit: 900
# drive: name=fdp mib=384 subsys=fdp=on,fdp.runs=16M,fdp.nrg=1,fdp.nruh=8 ns=fdp.ruhs=0-7

device=$(drive fdp)
queue=/sys/block/${device#/dev/}/queue
say "streams $(cat $queue/max_write_streams) of $(cat $queue/write_stream_granularity) bytes"
[ "$(cat $queue/max_write_streams)" = 8 ]
# Logical blocks that each handle can still write to its unit, a line each.
left() { nvme fdp status $device | sed -n 's/.*RUAMW): *//p'; }
# Handles whose unit is not as at the start.
used() { left | paste start - | awk '$1 != $2 {printf "%d ", NR - 1}'; }
left > start
printf 'write_streams = 0\npath = "%s"\n' $device | sed '1i [device]' > none.toml
printf '[pool]\nplacement = "sepgc"\n' >> none.toml
for volume in a b; do printf '[[volumes]]\nname = "%s"\nsize = "150MiB"\n' $volume; done >> none.toml
grep -v write_streams none.toml > pool.toml
$T doctor pool.toml | grep "write streams"
for settings in none pool; do
  $T format $settings.toml --yes-destroy $device
  for volume in a b; do
    $T load $settings.toml --into $volume --workload zipf:0.99 --span 150MiB --drive-writes 2 \
      --ledger $volume.ledger --flush-every 4096
    $T check $settings.toml --ledger $volume.ledger
  done
  used > $settings.used
  say "$settings.toml: handles written: $(cat $settings.used)"
done
[ "$(cat none.used)" = "0 " ]
[ "$(cat pool.used)" = "0 1 7 " ]
nvme fdp stats ${device%n1} -e 1 | tee stats
say "bytes: $(tr -s ' ' < stats | tr '\n' ' ')"
