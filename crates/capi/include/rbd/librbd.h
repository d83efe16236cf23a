/*
 * The functions of librbd that Onego's library has. They do what Ceph's documentation says.
 *
 * Programs that were compiled with Ceph's own header run on this library, too: names, types and values are the same.
 */
#ifndef ONEGO_LIBRBD_H
#define ONEGO_LIBRBD_H

#include <rados/librados.h>
#include <stdbool.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RBD_FEATURE_LAYERING (1ULL << 0)
#define RBD_FEATURE_STRIPINGV2 (1ULL << 1)
#define RBD_FEATURE_EXCLUSIVE_LOCK (1ULL << 2)
#define RBD_FEATURE_OBJECT_MAP (1ULL << 3)
#define RBD_FEATURE_FAST_DIFF (1ULL << 4)
#define RBD_FEATURE_DEEP_FLATTEN (1ULL << 5)
#define RBD_FEATURE_JOURNALING (1ULL << 6)
#define RBD_FEATURE_DATA_POOL (1ULL << 7)

#define RBD_MAX_IMAGE_NAME_SIZE 96
#define RBD_MAX_BLOCK_NAME_SIZE 24

/* Options of new images. */
enum {
    RBD_IMAGE_OPTION_FORMAT = 0,
    RBD_IMAGE_OPTION_FEATURES = 1,
    RBD_IMAGE_OPTION_ORDER = 2,
    RBD_IMAGE_OPTION_STRIPE_UNIT = 3,
    RBD_IMAGE_OPTION_STRIPE_COUNT = 4,
    RBD_IMAGE_OPTION_FEATURES_SET = 8,
    RBD_IMAGE_OPTION_FEATURES_CLEAR = 9,
    RBD_IMAGE_OPTION_DATA_POOL = 10,
    RBD_IMAGE_OPTION_FLATTEN = 11,
    RBD_IMAGE_OPTION_CLONE_FORMAT = 12
};

/* What rbd_set_image_notification is given. */
enum { EVENT_TYPE_PIPE = 1, EVENT_TYPE_EVENTFD = 2 };

typedef void *rbd_image_t;
typedef void *rbd_image_options_t;
typedef void *rbd_pool_stats_t;
typedef void *rbd_completion_t;

typedef void (*rbd_callback_t)(rbd_completion_t completion, void *arg);
typedef int (*librbd_progress_fn_t)(uint64_t offset, uint64_t total, void *arg);

/* Called for each part of an image: first byte, bytes, whether it holds data. */
typedef int (*librbd_diff_fn_t)(uint64_t offset, size_t length, int exists, void *arg);

/* Called for each part of a read: how far behind its start it is, bytes, where they are. */
typedef int (*librbd_read_fn_t)(uint64_t offset, size_t length, const char *buf, void *arg);

/* Called when something has happened to an image. */
typedef void (*rbd_update_callback_t)(void *arg);

/* The sizes of an image. */
typedef struct {
    uint64_t size;
    uint64_t obj_size;
    uint64_t num_objs;
    int order;
    char block_name_prefix[RBD_MAX_BLOCK_NAME_SIZE];
    int64_t parent_pool;
    char parent_name[RBD_MAX_IMAGE_NAME_SIZE];
} rbd_image_info_t;

/* Id and name of an image. */
typedef struct {
    char *id;
    char *name;
} rbd_image_spec_t;

/* A client that has an image open. */
typedef struct {
    char *addr;
    int64_t id;
    uint64_t cookie;
} rbd_image_watcher_t;

/* A snapshot. */
typedef struct {
    uint64_t id;
    uint64_t size;
    const char *name;
} rbd_snap_info_t;

/* What a snapshot was made for. */
typedef enum {
    RBD_SNAP_NAMESPACE_TYPE_USER = 0,
    RBD_SNAP_NAMESPACE_TYPE_GROUP = 1,
    RBD_SNAP_NAMESPACE_TYPE_TRASH = 2,
    RBD_SNAP_NAMESPACE_TYPE_MIRROR = 3
} rbd_snap_namespace_type_t;

/* Flags of new snapshots, and of removals. */
#define RBD_SNAP_CREATE_SKIP_QUIESCE (1 << 0)
#define RBD_SNAP_CREATE_IGNORE_QUIESCE_ERROR (1 << 1)
#define RBD_SNAP_REMOVE_UNPROTECT (1 << 0)
#define RBD_SNAP_REMOVE_FLATTEN (1 << 1)
#define RBD_SNAP_REMOVE_FORCE (RBD_SNAP_REMOVE_UNPROTECT | RBD_SNAP_REMOVE_FLATTEN)

/* A snapshot of another image. */
typedef struct {
    uint64_t id;
    rbd_snap_namespace_type_t namespace_type;
    char *name;
} rbd_snap_spec_t;

/* The snapshot of a group that a snapshot is part of. */
typedef struct {
    int64_t group_pool;
    char *group_name;
    char *group_snap_name;
} rbd_snap_group_namespace_t;

/* What a snapshot was that waits for the end of its clones. */
typedef struct {
    rbd_snap_namespace_type_t original_namespace_type;
    char *original_name;
} rbd_snap_trash_namespace_t;

typedef enum {
    RBD_SNAP_MIRROR_STATE_PRIMARY,
    RBD_SNAP_MIRROR_STATE_PRIMARY_DEMOTED,
    RBD_SNAP_MIRROR_STATE_NON_PRIMARY,
    RBD_SNAP_MIRROR_STATE_NON_PRIMARY_DEMOTED
} rbd_snap_mirror_state_t;

/* What mirroring made a snapshot for. */
typedef struct {
    rbd_snap_mirror_state_t state;
    size_t mirror_peer_uuids_count;
    char *mirror_peer_uuids;
    bool complete;
    char *primary_mirror_uuid;
    uint64_t primary_snap_id;
    uint64_t last_copied_object_number;
} rbd_snap_mirror_namespace_t;

/* An image, with its pool. */
typedef struct {
    int64_t pool_id;
    char *pool_name;
    char *pool_namespace;
    char *image_id;
    char *image_name;
    bool trash;
} rbd_linked_image_spec_t;

/* A clone. */
typedef struct {
    const char *pool_name;
    const char *image_name;
    const char *image_id;
    bool trash;
} rbd_child_info_t;

