/*
 * What programs in C rely on, and what is easily got wrong. It runs on Ceph's own libraries and on ours.
 *
 *     traps CONF [ours]
 *
 * CONF names a cluster with a pool "rbd". With "ours", what only our library promises is tried, too.
 */
#include "check.h"
#include <dirent.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <rbd/librbd.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

static rbd_image_t new_image(const char *name, uint64_t size) {
    rbd_image_t image;
    int order = 0;
    EQUAL(rbd_create2(pool, name, size, RBD_FEATURE_LAYERING, &order), 0);
    EQUAL(order, 22);
    EQUAL(rbd_open(pool, name, &image, NULL), 0);
    return image;
}

static void settings_are_kept(void) {
    rados_t handle;
    char value[64], small[3];
    EQUAL(rados_create(&handle, NULL), 0);
    EQUAL(rados_conf_set(handle, "no_such_setting_of_anybody", "1"), -ENOENT);
    EQUAL(rados_conf_get(handle, "no_such_setting_of_anybody", value, sizeof value), -ENOENT);
    EQUAL(rados_conf_set(handle, "rbd_cache", "false"), 0);
    EQUAL(rados_conf_get(handle, "rbd_cache", value, sizeof value), 0);
    CHECK(strcmp(value, "false") == 0);
    EQUAL(rados_conf_get(handle, "rbd_cache", small, sizeof small), -ENAMETOOLONG);
    EQUAL(rados_conf_read_file(handle, "/no/such/file"), -ENOENT);
    rados_shutdown(handle);
    /* fio sets this when it is connected. */
    EQUAL(rados_conf_set(cluster, "rbd_cache", "false"), 0);
    EQUAL(rados_connect(cluster), -EISCONN);
}

static void objects_return_what_is_documented(void) {
    char buf[64] = {0};
    uint64_t size;
    time_t time_of;
    EQUAL(rados_write(pool, "object", "hello", 5, 0), 0);
    EQUAL(rados_append(pool, "object", " world", 6), 0);
    EQUAL(rados_read(pool, "object", buf, sizeof buf, 0), 11);
    CHECK(memcmp(buf, "hello world", 11) == 0);
    EQUAL(rados_read(pool, "object", buf, sizeof buf, 11), 0);
    EQUAL(rados_read(pool, "object", buf, 5, 6), 5);
    EQUAL(rados_stat(pool, "object", &size, &time_of), 0);
    EQUAL(size, 11);
    EQUAL(rados_stat(pool, "object", NULL, NULL), 0);
    EQUAL(rados_write_full(pool, "object", "short", 5), 0);
    EQUAL(rados_read(pool, "object", buf, sizeof buf, 0), 5);
    EQUAL(rados_trunc(pool, "object", 2), 0);
    EQUAL(rados_read(pool, "object", buf, sizeof buf, 0), 2);
    EQUAL(rados_read(pool, "nothing", buf, sizeof buf, 0), -ENOENT);
    EQUAL(rados_remove(pool, "nothing"), -ENOENT);
    EQUAL(rados_write(pool, "object", buf, (size_t)UINT_MAX / 2 + 1, 0), -E2BIG);
    EQUAL(rados_writesame(pool, "object", buf, 2, UINT_MAX, 0), -E2BIG);
    EQUAL(rados_remove(pool, "object"), 0);
}

