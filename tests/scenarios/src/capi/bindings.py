"""What Python's bindings of librados and librbd do on whatever library they find."""
import threading

import rados
import rbd


def objects(ioctx):
    ioctx.write_full('object', b'hello')
    ioctx.append('object', b' world')
    assert ioctx.read('object') == b'hello world'
    assert ioctx.stat('object')[0] == 11
    ioctx.set_xattr('object', 'colour', b'red')
    assert ioctx.get_xattr('object', 'colour') == b'red'
    assert dict(ioctx.get_xattrs('object')) == {'colour': b'red'}
    with rados.WriteOpCtx() as op:
        ioctx.set_omap(op, ('a', 'b'), (b'1', b'2'))
        ioctx.operate_write_op(op, 'object')
    with rados.ReadOpCtx() as op:
        entries, _ = ioctx.get_omap_vals(op, '', '', 10)
        ioctx.operate_read_op(op, 'object')
        assert list(entries) == [('a', b'1'), ('b', b'2')]
    done = threading.Event()
    completion = ioctx.aio_write('object', b'J', 0, oncomplete=lambda _: done.set())
    completion.wait_for_complete_and_cb()
    assert done.is_set() and completion.get_return_value() == 0
    assert ioctx.read('object', 1) == b'J'
    assert 'object' in [entry.key for entry in ioctx.list_objects()]
    ioctx.lock_exclusive('object', 'lock', 'cookie')
    try:
        ioctx.lock_exclusive('object', 'lock', 'other')
        raise AssertionError('two hold the lock')
    except rados.ObjectBusy:
        pass
    ioctx.unlock('object', 'lock', 'cookie')
    ioctx.remove_object('object')
    try:
        ioctx.read('object')
        raise AssertionError('the object is still there')
    except rados.ObjectNotFound:
        pass


def images(ioctx):
    library = rbd.RBD()
    library.create(ioctx, 'image', 32 << 20, features=1, old_format=False)
    assert 'image' in library.list(ioctx)
    with rbd.Image(ioctx, 'image') as image:
        assert image.size() == 32 << 20 and image.features() == 1 and not image.old_format()
        assert image.write(b'abc' * 1000, 4096) == 3000
        assert image.read(4096, 3000) == b'abc' * 1000
        image.metadata_set('key', 'value')
        assert image.metadata_get('key') == 'value'
        assert list(image.list_snaps()) == []
        done = []
        completion = image.aio_read(0, 8192, lambda _, data: done.append(len(data)))
        completion.wait_for_complete_and_cb()
        assert done == [8192]
        image.resize(48 << 20)
        assert image.size() == 48 << 20
        image.discard(0, 4 << 20)
        assert image.read(4096, 10) == bytes(10)
        image.flush()
        try:
            image.read(64 << 20, 1)
            raise AssertionError('there is something behind the end')
        except rbd.InvalidArgument:
            pass
    library.remove(ioctx, 'image')
    assert 'image' not in library.list(ioctx)


with rados.Rados(conffile='ceph.conf') as cluster:
    assert 'rbd' in cluster.list_pools() and len(cluster.get_fsid()) == 36
    result, output, _ = cluster.mon_command('{"prefix": "osd pool ls"}', b'')
    assert result == 0 and b'rbd' in output
    with cluster.open_ioctx('rbd') as ioctx:
        objects(ioctx)
        images(ioctx)
print('all is well')