/* How the exclusive lock is held. */
typedef enum { RBD_LOCK_MODE_EXCLUSIVE = 0, RBD_LOCK_MODE_SHARED = 1 } rbd_lock_mode_t;

/* What put an image into the trash. */
typedef enum {
    RBD_TRASH_IMAGE_SOURCE_USER = 0,
    RBD_TRASH_IMAGE_SOURCE_MIRRORING = 1,
    RBD_TRASH_IMAGE_SOURCE_MIGRATION = 2,
    RBD_TRASH_IMAGE_SOURCE_REMOVING = 3,
    RBD_TRASH_IMAGE_SOURCE_USER_PARENT = 4
} rbd_trash_image_source_t;

/* An image in the trash. */
typedef struct {
    char *id;
    char *name;
    rbd_trash_image_source_t source;
    time_t deletion_time;
    time_t deferment_end_time;
} rbd_trash_image_info_t;

/* The group that an image is in; pool -1: it is in none. */
typedef struct {
    char *name;
    int64_t pool;
} rbd_group_info_t;

typedef enum { RBD_GROUP_IMAGE_STATE_ATTACHED, RBD_GROUP_IMAGE_STATE_INCOMPLETE } rbd_group_image_state_t;

/* An image of a group. */
typedef struct {
    char *name;
    int64_t pool;
    rbd_group_image_state_t state;
} rbd_group_image_info_t;

typedef enum { RBD_GROUP_SNAP_STATE_INCOMPLETE, RBD_GROUP_SNAP_STATE_COMPLETE } rbd_group_snap_state_t;

/* A snapshot of a group. */
typedef struct {
    char *name;
    rbd_group_snap_state_t state;
} rbd_group_snap_info_t;

typedef enum { RBD_GROUP_SNAP_NAMESPACE_TYPE_USER = 0 } rbd_group_snap_namespace_type_t;

/* A snapshot of an image that a group's is made of. */
typedef struct {
    char *image_name;
    int64_t pool_id;
    uint64_t snap_id;
} rbd_group_image_snap_info_t;

/* All that is known of a snapshot of a group. */
typedef struct {
    char *id;
    char *name;
    char *image_snap_name;
    rbd_group_snap_state_t state;
    rbd_group_snap_namespace_type_t namespace_type;
    size_t image_snaps_count;
    rbd_group_image_snap_info_t *image_snaps;
} rbd_group_snap_info2_t;

/* Who sets an option. */
typedef enum {
    RBD_CONFIG_SOURCE_CONFIG = 0,
    RBD_CONFIG_SOURCE_POOL = 1,
    RBD_CONFIG_SOURCE_IMAGE = 2
} rbd_config_source_t;

typedef struct {
    char *name;
    char *value;
    rbd_config_source_t source;
} rbd_config_option_t;

/* Sums of what a pool's images are. */
typedef enum {
    RBD_POOL_STAT_OPTION_IMAGES,
    RBD_POOL_STAT_OPTION_IMAGE_PROVISIONED_BYTES,
    RBD_POOL_STAT_OPTION_IMAGE_MAX_PROVISIONED_BYTES,
    RBD_POOL_STAT_OPTION_IMAGE_SNAPSHOTS,
    RBD_POOL_STAT_OPTION_TRASH_IMAGES,
    RBD_POOL_STAT_OPTION_TRASH_PROVISIONED_BYTES,
    RBD_POOL_STAT_OPTION_TRASH_MAX_PROVISIONED_BYTES,
    RBD_POOL_STAT_OPTION_TRASH_SNAPSHOTS
} rbd_pool_stat_option_t;

/* How far a move is. */
typedef enum {
    RBD_IMAGE_MIGRATION_STATE_UNKNOWN = -1,
    RBD_IMAGE_MIGRATION_STATE_ERROR = 0,
    RBD_IMAGE_MIGRATION_STATE_PREPARING = 1,
    RBD_IMAGE_MIGRATION_STATE_PREPARED = 2,
    RBD_IMAGE_MIGRATION_STATE_EXECUTING = 3,
    RBD_IMAGE_MIGRATION_STATE_EXECUTED = 4,
    RBD_IMAGE_MIGRATION_STATE_ABORTING = 5
} rbd_image_migration_state_t;

typedef struct {
    int64_t source_pool_id;
    char *source_pool_namespace;
    char *source_image_name;
    char *source_image_id;
    int64_t dest_pool_id;
    char *dest_pool_namespace;
    char *dest_image_name;
    char *dest_image_id;
    rbd_image_migration_state_t state;
    char *state_description;
} rbd_image_migration_status_t;

/* What an image is encrypted in. */
typedef enum {
    RBD_ENCRYPTION_FORMAT_LUKS1 = 0,
    RBD_ENCRYPTION_FORMAT_LUKS2 = 1,
    RBD_ENCRYPTION_FORMAT_LUKS = 2
} rbd_encryption_format_t;

typedef enum { RBD_ENCRYPTION_ALGORITHM_AES128 = 0, RBD_ENCRYPTION_ALGORITHM_AES256 = 1 } rbd_encryption_algorithm_t;

typedef void *rbd_encryption_options_t;

typedef struct {
    rbd_encryption_format_t format;
    rbd_encryption_options_t opts;
    size_t opts_size;
} rbd_encryption_spec_t;

typedef struct {
    rbd_encryption_algorithm_t alg;
    const char *passphrase;
    size_t passphrase_size;
} rbd_encryption_luks1_format_options_t;

typedef rbd_encryption_luks1_format_options_t rbd_encryption_luks2_format_options_t;

typedef struct {
    const char *passphrase;
    size_t passphrase_size;
} rbd_encryption_luks_format_options_t;

/* What of a pool is mirrored. */
typedef enum { RBD_MIRROR_MODE_DISABLED, RBD_MIRROR_MODE_IMAGE, RBD_MIRROR_MODE_POOL } rbd_mirror_mode_t;

typedef enum {
    RBD_MIRROR_PEER_DIRECTION_RX = 0,
    RBD_MIRROR_PEER_DIRECTION_TX = 1,
    RBD_MIRROR_PEER_DIRECTION_RX_TX = 2
} rbd_mirror_peer_direction_t;