static void attributes_and_maps_are_walked_over(void) {
    char buf[8];
    const char *name, *value;
    char *key, *val;
    size_t len;
    int count = 0, result = 1;
    unsigned char more = 1;
    rados_xattrs_iter_t attributes;
    rados_omap_iter_t entries;
    const char *keys[] = {"a", "b"}, *values[] = {"1", "22"};
    size_t lengths[] = {1, 2};
    rados_write_op_t change = rados_create_write_op();
    rados_read_op_t look = rados_create_read_op();
    EQUAL(rados_write_full(pool, "attributes", "x", 1), 0);
    EQUAL(rados_setxattr(pool, "attributes", "colour", "red", 3), 0);
    EQUAL(rados_getxattr(pool, "attributes", "colour", buf, sizeof buf), 3);
    EQUAL(rados_getxattr(pool, "attributes", "colour", buf, 2), -ERANGE);
    EQUAL(rados_getxattr(pool, "attributes", "smell", buf, sizeof buf), -ENODATA);
    EQUAL(rados_getxattrs(pool, "attributes", &attributes), 0);
    while (rados_getxattrs_next(attributes, &name, &value, &len) == 0 && name != NULL) {
        CHECK(strcmp(name, "colour") == 0 && len == 3 && memcmp(value, "red", 3) == 0);
        count++;
    }
    rados_getxattrs_end(attributes);
    EQUAL(count, 1);

    rados_write_op_omap_set(change, keys, values, lengths, 2);
    EQUAL(rados_write_op_operate(change, pool, "attributes", NULL, 0), 0);
    rados_release_write_op(change);
    rados_read_op_omap_get_vals2(look, "", "", 10, &entries, &more, &result);
    EQUAL(rados_read_op_operate(look, pool, "attributes", 0), 0);
    rados_release_read_op(look);
    EQUAL(result, 0);
    EQUAL(more, 0);
    EQUAL(rados_omap_get_next(entries, &key, &val, &len), 0);
    CHECK(strcmp(key, "a") == 0 && len == 1 && val[0] == '1');
    EQUAL(rados_omap_get_next(entries, &key, &val, &len), 0);
    CHECK(strcmp(key, "b") == 0 && len == 2);
    EQUAL(rados_omap_get_next(entries, &key, &val, &len), 0);
    CHECK(key == NULL && val == NULL);
    rados_omap_get_end(entries);
    EQUAL(rados_remove(pool, "attributes"), 0);
}

static void operations_apply_together(void) {
    rados_write_op_t change = rados_create_write_op();
    uint64_t size = 0;
    rados_write_op_create(change, LIBRADOS_CREATE_EXCLUSIVE, NULL);
    rados_write_op_write(change, "abc", 3, 0);
    EQUAL(rados_write_op_operate(change, pool, "together", NULL, 0), 0);
    rados_release_write_op(change);
    change = rados_create_write_op();
    rados_write_op_create(change, LIBRADOS_CREATE_EXCLUSIVE, NULL);
    rados_write_op_write(change, "abcdef", 6, 0);
    EQUAL(rados_write_op_operate(change, pool, "together", NULL, 0), -EEXIST);
    rados_release_write_op(change);
    EQUAL(rados_stat(pool, "together", &size, NULL), 0);
    EQUAL(size, 3);
    EQUAL(rados_remove(pool, "together"), 0);
}

static void snapshots_must_descend(void) {
    rados_snap_t descending[] = {3, 2, 1}, ascending[] = {1, 2, 3};
    EQUAL(rados_ioctx_selfmanaged_snap_set_write_ctx(pool, 3, ascending, 3), -EINVAL);
    EQUAL(rados_ioctx_selfmanaged_snap_set_write_ctx(pool, 3, descending, 3), 0);
    EQUAL(rados_ioctx_selfmanaged_snap_set_write_ctx(pool, 0, NULL, 0), 0);
}

/* What callbacks have seen, in order. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char seen[16];
static int seen_count;

static void see(char what) {
    pthread_mutex_lock(&lock);
    seen[seen_count++] = what;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_for_seen(int count) {
    pthread_mutex_lock(&lock);
    while (seen_count < count)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void forget(void) {
    memset(seen, 0, sizeof seen);
    seen_count = 0;
}

static void complete(rados_completion_t completion, void *arg) {
    CHECK(arg == &cluster);
    CHECK(rados_aio_is_complete(completion));
    EQUAL(rados_aio_get_return_value(completion), 0);
    see('c');
}

static void safe(rados_completion_t completion, void *arg) {
    CHECK(arg == &cluster);
    CHECK(rados_aio_is_safe(completion));
    see('s');
}

static void both_callbacks_run_in_order(void) {
    rados_completion_t completion;
    forget();
    EQUAL(rados_aio_create_completion(&cluster, complete, safe, &completion), 0);
    EQUAL(rados_aio_is_complete(completion), 0);
    EQUAL(rados_aio_write(pool, "aio", completion, "abc", 3, 0), 0);
    EQUAL(rados_aio_wait_for_complete_and_cb(completion), 0);
    CHECK(strcmp(seen, "cs") == 0);
    CHECK(rados_aio_is_complete_and_cb(completion));
    rados_aio_release(completion);
}

static void release_and_call(rados_completion_t completion, void *arg) {
    char buf[4];
    rados_aio_release(completion);
    /* A call that waits, from a callback. */
    EQUAL(rados_write_full(pool, "from-callback", "deep", 4), 0);
    EQUAL(rados_read(pool, "from-callback", buf, 4, 0), 4);
    (void)arg;
    see('r');
}

