/*
 * What programs in C are told of mirroring where no image is mirrored: in a pool without mirroring, and in pools of both modes. It runs
 * on Ceph's own library and on ours.
 *
 *     mirroring CONF [ours]
 *
 * CONF names a cluster with a pool "rbd".
 */
#include "check.h"
#include <rbd/librbd.h>
#include <unistd.h>

#define MIB (1024 * 1024)

/* Ceph's library has these since 20. */
#pragma weak rbd_mirror_remote_namespace_get
#pragma weak rbd_mirror_remote_namespace_set

static int is_ours;

/* Ceph's library answers otherwise since 20: what is asked of an image that is not mirrored is refused alike. Ours answers as before. */
static int before_20(int answer) {
    int major, minor, extra;
    rbd_version(&major, &minor, &extra);
    return is_ours || minor < 20 ? answer : -EINVAL;
}

static rbd_image_t new_image(const char *name) {
    rbd_image_t image;
    int order = 22;
    EQUAL(rbd_create2(pool, name, 4 * MIB, RBD_FEATURE_LAYERING, &order), 0);
    EQUAL(rbd_open(pool, name, &image, NULL), 0);
    return image;
}

static void remove_image(rbd_image_t image, const char *name) {
    EQUAL(rbd_close(image), 0);
    EQUAL(rbd_remove(pool, name), 0);
}

static rbd_completion_t completion(void) {
    rbd_completion_t made;
    EQUAL(rbd_aio_create_completion(NULL, NULL, &made), 0);
    return made;
}

/* What a request has come to that was begun without an error. */
#define OUTCOME(begun, of) (EQUAL((begun), 0), outcome(of))
static int outcome(rbd_completion_t of) {
    int result;
    EQUAL(rbd_aio_wait_for_complete(of), 0);
    result = (int)rbd_aio_get_return_value(of);
    rbd_aio_release(of);
    return result;
}

static void info_says_disabled(const rbd_mirror_image_info_t *info) {
    CHECK(strcmp(info->global_id, "") == 0);
    EQUAL(info->state, RBD_MIRROR_IMAGE_DISABLED);
    CHECK(!info->primary);
}

/* Only this cluster says something: nothing. */
static void nothing_is_known(rbd_mirror_image_global_status_t *status, const char *name) {
    CHECK(strcmp(status->name, name) == 0);
    info_says_disabled(&status->info);
    EQUAL(status->site_statuses_count, 1);
    CHECK(strcmp(status->site_statuses[0].mirror_uuid, "") == 0);
    CHECK(strcmp(status->site_statuses[0].description, "status not found") == 0);
    EQUAL(status->site_statuses[0].state, MIRROR_IMAGE_STATUS_STATE_UNKNOWN);
    EQUAL(status->site_statuses[0].last_update, 0);
    CHECK(!status->site_statuses[0].up);
    rbd_mirror_image_global_status_cleanup(status);
}

/* The same in the structure of old. The cleanup of a list frees it. */
static void nothing_is_known_here(rbd_mirror_image_status_t *status, const char *name) {
    char *id = strdup("");
    CHECK(strcmp(status->name, name) == 0);
    info_says_disabled(&status->info);
    CHECK(strcmp(status->description, "status not found") == 0);
    EQUAL(status->state, MIRROR_IMAGE_STATUS_STATE_UNKNOWN);
    EQUAL(status->last_update, 0);
    CHECK(!status->up);
    rbd_mirror_image_status_list_cleanup(&id, status, 1);
}

