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
    RBD_IMAGE_OPTION_FEATURES_CLEAR = 8,
    RBD_IMAGE_OPTION_DATA_POOL = 9
};

/* What rbd_set_image_notification is given. */
enum { EVENT_TYPE_PIPE = 1, EVENT_TYPE_EVENTFD = 2 };

typedef void *rbd_image_t;
typedef void *rbd_image_options_t;
typedef void *rbd_completion_t;

typedef void (*rbd_callback_t)(rbd_completion_t completion, void *arg);
typedef int (*librbd_progress_fn_t)(uint64_t offset, uint64_t total, void *arg);

/* Called for each part of an image: first byte, bytes, whether it holds data. */
typedef int (*librbd_diff_fn_t)(uint64_t offset, size_t length, int exists, void *arg);

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

#ifdef __cplusplus
}
#endif

#endif
