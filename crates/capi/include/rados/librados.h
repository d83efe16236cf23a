/*
 * The functions of librados that Onego's library has. They do what Ceph's documentation says.
 *
 * Programs that were compiled with Ceph's own header run on this library, too: names, types and values are the same.
 */
#ifndef ONEGO_LIBRADOS_H
#define ONEGO_LIBRADOS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LIBRADOS_ALL_NSPACES "\001"
#define LIBRADOS_SNAP_HEAD ((uint64_t)(-2))
#define LIBRADOS_SNAP_DIR ((uint64_t)(-1))

/* How a request is carried out: flags of the functions whose names end in "_operate". */
enum {
    LIBRADOS_OPERATION_NOFLAG = 0,
    LIBRADOS_OPERATION_BALANCE_READS = 1,
    LIBRADOS_OPERATION_LOCALIZE_READS = 2,
    LIBRADOS_OPERATION_ORDER_READS_WRITES = 4,
    LIBRADOS_OPERATION_IGNORE_CACHE = 8,
    LIBRADOS_OPERATION_IGNORE_OVERLAY = 32,
    LIBRADOS_OPERATION_FULL_TRY = 64,
    LIBRADOS_OPERATION_FULL_FORCE = 128,
    LIBRADOS_OPERATION_ORDERSNAP = 512,
    LIBRADOS_OPERATION_RETURNVEC = 1024
};

/* Flags of one operation in a request. */
enum { LIBRADOS_OP_FLAG_EXCL = 1, LIBRADOS_OP_FLAG_FAILOK = 2 };

/* Whether an object that is created must be new. */
#define LIBRADOS_CREATE_IDEMPOTENT 0
#define LIBRADOS_CREATE_EXCLUSIVE 1

/* How a comparison is made. */
enum {
    LIBRADOS_CMPXATTR_OP_EQ = 1,
    LIBRADOS_CMPXATTR_OP_NE = 2,
    LIBRADOS_CMPXATTR_OP_GT = 3,
    LIBRADOS_CMPXATTR_OP_GTE = 4,
    LIBRADOS_CMPXATTR_OP_LT = 5,
    LIBRADOS_CMPXATTR_OP_LTE = 6
};

#define LIBRADOS_LOCK_FLAG_MAY_RENEW 1
#define LIBRADOS_LOCK_FLAG_MUST_RENEW 2

typedef void *rados_t;
typedef void *rados_config_t;
typedef void *rados_ioctx_t;
typedef void *rados_list_ctx_t;
typedef void *rados_object_list_cursor;
typedef uint64_t rados_snap_t;
typedef void *rados_xattrs_iter_t;
typedef void *rados_omap_iter_t;
typedef void *rados_write_op_t;
typedef void *rados_read_op_t;
typedef void *rados_completion_t;

typedef void (*rados_callback_t)(rados_completion_t completion, void *arg);
typedef void (*rados_watchcb_t)(uint8_t opcode, uint64_t version, void *arg);
typedef void (*rados_watchcb2_t)(void *arg, uint64_t notify_id, uint64_t handle, uint64_t notifier_id, void *data,
    size_t data_len);
typedef void (*rados_watcherrcb_t)(void *arg, uint64_t cookie, int err);

/* Told of an entry of the cluster's log: as a line, and in parts. */
typedef void (*rados_log_callback_t)(void *arg, const char *line, const char *who, uint64_t sec, uint64_t nsec,
    uint64_t seq, const char *level, const char *msg);
typedef void (*rados_log_callback2_t)(void *arg, const char *line, const char *channel, const char *who,
    const char *name, uint64_t sec, uint64_t nsec, uint64_t seq, const char *level, const char *msg);

/* An object of a list. Its texts are freed by rados_object_list_free. */
typedef struct {
    size_t oid_length;
    char *oid;
    size_t nspace_length;
    char *nspace;
    size_t locator_length;
    char *locator;
} rados_object_list_item;

/* Which checksums an OSD makes. */
typedef enum {
    LIBRADOS_CHECKSUM_TYPE_XXHASH32 = 0,
    LIBRADOS_CHECKSUM_TYPE_XXHASH64 = 1,
    LIBRADOS_CHECKSUM_TYPE_CRC32C = 2
} rados_checksum_type_t;

