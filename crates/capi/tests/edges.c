/*
 * What programs in C rely on where lengths, names and handles are unusual. It runs on Ceph's own library and on ours.
 *
 *     edges CONF [ours]
 *
 * CONF names a cluster with a pool "rbd".
 */
#include "check.h"
#include <limits.h>
#include <rbd/librbd.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static rbd_image_t new_image(const char *name, uint64_t size, uint64_t features) {
    rbd_image_t image;
    int order = 20;
    EQUAL(rbd_create2(pool, name, size, features, &order), 0);
    EQUAL(rbd_open(pool, name, &image, NULL), 0);
    return image;
}

/* Ceph's library reads as many bytes as the call names. */
static void long_data_is_not_read(void) {
    const size_t large = (size_t)UINT_MAX / 2 + 1;
    char buf[64] = {0};
    rados_completion_t done;
    EQUAL(rados_aio_create_completion2(NULL, NULL, &done), 0);
    EQUAL(rados_aio_writesame(pool, "long", done, buf, 1, large, 0), -E2BIG);
    EQUAL(rados_aio_writesame(pool, "long", done, buf, large, large, 0), -E2BIG);
    EQUAL(rados_aio_cmpext(pool, "long", done, buf, large, 0), -E2BIG);
    rados_aio_release(done);
}

/* A length that no request may have fails the call, also of those with a completion. */
static void lengths_have_bounds(void) {
    const size_t large = (size_t)UINT_MAX / 2 + 1;
    char buf[64] = {0};
    rados_completion_t done;
    EQUAL(rados_append(pool, "long", buf, large), -E2BIG);
    EQUAL(rados_write_full(pool, "long", buf, large), -E2BIG);
    EQUAL(rados_read(pool, "long", buf, (size_t)INT_MAX + 1, 0), -EDOM);
    EQUAL(rados_aio_create_completion2(NULL, NULL, &done), 0);
    EQUAL(rados_aio_write(pool, "long", done, buf, large, 0), -E2BIG);
    EQUAL(rados_aio_append(pool, "long", done, buf, large), -E2BIG);
    EQUAL(rados_aio_write_full(pool, "long", done, buf, large), -E2BIG);
    rados_aio_release(done);
    EQUAL(rados_stat(pool, "long", NULL, NULL), -ENOENT);

    rbd_image_t image = new_image("long", 4 * MIB, RBD_FEATURE_LAYERING);
    EQUAL(rbd_discard(image, 0, (uint64_t)INT_MAX + 1), -EINVAL);
    EQUAL(rbd_writesame(image, 0, (size_t)INT_MAX + 1, "x", 1, 0), -EINVAL);
    EQUAL(rbd_writesame(image, 0, 4 * MIB, "abc", 3, 0), -EINVAL);
    EQUAL(rbd_writesame(image, 0, 4 * MIB, "ab", 2, 0), 4 * MIB);
    EQUAL(rbd_read(image, 3 * MIB, 4, buf), 4);
    CHECK(memcmp(buf, "abab", 4) == 0);
    EQUAL(rbd_writesame(image, 0, 1200, "abc", 3, 0), 1200);
    EQUAL(rbd_read(image, 1197, 5, buf), 5);
    CHECK(memcmp(buf, "abcab", 5) == 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "long"), 0);
}

/* An operation that cannot be added fails all of them: without it the others would do something else. */
static void operations_that_are_refused_fail_all(void) {
    rados_write_op_t change = rados_create_write_op();
    rados_write_op_write(change, "abc", 3, 0);
    rados_write_op_writesame(change, "abc", 3, UINT_MAX, 0);
    EQUAL(rados_write_op_operate(change, pool, "parts", NULL, 0), -E2BIG);
    EQUAL(rados_stat(pool, "parts", NULL, NULL), -ENOENT);
    rados_write_op_write(change, "abc", 3, 0);
    EQUAL(rados_write_op_operate(change, pool, "parts", NULL, 0), 0);
    rados_release_write_op(change);
    rados_read_op_t look = rados_create_read_op();
    rados_read_op_cmpxattr(look, NULL, LIBRADOS_CMPXATTR_OP_EQ, "x", 1);
    EQUAL(rados_read_op_operate(look, pool, "parts", 0), -EINVAL);
    rados_release_read_op(look);
    EQUAL(rados_remove(pool, "parts"), 0);
}