static void info_is_given(rbd_image_t image) {
    rbd_completion_t done = completion();
    rbd_mirror_image_info_t info;
    rbd_mirror_image_mode_t mode;
    EQUAL(rbd_mirror_image_get_info(image, &info, sizeof info - 1), -ERANGE);
    EQUAL(rbd_mirror_image_get_info(image, &info, sizeof info), 0);
    info_says_disabled(&info);
    rbd_mirror_image_get_info_cleanup(&info);
    EQUAL(rbd_aio_mirror_image_get_info(image, &info, sizeof info - 1, done), -ERANGE);
    EQUAL(OUTCOME(rbd_aio_mirror_image_get_info(image, &info, sizeof info, done), done), 0);
    info_says_disabled(&info);
    rbd_mirror_image_get_info_cleanup(&info);
    mode = RBD_MIRROR_IMAGE_MODE_SNAPSHOT;
    EQUAL(rbd_mirror_image_get_mode(image, &mode), before_20(0));
    EQUAL(mode, before_20(0) ? RBD_MIRROR_IMAGE_MODE_SNAPSHOT : RBD_MIRROR_IMAGE_MODE_JOURNAL);
    mode = RBD_MIRROR_IMAGE_MODE_SNAPSHOT;
    done = completion();
    EQUAL(OUTCOME(rbd_aio_mirror_image_get_mode(image, &mode, done), done), before_20(0));
    EQUAL(mode, before_20(0) ? RBD_MIRROR_IMAGE_MODE_SNAPSHOT : RBD_MIRROR_IMAGE_MODE_JOURNAL);
}

static void status_is_given(rbd_image_t image, const char *name) {
    rbd_completion_t done = completion();
    rbd_mirror_image_global_status_t global;
    rbd_mirror_image_status_t status;
    EQUAL(rbd_mirror_image_get_global_status(image, &global, sizeof global - 1), -ERANGE);
    EQUAL(rbd_mirror_image_get_global_status(image, &global, sizeof global), 0);
    nothing_is_known(&global, name);
    EQUAL(rbd_aio_mirror_image_get_global_status(image, &global, sizeof global - 1, done), -ERANGE);
    EQUAL(OUTCOME(rbd_aio_mirror_image_get_global_status(image, &global, sizeof global, done), done), 0);
    nothing_is_known(&global, name);
    EQUAL(rbd_mirror_image_get_status(image, &status, sizeof status - 1), -ERANGE);
    EQUAL(rbd_mirror_image_get_status(image, &status, sizeof status), 0);
    nothing_is_known_here(&status, name);
    done = completion();
    EQUAL(rbd_aio_mirror_image_get_status(image, &status, sizeof status - 1, done), -ERANGE);
    EQUAL(OUTCOME(rbd_aio_mirror_image_get_status(image, &status, sizeof status, done), done), 0);
    nothing_is_known_here(&status, name);
}

static void actions_are_refused(rbd_image_t image) {
    rbd_completion_t done = completion();
    uint64_t snapshot = 7;
    char id[32];
    size_t len = sizeof id;
    EQUAL(rbd_mirror_image_promote(image, false), before_20(-ENOENT));
    EQUAL(rbd_mirror_image_promote(image, true), before_20(-ENOENT));
    EQUAL(OUTCOME(rbd_aio_mirror_image_promote(image, true, done), done), before_20(-ENOENT));
    EQUAL(rbd_mirror_image_demote(image), -EINVAL);
    done = completion();
    EQUAL(OUTCOME(rbd_aio_mirror_image_demote(image, done), done), -EINVAL);
    EQUAL(rbd_mirror_image_resync(image), before_20(-ENOENT));
    EQUAL(rbd_mirror_image_create_snapshot(image, &snapshot), -EINVAL);
    EQUAL(rbd_mirror_image_create_snapshot2(image, 0, &snapshot), -EINVAL);
    EQUAL(rbd_mirror_image_create_snapshot2(image, RBD_SNAP_CREATE_SKIP_QUIESCE, &snapshot), -EINVAL);
    EQUAL(rbd_mirror_image_create_snapshot2(image, 3, &snapshot), -EINVAL);
    done = completion();
    EQUAL(OUTCOME(rbd_aio_mirror_image_create_snapshot(image, 0, &snapshot, done), done), -EINVAL);
    done = completion();
    EQUAL(OUTCOME(rbd_aio_mirror_image_create_snapshot(image, 3, &snapshot, done), done), -EINVAL);
    EQUAL(snapshot, 7);
    EQUAL(rbd_mirror_image_get_instance_id(image, id, &len), -EINVAL);
    EQUAL(len, sizeof id);
}

