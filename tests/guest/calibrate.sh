# `drive watch` and `drive calibrate` on a live drive whose truth is known: a simulated one, as an NVMe drive of Linux.
# limit: 900

modprobe nvme-tcp
{ printf '[device]\npath = "drive.img"\nkind = "simulated"\nprofile = "pm9d3"\nsize = "128MiB"\n'
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
fio --name=random --filename=$device --direct=1 --ioengine=libaio --rw=randwrite --bs=4k --iodepth=32 --loops=3 \
  > fio.log 2>&1
sleep 1
kill -INT $watch; wait $watch || true
say "$(wc -l < watch.jsonl) readings, the last: $(tail -1 watch.jsonl | head -c 300)"
$T drive calibrate --log watch.jsonl --capacity $(blockdev --getsize64 $device) --workload random-map --span 128MiB \
  --out found.toml | tee calibrate
cat found.toml
$T drive predict --help > /dev/null
nvme disconnect -n $name; kill $server; wait $server
# The spare of the profile is 16.9 %.
op=$(sed -n 's/^overprovisioning = //p' found.toml)
say "overprovisioning: found $op, true 0.169"
awk -v found=$op 'BEGIN { exit !(found > 0.14 && found < 0.20) }'