static void outputs_may_be_short_or_unwanted(void) {
    char out[16] = {0};
    uint32_t init = -1;
    size_t used = 1024;
    int result = 1;
    EQUAL(rados_write_full(pool, "short", "123456789", 9), 0);
    rados_read_op_t look = rados_create_read_op();
    rados_read_op_exec_user_buf(look, "rbd", "get_all_features", NULL, 0, out, 7, &used, &result);
    EQUAL(rados_read_op_operate(look, pool, "short", 0), 0);
    EQUAL(used, 0);
    EQUAL(result, -ERANGE);
    rados_read_op_checksum(look, LIBRADOS_CHECKSUM_TYPE_CRC32C, (char *)&init, 4, 0, 9, 0, NULL, 0, &result);
    EQUAL(rados_read_op_operate(look, pool, "short", 0), 0);
    EQUAL(result, 0);
    rados_release_read_op(look);
    EQUAL(rados_remove(pool, "short"), 0);

    /* A list that is cut ends where the memory does. */
    char names[64];
    memset(names, '!', sizeof names);
    CHECK(rados_pool_list(cluster, names, 4) > 4);
    CHECK(strcmp(names, "rbd") == 0 && names[4] == '!');
}

static void names_are_bytes(void) {
    static const char bad[] = "bad\xff\xc3\x28", other[] = "bad\xef\xbf\xbd";
    char buf[32] = {0}, name[32];
    const char *key, *entry;
    size_t len = sizeof name, key_len;
    int found = 0;
    EQUAL(rados_write_full(pool, bad, "1", 1), 0);
    EQUAL(rados_read(pool, bad, buf, sizeof buf, 0), 1);
    EQUAL(rados_read(pool, other, buf, sizeof buf, 0), -ENOENT);
    EQUAL(rados_setxattr(pool, bad, bad, "v", 1), 0);
    EQUAL(rados_getxattr(pool, bad, bad, buf, sizeof buf), 1);
    EQUAL(rados_getxattr(pool, bad, other, buf, sizeof buf), -ENODATA);
    rados_ioctx_t within;
    EQUAL(rados_ioctx_create(cluster, "rbd", &within), 0);
    rados_ioctx_set_namespace(within, bad);
    rados_ioctx_locator_set_key(within, bad);
    EQUAL(rados_write_full(within, "object", "2", 1), 0);
    EQUAL(rados_ioctx_get_namespace(within, name, sizeof name), (int)strlen(bad));
    CHECK(strcmp(name, bad) == 0);
    rados_list_ctx_t list;
    EQUAL(rados_nobjects_list_open(within, &list), 0);
    EQUAL(rados_nobjects_list_next2(list, &entry, &key, NULL, NULL, &key_len, NULL), 0);
    CHECK(strcmp(entry, "object") == 0 && key_len == strlen(bad) && memcmp(key, bad, key_len) == 0);
    rados_nobjects_list_close(list);
    EQUAL(rados_remove(within, "object"), 0);
    rados_ioctx_destroy(within);
    EQUAL(rados_remove(pool, bad), 0);

    rbd_image_t image = new_image(bad, MIB, RBD_FEATURE_LAYERING);
    EQUAL(rbd_get_name(image, name, &len), 0);
    CHECK(strcmp(name, bad) == 0);
    EQUAL(rbd_snap_create(image, bad), 0);
    EQUAL(rbd_snap_remove(image, other), -ENOENT);
    EQUAL(rbd_snap_remove(image, bad), 0);
    EQUAL(rbd_metadata_set(image, bad, bad), 0);
    len = sizeof name;
    EQUAL(rbd_metadata_get(image, bad, name, &len), 0);
    CHECK(strcmp(name, bad) == 0);
    EQUAL(rbd_close(image), 0);
    char names[256];
    len = sizeof names;
    CHECK(rbd_list(pool, names, &len) > 0);
    for (size_t at = 0; at < len && names[at]; at += strlen(names + at) + 1)
        found += strcmp(names + at, bad) == 0;
    EQUAL(found, 1);
    EQUAL(rbd_remove(pool, other), -ENOENT);
    EQUAL(rbd_remove(pool, bad), 0);
}

static void handles_know_what_they_are(void) {
    rados_t early;
    char fsid[64] = "!";
    EQUAL(rados_create(&early, "admin"), 0);
    EQUAL(rados_cluster_fsid(early, fsid, sizeof fsid), 36);
    EQUAL(strcmp(fsid, "00000000-0000-0000-0000-000000000000"), 0);
    EQUAL(rados_service_register(early, "client", "one", ""), -EINVAL);
    EQUAL(rados_service_register(early, "laundry", "one", ""), 0);
    EQUAL(rados_service_register(early, "laundry", "one", ""), -EEXIST);
    /* It knows no monitors. */
    EQUAL(rados_conf_set(early, "mon_dns_srv_name", ""), 0);
    EQUAL(rados_connect(early), -ENOENT);
    static const char *const options[] = {"ms_type", "debug_ms", "log_max_new", "ms_connection_idle_timeout"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        fsid[0] = 0;
        EQUAL(rados_conf_get(early, options[i], fsid, sizeof fsid), 0);
        CHECK(fsid[0] != 0);
    }
    EQUAL(rados_conf_get(early, "no_such_option", fsid, sizeof fsid), -ENOENT);
    rados_shutdown(early);
}