/* How full a cluster is. */
struct rados_cluster_stat_t {
    uint64_t kb, kb_used, kb_avail;
    uint64_t num_objects;
};

/* How a pool is used. */
struct rados_pool_stat_t {
    uint64_t num_bytes, num_kb;
    uint64_t num_objects, num_object_clones, num_object_copies;
    uint64_t num_objects_missing_on_primary, num_objects_unfound, num_objects_degraded;
    uint64_t num_rd, num_rd_kb, num_wr, num_wr_kb;
    uint64_t num_user_bytes;
    uint64_t compressed_bytes_orig, compressed_bytes, compressed_bytes_alloc;
};

/* A watcher's answer to a notification. */
struct notify_ack_t {
    uint64_t notifier_id;
    uint64_t cookie;
    char *payload;
    uint64_t payload_len;
};

/* A watcher that has not answered in time. */
struct notify_timeout_t {
    uint64_t notifier_id;
    uint64_t cookie;
};

/* Handles of clusters. */
void rados_version(int *major, int *minor, int *extra);
int rados_create(rados_t *cluster, const char *id);
int rados_create2(rados_t *cluster, const char *cluster_name, const char *name, uint64_t flags);
int rados_create_with_context(rados_t *cluster, rados_t context);
rados_t rados_cct(rados_t cluster);
int rados_connect(rados_t cluster);
void rados_shutdown(rados_t cluster);
int rados_cluster_stat(rados_t cluster, struct rados_cluster_stat_t *result);
int rados_cluster_fsid(rados_t cluster, char *buf, size_t len);
int rados_wait_for_latest_osdmap(rados_t cluster);
void rados_buffer_free(void *buf);

/* Where a handle's configuration comes from: files, the environment, arguments, and single settings. */
int rados_conf_read_file(rados_t cluster, const char *path);
int rados_conf_set(rados_t cluster, const char *option, const char *value);
int rados_conf_get(rados_t cluster, const char *option, char *buf, size_t len);
int rados_conf_parse_env(rados_t cluster, const char *variable);
int rados_conf_parse_argv(rados_t cluster, int count, const char **arguments);
int rados_conf_parse_argv_remainder(rados_t cluster, int count, const char **arguments, const char **rest);

/* Commands to the cluster, and what is asked of its monitors. */
int rados_mon_command(rados_t cluster, const char **commands, size_t count, const char *input, size_t
    input_len, char **output, size_t *output_len, char **status, size_t *status_len);
int rados_mon_command_target(rados_t cluster, const char *monitor, const char **commands, size_t count, const
    char *input, size_t input_len, char **output, size_t *output_len, char **status, size_t *status_len);
int rados_mgr_command(rados_t cluster, const char **commands, size_t count, const char *input, size_t
    input_len, char **output, size_t *output_len, char **status, size_t *status_len);
int rados_mgr_command_target(rados_t cluster, const char *manager, const char **commands, size_t count, const
    char *input, size_t input_len, char **output, size_t *output_len, char **status, size_t *status_len);
int rados_osd_command(rados_t cluster, int osd, const char **commands, size_t count, const char *input, size_t
    input_len, char **output, size_t *output_len, char **status, size_t *status_len);
int rados_pg_command(rados_t cluster, const char *group, const char **commands, size_t count, const char
    *input, size_t input_len, char **output, size_t *output_len, char **status, size_t *status_len);
int rados_blocklist_add(rados_t cluster, const char *addr, uint32_t seconds);
int rados_blacklist_add(rados_t cluster, const char *addr, uint32_t seconds);
uint64_t rados_get_instance_id(rados_t cluster);
int rados_service_register(rados_t cluster, const char *service, const char *daemon, const char *metadata);
int rados_service_update_status(rados_t cluster, const char *status);