/* A peer of a pool, as it was of old. */
typedef struct {
    char *uuid;
    char *cluster_name;
    char *client_name;
} rbd_mirror_peer_t;

/* A peer of a pool. */
typedef struct {
    char *uuid;
    rbd_mirror_peer_direction_t direction;
    char *site_name;
    char *mirror_uuid;
    char *client_name;
    time_t last_seen;
} rbd_mirror_peer_site_t;

typedef enum { RBD_MIRROR_IMAGE_MODE_JOURNAL = 0, RBD_MIRROR_IMAGE_MODE_SNAPSHOT = 1 } rbd_mirror_image_mode_t;

typedef enum {
    RBD_MIRROR_IMAGE_DISABLING = 0,
    RBD_MIRROR_IMAGE_ENABLED = 1,
    RBD_MIRROR_IMAGE_DISABLED = 2
} rbd_mirror_image_state_t;

/* How an image is mirrored. */
typedef struct {
    char *global_id;
    rbd_mirror_image_state_t state;
    bool primary;
} rbd_mirror_image_info_t;

/* What is said of the mirroring of an image. */
typedef enum {
    MIRROR_IMAGE_STATUS_STATE_UNKNOWN = 0,
    MIRROR_IMAGE_STATUS_STATE_ERROR = 1,
    MIRROR_IMAGE_STATUS_STATE_SYNCING = 2,
    MIRROR_IMAGE_STATUS_STATE_STARTING_REPLAY = 3,
    MIRROR_IMAGE_STATUS_STATE_REPLAYING = 4,
    MIRROR_IMAGE_STATUS_STATE_STOPPING_REPLAY = 5,
    MIRROR_IMAGE_STATUS_STATE_STOPPED = 6
} rbd_mirror_image_status_state_t;

/* By this cluster. */
typedef struct {
    char *name;
    rbd_mirror_image_info_t info;
    rbd_mirror_image_status_state_t state;
    char *description;
    time_t last_update;
    bool up;
} rbd_mirror_image_status_t;

/* By a site. */
typedef struct {
    char *mirror_uuid;
    rbd_mirror_image_status_state_t state;
    char *description;
    time_t last_update;
    bool up;
} rbd_mirror_image_site_status_t;

/* By all sites. */
typedef struct {
    char *name;
    rbd_mirror_image_info_t info;
    uint32_t site_statuses_count;
    rbd_mirror_image_site_status_t *site_statuses;
} rbd_mirror_image_global_status_t;

/* Options of new images (`rbd_image_options_t`). */
void rbd_image_options_create(rbd_image_options_t *options);
void rbd_image_options_destroy(rbd_image_options_t options);
int rbd_image_options_set_string(rbd_image_options_t options, int option, const char *value);
int rbd_image_options_set_uint64(rbd_image_options_t options, int option, uint64_t value);
int rbd_image_options_get_string(rbd_image_options_t options, int option, char *value, size_t len);
int rbd_image_options_get_uint64(rbd_image_options_t options, int option, uint64_t *value);
int rbd_image_options_is_set(rbd_image_options_t options, int option, bool *is_set);
int rbd_image_options_unset(rbd_image_options_t options, int option);
void rbd_image_options_clear(rbd_image_options_t options);
int rbd_image_options_is_empty(rbd_image_options_t options);

/* The life of images: created, resized, removed. */
int rbd_create(rados_ioctx_t ioctx, const char *name, uint64_t size, int *order);
int rbd_create2(rados_ioctx_t ioctx, const char *name, uint64_t size, uint64_t features, int *order);
int rbd_create3(rados_ioctx_t ioctx, const char *name, uint64_t size, uint64_t features, int *order, uint64_t
    stripe_unit, uint64_t stripe_count);
int rbd_create4(rados_ioctx_t ioctx, const char *name, uint64_t size, rbd_image_options_t options);
int rbd_remove(rados_ioctx_t ioctx, const char *name);
int rbd_remove_with_progress(rados_ioctx_t ioctx, const char *name, librbd_progress_fn_t progress, void
    *argument);
int rbd_resize(rbd_image_t image, uint64_t size);
int rbd_resize_with_progress(rbd_image_t image, uint64_t size, librbd_progress_fn_t progress, void *argument);
int rbd_resize2(rbd_image_t image, uint64_t size, bool may_shrink, librbd_progress_fn_t progress, void
    *argument);

/* What a pool has of images and namespaces. */
int rbd_list(rados_ioctx_t ioctx, char *names, size_t *size);
int rbd_list2(rados_ioctx_t ioctx, rbd_image_spec_t *specs, size_t *most);
void rbd_image_spec_cleanup(const rbd_image_spec_t *spec);
void rbd_image_spec_list_cleanup(const rbd_image_spec_t *specs, size_t count);
int rbd_namespace_list(rados_ioctx_t ioctx, char *names, size_t *size);
int rbd_namespace_exists(rados_ioctx_t ioctx, const char *name, bool *exists);

/* Handles of images: open, close, and the events of their completions. */
int rbd_open(rados_ioctx_t ioctx, const char *name, rbd_image_t *image, const char *snapshot);
int rbd_open_read_only(rados_ioctx_t ioctx, const char *name, rbd_image_t *image, const char *snapshot);
int rbd_aio_open(rados_ioctx_t ioctx, const char *name, rbd_image_t *image, const char *snapshot,
    rbd_completion_t completion);
int rbd_aio_open_read_only(rados_ioctx_t ioctx, const char *name, rbd_image_t *image, const char *snapshot,
    rbd_completion_t completion);
int rbd_close(rbd_image_t image);
int rbd_aio_close(rbd_image_t image, rbd_completion_t completion);
int rbd_set_image_notification(rbd_image_t image, int descriptor, int kind);
int rbd_poll_io_events(rbd_image_t image, rbd_completion_t *completions, int most);

