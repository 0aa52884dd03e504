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