/* What is asked of the cluster's daemons, and known of them. */
int rados_ping_monitor(rados_t cluster, const char *monitor, char **output, size_t *output_len);
int rados_getaddrs(rados_t cluster, char **addrs);
int rados_get_min_compatible_osd(rados_t cluster, int8_t *release);
int rados_get_min_compatible_client(rados_t cluster, int8_t *needed, int8_t *required);
int rados_inconsistent_pg_list(rados_t cluster, int64_t pool, char *buf, size_t len);

/* The cluster's log, of whose new entries programs are told. */
int rados_monitor_log(rados_t cluster, const char *level, rados_log_callback_t tell, void *arg);
int rados_monitor_log2(rados_t cluster, const char *level, rados_log_callback2_t tell, void *arg);

/* Pools: listed, made, removed, and what applications note at them. */
int rados_pool_list(rados_t cluster, char *buf, size_t len);
int64_t rados_pool_lookup(rados_t cluster, const char *name);
int rados_pool_reverse_lookup(rados_t cluster, int64_t id, char *buf, size_t len);
int rados_pool_create(rados_t cluster, const char *name);
int rados_pool_create_with_auid(rados_t cluster, const char *name, uint64_t auid);
int rados_pool_create_with_crush_rule(rados_t cluster, const char *name, uint8_t rule);
int rados_pool_create_with_all(rados_t cluster, const char *name, uint64_t auid, uint8_t rule);
int rados_pool_delete(rados_t cluster, const char *name);
int rados_pool_get_base_tier(rados_t cluster, int64_t pool, int64_t *base);
int rados_ioctx_pool_requires_alignment2(rados_ioctx_t ioctx, int *required);
int rados_ioctx_pool_requires_alignment(rados_ioctx_t ioctx);
int rados_ioctx_pool_required_alignment2(rados_ioctx_t ioctx, uint64_t *bytes);
uint64_t rados_ioctx_pool_required_alignment(rados_ioctx_t ioctx);
int rados_application_enable(rados_ioctx_t ioctx, const char *application, int force);
int rados_application_metadata_set(rados_ioctx_t ioctx, const char *application, const char *key, const char
    *value);
int rados_application_metadata_remove(rados_ioctx_t ioctx, const char *application, const char *key);
int rados_application_list(rados_ioctx_t ioctx, char *names, size_t *len);
int rados_application_metadata_get(rados_ioctx_t ioctx, const char *application, const char *key, char *value,
    size_t *len);
int rados_application_metadata_list(rados_ioctx_t ioctx, const char *application, char *keys, size_t
    *keys_len, char *values, size_t *values_len);

/* Handles of pools. */
int rados_ioctx_create(rados_t cluster, const char *name, rados_ioctx_t *ioctx);
int rados_ioctx_create2(rados_t cluster, int64_t pool, rados_ioctx_t *ioctx);
void rados_ioctx_destroy(rados_ioctx_t ioctx);
rados_t rados_ioctx_get_cluster(rados_ioctx_t ioctx);
rados_t rados_ioctx_cct(rados_ioctx_t ioctx);
int64_t rados_ioctx_get_id(rados_ioctx_t ioctx);
int rados_ioctx_get_pool_name(rados_ioctx_t ioctx, char *buf, unsigned int len);
void rados_ioctx_set_namespace(rados_ioctx_t ioctx, const char *namespace);
int rados_ioctx_get_namespace(rados_ioctx_t ioctx, char *buf, unsigned int len);
void rados_ioctx_locator_set_key(rados_ioctx_t ioctx, const char *key);
void rados_set_pool_full_try(rados_ioctx_t ioctx);
void rados_unset_pool_full_try(rados_ioctx_t ioctx);
void rados_set_osdmap_full_try(rados_ioctx_t ioctx);
void rados_unset_osdmap_full_try(rados_ioctx_t ioctx);
uint64_t rados_get_last_version(rados_ioctx_t ioctx);
int rados_ioctx_pool_stat(rados_ioctx_t ioctx, struct rados_pool_stat_t *stat);

/* Lists of a pool's objects. */
int rados_nobjects_list_open(rados_ioctx_t ioctx, rados_list_ctx_t *list);
void rados_nobjects_list_close(rados_list_ctx_t list);
int rados_nobjects_list_next(rados_list_ctx_t list, const char **entry, const char **key, const char
    **namespace);