/* What is known of an image. */
void rbd_version(int *major, int *minor, int *extra);
int rbd_stat(rbd_image_t image, rbd_image_info_t *stat, size_t len);
int rbd_get_size(rbd_image_t image, uint64_t *size);
int rbd_get_old_format(rbd_image_t image, uint8_t *old);
int rbd_get_features(rbd_image_t image, uint64_t *features);
int rbd_get_op_features(rbd_image_t image, uint64_t *features);
int rbd_get_flags(rbd_image_t image, uint64_t *flags);
int rbd_get_stripe_unit(rbd_image_t image, uint64_t *unit);
int rbd_get_stripe_count(rbd_image_t image, uint64_t *count);
int rbd_get_overlap(rbd_image_t image, uint64_t *overlap);
int64_t rbd_get_data_pool_id(rbd_image_t image);
int rbd_get_id(rbd_image_t image, char *id, size_t len);
int rbd_get_block_name_prefix(rbd_image_t image, char *prefix, size_t len);
int rbd_get_name(rbd_image_t image, char *name, size_t *len);
int rbd_get_create_timestamp(rbd_image_t image, struct timespec *time);
int rbd_get_parent_info(rbd_image_t image, char *pool, size_t pool_len, char *name, size_t name_len, char
    *snapshot, size_t snapshot_len);

/* Reads and writes of images. */
ssize_t rbd_read(rbd_image_t image, uint64_t offset, size_t len, char *buf);
ssize_t rbd_read2(rbd_image_t image, uint64_t offset, size_t len, char *buf, int flags);
int rbd_aio_read(rbd_image_t image, uint64_t offset, size_t len, char *buf, rbd_completion_t completion);
int rbd_aio_read2(rbd_image_t image, uint64_t offset, size_t len, char *buf, rbd_completion_t completion, int
    flags);
int rbd_aio_readv(rbd_image_t image, const struct iovec *vector, int count, uint64_t offset, rbd_completion_t
    completion);
ssize_t rbd_write(rbd_image_t image, uint64_t offset, size_t len, const char *buf);
ssize_t rbd_write2(rbd_image_t image, uint64_t offset, size_t len, const char *buf, int flags);
int rbd_aio_write(rbd_image_t image, uint64_t offset, size_t len, const char *buf, rbd_completion_t
    completion);
int rbd_aio_write2(rbd_image_t image, uint64_t offset, size_t len, const char *buf, rbd_completion_t
    completion, int flags);
int rbd_aio_writev(rbd_image_t image, const struct iovec *vector, int count, uint64_t offset, rbd_completion_t
    completion);
ssize_t rbd_writesame(rbd_image_t image, uint64_t offset, size_t len, const char *buf, size_t data_len, int
    flags);
int rbd_aio_writesame(rbd_image_t image, uint64_t offset, size_t len, const char *buf, size_t data_len,
    rbd_completion_t completion, int flags);
int rbd_discard(rbd_image_t image, uint64_t offset, uint64_t len);
int rbd_aio_discard(rbd_image_t image, uint64_t offset, uint64_t len, rbd_completion_t completion);
ssize_t rbd_write_zeroes(rbd_image_t image, uint64_t offset, size_t len, int zero_flags, int flags);
int rbd_aio_write_zeroes(rbd_image_t image, uint64_t offset, size_t len, rbd_completion_t completion, int
    zero_flags, int flags);
int rbd_flush(rbd_image_t image);
int rbd_aio_flush(rbd_image_t image, rbd_completion_t completion);
int rbd_invalidate_cache(rbd_image_t image);

/* Completions of librbd. */
int rbd_aio_create_completion(void *argument, rbd_callback_t complete, rbd_completion_t *completion);
void rbd_aio_release(rbd_completion_t completion);
int rbd_aio_wait_for_complete(rbd_completion_t completion);
int rbd_aio_is_complete(rbd_completion_t completion);
ssize_t rbd_aio_get_return_value(rbd_completion_t completion);
void *rbd_aio_get_arg(rbd_completion_t completion);

/* The exclusive lock of an image. */
int rbd_is_exclusive_lock_owner(rbd_image_t image, int *is_owner);
int rbd_lock_acquire(rbd_image_t image, int mode);
int rbd_lock_release(rbd_image_t image);

/* Which parts of an image hold data. */
int rbd_diff_iterate(rbd_image_t image, const char *from, uint64_t offset, uint64_t length, librbd_diff_fn_t
    visit, void *argument);
int rbd_diff_iterate2(rbd_image_t image, const char *from, uint64_t offset, uint64_t length, uint8_t
    include_parent, uint8_t whole_object, librbd_diff_fn_t visit, void *argument);

/* Names of images' features. */
int rbd_features_to_string(uint64_t features, char *text, size_t *len);
int rbd_features_from_string(const char *text, uint64_t *features);

/* The clients that have an image open. */
int rbd_watchers_list(rbd_image_t image, rbd_image_watcher_t *watchers, size_t *most);
void rbd_watchers_list_cleanup(const rbd_image_watcher_t *watchers, size_t count);

/* What programs note at images. */
int rbd_metadata_get(rbd_image_t image, const char *key, char *value, size_t *len);
int rbd_metadata_set(rbd_image_t image, const char *key, const char *value);
int rbd_metadata_remove(rbd_image_t image, const char *key);
int rbd_metadata_list(rbd_image_t image, const char *after, uint64_t most, char *keys, size_t *keys_len, char
    *values, size_t *values_len);

/* Snapshots of an image, as its header lists them. */
int rbd_snap_list(rbd_image_t image, rbd_snap_info_t *snaps, int *most);
void rbd_snap_list_end(const rbd_snap_info_t *snaps);
int rbd_snap_exists(rbd_image_t image, const char *name, bool *exists);
int rbd_snap_get_id(rbd_image_t image, const char *name, uint64_t *id);
int rbd_snap_get_name(rbd_image_t image, uint64_t id, char *name, size_t *len);
int rbd_snap_set(rbd_image_t image, const char *name);

/* The life of images: created, renamed, resized, removed. */
int rbd_rename(rados_ioctx_t ioctx, const char *from, const char *to);

/* The clones of an image, or of the snapshot that is shown. */
ssize_t rbd_list_children(rbd_image_t image, char *pools, size_t *pools_len, char *images, size_t
    *images_len);
int rbd_list_children2(rbd_image_t image, rbd_child_info_t *infos, int *most);
void rbd_list_child_cleanup(const rbd_child_info_t *info);
void rbd_list_children_cleanup(const rbd_child_info_t *infos, size_t count);
int rbd_list_children3(rbd_image_t image, rbd_linked_image_spec_t *images, size_t *most);
int rbd_list_descendants(rbd_image_t image, rbd_linked_image_spec_t *images, size_t *most);

