/*
 * What programs in C rely on of lists, snapshots, checksums, the cluster's log and its daemons. It runs on Ceph's own library and
 * on ours.
 *
 *     objects CONF [ours]
 *
 * CONF names a cluster with a pool "rbd".
 */
#include "check.h"
#include <unistd.h>

/* Makes so many objects whose names begin alike. */
static void make(const char *prefix, int count) {
    char name[64];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s%d", prefix, i);
        EQUAL(rados_write_full(pool, name, "x", 1), 0);
    }
}

static void unmake(const char *prefix, int count) {
    char name[64];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s%d", prefix, i);
        EQUAL(rados_remove(pool, name), 0);
    }
}

/* How many objects lie between two cursors, asked for few at a time. */
static int between(rados_object_list_cursor start, rados_object_list_cursor finish) {
    enum { FEW = 7 };
    rados_object_list_item items[FEW];
    rados_object_list_cursor at = rados_object_list_begin(pool), next = rados_object_list_begin(pool);
    int count = 0, found;
    found = rados_object_list(pool, start, finish, FEW, NULL, 0, items, &next);
    for (;;) {
        CHECK(found >= 0 && found <= FEW);
        for (int i = 0; i < found; i++) {
            /* Behind a name there need not be a zero. */
            CHECK(items[i].oid_length > 0 && items[i].oid != NULL);
            EQUAL(items[i].nspace_length, 0);
            CHECK(items[i].nspace == NULL && items[i].locator == NULL);
        }
        count += found;
        rados_object_list_free(found, items);
        if (rados_object_list_cursor_cmp(pool, next, finish) >= 0)
            break;
        rados_object_list_cursor swap = at;
        at = next;
        next = swap;
        found = rados_object_list(pool, at, finish, FEW, NULL, 0, items, &next);
    }
    rados_object_list_cursor_free(pool, at);
    rados_object_list_cursor_free(pool, next);
    return count;
}

static void cursors_divide_a_pool(void) {
    enum { COUNT = 50, PARTS = 3 };
    int sum = 0;
    make("cursor", COUNT);
    rados_object_list_cursor begin = rados_object_list_begin(pool), end = rados_object_list_end(pool);
    rados_object_list_cursor from = rados_object_list_begin(pool), to = rados_object_list_begin(pool);
    rados_object_list_cursor last = rados_object_list_begin(pool);
    CHECK(!rados_object_list_is_end(pool, begin) && rados_object_list_is_end(pool, end));
    EQUAL(rados_object_list_cursor_cmp(pool, begin, end), -1);
    EQUAL(rados_object_list_cursor_cmp(pool, end, begin), 1);
    EQUAL(rados_object_list_cursor_cmp(pool, begin, from), 0);
    int all = between(begin, end);
    CHECK(all >= COUNT);
    for (int i = 0; i < PARTS; i++) {
        rados_object_list_slice(pool, begin, end, i, PARTS, &from, &to);
        EQUAL(rados_object_list_cursor_cmp(pool, from, last), 0);
        sum += between(from, to);
        rados_object_list_slice(pool, begin, end, i, PARTS, &from, &last);
    }
    CHECK(rados_object_list_is_end(pool, last));
    EQUAL(sum, all);
    rados_object_list_cursor_free(pool, begin);
    rados_object_list_cursor_free(pool, end);
    rados_object_list_cursor_free(pool, from);
    rados_object_list_cursor_free(pool, to);
    rados_object_list_cursor_free(pool, last);
    unmake("cursor", COUNT);
}