int rados_nobjects_list_next2(rados_list_ctx_t list, const char **entry, const char **key, const char
    **namespace, size_t *entry_len, size_t *key_len, size_t *namespace_len);

uint32_t rados_nobjects_list_get_pg_hash_position(rados_list_ctx_t list);
uint32_t rados_nobjects_list_seek(rados_list_ctx_t list, uint32_t position);
uint32_t rados_nobjects_list_seek_cursor(rados_list_ctx_t list, rados_object_list_cursor cursor);
int rados_nobjects_list_get_cursor(rados_list_ctx_t list, rados_object_list_cursor *cursor);

/* Lists of a pool's objects by cursors. */
rados_object_list_cursor rados_object_list_begin(rados_ioctx_t ioctx);
rados_object_list_cursor rados_object_list_end(rados_ioctx_t ioctx);
int rados_object_list_is_end(rados_ioctx_t ioctx, rados_object_list_cursor cursor);
void rados_object_list_cursor_free(rados_ioctx_t ioctx, rados_object_list_cursor cursor);
int rados_object_list_cursor_cmp(rados_ioctx_t ioctx, rados_object_list_cursor left, rados_object_list_cursor
    right);
int rados_object_list(rados_ioctx_t ioctx, rados_object_list_cursor start, rados_object_list_cursor finish,
    size_t size, const char *filter, size_t filter_len, rados_object_list_item *results,
    rados_object_list_cursor *next);
void rados_object_list_free(size_t size, rados_object_list_item *results);
void rados_object_list_slice(rados_ioctx_t ioctx, rados_object_list_cursor start, rados_object_list_cursor
    finish, size_t n, size_t m, rados_object_list_cursor *split_start, rados_object_list_cursor *split_finish);

/* What has ended in Ceph: owners of pools, maps in objects, and lists without namespaces. All is refused. */
int rados_ioctx_pool_set_auid(rados_ioctx_t ioctx, uint64_t auid);
int rados_ioctx_pool_get_auid(rados_ioctx_t ioctx, uint64_t *auid);
int rados_tmap_update(rados_ioctx_t ioctx, const char *oid, const char *commands, size_t len);
int rados_tmap_put(rados_ioctx_t ioctx, const char *oid, const char *buf, size_t len);
int rados_tmap_get(rados_ioctx_t ioctx, const char *oid, char *buf, size_t len);
int rados_objects_list_open(rados_ioctx_t ioctx, rados_list_ctx_t *list);
int rados_objects_list_next(rados_list_ctx_t list, const char **entry, const char **key);
uint32_t rados_objects_list_get_pg_hash_position(rados_list_ctx_t list);
uint32_t rados_objects_list_seek(rados_list_ctx_t list, uint32_t position);
void rados_objects_list_close(rados_list_ctx_t list);

/* What a program says of how an object is kept. */
int rados_set_alloc_hint(rados_ioctx_t ioctx, const char *oid, uint64_t object_size, uint64_t write_size);
int rados_set_alloc_hint2(rados_ioctx_t ioctx, const char *oid, uint64_t object_size, uint64_t write_size,
    uint32_t flags);
int rados_cache_pin(rados_ioctx_t ioctx, const char *oid);
int rados_cache_unpin(rados_ioctx_t ioctx, const char *oid);

/* Checksums that OSDs make of objects' bytes. */
int rados_checksum(rados_ioctx_t ioctx, const char *oid, rados_checksum_type_t kind, const char *init, size_t
    init_len, size_t length, uint64_t offset, size_t chunk, char *sums, size_t sums_len);
void rados_read_op_checksum(rados_read_op_t ops, rados_checksum_type_t kind, const char *init, size_t init_len,
    uint64_t offset, size_t length, size_t chunk, char *sums, size_t sums_len, int *result);

/* The bytes of objects, and the objects as wholes. */
int rados_write(rados_ioctx_t ioctx, const char *oid, const char *buf, size_t len, uint64_t offset);
int rados_aio_write(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *buf,
    size_t len, uint64_t offset);
int rados_write_full(rados_ioctx_t ioctx, const char *oid, const char *buf, size_t len);
int rados_aio_write_full(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *buf,
    size_t len);