/* Clones are made. */
int rbd_clone(rados_ioctx_t parent_ioctx, const char *parent, const char *snapshot, rados_ioctx_t child_ioctx,
    const char *child, uint64_t features, int *order);
int rbd_clone2(rados_ioctx_t parent_ioctx, const char *parent, const char *snapshot, rados_ioctx_t
    child_ioctx, const char *child, uint64_t features, int *order, uint64_t stripe_unit, int stripe_count);
int rbd_clone3(rados_ioctx_t parent_ioctx, const char *parent, const char *snapshot, rados_ioctx_t
    child_ioctx, const char *child, rbd_image_options_t options);
int rbd_clone4(rados_ioctx_t parent_ioctx, const char *parent, uint64_t snapshot, rados_ioctx_t child_ioctx,
    const char *child, rbd_image_options_t options);

/* Clones become images of their own. */
int rbd_flatten(rbd_image_t image);
int rbd_flatten_with_progress(rbd_image_t image, librbd_progress_fn_t progress, void *argument);

/* Images that are named with their pools. */
void rbd_linked_image_spec_cleanup(const rbd_linked_image_spec_t *image);
void rbd_linked_image_spec_list_cleanup(const rbd_linked_image_spec_t *images, size_t count);

/* The snapshot that an image is a clone of. */
int rbd_get_parent(rbd_image_t image, rbd_linked_image_spec_t *parent_image, rbd_snap_spec_t *snapshot);
void rbd_snap_spec_cleanup(const rbd_snap_spec_t *snapshot);
int rbd_get_parent_info2(rbd_image_t image, char *pool, size_t pool_len, char *name, size_t name_len, char
    *id, size_t id_len, char *snapshot, size_t snapshot_len);

/* Features of images, and their names. */
int rbd_update_features(rbd_image_t image, uint64_t features, uint8_t enabled);

/* What is known of an image. */
int rbd_get_access_timestamp(rbd_image_t image, struct timespec *time);
int rbd_get_modify_timestamp(rbd_image_t image, struct timespec *time);
int rbd_get_group(rbd_image_t image, rbd_group_info_t *group, size_t size);
int rbd_group_info_cleanup(const rbd_group_info_t *group, size_t size);

/* Writes that happen if the bytes that are there are the expected ones. */
ssize_t rbd_compare_and_write(rbd_image_t image, uint64_t offset, size_t len, const char *expected, const char
    *data, uint64_t *mismatch, int flags);
ssize_t rbd_aio_compare_and_write(rbd_image_t image, uint64_t offset, size_t len, const char *expected, const
    char *data, rbd_completion_t completion, uint64_t *mismatch, int flags);
ssize_t rbd_aio_compare_and_writev(rbd_image_t image, uint64_t offset, const struct iovec *expected, int
    expected_count, const struct iovec *data, int count, rbd_completion_t completion, uint64_t *mismatch, int
    flags);

/* Which parts of an image have changed. */
int rbd_diff_iterate3(rbd_image_t image, uint64_t from, uint64_t offset, uint64_t length, uint32_t flags,
    librbd_diff_fn_t visit, void *argument);

/* Reads that go through an image piece by piece. */
int64_t rbd_read_iterate(rbd_image_t image, uint64_t offset, size_t len, librbd_read_fn_t visit, void
    *argument);
int rbd_read_iterate2(rbd_image_t image, uint64_t offset, uint64_t len, librbd_read_fn_t visit, void
    *argument);

/* Reads and writes of images. */
int rbd_aio_write_with_crc32c(rbd_image_t image, uint64_t offset, size_t len, const char *buf, uint32_t
    crc32c, rbd_completion_t completion, int flags);

/* The lock that users of an image take by hand. */
ssize_t rbd_list_lockers(rbd_image_t image, int *is_exclusive, char *tag, size_t *tag_len, char *clients,
    size_t *clients_len, char *cookies, size_t *cookies_len, char *addresses, size_t *addresses_len);
int rbd_lock_exclusive(rbd_image_t image, const char *cookie);
int rbd_lock_shared(rbd_image_t image, const char *cookie, const char *tag);
int rbd_unlock(rbd_image_t image, const char *cookie);
int rbd_break_lock(rbd_image_t image, const char *client, const char *cookie);

/* The owner of the exclusive lock, which is named by its address. */
int rbd_lock_get_owners(rbd_image_t image, rbd_lock_mode_t *mode, char **owners, size_t *most);
void rbd_lock_get_owners_cleanup(char *const *owners, size_t count);
int rbd_lock_break(rbd_image_t image, rbd_lock_mode_t mode, const char *address);

/* Images are opened and closed; the events of their completions. */
int rbd_open_by_id(rados_ioctx_t ioctx, const char *id, rbd_image_t *image, const char *snapshot);
int rbd_aio_open_by_id(rados_ioctx_t ioctx, const char *id, rbd_image_t *image, const char *snapshot,
    rbd_completion_t completion);
int rbd_open_by_id_read_only(rados_ioctx_t ioctx, const char *id, rbd_image_t *image, const char *snapshot);
int rbd_aio_open_by_id_read_only(rados_ioctx_t ioctx, const char *id, rbd_image_t *image, const char
    *snapshot, rbd_completion_t completion);

/* Options of librbd, and who sets them: the program's own configuration, the pool, the image. */
int rbd_config_pool_list(rados_ioctx_t ioctx, rbd_config_option_t *options, int *most);
int rbd_config_image_list(rbd_image_t image, rbd_config_option_t *options, int *most);
void rbd_config_pool_list_cleanup(const rbd_config_option_t *options, int count);
void rbd_config_image_list_cleanup(const rbd_config_option_t *options, int count);

/* The images of groups. */
int rbd_group_image_add(rados_ioctx_t group_ioctx, const char *group, rados_ioctx_t image_ioctx, const char
    *image);
int rbd_group_image_remove(rados_ioctx_t group_ioctx, const char *group, rados_ioctx_t image_ioctx, const char
    *image);
int rbd_group_image_remove_by_id(rados_ioctx_t group_ioctx, const char *group, rados_ioctx_t image_ioctx,
    const char *id);
int rbd_group_image_list(rados_ioctx_t ioctx, const char *group, rbd_group_image_info_t *images, size_t size,
    size_t *most);