static void lists_go_on_where_they_are_told_to(void) {
    enum { COUNT = 40 };
    const char *entry, *key, *namespace;
    char second[64];
    size_t len;
    rados_list_ctx_t list;
    rados_object_list_cursor cursor;
    make("seek", COUNT);
    EQUAL(rados_nobjects_list_open(pool, &list), 0);
    EQUAL(rados_nobjects_list_get_pg_hash_position(list), 0);
    EQUAL(rados_nobjects_list_next(list, &entry, &key, &namespace), 0);
    CHECK(key == NULL && *namespace == '\0');
    EQUAL(rados_nobjects_list_next2(list, &entry, NULL, NULL, &len, NULL, NULL), 0);
    EQUAL(strlen(entry), len);
    snprintf(second, sizeof second, "%s", entry);
    /* It is that of what was shown last, not of what comes next. */
    EQUAL(rados_nobjects_list_get_cursor(list, &cursor), 0);
    while (rados_nobjects_list_next(list, &entry, NULL, NULL) == 0) {
    }
    EQUAL(rados_nobjects_list_next(list, &entry, NULL, NULL), -ENOENT);
    uint32_t position = rados_nobjects_list_seek_cursor(list, cursor);
    EQUAL(rados_nobjects_list_next(list, &entry, NULL, NULL), 0);
    CHECK(strcmp(entry, second) == 0);
    /* At the begin of its placement group, where it may not be the first. */
    EQUAL(rados_nobjects_list_seek(list, position), position);
    int is_found = 0;
    EQUAL(rados_nobjects_list_get_pg_hash_position(list), position);
    while (!is_found && rados_nobjects_list_next(list, &entry, NULL, NULL) == 0)
        is_found = strcmp(entry, second) == 0;
    CHECK(is_found);
    rados_object_list_cursor_free(pool, cursor);
    rados_nobjects_list_close(list);
    unmake("seek", COUNT);
}

static void pools_snapshots_have_names(void) {
    char name[16];
    rados_snap_t ids[4], id;
    time_t time_of;
    rados_ioctx_t own;
    EQUAL(rados_pool_create(cluster, "snapshots"), 0);
    EQUAL(rados_ioctx_create(cluster, "snapshots", &own), 0);
    EQUAL(rados_ioctx_snap_remove(own, "first"), -ENOENT);
    EQUAL(rados_ioctx_snap_create(own, "first"), 0);
    EQUAL(rados_ioctx_snap_create(own, "first"), -EEXIST);
    EQUAL(rados_ioctx_snap_list(own, ids, 4), 1);
    EQUAL(rados_ioctx_snap_list(own, ids, 0), -ERANGE);
    EQUAL(rados_ioctx_snap_lookup(own, "first", &id), 0);
    EQUAL(id, ids[0]);
    EQUAL(rados_ioctx_snap_lookup(own, "second", &id), -ENOENT);
    /* The rest of the memory is zeros. */
    memset(name, 7, sizeof name);
    EQUAL(rados_ioctx_snap_get_name(own, id, name, sizeof name), 0);
    CHECK(memcmp(name, "first\0\0\0\0\0\0\0\0\0\0", sizeof name) == 0);
    EQUAL(rados_ioctx_snap_get_name(own, id, name, 3), -ERANGE);
    EQUAL(rados_ioctx_snap_get_stamp(own, id, &time_of), 0);
    CHECK(time_of > 1000000000);
    EQUAL(rados_write_full(own, "object", "old", 3), 0);
    EQUAL(rados_ioctx_snap_create(own, "second"), 0);
    EQUAL(rados_write_full(own, "object", "newer", 5), 0);
    EQUAL(rados_ioctx_snap_lookup(own, "second", &id), 0);
    rados_ioctx_snap_set_read(own, id);
    EQUAL(rados_read(own, "object", name, sizeof name, 0), 3);
    rados_ioctx_snap_set_read(own, LIBRADOS_SNAP_HEAD);
    EQUAL(rados_ioctx_snap_rollback(own, "object", "second"), 0);
    EQUAL(rados_read(own, "object", name, sizeof name, 0), 3);
    EQUAL(rados_ioctx_snap_remove(own, "first"), 0);
    EQUAL(rados_ioctx_snap_remove(own, "first"), -ENOENT);
    rados_ioctx_destroy(own);
    EQUAL(rados_pool_delete(cluster, "snapshots"), 0);
}

static int finish(rados_completion_t completion) {
    EQUAL(rados_aio_wait_for_complete(completion), 0);
    int result = rados_aio_get_return_value(completion);
    rados_aio_release(completion);
    return result;
}