int rados_append(rados_ioctx_t ioctx, const char *oid, const char *buf, size_t len);
int rados_aio_append(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *buf,
    size_t len);
int rados_writesame(rados_ioctx_t ioctx, const char *oid, const char *buf, size_t data_len, size_t write_len,
    uint64_t offset);
int rados_aio_writesame(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *buf,
    size_t data_len, size_t write_len, uint64_t offset);
int rados_read(rados_ioctx_t ioctx, const char *oid, char *buf, size_t len, uint64_t offset);
int rados_aio_read(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, char *buf, size_t len,
    uint64_t offset);
int rados_remove(rados_ioctx_t ioctx, const char *oid);
int rados_aio_remove(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion);
int rados_trunc(rados_ioctx_t ioctx, const char *oid, uint64_t size);
int rados_cmpext(rados_ioctx_t ioctx, const char *oid, const char *buf, size_t len, uint64_t offset);
int rados_aio_cmpext(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *buf,
    size_t len, uint64_t offset);
int rados_stat(rados_ioctx_t ioctx, const char *oid, uint64_t *size, time_t *time);
int rados_aio_stat(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, uint64_t *size, time_t
    *time);
int rados_stat2(rados_ioctx_t ioctx, const char *oid, uint64_t *size, struct timespec *time);
int rados_aio_stat2(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, uint64_t *size,
    struct timespec *time);

/* Extended attributes. */
int rados_getxattr(rados_ioctx_t ioctx, const char *oid, const char *name, char *buf, size_t len);
int rados_aio_getxattr(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *name,
    char *buf, size_t len);
int rados_setxattr(rados_ioctx_t ioctx, const char *oid, const char *name, const char *buf, size_t len);
int rados_aio_setxattr(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *name,
    const char *buf, size_t len);
int rados_rmxattr(rados_ioctx_t ioctx, const char *oid, const char *name);
int rados_aio_rmxattr(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *name);
int rados_getxattrs(rados_ioctx_t ioctx, const char *oid, rados_xattrs_iter_t *iter);
int rados_aio_getxattrs(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion,
    rados_xattrs_iter_t *iter);
int rados_getxattrs_next(rados_xattrs_iter_t iter, const char **name, const char **value, size_t *len);
void rados_getxattrs_end(rados_xattrs_iter_t iter);

/* Methods of object classes. */
int rados_exec(rados_ioctx_t ioctx, const char *oid, const char *cls, const char *method, const char *input,
    size_t input_len, char *buf, size_t len);
int rados_aio_exec(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *cls, const
    char *method, const char *input, size_t input_len, char *buf, size_t len);

/* Keys and values that a program walks over: of an object's map, and its extended attributes. */
int rados_omap_get_next(rados_omap_iter_t iter, char **key, char **value, size_t *len);
int rados_omap_get_next2(rados_omap_iter_t iter, char **key, char **value, size_t *key_len, size_t
    *value_len);
unsigned int rados_omap_iter_size(rados_omap_iter_t iter);
void rados_omap_get_end(rados_omap_iter_t iter);

/* Changes of one object that are applied together. Their bytes are copied when they are added: the program may have its */
rados_write_op_t rados_create_write_op(void);
void rados_release_write_op(rados_write_op_t ops);
void rados_write_op_set_flags(rados_write_op_t ops, int flags);
void rados_write_op_assert_exists(rados_write_op_t write_op);
void rados_write_op_assert_version(rados_write_op_t write_op, uint64_t version);
void rados_write_op_cmpxattr(rados_write_op_t write_op, const char *name, uint8_t comparison, const char
    *value, size_t len);
void rados_write_op_setxattr(rados_write_op_t write_op, const char *name, const char *value, size_t len);
void rados_write_op_rmxattr(rados_write_op_t write_op, const char *name);
void rados_write_op_create(rados_write_op_t write_op, int exclusive, const char *category);
void rados_write_op_write(rados_write_op_t write_op, const char *buf, size_t len, uint64_t offset);
void rados_write_op_write_full(rados_write_op_t write_op, const char *buf, size_t len);
void rados_write_op_writesame(rados_write_op_t write_op, const char *buf, size_t len, size_t write_len,
    uint64_t offset);