int rbd_group_image_list_cleanup(const rbd_group_image_info_t *images, size_t size, size_t count);

/* All that is known of groups' snapshots. */
int rbd_group_snap_get_info(rados_ioctx_t ioctx, const char *group, const char *snapshot,
    rbd_group_snap_info2_t *found);
void rbd_group_snap_get_info_cleanup(const rbd_group_snap_info2_t *found);
int rbd_group_snap_list2(rados_ioctx_t ioctx, const char *group, rbd_group_snap_info2_t *snapshots, size_t
    size, size_t *most);
int rbd_group_snap_list2_cleanup(const rbd_group_snap_info2_t *snapshots, size_t size, size_t count);

/* The snapshots of groups. */
int rbd_group_snap_create(rados_ioctx_t ioctx, const char *group, const char *snapshot);
int rbd_group_snap_create2(rados_ioctx_t ioctx, const char *group, const char *snapshot, uint32_t flags);
int rbd_group_snap_remove(rados_ioctx_t ioctx, const char *group, const char *snapshot);
int rbd_group_snap_rename(rados_ioctx_t ioctx, const char *group, const char *from, const char *to);
int rbd_group_snap_list(rados_ioctx_t ioctx, const char *group, rbd_group_snap_info_t *snapshots, size_t size,
    size_t *most);
int rbd_group_snap_list_cleanup(const rbd_group_snap_info_t *snapshots, size_t size, size_t count);
int rbd_group_snap_rollback(rados_ioctx_t ioctx, const char *group, const char *snapshot);
int rbd_group_snap_rollback_with_progress(rados_ioctx_t ioctx, const char *group, const char *snapshot,
    librbd_progress_fn_t progress, void *argument);

/* The groups of a pool. */
int rbd_group_create(rados_ioctx_t ioctx, const char *name);
int rbd_group_remove(rados_ioctx_t ioctx, const char *name);
int rbd_group_rename(rados_ioctx_t ioctx, const char *from, const char *to);
int rbd_group_list(rados_ioctx_t ioctx, char *names, size_t *size);
int rbd_group_get_id(rados_ioctx_t ioctx, const char *name, char *id, size_t *size);

/* The namespaces of a pool. */
int rbd_namespace_create(rados_ioctx_t ioctx, const char *namespace);
int rbd_namespace_remove(rados_ioctx_t ioctx, const char *namespace);

/* A pool as a place of images, and what is noted at it. */
int rbd_pool_init(rados_ioctx_t ioctx, bool force);
int rbd_pool_metadata_get(rados_ioctx_t ioctx, const char *key, char *value, size_t *len);
int rbd_pool_metadata_set(rados_ioctx_t ioctx, const char *key, const char *value);
int rbd_pool_metadata_remove(rados_ioctx_t ioctx, const char *key);
int rbd_pool_metadata_list(rados_ioctx_t ioctx, const char *after, uint64_t most, char *keys, size_t
    *keys_len, char *values, size_t *values_len);

/* Sums of what a pool's images are. */
void rbd_pool_stats_create(rbd_pool_stats_t *stats);
void rbd_pool_stats_destroy(rbd_pool_stats_t stats);
int rbd_pool_stats_option_add_uint64(rbd_pool_stats_t stats, int option, uint64_t *value);
int rbd_pool_stats_get(rados_ioctx_t ioctx, rbd_pool_stats_t stats);

/* The trash of a pool. */
int rbd_trash_move(rados_ioctx_t ioctx, const char *name, uint64_t delay);
int rbd_trash_get(rados_ioctx_t ioctx, const char *id, rbd_trash_image_info_t *found);
void rbd_trash_get_cleanup(const rbd_trash_image_info_t *found);
int rbd_trash_list(rados_ioctx_t ioctx, rbd_trash_image_info_t *entries, size_t *most);
void rbd_trash_list_cleanup(const rbd_trash_image_info_t *entries, size_t count);
int rbd_trash_remove(rados_ioctx_t ioctx, const char *id, bool force);
int rbd_trash_remove_with_progress(rados_ioctx_t ioctx, const char *id, bool force, librbd_progress_fn_t
    progress, void *argument);
int rbd_trash_restore(rados_ioctx_t ioctx, const char *id, const char *name);
int rbd_trash_purge(rados_ioctx_t ioctx, time_t before, float threshold);
int rbd_trash_purge_with_progress(rados_ioctx_t ioctx, time_t before, float threshold, librbd_progress_fn_t
    progress, void *argument);

/* Snapshots are made, renamed, protected, rolled back to, removed. */
int rbd_snap_create(rbd_image_t image, const char *name);
int rbd_snap_create2(rbd_image_t image, const char *name, uint32_t flags, librbd_progress_fn_t progress, void
    *argument);
int rbd_snap_remove(rbd_image_t image, const char *name);
int rbd_snap_remove2(rbd_image_t image, const char *name, uint32_t flags, librbd_progress_fn_t progress, void
    *argument);
int rbd_snap_remove_by_id(rbd_image_t image, uint64_t id);
int rbd_snap_rollback(rbd_image_t image, const char *name);
int rbd_snap_rollback_with_progress(rbd_image_t image, const char *name, librbd_progress_fn_t progress, void
    *argument);
int rbd_snap_rename(rbd_image_t image, const char *from, const char *to);
int rbd_snap_protect(rbd_image_t image, const char *name);
int rbd_snap_unprotect(rbd_image_t image, const char *name);

/* What snapshots were made for, if not for a user. */
int rbd_snap_get_namespace_type(rbd_image_t image, uint64_t id, rbd_snap_namespace_type_t *kind);
int rbd_snap_get_group_namespace(rbd_image_t image, uint64_t id, rbd_snap_group_namespace_t *of, size_t size);
int rbd_snap_group_namespace_cleanup(const rbd_snap_group_namespace_t *of, size_t size);
int rbd_snap_get_trash_namespace(rbd_image_t image, uint64_t id, char *name, size_t len);
int rbd_snap_get_trash_namespace2(rbd_image_t image, uint64_t id, rbd_snap_trash_namespace_t *of, size_t
    size);
int rbd_snap_trash_namespace_cleanup(const rbd_snap_trash_namespace_t *of, size_t size);
int rbd_snap_get_mirror_namespace(rbd_image_t image, uint64_t id, rbd_snap_mirror_namespace_t *of, size_t
    size);