static void callbacks_may_release_and_call_back(void) {
    rados_completion_t completion;
    forget();
    EQUAL(rados_aio_create_completion2(NULL, release_and_call, &completion), 0);
    EQUAL(rados_aio_write(pool, "aio", completion, "abc", 3, 0), 0);
    wait_for_seen(1);
    EQUAL(rados_remove(pool, "from-callback"), 0);
}

static void a_completion_may_be_released_before_it_is_complete(void) {
    rados_completion_t completion;
    char buf[3];
    EQUAL(rados_aio_create_completion2(NULL, NULL, &completion), 0);
    EQUAL(rados_aio_write(pool, "early", completion, "abc", 3, 0), 0);
    rados_aio_release(completion);
    EQUAL(rados_aio_flush(pool), 0);
    EQUAL(rados_read(pool, "early", buf, 3, 0), 3);
    EQUAL(rados_remove(pool, "early"), 0);
}

static void memory_is_the_callers_again_when_it_completes(void) {
    enum { COUNT = 64, LEN = 100000 };
    char *buf = malloc(LEN), *back = malloc(LEN);
    rados_completion_t completion;
    for (int i = 0; i < COUNT; i++) {
        memset(buf, i, LEN);
        EQUAL(rados_aio_create_completion2(NULL, NULL, &completion), 0);
        EQUAL(rados_aio_write(pool, "memory", completion, buf, LEN, 0), 0);
        EQUAL(rados_aio_wait_for_complete(completion), 0);
        memset(buf, 0xff, LEN);
        rados_aio_release(completion);
        EQUAL(rados_read(pool, "memory", back, LEN, 0), LEN);
        for (int at = 0; at < LEN; at += 999)
            EQUAL(back[at], i);
    }
    free(buf);
    free(back);
    EQUAL(rados_remove(pool, "memory"), 0);
}

static void a_pool_may_be_closed_with_requests_in_flight(void) {
    rados_ioctx_t other;
    rados_completion_t completion;
    EQUAL(rados_ioctx_create(cluster, "rbd", &other), 0);
    EQUAL(rados_aio_create_completion2(NULL, NULL, &completion), 0);
    EQUAL(rados_aio_write(other, "aio", completion, "xyz", 3, 0), 0);
    rados_ioctx_destroy(other);
    EQUAL(rados_aio_wait_for_complete(completion), 0);
    EQUAL(rados_aio_get_return_value(completion), 0);
    rados_aio_release(completion);
}

static void locks_know_their_holders(void) {
    EQUAL(rados_lock_exclusive(pool, "lock", "l", "mine", "a test", NULL, 0), 0);
    EQUAL(rados_lock_exclusive(pool, "lock", "l", "mine", "a test", NULL, 0), -EEXIST);
    EQUAL(rados_lock_exclusive(pool, "lock", "l", "other", "a test", NULL, 0), -EBUSY);
    int exclusive = 0;
    char tag[64], clients[64], cookies[64], addrs[128];
    size_t tag_len = 64, clients_len = 64, cookies_len = 64, addrs_len = 128, small = 1;
    EQUAL(rados_list_lockers(pool, "lock", "l", &exclusive, tag, &tag_len, clients, &clients_len, cookies,
              &cookies_len, addrs, &addrs_len), 1);
    CHECK(exclusive == 1 && strcmp(cookies, "mine") == 0 && strncmp(clients, "client.", 7) == 0);
    EQUAL(rados_list_lockers(pool, "lock", "l", &exclusive, tag, &tag_len, clients, &small, cookies,
              &cookies_len, addrs, &addrs_len), -ERANGE);
    EQUAL(rados_unlock(pool, "lock", "l", "mine"), 0);
    EQUAL(rados_unlock(pool, "lock", "l", "mine"), -ENOENT);
    rados_remove(pool, "lock");
}