/* A handle of a pool that is deleted opens lists, which fail. */
static void lists_of_deleted_pools_fail(void) {
    rados_ioctx_t gone;
    rados_list_ctx_t list;
    const char *entry;
    EQUAL(rados_pool_create(cluster, "gone"), 0);
    EQUAL(rados_ioctx_create(cluster, "gone", &gone), 0);
    EQUAL(rados_pool_delete(cluster, "gone"), 0);
    EQUAL(rados_wait_for_latest_osdmap(cluster), 0);
    EQUAL(rados_nobjects_list_open(gone, &list), 0);
    EQUAL(rados_nobjects_list_next(list, &entry, NULL, NULL), -ENOENT);
    rados_nobjects_list_close(list);
    rados_ioctx_destroy(gone);
}

static void notified(void *arg, uint64_t id, uint64_t cookie, uint64_t notifier, void *data, size_t len) {
    (void)arg, (void)id, (void)cookie, (void)notifier, (void)data, (void)len;
}

static void watches_have_an_age(void) {
    uint64_t cookie;
    int age, waited = 0;
    EQUAL(rados_write_full(pool, "watched", "x", 1), 0);
    EQUAL(rados_watch2(pool, "watched", &cookie, notified, NULL, NULL), 0);
    age = rados_watch_check(pool, cookie);
    CHECK(age >= 0 && age < 5000);
    /* Each answered ping, one in five seconds, starts the age again. */
    for (age = 0; age >= 0 && age < 50 && waited++ < 100;) {
        usleep(50000);
        age = rados_watch_check(pool, cookie);
    }
    CHECK(age >= 50);
    waited = 0;
    EQUAL(rados_remove(pool, "watched"), 0);
    while ((age = rados_watch_check(pool, cookie)) >= 0 && waited++ < 600)
        usleep(50000);
    CHECK(age == -ENOTCONN || age == -ENOENT);
    rados_unwatch2(pool, cookie);
}

/* Programs in Go ask for the number of snapshots so. */
static void snapshots_are_counted_without_a_list(void) {
    rbd_image_t image = new_image("counted", MIB, RBD_FEATURE_LAYERING);
    int most = 0;
    EQUAL(rbd_snap_create(image, "one"), 0);
    EQUAL(rbd_snap_list(image, NULL, &most), -ERANGE);
    EQUAL(most, 2);
    EQUAL(rbd_snap_remove(image, "one"), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "counted"), 0);
}

/* Ceph's library takes names that its commands refuse. */
static void names_may_be_empty(void) {
    rbd_image_t image = new_image("nameless", MIB, RBD_FEATURE_LAYERING);
    char value[16] = {0};
    size_t len = sizeof value;
    int max = 4;
    rbd_snap_info_t snaps[4];
    EQUAL(rbd_snap_create(image, ""), 0);
    EQUAL(rbd_snap_create(image, ""), -EEXIST);
    EQUAL(rbd_snap_create(image, "a@b"), 0);
    EQUAL(rbd_snap_list(image, snaps, &max), 2);
    EQUAL(strcmp(snaps[0].name, ""), 0);
    rbd_snap_list_end(snaps);
    EQUAL(rbd_snap_remove(image, "a@b"), 0);
    EQUAL(rbd_snap_remove(image, ""), 0);
    EQUAL(rbd_metadata_set(image, "", "value"), 0);
    EQUAL(rbd_metadata_get(image, "", value, &len), 0);
    EQUAL(strcmp(value, "value"), 0);
    EQUAL(rbd_metadata_remove(image, ""), 0);
    EQUAL(rbd_metadata_get(image, "", value, &len), -ENOENT);
    EQUAL(rbd_pool_metadata_set(pool, "", "of all"), 0);
    len = sizeof value;
    EQUAL(rbd_pool_metadata_get(pool, "", value, &len), 0);
    EQUAL(strcmp(value, "of all"), 0);
    EQUAL(rbd_pool_metadata_remove(pool, ""), 0);
    EQUAL(rbd_pool_metadata_get(pool, "", value, &len), -ENOENT);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "nameless"), 0);
}

