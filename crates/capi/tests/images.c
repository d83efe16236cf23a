/*
 * What programs in C rely on of librbd beyond reads and writes, and what is easily got wrong: sizes of lists, errors, bounds,
 * owners. It runs on Ceph's own library and on ours.
 *
 *     images CONF [ours]
 *
 * CONF names a cluster with a pool "rbd".
 */
#include "check.h"
#include <inttypes.h>
#include <pthread.h>
#include <rbd/librbd.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024 * 1024)
#define OBJECT (4 * MIB)

static rbd_image_t new_image(const char *name, uint64_t size, uint64_t features) {
    rbd_image_t image;
    int order = 22;
    EQUAL(rbd_create2(pool, name, size, features, &order), 0);
    EQUAL(rbd_open(pool, name, &image, NULL), 0);
    return image;
}

/* Ceph's library calls it whenever it has something to tell: there must be one. */
static int tell(uint64_t done, uint64_t all, void *arg) {
    CHECK(done <= all);
    ++*(int *)arg;
    return 0;
}

static void options_have_types(void) {
    rbd_image_options_t options;
    uint64_t number = 0;
    char text[16];
    bool is_set = true;
    rbd_image_options_create(&options);
    EQUAL(rbd_image_options_is_empty(options), 1);
    EQUAL(rbd_image_options_set_uint64(options, RBD_IMAGE_OPTION_ORDER, 20), 0);
    EQUAL(rbd_image_options_get_uint64(options, RBD_IMAGE_OPTION_ORDER, &number), 0);
    EQUAL(number, 20);
    EQUAL(rbd_image_options_set_string(options, RBD_IMAGE_OPTION_ORDER, "20"), -EINVAL);
    EQUAL(rbd_image_options_set_uint64(options, RBD_IMAGE_OPTION_DATA_POOL, 1), -EINVAL);
    EQUAL(rbd_image_options_set_string(options, RBD_IMAGE_OPTION_DATA_POOL, "rbd"), 0);
    EQUAL(rbd_image_options_get_string(options, RBD_IMAGE_OPTION_DATA_POOL, text, sizeof text), 0);
    CHECK(strcmp(text, "rbd") == 0);
    EQUAL(rbd_image_options_get_uint64(options, RBD_IMAGE_OPTION_STRIPE_UNIT, &number), -ENOENT);
    EQUAL(rbd_image_options_is_set(options, RBD_IMAGE_OPTION_STRIPE_UNIT, &is_set), 0);
    CHECK(!is_set);
    EQUAL(rbd_image_options_set_uint64(options, 99, 1), -EINVAL);
    rbd_image_options_destroy(options);
}

static void snapshots_are_kept(void) {
    rbd_image_t image = new_image("snapshots", 8 * MIB, RBD_FEATURE_LAYERING);
    rbd_snap_info_t snaps[4];
    char buf[8], name[8];
    uint64_t id, limit;
    int count = 0, is_protected = 7, told = 0;
    size_t len;
    bool exists;
    struct timespec made;
    rbd_snap_namespace_type_t kind;
    EQUAL(rbd_write(image, 0, 6, "before"), 6);
    EQUAL(rbd_snap_create(image, "one"), 0);
    EQUAL(rbd_snap_create(image, "one"), -EEXIST);
    EQUAL(rbd_write(image, 0, 6, "behind"), 6);
    EQUAL(rbd_snap_create2(image, "two", RBD_SNAP_CREATE_SKIP_QUIESCE, tell, &told), 0);
    /* The list ends with one without a name, for which there must be room. */
    count = 2;
    EQUAL(rbd_snap_list(image, snaps, &count), -ERANGE);
    EQUAL(count, 3);
    EQUAL(rbd_snap_list(image, snaps, &count), 2);
    CHECK(strcmp(snaps[0].name, "one") == 0 && strcmp(snaps[1].name, "two") == 0);
    CHECK(snaps[2].name == NULL && snaps[0].size == 8 * MIB);
    id = snaps[0].id;
    rbd_snap_list_end(snaps);

    EQUAL(rbd_snap_get_id(image, "one", &limit), 0);
    EQUAL(limit, id);
    EQUAL(rbd_snap_get_id(image, "three", &limit), -ENOENT);
    len = 1;
    EQUAL(rbd_snap_get_name(image, id, name, &len), -ERANGE);
    len = sizeof name;
    EQUAL(rbd_snap_get_name(image, id, name, &len), 0);
    CHECK(strcmp(name, "one") == 0);
    EQUAL(rbd_snap_exists(image, "one", &exists), 0);
    CHECK(exists);
    EQUAL(rbd_snap_exists(image, "three", &exists), 0);
    CHECK(!exists);
    EQUAL(rbd_snap_get_timestamp(image, id, &made), 0);
    CHECK(made.tv_sec > time(NULL) - 600 && made.tv_sec < time(NULL) + 600);
    EQUAL(rbd_snap_get_namespace_type(image, id, &kind), 0);
    EQUAL(kind, RBD_SNAP_NAMESPACE_TYPE_USER);

    EQUAL(rbd_snap_is_protected(image, "one", &is_protected), 0);
    EQUAL(is_protected, 0);
    EQUAL(rbd_snap_unprotect(image, "one"), -EINVAL);
    EQUAL(rbd_snap_protect(image, "one"), 0);
    EQUAL(rbd_snap_protect(image, "one"), -EBUSY);
    EQUAL(rbd_snap_remove(image, "one"), -EBUSY);
    EQUAL(rbd_snap_is_protected(image, "one", &is_protected), 0);
    EQUAL(is_protected, 1);
    EQUAL(rbd_snap_unprotect(image, "one"), 0);

    /* A handle may show a snapshot, and the image again. */
    EQUAL(rbd_snap_set(image, "three"), -ENOENT);
    EQUAL(rbd_snap_set(image, "one"), 0);
    EQUAL(rbd_read(image, 0, 6, buf), 6);
    CHECK(memcmp(buf, "before", 6) == 0);
    EQUAL(rbd_write(image, 0, 6, "no way"), -EROFS);
    EQUAL(rbd_resize(image, MIB), -EROFS);
    EQUAL(rbd_snap_set(image, NULL), 0);
    EQUAL(rbd_read(image, 0, 6, buf), 6);
    CHECK(memcmp(buf, "behind", 6) == 0);
    EQUAL(rbd_snap_set_by_id(image, id), 0);
    EQUAL(rbd_read(image, 0, 6, buf), 6);
    CHECK(memcmp(buf, "before", 6) == 0);
    EQUAL(rbd_snap_set(image, ""), 0);

    EQUAL(rbd_resize(image, 4 * MIB), 0);
    EQUAL(rbd_snap_rollback(image, "three"), -ENOENT);
    EQUAL(rbd_snap_rollback(image, "one"), 0);
    EQUAL(rbd_get_size(image, &limit), 0);
    EQUAL(limit, 8 * MIB);
    EQUAL(rbd_read(image, 0, 6, buf), 6);
    CHECK(memcmp(buf, "before", 6) == 0);

    EQUAL(rbd_snap_rename(image, "one", "two"), -EEXIST);
    EQUAL(rbd_snap_rename(image, "one", "uno"), 0);
    EQUAL(rbd_snap_get_limit(image, &limit), 0);
    CHECK(limit == UINT64_MAX);
    EQUAL(rbd_snap_set_limit(image, 2), 0);
    EQUAL(rbd_snap_create(image, "three"), -EDQUOT);
    EQUAL(rbd_snap_set_limit(image, UINT64_MAX), 0);
    EQUAL(rbd_snap_remove(image, "one"), -ENOENT);
    EQUAL(rbd_snap_remove_by_id(image, id), 0);
    EQUAL(rbd_remove(pool, "snapshots"), -ENOTEMPTY);
    EQUAL(rbd_snap_remove2(image, "two", RBD_SNAP_REMOVE_FORCE, tell, &told), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "snapshots"), 0);
}