/* Whatever a list was asked for, there is nothing in it, and there is nothing to free. */
static void lists_are_empty(rados_ioctx_t ioctx, const char *after) {
    char *ids[2], *instances[2];
    rbd_mirror_image_global_status_t globals[2];
    rbd_mirror_image_status_t statuses[2];
    rbd_mirror_image_info_t infos[2];
    rbd_mirror_image_mode_t modes[2], mode = RBD_MIRROR_IMAGE_MODE_SNAPSHOT;
    rbd_mirror_image_status_state_t states[2];
    int counts[2];
    size_t len = 2;
    EQUAL(rbd_mirror_image_global_status_list(ioctx, after, 2, ids, globals, &len), 0);
    EQUAL(len, 0);
    rbd_mirror_image_global_status_list_cleanup(ids, globals, len);
    len = 2;
    EQUAL(rbd_mirror_image_status_list(ioctx, after, 2, ids, statuses, &len), 0);
    EQUAL(len, 0);
    rbd_mirror_image_status_list_cleanup(ids, statuses, len);
    len = 2;
    EQUAL(rbd_mirror_image_instance_id_list(ioctx, after, 2, ids, instances, &len), 0);
    EQUAL(len, 0);
    rbd_mirror_image_instance_id_list_cleanup(ids, instances, len);
    len = 2;
    EQUAL(rbd_mirror_image_info_list(ioctx, NULL, after, 2, ids, modes, infos, &len), 0);
    EQUAL(len, 0);
    len = 2;
    EQUAL(rbd_mirror_image_info_list(ioctx, &mode, after, 2, ids, modes, infos, &len), 0);
    EQUAL(len, 0);
    rbd_mirror_image_info_list_cleanup(ids, infos, len);
    len = 2;
    EQUAL(rbd_mirror_image_status_summary(ioctx, states, counts, &len), 0);
    EQUAL(len, 0);
    EQUAL(rbd_mirror_image_status_summary(ioctx, NULL, NULL, &len), 0);
}

/* What does not depend on the mode of the pool. */
static void no_image_is_mirrored(rbd_image_t image, const char *name) {
    info_is_given(image);
    status_is_given(image, name);
    actions_are_refused(image);
    lists_are_empty(pool, "");
    lists_are_empty(pool, "middle");
}

static void a_pool_is_not_mirrored(void) {
    rbd_image_t image = new_image("unmirrored");
    rbd_mirror_mode_t mode;
    char text[64];
    size_t len = sizeof text;
    EQUAL(rbd_mirror_mode_get(pool, &mode), 0);
    EQUAL(mode, RBD_MIRROR_MODE_DISABLED);
    EQUAL(rbd_mirror_image_enable(image), -EINVAL);
    EQUAL(rbd_mirror_image_enable2(image, RBD_MIRROR_IMAGE_MODE_SNAPSHOT), -EINVAL);
    EQUAL(rbd_mirror_image_disable(image, false), -EINVAL);
    EQUAL(rbd_mirror_image_disable(image, true), -EINVAL);
    no_image_is_mirrored(image, "unmirrored");
    EQUAL(rbd_mirror_peer_bootstrap_create(pool, text, &len), -EINVAL);
    remove_image(image, "unmirrored");
}

