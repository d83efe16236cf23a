/*
 * What the programs in C beside this have in common: how they check something, and their cluster and its pool "rbd".
 */
#ifndef ONEGO_TESTS_CHECK_H
#define ONEGO_TESTS_CHECK_H

#include <errno.h>
#include <rados/librados.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *conf;
static rados_t cluster;
static rados_ioctx_t pool;

/* Ends the program if something is not as it should be. */
#define CHECK(is_so) check((is_so), #is_so, __LINE__)
static void check(int is_so, const char *text, int line) {
    if (!is_so) {
        printf("line %d: not so: %s\n", line, text);
        exit(1);
    }
}

/* Checks a number, and shows it if it is another. */
#define EQUAL(actual, expected) equal((long long)(actual), (long long)(expected), #actual, __LINE__)
static void equal(long long actual, long long expected, const char *text, int line) {
    if (actual != expected) {
        printf("line %d: %s is %lld, not %lld\n", line, text, actual, expected);
        exit(1);
    }
}

static void connect_to(rados_t *handle) {
    EQUAL(rados_create(handle, "admin"), 0);
    EQUAL(rados_conf_read_file(*handle, conf), 0);
    EQUAL(rados_connect(*handle), 0);
}

/* A test, and whether only our library promises it. */
struct test {
    const char *name;
    void (*run)(void);
    int is_ours_alone;
};

#define TEST(name) {#name, name, 0}
#define OURS(name) {#name, name, 1}

/* Runs the tests that a program has, on the cluster that its first argument names. */
static int run_tests(int argc, char **argv, const struct test *tests, size_t count) {
    int is_ours = argc > 2 && strcmp(argv[2], "ours") == 0;
    if (argc < 2)
        return 2;
    conf = argv[1];
    connect_to(&cluster);
    EQUAL(rados_ioctx_create(cluster, "rbd", &pool), 0);
    for (size_t i = 0; i < count; i++) {
        if (tests[i].is_ours_alone && !is_ours)
            continue;
        printf("%s\n", tests[i].name);
        fflush(stdout);
        tests[i].run();
    }
    rados_ioctx_destroy(pool);
    rados_shutdown(cluster);
    printf("all is well\n");
    return 0;
}

#endif
