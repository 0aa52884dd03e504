# Zoned namespaces of 64 and of 1,024 zones, alone and behind a fast device: serve, load, kills, scrub.
# limit: 900
# drive: name=few mib=256 ns=zoned=on,zoned.zone_size=4M,zoned.zone_capacity=3M,zoned.max_open=10,zoned.max_active=14
# drive: name=many mib=4096 ns=zoned=on,zoned.zone_size=4M,zoned.zone_capacity=3M,zoned.max_open=10,zoned.max_active=14
# drive: name=plain mib=128

settings() { printf '[[volumes]]\nname = "main"\nsize = "%s"\n' $1; }
for name in few many; do
  device=$(drive $name)
  size=$([ $name = few ] && echo 96MiB || echo 1GiB)
  { printf '[device]\npath = "%s"\n' $device; settings $size; } > pool.toml
  $T doctor pool.toml
  $T format pool.toml
  $T serve pool.toml > serve.log 2>&1 & server=$!
  await pool.sock
  fio --name=fio --ioengine=nbd --uri='nbd+unix:///main?socket=/run/pool.sock' --rw=randwrite --bs=4k --iodepth=16 \
    --size=64m --io_size=32m --verify=crc32c --verify_state_save=0
  kill $server; wait $server
  $T format pool.toml --yes-destroy $device
  kills 3 pool.toml 96MiB $name.ledger
  $T scrub pool.toml
  say "$name: $(cat /sys/block/${device#/dev/}/queue/nr_zones) zones, served, 3 kills: $(zone_states $device)"
done

{ printf '[[device]]\npath = "%s"\nclass = "fast"\n[[device]]\npath = "%s"\n' $(drive plain) $(drive few); settings 96MiB; } > tier.toml
$T format tier.toml --yes-destroy $(drive few)
$T load tier.toml --workload zipf:0.9 --span 96MiB --drive-writes 1 --ledger tier.ledger
kills 3 tier.toml 96MiB tier.ledger
$T scrub tier.toml
say "tier of plain and few: 3 kills"