void rados_write_op_append(rados_write_op_t write_op, const char *buf, size_t len);
void rados_write_op_remove(rados_write_op_t write_op);
void rados_write_op_truncate(rados_write_op_t write_op, uint64_t size);
void rados_write_op_zero(rados_write_op_t write_op, uint64_t offset, uint64_t length);
void rados_write_op_omap_clear(rados_write_op_t write_op);
void rados_write_op_omap_rm_keys(rados_write_op_t write_op, const char **names, size_t count);
void rados_write_op_omap_rm_keys2(rados_write_op_t write_op, const char **names, const size_t *lengths, size_t
    count);
void rados_write_op_omap_rm_range2(rados_write_op_t write_op, const char *from, size_t from_len, const char
    *to, size_t to_len);
void rados_write_op_omap_set(rados_write_op_t write_op, const char **names, const char *const *values, const
    size_t *lengths, size_t count);
void rados_write_op_omap_set2(rados_write_op_t write_op, const char **names, const char *const *values, const
    size_t *key_lengths, const size_t *lengths, size_t count);
void rados_write_op_set_alloc_hint(rados_write_op_t write_op, uint64_t object_size, uint64_t write_size);
void rados_write_op_set_alloc_hint2(rados_write_op_t write_op, uint64_t object_size, uint64_t write_size,
    uint32_t flags);
void rados_write_op_cmpext(rados_write_op_t write_op, const char *buf, size_t len, uint64_t offset, int
    *result);
void rados_write_op_exec(rados_write_op_t write_op, const char *cls, const char *method, const char *input,
    size_t len, int *result);
void rados_write_op_omap_cmp(rados_write_op_t write_op, const char *key, uint8_t comparison, const char
    *value, size_t len, int *result);
void rados_write_op_omap_cmp2(rados_write_op_t write_op, const char *key, uint8_t comparison, const char
    *value, size_t key_len, size_t len, int *result);
int rados_write_op_operate(rados_write_op_t ops, rados_ioctx_t ioctx, const char *object, const time_t
    *modified, int flags);
int rados_aio_write_op_operate(rados_write_op_t ops, rados_ioctx_t ioctx, rados_completion_t completion, const
    char *object, const time_t *modified, int flags);
int rados_write_op_operate2(rados_write_op_t ops, rados_ioctx_t ioctx, const char *object, const struct
    timespec *modified, int flags);
int rados_aio_write_op_operate2(rados_write_op_t ops, rados_ioctx_t ioctx, rados_completion_t completion,
    const char *object, const struct timespec *modified, int flags);

/* Reads of one object that see it in one state. */
rados_read_op_t rados_create_read_op(void);
void rados_release_read_op(rados_read_op_t ops);
void rados_read_op_set_flags(rados_read_op_t ops, int flags);
void rados_read_op_assert_exists(rados_read_op_t ops);
void rados_read_op_assert_version(rados_read_op_t ops, uint64_t version);
void rados_read_op_cmpxattr(rados_read_op_t ops, const char *name, uint8_t comparison, const char *value,
    size_t len);
void rados_read_op_cmpext(rados_read_op_t ops, const char *buf, size_t len, uint64_t offset, int *result);
void rados_read_op_omap_cmp(rados_read_op_t ops, const char *key, uint8_t comparison, const char *value,
    size_t len, int *result);
void rados_read_op_omap_cmp2(rados_read_op_t ops, const char *key, uint8_t comparison, const char *value,
    size_t key_len, size_t len, int *result);
void rados_read_op_read(rados_read_op_t ops, uint64_t offset, size_t len, char *buf, size_t *read, int
    *result);
void rados_read_op_stat(rados_read_op_t ops, uint64_t *size, time_t *time, int *result);
void rados_read_op_stat2(rados_read_op_t ops, uint64_t *size, struct timespec *time, int *result);
void rados_read_op_getxattrs(rados_read_op_t ops, rados_xattrs_iter_t *iter, int *result);
void rados_read_op_exec(rados_read_op_t ops, const char *cls, const char *method, const char *input, size_t
    len, char **out, size_t *out_len, int *result);
