/*
 * What programs in C see of images of format 1. It runs on Ceph's own library and on ours.
 *
 *     old_images CONF [ours]
 *
 * CONF names a cluster with a pool "rbd".
 */
#include "check.h"
#include <rbd/librbd.h>

#define MIB (1024 * 1024)
#define ALLOW "RBD_FORCE_ALLOW_V1"

static rbd_image_options_t old_format(void) {
    rbd_image_options_t options;
    rbd_image_options_create(&options);
    EQUAL(rbd_image_options_set_uint64(options, RBD_IMAGE_OPTION_FORMAT, 1), 0);
    EQUAL(rbd_image_options_set_uint64(options, RBD_IMAGE_OPTION_ORDER, 20), 0);
    return options;
}

static rbd_image_t opened(const char *name) {
    rbd_image_t image;
    EQUAL(rbd_open(pool, name, &image, NULL), 0);
    return image;
}

static uint8_t is_old(const char *name) {
    rbd_image_t image = opened(name);
    uint8_t old = 7;
    EQUAL(rbd_get_old_format(image, &old), 0);
    EQUAL(rbd_close(image), 0);
    return old;
}

static void they_are_made_where_they_are_allowed(void) {
    rbd_image_options_t options = old_format();
    int order = 0;
    unsetenv(ALLOW);
    EQUAL(rbd_create4(pool, "old", 8 * MIB, options), -EINVAL);
    setenv(ALLOW, "1", 1);
    EQUAL(rbd_create4(pool, "old", 8 * MIB, options), 0);
    EQUAL(rbd_create4(pool, "old", 8 * MIB, options), -EEXIST);
    EQUAL(rbd_create2(pool, "old", 8 * MIB, RBD_FEATURE_LAYERING, &order), -EEXIST);
    /* The configuration counts where nothing is said of features. */
    EQUAL(rados_conf_set(cluster, "rbd_default_format", "1"), 0);
    EQUAL(rbd_create(pool, "default", 8 * MIB, &order), 0);
    EQUAL(order, 22);
    EQUAL(rbd_create2(pool, "new", 8 * MIB, RBD_FEATURE_LAYERING, &order), 0);
    EQUAL(rados_conf_set(cluster, "rbd_default_format", "2"), 0);
    EQUAL(is_old("old"), 1);
    EQUAL(is_old("default"), 1);
    EQUAL(is_old("new"), 0);
    rbd_image_options_destroy(options);
}

static void those_without_ids_are_listed_first(void) {
    rbd_image_spec_t specs[4];
    char names[64];
    size_t len = sizeof names, count = 4;
    EQUAL(rbd_list(pool, names, &len), sizeof "default\0new\0old");
    CHECK(memcmp(names, "default\0old\0new", sizeof "default\0old\0new") == 0);
    EQUAL(rbd_list2(pool, specs, &count), 0);
    EQUAL(count, 3);
    CHECK(strcmp(specs[1].name, "old") == 0 && specs[1].id[0] == 0 && specs[2].id[0] != 0);
    rbd_image_spec_list_cleanup(specs, count);
    EQUAL(rbd_remove(pool, "default"), 0);
    EQUAL(rbd_remove(pool, "new"), 0);
}

static void they_say_that_they_have_nothing_new(void) {
    rbd_image_t image = opened("old");
    rbd_image_info_t info;
    uint64_t features = 7, flags = 7, overlap = 7, unit = 7, count = 7, operations = 7;
    struct timespec made = {7, 7};
    char id[32], prefix[32], name[32];
    size_t len = sizeof name;
    EQUAL(rbd_stat(image, &info, sizeof info), 0);
    CHECK(info.size == 8 * MIB && info.order == 20 && info.num_objs == 8);
    CHECK(strncmp(info.block_name_prefix, "rb.0.", 5) == 0);
    EQUAL(rbd_get_block_name_prefix(image, prefix, sizeof prefix), 0);
    CHECK(strcmp(prefix, info.block_name_prefix) == 0);
    EQUAL(rbd_get_id(image, id, sizeof id), -EINVAL);
    EQUAL(rbd_get_name(image, name, &len), 0);
    CHECK(strcmp(name, "old") == 0);
    EQUAL(rbd_get_features(image, &features), 0);
    EQUAL(rbd_get_op_features(image, &operations), 0);
    EQUAL(rbd_get_flags(image, &flags), 0);
    EQUAL(rbd_get_overlap(image, &overlap), 0);
    CHECK(features == 0 && operations == 0 && flags == 0 && overlap == 0);
    EQUAL(rbd_get_stripe_unit(image, &unit), 0);
    EQUAL(rbd_get_stripe_count(image, &count), 0);
    CHECK(unit == MIB && count == 1);
    EQUAL(rbd_get_create_timestamp(image, &made), 0);
    CHECK(made.tv_sec == 0 && made.tv_nsec == 0);
    EQUAL(rbd_get_data_pool_id(image), rados_ioctx_get_id(pool));
    EQUAL(rbd_close(image), 0);
}