int rbd_snap_mirror_namespace_cleanup(const rbd_snap_mirror_namespace_t *of, size_t size);

/* Snapshots of an image, as its header lists them, and which of them is shown. */
int rbd_snap_is_protected(rbd_image_t image, const char *name, int *is_protected);
int rbd_snap_get_timestamp(rbd_image_t image, uint64_t id, struct timespec *time);
int rbd_snap_get_limit(rbd_image_t image, uint64_t *most);
int rbd_snap_set_limit(rbd_image_t image, uint64_t most);
int rbd_snap_set_by_id(rbd_image_t image, uint64_t id);

/* Copies of images. */
int rbd_copy(rbd_image_t image, rados_ioctx_t ioctx, const char *name);
int rbd_copy2(rbd_image_t from, rbd_image_t to);
int rbd_copy3(rbd_image_t image, rados_ioctx_t ioctx, const char *name, rbd_image_options_t options);
int rbd_copy4(rbd_image_t image, rados_ioctx_t ioctx, const char *name, rbd_image_options_t options, size_t
    sparse_size);
int rbd_copy_with_progress(rbd_image_t image, rados_ioctx_t ioctx, const char *name, librbd_progress_fn_t
    progress, void *argument);
int rbd_copy_with_progress2(rbd_image_t from, rbd_image_t to, librbd_progress_fn_t progress, void *argument);
int rbd_copy_with_progress3(rbd_image_t image, rados_ioctx_t ioctx, const char *name, rbd_image_options_t
    options, librbd_progress_fn_t progress, void *argument);
int rbd_copy_with_progress4(rbd_image_t image, rados_ioctx_t ioctx, const char *name, rbd_image_options_t
    options, librbd_progress_fn_t progress, void *argument, size_t sparse_size);
int rbd_deep_copy(rbd_image_t image, rados_ioctx_t ioctx, const char *name, rbd_image_options_t options);
int rbd_deep_copy_with_progress(rbd_image_t image, rados_ioctx_t ioctx, const char *name, rbd_image_options_t
    options, librbd_progress_fn_t progress, void *argument);

/* Encrypted images: LUKS within the image. */
int rbd_encryption_format(rbd_image_t image, rbd_encryption_format_t format, rbd_encryption_options_t given, size_t size);
int rbd_encryption_load(rbd_image_t image, rbd_encryption_format_t format, rbd_encryption_options_t given, size_t size);
int rbd_encryption_load2(rbd_image_t image, const rbd_encryption_spec_t *specs, size_t count);

/* Moves of images while they are used, and imports. */
int rbd_migration_prepare(rados_ioctx_t ioctx, const char *image, rados_ioctx_t to_ioctx, const char *to,
    rbd_image_options_t options);
int rbd_migration_prepare_import(const char *source_spec, rados_ioctx_t ioctx, const char *image, rbd_image_options_t
    options);
int rbd_migration_execute(rados_ioctx_t ioctx, const char *image);
int rbd_migration_execute_with_progress(rados_ioctx_t ioctx, const char *image, librbd_progress_fn_t progress,
    void *argument);
int rbd_migration_abort(rados_ioctx_t ioctx, const char *image);
int rbd_migration_abort_with_progress(rados_ioctx_t ioctx, const char *image, librbd_progress_fn_t progress,
    void *argument);
int rbd_migration_commit(rados_ioctx_t ioctx, const char *image);
int rbd_migration_commit_with_progress(rados_ioctx_t ioctx, const char *image, librbd_progress_fn_t progress,
    void *argument);

/* How far moves of images are. */
int rbd_migration_status(rados_ioctx_t ioctx, const char *image, rbd_image_migration_status_t *found, size_t
    size);
void rbd_migration_status_cleanup(const rbd_image_migration_status_t *found);
int rbd_get_migration_source_spec(rbd_image_t image, char *text, size_t *len);

/* Maps of objects are made anew; blocks of zeros give their room back. */
int rbd_rebuild_object_map(rbd_image_t image, librbd_progress_fn_t progress, void *argument);
int rbd_sparsify(rbd_image_t image, size_t block);
int rbd_sparsify_with_progress(rbd_image_t image, size_t block, librbd_progress_fn_t progress, void
    *argument);

/* The clients that have an image open, and what they are told. */
int rbd_update_watch(rbd_image_t image, uint64_t *handle, rbd_update_callback_t told, void *argument);
int rbd_update_unwatch(rbd_image_t image, uint64_t handle);
int rbd_quiesce_watch(rbd_image_t image, rbd_update_callback_t begin, rbd_update_callback_t end, void
    *argument, uint64_t *handle);
void rbd_quiesce_complete(rbd_image_t image, uint64_t handle, int result);
int rbd_quiesce_unwatch(rbd_image_t image, uint64_t handle);


/* Mirroring of single images is switched on and off, and images change their roles. Images that are not mirrored are refused. */
int rbd_mirror_image_enable(rbd_image_t image);
int rbd_mirror_image_enable2(rbd_image_t image, rbd_mirror_image_mode_t mode);
int rbd_mirror_image_disable(rbd_image_t image, bool force);
int rbd_mirror_image_promote(rbd_image_t image, bool force);
int rbd_mirror_image_demote(rbd_image_t image);
int rbd_mirror_image_resync(rbd_image_t image);
int rbd_mirror_image_create_snapshot(rbd_image_t image, uint64_t *snapshot);
int rbd_mirror_image_create_snapshot2(rbd_image_t image, uint32_t flags, uint64_t *snapshot);
int rbd_mirror_image_get_instance_id(rbd_image_t image, char *id, size_t *len);
int rbd_aio_mirror_image_promote(rbd_image_t image, bool force, rbd_completion_t completion);
int rbd_aio_mirror_image_demote(rbd_image_t image, rbd_completion_t completion);
int rbd_aio_mirror_image_create_snapshot(rbd_image_t image, uint32_t flags, uint64_t *snapshot, rbd_completion_t
    completion);

/* How peers are reached: what the cluster keeps of it for its daemons. */
int rbd_mirror_peer_site_get_attributes(rados_ioctx_t ioctx, const char *uuid, char *keys, size_t *keys_len,
    char *values, size_t *values_len, size_t *count);