static void a_pool_has_images_chosen(void) {
    rbd_image_t image = new_image("unchosen"), clone;
    rbd_image_options_t options;
    rbd_image_options_create(&options);
    EQUAL(rbd_mirror_mode_set(pool, RBD_MIRROR_MODE_IMAGE), 0);
    EQUAL(rbd_mirror_image_disable(image, false), 0);
    EQUAL(rbd_mirror_image_disable(image, true), 0);
    no_image_is_mirrored(image, "unchosen");

    /* A clone is mirrored if its parent is. */
    EQUAL(rbd_snap_create(image, "snap"), 0);
    EQUAL(rbd_snap_protect(image, "snap"), 0);
    EQUAL(rbd_clone3(pool, "unchosen", "snap", pool, "clone", options), 0);
    EQUAL(rbd_open(pool, "clone", &clone, NULL), 0);
    EQUAL(rbd_mirror_image_enable(clone), -EINVAL);
    EQUAL(rbd_mirror_image_enable2(clone, RBD_MIRROR_IMAGE_MODE_SNAPSHOT), -EINVAL);
    EQUAL(rbd_mirror_image_disable(clone, false), 0);
    remove_image(clone, "clone");
    EQUAL(rbd_snap_unprotect(image, "snap"), 0);
    EQUAL(rbd_snap_remove(image, "snap"), 0);
    EQUAL(rbd_mirror_mode_set(pool, RBD_MIRROR_MODE_DISABLED), 0);
    remove_image(image, "unchosen");
    rbd_image_options_destroy(options);
}

static void a_pool_has_images_with_journals(void) {
    rbd_image_t image = new_image("unjournaled");
    EQUAL(rbd_mirror_mode_set(pool, RBD_MIRROR_MODE_POOL), 0);
    EQUAL(rbd_mirror_image_enable(image), -EINVAL);
    EQUAL(rbd_mirror_image_enable2(image, RBD_MIRROR_IMAGE_MODE_SNAPSHOT), -EINVAL);
    EQUAL(rbd_mirror_image_disable(image, false), -EINVAL);
    no_image_is_mirrored(image, "unjournaled");
    EQUAL(rbd_mirror_mode_set(pool, RBD_MIRROR_MODE_DISABLED), 0);
    remove_image(image, "unjournaled");
}

/* A namespace is mirrored for itself. */
static void namespaces_are_not_mirrored(void) {
    rados_ioctx_t inner;
    EQUAL(rbd_namespace_create(pool, "inner"), 0);
    EQUAL(rados_ioctx_create(cluster, "rbd", &inner), 0);
    rados_ioctx_set_namespace(inner, "inner");
    lists_are_empty(inner, "");
    rados_ioctx_destroy(inner);
    EQUAL(rbd_namespace_remove(pool, "inner"), 0);
}

static void clusters_have_names(void) {
    char fsid[64], name[64];
    size_t len = sizeof name;
    EQUAL(rados_cluster_fsid(cluster, fsid, sizeof fsid), 36);
    EQUAL(rbd_mirror_site_name_get(cluster, name, &len), 0);
    EQUAL(len, 37);
    CHECK(strcmp(name, fsid) == 0);
    len = 36;
    EQUAL(rbd_mirror_site_name_get(cluster, name, &len), -ERANGE);
    EQUAL(len, 37);
    EQUAL(rbd_mirror_site_name_set(cluster, "here"), 0);
    EQUAL(rbd_mirror_site_name_get(cluster, name, &len), 0);
    EQUAL(len, 5);
    CHECK(strcmp(name, "here") == 0);
    EQUAL(rbd_mirror_site_name_set(cluster, " there "), 0);
    len = sizeof name;
    EQUAL(rbd_mirror_site_name_get(cluster, name, &len), 0);
    CHECK(strcmp(name, " there ") == 0);
    /* Without a name it has its id again. */
    EQUAL(rbd_mirror_site_name_set(cluster, ""), 0);
    EQUAL(rbd_mirror_site_name_set(cluster, ""), 0);
    len = sizeof name;
    EQUAL(rbd_mirror_site_name_get(cluster, name, &len), 0);
    CHECK(strcmp(name, fsid) == 0);
}