void rados_read_op_exec_user_buf(rados_read_op_t ops, const char *cls, const char *method, const char *input,
    size_t len, char *out, size_t out_len, size_t *used, int *result);
void rados_read_op_omap_get_vals(rados_read_op_t ops, const char *after, const char *prefix, uint64_t max,
    rados_omap_iter_t *iter, int *result);
void rados_read_op_omap_get_vals2(rados_read_op_t ops, const char *after, const char *prefix, uint64_t max,
    rados_omap_iter_t *iter, unsigned char *more, int *result);
void rados_read_op_omap_get_keys(rados_read_op_t ops, const char *after, uint64_t max, rados_omap_iter_t
    *iter, int *result);
void rados_read_op_omap_get_keys2(rados_read_op_t ops, const char *after, uint64_t max, rados_omap_iter_t
    *iter, unsigned char *more, int *result);
void rados_read_op_omap_get_vals_by_keys(rados_read_op_t ops, const char **names, size_t count,
    rados_omap_iter_t *iter, int *result);
void rados_read_op_omap_get_vals_by_keys2(rados_read_op_t ops, const char **names, size_t count, const size_t
    *lengths, rados_omap_iter_t *iter, int *result);
int rados_read_op_operate(rados_read_op_t ops, rados_ioctx_t ioctx, const char *object, int flags);
int rados_aio_read_op_operate(rados_read_op_t ops, rados_ioctx_t ioctx, rados_completion_t completion, const
    char *object, int flags);

/* Completions of librados. */
int rados_aio_create_completion(void *argument, rados_callback_t complete, rados_callback_t safe,
    rados_completion_t *completion);
int rados_aio_create_completion2(void *argument, rados_callback_t complete, rados_completion_t *completion);
void rados_aio_release(rados_completion_t completion);
int rados_aio_cancel(rados_ioctx_t ioctx, rados_completion_t completion);
int rados_aio_wait_for_complete(rados_completion_t completion);
int rados_aio_wait_for_safe(rados_completion_t completion);
int rados_aio_wait_for_complete_and_cb(rados_completion_t completion);
int rados_aio_wait_for_safe_and_cb(rados_completion_t completion);
int rados_aio_is_complete(rados_completion_t completion);
int rados_aio_is_safe(rados_completion_t completion);
int rados_aio_is_complete_and_cb(rados_completion_t completion);
int rados_aio_is_safe_and_cb(rados_completion_t completion);
int rados_aio_get_return_value(rados_completion_t completion);
uint64_t rados_aio_get_version(rados_completion_t completion);

/* Calls that wait for what was begun before them. */
int rados_aio_flush(rados_ioctx_t ioctx);
int rados_aio_flush_async(rados_ioctx_t ioctx, rados_completion_t completion);

/* Advisory locks on objects. */
int rados_lock_exclusive(rados_ioctx_t ioctx, const char *oid, const char *name, const char *cookie, const
    char *description, const struct timeval *duration, uint8_t flags);
int rados_lock_shared(rados_ioctx_t ioctx, const char *oid, const char *name, const char *cookie, const char
    *tag, const char *description, const struct timeval *duration, uint8_t flags);
int rados_unlock(rados_ioctx_t ioctx, const char *oid, const char *name, const char *cookie);
int rados_aio_unlock(rados_ioctx_t ioctx, const char *oid, const char *name, const char *cookie,
    rados_completion_t completion);
int rados_break_lock(rados_ioctx_t ioctx, const char *oid, const char *name, const char *client, const char
    *cookie);
ssize_t rados_list_lockers(rados_ioctx_t ioctx, const char *oid, const char *name, int *exclusive, char *tag,
    size_t *tag_len, char *clients, size_t *clients_len, char *cookies, size_t *cookies_len, char *addrs,
    size_t *addrs_len);

/* Watches of objects, and notifications. */
int rados_watch(rados_ioctx_t ioctx, const char *object, uint64_t version, uint64_t *cookie, rados_watchcb_t
    notify, void *argument);