static uint64_t watch_cookie;

static void notified(void *arg, uint64_t id, uint64_t cookie, uint64_t notifier, void *data, size_t len) {
    CHECK(arg == &watch_cookie && cookie == watch_cookie && notifier == rados_get_instance_id(cluster));
    CHECK(len == 4 && memcmp(data, "ring", 4) == 0);
    /* Without an answer, Python's bindings give any length. */
    const char *answer = seen_count == 0 ? "heard" : NULL;
    EQUAL(rados_notify_ack(pool, "bell", id, cookie, answer, answer ? 5 : INT_MAX), 0);
    see('n');
}

static void failed(void *arg, uint64_t cookie, int err) {
    (void)arg, (void)cookie, (void)err;
    see('f');
}

static void watchers_answer_notifications(void) {
    char *reply = NULL;
    size_t reply_len = 0, acks_len, missed_len;
    struct notify_ack_t *acks;
    struct notify_timeout_t *missed;
    forget();
    EQUAL(rados_write_full(pool, "bell", "", 0), 0);
    EQUAL(rados_watch3(pool, "bell", &watch_cookie, notified, failed, 30, &watch_cookie), 0);
    EQUAL(rados_notify2(pool, "bell", "ring", 4, 5000, &reply, &reply_len), 0);
    EQUAL(rados_watch_flush(cluster), 0);
    CHECK(strcmp(seen, "n") == 0);
    EQUAL(rados_decode_notify_response(reply, reply_len, &acks, &acks_len, &missed, &missed_len), 0);
    CHECK(acks_len == 1 && missed_len == 0 && acks[0].cookie == watch_cookie);
    CHECK(acks[0].payload_len == 5 && memcmp(acks[0].payload, "heard", 5) == 0);
    rados_free_notify_response(acks, acks_len, missed);
    rados_buffer_free(reply);
    EQUAL(rados_notify2(pool, "bell", "ring", 4, 5000, NULL, NULL), 0);
    CHECK(rados_watch_check(pool, watch_cookie) >= 0);
    EQUAL(rados_unwatch2(pool, watch_cookie), 0);
    EQUAL(rados_remove(pool, "bell"), 0);
}

static void objects_are_listed(void) {
    rados_list_ctx_t list;
    const char *name, *key, *space;
    int found = 0, result;
    EQUAL(rados_write_full(pool, "listed", "x", 1), 0);
    EQUAL(rados_nobjects_list_open(pool, &list), 0);
    while ((result = rados_nobjects_list_next(list, &name, &key, &space)) == 0)
        found += strcmp(name, "listed") == 0;
    EQUAL(result, -ENOENT);
    EQUAL(found, 1);
    rados_nobjects_list_close(list);
    EQUAL(rados_remove(pool, "listed"), 0);
}

static void pools_are_found(void) {
    char buf[256], name[64];
    int64_t id = rados_pool_lookup(cluster, "rbd");
    int needed = rados_pool_list(cluster, NULL, 0), found = 0;
    CHECK(id >= 0);
    EQUAL(rados_pool_reverse_lookup(cluster, id, name, sizeof name), 3);
    EQUAL(rados_pool_reverse_lookup(cluster, id, name, 3), -ERANGE);
    CHECK(needed > 4 && needed <= (int)sizeof buf);
    EQUAL(rados_pool_list(cluster, buf, sizeof buf), needed);
    for (char *at = buf; *at; at += strlen(at) + 1)
        found += strcmp(at, "rbd") == 0;
    EQUAL(found, 1);
    EQUAL(rados_pool_lookup(cluster, "nothing"), -ENOENT);
    rados_ioctx_t none;
    EQUAL(rados_ioctx_create(cluster, "nothing", &none), -ENOENT);
    EQUAL(rados_ioctx_get_id(pool), id);
}