static void snapshots_are_made_in_the_background(void) {
    rados_completion_t completion;
    rados_ioctx_t own;
    uint64_t first = 0, second = 0;
    EQUAL(rados_pool_create(cluster, "background"), 0);
    EQUAL(rados_ioctx_create(cluster, "background", &own), 0);
    EQUAL(rados_aio_create_completion2(NULL, NULL, &completion), 0);
    rados_aio_ioctx_selfmanaged_snap_create(own, &first, completion);
    EQUAL(finish(completion), 0);
    EQUAL(rados_ioctx_selfmanaged_snap_create(own, &second), 0);
    CHECK(second > first && first > 0);
    EQUAL(rados_aio_create_completion2(NULL, NULL, &completion), 0);
    rados_aio_ioctx_selfmanaged_snap_remove(own, first, completion);
    EQUAL(finish(completion), 0);
    rados_ioctx_destroy(own);
    EQUAL(rados_pool_delete(cluster, "background"), 0);
}

static void requests_are_taken_back(void) {
    rados_completion_t completion;
    int result;
    EQUAL(rados_aio_create_completion2(NULL, NULL, &completion), 0);
    EQUAL(rados_aio_write(pool, "cancelled", completion, "x", 1, 0), 0);
    /* It may have been carried out before. */
    EQUAL(rados_aio_cancel(pool, completion), 0);
    EQUAL(rados_aio_wait_for_complete(completion), 0);
    result = rados_aio_get_return_value(completion);
    CHECK(result == 0 || result == -ECANCELED);
    EQUAL(rados_aio_cancel(pool, completion), 0);
    EQUAL(rados_aio_get_return_value(completion), result);
    rados_aio_release(completion);
    result = rados_remove(pool, "cancelled");
    CHECK(result == 0 || result == -ENOENT);
}

static void checksums_are_made_where_the_bytes_are(void) {
    uint32_t sums[4] = {0}, init = -1, zero = 0;
    uint64_t wide[3] = {0}, wide_zero = 0;
    EQUAL(rados_write_full(pool, "sums", "123456789abcdefg", 16), 0);
    EQUAL(rados_checksum(pool, "sums", LIBRADOS_CHECKSUM_TYPE_CRC32C, (char *)&init, 4, 9, 0, 0, (char *)sums, 8), 0);
    EQUAL(sums[0], 1);
    EQUAL(sums[1], 0x1cf96d7cu);
    EQUAL(rados_checksum(pool, "sums", LIBRADOS_CHECKSUM_TYPE_XXHASH32, (char *)&zero, 4, 16, 0, 8, (char *)sums, 12), 0);
    EQUAL(sums[0], 2);
    CHECK(sums[1] != sums[2]);
    EQUAL(rados_checksum(pool, "sums", LIBRADOS_CHECKSUM_TYPE_XXHASH64, (char *)&wide_zero, 8, 9, 0, 0, (char *)wide, 12), 0);
    EQUAL(wide[0] & 0xffffffff, 1);
    uint64_t sum;
    memcpy(&sum, (char *)wide + 4, 8);
    CHECK(sum == 0x8cb841db40e6ae83ull);
    EQUAL(rados_checksum(pool, "sums", LIBRADOS_CHECKSUM_TYPE_CRC32C, (char *)&init, 4, 9, 0, 4, (char *)sums, 8), -EINVAL);
    EQUAL(rados_checksum(pool, "nothing", LIBRADOS_CHECKSUM_TYPE_CRC32C, (char *)&init, 4, 9, 0, 0, (char *)sums, 8), -ENOENT);
    rados_read_op_t look = rados_create_read_op();
    int result = 1;
    memset(sums, 0, sizeof sums);
    rados_read_op_checksum(look, LIBRADOS_CHECKSUM_TYPE_CRC32C, (char *)&init, 4, 0, 9, 0, (char *)sums, 8, &result);
    EQUAL(rados_read_op_operate(look, pool, "sums", 0), 0);
    EQUAL(result, 0);
    EQUAL(sums[1], 0x1cf96d7cu);
    rados_release_read_op(look);
    EQUAL(rados_remove(pool, "sums"), 0);
}