static void images_are_opened_by_their_ids(void) {
    rbd_image_t image = new_image("named", 4 * MIB, RBD_FEATURE_LAYERING), other;
    char id[32], name[32], small[2];
    size_t len = sizeof name;
    EQUAL(rbd_get_id(image, small, sizeof small), -ERANGE);
    EQUAL(rbd_get_id(image, id, sizeof id), 0);
    EQUAL(rbd_snap_create(image, "snap"), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_open_by_id(pool, "nonsense", &other, NULL), -ENOENT);
    EQUAL(rbd_rename(pool, "named", "renamed"), 0);
    EQUAL(rbd_rename(pool, "named", "anything"), -ENOENT);
    EQUAL(rbd_open(pool, "named", &other, NULL), -ENOENT);
    EQUAL(rbd_open_by_id(pool, id, &other, NULL), 0);
    EQUAL(rbd_get_name(other, name, &len), 0);
    CHECK(strcmp(name, "renamed") == 0);
    EQUAL(rbd_write(other, 0, 1, "x"), 1);
    EQUAL(rbd_close(other), 0);
    EQUAL(rbd_open_by_id_read_only(pool, id, &other, NULL), 0);
    EQUAL(rbd_write(other, 0, 1, "x"), -EROFS);
    EQUAL(rbd_discard(other, 0, 1), -EROFS);
    EQUAL(rbd_snap_create(other, "more"), -EROFS);
    EQUAL(rbd_snap_remove(other, "snap"), -EROFS);
    EQUAL(rbd_resize(other, MIB), -EROFS);
    EQUAL(rbd_flatten(other), -EROFS);
    EQUAL(rbd_close(other), 0);
    EQUAL(rbd_open_by_id(pool, id, &other, "snap"), 0);
    EQUAL(rbd_read(other, 0, 1, name), 1);
    EQUAL(name[0], 0);
    EQUAL(rbd_write(other, 0, 1, "x"), -EROFS);
    EQUAL(rbd_close(other), 0);
    EQUAL(rbd_open_by_id(pool, id, &other, "none"), -ENOENT);
    EQUAL(rbd_open(pool, "renamed", &other, NULL), 0);
    EQUAL(rbd_snap_remove(other, "snap"), 0);
    EQUAL(rbd_close(other), 0);
    EQUAL(rbd_remove(pool, "renamed"), 0);
}

static void clones_know_their_parents(void) {
    rbd_image_t parent = new_image("parent", 8 * MIB, RBD_FEATURE_LAYERING), child;
    rbd_image_options_t options;
    rbd_linked_image_spec_t linked[2], of;
    rbd_snap_spec_t snap;
    rbd_child_info_t infos[3];
    rbd_snap_info_t snaps[3];
    rbd_snap_namespace_type_t kind;
    char name[64], small[3], buf[8];
    size_t count = 0;
    int most = 0, told = 0, order = 0;
    uint64_t id, overlap;
    rbd_image_options_create(&options);
    EQUAL(rbd_write(parent, 0, 6, "parent"), 6);
    EQUAL(rbd_snap_create(parent, "snap"), 0);
    EQUAL(rbd_get_parent(parent, &of, &snap), -ENOENT);
    EQUAL(rbd_flatten(parent), -EINVAL);
    EQUAL(rbd_image_options_set_uint64(options, RBD_IMAGE_OPTION_CLONE_FORMAT, 1), 0);
    EQUAL(rbd_clone3(pool, "parent", "snap", pool, "child", options), -EINVAL);
    EQUAL(rbd_image_options_set_uint64(options, RBD_IMAGE_OPTION_CLONE_FORMAT, 2), 0);
    EQUAL(rbd_clone3(pool, "parent", "none", pool, "child", options), -ENOENT);
    EQUAL(rbd_clone3(pool, "nobody", "snap", pool, "child", options), -ENOENT);
    EQUAL(rbd_clone3(pool, "parent", "snap", pool, "child", options), 0);
    EQUAL(rbd_clone3(pool, "parent", "snap", pool, "child", options), -EEXIST);
    rbd_image_options_destroy(options);

    EQUAL(rbd_list_children3(parent, linked, &count), -ERANGE);
    EQUAL(count, 1);
    EQUAL(rbd_list_children3(parent, linked, &count), 0);
    CHECK(strcmp(linked[0].image_name, "child") == 0 && strcmp(linked[0].pool_name, "rbd") == 0);
    CHECK(!linked[0].trash && linked[0].pool_namespace[0] == 0);
    rbd_linked_image_spec_list_cleanup(linked, 1);
    /* Here, too, there is one more, without names. */
    most = 1;
    EQUAL(rbd_list_children2(parent, infos, &most), -ERANGE);
    EQUAL(most, 2);
    EQUAL(rbd_list_children2(parent, infos, &most), 1);
    CHECK(strcmp(infos[0].image_name, "child") == 0 && infos[1].pool_name == NULL);
    rbd_list_children_cleanup(infos, 1);
    count = 2;
    EQUAL(rbd_list_descendants(parent, linked, &count), 0);
    EQUAL(count, 1);
    rbd_linked_image_spec_list_cleanup(linked, 1);

    EQUAL(rbd_open(pool, "child", &child, NULL), 0);
    EQUAL(rbd_get_overlap(child, &overlap), 0);
    EQUAL(overlap, 8 * MIB);
    EQUAL(rbd_get_parent(child, &of, &snap), 0);
    CHECK(strcmp(of.image_name, "parent") == 0 && strcmp(snap.name, "snap") == 0);
    EQUAL(of.pool_id, rados_ioctx_get_id(pool));
    EQUAL(snap.namespace_type, RBD_SNAP_NAMESPACE_TYPE_USER);
    rbd_linked_image_spec_cleanup(&of);
    rbd_snap_spec_cleanup(&snap);
    EQUAL(rbd_get_parent_info(child, NULL, 0, small, sizeof small, NULL, 0), -ERANGE);
    EQUAL(rbd_get_parent_info(child, NULL, 0, name, sizeof name, NULL, 0), 0);
    CHECK(strcmp(name, "parent") == 0);
    EQUAL(rbd_read(child, 0, 6, buf), 6);
    CHECK(memcmp(buf, "parent", 6) == 0);

    /* A snapshot with clones stays out of sight until the last of them has gone. */
    EQUAL(rbd_snap_remove(parent, "snap"), 0);
    most = 3;
    EQUAL(rbd_snap_list(parent, snaps, &most), 1);
    id = snaps[0].id;
    rbd_snap_list_end(snaps);
    EQUAL(rbd_snap_get_namespace_type(parent, id, &kind), 0);
    EQUAL(kind, RBD_SNAP_NAMESPACE_TYPE_TRASH);
    EQUAL(rbd_snap_get_trash_namespace(parent, id, small, sizeof small), -ERANGE);
    EQUAL(rbd_snap_get_trash_namespace(parent, id, name, sizeof name), 0);
    CHECK(strcmp(name, "snap") == 0);
    EQUAL(rbd_flatten_with_progress(child, tell, &told), 0);
    CHECK(told > 0);
    EQUAL(rbd_flatten(child), -EINVAL);
    EQUAL(rbd_get_overlap(child, &overlap), 0);
    EQUAL(overlap, 0);
    EQUAL(rbd_read(child, 0, 6, buf), 6);
    CHECK(memcmp(buf, "parent", 6) == 0);
    most = 3;
    EQUAL(rbd_snap_list(parent, snaps, &most), 0);
    EQUAL(rbd_close(child), 0);
    EQUAL(rbd_remove(pool, "child"), 0);

    /* Clones of the first format need a snapshot that stays. */
    EQUAL(rbd_snap_create(parent, "old"), 0);
    EQUAL(rbd_snap_protect(parent, "old"), 0);
    EQUAL(rbd_clone(pool, "parent", "old", pool, "child", RBD_FEATURE_LAYERING, &order), 0);
    /* It asks for the parent's order, and stays what it was. */
    EQUAL(order, 0);
    EQUAL(rbd_remove(pool, "child"), 0);
    EQUAL(rbd_snap_unprotect(parent, "old"), 0);
    EQUAL(rbd_snap_remove(parent, "old"), 0);
    EQUAL(rbd_close(parent), 0);
    EQUAL(rbd_remove(pool, "parent"), 0);
}