static void stripes_have_shapes(void) {
    rbd_image_t image;
    rbd_image_info_t info;
    uint64_t unit, count;
    int order = 20;
    EQUAL(rbd_create3(pool, "striped", (5 << 20) + 1, RBD_FEATURE_LAYERING, &order, 1 << 16, 4), 0);
    EQUAL(rbd_open(pool, "striped", &image, NULL), 0);
    EQUAL(rbd_stat(image, &info, sizeof info), 0);
    CHECK(info.size == (5 << 20) + 1 && info.obj_size == 1 << 20 && info.order == 20);
    /* Two sets of four objects. */
    EQUAL(info.num_objs, 8);
    EQUAL(rbd_get_stripe_unit(image, &unit), 0);
    EQUAL(rbd_get_stripe_count(image, &count), 0);
    CHECK(unit == 1 << 16 && count == 4);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "striped"), 0);
}

static void images_have_ends(void) {
    enum { SIZE = 8 << 20 };
    char buf[8192];
    rbd_image_t image, other;
    rbd_image_info_t info;
    EQUAL(rbd_open(pool, "nothing", &other, NULL), -ENOENT);
    image = new_image("ends", SIZE);
    memset(buf, 7, sizeof buf);
    EQUAL(rbd_stat(image, &info, sizeof info), 0);
    CHECK(info.size == SIZE && info.obj_size == 4 << 20 && info.num_objs == 2 && info.order == 22);
    EQUAL(rbd_write(image, 4096, sizeof buf, buf), sizeof buf);
    EQUAL(rbd_read(image, 4096, sizeof buf, buf), sizeof buf);
    CHECK(buf[0] == 7 && buf[8191] == 7);
    EQUAL(rbd_write(image, SIZE - 4096, sizeof buf, buf), 4096);
    EQUAL(rbd_read(image, SIZE - 4096, sizeof buf, buf), 4096);
    EQUAL(rbd_write(image, SIZE, 1, buf), -EINVAL);
    EQUAL(rbd_read(image, SIZE, 1, buf), -EINVAL);
    EQUAL(rbd_read(image, SIZE - 1, 0, buf), 0);
    EQUAL(rbd_write(image, 0, 0, buf), 0);
    EQUAL(rbd_discard(image, 0, 4 << 20), 4 << 20);
    EQUAL(rbd_read(image, 4096, 16, buf), 16);
    EQUAL(buf[0], 0);
    EQUAL(rbd_flush(image), 0);
    EQUAL(rbd_open_read_only(pool, "ends", &other, NULL), 0);
    EQUAL(rbd_write(other, 0, 1, buf), -EROFS);
    EQUAL(rbd_read(other, SIZE - 4096, 4096, buf), 4096);
    EQUAL(rbd_close(other), 0);
    EQUAL(rbd_resize(image, 2 * SIZE), 0);
    uint64_t size = 0;
    EQUAL(rbd_get_size(image, &size), 0);
    EQUAL(size, 2 * SIZE);
    EQUAL(rbd_write(image, SIZE, sizeof buf, buf), sizeof buf);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "ends"), 0);
    EQUAL(rbd_remove(pool, "ends"), -ENOENT);
}

static void lists_say_how_long_they_are(void) {
    char names[64];
    size_t size = 1, count = 0;
    rbd_image_spec_t specs[8];
    rbd_snap_info_t snaps[4];
    int most = 0;
    rbd_image_t image = new_image("listed", 1 << 20);
    EQUAL(rbd_list(pool, names, &size), -ERANGE);
    CHECK(size >= strlen("listed") + 1);
    EQUAL(rbd_list(pool, names, &size), size);
    CHECK(strcmp(names, "listed") == 0);
    EQUAL(rbd_list2(pool, specs, &count), -ERANGE);
    EQUAL(count, 1);
    EQUAL(rbd_list2(pool, specs, &count), 0);
    EQUAL(count, 1);
    CHECK(strcmp(specs[0].name, "listed") == 0 && strlen(specs[0].id) > 0);
    rbd_image_spec_list_cleanup(specs, count);
    EQUAL(rbd_snap_list(image, snaps, &most), -ERANGE);
    EQUAL(most, 1);
    EQUAL(rbd_snap_list(image, snaps, &most), 0);
    CHECK(snaps[0].name == NULL);
    rbd_snap_list_end(snaps);
    EQUAL(rbd_metadata_set(image, "key", "value"), 0);
    size = 2;
    EQUAL(rbd_metadata_get(image, "key", names, &size), -ERANGE);
    CHECK(size >= 5);
    EQUAL(rbd_metadata_get(image, "key", names, &size), 0);
    CHECK(memcmp(names, "value", 5) == 0);
    EQUAL(rbd_metadata_remove(image, "key"), 0);
    EQUAL(rbd_metadata_get(image, "key", names, &size), -ENOENT);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "listed"), 0);
}