static void tokens_are_looked_into(void) {
    /* {"fsid":"x"}, [1], and one that has all, of a cluster that nobody can reach. */
    static const char *lacking = "eyJmc2lkIjoieCJ9", *list = "WzFd";
    static const char *whole = "eyJmc2lkIjoieCIsImNsaWVudF9pZCI6InkiLCJrZXkiOiJ6IiwibW9uX2hvc3QiOiIifQ==";
    EQUAL(rbd_mirror_peer_bootstrap_import(pool, RBD_MIRROR_PEER_DIRECTION_TX, whole), -EINVAL);
    EQUAL(rbd_mirror_peer_bootstrap_import(pool, 3, whole), -EINVAL);
    EQUAL(rbd_mirror_peer_bootstrap_import(pool, RBD_MIRROR_PEER_DIRECTION_RX, "no token"), -EINVAL);
    EQUAL(rbd_mirror_peer_bootstrap_import(pool, RBD_MIRROR_PEER_DIRECTION_RX, ""), -EINVAL);
    EQUAL(rbd_mirror_peer_bootstrap_import(pool, RBD_MIRROR_PEER_DIRECTION_RX_TX, list), -EINVAL);
    EQUAL(rbd_mirror_peer_bootstrap_import(pool, RBD_MIRROR_PEER_DIRECTION_RX_TX, lacking), -EINVAL);
}

static void namespaces_have_peers(void) {
    rados_ioctx_t inner;
    char name[16];
    size_t len = sizeof name;
    int set;
    if (!rbd_mirror_remote_namespace_get)
        return;
    EQUAL(rbd_mirror_remote_namespace_get(pool, name, &len), 0);
    EQUAL(len, 1);
    CHECK(strcmp(name, "") == 0);
    EQUAL(rbd_namespace_create(pool, "inner"), 0);
    EQUAL(rados_ioctx_create(cluster, "rbd", &inner), 0);
    rados_ioctx_set_namespace(inner, "inner");
    EQUAL(rbd_mirror_remote_namespace_get(inner, name, &len), -ERANGE);
    EQUAL(len, 6);
    EQUAL(rbd_mirror_remote_namespace_get(inner, name, &len), 0);
    CHECK(strcmp(name, "inner") == 0);
    set = rbd_mirror_remote_namespace_set(inner, "outer");
    /* Clusters before 20 cannot. */
    if (set != -EOPNOTSUPP) {
        EQUAL(set, 0);
        EQUAL(rbd_mirror_remote_namespace_get(inner, name, &len), 0);
        EQUAL(len, 6);
        CHECK(strcmp(name, "outer") == 0);
        EQUAL(rbd_mirror_mode_set(pool, RBD_MIRROR_MODE_IMAGE), 0);
        EQUAL(rbd_mirror_remote_namespace_set(pool, "outer"), -EINVAL);
        EQUAL(rbd_mirror_mode_set(pool, RBD_MIRROR_MODE_DISABLED), 0);
    }
    rados_ioctx_destroy(inner);
    EQUAL(rbd_namespace_remove(pool, "inner"), 0);
}

/* Where an image would have to be mirrored, ours says that it does not. */
static void mirroring_is_left_to_others(void) {
    rbd_image_t image = new_image("left");
    char token[64];
    size_t len = sizeof token;
    EQUAL(rbd_mirror_mode_set(pool, RBD_MIRROR_MODE_IMAGE), 0);
    EQUAL(rbd_mirror_image_enable(image), -EOPNOTSUPP);
    EQUAL(rbd_mirror_image_enable2(image, RBD_MIRROR_IMAGE_MODE_SNAPSHOT), -EOPNOTSUPP);
    EQUAL(rbd_mirror_peer_bootstrap_create(pool, token, &len), -EOPNOTSUPP);
    EQUAL(rbd_mirror_mode_set(pool, RBD_MIRROR_MODE_DISABLED), 0);
    remove_image(image, "left");
}

static const struct test TESTS[] = {
    TEST(a_pool_is_not_mirrored),
    TEST(a_pool_has_images_chosen),
    TEST(a_pool_has_images_with_journals),
    TEST(namespaces_are_not_mirrored),
    TEST(clusters_have_names),
    TEST(tokens_are_looked_into),
    TEST(namespaces_have_peers),
    OURS(mirroring_is_left_to_others),
};

int main(int argc, char **argv) {
    is_ours = argc > 2 && strcmp(argv[2], "ours") == 0;
    return run_tests(argc, argv, TESTS, sizeof TESTS / sizeof *TESTS);
}
