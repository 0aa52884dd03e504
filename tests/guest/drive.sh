# `drive stat` of a drive with FDP, and of records that nvme-cli made of it: text, JSON, pages. The folder has them.
# limit: 600
# drive: name=fdp mib=256 subsys=fdp=on,fdp.runs=16M,fdp.nrg=1,fdp.nruh=4 ns=fdp.ruhs=0-3

device=$(drive fdp)
controller=${device%n1}
mkdir -p /host/records; cd /host/records
dd if=/dev/urandom of=$device bs=1M count=64 oflag=direct
for form in normal json binary; do
  nvme smart-log $controller -o $form > smart-log.$form
  nvme endurance-log $controller -g 1 -o $form > endurance-log.$form || say "nvme-cli has no endurance-log as $form"
  nvme fdp stats $controller -e 1 -o $form > fdp-stats.$form || say "nvme-cli has no fdp stats as $form"
done
nvme id-ctrl $controller -o json > id-ctrl.json
nvme fdp usage $controller -e 1 > fdp-usage.normal
nvme fdp configs $controller -e 1 > fdp-configs.normal
nvme fdp events $controller -e 1 > fdp-events.normal
for form in normal json binary; do
  $T drive stat smart-log.$form fdp-stats.$form > stat.$form
  say "$form: $(tail -1 stat.$form)"
  grep -q '^WAF: 1\.[0-9]* since' stat.$form
done
$T drive list
$T drive stat $device --record live.json | tee stat.live
$T drive stat live.json > stat.again
diff stat.live stat.again
[ "$(grep '^WAF' stat.live)" = "$(grep '^WAF' stat.json)" ]
say "live: $(grep '^WAF' stat.live)"
timeout 20 $T drive watch $device --every 1s --count 2

# A served pool tells DLWA of the drive below it, with the page.
printf '[device]\npath = "%s"\n[[volumes]]\nname = "main"\nsize = "64MiB"\n' $device > /run/pool.toml
cd /run
$T doctor pool.toml | tee doctor
for fact in unit streams zones cache media; do grep -q "$fact" doctor; done
$T format pool.toml --yes-destroy $device
$T serve pool.toml --http 127.0.0.1:9400 > serve.log 2>&1 & server=$!
await pool.sock
fio --name=fio --ioengine=nbd --uri='nbd+unix:///main?socket=/run/pool.sock' --rw=randwrite --bs=4k --iodepth=16 \
  --size=64m --io_size=32m
sleep 6
$T status pool.toml | tee status
grep -q "drive $device: DLWA 1\.[0-9]* since the service began, by FDP statistics" status
say "$(grep DLWA status)"
say "$($T stat pool.toml | tail -1)"
exec 3<> /dev/tcp/127.0.0.1/9400
printf 'GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' >&3
cat <&3 > metrics
grep '^thermocline_dlwa_ratio 1' metrics
grep '^thermocline_drive_media_written_bytes_total' metrics
kill $server; wait $server