static int running, at_once;

static void one_at_a_time(rbd_completion_t completion, void *arg) {
    CHECK(__atomic_fetch_add(&running, 1, __ATOMIC_SEQ_CST) == 0);
    EQUAL(rbd_aio_get_return_value(completion), 0);
    CHECK(rbd_aio_get_arg(completion) == arg);
    usleep(100);
    __atomic_fetch_sub(&running, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&at_once, 1, __ATOMIC_SEQ_CST);
    rbd_aio_release(completion);
}

static void callbacks_of_an_image_run_one_at_a_time(void) {
    enum { COUNT = 64 };
    static char buf[4096];
    rbd_image_t image = new_image("strand", 8 << 20);
    at_once = 0;
    for (int i = 0; i < COUNT; i++) {
        rbd_completion_t completion;
        EQUAL(rbd_aio_create_completion(&buf[i], one_at_a_time, &completion), 0);
        EQUAL(rbd_aio_write(image, i * 4096, sizeof buf, buf, completion), 0);
    }
    while (__atomic_load_n(&at_once, __ATOMIC_SEQ_CST) < COUNT)
        usleep(1000);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "strand"), 0);
}

static void events_count_completions(void) {
    enum { COUNT = 8 };
    static char buf[COUNT][4096];
    rbd_completion_t completions[COUNT], polled[COUNT];
    rbd_image_t image = new_image("events", 8 << 20);
    int fd = eventfd(0, EFD_SEMAPHORE), done = 0;
    CHECK(fd >= 0);
    EQUAL(rbd_set_image_notification(image, fd, EVENT_TYPE_EVENTFD), 0);
    for (int i = 0; i < COUNT; i++) {
        EQUAL(rbd_aio_create_completion(&buf[i], NULL, &completions[i]), 0);
        EQUAL(rbd_aio_write(image, i * 4096, 4096, buf[i], completions[i]), 0);
    }
    for (int i = 0; i < COUNT; i++) {
        uint64_t one = 0;
        EQUAL(read(fd, &one, sizeof one), sizeof one);
        EQUAL(one, 1);
    }
    struct pollfd more = {.fd = fd, .events = POLLIN};
    EQUAL(poll(&more, 1, 50), 0);
    EQUAL(rbd_poll_io_events(image, polled, 3), 3);
    done = 3 + rbd_poll_io_events(image, polled + 3, COUNT);
    EQUAL(done, COUNT);
    for (int i = 0; i < COUNT; i++) {
        int is_ours = 0;
        for (int k = 0; k < COUNT; k++)
            is_ours += polled[i] == completions[k];
        EQUAL(is_ours, 1);
        CHECK(rbd_aio_is_complete(polled[i]));
        EQUAL(rbd_aio_get_return_value(polled[i]), 0);
        rbd_aio_release(polled[i]);
    }
    EQUAL(rbd_poll_io_events(image, polled, COUNT), 0);
    EQUAL(rbd_close(image), 0);
    close(fd);
    EQUAL(rbd_remove(pool, "events"), 0);
}

/* Waits for a completion, and gives its result. */
static ssize_t finish(rbd_completion_t completion) {
    EQUAL(rbd_aio_wait_for_complete(completion), 0);
    ssize_t result = rbd_aio_get_return_value(completion);
    rbd_aio_release(completion);
    return result;
}