int rbd_mirror_peer_site_set_attributes(rados_ioctx_t ioctx, const char *uuid, const char *keys, const char
    *values, size_t count);
int rbd_mirror_peer_get_attributes(rados_ioctx_t ioctx, const char *uuid, char *keys, size_t *keys_len, char
    *values, size_t *values_len, size_t *count);
int rbd_mirror_peer_set_attributes(rados_ioctx_t ioctx, const char *uuid, const char *keys, const char
    *values, size_t count);

/* What clusters are called, and the tokens by which one becomes the peer of another. */
int rbd_mirror_site_name_get(rados_t cluster, char *name, size_t *len);
int rbd_mirror_site_name_set(rados_t cluster, const char *name);
int rbd_mirror_peer_bootstrap_create(rados_ioctx_t ioctx, char *token, size_t *len);
int rbd_mirror_peer_bootstrap_import(rados_ioctx_t ioctx, rbd_mirror_peer_direction_t direction, const char
    *token);

/* Is an image mirrored? Images that are mirrored are not looked into further. */
int rbd_mirror_image_get_info(rbd_image_t image, rbd_mirror_image_info_t *found, size_t size);
void rbd_mirror_image_get_info_cleanup(const rbd_mirror_image_info_t *found);
int rbd_mirror_image_get_mode(rbd_image_t image, rbd_mirror_image_mode_t *found);
int rbd_aio_mirror_image_get_info(rbd_image_t image, rbd_mirror_image_info_t *found, size_t size,
    rbd_completion_t completion);
int rbd_aio_mirror_image_get_mode(rbd_image_t image, rbd_mirror_image_mode_t *found, rbd_completion_t completion);

/* Lists of the images of a pool that are mirrored. They are given where there are none. */
int rbd_mirror_image_global_status_list(rados_ioctx_t ioctx, const char *after, size_t most, char **ids,
    rbd_mirror_image_global_status_t *statuses, size_t *len);
void rbd_mirror_image_global_status_list_cleanup(char **ids, rbd_mirror_image_global_status_t *statuses, size_t
    len);
int rbd_mirror_image_status_list(rados_ioctx_t ioctx, const char *after, size_t most, char **ids,
    rbd_mirror_image_status_t *statuses, size_t *len);
void rbd_mirror_image_status_list_cleanup(char **ids, rbd_mirror_image_status_t *statuses, size_t len);
int rbd_mirror_image_instance_id_list(rados_ioctx_t ioctx, const char *after, size_t most, char **ids, char
    **instances, size_t *len);
void rbd_mirror_image_instance_id_list_cleanup(char **ids, char **instances, size_t len);
int rbd_mirror_image_info_list(rados_ioctx_t ioctx, rbd_mirror_image_mode_t *mode, const char *after, size_t most,
    char **ids, rbd_mirror_image_mode_t *modes, rbd_mirror_image_info_t *infos, size_t *len);
void rbd_mirror_image_info_list_cleanup(char **ids, rbd_mirror_image_info_t *infos, size_t len);
int rbd_mirror_image_status_summary(rados_ioctx_t ioctx, rbd_mirror_image_status_state_t *states, int *counts,
    size_t *len);

/* The peers of a pool as programs of before knew them: both sides send. */
int rbd_mirror_peer_add(rados_ioctx_t ioctx, char *uuid, size_t uuid_len, const char *cluster, const char
    *client);
int rbd_mirror_peer_list(rados_ioctx_t ioctx, rbd_mirror_peer_t *found, int *most);
void rbd_mirror_peer_list_cleanup(const rbd_mirror_peer_t *found, int count);
int rbd_mirror_peer_remove(rados_ioctx_t ioctx, const char *uuid);
int rbd_mirror_peer_set_client(rados_ioctx_t ioctx, const char *uuid, const char *client);
int rbd_mirror_peer_set_cluster(rados_ioctx_t ioctx, const char *uuid, const char *cluster);

/* What of a pool is mirrored, and what it calls itself. */
int rbd_mirror_mode_get(rados_ioctx_t ioctx, rbd_mirror_mode_t *found);
int rbd_mirror_mode_set(rados_ioctx_t ioctx, rbd_mirror_mode_t wanted);
int rbd_mirror_uuid_get(rados_ioctx_t ioctx, char *name, size_t *len);
int rbd_mirror_remote_namespace_get(rados_ioctx_t ioctx, char *name, size_t *len);
int rbd_mirror_remote_namespace_set(rados_ioctx_t ioctx, const char *name);

/* The peers of a pool: other clusters. */
int rbd_mirror_peer_site_add(rados_ioctx_t ioctx, char *uuid, size_t uuid_len, rbd_mirror_peer_direction_t direction, const char
    *site, const char *client);
int rbd_mirror_peer_site_remove(rados_ioctx_t ioctx, const char *uuid);
int rbd_mirror_peer_site_set_name(rados_ioctx_t ioctx, const char *uuid, const char *site);
int rbd_mirror_peer_site_set_client_name(rados_ioctx_t ioctx, const char *uuid, const char *client);
int rbd_mirror_peer_site_set_direction(rados_ioctx_t ioctx, const char *uuid, rbd_mirror_peer_direction_t towards);
int rbd_mirror_peer_site_list(rados_ioctx_t ioctx, rbd_mirror_peer_site_t *sites, int *most);
void rbd_mirror_peer_site_list_cleanup(const rbd_mirror_peer_site_t *sites, int count);

/* How far the mirroring of an image is. Of one that is not mirrored nothing is known. */
int rbd_mirror_image_get_global_status(rbd_image_t image, rbd_mirror_image_global_status_t *found, size_t size);
void rbd_mirror_image_global_status_cleanup(rbd_mirror_image_global_status_t *found);
int rbd_mirror_image_get_status(rbd_image_t image, rbd_mirror_image_status_t *found, size_t size);
int rbd_aio_mirror_image_get_global_status(rbd_image_t image, rbd_mirror_image_global_status_t *found, size_t
    size, rbd_completion_t completion);
int rbd_aio_mirror_image_get_status(rbd_image_t image, rbd_mirror_image_status_t *found, size_t size,
    rbd_completion_t completion);

#ifdef __cplusplus
}
#endif

#endif