static void locks_have_holders(void) {
    rbd_image_t image = new_image("locked", 4 * MIB, RBD_FEATURE_LAYERING);
    char tag[16], clients[64], cookies[64], addresses[128];
    size_t tag_len = sizeof tag, clients_len = sizeof clients, cookies_len = sizeof cookies,
           addresses_len = sizeof addresses;
    int is_exclusive;
#define LOCKERS                                                                                                \
    rbd_list_lockers(image, &is_exclusive, tag, &tag_len, clients, &clients_len, cookies, &cookies_len, addresses,   \
                     &addresses_len)
    EQUAL(LOCKERS, 0);
    EQUAL(rbd_unlock(image, "cookie"), -ENOENT);
    EQUAL(rbd_lock_exclusive(image, "cookie"), 0);
    EQUAL(rbd_lock_exclusive(image, "cookie"), -EEXIST);
    EQUAL(rbd_lock_exclusive(image, "another"), -EBUSY);
    EQUAL(rbd_lock_shared(image, "another", "tag"), -EBUSY);
    tag_len = sizeof tag, clients_len = 1, cookies_len = sizeof cookies, addresses_len = sizeof addresses;
    EQUAL(LOCKERS, -ERANGE);
    CHECK(clients_len > 1 && clients_len < sizeof clients);
    tag_len = sizeof tag, cookies_len = sizeof cookies, addresses_len = sizeof addresses;
    EQUAL(LOCKERS, 1);
    EQUAL(is_exclusive, 1);
    CHECK(strcmp(cookies, "cookie") == 0 && strncmp(clients, "client.", 7) == 0 && tag[0] == 0);
    EQUAL(cookies_len, 7);
    EQUAL(rbd_break_lock(image, "client.1", "cookie"), -ENOENT);
    EQUAL(rbd_break_lock(image, "nobody", "cookie"), -EINVAL);
    EQUAL(rbd_unlock(image, "cookie"), 0);
    EQUAL(rbd_lock_shared(image, "a", "tag"), 0);
    EQUAL(rbd_lock_shared(image, "b", "tag"), 0);
    EQUAL(rbd_lock_shared(image, "c", "gat"), -EBUSY);
    tag_len = sizeof tag, clients_len = sizeof clients, cookies_len = sizeof cookies, addresses_len = sizeof addresses;
    EQUAL(LOCKERS, 2);
    EQUAL(is_exclusive, 0);
    EQUAL(cookies_len, 4);
    CHECK(strcmp(tag, "tag") == 0);
    EQUAL(rbd_unlock(image, "a"), 0);
    EQUAL(rbd_unlock(image, "b"), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "locked"), 0);
#undef LOCKERS
}

static void the_owner_is_an_address(void) {
    rbd_image_t image = new_image("owned", 4 * MIB, RBD_FEATURE_LAYERING | RBD_FEATURE_EXCLUSIVE_LOCK);
    rbd_image_t plain = new_image("unowned", 4 * MIB, RBD_FEATURE_LAYERING);
    rbd_lock_mode_t mode = 7;
    char *owners[2] = {NULL, NULL};
    size_t count = 2;
    int is_owner = 7;
    EQUAL(rbd_lock_acquire(plain, RBD_LOCK_MODE_EXCLUSIVE), -EINVAL);
    EQUAL(rbd_lock_get_owners(image, &mode, owners, &count), -ENOENT);
    EQUAL(rbd_is_exclusive_lock_owner(image, &is_owner), 0);
    EQUAL(is_owner, 0);
    EQUAL(rbd_lock_acquire(image, RBD_LOCK_MODE_SHARED), -EOPNOTSUPP);
    EQUAL(rbd_lock_acquire(image, RBD_LOCK_MODE_EXCLUSIVE), 0);
    EQUAL(rbd_is_exclusive_lock_owner(image, &is_owner), 0);
    EQUAL(is_owner, 1);
    count = 0;
    EQUAL(rbd_lock_get_owners(image, &mode, owners, &count), -ERANGE);
    EQUAL(count, 1);
    EQUAL(rbd_lock_get_owners(image, &mode, owners, &count), 0);
    EQUAL(mode, RBD_LOCK_MODE_EXCLUSIVE);
    /* IP:port/nonce */
    CHECK(strchr(owners[0], ':') != NULL && strchr(owners[0], '/') != NULL && strncmp(owners[0], "client", 6) != 0);
    rbd_lock_get_owners_cleanup(owners, count);
    EQUAL(rbd_lock_break(image, RBD_LOCK_MODE_SHARED, "1.2.3.4:5/6"), -EOPNOTSUPP);
    EQUAL(rbd_lock_break(image, RBD_LOCK_MODE_EXCLUSIVE, "1.2.3.4:5/6"), -EBUSY);
    EQUAL(rbd_write(image, 0, 5, "owned"), 5);
    EQUAL(rbd_resize(image, 8 * MIB), 0);
    EQUAL(rbd_snap_create(image, "snap"), 0);
    EQUAL(rbd_snap_remove(image, "snap"), 0);
    EQUAL(rbd_lock_release(image), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_close(plain), 0);
    EQUAL(rbd_remove(pool, "owned"), 0);
    EQUAL(rbd_remove(pool, "unowned"), 0);
}