static void vectors_gather_and_scatter(void) {
    char first[1000], second[3096], back[2][2048], zeros[4096] = {0};
    rbd_completion_t completion;
    rbd_image_t image = new_image("vectors", 8 << 20);
    struct iovec *vector = malloc(2 * sizeof *vector);
    memset(first, 1, sizeof first);
    memset(second, 2, sizeof second);
    vector[0] = (struct iovec){first, sizeof first};
    vector[1] = (struct iovec){second, sizeof second};
    rbd_aio_create_completion(NULL, NULL, &completion);
    /* It crosses from one object to the next. */
    EQUAL(rbd_aio_writev(image, vector, 2, (4 << 20) - 2048, completion), 0);
    memset(vector, 0xff, 2 * sizeof *vector);
    EQUAL(finish(completion), 0);
    vector[0] = (struct iovec){back[0], 2048};
    vector[1] = (struct iovec){back[1], 2048};
    rbd_aio_create_completion(NULL, NULL, &completion);
    EQUAL(rbd_aio_readv(image, vector, 2, (4 << 20) - 2048, completion), 0);
    EQUAL(finish(completion), 4096);
    /* Ceph's library looks at the vector of a read until it completes, at that of a write only at first. */
    free(vector);
    CHECK(memcmp(back[0], first, sizeof first) == 0 && back[0][1000] == 2 && back[1][2047] == 2);
    rbd_aio_create_completion(NULL, NULL, &completion);
    EQUAL(rbd_aio_write_zeroes(image, 4 << 20, 2048, completion, 0, 0), 0);
    EQUAL(finish(completion), 0);
    rbd_aio_create_completion(NULL, NULL, &completion);
    EQUAL(rbd_aio_read(image, (4 << 20) - 2048, 2048, back[0], completion), 0);
    EQUAL(finish(completion), 2048);
    EQUAL(rbd_read(image, 4 << 20, 2048, back[1]), 2048);
    CHECK(back[0][2047] == 2 && memcmp(back[1], zeros, 2048) == 0);
    rbd_aio_create_completion(NULL, NULL, &completion);
    EQUAL(rbd_aio_writesame(image, 0, 64 << 10, first, 512, completion, 0), 0);
    EQUAL(finish(completion), 0);
    EQUAL(rbd_read(image, (64 << 10) - 16, 32, back[0]), 32);
    CHECK(back[0][15] == 1 && back[0][16] == 0);
    rbd_aio_create_completion(NULL, NULL, &completion);
    EQUAL(rbd_aio_flush(image, completion), 0);
    EQUAL(finish(completion), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "vectors"), 0);
}

static void images_open_and_close_in_the_background(void) {
    rbd_image_t image = new_image("background", 1 << 20);
    rbd_completion_t completion;
    rbd_aio_create_completion(NULL, NULL, &completion);
    EQUAL(rbd_aio_close(image, completion), 0);
    EQUAL(finish(completion), 0);
    rbd_aio_create_completion(NULL, NULL, &completion);
    EQUAL(rbd_aio_open(pool, "background", &image, NULL, completion), 0);
    EQUAL(finish(completion), 0);
    EQUAL(rbd_close(image), 0);
    rbd_aio_create_completion(NULL, NULL, &completion);
    EQUAL(rbd_aio_open(pool, "nothing", &image, NULL, completion), 0);
    EQUAL(finish(completion), -ENOENT);
    EQUAL(rbd_remove(pool, "background"), 0);
}

/* Programs that become daemons make their handle before they fork. */
static void a_handle_connects_in_a_child(void) {
    rados_t handle;
    int status;
    EQUAL(rados_create(&handle, "admin"), 0);
    EQUAL(rados_conf_read_file(handle, conf), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        rados_ioctx_t ioctx;
        int failed = rados_connect(handle) != 0 || rados_ioctx_create(handle, "rbd", &ioctx) != 0
            || rados_write_full(ioctx, "child", "x", 1) != 0 || rados_remove(ioctx, "child") != 0;
        _exit(failed);
    }
    EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    EQUAL(WEXITSTATUS(status), 0);
    rados_shutdown(handle);
}

