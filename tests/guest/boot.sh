# A machine whose root is a served volume over vhost-user: copies, comparisons, a killed server, fstrim.
# limit: 900
# volume: name=main mib=3072 vhost-user root

[ "$(cat /sys/block/vda/serial)" = main ]
grep -q '^/dev/vda\|^/dev/root' /proc/mounts || mountpoint /
mkdir /srv/a
cp -r /usr/share /srv/a/1
sync -f /srv
echo > /host/kill
while [ -e /host/kill ]; do sleep 0.05; done
echo 3 > /proc/sys/vm/drop_caches
diff -r --no-dereference /usr/share /srv/a/1
rm -r /srv/a
fstrim -v /
say "root on a volume: $(du -sxm /usr/share | cut -f1) MiB copied, the server killed, compared, discarded"
