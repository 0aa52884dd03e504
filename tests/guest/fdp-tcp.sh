# A simulated drive with FDP as an NVMe drive of Linux: handles, honest statistics, WAF with and without them.
# limit: 900

modprobe nvme-tcp
{ printf '[device]\npath = "drive.img"\nkind = "simulated"\nprofile = "pm9d3"\nsize = "256MiB"\n'
  printf '[pool]\nlayer = "raw"\n[[volumes]]\nname = "main"\n'; } > drive.toml
# The block device of the fabric.
fabric() {
  local one
  for one in /sys/class/nvme/nvme*; do
    [ "$(cat $one/transport)" = tcp ] || continue
    for space in $one/nvme*n*; do [ -e $space ] && echo /dev/$(basename $space); done
  done
}
# Writes hot and cold data, with the handles $1 and $2. Prints bytes of the host and of the media.
measure() {
  rm -f drive.img
  $T serve drive.toml --nvme-tcp 127.0.0.1:4420 >> serve.log 2>&1 & server=$!
  for wait in $(seq 100); do (: <> /dev/tcp/127.0.0.1/4420) 2> /dev/null && break; sleep 0.1; done
  nvme discover -t tcp -a 127.0.0.1 -s 4420 > discovery
  name=$(sed -n 's/^subnqn: *\(nqn.2014-08.org.nvmexpress:uuid.*\)/\1/p' discovery | head -1)
  nvme connect -t tcp -a 127.0.0.1 -s 4420 -n $name
  for wait in $(seq 100); do device=$(fabric | head -1); [ -b "$device" ] && break; sleep 0.1; done
  size=$(blockdev --getsize64 $device)
  hot=$((size / 10 / 65536 * 65536))
  common="--ioengine=io_uring_cmd --cmd_type=nvme --filename=${device/nvme/ng} --fdp=1 --bs=16k --iodepth=16 --thread"
  fio $common --name=fill --rw=write --fdp_pli=$1 > fio.fill 2>&1
  fio $common --rw=randwrite --norandommap --randseed=7 --flow_id=1 \
    --name=hot --fdp_pli=$2 --size=$hot --io_size=$((4 * size)) --flow=9 \
    --name=cold --fdp_pli=$1 --offset=$hot --size=$((size - hot)) --io_size=$((4 * size / 9)) --flow=1 \
    > fio.mix 2>&1 || { cat fio.mix; return 1; }
  nvme fdp stats ${device%n1} -e 1 | tr -dc '0-9\n' | paste -s > bytes
}
measure 0 0
queue=/sys/block/${device#/dev/}/queue
say "streams $(cat $queue/max_write_streams) of $(cat $queue/write_stream_granularity) bytes"
[ "$(cat $queue/max_write_streams)" = 8 ]
nvme fdp configs ${device%n1} -e 1 | head -20
nvme fdp usage ${device%n1} -e 1
nvme fdp status $device | head -4
$T drive stat $device | tee stat
grep -q "FDP statistics" stat
mixed=$(cat bytes)
nvme disconnect -n $name; kill $server; wait $server
measure 0 1
apart=$(cat bytes)
nvme disconnect -n $name; kill $server; wait $server
waf() { awk '{print $2 / $1}' <<< "$1"; }
say "bytes of the host, of the media, erased: one handle $mixed, two handles $apart"
say "WAF by the statistics: one handle $(waf "$mixed"), two handles $(waf "$apart")"
awk -v one=$(waf "$mixed") -v two=$(waf "$apart") 'BEGIN { exit !(two < one && two >= 1) }'
