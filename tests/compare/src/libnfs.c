// Reads or writes a file of an NFS server through libnfs, sequentially or at random, with IO_DEPTH requests in flight.
//
//   libnfs-load URL RW BLOCK_SIZE IO_DEPTH SECONDS FILE_SIZE SERVER_PID
//
// Prints a row in the format of `onego bench --json`. CPU times cover only the measured part; with SERVER_PID 0, that
// of the server is null.

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <nfsc/libnfs.h>

#define MAX_SAMPLES (1 << 22)

struct slot {
    struct load *load;
    uint64_t started;
};

struct load {
    struct nfs_context *nfs;
    struct nfsfh *file;
    const char *rw;
    char *bytes;
    uint64_t block, blocks, next, seed, end;
    uint64_t done, errors, last;
    int in_flight, writes, random;
    uint32_t *samples;
    uint64_t sum, max;
};

static uint64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static double own_cpu(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

// Returns the CPU time of all threads of a process, ended ones included.
static double cpu_of(int pid) {
    clockid_t clock;
    struct timespec at;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &at)) return -1;
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void start(struct slot *slot);

static void done(int result, struct nfs_context *nfs, void *data, void *private_data) {
    (void)nfs;
    (void)data;
    struct slot *slot = private_data;
    struct load *load = slot->load;
    load->last = now();
    uint64_t took = load->last - slot->started;
    if (result != (int)load->block) load->errors++;
    if (load->done < MAX_SAMPLES) load->samples[load->done] = took / 10 > UINT32_MAX ? UINT32_MAX : took / 10;
    load->sum += took;
    if (took > load->max) load->max = took;
    load->done++;
    load->in_flight--;
    if (load->last < load->end) start(slot);
}

static void start(struct slot *slot) {
    struct load *load = slot->load;
    uint64_t block = load->next++ % load->blocks;
    if (load->random) {
        // xorshift64
        load->seed ^= load->seed << 13, load->seed ^= load->seed >> 7, load->seed ^= load->seed << 17;
        block = load->seed % load->blocks;
    }
    uint64_t offset = block * load->block;
    slot->started = now();
    load->in_flight++;
    int begun = load->writes
        ? nfs_pwrite_async(load->nfs, load->file, offset, load->block, load->bytes, done, slot)
        : nfs_pread_async(load->nfs, load->file, offset, load->block, done, slot);
    if (begun < 0) fail("cannot send a request", nfs_get_error(load->nfs));
}

static int by_size(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static double percentile(const struct load *load, double part) {
    uint64_t count = load->done < MAX_SAMPLES ? load->done : MAX_SAMPLES;
    return count ? load->samples[(uint64_t)((count - 1) * part)] / 100.0 : 0;
}

int main(int argc, char **argv) {
    if (argc != 8) fail("usage: libnfs-load", "URL RW BLOCK_SIZE IO_DEPTH SECONDS FILE_SIZE SERVER_PID");
    struct load load = {.rw = argv[2], .block = strtoull(argv[3], 0, 10), .seed = 88172645463325252ull};
    int depth = atoi(argv[4]), pid = atoi(argv[7]);
    double seconds = atof(argv[5]);
    uint64_t size = strtoull(argv[6], 0, 10);
    load.blocks = size / load.block;
    load.writes = strstr(load.rw, "write") != 0;
    load.random = strncmp(load.rw, "rand", 4) == 0;
    load.bytes = malloc(1 << 20);
    load.samples = malloc(MAX_SAMPLES * sizeof *load.samples);
    memset(load.bytes, 'x', 1 << 20);

    load.nfs = nfs_init_context();
    struct nfs_url *url = nfs_parse_url_dir(load.nfs, argv[1]);
    if (!url) fail(argv[1], nfs_get_error(load.nfs));
    if (nfs_mount(load.nfs, url->server, url->path)) fail("cannot mount", nfs_get_error(load.nfs));
    if (nfs_creat(load.nfs, "/libnfs-load", 0644, &load.file)) fail("cannot create /libnfs-load", nfs_get_error(load.nfs));
    for (uint64_t at = 0; at < size; at += 1 << 20) {
        uint64_t piece = size - at < 1 << 20 ? size - at : 1 << 20;
        if (nfs_pwrite(load.nfs, load.file, at, piece, load.bytes) != (int)piece)
            fail("cannot write /libnfs-load", nfs_get_error(load.nfs));
    }
    if (nfs_close(load.nfs, load.file)) fail("cannot close /libnfs-load", nfs_get_error(load.nfs));
    if (nfs_open(load.nfs, "/libnfs-load", O_RDWR, &load.file)) fail("cannot open /libnfs-load", nfs_get_error(load.nfs));

    double client = own_cpu(), server = cpu_of(pid);
    uint64_t begin = now();
    load.end = begin + (uint64_t)(seconds * 1e9);
    struct slot *slots = calloc(depth, sizeof *slots);
    for (int i = 0; i < depth; i++) {
        slots[i].load = &load;
        start(&slots[i]);
    }
    while (load.in_flight > 0) {
        struct pollfd event = {.fd = nfs_get_fd(load.nfs), .events = nfs_which_events(load.nfs)};
        if (poll(&event, 1, -1) < 0) fail("cannot wait", "poll failed");
        if (nfs_service(load.nfs, event.revents) < 0) fail("lost the connection", nfs_get_error(load.nfs));
    }
    client = own_cpu() - client;
    if (server >= 0) server = cpu_of(pid) - server;
    double took = (load.last - begin) / 1e9;

    if (nfs_close(load.nfs, load.file)) fail("cannot close /libnfs-load", nfs_get_error(load.nfs));
    if (nfs_unlink(load.nfs, "/libnfs-load")) fail("cannot remove /libnfs-load", nfs_get_error(load.nfs));
    uint64_t count = load.done < MAX_SAMPLES ? load.done : MAX_SAMPLES;
    qsort(load.samples, count, sizeof *load.samples, by_size);
    char server_seconds[32] = "null", server_us[32] = "null";
    if (server >= 0) {
        snprintf(server_seconds, sizeof server_seconds, "%.6f", server);
        snprintf(server_us, sizeof server_us, "%.3f", server * 1e6 / load.done);
    }
    printf("{\"bench\":\"nfs\",\"engine\":\"libnfs\",\"mode\":\"tcp\",\"rw\":\"%s\",\"block_size\":%" PRIu64
           ",\"jobs\":1,\"io_depth\":%d,\"seconds\":%.6f,\"ios\":%" PRIu64 ",\"errors\":%" PRIu64
           ",\"iops\":%.1f,\"bytes_per_second\":%.0f,\"latency_us\":{\"mean\":%.2f,\"p50\":%.2f,\"p99\":%.2f,"
           "\"p999\":%.2f,\"max\":%.2f},\"cpu_seconds\":{\"client\":%.6f,\"server\":%s},"
           "\"cpu_us_per_io\":{\"client\":%.3f,\"server\":%s}}\n",
           load.rw, load.block, depth, took, load.done, load.errors, load.done / took,
           load.done / took * load.block, load.sum / 1e3 / load.done, percentile(&load, .5), percentile(&load, .99),
           percentile(&load, .999), load.max / 1e3, client, server_seconds, client * 1e6 / load.done, server_us);
    return load.errors > 0;
}