/* What is open stays what it is, whatever is called as it was. */
static void open_images_are_changed_in_the_trash(void) {
    rbd_image_t image = new_image("thrown", 2 * MIB, RBD_FEATURE_LAYERING), other;
    char id[32];
    uint64_t size;
    int most = 0;
    EQUAL(rbd_get_id(image, id, sizeof id), 0);
    EQUAL(rbd_trash_move(pool, "thrown", 0), 0);
    other = new_image("thrown", MIB, RBD_FEATURE_LAYERING);
    EQUAL(rbd_snap_create(image, "kept"), 0);
    EQUAL(rbd_resize(image, 3 * MIB), 0);
    EQUAL(rbd_snap_list(other, NULL, &most), -ERANGE);
    EQUAL(most, 1);
    EQUAL(rbd_get_size(other, &size), 0);
    EQUAL(size, MIB);
    EQUAL(rbd_get_size(image, &size), 0);
    EQUAL(size, 3 * MIB);
    EQUAL(rbd_snap_remove(image, "kept"), 0);
    EQUAL(rbd_close(other), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "thrown"), 0);
    EQUAL(rbd_trash_remove(pool, id, true), 0);
}

struct told {
    uint64_t calls, all, stop_at;
};

static int tell(uint64_t done, uint64_t all, void *arg) {
    struct told *told = arg;
    told->calls++;
    told->all = all;
    return done >= told->stop_at ? -ECANCELED : 0;
}

static void progress_counts_objects_and_may_stop(void) {
    rbd_image_t image = new_image("stopped", 16 * MIB, RBD_FEATURE_LAYERING);
    struct told told = {0, 0, UINT64_MAX};
    uint64_t size;
    char block[4096];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 16; i++)
        EQUAL(rbd_write(image, (uint64_t)i * MIB, sizeof block, block), sizeof block);
    EQUAL(rbd_sparsify_with_progress(image, 4096, tell, &told), 0);
    EQUAL(told.all, 16);
    told.stop_at = 1;
    EQUAL(rbd_sparsify_with_progress(image, 4096, tell, &told), -ECANCELED);
    told.stop_at = UINT64_MAX;
    EQUAL(rbd_resize_with_progress(image, 12 * MIB, tell, &told), 0);
    CHECK(told.all > 0 && told.all <= 16);
    EQUAL(rbd_get_size(image, &size), 0);
    EQUAL(size, 12 * MIB);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "stopped"), 0);
}

static void an_image_closes_after_its_lock_is_broken(void) {
    rbd_image_t image = new_image("broken", MIB, RBD_FEATURE_LAYERING | RBD_FEATURE_EXCLUSIVE_LOCK), other;
    rados_t breaker;
    rados_ioctx_t there;
    rbd_lock_mode_t mode;
    char *owner = NULL;
    size_t owners = 1;
    EQUAL(rbd_lock_acquire(image, RBD_LOCK_MODE_EXCLUSIVE), 0);
    EQUAL(rbd_write(image, 0, 1, "x"), 1);
    /* A client of its own: the other is shut out. */
    EQUAL(rados_create(&breaker, "admin"), 0);
    EQUAL(rados_conf_read_file(breaker, conf), 0);
    EQUAL(rados_conf_set(breaker, "client_mount_timeout", "29"), 0);
    EQUAL(rados_connect(breaker), 0);
    EQUAL(rados_ioctx_create(breaker, "rbd", &there), 0);
    EQUAL(rbd_open(there, "broken", &other, NULL), 0);
    EQUAL(rbd_lock_get_owners(other, &mode, &owner, &owners), 0);
    EQUAL(rbd_lock_break(other, mode, owner), 0);
    rbd_lock_get_owners_cleanup(&owner, owners);
    CHECK(rbd_write(image, 0, 1, "y") < 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_close(other), 0);
    EQUAL(rbd_remove(there, "broken"), 0);
    rados_ioctx_destroy(there);
    rados_shutdown(breaker);
}

/* The last shuts the client out. */
static const struct test tests[] = {
    TEST(lengths_have_bounds),
    OURS(long_data_is_not_read),
    OURS(operations_that_are_refused_fail_all),
    TEST(outputs_may_be_short_or_unwanted),
    TEST(names_are_bytes),
    TEST(handles_know_what_they_are),
    TEST(lists_of_deleted_pools_fail),
    TEST(watches_have_an_age),
    TEST(snapshots_are_counted_without_a_list),
    TEST(names_may_be_empty),
    TEST(open_images_are_changed_in_the_trash),
    OURS(progress_counts_objects_and_may_stop),
    TEST(an_image_closes_after_its_lock_is_broken),
};

int main(int argc, char **argv) {
    return run_tests(argc, argv, tests, sizeof tests / sizeof *tests);
}