static void hints_make_an_object(void) {
    uint64_t size = 1;
    EQUAL(rados_set_alloc_hint(pool, "hinted", 4 << 20, 4096), 0);
    EQUAL(rados_set_alloc_hint2(pool, "hinted", 4 << 20, 4096, 1), 0);
    EQUAL(rados_stat(pool, "hinted", &size, NULL), 0);
    EQUAL(size, 0);
    EQUAL(rados_cache_pin(pool, "hinted"), -EINVAL);
    EQUAL(rados_cache_unpin(pool, "hinted"), -EINVAL);
    EQUAL(rados_remove(pool, "hinted"), 0);
}

static void what_has_ended_is_refused(void) {
    uint64_t owner;
    EQUAL(rados_ioctx_pool_set_auid(pool, 1), -EOPNOTSUPP);
    EQUAL(rados_ioctx_pool_get_auid(pool, &owner), -EOPNOTSUPP);
}

/* Ceph's library has these twice: one refuses, and one sends what no OSD has known for long. */
static void maps_in_objects_are_refused(void) {
    rados_list_ctx_t list;
    EQUAL(rados_tmap_update(pool, "map", "", 0), -EOPNOTSUPP);
    EQUAL(rados_tmap_put(pool, "map", "", 0), -EOPNOTSUPP);
    EQUAL(rados_objects_list_open(pool, &list), -EOPNOTSUPP);
}

static int entries;
static char seen[256];

static void logged(void *arg, const char *line, const char *who, uint64_t sec, uint64_t nsec, uint64_t seq,
    const char *level, const char *msg) {
    char text[512];
    (void)nsec, (void)seq;
    CHECK(arg == &entries && strlen(who) > 0 && sec > 1000000000);
    snprintf(text, sizeof text, "%s %s", level, msg);
    CHECK(strstr(line, text) != NULL);
    /* What the monitors note of the command itself has other words before it. */
    if (strncmp(msg, "a test says", 11) == 0) {
        snprintf(seen, sizeof seen, "%s", level);
        __atomic_fetch_add(&entries, 1, __ATOMIC_SEQ_CST);
    }
}

static void logged_more(void *arg, const char *line, const char *channel, const char *who, const char *name,
    uint64_t sec, uint64_t nsec, uint64_t seq, const char *level, const char *msg) {
    CHECK(strcmp(channel, "cluster") == 0 || strcmp(channel, "audit") == 0);
    CHECK(strstr(line, name) != NULL);
    logged(arg, line, who, sec, nsec, seq, level, msg);
}

/* Has the monitors write an entry. */
static void write_log(const char *text) {
    char command[256];
    const char *commands[] = {command};
    char *output, *status;
    size_t output_len, status_len;
    snprintf(command, sizeof command, "{\"prefix\":\"log\",\"logtext\":[\"%s\"]}", text);
    EQUAL(rados_mon_command(cluster, commands, 1, NULL, 0, &output, &output_len, &status, &status_len), 0);
    rados_buffer_free(output);
    rados_buffer_free(status);
}

/* Waits until entries have come, and sees to it that no more do. */
static void wait_for_entries(int count) {
    for (int i = 0; i < 2000 && __atomic_load_n(&entries, __ATOMIC_SEQ_CST) < count; i++)
        usleep(10000);
    EQUAL(__atomic_load_n(&entries, __ATOMIC_SEQ_CST), count);
}

static void the_log_is_told(void) {
    EQUAL(rados_monitor_log(cluster, "loud", logged, &entries), -EINVAL);
    EQUAL(rados_monitor_log(cluster, "info", logged, &entries), 0);
    write_log("a test says one thing");
    wait_for_entries(1);
    CHECK(strcmp(seen, "[INF]") == 0);
    EQUAL(rados_monitor_log2(cluster, "debug", logged_more, &entries), 0);
    entries = 0;
    write_log("a test says another thing");
    for (int i = 0; i < 2000 && __atomic_load_n(&entries, __ATOMIC_SEQ_CST) == 0; i++)
        usleep(10000);
    CHECK(entries > 0);
    EQUAL(rados_monitor_log(cluster, "debug", NULL, NULL), 0);
    sleep(1);
    entries = 0;
    write_log("a test says what nobody hears");
    sleep(1);
    EQUAL(entries, 0);
}