static int threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = -2;
    while (readdir(tasks) != NULL)
        count++;
    closedir(tasks);
    return count;
}

static void a_handle_is_a_context_for_others(void) {
    rados_t like;
    uint64_t size;
    EQUAL(rados_create_with_context(&like, rados_cct(cluster)), 0);
    EQUAL(rados_connect(like), 0);
    EQUAL(rados_pool_lookup(like, "rbd") >= 0, 1);
    rados_shutdown(like);
    /* The one that it was made of lives on. */
    EQUAL(rados_write_full(pool, "after", "x", 1), 0);
    EQUAL(rados_stat(pool, "after", &size, NULL), 0);
    EQUAL(rados_remove(pool, "after"), 0);
}

/* rbd-fuse has a context of libceph-common's, of which nothing is known here but that the program's command line is in it. */
static void a_context_of_others_is_not_looked_into(void) {
    static const uint64_t foreign[64];
    rados_t handle;
    EQUAL(setenv("CEPH_CONF", conf, 1), 0);
    EQUAL(rados_create_with_context(&handle, (rados_config_t)foreign), 0);
    EQUAL(rados_connect(handle), 0);
    EQUAL(rados_pool_lookup(handle, "rbd") >= 0, 1);
    rados_shutdown(handle);
}

static void handles_share_a_client(void) {
    enum { COUNT = 32 };
    rados_t handles[COUNT];
    int before = threads();
    for (int i = 0; i < COUNT; i++)
        connect_to(&handles[i]);
    /* Threads of earlier tests may end meanwhile. */
    CHECK(threads() <= before);
    EQUAL(rados_get_instance_id(handles[0]), rados_get_instance_id(cluster));
    for (int i = 0; i < COUNT; i++)
        rados_shutdown(handles[i]);
}

static void null_is_refused(void) {
    rados_ioctx_t none;
    char buf[8];
    EQUAL(rados_create(NULL, NULL), -EINVAL);
    EQUAL(rados_connect(NULL), -EINVAL);
    EQUAL(rados_ioctx_create(cluster, NULL, &none), -EINVAL);
    EQUAL(rados_write(pool, NULL, "x", 1, 0), -EINVAL);
    EQUAL(rados_write(NULL, "x", "x", 1, 0), -EINVAL);
    EQUAL(rados_read(pool, "x", NULL, 8, 0), -EINVAL);
    EQUAL(rbd_read(NULL, 0, sizeof buf, buf), -EINVAL);
    EQUAL(rbd_close(NULL), -EINVAL);
    EQUAL(rbd_aio_create_completion(NULL, NULL, NULL), -EINVAL);
    rados_aio_release(NULL);
    rados_ioctx_destroy(NULL);
    rados_shutdown(NULL);
}

static const struct test tests[] = {
    TEST(settings_are_kept),
    TEST(objects_return_what_is_documented),
    TEST(attributes_and_maps_are_walked_over),
    TEST(operations_apply_together),
    TEST(snapshots_must_descend),
    TEST(both_callbacks_run_in_order),
    TEST(callbacks_may_release_and_call_back),
    TEST(a_completion_may_be_released_before_it_is_complete),
    TEST(memory_is_the_callers_again_when_it_completes),
    TEST(a_pool_may_be_closed_with_requests_in_flight),
    TEST(locks_know_their_holders),
    TEST(watchers_answer_notifications),
    TEST(objects_are_listed),
    TEST(pools_are_found),
    TEST(stripes_have_shapes),
    TEST(images_have_ends),
    TEST(lists_say_how_long_they_are),
    TEST(callbacks_of_an_image_run_one_at_a_time),
    TEST(events_count_completions),
    TEST(vectors_gather_and_scatter),
    TEST(images_open_and_close_in_the_background),
    TEST(a_handle_connects_in_a_child),
    TEST(a_handle_is_a_context_for_others),
    OURS(handles_share_a_client),
    OURS(a_context_of_others_is_not_looked_into),
    OURS(null_is_refused),
};

int main(int argc, char **argv) {
    return run_tests(argc, argv, tests, sizeof tests / sizeof *tests);
}
