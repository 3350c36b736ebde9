/* A file layer that fails on purpose.

   Preloaded into a process, it counts the operations that change files below one folder. At the chosen operation it
   kills the process (before it, after it, or in the middle of a write), stops it, or answers this one or all later ones
   with an error. It can also write every operation and its bytes to a log, from which `faults_layer.py` makes the disks that a
   power cut could have left, and it can move the wall clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NOTHING, KILL_BEFORE, KILL_AFTER, TEAR, FAIL_ONCE, FAIL_ON, STOP_AFTER };
enum { CREATE, WRITE, TRUNCATE, FLUSH, RENAME, UNLINK, MAKE_FOLDER, MARK };

static char folder[PATH_MAX];
static size_t folder_size;
static int action, error_number, record_to = -1;
static long target, seen, offset_seconds;

#define REAL(name, result, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

void faults_arm(const char *below, int what, long at, int number, int log) {
    snprintf(folder, sizeof folder, "%s", below);
    folder_size = strlen(folder);
    action = what, target = at, error_number = number, record_to = log, seen = 0;
}

void faults_clock(long seconds) { offset_seconds = seconds; }

long faults_seen(void) { return seen; }

static int inside(const char *path) { return folder_size && path && !strncmp(path, folder, folder_size); }

static int path_of(int handle, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return inside(path);
}

static ssize_t plain_write(int handle, const void *bytes, size_t size) {
    REAL(write, ssize_t, int, const void *, size_t);
    return real(handle, bytes, size);
}

static void record(int kind, const char *path, int64_t place, const void *bytes, size_t size) {
    if (record_to < 0) return;
    int64_t head[4] = {kind, (int64_t)strlen(path), place, (int64_t)size};
    plain_write(record_to, head, sizeof head);
    plain_write(record_to, path, strlen(path));
    if (size) plain_write(record_to, bytes, size);
}

void faults_mark(const char *text) { record(MARK, text, 0, NULL, 0); }

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Whether the operation is to fail; the process may not come back from here. */
static int fails(int may_tear) {
    seen++;
    int due = seen == target;
    if (due && (action == KILL_BEFORE || (action == TEAR && !may_tear))) die();
    if ((due && action == FAIL_ONCE) || (seen >= target && action == FAIL_ON)) {
        errno = error_number;
        return 1;
    }
    return 0;
}

static void done(void) {
    if (seen == target && action == KILL_AFTER) die();
    if (seen == target && action == STOP_AFTER) kill(getpid(), SIGSTOP);
}

static int torn(void) { return seen == target && action == TEAR; }

ssize_t write(int handle, const void *bytes, size_t size) {
    REAL(write, ssize_t, int, const void *, size_t);
    char path[PATH_MAX];
    if (handle == record_to || !folder_size || !path_of(handle, path)) return real(handle, bytes, size);
    if (fails(1)) return -1;
    int64_t place = fcntl(handle, F_GETFL) & O_APPEND ? lseek(handle, 0, SEEK_END) : lseek(handle, 0, SEEK_CUR);
    if (torn()) {
        real(handle, bytes, size / 2);
        die();
    }
    ssize_t written = real(handle, bytes, size);
    if (written > 0) record(WRITE, path, place, bytes, (size_t)written);
    done();
    return written;
}

static ssize_t write_at(ssize_t (*real)(int, const void *, size_t, off64_t), int handle, const void *bytes,
                        size_t size, off64_t place) {
    char path[PATH_MAX];
    if (!folder_size || !path_of(handle, path)) return real(handle, bytes, size, place);
    if (fails(1)) return -1;
    if (torn()) {
        real(handle, bytes, size / 2, place);
        die();
    }
    ssize_t written = real(handle, bytes, size, place);
    if (written > 0) record(WRITE, path, place, bytes, (size_t)written);
    done();
    return written;
}

ssize_t pwrite(int handle, const void *bytes, size_t size, off_t place) {
    REAL(pwrite, ssize_t, int, const void *, size_t, off64_t);
    return write_at(real, handle, bytes, size, place);
}

ssize_t pwrite64(int handle, const void *bytes, size_t size, off64_t place) {
    REAL(pwrite64, ssize_t, int, const void *, size_t, off64_t);
    return write_at(real, handle, bytes, size, place);
}

static int cut(int (*real)(int, off64_t), int handle, off64_t size) {
    char path[PATH_MAX];
    if (!folder_size || !path_of(handle, path)) return real(handle, size);
    if (fails(0)) return -1;
    int result = real(handle, size);
    if (!result) record(TRUNCATE, path, size, NULL, 0);
    done();
    return result;
}

int ftruncate(int handle, off_t size) {
    REAL(ftruncate, int, int, off64_t);
    return cut(real, handle, size);
}

int ftruncate64(int handle, off64_t size) {
    REAL(ftruncate64, int, int, off64_t);
    return cut(real, handle, size);
}

static int flush(int (*real)(int), int handle) {
    char path[PATH_MAX];
    if (!folder_size || !path_of(handle, path)) return real(handle);
    if (fails(0)) return -1;
    int result = real(handle);
    if (!result) record(FLUSH, path, 0, NULL, 0);
    done();
    return result;
}

int fsync(int handle) {
    REAL(fsync, int, int);
    return flush(real, handle);
}

int fdatasync(int handle) {
    REAL(fdatasync, int, int);
    return flush(real, handle);
}

static int open_one(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    if (!inside(path) || !(flags & (O_WRONLY | O_RDWR))) return real(path, flags, mode);
    struct stat before;
    int new = stat(path, &before) != 0;
    if (fails(0)) return -1;
    int handle = real(path, flags, mode);
    if (handle >= 0 && new) record(CREATE, path, 0, NULL, 0);
    if (handle >= 0 && !new && flags & O_TRUNC) record(TRUNCATE, path, 0, NULL, 0);
    done();
    return handle;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & O_CREAT) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) {
    MODE(flags);
    REAL(open, int, const char *, int, ...);
    return open_one(real, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE(flags);
    REAL(open64, int, const char *, int, ...);
    return open_one(real, path, flags, mode);
}

int rename(const char *from, const char *to) {
    REAL(rename, int, const char *, const char *);
    if (!inside(from)) return real(from, to);
    if (fails(0)) return -1;
    int result = real(from, to);
    if (!result) record(RENAME, from, 0, to, strlen(to));
    done();
    return result;
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    REAL(renameat, int, int, const char *, int, const char *);
    if (inside(from)) return rename(from, to); /* a whole path: the folders say nothing */
    return real(from_folder, from, to_folder, to);
}

int unlink(const char *path) {
    REAL(unlink, int, const char *);
    if (!inside(path)) return real(path);
    struct stat before;
    if (lstat(path, &before)) return real(path); /* nothing there: no change to count */
    if (fails(0)) return -1;
    int result = real(path);
    if (!result) record(UNLINK, path, 0, NULL, 0);
    done();
    return result;
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir, int, const char *, mode_t);
    struct stat before;
    if (!inside(path) || !lstat(path, &before)) return real(path, mode);
    if (fails(0)) return -1;
    int result = real(path, mode);
    if (!result) record(MAKE_FOLDER, path, 0, NULL, 0);
    done();
    return result;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime, int, clockid_t, struct timespec *);
    int result = real(clock, now);
    if (!result && clock == CLOCK_REALTIME) now->tv_sec += offset_seconds;
    return result;
}