static void they_are_read_and_written(void) {
    rbd_image_t image = opened("old"), other = opened("old");
    rbd_snap_info_t snaps[3];
    char read[8];
    int count = 3, is_protected = 7;
    EQUAL(rbd_write(image, MIB - 3, 6, "before"), 6);
    EQUAL(rbd_snap_create(other, "one"), 0);
    EQUAL(rbd_snap_create(image, "one"), -EEXIST);
    EQUAL(rbd_write(image, MIB - 3, 6, "behind"), 6);
    EQUAL(rbd_snap_list(other, snaps, &count), 1);
    CHECK(strcmp(snaps[0].name, "one") == 0 && snaps[0].size == 8 * MIB);
    rbd_snap_list_end(snaps);
    EQUAL(rbd_snap_is_protected(image, "one", &is_protected), 0);
    EQUAL(is_protected, 0);
    EQUAL(rbd_snap_set(other, "one"), 0);
    EQUAL(rbd_read(other, MIB - 3, 6, read), 6);
    CHECK(memcmp(read, "before", 6) == 0);
    EQUAL(rbd_write(other, 0, 1, "x"), -EROFS);
    EQUAL(rbd_snap_set(other, NULL), 0);
    EQUAL(rbd_read(other, MIB - 3, 6, read), 6);
    CHECK(memcmp(read, "behind", 6) == 0);
    EQUAL(rbd_snap_rollback(image, "one"), 0);
    EQUAL(rbd_read(image, MIB - 3, 6, read), 6);
    CHECK(memcmp(read, "before", 6) == 0);
    EQUAL(rbd_snap_rename(image, "one", "two"), 0);
    EQUAL(rbd_snap_remove(image, "one"), -ENOENT);
    EQUAL(rbd_snap_remove(image, "two"), 0);
    EQUAL(rbd_discard(image, 0, MIB), MIB);
    EQUAL(rbd_read(image, MIB - 3, 6, read), 6);
    CHECK(memcmp(read, "\0\0\0ore", 6) == 0);
    EQUAL(rbd_flush(image), 0);
    EQUAL(rbd_resize(image, 4 * MIB), 0);
    EQUAL(rbd_write(image, 4 * MIB, 1, "x"), -EINVAL);
    EQUAL(rbd_close(other), 0);
    EQUAL(rbd_close(image), 0);
}

static void what_they_lack_is_refused(void) {
    rbd_image_options_t options = old_format();
    rbd_image_t image = opened("old");
    int order = 0, owns = 7;
    EQUAL(rbd_snap_create(image, "one"), 0);
    EQUAL(rbd_snap_protect(image, "one"), -ENOSYS);
    EQUAL(rbd_flatten(image), -EINVAL);
    EQUAL(rbd_update_features(image, RBD_FEATURE_EXCLUSIVE_LOCK, 1), -EINVAL);
    EQUAL(rbd_is_exclusive_lock_owner(image, &owns), 0);
    EQUAL(owns, 0);
    EQUAL(rbd_lock_acquire(image, RBD_LOCK_MODE_EXCLUSIVE), -EINVAL);
    EQUAL(rbd_clone(pool, "old", "one", pool, "child", RBD_FEATURE_LAYERING, &order), -ENOENT);
    EQUAL(rbd_trash_move(pool, "old", 0), -EOPNOTSUPP);
    EQUAL(rbd_snap_remove(image, "one"), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_rename(pool, "old", "older"), 0);
    EQUAL(rbd_open(pool, "old", &image, NULL), -ENOENT);
    EQUAL(rbd_remove(pool, "older"), 0);
    EQUAL(rbd_remove(pool, "older"), -ENOENT);
    rbd_image_options_destroy(options);
}

static const struct test TESTS[] = {
    TEST(they_are_made_where_they_are_allowed),
    TEST(those_without_ids_are_listed_first),
    TEST(they_say_that_they_have_nothing_new),
    TEST(they_are_read_and_written),
    TEST(what_they_lack_is_refused),
};

int main(int argc, char **argv) {
    return run_tests(argc, argv, TESTS, sizeof TESTS / sizeof *TESTS);
}