static void writes_compare_before(void) {
    rbd_image_t image = new_image("compared", 12 * MIB, RBD_FEATURE_LAYERING);
    rbd_completion_t completion;
    uint64_t at = 77;
    char old[512], new[512], buf[512];
    memset(old, 'o', sizeof old);
    memset(new, 'n', sizeof new);
    /* What was never written is zeros. */
    memset(buf, 0, sizeof buf);
    EQUAL(rbd_compare_and_write(image, OBJECT + 512, sizeof buf, buf, old, &at, 0), sizeof buf);
    EQUAL(rbd_compare_and_write(image, OBJECT + 512, sizeof old, old, new, &at, 0), sizeof old);
    EQUAL(rbd_read(image, OBJECT + 512, sizeof buf, buf), sizeof buf);
    CHECK(memcmp(buf, new, sizeof buf) == 0);
    memcpy(old, new, sizeof old);
    old[3] = 'x';
    EQUAL(rbd_compare_and_write(image, OBJECT + 512, sizeof old, old, new, &at, 0), -EILSEQ);
    /* It is counted from the start of the object, as if the comparison began there. */
    EQUAL(at, OBJECT + 3);
    EQUAL(rbd_aio_create_completion(NULL, NULL, &completion), 0);
    EQUAL(rbd_aio_compare_and_write(image, OBJECT + 512, sizeof new, new, old, completion, &at, 0), 0);
    EQUAL(rbd_aio_wait_for_complete(completion), 0);
    EQUAL(rbd_aio_get_return_value(completion), 0);
    rbd_aio_release(completion);
    EQUAL(rbd_read(image, OBJECT + 512, sizeof buf, buf), sizeof buf);
    EQUAL(buf[3], 'x');
    /* Both are one step in one object alone. */
    EQUAL(rbd_compare_and_write(image, OBJECT - 256, sizeof old, old, new, &at, 0), -EINVAL);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "compared"), 0);
}

struct ranges {
    int count;
    uint64_t offset[8], length[8];
    int exists[8];
    int answer;
};

static int visit(uint64_t offset, size_t length, int exists, void *arg) {
    struct ranges *ranges = arg;
    CHECK(ranges->count < 8);
    if (ranges->count > 0)
        CHECK(offset >= ranges->offset[ranges->count - 1] + ranges->length[ranges->count - 1]);
    ranges->offset[ranges->count] = offset;
    ranges->length[ranges->count] = length;
    ranges->exists[ranges->count++] = exists;
    return ranges->answer;
}

/* Who changes an image leads it from then on. Less than a grain is not discarded. */
static void changes_take_the_lock(void) {
    rbd_image_t image =
        new_image("led", 4 * MIB, RBD_FEATURE_LAYERING | RBD_FEATURE_EXCLUSIVE_LOCK | RBD_FEATURE_OBJECT_MAP);
    int is_owner = 7;
    char bytes[4096], found[4096];
    EQUAL(rbd_discard(image, 0, sizeof bytes), sizeof bytes);
    EQUAL(rbd_is_exclusive_lock_owner(image, &is_owner), 0);
    EQUAL(is_owner, 1);
    EQUAL(rbd_lock_release(image), 0);
    EQUAL(rbd_snap_create(image, "first"), 0);
    EQUAL(rbd_is_exclusive_lock_owner(image, &is_owner), 0);
    EQUAL(is_owner, 1);
    EQUAL(rbd_write(image, 0, sizeof bytes, memset(bytes, 1, sizeof bytes)), sizeof bytes);
    EQUAL(rbd_discard(image, 0, sizeof bytes), sizeof bytes);
    EQUAL(rbd_discard(image, 512, 65536), 65536);
    EQUAL(rbd_read(image, 0, sizeof found, found), sizeof found);
    CHECK(memcmp(found, bytes, sizeof found) == 0);
    EQUAL(rbd_discard(image, 0, 65536 + 512), 65536 + 512);
    EQUAL(rbd_read(image, 0, sizeof found, found), sizeof found);
    CHECK(memcmp(found, memset(bytes, 0, sizeof bytes), sizeof found) == 0);
    EQUAL(rbd_snap_rollback(image, "first"), 0);
    EQUAL(rbd_snap_remove(image, "first"), 0);
    EQUAL(rbd_is_exclusive_lock_owner(image, &is_owner), 0);
    EQUAL(is_owner, 1);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "led"), 0);
}

static void changes_are_visited(void) {
    rbd_image_t image = new_image("changes", 16 * MIB, RBD_FEATURE_LAYERING);
    struct ranges ranges = {0};
    char ones[4096];
    EQUAL(rbd_diff_iterate2(image, NULL, 0, 16 * MIB, 1, 0, visit, &ranges), 0);
    EQUAL(ranges.count, 0);
    EQUAL(rbd_write(image, 0, sizeof ones, memset(ones, 1, sizeof ones)), sizeof ones);
    EQUAL(rbd_snap_create(image, "one"), 0);
    EQUAL(rbd_write(image, OBJECT, 6, "second"), 6);
    EQUAL(rbd_discard(image, 0, OBJECT), OBJECT);
    EQUAL(rbd_diff_iterate2(image, "one", 0, 16 * MIB, 1, 0, visit, &ranges), 0);
    EQUAL(ranges.count, 2);
    EQUAL(ranges.exists[0], 0);
    EQUAL(ranges.offset[1], OBJECT);
    EQUAL(ranges.exists[1], 1);
    ranges.count = 0;
    EQUAL(rbd_diff_iterate2(image, NULL, 0, 16 * MIB, 1, 1, visit, &ranges), 0);
    EQUAL(ranges.count, 1);
    EQUAL(ranges.offset[0], OBJECT);
    EQUAL(ranges.length[0], OBJECT);
    /* Parts are cut where the caller's range ends. */
    ranges.count = 0;
    EQUAL(rbd_diff_iterate2(image, NULL, OBJECT + 1, 100, 1, 1, visit, &ranges), 0);
    EQUAL(ranges.count, 1);
    EQUAL(ranges.offset[0], OBJECT + 1);
    EQUAL(ranges.length[0], 100);
    /* What the callback returns below 0 is returned as it is. It ends the walk, but for objects that are asked already. */
    ranges.count = 0;
    ranges.answer = -9000;
    EQUAL(rbd_diff_iterate2(image, "one", 0, 16 * MIB, 1, 0, visit, &ranges), -9000);
    CHECK(ranges.count == 1 || ranges.count == 2);
    ranges.answer = 0;
    EQUAL(rbd_diff_iterate2(image, "none", 0, 16 * MIB, 1, 0, visit, &ranges), -ENOENT);
    EQUAL(rbd_diff_iterate2(image, NULL, 0, 0, 1, 0, visit, &ranges), 0);
    EQUAL(rbd_diff_iterate2(image, NULL, 16 * MIB, 4096, 1, 0, visit, &ranges), -EINVAL);
    EQUAL(rbd_snap_remove(image, "one"), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "changes"), 0);
}

