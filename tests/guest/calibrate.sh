# `drive watch` and `drive calibrate` on a live drive whose truth is known: a simulated one, as an NVMe drive of Linux.
# limit: 900

modprobe nvme-tcp
cat > truth.toml <<'TOML'
name = "truth"
title = "a drive whose spare is known"
kind = "fdp"
capacity = "128MiB"
op = 0.20
mapping_unit = "4KiB"
[gc]
victim = "greedy"
[fdp]
groups = 1
handles = 4
persistently_isolated = false
[geometry]
channels = 1
dies = 1
planes = 1
page = "4KiB"
block = "1MiB"
unit = "512KiB"
[source]
"*" = "chosen"
TOML
{ printf '[device]\npath = "drive.img"\nkind = "simulated"\nprofile = "truth.toml"\nsize = "128MiB"\n'
  printf '[pool]\nlayer = "raw"\n[[volumes]]\nname = "main"\n'; } > drive.toml
$T serve drive.toml --nvme-tcp 127.0.0.1:4420 > serve.log 2>&1 & server=$!
for wait in $(seq 100); do (: <> /dev/tcp/127.0.0.1/4420) 2> /dev/null && break; sleep 0.1; done
nvme discover -t tcp -a 127.0.0.1 -s 4420 > discovery
name=$(sed -n 's/^subnqn: *\(nqn.2014-08.org.nvmexpress:uuid.*\)/\1/p' discovery | head -1)
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n $name
for wait in $(seq 100); do
  device=$(for one in /sys/class/nvme/nvme*; do
    [ "$(cat $one/transport)" = tcp ] && ls -d $one/nvme*n* 2> /dev/null | head -1
  done)
  device=/dev/$(basename "$device")
  [ -b $device ] && break
  sleep 0.1
done
$T drive watch $device --every 200ms --json > watch.jsonl 2> watch.err & watch=$!
sleep 1
for seed in 1 2; do
  fio --name=random --filename=$device --direct=1 --ioengine=libaio --rw=randwrite --bs=4k --iodepth=32 \
    --randseed=$seed \
    > fio.log 2>&1
done
sleep 1
kill -INT $watch; wait $watch || true
say "$(wc -l < watch.jsonl) readings, the last: $(tail -1 watch.jsonl | head -c 300)"
$T drive calibrate --log watch.jsonl --capacity $(blockdev --getsize64 $device) --out found.toml | tee calibrate
cat found.toml
nvme disconnect -n $name; kill $server; wait $server
op=$(sed -n 's/^op = //p' found.toml)
say "overprovisioning: found $op, true 0.20"
awk -v found=$op 'BEGIN { exit !(found > 0.19 && found < 0.21) }'