int rados_watch2(rados_ioctx_t ioctx, const char *object, uint64_t *cookie, rados_watchcb2_t notify,
    rados_watcherrcb_t fail, void *argument);
int rados_watch3(rados_ioctx_t ioctx, const char *object, uint64_t *cookie, rados_watchcb2_t notify,
    rados_watcherrcb_t fail, uint32_t timeout, void *argument);
int rados_aio_watch(rados_ioctx_t ioctx, const char *object, rados_completion_t completion, uint64_t *cookie,
    rados_watchcb2_t notify, rados_watcherrcb_t fail, void *argument);
int rados_aio_watch2(rados_ioctx_t ioctx, const char *object, rados_completion_t completion, uint64_t *cookie,
    rados_watchcb2_t notify, rados_watcherrcb_t fail, uint32_t timeout, void *argument);
int rados_unwatch2(rados_ioctx_t ioctx, uint64_t cookie);
int rados_unwatch(rados_ioctx_t ioctx, const char *object, uint64_t cookie);
int rados_aio_unwatch(rados_ioctx_t ioctx, uint64_t cookie, rados_completion_t completion);
int rados_watch_check(rados_ioctx_t ioctx, uint64_t cookie);
int rados_watch_flush(rados_t cluster);
int rados_aio_watch_flush(rados_t cluster, rados_completion_t completion);
int rados_notify_ack(rados_ioctx_t ioctx, const char *object, uint64_t notification, uint64_t cookie, const
    char *reply, int len);
int rados_notify(rados_ioctx_t ioctx, const char *object, uint64_t version, const char *buf, int len);
int rados_notify2(rados_ioctx_t ioctx, const char *object, const char *buf, int len, uint64_t timeout_ms, char
    **answers, size_t *answers_len);
int rados_aio_notify(rados_ioctx_t ioctx, const char *object, rados_completion_t completion, const char *buf,
    int len, uint64_t timeout_ms, char **answers, size_t *answers_len);
int rados_decode_notify_response(const char *buf, size_t len, struct notify_ack_t **acks, size_t *ack_count,
    struct notify_timeout_t **missed, size_t *missed_count);
void rados_free_notify_response(const struct notify_ack_t *acks, size_t count, void *missed);

/* Snapshots of pools, and those that programs manage themselves. */
int rados_ioctx_snap_create(rados_ioctx_t ioctx, const char *name);
int rados_ioctx_snap_remove(rados_ioctx_t ioctx, const char *name);
int rados_ioctx_selfmanaged_snap_create(rados_ioctx_t ioctx, uint64_t *snap);
int rados_ioctx_selfmanaged_snap_remove(rados_ioctx_t ioctx, uint64_t snap);
void rados_aio_ioctx_selfmanaged_snap_create(rados_ioctx_t ioctx, uint64_t *snap, rados_completion_t completion);
void rados_aio_ioctx_selfmanaged_snap_remove(rados_ioctx_t ioctx, uint64_t snap, rados_completion_t completion);
int rados_ioctx_selfmanaged_snap_set_write_ctx(rados_ioctx_t ioctx, uint64_t seq, const uint64_t *snaps, int
    count);
void rados_ioctx_snap_set_read(rados_ioctx_t ioctx, uint64_t snap);
int rados_ioctx_snap_list(rados_ioctx_t ioctx, uint64_t *snaps, int most);
int rados_ioctx_snap_lookup(rados_ioctx_t ioctx, const char *name, uint64_t *snap);
int rados_ioctx_snap_get_name(rados_ioctx_t ioctx, uint64_t id, char *name, int len);
int rados_ioctx_snap_get_stamp(rados_ioctx_t ioctx, uint64_t id, time_t *time);

/* Objects made what they were at a snapshot. */
int rados_ioctx_selfmanaged_snap_rollback(rados_ioctx_t ioctx, const char *oid, uint64_t snap);
int rados_ioctx_snap_rollback(rados_ioctx_t ioctx, const char *oid, const char *name);
int rados_rollback(rados_ioctx_t ioctx, const char *oid, const char *name);

#ifdef __cplusplus
}
#endif

#endif