static int read_part(uint64_t offset, size_t length, const char *buf, void *arg) {
    uint64_t *next = arg;
    EQUAL(offset, *next);
    if (offset == 0)
        CHECK(buf != NULL && memcmp(buf, "part", 4) == 0);
    *next += length;
    return *next > 5 * MIB ? -7 : 0;
}

static void reads_go_through_an_image(void) {
    rbd_image_t image = new_image("parts", 8 * MIB, RBD_FEATURE_LAYERING);
    uint64_t next = 0;
    EQUAL(rbd_write(image, 3 * MIB, 4, "part"), 4);
    /* Offsets begin with 0, wherever the read begins. */
    EQUAL(rbd_read_iterate(image, 3 * MIB, 2 * MIB, read_part, &next), 2 * MIB);
    EQUAL(next, 2 * MIB);
    next = 0;
    EQUAL(rbd_read_iterate2(image, 3 * MIB, 2 * MIB, read_part, &next), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "parts"), 0);
}

static void copies_are_images(void) {
    rbd_image_t image = new_image("source", 8 * MIB, RBD_FEATURE_LAYERING), copy;
    rbd_image_options_t options;
    rbd_snap_info_t snaps[3];
    char buf[8];
    int told = 0, most = 3;
    rbd_image_options_create(&options);
    EQUAL(rbd_write(image, 5 * MIB, 4, "then"), 4);
    EQUAL(rbd_snap_create(image, "snap"), 0);
    EQUAL(rbd_write(image, 5 * MIB, 4, "now!"), 4);
    EQUAL(rbd_copy_with_progress3(image, pool, "copy", options, tell, &told), 0);
    CHECK(told > 0);
    EQUAL(rbd_copy(image, pool, "copy"), -EEXIST);
    EQUAL(rbd_open(pool, "copy", &copy, NULL), 0);
    EQUAL(rbd_read(copy, 5 * MIB, 4, buf), 4);
    CHECK(memcmp(buf, "now!", 4) == 0);
    EQUAL(rbd_snap_list(copy, snaps, &most), 0);
    EQUAL(rbd_write(copy, 5 * MIB, 4, "gone"), 4);
    EQUAL(rbd_copy2(image, copy), 0);
    EQUAL(rbd_read(copy, 5 * MIB, 4, buf), 4);
    CHECK(memcmp(buf, "now!", 4) == 0);
    EQUAL(rbd_close(copy), 0);
    EQUAL(rbd_remove(pool, "copy"), 0);
    EQUAL(rbd_deep_copy(image, pool, "deep", options), 0);
    EQUAL(rbd_open(pool, "deep", &copy, "snap"), 0);
    EQUAL(rbd_read(copy, 5 * MIB, 4, buf), 4);
    CHECK(memcmp(buf, "then", 4) == 0);
    EQUAL(rbd_close(copy), 0);
    EQUAL(rbd_open(pool, "deep", &copy, NULL), 0);
    EQUAL(rbd_snap_remove(copy, "snap"), 0);
    EQUAL(rbd_sparsify(copy, 3000), -EINVAL);
    EQUAL(rbd_sparsify(copy, 4096), 0);
    EQUAL(rbd_close(copy), 0);
    EQUAL(rbd_remove(pool, "deep"), 0);
    EQUAL(rbd_snap_remove(image, "snap"), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "source"), 0);
    rbd_image_options_destroy(options);
}

static void the_trash_keeps_images(void) {
    rbd_image_t image = new_image("rubbish", 4 * MIB, RBD_FEATURE_LAYERING);
    rbd_trash_image_info_t entries[2], entry;
    char id[32];
    size_t count = 2;
    EQUAL(rbd_get_id(image, id, sizeof id), 0);
    EQUAL(rbd_trash_list(pool, entries, &count), 0);
    EQUAL(count, 0);
    EQUAL(rbd_trash_move(pool, "nothing", 0), -ENOENT);
    /* It is open here, and nowhere else. */
    EQUAL(rbd_trash_move(pool, "rubbish", 1000), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_open(pool, "rubbish", &image, NULL), -ENOENT);
    EQUAL(rbd_trash_get(pool, "nothing", &entry), -ENOENT);
    EQUAL(rbd_trash_get(pool, id, &entry), 0);
    CHECK(strcmp(entry.id, id) == 0 && strcmp(entry.name, "rubbish") == 0);
    EQUAL(entry.source, RBD_TRASH_IMAGE_SOURCE_USER);
    EQUAL(entry.deferment_end_time - entry.deletion_time, 1000);
    rbd_trash_get_cleanup(&entry);
    EQUAL(rbd_trash_list(pool, entries, &count), -ERANGE);
    EQUAL(count, 1);
    EQUAL(rbd_trash_list(pool, entries, &count), 1);
    CHECK(strcmp(entries[0].id, id) == 0);
    rbd_trash_list_cleanup(entries, count);
    EQUAL(rbd_trash_remove(pool, id, false), -EPERM);
    EQUAL(rbd_trash_restore(pool, "nothing", ""), -ENOENT);
    EQUAL(rbd_trash_restore(pool, id, "treasure"), 0);
    EQUAL(rbd_trash_move(pool, "treasure", 0), 0);
    EQUAL(rbd_trash_restore(pool, id, ""), 0);
    EQUAL(rbd_trash_move(pool, "treasure", 1000), 0);
    EQUAL(rbd_trash_purge(pool, time(NULL), -1), 0);
    EQUAL(rbd_trash_get(pool, id, &entry), 0);
    rbd_trash_get_cleanup(&entry);
    EQUAL(rbd_trash_purge(pool, time(NULL) + 2000, -1), 0);
    EQUAL(rbd_trash_get(pool, id, &entry), -ENOENT);
}

