# Corners of the NBD protocol for `nbdsh`. `URI` is the second volume of the pool.
import errno
h.set_export_name("second")
h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
h.set_strict_mode(0)
h.connect_uri(URI)
size = h.get_size()
assert size == 16 << 20
assert h.get_block_size(nbd.SIZE_MINIMUM) == 512
assert h.get_block_size(nbd.SIZE_PREFERRED) == 4096
assert h.get_structured_replies_negotiated()

def fails(code, call, *arguments):
    try:
        call(*arguments)
    except nbd.Error as error:
        assert error.errno == errno.errorcode[code], (error.errno, errno.errorcode[code])
    else:
        raise AssertionError((call, arguments))

fails(errno.EINVAL, h.pread, 512, size)
fails(errno.EINVAL, h.pread, 512, 100)
fails(errno.EINVAL, h.pread, 100, 0)
fails(errno.ENOSPC, h.pwrite, bytes(512), size)
fails(errno.EINVAL, h.pwrite, bytes(100), 0)
fails(errno.EINVAL, h.trim, 512, size)
fails(errno.ENOSPC, h.zero, 512, size)
fails(errno.EINVAL, h.block_status, 512, size, lambda *_: 0)
fails(errno.EINVAL, h.pread, 0, 0)
h.pwrite(b"a" * 512, 512, nbd.CMD_FLAG_FUA)
assert h.pread(1536, 0) == bytes(512) + b"a" * 512 + bytes(512)
assert h.pread(512, 512, nbd.CMD_FLAG_DF) == b"a" * 512
h.zero(512, 512, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
assert h.pread(512, 512) == bytes(512)
h.pwrite(b"b" * 8192, 8192)
h.trim(4096, 8192, nbd.CMD_FLAG_FUA)
assert h.pread(8192, 8192) == bytes(4096) + b"b" * 4096
h.cache(8192, 0)
h.flush()
told = []
def extents(context, offset, entries, error):
    told.append((context, offset, list(entries)))
    return 0
h.block_status(16384, 8192, extents, nbd.CMD_FLAG_REQ_ONE)
assert told == [("base:allocation", 8192, [4096, 3])], told
cookies = [h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray([n] * 4096)), n * 4096) for n in range(64)]
for cookie in cookies:
    while not h.aio_command_completed(cookie):
        h.poll(-1)
assert all(h.pread(4096, n * 4096) == bytes([n] * 4096) for n in range(64))
big = h.pread(16 << 20, 0)
assert len(big) == 16 << 20
h.shutdown()
old = nbd.NBD()
old.set_request_structured_replies(False)
old.set_handshake_flags(0)
old.connect_uri(URI)
assert not old.get_structured_replies_negotiated()
assert old.pread(4096, 4096) == bytes([1] * 4096)
old.shutdown()