/* What daemons say to people. */
static char *said;
static size_t said_len;

/* A command to a daemon, and what it gives. */
static int tell(int (*give)(const char **commands, char **output, size_t *len), const char *command, char *buf,
    size_t size) {
    const char *commands[] = {command};
    char *output = NULL;
    size_t len = 0;
    int result = give(commands, &output, &len);
    snprintf(buf, size, "%.*s", (int)len, output == NULL ? "" : output);
    rados_buffer_free(output);
    rados_buffer_free(said);
    said = NULL;
    return result;
}

static int to_osd(const char **commands, char **output, size_t *len) {
    return rados_osd_command(cluster, 0, commands, 1, NULL, 0, output, len, &said, &said_len);
}

static int to_no_osd(const char **commands, char **output, size_t *len) {
    return rados_osd_command(cluster, 999, commands, 1, NULL, 0, output, len, &said, &said_len);
}

static int to_monitor(const char **commands, char **output, size_t *len) {
    return rados_mon_command_target(cluster, "a", commands, 1, NULL, 0, output, len, &said, &said_len);
}

static int to_no_monitor(const char **commands, char **output, size_t *len) {
    return rados_mon_command_target(cluster, "nobody", commands, 1, NULL, 0, output, len, &said, &said_len);
}

static void daemons_answer_for_themselves(void) {
    char buf[4096];
    const char *version = "{\"prefix\":\"version\",\"format\":\"json\"}";
    EQUAL(tell(to_osd, version, buf, sizeof buf), 0);
    CHECK(strstr(buf, "\"version\"") != NULL);
    EQUAL(tell(to_no_osd, version, buf, sizeof buf), -ENOENT);
    EQUAL(tell(to_monitor, version, buf, sizeof buf), 0);
    CHECK(strstr(buf, "\"release\"") != NULL);
    EQUAL(tell(to_no_monitor, version, buf, sizeof buf), -ENOENT);
    EQUAL(rados_ping_monitor(cluster, "nobody", &said, &said_len), -ENOENT);
}

/* Ceph's library connects before it has set up who answers for the connection, and crashes if the monitor is quick. */
static void a_monitor_is_pinged(void) {
    char buf[4096];
    EQUAL(rados_ping_monitor(cluster, "a", &said, &said_len), 0);
    snprintf(buf, sizeof buf, "%.*s", (int)said_len, said);
    CHECK(strstr(buf, "health") != NULL);
    rados_buffer_free(said);
}

static void the_cluster_is_known(void) {
    char buf[64], *addrs;
    int8_t release = 0, needed = 0, required = 0;
    EQUAL(rados_getaddrs(cluster, &addrs), 0);
    CHECK(strstr(addrs, ":0/") != NULL && strchr(addrs, '[') == NULL && strncmp(addrs, "v", 1) != 0);
    free(addrs);
    EQUAL(rados_get_min_compatible_osd(cluster, &release), 0);
    CHECK(release >= 14 && release < 30);
    EQUAL(rados_get_min_compatible_client(cluster, &needed, &required), 0);
    EQUAL(needed, 10);
    CHECK(required >= 10 && required < 30);
    EQUAL(rados_inconsistent_pg_list(cluster, rados_ioctx_get_id(pool), buf, sizeof buf), 1);
    EQUAL(buf[0], 0);
}

static const struct test tests[] = {
    TEST(cursors_divide_a_pool),
    TEST(lists_go_on_where_they_are_told_to),
    TEST(pools_snapshots_have_names),
    TEST(snapshots_are_made_in_the_background),
    TEST(requests_are_taken_back),
    TEST(checksums_are_made_where_the_bytes_are),
    TEST(hints_make_an_object),
    TEST(what_has_ended_is_refused),
    OURS(maps_in_objects_are_refused),
    TEST(the_log_is_told),
    TEST(daemons_answer_for_themselves),
    OURS(a_monitor_is_pinged),
    TEST(the_cluster_is_known),
};

int main(int argc, char **argv) {
    return run_tests(argc, argv, tests, sizeof tests / sizeof *tests);
}