static void groups_have_images(void) {
    rbd_image_t image = new_image("member", 4 * MIB, RBD_FEATURE_LAYERING);
    rbd_group_image_info_t images[2];
    rbd_group_snap_info_t snaps[2];
    rbd_group_info_t group;
    rbd_snap_info_t own[2];
    rbd_snap_group_namespace_t of;
    char names[64], buf[8];
    size_t size = 0;
    int most = 2;
    EQUAL(rbd_group_create(pool, "group"), 0);
    EQUAL(rbd_group_create(pool, "group"), -EEXIST);
    EQUAL(rbd_group_list(pool, NULL, &size), -ERANGE);
    EQUAL(size, 6);
    EQUAL(rbd_group_list(pool, names, &size), 6);
    CHECK(strcmp(names, "group") == 0);
    EQUAL(rbd_get_group(image, &group, sizeof group), 0);
    EQUAL(group.pool, -1);
    EQUAL(group.name[0], 0);
    rbd_group_info_cleanup(&group, sizeof group);
    EQUAL(rbd_group_image_add(pool, "none", pool, "member"), -ENOENT);
    EQUAL(rbd_group_image_add(pool, "group", pool, "member"), 0);
    EQUAL(rbd_get_group(image, &group, 0), -ERANGE);
    EQUAL(rbd_get_group(image, &group, sizeof group), 0);
    CHECK(strcmp(group.name, "group") == 0 && group.pool == rados_ioctx_get_id(pool));
    rbd_group_info_cleanup(&group, sizeof group);
    size = 0;
    EQUAL(rbd_group_image_list(pool, "group", NULL, sizeof *images, &size), -ERANGE);
    EQUAL(size, 1);
    EQUAL(rbd_group_image_list(pool, "group", images, 1, &size), -ERANGE);
    size = 2;
    EQUAL(rbd_group_image_list(pool, "group", images, sizeof *images, &size), 1);
    CHECK(strcmp(images[0].name, "member") == 0);
    EQUAL(images[0].state, RBD_GROUP_IMAGE_STATE_ATTACHED);
    EQUAL(rbd_group_image_list_cleanup(images, sizeof *images, size), 0);

    EQUAL(rbd_write(image, 0, 4, "then"), 4);
    EQUAL(rbd_group_snap_create(pool, "group", "snap"), 0);
    EQUAL(rbd_group_snap_create(pool, "group", "snap"), -EEXIST);
    EQUAL(rbd_write(image, 0, 4, "now!"), 4);
    EQUAL(rbd_snap_list(image, own, &most), 1);
    EQUAL(rbd_snap_get_group_namespace(image, own[0].id, &of, sizeof of), 0);
    CHECK(strcmp(of.group_name, "group") == 0 && strcmp(of.group_snap_name, "snap") == 0);
    EQUAL(rbd_snap_group_namespace_cleanup(&of, sizeof of), 0);
    EQUAL(rbd_snap_get_trash_namespace(image, own[0].id, names, sizeof names), -EINVAL);
    rbd_snap_list_end(own);
    size = 2;
    EQUAL(rbd_group_snap_list(pool, "group", snaps, sizeof *snaps, &size), 1);
    EQUAL(size, 1);
    CHECK(strcmp(snaps[0].name, "snap") == 0);
    EQUAL(snaps[0].state, RBD_GROUP_SNAP_STATE_COMPLETE);
    EQUAL(rbd_group_snap_list_cleanup(snaps, sizeof *snaps, size), 0);
    EQUAL(rbd_group_snap_rollback(pool, "group", "none"), -ENOENT);
    EQUAL(rbd_group_snap_rollback(pool, "group", "snap"), 0);
    EQUAL(rbd_invalidate_cache(image), 0);
    EQUAL(rbd_read(image, 0, 4, buf), 4);
    CHECK(memcmp(buf, "then", 4) == 0);
    EQUAL(rbd_group_snap_rename(pool, "group", "snap", "snapped"), 0);
    EQUAL(rbd_group_snap_remove(pool, "group", "snap"), -ENOENT);
    EQUAL(rbd_group_snap_remove(pool, "group", "snapped"), 0);
    EQUAL(rbd_group_image_remove(pool, "group", pool, "member"), 0);
    EQUAL(rbd_group_rename(pool, "group", "troupe"), 0);
    EQUAL(rbd_group_remove(pool, "troupe"), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "member"), 0);
}

static void namespaces_keep_images_apart(void) {
    rados_ioctx_t within;
    rbd_image_t image;
    bool exists = false;
    char names[8];
    size_t size = 0;
    int order = 22;
    EQUAL(rbd_namespace_create(pool, ""), -EINVAL);
    EQUAL(rbd_namespace_create(pool, "space"), 0);
    EQUAL(rbd_namespace_create(pool, "space"), -EEXIST);
    EQUAL(rbd_namespace_list(pool, NULL, &size), -EINVAL);
    EQUAL(rbd_namespace_list(pool, names, &size), -ERANGE);
    EQUAL(size, 6);
    EQUAL(rbd_namespace_list(pool, names, &size), 6);
    CHECK(strcmp(names, "space") == 0);
    EQUAL(rbd_namespace_exists(pool, "space", &exists), 0);
    CHECK(exists);
    EQUAL(rados_ioctx_create(cluster, "rbd", &within), 0);
    rados_ioctx_set_namespace(within, "space");
    EQUAL(rbd_create2(within, "apart", 4 * MIB, RBD_FEATURE_LAYERING, &order), 0);
    EQUAL(rbd_open(pool, "apart", &image, NULL), -ENOENT);
    EQUAL(rbd_namespace_remove(pool, "space"), -EBUSY);
    EQUAL(rbd_remove(within, "apart"), 0);
    EQUAL(rbd_namespace_remove(pool, "space"), 0);
    EQUAL(rbd_namespace_remove(pool, "space"), -ENOENT);
    rados_ioctx_destroy(within);
}

static void pools_have_settings_and_sums(void) {
    rbd_image_t image = new_image("counted", 4 * MIB, RBD_FEATURE_LAYERING);
    rbd_config_option_t *options;
    rbd_pool_stats_t stats;
    char value[16], keys[64], values[64];
    size_t len = 1, keys_len = sizeof keys, values_len = sizeof values;
    uint64_t images = 77, provisioned = 77, largest = 77, snapshots = 77, trashed = 77;
    int most = 0, found = 0;
    EQUAL(rbd_pool_metadata_get(pool, "colour", value, &len), -ENOENT);
    EQUAL(rbd_pool_metadata_set(pool, "colour", "red"), 0);
    EQUAL(rbd_pool_metadata_get(pool, "colour", value, &len), -ERANGE);
    EQUAL(len, 4);
    EQUAL(rbd_pool_metadata_get(pool, "colour", value, &len), 0);
    CHECK(strcmp(value, "red") == 0);
    EQUAL(rbd_pool_metadata_list(pool, "", 0, keys, &keys_len, values, &values_len), 0);
    CHECK(strcmp(keys, "colour") == 0 && strcmp(values, "red") == 0 && keys_len == 7 && values_len == 4);
    EQUAL(rbd_pool_metadata_remove(pool, "colour"), 0);
    EQUAL(rbd_pool_metadata_remove(pool, "colour"), -ENOENT);

    EQUAL(rbd_config_pool_list(pool, NULL, &most), -ERANGE);
    CHECK(most > 50);
    options = calloc(most, sizeof *options);
    EQUAL(rbd_metadata_set(image, "conf_rbd_cache", "false"), 0);
    EQUAL(rbd_config_image_list(image, options, &most), 0);
    for (int i = 0; i < most; i++) {
        if (strcmp(options[i].name, "rbd_cache") == 0) {
            CHECK(strcmp(options[i].value, "false") == 0);
            EQUAL(options[i].source, RBD_CONFIG_SOURCE_IMAGE);
            found++;
        } else {
            EQUAL(options[i].source, RBD_CONFIG_SOURCE_CONFIG);
        }
    }
    EQUAL(found, 1);
    rbd_config_image_list_cleanup(options, most);
    free(options);

    rbd_pool_stats_create(&stats);
    EQUAL(rbd_snap_create(image, "snap"), 0);
    EQUAL(rbd_resize(image, 2 * MIB), 0);
    EQUAL(rbd_pool_stats_option_add_uint64(stats, 99, &images), -ENOENT);
    EQUAL(rbd_pool_stats_option_add_uint64(stats, RBD_POOL_STAT_OPTION_IMAGES, &images), 0);
    EQUAL(rbd_pool_stats_option_add_uint64(stats, RBD_POOL_STAT_OPTION_IMAGES, &images), 0);
    EQUAL(rbd_pool_stats_option_add_uint64(stats, RBD_POOL_STAT_OPTION_IMAGE_PROVISIONED_BYTES, &provisioned), 0);
    EQUAL(rbd_pool_stats_option_add_uint64(stats, RBD_POOL_STAT_OPTION_IMAGE_MAX_PROVISIONED_BYTES, &largest), 0);
    EQUAL(rbd_pool_stats_option_add_uint64(stats, RBD_POOL_STAT_OPTION_IMAGE_SNAPSHOTS, &snapshots), 0);
    EQUAL(rbd_pool_stats_option_add_uint64(stats, RBD_POOL_STAT_OPTION_TRASH_IMAGES, &trashed), 0);
    EQUAL(rbd_pool_stats_get(pool, stats), 0);
    EQUAL(images, 1);
    EQUAL(provisioned, 2 * MIB);
    EQUAL(largest, 4 * MIB);
    EQUAL(snapshots, 1);
    EQUAL(trashed, 0);
    rbd_pool_stats_destroy(stats);
    EQUAL(rbd_snap_remove(image, "snap"), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "counted"), 0);
}

static void features_are_switched(void) {
    rbd_image_t image = new_image("switched", 4 * MIB, RBD_FEATURE_LAYERING | RBD_FEATURE_EXCLUSIVE_LOCK);
    uint64_t features = 0, flags = 7;
    int told = 0;
    EQUAL(rbd_rebuild_object_map(image, tell, &told), -EINVAL);
    EQUAL(rbd_update_features(image, RBD_FEATURE_EXCLUSIVE_LOCK, 1), -EINVAL);
    EQUAL(rbd_update_features(image, RBD_FEATURE_STRIPINGV2, 1), -EINVAL);
    EQUAL(rbd_update_features(image, RBD_FEATURE_OBJECT_MAP, 1), 0);
    EQUAL(rbd_get_features(image, &features), 0);
    EQUAL(features, RBD_FEATURE_LAYERING | RBD_FEATURE_EXCLUSIVE_LOCK | RBD_FEATURE_OBJECT_MAP |
                        RBD_FEATURE_FAST_DIFF);
    EQUAL(rbd_rebuild_object_map(image, tell, &told), 0);
    EQUAL(rbd_get_flags(image, &flags), 0);
    EQUAL(flags, 0);
    EQUAL(rbd_update_features(image, RBD_FEATURE_EXCLUSIVE_LOCK, 0), -EINVAL);
    EQUAL(rbd_update_features(image, RBD_FEATURE_OBJECT_MAP | RBD_FEATURE_EXCLUSIVE_LOCK, 0), 0);
    EQUAL(rbd_get_features(image, &features), 0);
    EQUAL(features, RBD_FEATURE_LAYERING);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "switched"), 0);
}

/* What callbacks have seen. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int updates, begun, ended;
static rbd_image_t quiet;
static uint64_t quiet_handle;
static int quiet_answer;

static void count(int *counter) {
    pthread_mutex_lock(&lock);
    ++*counter;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_for(int *counter, int value) {
    pthread_mutex_lock(&lock);
    while (*counter < value)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void updated(void *arg) {
    CHECK(arg == &cluster);
    count(&updates);
}

static void be_quiet(void *arg) {
    CHECK(arg == &cluster);
    count(&begun);
    rbd_quiesce_complete(quiet, quiet_handle, quiet_answer);
}

static void be_loud(void *arg) {
    CHECK(arg == &cluster);
    count(&ended);
}

static void programs_are_told_of_changes(void) {
    rbd_image_t image = new_image("watched", 4 * MIB, RBD_FEATURE_LAYERING);
    uint64_t handle;
    int told = 0;
    EQUAL(rbd_update_watch(image, &handle, updated, &cluster), 0);
    EQUAL(rbd_resize(image, 8 * MIB), 0);
    wait_for(&updates, 1);
    EQUAL(rbd_update_unwatch(image, handle), 0);
    quiet = image;
    EQUAL(rbd_quiesce_watch(image, be_quiet, be_loud, &cluster, &quiet_handle), 0);
    EQUAL(rbd_snap_create(image, "snap"), 0);
    wait_for(&ended, 1);
    EQUAL(begun, 1);
    EQUAL(rbd_snap_create2(image, "skipped", RBD_SNAP_CREATE_SKIP_QUIESCE, tell, &told), 0);
    EQUAL(begun, 1);
    quiet_answer = -EINVAL;
    EQUAL(rbd_snap_create(image, "refused"), -EINVAL);
    EQUAL(rbd_snap_create2(image, "ignored", RBD_SNAP_CREATE_IGNORE_QUIESCE_ERROR, tell, &told), 0);
    EQUAL(rbd_snap_create2(image, "both", 3, tell, &told), -EINVAL);
    EQUAL(rbd_quiesce_unwatch(image, quiet_handle), 0);
    EQUAL(rbd_snap_remove(image, "snap"), 0);
    EQUAL(rbd_snap_remove(image, "skipped"), 0);
    EQUAL(rbd_snap_remove(image, "refused"), -ENOENT);
    EQUAL(rbd_snap_remove(image, "ignored"), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "watched"), 0);
}

static void images_move(void) {
    rbd_image_t image = new_image("here", 8 * MIB, RBD_FEATURE_LAYERING);
    rbd_image_options_t options;
    rbd_image_migration_status_t status;
    char buf[8];
    EQUAL(rbd_write(image, MIB, 4, "move"), 4);
    EQUAL(rbd_close(image), 0);
    rbd_image_options_create(&options);
    EQUAL(rbd_migration_status(pool, "here", &status, sizeof status), -EINVAL);
    EQUAL(rbd_migration_prepare(pool, "here", pool, "there", options), 0);
    EQUAL(rbd_migration_status(pool, "there", &status, sizeof status), 0);
    EQUAL(status.state, RBD_IMAGE_MIGRATION_STATE_PREPARED);
    CHECK(strcmp(status.source_image_name, "here") == 0 && strcmp(status.dest_image_name, "there") == 0);
    rbd_migration_status_cleanup(&status);
    EQUAL(rbd_migration_commit(pool, "there"), -EINVAL);
    EQUAL(rbd_migration_execute(pool, "there"), 0);
    EQUAL(rbd_migration_commit(pool, "there"), 0);
    EQUAL(rbd_open(pool, "there", &image, NULL), 0);
    EQUAL(rbd_read(image, MIB, 4, buf), 4);
    CHECK(memcmp(buf, "move", 4) == 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "there"), 0);
    rbd_image_options_destroy(options);
}

static void images_are_imported(void) {
    rbd_image_t image = new_image("template", 8 * MIB, RBD_FEATURE_LAYERING);
    rbd_image_options_t options;
    rbd_image_migration_status_t status;
    char spec[256], told[256];
    size_t len = 1;
    uint64_t size;
    EQUAL(rbd_write(image, MIB, 4, "past"), 4);
    EQUAL(rbd_snap_create(image, "base"), 0);
    EQUAL(rbd_get_migration_source_spec(image, told, &len), -EINVAL);
    rbd_image_options_create(&options);
    EQUAL(rbd_migration_prepare_import("no JSON", pool, "copy", options), -EBADMSG);
    EQUAL(rbd_migration_prepare_import("{\"type\":\"none\"}", pool, "copy", options), -ENOSYS);
    snprintf(spec, sizeof spec,
             "{ \"type\": \"native\", \"pool_id\": %" PRId64 ", \"image_name\": \"template\", \"snap_name\": \"base\" }",
             rados_ioctx_get_id(pool));
    EQUAL(rbd_migration_prepare_import(spec, pool, "template", options), -EEXIST);
    EQUAL(rbd_migration_prepare_import(spec, pool, "copy", options), 0);
    EQUAL(rbd_migration_status(pool, "copy", &status, sizeof status), 0);
    EQUAL(status.state, RBD_IMAGE_MIGRATION_STATE_PREPARED);
    EQUAL(status.source_pool_id, -1);
    CHECK(strcmp(status.source_image_name, "") == 0 && strcmp(status.dest_image_name, "copy") == 0);
    rbd_migration_status_cleanup(&status);
    /* The source stays. It is not written meanwhile: what Ceph's library copies would have that. */
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_open(pool, "copy", &image, NULL), 0);
    EQUAL(rbd_get_size(image, &size), 0);
    EQUAL(size, 8 * MIB);
    EQUAL(rbd_get_migration_source_spec(image, told, &len), -ERANGE);
    EQUAL(rbd_get_migration_source_spec(image, told, &len), 0);
    EQUAL(len, strlen(told) + 1);
    CHECK(strstr(told, "{\"image_name\":\"template\",\"pool_id\":") == told);
    EQUAL(rbd_read(image, MIB, 4, spec), 4);
    CHECK(memcmp(spec, "past", 4) == 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_migration_execute(pool, "copy"), 0);
    EQUAL(rbd_migration_commit(pool, "copy"), 0);
    EQUAL(rbd_open(pool, "template", &image, NULL), 0);
    EQUAL(rbd_read(image, MIB, 4, spec), 4);
    CHECK(memcmp(spec, "past", 4) == 0);
    EQUAL(rbd_snap_remove(image, "base"), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_open(pool, "copy", &image, NULL), 0);
    EQUAL(rbd_read(image, MIB, 4, spec), 4);
    CHECK(memcmp(spec, "past", 4) == 0);
    EQUAL(rbd_snap_remove(image, "base"), 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, "copy"), 0);
    EQUAL(rbd_remove(pool, "template"), 0);
    rbd_image_options_destroy(options);
}

static void data_is_encrypted(void) {
    rbd_image_t small = new_image("small", MIB, RBD_FEATURE_LAYERING);
    rbd_image_t image = new_image("secret", 32 * MIB, RBD_FEATURE_LAYERING);
    rbd_encryption_luks1_format_options_t options = {RBD_ENCRYPTION_ALGORITHM_AES256, "password", 8};
    rbd_encryption_luks1_format_options_t wrong = {RBD_ENCRYPTION_ALGORITHM_AES256, "passwort", 8};
    uint64_t size;
    char buf[8];
    EQUAL(rbd_encryption_format(image, RBD_ENCRYPTION_FORMAT_LUKS1, &options, 3), -EINVAL);
    EQUAL(rbd_encryption_load(image, RBD_ENCRYPTION_FORMAT_LUKS1, &options, sizeof options), -EINVAL);
    EQUAL(rbd_encryption_format(small, RBD_ENCRYPTION_FORMAT_LUKS1, &options, sizeof options), -ENOSPC);
    EQUAL(rbd_encryption_format(image, RBD_ENCRYPTION_FORMAT_LUKS1, &options, sizeof options), 0);
    /* From then on the handle shows the data alone. */
    EQUAL(rbd_get_size(image, &size), 0);
    CHECK(size < 32 * MIB && size >= 24 * MIB);
    EQUAL(rbd_write(image, 0, 6, "secret"), 6);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_open(pool, "secret", &image, NULL), 0);
    EQUAL(rbd_encryption_load(image, RBD_ENCRYPTION_FORMAT_LUKS1, &wrong, sizeof wrong), -EPERM);
    EQUAL(rbd_encryption_load(image, RBD_ENCRYPTION_FORMAT_LUKS1, &options, sizeof options), 0);
    EQUAL(rbd_encryption_load(image, RBD_ENCRYPTION_FORMAT_LUKS1, &options, sizeof options), -EEXIST);
    EQUAL(rbd_read(image, 0, 6, buf), 6);
    CHECK(memcmp(buf, "secret", 6) == 0);
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_close(small), 0);
    EQUAL(rbd_remove(pool, "secret"), 0);
    EQUAL(rbd_remove(pool, "small"), 0);
}

static const struct test TESTS[] = {
    TEST(options_have_types),
    TEST(snapshots_are_kept),
    TEST(images_are_opened_by_their_ids),
    TEST(clones_know_their_parents),
    TEST(locks_have_holders),
    TEST(the_owner_is_an_address),
    TEST(changes_take_the_lock),
    TEST(writes_compare_before),
    TEST(changes_are_visited),
    TEST(reads_go_through_an_image),
    TEST(copies_are_images),
    TEST(the_trash_keeps_images),
    TEST(groups_have_images),
    TEST(namespaces_keep_images_apart),
    TEST(pools_have_settings_and_sums),
    TEST(features_are_switched),
    TEST(programs_are_told_of_changes),
    TEST(images_move),
    TEST(images_are_imported),
    TEST(data_is_encrypted),
};

int main(int argc, char **argv) {
    return run_tests(argc, argv, TESTS, sizeof TESTS / sizeof *TESTS);
}
